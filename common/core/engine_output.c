/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Engine, output: chooses the class of a message, fills the windows of sessions, and asks each in turn for frames, the
 * most urgent first.
 */
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/chunk_frame.h"
#include "core/format/eager_head.h"
#include "core/format/frame.h"
#include "core/msg/chunk.h"
#include "core/msg/coalesce.h"
#include "core/msg/eager.h"
#include "core/msg/lapse.h"
#include "core/msg/op.h"
#include "core/msg/rndv.h"
#include "core/msg/self.h"
#include "core/peer.h"
#include "core/rel/rail.h"
#include "core/rel/ack.h"
#include "core/rel/connect.h"
#include "core/rel/credit.h"
#include "core/rel/ecn.h"
#include "core/rel/failover.h"
#include "core/rel/fragment.h"
#include "core/rel/reorder.h"
#include "core/rel/seal.h"
#include "core/rel/send_run.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"
#include "core/rma/rma.h"

static int output_send_eagerly(struct emx_session *s, const struct emx_op_args *a, size_t total_bytes)
{
    struct emx_eager_source m = {.data = &a->data,
                                 .am_header = a->am_header,
                                 .total_bytes = (uint32_t)total_bytes,
                                 .am_header_bytes = (uint16_t)a->am_header_bytes,
                                 .flags = emx_op_args_flags(a),
                                 .bits = a->bits};
    unsigned frames, chunks;

    if (a->kind == EMX_KIND_TAGGED && emx_coalesce_add(s, &a->data, a->bits))
        return ETHMX_OK;
    frames = emx_eager_frames(s, total_bytes);
    if (frames > emx_send_window_room(&s->tx) || !emx_credit_take(&s->credit, emx_eager_cost(total_bytes)))
        return ETHMX_INPROGRESS;
    chunks = emx_chunk_suits(s, &m);
    if (chunks && !emx_offload_probe_take(&s->offload, EMX_GSO_OF_TSO, true))
        chunks = 0;
    if (!(chunks ? emx_chunk_push(s, &m, chunks) : emx_eager_compact(s, &m, frames))) {
        emx_credit_untake(&s->credit, emx_eager_cost(total_bytes));
        return ETHMX_ERR_NO_MEMORY;
    }
    emx_eager_count(s, a->data.len_bytes, frames);
    return ETHMX_OK;
}

/* Whether the message shares a frame with earlier ones. */
static bool output_shares_frame(struct emx_session *s, const struct emx_op *op, bool is_short)
{
    return is_short && !op->eager && !op->sync && !op->is_am && op->space == EMX_TAGGED && !op->am_header_bytes &&
           emx_coalesce_add(s, &op->data, op->bits);
}

/* Moves the backlog's first operation into the window as far as there is room. false: it must wait. */
static bool output_advance(struct emx_session *s, struct emx_op *op)
{
    struct emx_engine *e = s->e;
    size_t total_bytes = op->am_header_bytes + op->msg_bytes;
    bool is_short;

    if (emx_op_is_rma(op))
        return emx_rma_advance(s, op);
    is_short = emx_eager_suits(s, &op->data, total_bytes);
    if (output_shares_frame(s, op, is_short)) {
        emx_list_del(&op->link);
        emx_op_complete(e, op, ETHMX_OK);
        return true;
    }
    if (!emx_send_window_room(&s->tx))
        return false;
    if (!op->eager && is_short && (!op->sync || emx_op_take_id(e, op)))
        op->eager = emx_credit_take(&s->credit, emx_eager_cost(total_bytes));
    if (!op->eager) {
        if (!emx_rndv_announce(s, op, is_short))
            return false;
        emx_list_del(&op->link);
        emx_count(e, sent_large);
        if (is_short)
            emx_count(e, sent_held);
        return true;
    }
    if (!emx_eager_continue(s, op))
        return false;
    emx_list_del(&op->link);
    emx_eager_count(s, op->msg_bytes, emx_eager_frames(s, total_bytes));
    if (op->sync && !op->matched) {
        op->where = EMX_OP_MATCHING;
        emx_op_await(op);
    } else {
        emx_op_complete(e, op, ETHMX_OK);
    }
    return true;
}

/* Fills the window: control frames of operations first, then messages in order. */
static void output_fill(struct emx_session *s)
{
    struct emx_list *l;

    if (s->state != EMX_S_CONNECTED)
        return;
    while ((l = emx_list_first(&s->tx.control)) && emx_send_window_room(&s->tx)) {
        struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, link);

        emx_list_del(l);
        emx_send_window_push(s, b);
        if (s->rma)
            emx_rma_pushed(s, b);
    }
    while ((l = emx_list_first(&s->backlog)))
        if (!output_advance(s, emx_list_entry(l, struct emx_op, link)))
            return;
}

