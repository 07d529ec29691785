/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Credit: bounds the memory of unexpected messages without losing any.
 *
 * Each receiver promises each sender a share of unexpected_max. The sender may have unmatched eager messages of that
 * size (data and EMX_EAGER_OVERHEAD each) at the receiver. The permission is an absolute limit on the eager bytes sent
 * since the beginning, carried in every frame, like QUIC's MAX_DATA (RFC 9000, section 4). So lost or late frames do no
 * harm. The sum of the shares never exceeds unexpected_max. A message that the limit does not allow uses the
 * rendezvous: only its envelope is stored here. So a sender never waits for memory, nor do later messages.
 *
 * A share starts small, because most of many peers do not send. But none starts below a floor: half of unexpected_max
 * is reserved in equal parts for all known peers, whoever sends first. A sender that used rendezvous only for lack of
 * credit reports this (STARVED), and its share doubles while there is room: once, until it has used half of what it got
 * then. A burst reports it many times before the first limit arrives, and would otherwise take all memory from later
 * senders.
 *
 * If a share cannot grow for lack of room, idle peers are asked to return what exceeds the floor (recall). A limit
 * cannot be reduced by sending a lower one: the peer may have used it already, and frames with the higher one are in
 * flight. So the peer lowers its limit itself, but not below what it has used, and reports it in a sequenced frame
 * (given). A receiver that handles this frame has handled everything sent before, and reduces the share. From then on
 * its frames acknowledge that frame. The peer uses only the limits in these, and ignores those in older frames, which
 * acknowledge less. So the sender's limit never exceeds the receiver's. A recall that is lost, or cannot be executed,
 * is not repeated until a share must grow again.
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

#define FIRST_PART      32        /* of the spare memory: upper bound of an initial share */
#define FLOOR_PART      2         /* of unexpected_max: sum of all floors */
#define IDLE_NS         100000000 /* a peer that has sent nothing eagerly for this long needs only the floor */
#define RECALL_LOOKS    16        /* peers checked when a share cannot grow */
#define RECALL_PAUSE_NS 1000000   /* minimum time between two such checks */

static uint64_t credit_unpromised(const struct emx_engine *e)
{
    uint64_t promised = e->stats->unexpected_promised;

    return promised < e->cfg->p_unexpected_max ? e->cfg->p_unexpected_max - promised : 0;
}

uint64_t emx_credit_floor(const struct emx_engine *e)
{
    return emx_min(e->cfg->p_unexpected_max / FLOOR_PART / (e->peer_count + 1), e->cfg->p_unexpected_peer);
}

/* Memory that is neither promised nor reserved for later peers. */
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

    /* Used memory stays promised until it is released. */
    s->e->stats->unexpected_promised -= s->credit.share - held;
    s->credit.share = held;
    s->credit.recall_due = false;
    emx_list_del(&s->credit.sharing);
}

/* ---- Recall from idle peers: the receiver ---- */

/* What the peer keeps if it returns the rest: what it uses here, but at least the floor. */
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

/* Recalls what one peer does not need. Returns how much. */
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

/* A share must grow by that much. Checks a few peers in turn. Those with only the floor leave the list, and are added
 * again when their share grows. */
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
    const struct emx_f_recall *f = (const void *)(data + sizeof(struct emx_frame));
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
    emx_reorder_ack_now(s); /* the peer ignores limits until this acknowledgement arrives */
    return EMX_ACCEPTED;
}

/* ---- Recall from idle peers: the sender ---- */

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
        return EMX_DROP_STALE; /* the recall does not match the limit, or cannot be executed now */
    b = emx_txbuf_get(&s->e->txbufs, sizeof(*h) + sizeof(struct emx_f_recall));
    if (!b)
        return EMX_DROP_MEMORY;
    s->credit.limit = emx_seq_before(f->limit, s->credit.used) ? s->credit.used : f->limit;
    emx_engine_head(s->e, s->peer, emx_txbuf_frame(b), EMX_F_given, sizeof(struct emx_f_recall));
    *(struct emx_f_recall *)(emx_txbuf_frame(b) + 1) = (struct emx_f_recall){.limit = s->credit.limit};
    emx_send_window_push(s, b);
    s->credit.gave = s->credit.giving = true;
    s->credit.ack = b->seq + 1;
    return EMX_ACCEPTED;
}

/* An acknowledgement of frames that were not sent is invalid. */
void emx_credit_heard_again(struct emx_credit *c, uint32_t limit, uint32_t ack, uint32_t tx_next)
{
    if (emx_seq_before(ack, c->ack) || emx_seq_before(tx_next, ack))
        return;
    c->ack = ack;
    c->giving = false;
    if (emx_credit_is_more(c, limit))
        c->limit = limit;
}

/* ---- A message lacked credit, or did not ---- */

/* Longest message that may be eager. */
static uint64_t credit_longest(const struct emx_session *s)
{
    const struct emx_config *cfg = s->e->cfg;

    return s->read.on && cfg->p_read_min > cfg->p_eager_max ? cfg->p_read_min : cfg->p_eager_max;
}

/* A share that is too small for a message is never used, so it may always grow. */
static bool credit_is_used(const struct emx_session *s)
{
    return s->credit.share < 2 * (credit_longest(s) + EMX_EAGER_OVERHEAD) ||
           s->credit.charged - s->credit.grown >= s->credit.share / 2;
}

void emx_credit_starved(struct emx_session *s, emx_time now)
{
    uint64_t more = s->credit.share ? s->credit.share : s->e->cfg->p_unexpected_peer;
    uint64_t room = credit_to_spare(s->e) / 2;

    s->credit.seen_ns = now; /* not idle, whatever was charged */
    s->credit.seen = s->credit.charged;
    if (!credit_is_used(s) || s->credit.share + more > INT32_MAX)
        return;
    if (more > room) {
        credit_recall_some(s->e, 2 * (more - room), now);
        more = room;
    }
    if (more < EMX_EAGER_OVERHEAD)
        return; /* the sender reports it again */
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
