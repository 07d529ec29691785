/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Heartbeat: the helper thread that answers peers while the program computes. See helper.c.
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

/* The program has started what takes several frames from the peer, and may now compute. Cheap when the thread knows
 * that the program polls. */
void emx_helper_wake(struct emx_helper *b);

/* Ends the thread and waits for its end. Harmless when there is none. */
void emx_helper_stop(struct ethmx_ep *ep);

/* The thread's way in: takes the lock for a round of progress, to be given back with emx_lock_return(). False: the
 * program is inside, or sleeps on the wires. A sleeper is told apart under the lock only: it lays itself down under it,
 * and a frame that were taken after that would not wake it any more.
 */
bool emx_helper_enter(struct ethmx_ep *ep);

#endif
