/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reliable sending. Sequenced frames get consecutive numbers when they enter the window (session.tx.unacked), leave as
 * congestion control allows, and stay until they are acknowledged. A frame is retransmitted
 *  - when later ones were acknowledged early: two frames have overtaken it, or a round trip has passed (after RACK,
 *    RFC 8985, simplified: Ethernet seldom reorders, and a duplicate does no harm);
 *  - when nothing was acknowledged for the retransmission time-out, which doubles each time. The cause may be a peer
 *    that computes, so the first time-outs only retransmit one frame as a probe (RFC 9002, section 6.2.4; RFC 8985,
 *    section 7): the last one in the range of the peer's map of early frames, because its acknowledgement shows which
 *    earlier ones are missing. After PROBES of them the window counts as lost, and congestion control lets one frame
 *    leave at a time. The time-out was false, and the peer had been away, if a frame that counted as lost, and was not
 *    retransmitted, is acknowledged; or if all that was retransmitted since the first time-out had arrived before, as
 *    the peer tells (RFC 3708). Then the earlier state is restored (RFC 4015).
 *
 * Runs of frames (send_run.h) are acknowledged as a whole, or split before any of the above.
 *
 * Over a reliable route a frame is finished when the wire has it. The window holds only unsent frames, and
 * acknowledgements, time-outs and congestion have no role. The wire copies a frame before the next call of the engine,
 * which then reuses its buffer (engine.spent).
 */
#include "base/min.h"
#include "core/cc/cc.h"
#include "core/engine_impl.h"
#include "core/rel/offload_probe.h"
#include "core/rel/rtt.h"
#include "core/rel/send_run.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

#define OVERTAKEN 2
#define PROBES    2
#define DOUBT     3  /* time-outs in a row after which the path MTU is probed */
#define EARLY     64 /* frames after the first missing one that the peer's map covers */

void emx_send_window_init(struct emx_send_window *w, const struct emx_cc_ops *cc, uint32_t first, uint32_t limit_frames)
{
    w->first = w->next = w->acked = w->recover = first;
    w->peer_window = 8; /* until the peer's hello */
    w->shortest_ns = UINT32_MAX;
    emx_list_init(&w->unacked);
    emx_list_init(&w->control);
    w->send_next = &w->unacked;
    emx_cc_init(&w->cc, cc, limit_frames);
}

void emx_send_window_push(struct emx_session *s, struct emx_txbuf *b)
{
    s->tx.open = NULL;
    b->seq = s->tx.next;
    s->tx.next += b->frames;
    s->tx.runs += b->frames > 1;
    emx_txbuf_frame(b)->seq = b->seq;
    s->tx.slots_taken += b->slot;
    emx_list_append(&s->tx.unacked, &b->link);
    if (s->tx.send_next == &s->tx.unacked)
        s->tx.send_next = &b->link;
    emx_session_ready(s);
}

void emx_send_window_push_all(struct emx_session *s, struct emx_list *made)
{
    struct emx_list *l;

    while ((l = emx_list_pop(made)))
        emx_send_window_push(s, emx_list_entry(l, struct emx_txbuf, link));
}

void emx_send_window_control(struct emx_session *s, struct emx_txbuf *b)
{
    emx_list_append(&s->tx.control, &b->link);
    emx_session_ready(s);
}

static struct emx_txbuf *send_window_first_lost(const struct emx_session *s)
{
    emx_list_each(l, &s->tx.unacked)
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

    if (emx_send_window_full(&s->tx))
        return NULL;
    if (s->tx.lost)
        return send_window_first_lost(s);
    if (s->tx.send_next == &s->tx.unacked)
        return NULL;
    b = emx_list_entry(s->tx.send_next, struct emx_txbuf, link);
    return b->unready ? NULL : b;
}

void emx_send_window_spend(struct emx_engine *e)
{
    emx_txbuf_put_all(&e->txbufs, &e->spent);
}

