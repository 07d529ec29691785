/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pulling over rails: the choice of a rail for each block.
 *
 * Rail 0 is filled first, as if it were alone: so short messages use it only, and what other peers send is paced with
 * it. What it has no room for goes to the others, each up to its own pace. As each rail gets new blocks when data has
 * arrived over it, each carries what it can.
 *
 * A slow rail must not hold up the end of a message. So it gets a block only if that would arrive, behind what is
 * requested over it already, before rail 0 has carried the rest of the message. How fast a rail is the time shows that
 * a block takes, for all that was requested over the rail until then. A rail of which nothing is known gets one block
 * at first.
 *
 * A rail that carries nothing more must not delay a message. But that nothing arrives over it for some time proves
 * little: this program, or the sender's, may have been stopped, and the frames of one rail are received before those of
 * the other. A sender replies to pulls in their order. So a block is late if a later request was answered over another
 * rail, and its own stays silent for a time-out after this was seen.
 */
#include "core/msg/pull_rail.h"

#include "base/heap.h"
#include "base/min.h"
#include "core/msg/op.h"
#include "core/peer.h"
#include "core/rel/rtt.h"

#define PATIENCE 4 /* time-outs in which a message waits for others */
#define SMOOTH   4 /* weight of a new time is 1 / SMOOTH */
#define PS_IN_NS 1000
#define PS_MAX   1000000 /* a byte in a microsecond */

/* How long a rail takes for so many bytes. */
static emx_time pull_rail_time_ns(const struct emx_rail *k, uint64_t bytes)
{
    return emx_min(bytes, INT64_MAX / PS_MAX) * k->byte_ps / PS_IN_NS;
}

/* In which rail 0 would carry what is requested over it, and so many bytes more. */
static emx_time pull_rail_rest_ns(const struct emx_session *s, uint64_t left_bytes)
{
    return pull_rail_time_ns(&s->rails->rail[0], s->e->pulling_bytes + left_bytes);
}

/* Blocks that fail are not followed by others at once, unless there is no other rail. */
bool emx_pull_first_rail_works(const struct emx_session *s)
{
    const struct emx_rails *t = s->rails;

    if (!t || (t->rail[0].usable && (!t->rail[0].failures || !s->e->pulling_bytes)))
        return true;
    for (unsigned i = 1; i < t->count; i++)
        if (t->rail[i].usable)
            return false;
    return true;
}

static bool pull_rail_has_room(const struct emx_rail *k, uint64_t block_bytes)
{
    const struct emx_rails *t = k->rails;
    const struct emx_rail_share *all = &t->s->e->rail[k - t->rail];

    if (!k->usable || (k->asked_bytes && (k->failures || !k->byte_ps)))
        return false;
    return !all->asked_bytes || all->asked_bytes + block_bytes <= all->pace.limit_bytes;
}

unsigned emx_pull_choose(const struct emx_session *s, uint64_t block_bytes, uint64_t left_bytes)
{
    const struct emx_rails *t = s->rails;
    emx_time rest_ns = emx_pull_first_rail_works(s) ? pull_rail_rest_ns(s, left_bytes) : EMX_NEVER;

    for (unsigned i = 1; i < t->count; i++)
        if (pull_rail_has_room(&t->rail[i], block_bytes) &&
            pull_rail_time_ns(&t->rail[i], emx_pull_asked_bytes(s->e, i) + block_bytes) <= rest_ns)
            return i;
    return 0;
}

unsigned emx_pull_choose_again(const struct emx_session *s, unsigned rail, bool other)
{
    const struct emx_rails *t = s->rails;

    if (!t || (!other && t->rail[rail].usable && !t->rail[rail].failures))
        return rail;
    for (unsigned i = 1; i < t->count; i++) {
        unsigned next = (rail + i) % t->count;

        if (t->rail[next].usable && (other || !t->rail[next].failures))
            return next;
    }
    return t->rail[rail].usable ? rail : 0;
}

/* Of a silent sender, what is requested over rail 0 counts apart (pull.c). */
static void pull_rail_count(struct emx_rndv *r, unsigned rail, int64_t bytes)
{
    struct emx_session *s = r->op->peer->session;

    if (r->away && !rail)
        s->e->away_bytes += (uint64_t)bytes;
    else
        emx_pull_asked(s, rail, bytes);
}

void emx_pull_change_rail(struct emx_rndv *r, struct emx_block *b, unsigned rail)
{
    int64_t bytes = (int64_t)emx_pull_block_bytes(r, b);

    if (rail == b->rail)
        return;
    pull_rail_count(r, b->rail, -bytes);
    pull_rail_count(r, rail, bytes);
    b->rail = rail & 0xf;
}

