/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Eager messages. The data travels with the envelope: in one frame (small), or in a first frame and further ones
 * (medium). A message is copied into its frames, so a standard send completes when the last of them has entered the
 * window. Frames of one message are consecutive in the peer's sequence (except for frames without data), so a session
 * has at most one incomplete eager message.
 */
#include <string.h>

#include "base/min.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/eager_head.h"
#include "core/format/frame.h"
#include "core/msg/data.h"
#include "core/msg/eager.h"
#include "core/msg/multi.h"
#include "core/msg/op.h"
#include "core/msg/rdma_threshold.h"
#include "core/msg/unexpected.h"
#include "core/peer.h"
#include "core/rel/connect.h"
#include "core/rel/credit.h"
#include "core/rel/offload_probe.h"
#include "core/rel/reorder.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

#define ALIGN      8u    /* of frames in a GSO packet */
#define SLOTS      16u   /* of the receiver's ring that messages may use: slots are large, and other peers need some */
#define LONG_BYTES 32768 /* longer messages may overflow a link */
#define LONG_PARTS 3     /* quarters of the window, as it is or soon will be, that such a message may take */
#define TSO_BYTES  90112 /* longer messages may arrive sooner if they are pulled in TSO packets: two copies less */

/* On a reliable route no frame is ever sent over another route with shorter frames. */
static size_t eager_frame_limit(const struct emx_session *s)
{
    return emx_min(s->frame_bytes, s->reliable ? EMX_SEQ_FRAME_MAX : s->e->seq_frame_bytes);
}

size_t emx_eager_room(const struct emx_session *s)
{
    return eager_frame_limit(s) - sizeof(struct emx_frame) - sizeof(struct emx_f_eager);
}

/* If there are GSO packets, the frames of a message have the length that these allow, whether or not they are sent in
 * one. */
size_t emx_eager_part_limit(const struct emx_session *s)
{
    size_t limit = eager_frame_limit(s);

    if (!s->gso_bytes)
        return limit;
    return (s->gso_bytes < limit ? s->gso_bytes : limit) & ~(size_t)(ALIGN - 1);
}

static size_t eager_first_room(const struct emx_session *s, uint64_t total_bytes)
{
    if (total_bytes <= emx_eager_room(s))
        return total_bytes;
    return emx_eager_part_limit(s) - sizeof(struct emx_frame) - sizeof(struct emx_f_eager);
}

static size_t eager_more_room(const struct emx_session *s)
{
    return emx_eager_part_limit(s) - sizeof(struct emx_frame) - sizeof(struct emx_f_more);
}

unsigned emx_eager_frames(const struct emx_session *s, uint64_t total_bytes)
{
    size_t first = eager_first_room(s, total_bytes), more = eager_more_room(s);

    return (unsigned)(1 + (total_bytes - first + more - 1) / more);
}

/* ---- Choosing eager ---- */

/* Whether a message can be pulled in TSO packets, so that it is copied less. */
static bool eager_has_tso(struct emx_session *s, const struct ethmx_data *data)
{
    return emx_connect_route(s)->tso && emx_offload_probe_trusts(&s->offload, EMX_GSO_OF_TSO) &&
           emx_data_contiguous(data);
}

/* Whether such a message is pulled if it is that long. Fewer copies save less than the round trip costs, but a message
 * of which a part waits for acknowledgements has both; and over several rails only pulled data travels. */
static bool eager_is_pulled_in_tso(struct emx_session *s, const struct ethmx_data *data, unsigned frames)
{
    return data->len_bytes > TSO_BYTES && eager_has_tso(s, data) &&
           (s->rails || !emx_send_window_takes(&s->tx, frames, emx_send_window_outlook(&s->tx)));
}

/* A message that can be read is copied once instead of twice, and by one process. A pulled message waits for a round
 * trip, but its receiver paces it, so that many senders do not overflow its link. So a long message is eager only if
 * frames have arrived recently without loss, and it takes only a part of the congestion window. */
bool emx_eager_suits(struct emx_session *s, const struct ethmx_data *data, size_t total_bytes)
{
    unsigned frames;

    if (s->read.on && emx_data_contiguous(data))
        return data->len_bytes < s->e->cfg->p_read_min;
    if (data->len_bytes > s->e->cfg->p_eager_max)
        return false;
    if (emx_rdma_threshold_pays(s, data))
        return false;
    if (data->len_bytes <= LONG_BYTES || s->reliable)
        return true;
    frames = emx_eager_frames(s, total_bytes);
    return s->tx.cc.clean_frames >= EMX_CC_CLEAN && frames <= emx_send_window_outlook(&s->tx) / 4 * LONG_PARTS &&
           !eager_is_pulled_in_tso(s, data, frames);
}

