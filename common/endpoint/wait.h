/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Wait: sleeping until a frame arrives or a timer is due, in ethmx or in the program by the endpoint's descriptor.
 */
#ifndef EMX_ENDPOINT_WAIT_H
#define EMX_ENDPOINT_WAIT_H

#include "endpoint/ep.h"

/* The descriptors and the time to sleep; filled under the lock and used without it. */
struct emx_wait {
    struct pollfd fd[EMX_LINKS_FDS + 2]; /* the watch on interfaces, the helper */
    unsigned fd_count;
    uint64_t timeout_ns;
};

/* Prepares to sleep for at most timeout_ns: less if a timer is due earlier, if a wire can only be polled, or if another
 * thread may do what this one waits for; 0 if a wire has frames already. Under the lock. If another thread polls
 * between this call and the sleep, a frame may no longer end the sleep. */
void emx_wait_prepare(struct ethmx_ep *ep, uint64_t timeout_ns, struct emx_wait *w);

/* Closes the endpoint's descriptor. */
void emx_wait_close(struct ethmx_ep *ep);

/* Sleeps. Returns true if a descriptor was ready. */
bool emx_wait_sleep(struct emx_wait *w);

#endif
