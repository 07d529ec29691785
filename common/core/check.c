/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Check: recomputes every invariant of the engine. Slow; for tests.
 */
#include <string.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/msg/exported.h"
#include "core/msg/op.h"
#include "core/msg/rndv.h"
#include "core/peer.h"
#include "core/rel/rail.h"
#include "core/rel/reorder.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"
#include "core/rma/rma.h"

static unsigned check_length(const struct emx_list *head)
{
    unsigned n = 0;

    emx_list_each(l, head) n++;
    return n;
}

static const char *check_window(const struct emx_session *s)
{
    uint32_t seq = s->tx.acked;
    unsigned in_flight = 0, lost = 0, slots = 0, runs = 0;
    bool sent = true;

    emx_list_each(l, &s->tx.unacked)
    {
        const struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, link);

        if (l == s->tx.send_next)
            sent = false;
        if (b->seq != seq)
            return "window: sequence numbers are not consecutive";
        if (b->frames > 1 && (b->lost || b->early || b->tries > 1))
            return "window: a run of frames was not split";
        if (sent != (b->tries > 0))
            return "window: send_next is misplaced";
        if (b->lost && b->early)
            return "window: a frame is both lost and acknowledged";
        seq += b->frames;
        runs += b->frames > 1;
        lost += b->lost;
        slots += b->slot;
        in_flight += sent && !b->lost && !b->early ? b->frames : 0;
    }
    if (seq != s->tx.next)
        return "window: length does not fit the numbers";
    if (runs != s->tx.runs)
        return "window: the count of runs is wrong";
    if (slots != s->tx.slots_taken)
        return "window: the count of eager GSO packets is wrong";
    if (in_flight != s->tx.in_flight || lost != s->tx.lost)
        return "window: counts of in flight or lost frames are wrong";
    if (s->tx.next - s->tx.acked > s->e->cfg->p_window)
        return "window: longer than allowed";
    if ((in_flight || lost) && !s->tx.rto_from_ns)
        return "window: frames fly and no resend timer runs";
    return NULL;
}

static const char *check_held(const struct emx_session *s)
{
    uint32_t last = s->rx.next;
    uint64_t early = 0;

    if (check_length(&s->rx.held) != s->rx.held_count)
        return "held frames: count is wrong";
    emx_list_each(l, &s->rx.held)
    {
        const struct emx_rxbuf *b = emx_list_entry(l, struct emx_rxbuf, link);

        if (!emx_seq_before(last, b->seq))
            return "held frames: not in order";
        last = b->seq;
        if (b->seq - s->rx.next - 1 < 64)
            early |= UINT64_C(1) << (b->seq - s->rx.next - 1);
    }
    return early == s->rx.early ? NULL : "held frames: the map is wrong";
}

static const char *check_coalesce(const struct emx_session *s)
{
    if (s->tx.open && (s->tx.open->tries || s->tx.unacked.prev != &s->tx.open->link))
        return "coalescing: a frame takes messages although it is not the last frame, or was sent";
    return NULL;
}

/* Whether the next unsent frame may leave. If it announces memory, that is looked up first (rdma_get.c). */
static bool check_may_go(const struct emx_session *s)
{
    return s->tx.send_next != &s->tx.unacked && !emx_list_entry(s->tx.send_next, struct emx_txbuf, link)->unready;
}

static unsigned check_requests(const struct emx_session *s)
{
    unsigned n = check_length(&s->pulled.requests);

    for (unsigned i = 0; s->rails && i < s->rails->count; i++)
        n += check_length(&s->rails->rail[i].requests);
    return n;
}

static const char *check_rails(const struct emx_session *s)
{
    bool usable = false;

    for (unsigned i = 0; i < s->rails->count; i++) {
        const struct emx_rail *k = &s->rails->rail[i];

        usable |= k->usable;
        if (i == s->rails->first && !emx_list_empty(&k->requests))
            return "rails: the session's route has requests of its own";
        if ((k->answer_due || !emx_list_empty(&k->requests)) && !emx_list_linked(&k->ready))
            return "rails: one has work and is not ready";
        if (k->asked_bytes > s->e->rail[i].asked_bytes)
            return "rails: one peer has more requested than all";
    }
    return usable ? NULL : "rails: none is usable";
}

static const char *check_work(const struct emx_session *s)
{
    bool work = s->rx.ack_now || s->ping_due || s->pong_due || s->credit.recall_due || s->byes_due ||
                !emx_list_empty(&s->pulled.requests) || !emx_list_empty(&s->pulling.pulls) || s->tx.lost ||
                check_may_go(s);
    bool blocked = emx_send_window_full(&s->tx);

    if (check_requests(s) != s->pulled.request_count)
        return "pull requests: count is wrong";
    if (s->state != EMX_S_CONNECTED || !work || blocked || emx_list_linked(&s->ready))
        return NULL;
    return "session has work and is not ready";
}

