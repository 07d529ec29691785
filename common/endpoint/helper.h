/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Helper: the thread that makes progress while the program computes. helper.c describes when it runs.
 */
#ifndef EMX_ENDPOINT_HELPER_H
#define EMX_ENDPOINT_HELPER_H

#include "endpoint/ep.h"

/* Whether the settings ask for the thread. */
static inline bool emx_helper_wanted(const struct emx_config *cfg)
{
    return cfg->p_heartbeat || cfg->p_progress == EMX_PROGRESS_THREAD;
}

/* Starts the thread if it is wanted. ETHMX_ERR_NO_MEMORY: the system refuses a thread; the error sentence is set. */
int emx_helper_start(struct ethmx_ep *ep);

/* The program has started an operation that needs several frames of the peer, and may now compute. Wakes the thread.
 * Cheap while wakeups are disabled. */
void emx_helper_wake(struct emx_helper *b);

/* A region is exposed: the thread serves peers as soon as the program computes. Starts it if there is none.
 * ETHMX_ERR_NO_MEMORY: the system refuses a thread; the error sentence is set. unserve(): it is withdrawn. */
int emx_helper_serve(struct ethmx_ep *ep);
void emx_helper_unserve(struct ethmx_ep *ep);

/* Stops the thread and joins it. Does nothing if there is none. */
void emx_helper_stop(struct ethmx_ep *ep);

/* Takes the lock for a round of progress of the helper; emx_lock_return() releases it. false: the program holds the
 * lock, or sleeps on the wires. Sleepers are checked under the lock: a program prepares its sleep under it, and would
 * not be woken by a frame that the helper took after that. */
bool emx_helper_enter(struct ethmx_ep *ep);

#endif
