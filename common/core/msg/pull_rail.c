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
 */
#include "core/msg/pull_rail.h"

#include "base/min.h"
#include "core/rel/rtt.h"

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

static bool pull_rail_has_room(const struct emx_rail *k, uint64_t block_bytes)
{
    if (!k->usable)
        return false;
    if (!k->asked_bytes)
        return true;
    return !k->failures && k->byte_ps && k->asked_bytes + block_bytes <= k->pace.limit_bytes;
}

unsigned emx_pull_choose(const struct emx_session *s, uint64_t block_bytes, uint64_t left_bytes)
{
    const struct emx_rails *t = s->rails;
    emx_time rest_ns = emx_pull_first_rail_works(s) ? pull_rail_rest_ns(s, left_bytes) : EMX_NEVER;

    for (unsigned i = 1; i < t->count; i++)
        if (pull_rail_has_room(&t->rail[i], block_bytes) &&
            pull_rail_time_ns(&t->rail[i], t->rail[i].asked_bytes + block_bytes) <= rest_ns)
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

emx_time emx_pull_rail_late_ns(struct emx_session *s, const struct emx_block *b)
{
    const struct emx_rail *k = &s->rails->rail[b->rail];
    emx_time from_ns = k->heard_ns > b->asked_ns ? k->heard_ns : b->asked_ns;

    return from_ns + emx_rtt_backed_off(emx_pull_rtt(s, b->rail), 0, s->e->cfg);
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
