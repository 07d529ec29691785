/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Heartbeat: the helper thread that answers peers while the program computes. See beat.c.
 */
#ifndef EMX_CTX_BEAT_H
#define EMX_CTX_BEAT_H

#include "ctx/ep.h"

/* Starts the thread unless ETHMX_HEARTBEAT is 0. ETHMX_ERR_NO_MEMORY: the system gives no thread; the error sentence
 * is set. */
int emx_beat_start(struct ethmx_ep *ep);

/* Ends the thread and waits for its end. Harmless when there is none. */
void emx_beat_stop(struct ethmx_ep *ep);

/* After each send, under the lock: sees to it that small messages are gathered when there are many of them. */
void emx_beat_sent(struct ethmx_ep *ep);

#endif
