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
 *
 * When a share cannot grow for want of room, peers that have sent nothing eagerly for a while are asked for what they
 * have beyond the floor (recall). A limit cannot be taken back by telling a lower one: the peer may have used it
 * already, and frames that tell the higher one are under way. So the peer lowers its limit itself, but not below what
 * it has used, and says so in a sequenced frame (given). Whoever handles that frame has handled all that was sent
 * before it, and lowers the share. From then on its frames acknowledge that frame; the peer believes the limits in
 * these only, and none in frames that acknowledge less, which are older. Thus the limit that the sender goes by is
 * never above that of the receiver. A recall that gets lost, or comes at a bad time, is not repeated until a share is
 * to grow again.
 */
#include "base/min.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/rel/ack.h"
#include "core/rel/credit.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

#define FIRST_PART      32        /* of what is to spare: a first share at most */
#define FLOOR_PART      2         /* of unexpected_max: the floors of all */
#define IDLE_NS         100000000 /* who has sent nothing eagerly for so long can do with the floor */
#define RECALL_LOOKS    16        /* peers that are looked at when a share cannot grow, */
#define RECALL_PAUSE_NS 1000000   /* no more often than that */

static uint64_t credit_unpromised(const struct emx_engine *e)
{
    uint64_t promised = e->stats->unexpected_promised;

    return promised < e->cfg->p_unexpected_max ? e->cfg->p_unexpected_max - promised : 0;
}

uint64_t emx_credit_floor(const struct emx_engine *e)
{
    return emx_min(e->cfg->p_unexpected_max / FLOOR_PART / (e->peer_count + 1), e->cfg->p_unexpected_peer);
}

/* What is not promised, and not kept for peers that are still to come. */
static uint64_t credit_to_spare(const struct emx_engine *e)
{
    uint64_t kept = e->credit_peers < e->peer_count ? emx_credit_floor(e) * (e->peer_count - e->credit_peers) : 0;

    return credit_unpromised(e) - emx_min(credit_unpromised(e), kept);
}

static void credit_promise(struct emx_session *s, uint64_t bytes)
{
    s->credit.share += (uint32_t)bytes;
    s->e->stats->unexpected_promised += bytes;
    if (!emx_list_linked(&s->credit.sharing))
        emx_list_append(&s->e->sharing, &s->credit.sharing);
}

void emx_credit_open(struct emx_session *s)
{
    struct emx_engine *e = s->e;
    uint64_t first, least;

    emx_list_init(&s->credit.sharing);
    e->credit_peers++;
    first = emx_min(credit_to_spare(e) / FIRST_PART, e->cfg->p_unexpected_peer);
    least = emx_min(emx_credit_floor(e), credit_unpromised(e));
    credit_promise(s, first > least ? first : least);
}

void emx_credit_close(struct emx_session *s)
{
    uint32_t held = s->credit.charged - s->credit.released;

    /* What is held stays promised until it is released. */
    s->e->stats->unexpected_promised -= s->credit.share - held;
    s->credit.share = held;
    s->credit.recall_due = false;
    emx_list_del(&s->credit.sharing);
}

/* ---- Back from the idle: the receiver ---- */

/* What the peer keeps when it gives back the rest: what it has here, and the floor at least. */
static uint32_t credit_kept_bytes(const struct emx_session *s)
{
    uint32_t held = s->credit.charged - s->credit.released;
    uint64_t least = emx_credit_floor(s->e);

    return (uint32_t)emx_min(held > least ? held : least, s->credit.share);
}

static bool credit_is_idle(struct emx_session *s, emx_time now)
{
    bool same = s->credit.seen_ns && s->credit.seen == s->credit.charged;

    if (!same) {
        s->credit.seen = s->credit.charged;
        s->credit.seen_ns = now;
    }
    return now - (same ? s->credit.seen_ns : s->heard_ns) >= IDLE_NS;
}

/* Asks one for what it does not need; returns how much that is. */
static uint64_t credit_recall(struct emx_session *s, emx_time now)
{
    if (s->state != EMX_S_CONNECTED || !credit_is_idle(s, now) ||
        (s->credit.recalled_ns && now - s->credit.recalled_ns < IDLE_NS))
        return 0;
    s->credit.recall_due = true;
    s->credit.recalled_ns = now;
    emx_session_ready(s);
    return s->credit.share - credit_kept_bytes(s);
}

/* Somebody needs so much more. A few are looked at in turn; those that have the floor only leave the list, and come
 * back when their share grows. */
