/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sending reliably. Sequenced frames get consecutive numbers when they enter the window (session.unacked), leave as
 * congestion control allows, and stay until acknowledged. A frame is sent again
 *  - when later ones were acknowledged early: it was overtaken by two frames, or a round trip has passed (after RACK,
 *    RFC 8985, simplified: Ethernet seldom reorders, and a frame sent twice does no harm);
 *  - when nothing was acknowledged for the resend time-out, which doubles each time. A peer that computes answers as
 *    late, so the first time-outs change nothing but send one frame again, as probes (RFC 9002, section 6.2.4; RFC
 * 8985, section 7): the last one that the peer's map of early frames reaches, whose acknowledgement tells of all before
 * it whether they are missing. After PROBES of them all of the window counts as lost, and congestion control lets one
 *    frame go at a time. When one that counted as lost, and was not sent again, is acknowledged after all, the time-out
 *    was false: the peer had been away. Then all is as before it (after Eifel, RFC 4015, with that proof instead of
 * time stamps).
 *
 * Over a reliable route a frame is done with as soon as the wire has it: the window holds only what has not been sent,
 * and nothing below about acknowledgements, time-outs and congestion has anything to do. The wire copies a frame before
 * the engine is called again, so its buffer is spent then (engine.spent).
 */
#include "core/impl.h"

#define OVERTAKEN 2
#define PROBES    2
#define DOUBT     3  /* time-outs in a row after which the route may have become narrower */
#define EARLY     64 /* frames beyond the first missing one that the peer's map reaches */

void emx_send_window_put(struct emx_engine *e, struct emx_txbuf *b)
{
    emx_pool_put(&e->txbufs[b->size], b);
}

void emx_send_window_push(struct emx_session *s, struct emx_txbuf *b)
{
    if (s->open)
        emx_coalesce_close(s);
    b->seq = s->tx_next++;
    emx_txbuf_frame(b)->seq = b->seq;
    s->slots_taken += b->slot;
    emx_list_append(&s->unacked, &b->link);
    if (s->send_next == &s->unacked)
        s->send_next = &b->link;
    emx_session_ready(s);
}

void emx_send_window_control(struct emx_session *s, struct emx_txbuf *b)
{
    emx_list_append(&s->control, &b->link);
    emx_session_ready(s);
}

static struct emx_txbuf *first_lost(const struct emx_session *s)
{
    emx_list_each(l, &s->unacked)
    {
        struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, link);

        if (b->lost)
            return b;
    }
    return NULL;
}

struct emx_txbuf *emx_send_window_next(struct emx_session *s)
{
    struct emx_txbuf *b;

    if (emx_send_window_full(s))
        return NULL;
    if (s->lost)
        return first_lost(s);
    if (s->send_next == &s->unacked)
        return NULL;
    b = emx_list_entry(s->send_next, struct emx_txbuf, link);
    return b->unready ? NULL : b;
}

void emx_send_window_spend(struct emx_engine *e)
{
    struct emx_list *l;

    while ((l = emx_list_pop(&e->spent)))
        emx_send_window_put(e, emx_list_entry(l, struct emx_txbuf, link));
}

static void sent_reliably(struct emx_session *s, struct emx_txbuf *b)
{
    s->send_next = b->link.next;
    s->tx_acked = b->seq + 1;
    emx_list_del(&b->link);
    emx_list_append(&s->e->spent, &b->link);
}

/* The first frame to a peer leaves. */
static void start(struct emx_session *s)
{
    struct emx_engine *e = s->e;

    s->started = true;
    s->start_frames = emx_cc_first(&s->cc, e->start_frames);
    e->start_frames -= s->start_frames;
}

/* Gives back what it took of the endpoint's first burst. */
static void end_start(struct emx_session *s)
{
    s->e->start_frames += s->start_frames;
    s->start_frames = 0;
}

/* One more frame is under way. */
static void fly(struct emx_session *s, emx_time now)
{
    if (!s->started)
        start(s);
    s->flying++;
    if (!s->rto_from_ns) {
        s->rto_from_ns = now;
        emx_session_arm(s, emx_send_window_deadline(s));
    }
    emx_session_asked(s, now);
}

void emx_send_window_sent(struct emx_session *s, struct emx_txbuf *b, emx_time now)
{
    if (b == s->open)
        emx_coalesce_close(s);
    if (s->reliable) {
        sent_reliably(s, b);
        return;
    }
    s->probing = false;
    if (b->lost) {
        b->lost = false;
        s->lost--;
        emx_count(s->e, frames_resent);
    } else {
        s->send_next = b->link.next;
    }
    b->sent_ns = now;
    if (b->tries < UINT16_MAX)
        b->tries++;
    fly(s, now);
}