int emx_engine_send(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *a, emx_time now)
{
    struct emx_session *s = peer->session;
    struct emx_op *op;
    int rc;

    emx_session_deferred_ack(e);
    if (e->closing)
        return ETHMX_ERR_CLOSED;
    if (!emx_message_head_fits(emx_op_args_flags(a), a->am_header_bytes) ||
        (a->kind == EMX_KIND_AM && a->bits >= ETHMX_AM_HANDLERS))
        return ETHMX_ERR_PARAM;
    if (!s && peer->id != e->self.id && !(s = emx_session_start(e, peer, now)))
        return ETHMX_ERR_NO_MEMORY;
    if (s && s->end_status)
        return s->end_status;
    if (!s) {
        rc = emx_self_send(e, peer, a, now);
    } else if (emx_eager_now(s, a) &&
               (rc = output_send_eagerly(s, a, a->am_header_bytes + a->data.len_bytes)) != ETHMX_INPROGRESS) {
        ; /* completed, or out of memory */
    } else {
        if (!(op = emx_op_new_send(e, peer, a, now)))
            return ETHMX_ERR_NO_MEMORY;
        emx_op_queue(s, op);
        rc = ETHMX_INPROGRESS;
    }
    if (rc < 0)
        return rc;
    emx_count(e, msgs_sent);
    emx_add(e, bytes_sent, a->data.len_bytes);
    e->stats->am_sent += a->kind == EMX_KIND_AM;
    return rc;
}

/* A frame without data, with only the header of its type. */
static void output_bare(struct emx_session *s, enum emx_frame_type type, struct emx_txframe *f,
                        struct emx_scratch *scratch)
{
    struct emx_frame *h = (void *)scratch->b;
    size_t head = emx_frame_info[type].head_bytes;

    emx_engine_head(s->e, s->peer, h, type, head);
    emx_engine_stamp(s, h);
    if (type == EMX_F_close)
        h->seq = s->tx.first;
    *f = (struct emx_txframe){.to = &s->to, .head_bytes = (uint16_t)(sizeof(*h) + head)};
    emx_engine_seal(s, h, f, s->seal);
}

/* The next buffer of the window, which can leave as one frame. NULL: there is none now. */
static struct emx_txbuf *output_next_buffer(struct emx_session *s)
{
    struct emx_txbuf *b = emx_send_window_next(s);

    if (!b || b->frames == 1 || emx_chunk_leaves(s, b))
        return b;
    return emx_send_run_split(s, b) ? emx_send_window_next(s) : NULL;
}

static bool output_sequenced(struct emx_session *s, struct emx_txframe *f, emx_time now)
{
    struct emx_txbuf *b = output_next_buffer(s);
    struct emx_frame *h;

    if (!b)
        return false;
    h = emx_txbuf_frame(b);
    emx_engine_stamp(s, h);
    if (h->type == EMX_F_eager)
        ((struct emx_f_eager *)(h + 1))->joined = s->offload.joined_rx;
    else if (h->type == EMX_F_chunk)
        ((struct emx_f_chunk *)(h + 1))->joined = emx_offload_probe_brief(&s->offload);
    *f = (struct emx_txframe){.to = &s->to,
                              .head_bytes = b->len_bytes - b->body_bytes,
                              .body = b->body_bytes ? b->body : NULL,
                              .body_bytes = b->body_bytes,
                              .gso = b->gso && !b->tries};
    if (b->tries)
        f->age_ns = now - b->sent_ns;
    emx_engine_seal(s, h, f, s->seal);
    if (b->frames > 1)
        f->chunk_bytes = emx_chunk_head(h)->chunk_bytes;
    emx_send_window_sent(s, b, now);
    return true;
}

static bool output_ping(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, emx_time now)
{
    if (s->ping_due) {
        s->ping_due = false;
        emx_count(s->e, pings_sent);
        output_bare(s, EMX_F_ping, f, scratch);
        emx_session_asked(s, now);
        return true;
    }
    if (!s->pong_due)
        return false;
    s->pong_due = false;
    output_bare(s, EMX_F_pong, f, scratch);
    return true;
}