static void credit_recall_some(struct emx_engine *e, uint64_t bytes, emx_time now)
{
    uint64_t back = 0;
    struct emx_list *l;

    if (now < e->recall_ns)
        return;
    e->recall_ns = now + RECALL_PAUSE_NS;
    for (unsigned looks = 0; looks < RECALL_LOOKS && back < bytes && (l = emx_list_pop(&e->sharing)); looks++) {
        struct emx_session *s = emx_list_entry(l, struct emx_session, credit.sharing);

        if (s->credit.share <= emx_credit_floor(e))
            continue;
        emx_list_append(&e->sharing, l);
        back += credit_recall(s, now);
    }
}

bool emx_credit_recall(struct emx_session *s, uint32_t *limit_p)
{
    s->credit.recall_due = false;
    *limit_p = s->credit.released + credit_kept_bytes(s);
    return credit_kept_bytes(s) < s->credit.share;
}

enum emx_drop emx_credit_input_given(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_given *f = (const void *)(data + sizeof(struct emx_frame));
    uint32_t left = f->limit - s->credit.released, kept;

    (void)now;
    if (emx_seq_before(f->limit, s->credit.charged) || left > s->credit.share)
        return EMX_DROP_MALFORMED;
    kept = credit_kept_bytes(s);
    if (kept < left)
        kept = left;
    emx_add(s->e, credit_recalled, s->credit.share - kept);
    s->e->stats->unexpected_promised -= s->credit.share - kept;
    s->credit.share = kept;
    emx_reorder_ack_now(s); /* until the peer hears of it, it takes no limit */
    return EMX_ACCEPTED;
}

/* ---- Back from the idle: the sender ---- */

enum emx_drop emx_credit_input_recall(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_recall *f = (const void *)(h + 1);
    struct emx_txbuf *b;

    (void)now;
    if (!emx_seq_before(f->limit, h->credit))
        return EMX_DROP_MALFORMED;
    if (s->credit.giving || h->credit != s->credit.limit || s->state != EMX_S_CONNECTED ||
        !emx_send_window_room(&s->tx))
        return EMX_DROP_STALE; /* it asks for what we have not, or comes at a bad time */
    b = emx_txbuf_get(&s->e->txbufs, sizeof(*h) + sizeof(struct emx_f_given));
    if (!b)
        return EMX_DROP_MEMORY;
    s->credit.limit = emx_seq_before(f->limit, s->credit.used) ? s->credit.used : f->limit;
    emx_engine_head(s->e, s->peer, emx_txbuf_frame(b), EMX_F_given, sizeof(struct emx_f_given));
    *(struct emx_f_given *)(emx_txbuf_frame(b) + 1) = (struct emx_f_given){.limit = s->credit.limit};
    emx_send_window_push(s, b);
    s->credit.gave = s->credit.giving = true;
    s->credit.ack = b->seq + 1;
    return EMX_ACCEPTED;
}

/* An acknowledgement of what was not sent is nonsense. */
void emx_credit_heard_again(struct emx_credit *c, uint32_t limit, uint32_t ack, uint32_t tx_next)
{
    if (emx_seq_before(ack, c->ack) || emx_seq_before(tx_next, ack))
        return;
    c->ack = ack;
    c->giving = false;
    if (emx_credit_is_more(c, limit))
        c->limit = limit;
}

/* ---- A message did not get through for want of credit, or did ---- */

/* Longest message that may come eagerly. */
static uint64_t credit_longest(const struct emx_session *s)
{
    const struct emx_config *cfg = s->e->cfg;

    return s->read.on && cfg->p_read_min > cfg->p_eager_max ? cfg->p_read_min : cfg->p_eager_max;
}

/* A share too small for a message is never used: more is needed whatever was. */
static bool credit_is_used(const struct emx_session *s)
{
    return s->credit.share < 2 * (credit_longest(s) + EMX_EAGER_OVERHEAD) ||
           s->credit.charged - s->credit.grown >= s->credit.share / 2;
}

void emx_credit_starved(struct emx_session *s, emx_time now)
{
    uint64_t more = s->credit.share ? s->credit.share : s->e->cfg->p_unexpected_peer;
    uint64_t room = credit_to_spare(s->e) / 2;

    s->credit.seen_ns = now; /* not idle, whatever has been charged */
    s->credit.seen = s->credit.charged;
    if (!credit_is_used(s) || s->credit.share + more > INT32_MAX)
        return;
    if (more > room) {
        credit_recall_some(s->e, 2 * (more - room), now);
        more = room;
    }
    if (more < EMX_EAGER_OVERHEAD)
        return; /* it asks again */
    s->credit.grown = s->credit.charged;
    credit_promise(s, more);
}

void emx_credit_release(struct emx_session *s, uint32_t cost)
{
    s->credit.released += cost;
    if (emx_session_over(s)) {
        s->credit.share -= cost;
        s->e->stats->unexpected_promised -= cost;
        return;
    }
    emx_credit_tell(s);
}