void emx_send_window_direct(struct emx_session *s, struct emx_txbuf *b, emx_time now)
{
    b->seq = s->tx_next++;
    if (s->reliable) {
        s->tx_acked = s->tx_next;
        emx_list_append(&s->e->spent, &b->link);
        return;
    }
    emx_list_append(&s->unacked, &b->link);
    b->sent_ns = now;
    b->tries = 1;
    fly(s, now);
}

/* b leaves the state it is in as seen by the counts. */
static void settle(struct emx_session *s, struct emx_txbuf *b)
{
    if (b->lost) {
        b->lost = false;
        s->lost--;
    } else if (!b->early) {
        s->flying--;
    }
}

static uint32_t next_unsent(const struct emx_session *s)
{
    if (s->send_next == &s->unacked)
        return s->tx_next;
    return emx_list_entry(s->send_next, struct emx_txbuf, link)->seq;
}

/* The last frame of those acknowledged was sent once, so long ago. */
static void answered(struct emx_session *s, emx_time ns)
{
    emx_rtt_sample(&s->rtt, ns, s->peer_ack_delay_ns, s->e->cfg);
    emx_exported_round_trip(s, ns);
}

/* Frees what was acknowledged in order; returns how many frames that were not acknowledged early. */
static unsigned ack_in_order(struct emx_session *s, uint32_t ack, emx_time now)
{
    unsigned acked = 0;
    emx_time sent_once_ns = EMX_NEVER;

    while (s->tx_acked != ack) {
        struct emx_txbuf *b = emx_list_entry(s->unacked.next, struct emx_txbuf, link);

        acked += !b->early;
        s->falsely |= s->doubtful && b->lost && b->tries == 1;
        sent_once_ns = b->tries == 1 && !b->early ? b->sent_ns : EMX_NEVER;
        settle(s, b);
        s->slots_taken -= b->slot;
        emx_list_del(&b->link);
        emx_send_window_put(s->e, b);
        s->tx_acked++;
    }
    if (sent_once_ns != EMX_NEVER)
        answered(s, now - sent_once_ns);
    return acked;
}

/* Marks what was acknowledged early; returns the last such frame, or NULL. */
static struct emx_txbuf *ack_early(struct emx_session *s, uint64_t early, unsigned *acked_p)
{
    struct emx_txbuf *last = NULL;

    emx_list_each(l, &s->unacked)
    {
        struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, link);
        uint32_t bit = b->seq - s->tx_acked - 1;

        if (!b->tries || (bit >= 64 && b->seq != s->tx_acked))
            break;
        if (b->seq == s->tx_acked || !(early >> bit & 1))
            continue;
        last = b;
        if (b->early)
            continue;
        settle(s, b);
        b->early = true;
        ++*acked_p;
    }
    return last;
}

/* The window falls, once for what was under way then. false: it has. */
static bool slow_down(struct emx_session *s)
{
    if (emx_seq_before(s->tx_acked, s->recover))
        return false;
    emx_cc_slow(&s->cc);
    s->recover = next_unsent(s);
    return true;
}

/* Frames that were sent before `last` and still are not there although it is. */
static void find_gaps(struct emx_session *s, const struct emx_txbuf *last, uint64_t early, emx_time now)
{
    unsigned beyond = (unsigned)__builtin_popcountll(early);
    bool any = false;

    emx_list_each(l, &s->unacked)
    {
        struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, link);

        if (b == last)
            break;
        if (b->early) {
            beyond--;
            continue;
        }
        if (b->lost || b->sent_ns > last->sent_ns || (b->tries > 1 && b->sent_ns == last->sent_ns))
            continue;
        /* A superframe and a single frame take two ways: that one overtakes the other means nothing. */
        if ((beyond < OVERTAKEN || b->bulk != last->bulk) && now - b->sent_ns < s->rtt.network_ns)
            continue;
        b->lost = true;
        s->lost++;
        s->flying--;
        any = true;
        emx_count(s->e, resent_gap);
    }
    if (any)
        slow_down(s);
}

/* More may leave than before. */
static void go_on(struct emx_session *s)
{
    if (s->lost || s->send_next != &s->unacked || !emx_list_empty(&s->control) || !emx_list_empty(&s->backlog))
        emx_session_ready(s);
}

void emx_send_window_marked(struct emx_session *s)
{
    if (!slow_down(s))
        return;
    emx_count(s->e, marks_heeded);
    go_on(s); /* frames that gathered no longer do */
}

/* What counted as lost has arrived: it is under way as before, and so is congestion control. */
static void undo(struct emx_session *s)
{
    emx_list_each(l, &s->unacked)
    {
        struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, link);

        if (l == s->send_next)
            break;
        if (!b->lost)
            continue;
        b->lost = false;
        s->lost--;
        s->flying++;
    }
    s->cc = s->before;
    s->recover = s->tx_acked;
    emx_count(s->e, timeouts_undone);
}