static void send_window_sent_reliably(struct emx_session *s, struct emx_txbuf *b)
{
    s->tx.send_next = b->link.next;
    s->tx.acked = b->seq + 1;
    emx_list_del(&b->link);
    emx_list_append(&s->e->spent, &b->link);
}

/* The first frame to a peer leaves. */
static void send_window_start(struct emx_session *s)
{
    struct emx_engine *e = s->e;

    s->tx.started = true;
    s->tx.start_frames = emx_cc_first(&s->tx.cc, e->start_frames);
    e->start_frames -= s->tx.start_frames;
}

/* Returns its part of the endpoint's first burst. */
static void send_window_end_start(struct emx_session *s)
{
    s->e->start_frames += s->tx.start_frames;
    s->tx.start_frames = 0;
}

/* So many more frames are in flight. */
static void send_window_in_flight(struct emx_session *s, unsigned frames, emx_time now)
{
    if (!s->tx.started)
        send_window_start(s);
    s->tx.in_flight += frames;
    if (!s->tx.rto_from_ns) {
        s->tx.rto_from_ns = now;
        emx_session_arm(s, emx_send_window_deadline(s));
    }
    emx_session_asked(s, now);
}

void emx_send_window_sent(struct emx_session *s, struct emx_txbuf *b, emx_time now)
{
    if (b == s->tx.open)
        s->tx.open = NULL;
    if (s->reliable) {
        send_window_sent_reliably(s, b);
        return;
    }
    s->tx.probing = false;
    if (b->lost) {
        b->lost = false;
        s->tx.lost--;
        if (b->slot && b->tries == 1)
            emx_offload_probe_lost(&s->offload,
                                   emx_txbuf_frame(b)->type == EMX_F_chunk ? EMX_GSO_OF_TSO : EMX_GSO_OF_UDP);
        s->tx.resent += s->tx.backoff > 0;
        emx_count(s->e, frames_resent);
    } else {
        s->tx.send_next = b->link.next;
    }
    b->sent_ns = now;
    if (b->tries < UINT16_MAX)
        b->tries++;
    send_window_in_flight(s, b->frames, now);
}

void emx_send_window_direct(struct emx_session *s, struct emx_txbuf *b, emx_time now)
{
    b->seq = s->tx.next++;
    if (s->reliable) {
        s->tx.acked = s->tx.next;
        emx_list_append(&s->e->spent, &b->link);
        return;
    }
    emx_list_append(&s->tx.unacked, &b->link);
    b->sent_ns = now;
    b->tries = 1;
    send_window_in_flight(s, 1, now);
}

/* Removes b from the counts of its present state. */
static void send_window_settle(struct emx_session *s, struct emx_txbuf *b)
{
    if (b->lost) {
        b->lost = false;
        s->tx.lost--;
    } else if (!b->early) {
        s->tx.in_flight -= b->frames;
    }
}

static uint32_t send_window_next_unsent(const struct emx_session *s)
{
    if (s->tx.send_next == &s->tx.unacked)
        return s->tx.next;
    return emx_list_entry(s->tx.send_next, struct emx_txbuf, link)->seq;
}

/* Number and length of the frames of an event. */
struct send_window_sum {
    uint32_t frames, bytes;
};

static inline void send_window_add(struct send_window_sum *sum, const struct emx_txbuf *b)
{
    sum->frames += b->frames;
    sum->bytes += b->len_bytes;
}

/* The event for congestion control; flew: in flight before. */
static inline struct emx_cc_event send_window_event(const struct emx_session *s, struct send_window_sum sum,
                                                    unsigned flew, emx_time now)
{
    return (struct emx_cc_event){.now_ns = now,
                                 .rtt_ns = s->rtt.network_ns,
                                 .frames = sum.frames,
                                 .bytes = sum.bytes,
                                 .flew_frames = flew,
                                 .flies_frames = s->tx.in_flight,
                                 .recovers = emx_seq_before(s->tx.acked, s->tx.recover),
                                 .resends = s->tx.lost};
}

