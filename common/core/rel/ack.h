/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Acknowledgements that are owed to a peer: at once, in a while, or when the message they are for has been delivered.
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

/* An acknowledgement is to leave as soon as a frame can. */
static inline void emx_reorder_ack_now(struct emx_session *s)
{
    emx_reorder_due(&s->rx);
    emx_session_ready(s);
}

/* Whether the frames that were accepted are to be acknowledged now, rather than in a while. */
static inline bool emx_reorder_acks_at_once(const struct emx_session *s)
{
    const struct emx_config *cfg = s->e->cfg;

    return s->rx.unacked >= cfg->p_ack_every || s->rx.unacked > cfg->p_window / 4 || s->rx.held_count ||
           !s->rx.ack_delay_ns;
}

/* A frame has been received the fast path: what it acknowledges is looked at, and it is acknowledged, at the next
 * emx_session_deferred_ack(), which all begin with that must know what is under way. By then an answer may have
 * acknowledged it. If it is to be acknowledged at once, that is done. */
static inline void emx_session_later(struct emx_session *s, uint32_t ack, emx_time now)
{
    struct emx_engine *e = s->e;

    emx_session_deferred_ack(e);
    e->deferred = (struct emx_deferred_ack){.session = s, .now = now, .ack = ack};
    e->hints.deferred_acks = true;
    if (s->rx.unacked && emx_reorder_acks_at_once(s))
        emx_session_deferred_ack_now(e);
}

static inline void emx_credit_tell(struct emx_session *s) /* the sender, before it runs dry */
{
    if (emx_credit_is_news(&s->credit))
        emx_reorder_ack_now(s);
}

static inline void emx_credit_passed(struct emx_session *s, uint32_t cost) /* charged and released at once */
{
    emx_credit_charge(&s->credit, cost);
    emx_credit_released(&s->credit, cost);
    emx_credit_tell(s);
}

#endif
