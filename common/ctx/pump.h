/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pump: moves frames between the links and the engine. All under the endpoint's lock; runs no callbacks.
 */
#ifndef EMX_CTX_PUMP_H
#define EMX_CTX_PUMP_H

#include "ctx/ep.h"

/* One round: frames in, timers, frames out. every_wire: polls also those that would not be due. Returns how many
 * frames came. */
unsigned emx_pump(struct ethmx_ep *ep, bool every_wire);

/* Acts on the engine's events, then sends what it wants to send. After each operation. */
void emx_pump_flush(struct ethmx_ep *ep, emx_time now);

/* When the pump has to run again although no frame comes: EMX_NEVER, or a time. */
emx_time emx_pump_deadline(const struct ethmx_ep *ep);

#endif