static const char *check_session(const struct emx_session *s)
{
    const char *wrong = check_window(s);

    if (!wrong)
        wrong = check_held(s);
    if (!wrong)
        wrong = check_work(s);
    if (!wrong)
        wrong = check_coalesce(s);
    if (!wrong && s->credit.charged - s->credit.released > s->credit.share)
        wrong = "credit: more is held than promised";
    if (!wrong && emx_seq_before(s->credit.limit, s->credit.used))
        wrong = "credit: more is used than allowed";
    if (!wrong && emx_session_over(s) && emx_list_linked(&s->credit.sharing))
        wrong = "credit: a session that is over can give some back";
    if (!wrong && s->eager.op && s->eager.unexpected)
        wrong = "eager: two messages under way";
    if (!wrong)
        wrong = emx_rma_check_session(s);
    return wrong;
}

static const char *check_puts(const struct emx_peer *p)
{
    emx_list_each(l, &p->ops)
    {
        const struct emx_op *op = emx_list_entry(l, struct emx_op, peer_link);
        const struct emx_rndv *r = op->where == EMX_OP_PULLING ? op->rndv : NULL;

        if (op->exported && (op->exported->op != op || op->exported->put_count > EMX_PUTS))
            return "put: an export that is not its operation's";
        if (!op->is_send && op->exported && (!r || !r->by_put))
            return "put: memory of a receive that nobody writes to is held out";
        if (!r || !r->by_put)
            continue;
        if (!op->exported || !r->reading || r->by_get || r->active || !r->fin)
            return "put: a message that nobody writes";
        if (r->read_bytes > r->lent_bytes || r->lent_bytes > r->want_bytes)
            return "put: more is requested than wanted, or there than requested";
        if (!op->exported->put_count && !emx_list_linked(&op->exported->link))
            return "put: nobody is asked for more";
    }
    return NULL;
}

/* Checks that the peer is watched while it has operations, and listed while it lives. */
static const char *check_watch(const struct emx_engine *e, const struct emx_peer *p)
{
    if (!emx_list_empty(&p->ops) && !p->watched && !e->unwatched)
        return "peer: has operations open and is not looked after";
    if (p->session && emx_list_linked(&p->session->living) == emx_session_over(p->session))
        return "session: is over and among the living, or the reverse";
    return NULL;
}

/* Checks that a timer repeats requests for missing data. */
static const char *check_pulls(const struct emx_peer *p)
{
    emx_list_each(l, &p->ops)
    {
        const struct emx_op *op = emx_list_entry(l, struct emx_op, peer_link);
        const struct emx_rndv *r = op->where == EMX_OP_PULLING ? op->rndv : NULL;

        if (r && r->active && !emx_list_linked(&r->due) && !emx_timer_is_set(&r->timer))
            return "pulls: blocks are awaited without a timer";
    }
    return NULL;
}

static const char *check_peers(const struct emx_engine *e, uint64_t *promised_p)
{
    unsigned links[EMX_ENGINE_LINKS] = {0};

    for (unsigned i = 0; i <= e->peer_mask; i++)
        for (const struct emx_peer *p = e->peers[i]; p; p = p->next_hash) {
            const struct emx_session *s = p->session;
            const char *wrong = s ? check_session(s) : NULL;

            if (!wrong)
                wrong = check_watch(e, p);
            if (!wrong)
                wrong = check_puts(p);
            if (!wrong)
                wrong = check_pulls(p);
            if (!wrong && s && s->rails && s->state == EMX_S_CONNECTED)
                wrong = check_rails(s);
            if (wrong)
                return wrong;
            if (!s)
                continue;
            *promised_p += s->credit.share;
            if (s->state == EMX_S_CONNECTING || s->state == EMX_S_CONNECTED)
                links[s->link]++;
        }
    return memcmp(links, e->link_peers, sizeof(links)) ? "links: peers are miscounted" : NULL;
}

static const char *check_unexpected(const struct emx_engine *e, uint64_t promised)
{
    unsigned n = 0, counted = 0;

    for (unsigned i = 0; i < EMX_SPACES; i++) {
        emx_list_each(l, &e->match[i].queue) n++;
        counted += e->match[i].arrived.count;
    }
    if (n != e->stats->unexpected_now || n != counted)
        return "unexpected messages: count is wrong";
    if (e->stats->unexpected_bytes > e->stats->unexpected_promised)
        return "unexpected memory: more is held than promised";
    if (promised > e->stats->unexpected_promised)
        return "unexpected memory: the sessions' shares exceed the sum";
    if (e->stats->unexpected_promised > e->cfg->p_unexpected_max)
        return "unexpected memory: more promised than allowed";
    return NULL;
}

/* Checks that routes are requested before the handshake, once more during it (learn.c), and when an interface is back.
 */
