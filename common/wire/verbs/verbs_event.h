/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What devices tell on their own account (asynchronous events), noted where it belongs. See verbs_event.c.
 * Thread safety: any thread may read; what is noted is for the owner of the device or connection.
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
    atomic_bool any;         /* something is noted here, or in one of its connections */
    atomic_int fatal;        /* enum ibv_event_type: it is of no use any more; EMX_VERBS_NO_EVENT */
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

/* From now on what the device tells is noted. */
void emx_verbs_events_open(struct emx_verbs_dev *d);
void emx_verbs_events_close(struct emx_verbs_dev *d);

/* Takes all events that a context has, acknowledges them and notes them, for whomever they are. Does not wait if the
 * context's descriptor does not. */
void emx_verbs_events_read(struct ibv_context *context);

/* Around each change of the connections of a device: another thread may be about to note something there. */
void emx_verbs_events_lock(void);
void emx_verbs_events_unlock(void);

#endif
