/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Events: what the engine tells of peers as a whole: asks for routes, connected, lost, failed.
 */
#ifndef EMX_ENDPOINT_EVENT_H
#define EMX_ENDPOINT_EVENT_H

#include "endpoint/ep.h"

/* emx_progress.on_event of an endpoint: takes all events, finds routes, writes the log, keeps failures for the program.
 * Under the lock, in any thread. */
void emx_event_handle(void *ep, emx_time now);

/* Tells the program of failures, by its callback or on stderr. In the program's thread, under the lock, which is given
 * up during the callbacks. Returns how many there were. */
unsigned emx_event_deliver(struct ethmx_ep *ep);

/* The peer is no more: its failure is not told. Under the lock. */
void emx_event_forget(struct ethmx_ep *ep, const struct emx_peer *peer);

/* Frees failures that were not told. */
void emx_event_drop(struct ethmx_ep *ep);

#endif
