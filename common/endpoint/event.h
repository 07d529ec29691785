/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Events: what the engine reports about peers: it needs routes, a peer is connected, unreachable, or has failed.
 */
#ifndef EMX_ENDPOINT_EVENT_H
#define EMX_ENDPOINT_EVENT_H

#include "endpoint/ep.h"

/* emx_progress.on_event of an endpoint: handles all events. Finds routes, writes the log, and keeps failures for
 * emx_event_deliver(). Under the lock, in any thread. */
void emx_event_handle(void *ep, emx_time now);

/* emx_progress.on_look of an endpoint: tells wires and engine how the interfaces have changed. Under the lock. */
void emx_event_look(void *ep, emx_time now);

/* Reports failures to the program, by its callback or on stderr. Runs in the program's thread, under the lock, which is
 * released during the callbacks. Returns how many there were. */
unsigned emx_event_deliver(struct ethmx_ep *ep);

/* Discards the failure of a peer that is being removed. Under the lock. */
void emx_event_forget(struct ethmx_ep *ep, const struct emx_peer *peer);

/* Frees failures that were not reported. */
void emx_event_drop(struct ethmx_ep *ep);

#endif