/* The last acknowledged frame was sent once, that long ago. */
static void send_window_answered(struct emx_session *s, emx_time ns)
{
    if (ns < s->tx.shortest_ns)
        s->tx.shortest_ns = (uint32_t)ns;
    emx_rtt_sample(&s->rtt, ns, s->peer_ack_delay_ns, s->e->cfg);
}

/* Frees frames acknowledged in order, and counts those not acknowledged early. */
static void send_window_ack_in_order(struct emx_session *s, uint32_t ack, struct send_window_sum *acked, emx_time now)
{
    emx_time sent_once_ns = EMX_NEVER;

    while (s->tx.acked != ack) {
        struct emx_txbuf *b = emx_list_entry(s->tx.unacked.next, struct emx_txbuf, link);

        if (!b->early)
            send_window_add(acked, b);
        if (s->tx.doubtful)
            s->tx.falsely |= b->lost && b->tries == 1;
        sent_once_ns = b->tries == 1 && !b->early ? b->sent_ns : EMX_NEVER;
        send_window_settle(s, b);
        s->tx.slots_taken -= b->slot;
        s->tx.runs -= b->frames > 1;
        s->tx.acked += b->frames;
        emx_list_del(&b->link);
        emx_txbuf_put(&s->e->txbufs, b);
    }
    if (sent_once_ns != EMX_NEVER)
        send_window_answered(s, now - sent_once_ns);
}

/* Marks frames acknowledged early. Returns the last such frame, or NULL. */
static struct emx_txbuf *send_window_ack_early(struct emx_session *s, uint64_t early, struct send_window_sum *acked)
{
    struct emx_txbuf *last = NULL;

    emx_list_each(l, &s->tx.unacked)
    {
        struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, link);
        uint32_t bit = b->seq - s->tx.acked - 1;

        if (!b->tries || (bit >= 64 && b->seq != s->tx.acked))
            break;
        if (b->seq == s->tx.acked || !(early >> bit & 1))
            continue;
        last = b;
        if (b->early)
            continue;
        send_window_settle(s, b);
        b->early = true;
        send_window_add(acked, b);
    }
    return last;
}

/* Reports gaps and marks to congestion control once for the frames in flight. false: reported before. */
static bool send_window_reduce(struct emx_session *s, void (*why)(struct emx_cc *cc, const struct emx_cc_event *ev),
                               struct emx_cc_event ev)
{
    if (ev.recovers)
        return false;
    why(&s->tx.cc, &ev);
    s->tx.recover = send_window_next_unsent(s);
    s->tx.undoable = false;
    return true;
}

/* Finds frames that were sent before `last` and are missing although it has arrived. */
static void send_window_find_gaps(struct emx_session *s, const struct emx_txbuf *last, uint64_t early, emx_time now)
{
    unsigned beyond = (unsigned)__builtin_popcountll(early), flew = s->tx.in_flight;
    struct send_window_sum lost = {0};

    emx_list_each(l, &s->tx.unacked)
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
        /* A GSO packet and a single frame take different paths: reordering between them shows no loss. */
        if ((beyond < OVERTAKEN || b->gso != last->gso) && now - b->sent_ns < s->rtt.network_ns)
            continue;
        b->lost = true;
        s->tx.lost++;
        s->tx.in_flight--;
        send_window_add(&lost, b);
        emx_count(s->e, resent_gap);
    }
    if (lost.frames)
        send_window_reduce(s, s->e->cc->lost, send_window_event(s, lost, flew, now));
}

/* Not inlined, so that acknowledgements without a map do not pay for it. Returns what was acknowledged. */
static __attribute__((noinline)) struct send_window_sum send_window_ack_with_gaps(struct emx_session *s, uint64_t early,
                                                                                  emx_time now)
{
    struct send_window_sum acked = {0};
    struct emx_txbuf *last = send_window_ack_early(s, early, &acked);

    if (last)
        send_window_find_gaps(s, last, early, now);
    return acked;
}

