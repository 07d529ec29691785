/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Helper: the thread that answers peers while the program computes. See helper.c.
 */
#ifndef EMX_ENDPOINT_HELPER_H
#define EMX_ENDPOINT_HELPER_H

#include "endpoint/ep.h"

/* Whether the settings ask for the thread. */
static inline bool emx_helper_wanted(const struct emx_config *cfg)
{
    return cfg->p_heartbeat || cfg->p_progress == EMX_PROGRESS_THREAD;
}

/* Starts the thread if it is wanted. ETHMX_ERR_NO_MEMORY: the system gives no thread; the error sentence is
 * set. */
int emx_helper_start(struct ethmx_ep *ep);

/* The program has started an operation that takes several frames from the peer, and may now compute. Cheap while
 * wakeups are disabled. */
void emx_helper_wake(struct emx_helper *b);

/* Stops the thread and joins it. Nothing if there is none. */
void emx_helper_stop(struct ethmx_ep *ep);

/* Takes the lock for a round of progress of the helper; emx_lock_return() gives it back. False: the program holds the
 * lock, or sleeps on the wires. The test for sleepers is made under the lock, because a program prepares its sleep
 * under it, and would not be woken by a frame that was taken after that. */
bool emx_helper_enter(struct ethmx_ep *ep);

#endif
