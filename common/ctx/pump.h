/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pump: moves frames between the links and the engine. All under the endpoint's lock; runs no callbacks.
 */
#ifndef EMX_CTX_PUMP_H
#define EMX_CTX_PUMP_H

#include "ctx/ep.h"

/* One round: frames in, timers, frames out. every_wire: polls also those that would not be due. Returns how many
 * frames came.
 * quick_p: NULL, or *quick_p is NULL and may become a receive that was done the short way (emx_engine_input_short()):
 * the caller's to tell at once, and then to free. */
unsigned emx_pump(struct ethmx_ep *ep, bool every_wire, struct emx_op **quick_p);

/* Written where the wire wants it, without a look at the clock. */
static inline bool emx_pump_place(struct ethmx_ep *ep, struct emx_link *k, struct emx_peer *peer,
                                  const struct emx_op_args *a)
{
    const struct emx_wire_addr *to;
    uint32_t len_bytes = k->ops->place ? emx_engine_place(peer, a, &to) : 0;
    void *frame = len_bytes ? k->ops->place(k->wire, to, len_bytes) : NULL;

    if (!frame)
        return false;
    emx_engine_write_placed(peer, a, frame);
    k->ops->placed(k->wire);
    emx_engine_send_placed(peer, a, ep->clock.last_ns);
    return true;
}

/* Sends a message the short way, if that is possible in this moment. */
static inline bool emx_pump_quick(struct ethmx_ep *ep, struct emx_peer *peer, const struct emx_op_args *a, int *rc_p)
{
    struct emx_txframe f;
    struct emx_link *k;
    unsigned link;

    if (!emx_engine_quick(peer, a, &link))
        return false;
    k = &ep->links.link[link];
    *rc_p = ETHMX_OK;
    if (emx_pump_place(ep, k, peer, a))
        return true;
    if (!k->ops->tx_room(k->wire))
        return false;
    *rc_p = emx_engine_send_quick(peer, a, &f, emx_clock_now(&ep->clock));
    if (*rc_p == ETHMX_OK)
        k->ops->tx(k->wire, &f, 1);
    return true;
}

/* Sends a message of several frames that way, one after the other. false: not possible. *rc_p ETHMX_INPROGRESS: the
 * rest waits; flush. */
bool emx_pump_place_all(struct ethmx_ep *ep, struct emx_peer *peer, const struct emx_op_args *a, emx_time now,
                        int *rc_p);

/* Acts on the engine's events, then sends what it wants to send. After each operation. */
void emx_pump_flush_now(struct ethmx_ep *ep, emx_time now);
static inline bool emx_pump_wants_flush(const struct ethmx_ep *ep)
{
    const struct emx_engine_hints *hints = emx_engine_hints(ep->engine);

    return hints->output | hints->reads | hints->memory | (hints->news & EMX_NEWS_EVENT);
}
static inline void emx_pump_flush(struct ethmx_ep *ep, emx_time now)
{
    if (emx_pump_wants_flush(ep))
        emx_pump_flush_now(ep, now);
}

/* When the pump has to run again although no frame comes: EMX_NEVER, or a time. */
emx_time emx_pump_deadline(const struct ethmx_ep *ep);

/* Waits until no other process writes to the program's memory, in reads that are under way. */
void emx_pump_end_reads(struct ethmx_ep *ep);

#endif