/* An acknowledgement, but for a map of early frames, that also tells how many frames arrived twice. */
static void output_doubled(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch)
{
    *(struct emx_f_doubled *)(scratch->b + sizeof(struct emx_frame)) = (struct emx_f_doubled){.frames = s->rx.doubled};
    output_bare(s, EMX_F_doubled, f, scratch);
    emx_reorder_told(&s->rx);
    if (!s->rx.held_count && !s->ecn.due)
        emx_reorder_acked(&s->rx);
}

static bool output_ack(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch)
{
    if (!s->rx.ack_now)
        return false;
    if (s->rx.doubled_due) {
        output_doubled(s, f, scratch);
        return true;
    }
    *(struct emx_f_ack *)(scratch->b + sizeof(struct emx_frame)) =
        (struct emx_f_ack){.early = s->rx.early, .joined = s->offload.joined_rx, .marked = s->ecn.ce_rx};
    output_bare(s, EMX_F_ack, f, scratch);
    emx_count(s->e, acks_sent);
    emx_reorder_acked(&s->rx);
    emx_ecn_sent(&s->ecn);
    return true;
}

static bool output_recall(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch)
{
    struct emx_f_recall *t = (void *)(scratch->b + sizeof(struct emx_frame));
    uint32_t limit;

    if (!s->credit.recall_due || !emx_credit_recall(s, &limit))
        return false;
    *t = (struct emx_f_recall){.limit = limit};
    output_bare(s, EMX_F_recall, f, scratch);
    return true;
}

static bool output_close(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch)
{
    if (!s->byes_due)
        return false;
    s->byes_due--;
    output_bare(s, EMX_F_close, f, scratch);
    return true;
}

/* Makes one frame of the session, most urgent first. What only an acknowledgement can carry is first: a map of early
 * frames avoids retransmissions, congestion marks avoid losses. */
static bool output_one(struct emx_session *s, struct emx_txframe *f, unsigned i, emx_time now)
{
    struct emx_engine *e = s->e;
    struct emx_scratch *scratch = &e->scratch[i];
    bool carried;

    if (s->state == EMX_S_LEAVING)
        return output_close(s, f, scratch);
    if (s->state == EMX_S_CONNECTING)
        return output_close(s, f, scratch) || emx_connect_output_hello(s, f, scratch, now) ||
               output_ack(s, f, scratch) || output_ping(s, f, scratch, now);
    if ((s->rx.held_count || s->ecn.due) && output_ack(s, f, scratch))
        return true;
    if (s->connect->mtu_probing && emx_connect_output_hello(s, f, scratch, now))
        return true;
    if (s->fragment.out && emx_fragment_output(s, f, scratch, i))
        return true;
    carried = output_sequenced(s, f, now) || emx_rndv_output_pull(s, f, scratch, now) ||
              emx_rndv_output_data(s, f, scratch, i) || output_ping(s, f, scratch, now) || output_recall(s, f, scratch);
    if (carried && !s->rx.held_count)
        emx_reorder_acked(&s->rx);
    if (!carried && s->rails && emx_rail_output_ask(s, f, scratch))
        return true;
    return carried || output_ack(s, f, scratch) || output_close(s, f, scratch);
}

/* Whether output_one() would find nothing. What is asked of a session with work of its kind only counts as more. */
static inline bool output_is_over(const struct emx_session *s)
{
    return s->tx.send_next == &s->tx.unacked && !s->tx.lost && emx_list_empty(&s->tx.control) &&
           emx_list_empty(&s->backlog) && emx_list_empty(&s->pulling.pulls) && emx_list_empty(&s->pulled.requests) &&
           s->state == EMX_S_CONNECTED && !s->ping_due && !s->pong_due && !s->credit.recall_due && !s->byes_due &&
           !s->rx.ack_now && !s->fragment.out && !s->rails && !s->connect->mtu_probing;
}

/* On a reliable session the window is free again when its frames have left. */
static bool output_next(struct emx_session *s, struct emx_txframe *batch, unsigned i, unsigned max, emx_time now)
{
    struct emx_txframe *f = &batch[i];
    bool one;

    s->e->output_room = max - i;
    one = output_one(s, f, i, now);
    if (!one && s->reliable && !(emx_list_empty(&s->backlog) && emx_list_empty(&s->tx.control))) {
        output_fill(s);
        one = output_one(s, f, i, now);
    }
    return one && (!s->fragment.out || emx_fragment_fit(s, f, &s->e->scratch[i], i));
}

/* An acknowledgement that emx_reorder_expire() found overdue, or one that is due at the same time as an answer: it does
 * not wait behind data. */
