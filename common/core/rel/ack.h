/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Acknowledgements that are owed to a peer: immediately, after a delay, or when the message they are for has been
 * delivered.
 */
#ifndef EMX_CORE_ACK_H
#define EMX_CORE_ACK_H

#include <stdbool.h>

#include "core/rel/session.h"

void emx_session_deferred_ack_now(struct emx_engine *e);

static inline void emx_session_deferred_ack(struct emx_engine *e)
{
    if (__builtin_expect(e->deferred.session != NULL, 0))
        emx_session_deferred_ack_now(e);
}

/* An acknowledgement must leave as soon as a frame can. */
static inline void emx_reorder_ack_now(struct emx_session *s)
{
    emx_reorder_due(&s->rx);
    emx_session_ready(s);
}

#define EMX_ACK_CALM  1024 /* frames in order, after which few acknowledgements are enough */
#define EMX_ACK_SHARE 8    /* until then this part of ack_every */

/* Whether so many frames were accepted that they are acknowledged. A sender with a small congestion window stops until
 * then, and the receiver does not know that window. It is small at first, and after losses, which the receiver sees as
 * gaps. */
static inline bool emx_reorder_acks_many(const struct emx_session *s, unsigned ack_every)
{
    return s->rx.unacked >= ack_every ||
           (s->rx.unacked * EMX_ACK_SHARE >= ack_every && s->rx.next - s->rx.gap < EMX_ACK_CALM);
}

/* Whether the accepted frames must be acknowledged immediately, rather than after a delay. */
static inline bool emx_reorder_acks_at_once(const struct emx_session *s)
{
    const struct emx_config *cfg = s->e->cfg;

    return emx_reorder_acks_many(s, cfg->p_ack_every) || s->rx.unacked > cfg->p_window / 4 || s->rx.held_count ||
           !s->rx.ack_delay_ns;
}

/* A frame was received on the fast path. Its acknowledgement is handled, and it is acknowledged, in the next
 * emx_session_deferred_ack(), which every function calls first that must know what is in flight. By then a reply may
 * have acknowledged it. If it must be acknowledged immediately, that is done. */
static inline void emx_session_later(struct emx_session *s, uint32_t ack, emx_time now)
{
    struct emx_engine *e = s->e;

    emx_session_deferred_ack(e);
    e->deferred = (struct emx_deferred_ack){.session = s, .now = now, .ack = ack};
    e->ready_flags.deferred_acks = true;
    if (s->rx.unacked && emx_reorder_acks_at_once(s))
        emx_session_deferred_ack_now(e);
}

static inline void emx_credit_tell(struct emx_session *s) /* the sender's credit, before it is used up */
{
    if (emx_credit_is_news(&s->credit))
        emx_reorder_ack_now(s);
}

static inline void emx_credit_passed(struct emx_session *s, uint32_t cost) /* charged and released at the same time */
{
    emx_credit_charge(&s->credit, cost);
    emx_credit_released(&s->credit, cost);
    emx_credit_tell(s);
}

#endif
