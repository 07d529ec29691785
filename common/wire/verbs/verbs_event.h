/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Asynchronous events of devices, stored in the device or connection that they concern. verbs_event.c explains why. Any
 * thread may read events. The owner of the device or connection reads what is stored.
 */
#ifndef EMX_WIRE_VERBS_EVENT_H
#define EMX_WIRE_VERBS_EVENT_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct emx_verbs_dev; /* verbs_dev.h */

/* For a device, inside it. */
struct emx_verbs_dev_events {
    atomic_bool any;         /* the device or one of its connections has an event */
    atomic_int fatal;        /* enum ibv_event_type: unusable from now on; EMX_VERBS_NO_EVENT */
    atomic_ullong ports_bad; /* a bit for each port that went down */
};

/* For a connection, inside it. */
struct emx_verbs_conn_events {
    atomic_int fatal;     /* as above */
    atomic_bool last_wqe; /* its queue pair takes nothing more from the shared queue */
};

#define EMX_VERBS_NO_EVENT (-1)

/* The bit of a port. */
static inline uint64_t emx_verbs_port_bit(unsigned port)
{
    return UINT64_C(1) << (port % 64);
}

/* Starts and stops storing the events of a device. */
void emx_verbs_events_open(struct emx_verbs_dev *d);
void emx_verbs_events_close(struct emx_verbs_dev *d);

/* Reads all events of a context, acknowledges them and stores them for their owners. Does not wait if the context's
 * descriptor is non-blocking. */
void emx_verbs_events_read(struct ibv_context *context);

/* Held around each change of a device's connections, because another thread may be storing an event there. */
void emx_verbs_events_lock(void);
void emx_verbs_events_unlock(void);

#endif
