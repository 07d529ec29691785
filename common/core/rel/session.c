/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Session: the life cycle of the connection to one peer, and its timer.
 *
 * Liveness. A frame that needs a reply starts a timer (asked_ns) if none is running. Any frame from the peer stops it.
 * When it has run for peer_timeout the peer is dead. So a peer that nothing is requested from cannot die, and one that
 * something is requested from must show a sign of life: the engine's tick pings peers with open operations. A peer that
 * falls silent before this side is connected dies in the same way if it has replied before. Time in which this process
 * was stopped does not count, because a job may be suspended as a whole.
 *
 * Numbers. A session's sequence numbers begin with 0. If the endpoint has removed peers before, they begin after all
 * numbers sent to these. A peer that sees them restart knows that its session was removed, even if no close frame
 * arrived. Frames of the former session, including hellos, may still be in flight. They acknowledge less than the new
 * first number. So until a frame of the peer has acknowledged that number, only the handshake is executed.
 *
 * The timer is lazy: it may fire early, never late. Moving a deadline back costs nothing. When the timer fires, all
 * deadlines are checked and it is set again.
 */
#include <string.h>

#include "base/heap.h"
#include "base/min.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/event.h"
#include "core/peer.h"
#include "core/rel/ack.h"
#include "core/rel/credit.h"
#include "core/rel/fragment.h"
#include "core/rel/rail.h"
#include "core/rel/reorder.h"
#include "core/rel/rtt.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/tag.h"

static void session_init(struct emx_session *s, struct emx_engine *e, struct emx_peer *p, emx_time now)
{
    const struct emx_config *cfg = e->cfg;

    s->e = e;
    s->peer = p;
    s->timer.kind = EMX_TIMER_SESSION;
    s->state = EMX_S_ROUTES;
    s->heard_ns = now;
    emx_list_init(&s->living);
    emx_list_init(&s->routing);
    emx_list_init(&s->turn);
    emx_list_init(&s->ready);
    emx_list_init(&s->hello_acking);
    emx_list_init(&s->backlog);
    emx_send_window_init(&s->tx, e->cc, e->tx_first, (uint32_t)cfg->p_window);
    emx_reorder_init(&s->rx, cfg->p_ack_delay);
    s->peer_ack_delay_ns = cfg->p_ack_delay;
    s->peer_timeout_ns = EMX_NEVER;
    emx_rtt_init(&s->rtt, cfg);
    e->up->opened(s);
}

struct emx_session *emx_session_start(struct emx_engine *e, struct emx_peer *p, emx_time now)
{
    struct emx_session *s;

    if (emx_heap_reserve(&e->timers, e->timer_reserve + 1))
        return NULL;
    s = emx_alloc_get(&e->alloc, sizeof(*s));
    if (!s)
        return NULL;
    memset(s, 0, sizeof(*s));
    s->connect = emx_alloc_get(&e->alloc, sizeof(*s->connect));
    if (!s->connect) {
        emx_alloc_put(&e->alloc, s);
        return NULL;
    }
    memset(s->connect, 0, sizeof(*s->connect));
    s->connect->told_moves = e->moves; /* in hellos */
    session_init(s, e, p, now);
    if (!emx_tag_open(s)) {
        emx_alloc_put(&e->alloc, s->connect);
        emx_alloc_put(&e->alloc, s);
        return NULL;
    }
    emx_credit_open(s);
    e->timer_reserve++;
    p->session = s;
    emx_list_append(&e->living, &s->living);
    emx_session_ask_routes(s);
    return s;
}

void emx_session_ask_routes(struct emx_session *s)
{
    emx_list_append(&s->e->want_routes, &s->routing);
    s->e->ready_flags.pending |= EMX_RESULT_EVENT;
}

/* Stops everything that is being sent or waited for. */
static void session_quiesce(struct emx_session *s)
{
    emx_send_window_fini(s);
    emx_reorder_fini(s);
    emx_fragment_fini(s);
    emx_heap_clear(&s->e->timers, &s->timer);
    emx_list_del(&s->ready);
    emx_list_del(&s->hello_acking);
    s->answer_links = 0;
    emx_rails_quiesce(s);
    if (emx_list_linked(&s->routing)) {
        emx_list_del(&s->routing);
        emx_event_taken(s->e);
    }
    s->ping_due = s->pong_due = s->takes = false;
    s->fast_room = 0;
}

