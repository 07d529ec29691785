/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Stands between the verbs wire and libibverbs, by functions of the same names: sees what is asked of devices, and
 * makes rxe and siw behave like the library of mlx5. For programs with one thread.
 */
#ifndef EMX_TESTS_GUEST_DRIVER_H
#define EMX_TESTS_GUEST_DRIVER_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct driver {
    /* What it does. */
    bool cleans; /* destroying a queue pair, or resetting it, drops its completions */
    bool tells;  /* the last of the shared receives is told, after a while; the flushed ones come then only */
    const struct ibv_pd *full; /* no more memory is registered there */
    bool refuses_relaxed;      /* memory is not registered with relaxed ordering */
    int refuses_vector;        /* there is no completion queue for this vector; -1: for all there is */
    int event_fd;              /* readable while there are events of the driver's own */
    /* What it has seen. */
    unsigned dropped;         /* completions of receives */
    unsigned events, acks;    /* events that were read, and acknowledged */
    unsigned types;           /* of them, a bit for each */
    int vector;               /* asked for last */
    unsigned relaxed, strict; /* memory registered with relaxed ordering, and without */
};

extern struct driver driver;

/* As at the beginning. Nothing is open. */
void driver_reset(void);

/* An event of the driver's own, to be read before those of the device: of a queue pair; or of the device or a port. */
void driver_qp_event(enum ibv_event_type type, struct ibv_qp *qp);
void driver_event(enum ibv_event_type type, struct ibv_context *context, int port);

/* Takes what the device has put into the queue and holds it until the wire polls. Returns how much it holds, of all
 * queues. The queue is one that is polled through the driver: driver.cleans or driver.tells. */
unsigned driver_fetch(struct ibv_cq *cq);

#endif