bool emx_eager_now(struct emx_session *s, const struct emx_op_args *a)
{
    return s->state == EMX_S_CONNECTED && emx_list_empty(&s->backlog) && a->mode == ETHMX_SEND_STANDARD &&
           emx_eager_suits(s, &a->data, a->am_header_bytes + a->data.len_bytes);
}

/* ---- Out ---- */

void emx_eager_count(struct emx_session *s, uint64_t len_bytes, unsigned frames)
{
    if (frames == 1)
        emx_count(s->e, sent_small);
    else
        emx_count(s->e, sent_medium);
    emx_rdma_threshold_passed(s, len_bytes);
}

/* Copies n bytes at offset of a message: an active message's header and data, or data only. */
static void eager_read_message(const struct emx_eager_source *m, size_t offset, uint8_t *to, size_t n)
{
    if (offset < m->am_header_bytes) {
        size_t part = m->am_header_bytes - offset < n ? m->am_header_bytes - offset : n;

        memcpy(to, m->am_header + offset, part);
        to += part;
        n -= part;
        offset += part;
    }
    emx_data_read(m->data, offset - m->am_header_bytes, to, n);
}

bool emx_eager_take_slot(struct emx_session *s)
{
    return s->tx.slots_taken < SLOTS && s->gso_bytes && emx_offload_probe_take(&s->offload, EMX_GSO_OF_UDP, true);
}

/* Whether a message of that many frames is sent as a GSO packet. */
static bool eager_take_gso(struct emx_session *s, unsigned frames)
{
    return frames > 1 && emx_eager_take_slot(s);
}

size_t emx_eager_part(const struct emx_session *s, uint64_t total_bytes, size_t offset)
{
    size_t room = offset ? eager_more_room(s) : eager_first_room(s, total_bytes);

    return emx_min(total_bytes - offset, room);
}

void emx_eager_head(struct emx_session *s, const struct emx_eager_source *m, size_t offset, size_t n,
                    struct emx_frame *h)
{
    static const uint32_t none; /* set when the frame leaves */
    const struct emx_eager_envelope v = {
        .dst_id = &s->peer->id, .cookie = &s->peer->cookie, .src_id = &s->e->self.id, .seq = &none, .ack = &none};
    const struct emx_eager_told t = {.bits = m->bits,
                                     .total_bytes = m->total_bytes,
                                     .op = m->op,
                                     .am_header_bytes = m->am_header_bytes,
                                     .flags = m->flags};

    if (!offset) {
        emx_eager_put((uint8_t *)h, &v, &t, n);
        return;
    }
    emx_engine_head(s->e, s->peer, h, EMX_F_more, sizeof(struct emx_f_more) + n);
    *(struct emx_f_more *)(h + 1) = (struct emx_f_more){.offset = (uint32_t)offset};
}

/* Makes the frame for the bytes at offset, *n_p of them. NULL: out of memory. */
static struct emx_txbuf *eager_make_frame(struct emx_session *s, const struct emx_eager_source *m, size_t offset,
                                          bool gso, bool lends, size_t *n_p)
{
    size_t n = emx_eager_part(s, m->total_bytes, offset), head_bytes = emx_eager_head_bytes(offset);
    struct emx_txbuf *b = emx_txbuf_get(&s->e->txbufs, head_bytes + n);
    struct emx_frame *h;

    if (!b)
        return NULL;
    b->gso = gso;
    b->slot = gso && offset == 0;
    h = emx_txbuf_frame(b);
    emx_eager_head(s, m, offset, n, h);
    *n_p = n;
    if (lends) {
        b->body = (const uint8_t *)m->data->base + offset;
        b->body_bytes = (uint16_t)n;
        emx_list_append(&s->e->lent, &b->lent);
    } else {
        eager_read_message(m, offset, (uint8_t *)h + head_bytes, n);
    }
    return b;
}

bool emx_eager_compact(struct emx_session *s, const struct emx_eager_source *m, unsigned frames)
{
    bool gso = eager_take_gso(s, frames);
    bool lends = gso && s->e->lends && !m->am_header_bytes && emx_data_contiguous(m->data);
    struct emx_list made;
    size_t offset = 0, n;

    emx_list_init(&made);
    for (unsigned i = 0; i < frames; i++, offset += n) {
        struct emx_txbuf *b = eager_make_frame(s, m, offset, gso, lends, &n);

        if (!b) {
            emx_txbuf_put_all(&s->e->txbufs, &made);
            return false;
        }
        emx_list_append(&made, &b->link);
    }
    emx_send_window_push_all(s, &made);
    return true;
}