void emx_pull_leave_rail(struct emx_rndv *r, struct emx_block *b, emx_time now)
{
    struct emx_session *s = r->op->peer->session;
    unsigned rail = emx_pull_choose_again(s, b->rail, true);

    s->rails->again_ns = now;
    if (rail == b->rail || b->due)
        return;
    s->rails->rail[b->rail].left_ns = b->asked_ns;
    b->left_rail = (b->rail + 1u) & 0xf;
    emx_pull_change_rail(r, b, rail);
}

void emx_pull_measured(struct emx_session *s, const struct emx_block *b, emx_time ns)
{
    uint64_t byte_ps;
    struct emx_rail *k;

    emx_rtt_sample(emx_pull_rtt(s, b->rail), ns, s->peer_ack_delay_ns, s->e->cfg);
    if (!s->rails)
        return;
    byte_ps = emx_min(ns * PS_IN_NS / b->ahead_bytes, PS_MAX);
    k = &s->rails->rail[b->rail];
    k->byte_ps = k->byte_ps ? k->byte_ps - k->byte_ps / SMOOTH + byte_ps / SMOOTH : byte_ps;
}

void emx_pull_heard(struct emx_session *s, unsigned rail, emx_time now)
{
    if (rail < s->rails->count)
        emx_rail_heard(&s->rails->rail[rail], now);
}

void emx_pull_replied(struct emx_session *s, struct emx_block *b, emx_time now)
{
    struct emx_rails *t = s->rails;

    if (b->asked_ns > t->answered_ns)
        t->answered_ns = b->asked_ns;
    if (b->left_rail && t->rail[b->left_rail - 1].heard_ns < t->rail[b->left_rail - 1].left_ns)
        emx_rail_failed(&t->rail[b->left_rail - 1], now);
    b->left_rail = 0;
}

emx_time emx_pull_silence_ns(struct emx_session *s, unsigned rail)
{
    const struct emx_rtt *t = emx_pull_rtt(s, rail);
    emx_time least_ns = s->e->cfg->p_rto_min;

    if (!t->network_ns)
        return t->rto_ns;
    return t->network_ns > least_ns ? t->network_ns : least_ns;
}

emx_time emx_pull_rail_late_ns(struct emx_session *s, const struct emx_block *b, emx_time now)
{
    struct emx_rail *k = &s->rails->rail[b->rail];
    emx_time timeout_ns = emx_pull_silence_ns(s, b->rail);
    emx_time silent_ns = k->heard_ns > b->asked_ns ? k->heard_ns : b->asked_ns;

    if (now < silent_ns + timeout_ns)
        return silent_ns + timeout_ns;
    if (s->rails->answered_ns <= b->asked_ns)
        return now + timeout_ns;
    if (k->overtaken_ns <= silent_ns)
        k->overtaken_ns = now;
    else if (s->pulling.data_ns <= k->overtaken_ns)
        return now + timeout_ns; /* the sender is silent, too */
    return k->overtaken_ns + timeout_ns;
}

emx_time emx_pull_rails_from_ns(const struct emx_session *s, const struct emx_rndv *r, emx_time from_ns,
                                emx_time timeout_ns)
{
    emx_time session_ns = s->pulling.data_ns > s->rails->again_ns ? s->pulling.data_ns : s->rails->again_ns;

    session_ns = emx_min(session_ns, r->last_ns + PATIENCE * timeout_ns);
    return session_ns > from_ns ? session_ns : from_ns;
}

emx_time emx_pull_timeout_ns(struct emx_session *s, const struct emx_rndv *r)
{
    emx_time most_ns = 0;

    if (!s->rails)
        return emx_rtt_backed_off(&s->pulling.block_rtt, r->backoff, s->e->cfg);
    for (unsigned i = 0; i < r->active; i++) {
        emx_time ns = emx_rtt_backed_off(emx_pull_rtt(s, r->block[i].rail), r->backoff, s->e->cfg);

        most_ns = ns > most_ns ? ns : most_ns;
    }
    return most_ns;
}

void emx_pull_await_rail(struct emx_rndv *r, const struct emx_block *b, emx_time now)
{
    struct emx_session *s = r->op->peer->session;
    emx_time at_ns = now + emx_pull_silence_ns(s, b->rail);

    if (emx_timer_is_set(&r->timer) && r->timer.at_ns > at_ns)
        emx_heap_set(&s->e->timers, &r->timer, at_ns);
}
