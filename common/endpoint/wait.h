/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Wait: sleeping until a frame comes or a timer is due.
 */
#ifndef EMX_ENDPOINT_WAIT_H
#define EMX_ENDPOINT_WAIT_H

#include "endpoint/ep.h"

/* What to sleep on, found under the lock and used without it. */
struct emx_wait {
    struct pollfd fd[EMX_LINKS_FDS + 1];
    unsigned fd_count;
    uint64_t timeout_ns;
};

/* Prepares to sleep for at most timeout_ns: shorter if a timer is due earlier, if a wire can only be polled, or if
 * another thread may do what this one waits for; not at all if a wire finds frames at the last moment.
 * Under the lock. A poll by another thread between this and the sleep ends the readiness to be woken.
 */
void emx_wait_prepare(struct ethmx_ep *ep, uint64_t timeout_ns, struct emx_wait *w);

/* Sleeps. Returns true if a descriptor was ready. */
bool emx_wait_sleep(struct emx_wait *w);

#endif