bool emx_eager_continue(struct emx_session *s, struct emx_op *op)
{
    struct emx_eager_source m = {.data = &op->data,
                                 .am_header = op->am_header,
                                 .total_bytes = (uint32_t)(op->am_header_bytes + op->msg_bytes),
                                 .am_header_bytes = op->am_header_bytes,
                                 .flags = (op->sync ? EMX_FF_SYNC : 0) | emx_op_flags(op),
                                 .op = op->id,
                                 .bits = op->bits};
    bool first = op->sent_bytes == 0;

    if (first)
        op->gso = eager_take_gso(s, emx_eager_frames(s, m.total_bytes));
    while (first || op->sent_bytes < m.total_bytes) {
        struct emx_txbuf *b;
        size_t n;

        if (!emx_send_window_room(&s->tx) || !(b = eager_make_frame(s, &m, op->sent_bytes, op->gso, false, &n)))
            return false;
        emx_send_window_push(s, b);
        op->sent_bytes += n;
        first = false;
    }
    return true;
}

int emx_eager_matched(struct emx_session *s, uint32_t sender_op)
{
    struct emx_txbuf *b = emx_txbuf_get(&s->e->txbufs, sizeof(struct emx_frame) + sizeof(struct emx_f_matched));
    struct emx_frame *h;

    if (emx_session_over(s)) {
        if (b)
            emx_txbuf_put(&s->e->txbufs, b);
        return ETHMX_OK;
    }
    if (!b)
        return ETHMX_ERR_NO_MEMORY;
    h = emx_txbuf_frame(b);
    emx_engine_head(s->e, s->peer, h, EMX_F_matched, sizeof(struct emx_f_matched));
    *(struct emx_f_matched *)(h + 1) = (struct emx_f_matched){.op = sender_op};
    emx_send_window_control(s, b);
    return ETHMX_OK;
}

/* ---- In ---- */

/* Tells the sender of a synchronous message that a receive has matched, when all of the message has arrived: a program
 * may take this for the delivery of the data. ETHMX_ERR_NO_MEMORY. */
static int eager_matched_when_whole(struct emx_session *s, uint32_t sender_op, bool whole)
{
    if (whole)
        return emx_eager_matched(s, sender_op);
    s->eager.sync = true;
    s->eager.sync_op = sender_op;
    return ETHMX_OK;
}

static const uint8_t *eager_payload(const uint8_t *data, size_t head_bytes, size_t *n_p)
{
    const struct emx_frame *h = (const void *)data;

    *n_p = h->body_bytes - head_bytes;
    return data + sizeof(*h) + head_bytes;
}

/* Starts a message that continues in further frames. */
static void eager_begin(struct emx_session *s, const struct emx_f_eager *f, size_t got)
{
    s->eager.got = (uint32_t)got;
    s->eager.total = f->total_bytes;
    s->eager.head_bytes = f->am_header_bytes;
}

/* Copies n bytes of a message to offset of a receive, unless the wire has put them there. */
static void eager_write(const struct emx_op *op, size_t offset, const uint8_t *from, size_t n)
{
    if (!emx_data_contiguous(&op->data) || from != (const uint8_t *)op->data.base + offset)
        emx_data_write(&op->data, offset, from, n);
}

/* Copies the message from the frame into a posted receive. */
static void eager_into_receive(struct emx_session *s, struct emx_op *op, const struct emx_f_eager *f,
                               const uint8_t *from, size_t n)
{
    struct emx_engine *e = s->e;
    size_t head_bytes = f->am_header_bytes;

    emx_count(e, match_posted);
    if (head_bytes)
        emx_op_set_remote(op, from);
    eager_write(op, 0, from + head_bytes, n - head_bytes);
    if (n == f->total_bytes) {
        emx_op_received(e, op, n - head_bytes);
        return;
    }
    emx_op_expect(e, op, s->peer);
    op->msg_bytes = f->total_bytes - head_bytes;
    s->eager.op = op;
    eager_begin(s, f, n);
}

static void eager_account(struct emx_engine *e, struct emx_unexpected *a, uint32_t cost)
{
    a->cost = cost;
    e->stats->unexpected_bytes += cost;
    if (e->stats->unexpected_bytes > e->stats->unexpected_peak)
        e->stats->unexpected_peak = e->stats->unexpected_bytes;
}

