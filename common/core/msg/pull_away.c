/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pulling from senders that are away.
 *
 * A sender whose program computes, is stopped or dead does not respond. This says nothing about the network. So while
 * other messages wait for the window, blocks of a silent sender no longer count: when nothing has arrived from any
 * sender for several round trips, or when so much has arrived from others that these blocks would have arrived, too, if
 * they had been sent. Their data is accepted whenever it arrives, and then the message counts again. The requests stay
 * with their senders, which may all respond at the same time. So when those blocks add up to a window, a message of
 * which nothing has arrived requests only one chunk, to find out whether its sender responds.
 */
#include "core/msg/pull_away.h"

#include "base/min.h"
#include "core/cc/pace.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/msg/op.h"
#include "core/msg/pull_rail.h"
#include "core/msg/rndv.h"
#include "core/peer.h"
#include "core/rel/session.h"

/* A sender is away after the longest of this time, so many round trips, and so many times the usual response time. */
#define AWAY_LEAST_NS    100000
#define AWAY_ROUND_TRIPS 4
#define AWAY_ANSWERS     2
#define AWAY_WINDOWS     2 /* and, if others send, after they have sent this many windows */

bool emx_away_is_unsure(const struct emx_engine *e, const struct emx_rndv *r)
{
    if (r->op->peer->session->pulling.away)
        return true;
    return e->away_bytes >= e->pace.limit_bytes && !r->got_chunks;
}

/* Over rail 0. */
static uint64_t away_missing_bytes(const struct emx_rndv *r)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < r->active; i++)
        bytes += r->block[i].rail ? 0 : emx_pull_block_bytes(r, &r->block[i]);
    return bytes;
}

/* Several round trips without queues, or the usual response time with the present queues: the longer. */
static emx_time away_after_ns(const struct emx_engine *e)
{
    emx_time ns = AWAY_ROUND_TRIPS * e->pace.least_way_ns;

    ns = ns > AWAY_ANSWERS * e->pace.usual_ns ? ns : AWAY_ANSWERS * e->pace.usual_ns;
    return ns > AWAY_LEAST_NS ? ns : AWAY_LEAST_NS;
}

/* All data shares the queue of this host's link. */
bool emx_away_is_overtaken(const struct emx_engine *e, const struct emx_rndv *r)
{
    return e->pulled_bytes - r->last_pulled_bytes >= AWAY_WINDOWS * e->pace.limit_bytes;
}

/* When the sender counts as silent, unless data arrives before: from it, or, while it is not overtaken, from anybody.
 */
static emx_time away_silent_ns(const struct emx_engine *e, const struct emx_rndv *r)
{
    const struct emx_session *s = r->op->peer->session;
    emx_time heard_ns = s->pulling.data_ns > r->last_ns ? s->pulling.data_ns : r->last_ns;

    if (!r->active || r->block[0].due)
        return EMX_NEVER;
    if (e->pulled_ns > heard_ns && !emx_away_is_overtaken(e, r))
        heard_ns = e->pulled_ns;
    return heard_ns + away_after_ns(e);
}

/* A long response time means queues only if data of others arrived meanwhile. Otherwise the sender was away. */
void emx_away_answered(struct emx_session *s, struct emx_rndv *r, const struct emx_block *b, emx_time now)
{
    struct emx_engine *e = s->e;
    emx_time ns = now - b->asked_ns, most_ns = away_after_ns(e);

    if (!r->away && !b->late)
        emx_pace_answered(emx_pull_pace(e, b->rail), ns, emx_pull_way(s, b->rail));
    if (b->rail)
        return;
    if (ns <= most_ns || e->pulled_bytes - r->last_pulled_bytes >= e->pace.limit_bytes / 2)
        emx_pace_usual(&e->pace, emx_min(ns, most_ns));
}

static void away_leave_count(struct emx_engine *e, struct emx_rndv *r)
{
    uint64_t bytes = away_missing_bytes(r);

    e->pulling_bytes -= bytes;
    e->away_bytes += bytes;
    r->away = true;
    r->op->peer->session->pulling.away++;
    emx_list_del(&r->asking);
    emx_list_del(&r->wait);
    emx_count(e, senders_away);
}

void emx_away_count_again(struct emx_engine *e, struct emx_rndv *r)
{
    uint64_t bytes = away_missing_bytes(r);

    e->away_bytes -= bytes;
    e->pulling_bytes += bytes;
    r->away = false;
    r->op->peer->session->pulling.away--;
    emx_list_append(&e->asking, &r->asking);
}

void emx_away_look(struct emx_engine *e, emx_time now)
{
    emx_time next_ns = EMX_NEVER;

    emx_heap_clear(&e->timers, &e->look);
    if (emx_list_empty(&e->pull_wait))
        return;
    emx_list_each_safe(l, next, &e->asking)
    {
        struct emx_rndv *r = emx_list_entry(l, struct emx_rndv, asking);

        if (away_silent_ns(e, r) <= now)
            away_leave_count(e, r);
        else if (away_silent_ns(e, r) < next_ns)
            next_ns = away_silent_ns(e, r);
    }
    if (next_ns != EMX_NEVER)
        emx_heap_set(&e->timers, &e->look, next_ns);
}

void emx_away_look_soon(struct emx_engine *e, emx_time now)
{
    if (!emx_timer_is_set(&e->look))
        emx_heap_set(&e->timers, &e->look, now + away_after_ns(e));
}