/* The first acknowledgement after a time-out that declared the window lost. */
static void judge(struct emx_session *s)
{
    if (s->falsely)
        undo(s);
    s->doubtful = s->falsely = false;
}

/* So many frames flew before, and so many of them have arrived. */
static void advance(struct emx_session *s, unsigned flew, unsigned acked, emx_time now)
{
    bool limits = s->send_next != &s->unacked || emx_cc_limits(&s->cc, flew);

    if (s->start_frames) {
        end_start(s);
        emx_cc_met(&s->cc);
    }
    if (s->doubtful)
        judge(s);
    emx_cc_acked(&s->cc, acked, limits, emx_seq_before(s->tx_acked, s->recover));
    if (!s->lost)
        emx_cc_coalesce(&s->cc, s->flying, s->rtt.network_ns);
    s->backoff = 0;
    s->probing = false;
    s->rto_from_ns = next_unsent(s) == s->tx_acked ? 0 : now;
    if (s->rto_from_ns)
        emx_session_arm(s, emx_send_window_deadline(s));
}

void emx_send_window_ack(struct emx_session *s, uint32_t ack, uint64_t early, emx_time now)
{
    unsigned acked = 0, flew = s->flying;
    bool moves = ack != s->tx_acked;
    struct emx_txbuf *last;

    if (emx_seq_before(ack, s->tx_acked) || emx_seq_before(next_unsent(s), ack))
        return;
    if (moves)
        acked = ack_in_order(s, ack, now);
    if (early && (last = ack_early(s, early, &acked)))
        find_gaps(s, last, early, now);
    if (!acked && !moves && !s->lost)
        return;
    if (acked || moves) /* it may move over frames that all came early: the resend timer stops with the last */
        advance(s, flew, acked, now);
    go_on(s);
}

emx_time emx_send_window_deadline(const struct emx_session *s)
{
    if (!s->rto_from_ns)
        return EMX_NEVER;
    return s->rto_from_ns + emx_rtt_backed_off(&s->rtt, s->backoff, s->e->cfg);
}

/* One frame is to be sent again: the last that the peer can tell of. If some are to be sent again anyway, one of them.
 */
static void probe(struct emx_session *s)
{
    struct emx_list *l = s->send_next->prev;
    struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, link);

    s->probing = true;
    if (s->lost)
        return;
    while (l != s->unacked.next && (b->early || b->seq - s->tx_acked > EARLY)) {
        l = l->prev;
        b = emx_list_entry(l, struct emx_txbuf, link);
    }
    s->flying -= !b->early; /* the first is early only if the peer has told nonsense */
    b->early = false;
    b->lost = true;
    s->lost++;
}

/* All that is under way counts as lost. */
static void give_up(struct emx_session *s)
{
    unsigned flew = s->flying;

    emx_list_each(l, &s->unacked)
    {
        struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, link);

        if (l == s->send_next)
            break;
        if (b->lost)
            continue;
        if (!b->early)
            s->flying--;
        b->early = false; /* the receiver may have had to give it up (RFC 2018, section 8) */
        b->lost = true;
        s->lost++;
    }
    if (!s->doubtful)
        s->before = s->cc;
    s->doubtful = true;
    if (flew > 1) /* one says nothing of how many the network carries */
        emx_cc_timeout(&s->cc);
    s->recover = next_unsent(s);
}

void emx_send_window_expire(struct emx_session *s, emx_time now)
{
    if (now < emx_send_window_deadline(s))
        return;
    if (s->backoff < PROBES)
        probe(s);
    else
        give_up(s);
    emx_count(s->e, resent_timeout);
    s->backoff++;
    s->rto_from_ns = now;
    emx_session_ready(s);
    if (s->backoff >= DOUBT)
        emx_connect_probe_mtu(s, emx_list_entry(s->unacked.next, struct emx_txbuf, link)->len_bytes, now);
}

void emx_send_window_hurry(struct emx_session *s, emx_time now)
{
    s->backoff = 0;
    if (s->rto_from_ns)
        s->rto_from_ns = now;
    emx_session_arm(s, emx_send_window_deadline(s));
}

static void put_all(struct emx_engine *e, struct emx_list *list)
{
    struct emx_list *l;

    while ((l = emx_list_pop(list)))
        emx_send_window_put(e, emx_list_entry(l, struct emx_txbuf, link));
}

void emx_send_window_fini(struct emx_session *s)
{
    if (s->e->late.session == s)
        s->e->late.session = NULL;
    if (s->open)
        emx_coalesce_close(s);
    put_all(s->e, &s->unacked);
    put_all(s->e, &s->control);
    s->send_next = &s->unacked;
    s->flying = s->lost = s->slots_taken = 0;
    s->probing = s->doubtful = s->falsely = false;
    end_start(s);
    s->tx_acked = s->tx_next;
    s->rto_from_ns = 0;
}
