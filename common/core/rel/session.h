/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Session: the connection to one peer. Its structure is in session_impl.h.
 */
#ifndef EMX_CORE_SESSION_H
#define EMX_CORE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/session_impl.h"

/* Dead or closed: nothing is sent or received any more. */
static inline bool emx_session_over(const struct emx_session *s)
{
    return s->state == EMX_S_DEAD || s->state == EMX_S_CLOSED;
}

static inline const struct emx_route *emx_connect_route(const struct emx_session *s) /* in use, or being tried */
{
    return &s->connect->route[s->connect->current];
}

/* Whether the route in use carries TSO packets: these have no tag and no checksum over data. */
static inline bool emx_connect_has_tso(const struct emx_session *s)
{
    return s->gso_bytes && emx_connect_route(s)->tso && !s->fragment.out &&
           (s->seal == EMX_CHECKSUM_OFF || s->seal == EMX_CHECKSUM_HEADER);
}

static inline bool emx_connect_reachable(const struct emx_session *s) /* a route is being tried or verified */
{
    return s->state == EMX_S_CONNECTING || s->state == EMX_S_CONNECTED;
}

/* Marks that there may be something to send. */
static inline void emx_session_ready(struct emx_session *s)
{
    if (emx_list_linked(&s->ready) || (s->state != EMX_S_CONNECTING && s->state != EMX_S_CONNECTED))
        return;
    emx_list_append(&s->e->ready[s->link], &s->ready);
    emx_engine_has_output(s->e, s->link);
}

/* A frame is due over this link, before data: a reply to a hello, a frame of failover, or an overdue acknowledgement.
 * The link may not be the session's. */
static inline void emx_session_answer(struct emx_session *s, unsigned link)
{
    s->answer_links |= (uint8_t)(1u << link);
    if (emx_list_linked(&s->hello_acking))
        return;
    emx_list_append(&s->e->hello_acking[link], &s->hello_acking);
    emx_engine_has_output(s->e, link);
}

/* Nothing is due over this link any more. */
static inline void emx_session_answered(struct emx_session *s, unsigned link)
{
    emx_list_del(&s->hello_acking);
    s->answer_links &= (uint8_t) ~(1u << link);
    if (s->answer_links)
        emx_session_answer(s, (unsigned)__builtin_ctz(s->answer_links));
}

struct emx_session *emx_session_start(struct emx_engine *e, struct emx_peer *p, emx_time now); /* NULL: no memory */
void emx_session_ask_routes(struct emx_session *s); /* called once: s is not in engine.want_routes */
void emx_session_end(struct emx_session *s, unsigned state, int status, emx_time now);
void emx_session_leave(struct emx_session *s, emx_time now); /* reachable: ends all but sending the close frame */
void emx_session_free(struct emx_session *s);
/* A frame of the handshake has the peer's first number. */
enum emx_drop emx_session_greet(struct emx_session *s, const struct emx_frame *h, emx_time now);

/* Whether the sender of the frame knows this side's first number: the frame is not of a former session. */
static inline bool emx_session_is_meant(const struct emx_session *s, const struct emx_frame *h)
{
    return !emx_seq_before(h->ack, s->tx.first);
}

void emx_session_arm(struct emx_session *s, emx_time at); /* checks the session at this time, or earlier */
void emx_session_expire(struct emx_session *s, emx_time now);
emx_time emx_session_death_ns(const struct emx_session *s); /* when a silent peer is dead; EMX_NEVER: unasked */
void emx_session_asked_first(struct emx_session *s, emx_time now);

static inline void emx_session_asked(struct emx_session *s, emx_time now) /* a frame that needs a reply has left */
{
    if (!s->asked_ns)
        emx_session_asked_first(s, now);
}

static inline void emx_session_heard(struct emx_session *s, emx_time now)
{
    s->heard_ns = now;
    s->asked_ns = 0;
}

#endif
