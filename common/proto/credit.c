/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Credit: why unexpected messages cannot exhaust memory, and none is lost for that.
 *
 * Each receiver promises each sender a share of unexpected_max. The sender may have eager messages worth that much
 * (data and EMX_EAGER_OVERHEAD each) at the receiver that nobody has taken. The permission is an absolute limit on the
 * eager bytes sent since the beginning, carried in every frame, as QUIC's MAX_DATA (RFC 9000, section 4); so lost or
 * late frames do no harm. The shares' sum never exceeds unexpected_max. A message that the limit does not allow goes
 * by rendezvous: only its envelope is kept here. So a sender never waits for memory, and the messages behind it
 * neither.
 *
 * A share begins small, since most of many peers are silent. But none begins below a floor: half of unexpected_max is
 * kept for all peers that are known, the same part for each, whoever comes first. A sender that had to use rendezvous
 * for want of credit alone says so (STARVED), and its share doubles while there is room: once, until it has used half
 * of what it was given then. For a burst says so many times before it hears of the first, and would have taken all that
 * there is from those who come later.
 */
#include "base/least.h"
#include "proto/impl.h"

#define FIRST_PART 32 /* of what is to spare: a first share at most */
#define FLOOR_PART 2  /* of unexpected_max: the floors of all */

static uint64_t unpromised(const struct emx_engine *e)
{
    uint64_t promised = e->stats->unexpected_promised;

    return promised < e->cfg->p_unexpected_max ? e->cfg->p_unexpected_max - promised : 0;
}

static uint64_t floor_bytes(const struct emx_engine *e)
{
    return emx_least(e->cfg->p_unexpected_max / FLOOR_PART / (e->peer_count + 1), e->cfg->p_unexpected_peer);
}

/* What is not promised, and not kept for peers that are still to come. */
static uint64_t to_spare(const struct emx_engine *e)
{
    uint64_t kept = e->credit_peers < e->peer_count ? floor_bytes(e) * (e->peer_count - e->credit_peers) : 0;

    return unpromised(e) - emx_least(unpromised(e), kept);
}

static void promise(struct emx_session *s, uint64_t bytes)
{
    s->share += (uint32_t)bytes;
    s->e->stats->unexpected_promised += bytes;
}

void emx_credit_open(struct emx_session *s)
{
    struct emx_engine *e = s->e;
    uint64_t first, least;

    e->credit_peers++;
    first = emx_least(to_spare(e) / FIRST_PART, e->cfg->p_unexpected_peer);
    least = emx_least(floor_bytes(e), unpromised(e));
    promise(s, first > least ? first : least);
}

void emx_credit_close(struct emx_session *s)
{
    uint32_t held = s->rx_charged - s->rx_released;

    /* What is held stays promised until it is released. */
    s->e->stats->unexpected_promised -= s->share - held;
    s->share = held;
}

/* Longest message that may come eagerly. */
static uint64_t longest(const struct emx_session *s)
{
    const struct emx_config *cfg = s->e->cfg;

    return s->reads && cfg->p_read_min > cfg->p_eager_max ? cfg->p_read_min : cfg->p_eager_max;
}

/* A share too small for a message is never used: more is needed whatever was. */
static bool is_used(const struct emx_session *s)
{
    return s->share < 2 * (longest(s) + EMX_EAGER_OVERHEAD) || s->rx_charged - s->rx_grown >= s->share / 2;
}

void emx_credit_starved(struct emx_session *s)
{
    uint64_t more = s->share ? s->share : s->e->cfg->p_unexpected_peer;
    uint64_t room = to_spare(s->e) / 2;

    if (!is_used(s))
        return;
    if (more > room)
        more = room;
    if (s->share + more > INT32_MAX)
        return;
    s->rx_grown = s->rx_charged;
    promise(s, more);
}

bool emx_credit_take(struct emx_session *s, uint32_t cost)
{
    if (!emx_credit_allows(s, cost))
        return false;
    s->credit_used += cost;
    return true;
}

void emx_credit_release(struct emx_session *s, uint32_t cost)
{
    s->rx_released += cost;
    if (emx_session_over(s)) {
        s->share -= cost;
        s->e->stats->unexpected_promised -= cost;
        return;
    }
    emx_credit_tell(s);
}
