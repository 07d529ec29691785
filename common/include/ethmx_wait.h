/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting by a descriptor: for programs that wait for an endpoint and for other things at once, by poll(2) or epoll(7).
 * Part of the interface of libethmx; ethmx.h has the rules for threads, callbacks and errors.
 *
 *     while (!over) {
 *         if (ethmx_progress(ep) || ethmx_wait_arm(ep) == ETHMX_ERR_BUSY)
 *             continue;
 *         poll(...);    with the descriptor of ethmx_wait_fd(), for POLLIN
 *     }
 */
#ifndef ETHMX_WAIT_H
#define ETHMX_WAIT_H

#include "ethmx.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* The endpoint's descriptor, made by the first call. It stays the same, and is closed with the endpoint. The program
 * only polls it. ETHMX_ERR_NO_MEMORY: the system has no more descriptors. ETHMX_ERR_CLOSED. */
int ethmx_wait_fd(struct ethmx_ep *ep, int *fd_p);

/* Prepares one wait. ETHMX_OK: from now on the descriptor becomes readable when there may be something to do for
 * ethmx_progress(): a frame has arrived, or a timer is due. That may be in vain; in endpoints with thread_multiple it
 * is after a millisecond at the latest, because other threads may take what this one waits for. The program calls
 * ethmx_progress() after the wait, and before it computes: until then, the helper thread assumes that the program
 * waits. An operation that is started after this call needs another one.
 *
 * ETHMX_ERR_BUSY: there is something to do at once; the descriptor may not show it. ETHMX_ERR_PARAM: ethmx_wait_fd()
 * was not called. ETHMX_ERR_CLOSED. ETHMX_ERR_NO_MEMORY: a descriptor cannot be watched. */
int ethmx_wait_arm(struct ethmx_ep *ep);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