static bool output_overdue_ack(struct emx_session *s, unsigned link, struct emx_txframe *f, struct emx_scratch *scratch)
{
    return s->link == link && s->state == EMX_S_CONNECTED && output_ack(s, f, scratch);
}

/* What is due before any data. */
static unsigned output_answers(struct emx_engine *e, unsigned link, struct emx_txframe *f, unsigned max)
{
    struct emx_list *l;
    unsigned n = 0;

    while (n < max && (l = emx_list_first(&e->hello_acking[link]))) {
        struct emx_session *s = emx_list_entry(l, struct emx_session, hello_acking);

        if (emx_connect_output_hello_ack(s, link, &f[n], &e->scratch[n]) ||
            emx_failover_output(s, link, &f[n], &e->scratch[n]) || output_overdue_ack(s, link, &f[n], &e->scratch[n])) {
            n++;
            continue;
        }
        emx_session_answered(s, link);
    }
    return n;
}

/* Frames of large messages are sent in runs, as long as the wire joins. Whether such a run has just ended and the batch
 * has no room for another. A run split by the end of the batch would cost twice. run: consecutive frames of large
 * messages up to f. */
static bool output_ends_run(const struct emx_txframe *f, unsigned run, unsigned room)
{
    unsigned joined = f->chunk_bytes ? emx_txframe_chunks(f) : EMX_WIRE_JOIN_BYTES / (f->head_bytes + f->body_bytes);

    return run && joined > room && joined && (f->chunk_bytes || run % joined == 0);
}

/* A frame of several chunks counts as so many, and leaves room for fewer in the batch. */
static unsigned output_count(struct emx_engine *e, const struct emx_txframe *f, unsigned *max_p)
{
    unsigned chunks = emx_txframe_chunks(f);

    *max_p -= chunks - 1;
    emx_add(e, frames_sent, chunks);
    return chunks;
}

static bool output_rail(struct emx_rail *k, struct emx_txframe *f, unsigned n, unsigned max)
{
    struct emx_engine *e = k->rails->s->e;

    e->output_room = max - n;
    return emx_rail_output_answer(k, &f[n], &e->scratch[n]) || emx_rndv_output_rail(k, &f[n], &e->scratch[n], n);
}

/* The rails of the link in turn. n frames are made already; returns how many then. */
static unsigned output_rails(struct emx_engine *e, unsigned link, struct emx_txframe *f, unsigned n, unsigned *max_p)
{
    struct emx_list *l;
    unsigned run = 0;

    while (n < *max_p && (l = emx_list_first(&e->rails_ready[link]))) {
        struct emx_rail *k = emx_list_entry(l, struct emx_rail, ready);
        bool more = true;

        while (n < *max_p && (more = output_rail(k, f, n, *max_p))) {
            run += output_count(e, &f[n], max_p);
            n++;
            if (output_ends_run(&f[n - 1], run, *max_p - n))
                *max_p = n;
        }
        emx_list_del(l);
        if (more)
            emx_list_append(&e->rails_ready[link], l);
    }
    return n;
}

unsigned emx_engine_output(struct emx_engine *e, unsigned link, struct emx_txframe *f, unsigned max, emx_time now)
{
    bool rails = !emx_list_empty(&e->rails_ready[link]);
    struct emx_list *l;
    unsigned n, run = 0;

    emx_send_window_spend(e);
    n = output_answers(e, link, f, max);
    emx_add(e, frames_sent, n);
    if (rails && (e->rails_last = !e->rails_last)) /* sessions and rails begin batches in turn */
        n = output_rails(e, link, f, n, &max);

    while (n < max && (l = emx_list_first(&e->ready[link]))) {
        struct emx_session *s = emx_list_entry(l, struct emx_session, ready);
        bool more = true;

        output_fill(s);
        while (n < max && (more = output_next(s, f, n, max, now))) {
            unsigned frames = output_count(e, &f[n], &max);

            if (s->read.on)
                emx_lapse_spoke(s, now);
            run = f[n].body_bytes ? run + frames : 0;
            n++;
            if (output_ends_run(&f[n - 1], run, max - n))
                max = n;
            if (output_is_over(s)) {
                more = false;
                break;
            }
        }
        emx_list_del(&s->ready);
        if (more)
            emx_list_append(&e->ready[link], &s->ready); /* behind the other sessions */
    }
    if (rails)
        n = output_rails(e, link, f, n, &max);
    if (emx_list_empty(&e->ready[link]) && emx_list_empty(&e->hello_acking[link]) &&
        emx_list_empty(&e->rails_ready[link]))
        e->ready_flags.output &= ~(1u << link);
    return n;
}