/* Continues sending after the limits have changed. */
static void send_window_go_on(struct emx_session *s)
{
    if (s->tx.lost || s->tx.send_next != &s->tx.unacked || !emx_list_empty(&s->tx.control) ||
        !emx_list_empty(&s->backlog))
        emx_session_ready(s);
}

void emx_send_window_marked(struct emx_session *s, uint32_t frames, emx_time now)
{
    struct send_window_sum marked = {.frames = frames};

    if (!send_window_reduce(s, s->e->cc->marked, send_window_event(s, marked, s->tx.in_flight, now)))
        return;
    emx_count(s->e, ce_responses);
    send_window_go_on(s); /* waiting frames need not wait any more */
}

/* A frame that counted as lost has arrived: restores the frames in flight and congestion control. */
static void send_window_undo(struct emx_session *s)
{
    emx_list_each(l, &s->tx.unacked)
    {
        struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, link);

        if (l == s->tx.send_next)
            break;
        if (!b->lost)
            continue;
        b->lost = false;
        s->tx.lost--;
        s->tx.in_flight++;
    }
    if (s->tx.cc.cwnd_frames < s->tx.before.cwnd_frames)
        s->tx.cc = s->tx.before;
    s->tx.recover = s->tx.acked;
    s->tx.undoable = false;
    emx_count(s->e, timeouts_undone);
}

/* Handles the first acknowledgement after a time-out that declared the window lost. */
static void send_window_judge(struct emx_session *s)
{
    if (s->tx.falsely && s->tx.undoable)
        send_window_undo(s);
    s->tx.doubtful = s->tx.falsely = false;
}

/* Frames that were lost make no such report. Frames that the network doubled do: then the window is as it was before
 * the time-out, and no more. */
void emx_send_window_doubled(struct emx_session *s, uint32_t frames)
{
    uint32_t more = frames - s->tx.doubled_told;

    if ((int32_t)more <= 0)
        return; /* late: a later one was handled */
    s->tx.doubled_told = frames;
    if (!s->tx.undoable)
        return;
    s->tx.resent -= emx_min(more, s->tx.resent);
    if (s->tx.resent)
        return;
    send_window_undo(s);
    send_window_go_on(s);
}

/* flew frames were in flight, and acked of them have arrived. */
static void send_window_advance(struct emx_session *s, unsigned flew, struct send_window_sum acked, emx_time now)
{
    bool limits = s->tx.send_next != &s->tx.unacked || emx_cc_limits(&s->tx.cc, flew);
    struct emx_cc_event ev;

    if (s->tx.start_frames) {
        send_window_end_start(s);
        emx_cc_met(&s->tx.cc);
    }
    if (s->tx.doubtful)
        send_window_judge(s);
    ev = send_window_event(s, acked, flew, now);
    ev.limits = limits;
    s->e->cc->acked(&s->tx.cc, &ev);
    s->tx.backoff = 0;
    s->tx.probing = false;
    s->tx.rto_from_ns = send_window_next_unsent(s) == s->tx.acked ? 0 : now;
    if (s->tx.rto_from_ns)
        emx_session_arm(s, emx_send_window_deadline(s));
}

void emx_send_window_ack(struct emx_session *s, uint32_t ack, uint64_t early, emx_time now)
{
    struct send_window_sum acked = {0}, more;
    unsigned flew = s->tx.in_flight;
    bool moves = ack != s->tx.acked;

    if (emx_seq_before(ack, s->tx.acked) || emx_seq_before(send_window_next_unsent(s), ack))
        return;
    if (s->tx.runs && !emx_send_run_suits_ack(s, ack, early) && !emx_send_run_split_all(s))
        return; /* a later one tells the same */
    if (moves)
        send_window_ack_in_order(s, ack, &acked, now);
    if (early) {
        more = send_window_ack_with_gaps(s, early, now);
        acked.frames += more.frames;
        acked.bytes += more.bytes;
    }
    if (!acked.frames && !moves && !s->tx.lost)
        return;
    if (acked.frames ||
        moves) /* ack may pass frames that were all acknowledged early: the retransmission timer stops with the last */
        send_window_advance(s, flew, acked, now);
    send_window_go_on(s);
}