/* Creates an unexpected message, or an active message for its handler. */
static enum emx_drop eager_into_unexpected(struct emx_session *s, const struct emx_f_eager *f, const uint8_t *from,
                                           size_t n)
{
    struct emx_engine *e = s->e;
    struct emx_unexpected *a = emx_unexpected_new(e, s, f->total_bytes);

    if (!a)
        return EMX_DROP_MEMORY;
    a->sender_op = f->op;
    a->sync = f->flags & EMX_FF_SYNC;
    a->is_am = f->flags & EMX_FF_AM;
    a->has_remote = f->flags & EMX_FF_REMOTE;
    a->space = emx_flags_space(f->flags);
    a->am_header_bytes = f->am_header_bytes;
    a->total_bytes = f->total_bytes - f->am_header_bytes;
    a->got_bytes = n;
    a->whole = n == f->total_bytes;
    a->match.bits = f->bits;
    memcpy(a->buf, from, n);
    eager_account(e, a, emx_eager_cost(f->total_bytes));
    if (!a->whole) {
        s->eager.unexpected = a;
        eager_begin(s, f, n);
    }
    if (!a->is_am)
        emx_unexpected_queue(e, a, s->peer, f->bits);
    else if (a->whole)
        emx_unexpected_am(e, a);
    return EMX_ACCEPTED;
}

bool emx_eager_is_valid(const struct emx_session *s, const struct emx_f_eager *f, size_t n)
{
    return emx_eager_rx_idle(&s->eager) && emx_eager_fits(f, n) && emx_credit_covers(&s->credit, f->total_bytes);
}

enum emx_drop emx_eager_input(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_eager *f = (const void *)(data + sizeof(struct emx_frame));
    size_t n;
    const uint8_t *from = eager_payload(data, sizeof(*f), &n);

    (void)now;
    emx_offload_probe_told(&s->offload, f->joined);
    return emx_eager_is_valid(s, f, n) ? emx_eager_accept(s, f, from, n) : EMX_DROP_MALFORMED;
}

enum emx_drop emx_eager_input_compact(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_compact *w = (const void *)(data + sizeof(struct emx_frame));
    size_t n;
    const uint8_t *from = eager_payload(data, sizeof(*w), &n);
    struct emx_f_eager f = {.bits = w->bits, .total_bytes = (uint32_t)n};

    (void)now;
    return emx_eager_is_valid(s, &f, n) ? emx_eager_accept(s, &f, from, n) : EMX_DROP_MALFORMED;
}

enum emx_drop emx_eager_accept(struct emx_session *s, const struct emx_f_eager *f, const uint8_t *from, size_t n)
{
    struct emx_engine *e = s->e;
    enum emx_space space = emx_flags_space(f->flags);
    uint32_t cost = emx_eager_cost(f->total_bytes);
    struct emx_op *op = NULL;
    enum emx_drop why;

    /* The reply to a synchronous sender needs memory. It is reserved before the receive is taken out of matching. */
    if (f->flags & EMX_FF_SYNC && emx_pool_reserve(&e->txbufs.pool[EMX_TXBUF_SMALL]))
        return EMX_DROP_MEMORY;
    if (!(f->flags & EMX_FF_AM)) {
        if (!emx_multi_reserve(e, space))
            return EMX_DROP_MEMORY;
        op = emx_multi_or_match(e, space, f->bits, s->peer, f->total_bytes - f->am_header_bytes);
    }
    if (!op) {
        why = eager_into_unexpected(s, f, from, n);
        if (why == EMX_ACCEPTED)
            emx_credit_charge(&s->credit, cost);
        return why;
    }
    emx_credit_charge(&s->credit, cost);
    if (f->flags & EMX_FF_SYNC)
        eager_matched_when_whole(s, f->op, n == f->total_bytes);
    eager_into_receive(s, op, f, from, n);
    emx_credit_release(s, cost);
    return EMX_ACCEPTED;
}

/* Handles a short frame, a complete message. Its header has not been checked. */
enum emx_drop emx_eager_input_short(struct emx_engine *e, const uint8_t *data, uint32_t len_bytes, emx_time now)
{
    const struct emx_short *h = (const void *)data;
    struct emx_f_eager f;
    struct emx_peer *p;
    struct emx_session *s;
    enum emx_drop why;