/* Frees everything but the structure itself. */
static void session_strip(struct emx_session *s)
{
    struct emx_engine *e = s->e;

    session_quiesce(s);
    emx_rails_close(s);
    if (s->connect) {
        emx_alloc_put(&e->alloc, s->connect->told);
        emx_alloc_put(&e->alloc, s->connect->why);
    }
    emx_alloc_put(&e->alloc, s->connect);
    s->connect = NULL;
    emx_alloc_put(&e->alloc, s->tags);
    s->tags = NULL;
}

static void session_uncount(struct emx_session *s)
{
    if (emx_connect_reachable(s))
        s->e->link_peers[s->link]--;
    if (s->state == EMX_S_CONNECTED)
        s->e->stats->peers_connected--;
}

void emx_session_end(struct emx_session *s, unsigned state, int status, emx_time now)
{
    struct emx_engine *e = s->e;

    session_uncount(s);
    e->up->stopped(s, status, now);
    session_strip(s);
    s->state = (uint8_t)state;
    emx_list_del(&s->living);
    s->end_status = (int8_t)status;
    emx_credit_close(s);
    e->up->pull_more(e, now);
}

void emx_session_leave(struct emx_session *s, emx_time now)
{
    struct emx_engine *e = s->e;

    session_uncount(s);
    e->up->stopped(s, ETHMX_OK, now);
    session_quiesce(s);
    emx_credit_close(s);
    emx_list_del(&s->living);
    s->state = EMX_S_LEAVING;
    s->left_ns = now;
    s->byes_due = s->reliable ? 1 : 3;
    emx_list_append(&e->ready[s->link], &s->ready);
    emx_engine_has_output(e, s->link);
    e->up->pull_more(e, now);
}

void emx_session_free(struct emx_session *s)
{
    struct emx_engine *e = s->e;

    session_strip(s);
    e->timer_reserve--;
    emx_alloc_put(&e->alloc, s);
}

/* The peer has removed this endpoint, and connects again: this has the effect of a close frame. */
static void session_begun_anew(struct emx_session *s, emx_time now)
{
    emx_event_post(s->e, emx_list_empty(&s->peer->ops) ? EMX_EVENT_CLOSED : EMX_EVENT_FAILED, s->peer,
                   ETHMX_ERR_PEER_DEAD, "the peer on host %s has forgotten this endpoint and connects anew",
                   emx_peer_host(s->e, s->peer));
    emx_session_end(s, EMX_S_CLOSED, ETHMX_ERR_PEER_DEAD, now);
}

/* Whether only hellos have arrived, the first perhaps a late one of a former session. */
static bool session_is_fresh(const struct emx_session *s)
{
    return s->state != EMX_S_CONNECTED && s->rx.next == s->rx.first && !s->rx.held_count;
}

enum emx_drop emx_session_greet(struct emx_session *s, const struct emx_frame *h, emx_time now)
{
    uint32_t first = h->seq;

    if (!s->greeted || (session_is_fresh(s) && emx_seq_before(s->rx.first, first)))
        emx_reorder_begin(&s->rx, first);
    s->greeted = true;
    if (emx_seq_before(first, s->rx.first))
        return EMX_DROP_STALE;
    if (first != s->rx.first) {
        session_begun_anew(s, now);
        return EMX_DROP_NO_SESSION;
    }
    s->takes |= emx_connect_reachable(s) && emx_session_is_meant(s, h);
    return EMX_ACCEPTED;
}

void emx_session_deferred_ack_now(struct emx_engine *e)
{
    const struct emx_deferred_ack late = e->deferred;
    struct emx_session *s = late.session;

    e->deferred.session = NULL;
    e->ready_flags.deferred_acks = false;
    if (late.ack != s->tx.acked && !s->reliable)
        emx_send_window_ack(s, late.ack, 0, late.now);
    if (s->rx.unacked)
        emx_reorder_owe(s, late.now);
}