static const char *check_routing(const struct emx_engine *e)
{
    emx_list_each(l, &e->want_routes)
    {
        const struct emx_session *s = emx_list_entry(l, struct emx_session, routing);

        if (s->state == EMX_S_CONNECTED && s->connect->renews)
            continue;
        if (s->state != EMX_S_ROUTES && (s->state != EMX_S_CONNECTING || !s->connect->relearns))
            return "routes: they are asked for a session that needs none";
    }
    return NULL;
}

static const char *check_turns(const struct emx_engine *e)
{
    unsigned places = 0;

    emx_list_each(l, &e->living)
    {
        const struct emx_session *s = emx_list_entry(l, struct emx_session, living);

        if (s->connect->has_place && (s->state != EMX_S_CONNECTING || emx_list_linked(&s->turn)))
            return "turns: a session has a place that it does not need";
        if (emx_list_linked(&s->turn) && s->state != EMX_S_CONNECTING)
            return "turns: a session waits that does not connect";
        places += s->connect->has_place;
    }
    if (places != e->greeting)
        return "turns: count of places is wrong";
    return places || emx_list_empty(&e->turns) ? NULL : "turns: sessions wait though nobody is before them";
}

static const char *check_posted(const struct emx_engine *e)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < EMX_SPACES; i++)
        n += e->match[i].posted.count + e->match[i].wild_count;
    return n == e->stats->posted_now ? NULL : "posted receives: count is wrong";
}

static const char *check_reads(const struct emx_engine *e, unsigned link)
{
    emx_list_each(l, &e->reads[link])
    {
        const struct emx_rndv *r = emx_list_entry(l, struct emx_rndv, wait);

        if (!r->reading || r->active || !r->fin || r->op->rndv != r || r->op->where != EMX_OP_PULLING)
            return "reads: a message that is not being read";
        if (r->op->peer->session->link != link)
            return "reads: a message of another link";
        if (r->by_get ? r->started_bytes >= r->lent_bytes || r->lent_bytes > r->want_bytes || r->asked
                      : r->read_bytes >= r->want_bytes || !r->op->peer->session->read.on)
            return "reads: a message that can't be read";
        if (r->in_hand && l != e->reads[link].next)
            return "reads: another than the first is in the wire's hands";
        if (emx_list_linked(&r->op->peer_link) == (bool)r->ends)
            return "reads: a message of a peer that has failed, or that does not fail with its peer";
    }
    return NULL;
}

static const char *check_hints(const struct emx_engine *e)
{
    uint32_t pending = 0;

    if (!emx_list_empty(&e->events) || !emx_list_empty(&e->want_routes))
        pending |= EMX_RESULT_EVENT;
    if (!emx_list_empty(&e->completed))
        pending |= EMX_RESULT_DONE;
    if (!emx_list_empty(&e->am))
        pending |= EMX_RESULT_AM;
    if (e->deferred.session && !e->ready_flags.deferred_acks)
        return "ready_flags: what is still to be done of a frame waits, and nobody is told";
    if (pending != e->ready_flags.pending)
        return "ready_flags: the pending results are not what is there";
    for (unsigned i = 0; i < EMX_ENGINE_LINKS; i++)
        if ((!emx_list_empty(&e->ready[i]) || !emx_list_empty(&e->hello_acking[i]) ||
             !emx_list_empty(&e->rails_ready[i])) &&
            !(e->ready_flags.output >> i & 1))
            return "ready_flags: a link with output is not marked";
    for (unsigned i = 0; i < EMX_ENGINE_LINKS; i++)
        if ((emx_list_empty(&e->reads[i]) && emx_list_empty(&e->writes[i])) == (bool)(e->ready_flags.reads >> i & 1))
            return "ready_flags: the reads are not what is there";
    for (unsigned i = 0; i < EMX_ENGINE_LINKS; i++)
        if ((emx_list_empty(&e->exports[i]) && emx_list_empty(&e->disconnects[i])) ==
            (bool)(e->ready_flags.memory >> i & 1))
            return "ready_flags: the work with memory is not what is there";
    return NULL;
}

const char *emx_engine_check(const struct emx_engine *e)
{
    uint64_t promised = 0;
    const char *wrong = check_peers(e, &promised);

    if (!wrong)
        wrong = check_unexpected(e, promised);
    if (!wrong)
        wrong = check_posted(e);
    if (!wrong)
        wrong = check_routing(e);
    if (!wrong)
        wrong = check_turns(e);
    for (unsigned i = 0; !wrong && i < EMX_ENGINE_LINKS; i++)
        wrong = check_reads(e, i);
    if (!wrong)
        wrong = check_hints(e);
    if (!wrong)
        wrong = emx_rma_check(e);
    if (!wrong && e->timers.count > e->timer_reserve)
        wrong = "timers: more than reserved";
    return wrong;
}