    if (!emx_eager_is_short(h, len_bytes))
        return EMX_DROP_SHORT;
    if (h->dst_id != e->self.id)
        return EMX_DROP_NOT_MINE;
    if (h->cookie != e->self.cookie)
        return EMX_DROP_COOKIE;
    p = emx_peer_find(e, h->src_id);
    s = p ? p->session : NULL;
    if (!s || !s->takes)
        return EMX_DROP_NO_SESSION;
    emx_session_heard(s, now);
    emx_credit_heard_short(&s->credit, h->credit);
    if (h->seq != s->rx.next)
        return emx_reorder_out_of_turn(s, h->seq, now);
    f = (struct emx_f_eager){.bits = h->bits, .total_bytes = h->body_bytes};
    if (!emx_eager_is_valid(s, &f, h->body_bytes))
        return EMX_DROP_MALFORMED;
    why = emx_eager_accept(s, &f, data + sizeof(*h), h->body_bytes);
    if (why == EMX_ACCEPTED)
        emx_reorder_passed(&s->rx);
    return why;
}

static void eager_finish(struct emx_session *s)
{
    struct emx_engine *e = s->e;
    struct emx_unexpected *a = s->eager.unexpected;
    struct emx_op *op = s->eager.op;

    s->eager.op = NULL;
    s->eager.unexpected = NULL;
    s->eager.discard = false;
    if (s->eager.sync)
        emx_eager_matched(s, s->eager.sync_op);
    s->eager.sync = false;
    if (op)
        emx_op_received(e, op, s->eager.total - s->eager.head_bytes);
    if (!a)
        return;
    a->whole = true;
    if (a->is_am)
        emx_unexpected_am(e, a);
}

enum emx_drop emx_eager_input_more(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_more *f = (const void *)(data + sizeof(struct emx_frame));
    size_t n;
    const uint8_t *from = eager_payload(data, sizeof(*f), &n);

    (void)now;
    return emx_eager_accept_more(s, f->offset, from, n);
}

enum emx_drop emx_eager_accept_more(struct emx_session *s, uint32_t offset, const uint8_t *from, size_t n)
{
    if (emx_eager_rx_idle(&s->eager) || !n || offset != s->eager.got || n > s->eager.total - s->eager.got)
        return EMX_DROP_MALFORMED;
    if (s->eager.sync && n == s->eager.total - s->eager.got && emx_pool_reserve(&s->e->txbufs.pool[EMX_TXBUF_SMALL]))
        return EMX_DROP_MEMORY;
    if (s->eager.op)
        eager_write(s->eager.op, s->eager.got - s->eager.head_bytes, from, n);
    if (s->eager.unexpected) {
        memcpy(s->eager.unexpected->buf + s->eager.got, from, n);
        s->eager.unexpected->got_bytes += n;
    }
    s->eager.got += (uint32_t)n;
    if (s->eager.got == s->eager.total)
        eager_finish(s);
    return EMX_ACCEPTED;
}

enum emx_drop emx_eager_input_matched(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_matched *f = (const void *)(data + sizeof(struct emx_frame));
    struct emx_op *op = emx_op_by_id(s->e, f->op, s);

    (void)now;
    if (op && op->is_send && op->where == EMX_OP_MATCHING)
        emx_op_complete(s->e, op, ETHMX_OK);
    else if (op && op->is_send && op->where == EMX_OP_BACKLOG && op->sent_bytes)
        op->matched = true; /* a receive took the first frame; the others still leave */
    return EMX_ACCEPTED;    /* sequenced: it is handled once, valid or not */
}

/* ---- Matched by a receive ---- */

int emx_eager_receive(struct emx_engine *e, struct emx_unexpected *a, struct emx_op *op)
{
    struct emx_session *s = a->session;

    if (a->sync && eager_matched_when_whole(s, a->sender_op, a->whole))
        return ETHMX_ERR_NO_MEMORY;
    a->sync = false;
    op->where = EMX_OP_FILLING;
    op->peer = a->match.peer;
    if (a->has_remote)
        emx_op_set_remote(op, a->buf);
    emx_data_write(&op->data, 0, a->buf + a->am_header_bytes, a->got_bytes - a->am_header_bytes);
    if (a->whole) {
        emx_op_received(e, op, a->total_bytes);
    } else {
        emx_op_expect(e, op, s->peer);
        op->msg_bytes = a->total_bytes;
        s->eager.op = op;
        s->eager.unexpected = NULL;
    }
    emx_unexpected_free(e, a);
    return ETHMX_OK;
}