emx_time emx_send_window_deadline(const struct emx_session *s)
{
    if (!s->tx.rto_from_ns)
        return EMX_NEVER;
    return s->tx.rto_from_ns + emx_rtt_backed_off(&s->rtt, s->tx.backoff, s->e->cfg);
}

/* Retransmits one frame: the last that the peer can report. If some are to be retransmitted anyway, one of them. */
static void send_window_probe(struct emx_session *s)
{
    struct emx_list *l = s->tx.send_next->prev;
    struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, link);

    s->tx.probing = true;
    if (s->tx.lost)
        return;
    while (l != s->tx.unacked.next && (b->early || b->seq - s->tx.acked > EARLY)) {
        l = l->prev;
        b = emx_list_entry(l, struct emx_txbuf, link);
    }
    s->tx.in_flight -= !b->early; /* the first is early only if the peer's report was invalid */
    b->early = false;
    b->lost = true;
    s->tx.lost++;
}

/* Counts all frames in flight as lost. */
static void send_window_count_all_lost(struct emx_session *s, emx_time now)
{
    unsigned flew = s->tx.in_flight;
    struct send_window_sum lost = {0};
    struct emx_cc_event ev;

    emx_list_each(l, &s->tx.unacked)
    {
        struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, link);

        if (l == s->tx.send_next)
            break;
        if (b->lost)
            continue;
        if (!b->early) {
            s->tx.in_flight--;
            send_window_add(&lost, b);
        }
        b->early = false; /* the receiver may have dropped it (RFC 2018, section 8) */
        b->lost = true;
        s->tx.lost++;
    }
    if (!s->tx.undoable)
        s->tx.before = s->tx.cc;
    s->tx.doubtful = s->tx.undoable = true;
    if (flew > 1) { /* one frame says nothing about the network's capacity */
        ev = send_window_event(s, lost, flew, now);
        s->e->cc->timed_out(&s->tx.cc, &ev);
    }
    s->tx.recover = send_window_next_unsent(s);
}

void emx_send_window_expire(struct emx_session *s, emx_time now)
{
    if (now < emx_send_window_deadline(s))
        return;
    if (s->tx.runs && !emx_send_run_split_all(s)) {
        s->tx.rto_from_ns = now; /* later, when there is memory */
        return;
    }
    if (!s->tx.backoff) {
        s->tx.resent = 0;
        s->tx.undoable = false;
    }
    if (s->tx.backoff < PROBES)
        send_window_probe(s);
    else
        send_window_count_all_lost(s, now);
    emx_count(s->e, resent_timeout);
    s->tx.backoff++;
    s->tx.rto_from_ns = now;
    emx_session_ready(s);
    if (s->tx.backoff >= DOUBT)
        s->e->up->frames_lost(s, emx_list_entry(s->tx.unacked.next, struct emx_txbuf, link)->len_bytes, now);
}

void emx_send_window_hurry(struct emx_session *s, emx_time now)
{
    s->tx.backoff = 0;
    if (s->tx.rto_from_ns)
        s->tx.rto_from_ns = now;
    emx_session_arm(s, emx_send_window_deadline(s));
}

void emx_send_window_fini(struct emx_session *s)
{
    if (s->e->deferred.session == s)
        s->e->deferred.session = NULL;
    s->tx.open = NULL;
    emx_txbuf_put_all(&s->e->txbufs, &s->tx.unacked);
    emx_txbuf_put_all(&s->e->txbufs, &s->tx.control);
    s->tx.send_next = &s->tx.unacked;
    s->tx.in_flight = s->tx.lost = s->tx.slots_taken = 0;
    s->tx.runs = 0;
    s->tx.probing = s->tx.doubtful = s->tx.falsely = s->tx.undoable = false;
    send_window_end_start(s);
    s->tx.acked = s->tx.next;
    s->tx.rto_from_ns = 0;
}
