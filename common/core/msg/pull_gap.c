/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Gaps in pulled data.
 *
 * Order shows what is lost: the missing chunks of a block when the last chunk of its latest request has arrived, or a
 * chunk of a block that was requested later. They are requested again at once, unless the peer's data was out of order
 * before: then after a wait (reo_window.h), by the message's timer.
 *
 * Each data frame has the round of its request. So the first data of a block that was requested again for a gap tells
 * whether the gap was a loss.
 */
#include "core/msg/pull_gap.h"

#include "base/min.h"
#include "core/cc/pace.h"
#include "core/cc/reo_window.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/msg/op.h"
#include "core/msg/pull_rail.h"
#include "core/peer.h"
#include "core/rel/session.h"

/* Gaps are looked for in so many blocks, the oldest: a map has a bit for each. */
static unsigned gap_blocks(const struct emx_rndv *r)
{
    return emx_min_u(r->active, 64);
}

/* Whether the sender replies for a first. Retransmissions come another way than GSO packets. */
static bool gap_is_before(const struct emx_block *a, const struct emx_block *b)
{
    return a->asked_ns < b->asked_ns || (a->asked_ns == b->asked_ns && a < b && !a->round == !b->round);
}

/* Whether the block must have arrived before chunk `bit` of b, if frames are in order. */
static bool gap_is_overtaken(const struct emx_block *a, const struct emx_block *b, unsigned bit)
{
    if (a->rail != b->rail || a->due)
        return false;
    return a == b ? b->missing && bit == emx_rndv_highest_bit(b->asked) : gap_is_before(a, b);
}

/* Gives overtaken blocks time to arrive. All wait together from the first that was overtaken. */
static void gap_await(struct emx_rndv *r, uint64_t overtaken, emx_time until_ns)
{
    bool waiting = false;

    for (unsigned i = 0; i < gap_blocks(r); i++) {
        waiting |= r->block[i].overtaken;
        r->block[i].overtaken |= overtaken >> i & 1;
    }
    if (waiting)
        return;
    r->gap_ns = until_ns;
    emx_heap_bring_forward(&r->op->peer->session->e->timers, &r->timer, until_ns);
}

uint64_t emx_gap_find(struct emx_rndv *r, const struct emx_block *b, unsigned bit, emx_time now)
{
    struct emx_session *s = r->op->peer->session;
    uint64_t overtaken = 0;
    emx_time wait_ns;

    if (b->due)
        return 0;
    for (unsigned i = 0; i < gap_blocks(r); i++)
        if (gap_is_overtaken(&r->block[i], b, bit))
            overtaken |= UINT64_C(1) << i;
    if (!overtaken)
        return 0;
    wait_ns = emx_reo_window_ns(&s->pulling.reo_window, *emx_pull_way(s, b->rail), emx_pull_rtt(s, b->rail)->rto_ns);
    if (!wait_ns)
        return overtaken;
    gap_await(r, overtaken, now + wait_ns);
    return 0;
}

uint64_t emx_gap_expire(struct emx_rndv *r, emx_time now)
{
    uint64_t lost = 0;

    if (r->gap_ns > now)
        return 0;
    r->gap_ns = EMX_NEVER;
    for (unsigned i = 0; i < gap_blocks(r); i++)
        if (r->block[i].overtaken && !r->block[i].due)
            lost |= UINT64_C(1) << i;
    return lost;
}

void emx_gap_answered(struct emx_session *s, struct emx_block *b, unsigned round)
{
    if (!b->gap)
        return;
    b->gap = false;
    if (round == b->round) {
        emx_reo_window_was_loss(&s->pulling.reo_window);
        return;
    }
    emx_reo_window_was_order(&s->pulling.reo_window);
    emx_pace_not_lost(emx_pull_pace(s->e, b->rail));
    emx_count(s->e, pulls_reordered);
}
