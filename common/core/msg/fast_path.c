/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The fast path of short messages.
 *
 * Sending: a message that need not wait is written into its one frame, which goes to the wire in the same call. The
 * window's list and the list of sessions with output are not used.
 *
 * Over a reliable route it is a short frame (frame.h), for which no clock is read. If the wire provides memory for it,
 * header and data are written there directly: nothing is copied twice, and no store is read again. Other wires take
 * both from their places. A short frame has no acknowledgement, so none must be owed.
 *
 * A message with remote data, and an untagged one, has an eager frame over all routes.
 *
 * Static conditions are checked when the session connects (session.fast_room): a standard send, in one frame. Whether
 * anything is queued before it is checked each time.
 *
 * Receiving: the next frame of a session, with a complete message for which a receive is posted; over a reliable link
 * it is a short frame. The receive completes immediately, without the list of completed operations. Checks before the
 * match have no effect. Any other frame takes the general path, which counts what it drops. The acknowledgement in the
 * frame, and the one for it, are deferred until the program has its message: the reply may carry the latter.
 */
#include <string.h>

#include "base/copy.h"
#include "base/crc32c.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/eager_head.h"
#include "core/format/frame.h"
#include "core/msg/data.h"
#include "core/msg/eager.h"
#include "core/msg/fast_path.h"
#include "core/msg/lapse.h"
#include "core/msg/op.h"
#include "core/peer.h"
#include "core/rel/ack.h"
#include "core/rel/credit.h"
#include "core/rel/reorder.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

#define TINY_BYTES (sizeof(((struct emx_scratch *)0)->b) - sizeof(struct emx_short))

void emx_fast_open(struct emx_session *s)
{
    const struct emx_config *cfg = s->e->cfg;
    uint64_t room = emx_eager_room(s);

    if (room > cfg->p_eager_max)
        room = cfg->p_eager_max;
    if (s->read.on && room >= cfg->p_read_min)
        room = cfg->p_read_min - 1;
    if (s->get.min_bytes && room >= s->get.min_bytes)
        room = s->get.min_bytes - 1;
    s->fast_room = s->e->closing ? 0 : (uint32_t)room + 1;
}

/* Whether this message is untagged or has remote data, and its frame has room for that. */
static bool fast_takes_flagged(const struct emx_session *s, const struct emx_op_args *a)
{
    size_t total_bytes = a->data.len_bytes + a->am_header_bytes;

    return a->kind != EMX_KIND_AM && total_bytes < s->fast_room &&
           emx_credit_allows(&s->credit, emx_eager_cost(total_bytes));
}

bool emx_engine_fast(const struct emx_peer *p, const struct emx_op_args *a, unsigned *link_p)
{
    const struct emx_session *s = p->session;

    if (!s || a->data.len_bytes >= s->fast_room || a->mode != ETHMX_SEND_STANDARD)
        return false;
    if (!emx_list_empty(&s->backlog) || !emx_list_empty(&s->tx.control) || s->rx.held_count ||
        !emx_send_window_clear(&s->tx))
        return false;
    if (!emx_credit_allows(&s->credit, emx_eager_cost(a->data.len_bytes)))
        return false;
    if (a->kind && !fast_takes_flagged(s, a)) /* not TAGGED. A separate test: together with mode, its neighbour, it
                                                 would be read at once and wait for two stores */
        return false;
    *link_p = s->link;
    return true;
}

/* The fields of the session's next frame. */
static inline struct emx_eager_envelope fast_envelope(const struct emx_session *s)
{
    return (struct emx_eager_envelope){.dst_id = &s->peer->id,
                                       .cookie = &s->peer->cookie,
                                       .src_id = &s->e->self.id,
                                       .seq = &s->tx.next,
                                       .ack = &s->rx.next,
                                       .credit = emx_credit_limit(&s->credit)};
}

static inline size_t fast_whole_head_bytes(const struct emx_session *s)
{
    return s->connected ? EMX_COMPACT_HEAD_BYTES : EMX_EAGER_HEAD_BYTES;
}

static inline void fast_fill_whole(struct emx_session *s, uint8_t *to, const struct emx_op_args *a)
{
    const struct emx_eager_envelope v = fast_envelope(s);
    const struct emx_eager_told t = {.bits = a->bits, .total_bytes = a->data.len_bytes, .joined = s->offload.joined_rx};

    emx_credit_announced(&s->credit, v.credit);
    if (s->connected)
        emx_eager_put_compact(to, &v, t.bits, t.total_bytes);
    else
        emx_eager_put(to, &v, &t, t.total_bytes);
}

/* The last step. The default checksum is computed here; over connections there is none. */
static inline void fast_seal_whole(struct emx_session *s, uint8_t *frame, size_t head_bytes, struct emx_txframe *f)
{
    f->head = frame;
    if (s->seal == EMX_CHECKSUM_HEADER)
        emx_eager_put_word(frame + 24, (uint64_t)emx_crc32c(0, frame, head_bytes) << 32 | s->credit.announced);
    else if (s->seal == EMX_CHECKSUM_OFF)
        frame[0] = EMX_FRAME_V_OFF;
    else
        emx_engine_seal(s, (void *)frame, f, s->seal);
}

/* Uses a kept buffer, for a frame that may be retransmitted, or data that must be gathered. */
static bool fast_from_buffer(struct emx_session *s, const struct emx_op_args *a, struct emx_txframe *f, emx_time now)
{
    size_t head_bytes = fast_whole_head_bytes(s), len_bytes = head_bytes + a->data.len_bytes;
    struct emx_txbuf *b = emx_txbuf_get(&s->e->txbufs, len_bytes);

    if (!b)
        return false;
    fast_fill_whole(s, b->frame, a);
    if (emx_data_contiguous(&a->data))
        emx_copy(b->frame + head_bytes, a->data.base, a->data.len_bytes);
    else
        emx_data_read(&a->data, 0, b->frame + head_bytes, a->data.len_bytes);
    emx_send_window_direct(s, b, now);
    *f = (struct emx_txframe){.to = &s->to, .head_bytes = (uint16_t)len_bytes};
    fast_seal_whole(s, b->frame, head_bytes, f);
    emx_reorder_acked(&s->rx);
    return true;
}

/* Whether the message can be a short frame. */
static inline bool fast_is_short(const struct emx_session *s, const struct emx_op_args *a)
{
    return s->in_place && emx_data_contiguous(&a->data) && !emx_reorder_owes(&s->rx);
}

static inline void fast_fill_short(struct emx_session *s, uint8_t *to, const struct emx_op_args *a)
{
    const struct emx_eager_envelope v = fast_envelope(s);

    emx_eager_put_short(to, &v, a->bits, a->data.len_bytes);
    emx_credit_announced(&s->credit, v.credit);
    emx_send_window_reserve(&s->tx);
}

/* Refers to the data in place. The shortest data is copied behind the header, so that the wire copies one part. */
static void fast_in_place(struct emx_session *s, const struct emx_op_args *a, struct emx_txframe *f)
{
    uint8_t *h = s->e->scratch[0].b;
    uint16_t n = (uint16_t)a->data.len_bytes;

    fast_fill_short(s, h, a);
    *f = (struct emx_txframe){.to = &s->to, .head = h, .head_bytes = sizeof(struct emx_short)};
    if (n > TINY_BYTES) {
        f->body = a->data.base;
        f->body_bytes = n;
    } else {
        emx_copy(h + sizeof(struct emx_short), a->data.base, n);
        f->head_bytes = (uint16_t)(f->head_bytes + n);
    }
}

static inline void fast_account(struct emx_session *s, const struct emx_op_args *a, size_t head_bytes, emx_time now)
{
    struct emx_engine *e = s->e;

    emx_credit_use(&s->credit, emx_eager_cost(a->data.len_bytes + head_bytes));
    if (s->read.on)
        emx_lapse_spoke(s, now);
    emx_count(e, sent_small);
    emx_count(e, msgs_sent);
    emx_count(e, frames_sent);
    emx_add(e, bytes_sent, a->data.len_bytes);
}

/* As an eager frame, whose first data is the remote data, if there is any. */
static __attribute__((noinline)) int fast_send_flagged(struct emx_session *s, const struct emx_op_args *a,
                                                       struct emx_txframe *f, emx_time now)
{
    const struct emx_eager_envelope v = fast_envelope(s);
    const struct emx_eager_told t = {.bits = a->bits,
                                     .total_bytes = a->data.len_bytes + a->am_header_bytes,
                                     .joined = s->offload.joined_rx,
                                     .am_header_bytes = (uint16_t)a->am_header_bytes,
                                     .flags = emx_op_args_flags(a)};
    size_t data_at = EMX_EAGER_HEAD_BYTES + a->am_header_bytes, len_bytes = data_at + a->data.len_bytes;
    struct emx_txbuf *b = emx_txbuf_get(&s->e->txbufs, len_bytes);

    if (!b)
        return ETHMX_ERR_NO_MEMORY;
    emx_credit_announced(&s->credit, v.credit);
    emx_eager_put(b->frame, &v, &t, t.total_bytes);
    if (a->am_header_bytes)
        memcpy(b->frame + EMX_EAGER_HEAD_BYTES, a->am_header, EMX_REMOTE_BYTES);
    emx_data_read(&a->data, 0, b->frame + data_at, a->data.len_bytes);
    emx_send_window_direct(s, b, now);
    *f = (struct emx_txframe){.to = &s->to, .head_bytes = (uint16_t)len_bytes};
    fast_seal_whole(s, b->frame, EMX_EAGER_HEAD_BYTES, f);
    emx_reorder_acked(&s->rx);
    fast_account(s, a, a->am_header_bytes, now);
    return ETHMX_OK;
}

int emx_engine_send_fast(struct emx_peer *p, const struct emx_op_args *a, struct emx_txframe *f, emx_time now)
{
    struct emx_session *s = p->session;

    if (a->kind)
        return fast_send_flagged(s, a, f, now);
    if (fast_is_short(s, a))
        fast_in_place(s, a, f);
    else if (!fast_from_buffer(s, a, f, now))
        return ETHMX_ERR_NO_MEMORY;
    fast_account(s, a, 0, now);
    return ETHMX_OK;
}

uint32_t emx_engine_reserve(const struct emx_peer *p, const struct emx_op_args *a, const struct emx_wire_addr **to_p)
{
    const struct emx_session *s = p->session;

    if (a->kind || !fast_is_short(s, a))
        return 0;
    *to_p = &s->to;
    return (uint32_t)(sizeof(struct emx_short) + a->data.len_bytes);
}

void emx_engine_write_reserved(struct emx_peer *p, const struct emx_op_args *a, void *frame)
{
    fast_fill_short(p->session, frame, a);
    emx_copy((uint8_t *)frame + sizeof(struct emx_short), a->data.base, a->data.len_bytes);
}

void emx_engine_commit(struct emx_peer *p, const struct emx_op_args *a, emx_time lately)
{
    fast_account(p->session, a, 0, lately);
}

/* ---- Receiving ---- */

/* The session of which this is the next frame; NULL: the general path finds the reason. Short frames begin like others.
 */
static inline struct emx_session *fast_session(struct emx_engine *e, const struct emx_frame *h)
{
    struct emx_peer *p;
    struct emx_session *s;

    if (h->dst_id != e->self.id || h->cookie != e->self.cookie || !(p = emx_peer_find(e, h->src_id)))
        return NULL;
    s = p->session;
    if (!s || !s->takes || h->seq != s->rx.next || !emx_eager_rx_idle(&s->eager))
        return NULL;
    return s;
}

/* Completes a receive that has just matched. It has no number yet, and does not depend on its peer. */
static inline void fast_end_receive(struct emx_engine *e, struct emx_op *op, const void *from, uint32_t n)
{
    bool fits = n <= op->data.len_bytes;

    emx_data_write(&op->data, 0, from, n);
    if (emx_list_linked(&op->peer_link))
        emx_list_del(&op->peer_link);
    op->msg_bytes = n;
    op->len_bytes = fits ? n : op->data.len_bytes;
    op->status = fits ? ETHMX_OK : ETHMX_ERR_TRUNCATED;
    op->where = EMX_OP_DONE;
    emx_count(e, match_posted);
    emx_count(e, msgs_received);
    emx_count(e, frames_received);
    emx_add(e, bytes_received, op->len_bytes);
}

/* A message with remote data, or an untagged one, over any link. */
static __attribute__((noinline)) struct emx_op *fast_input_flagged(struct emx_engine *e, unsigned link,
                                                                   const uint8_t *data, uint32_t len_bytes,
                                                                   emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    struct emx_session *s;
    struct emx_op *op;
    struct emx_eager_whole m;
    uint32_t head_bytes;
    uint16_t flags;

    if (e->tagged_links >> link & 1 || len_bytes < sizeof(*h) || h->version == EMX_FRAME_V_SHORT ||
        !(s = fast_session(e, h)))
        return NULL;
    if (!emx_eager_is_flagged(h, len_bytes, s->offload.joined_told, &m, &flags) || s->rx.held_count)
        return NULL;
    head_bytes = flags & EMX_FF_REMOTE ? EMX_REMOTE_BYTES : 0;
    if (!emx_credit_covers(&s->credit, m.len_bytes + head_bytes) || h->body_bytes > len_bytes - sizeof(*h) ||
        !emx_frame_unhurt(h) || !(op = emx_op_match(e, emx_flags_space(flags), m.bits, s->peer)))
        return NULL;
    emx_session_heard(s, now);
    emx_credit_heard(&s->credit, h->credit, h->ack, s->tx.next);
    if (head_bytes)
        emx_op_set_remote(op, (const uint8_t *)m.data - EMX_REMOTE_BYTES);
    fast_end_receive(e, op, m.data, m.len_bytes);
    if (e->reliable_links >> link & 1)
        emx_reorder_passed(&s->rx);
    else
        emx_reorder_accepted(&s->rx);
    emx_credit_passed(s, emx_eager_cost(m.len_bytes + head_bytes));
    if (!(e->reliable_links >> link & 1))
        emx_session_later(s, h->ack, now);
    return op;
}

struct emx_op *emx_engine_input_short(struct emx_engine *e, unsigned link, const uint8_t *data, uint32_t len_bytes,
                                      emx_time lately)
{
    const struct emx_short *h = (const void *)data;
    struct emx_session *s;
    struct emx_op *op;
    uint32_t n;

    if (h->version != EMX_FRAME_V_SHORT)
        return fast_input_flagged(e, link, data, len_bytes, lately);
    if (e->tagged_links >> link & 1 || !emx_eager_is_short(h, len_bytes))
        return NULL;
    n = h->body_bytes;
    if (!(s = fast_session(e, (const void *)h)) || !emx_credit_covers(&s->credit, n))
        return NULL;
    if (!(op = emx_op_match(e, EMX_TAGGED, h->bits, s->peer)))
        return NULL;
    emx_session_heard(s, lately);
    emx_credit_heard_short(&s->credit, h->credit);
    emx_reorder_passed(&s->rx);
    fast_end_receive(e, op, h + 1, n);
    emx_credit_passed(s, emx_eager_cost(n));
    return op;
}

/* Checks the header before the checksum, because that costs less. */
struct emx_op *emx_engine_input_compact(struct emx_engine *e, unsigned link, const uint8_t *data, uint32_t len_bytes,
                                        emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    struct emx_session *s;
    struct emx_op *op;
    struct emx_eager_whole m;

    if (e->tagged_links >> link & 1 || !e->stats->posted_now || len_bytes < sizeof(*h) ||
        h->version == EMX_FRAME_V_SHORT || !(s = fast_session(e, h)))
        return NULL;
    if (!emx_eager_is_whole(h, len_bytes, s->offload.joined_told, &m))
        return fast_input_flagged(e, link, data, len_bytes, now);
    if (s->rx.held_count || !emx_credit_covers(&s->credit, m.len_bytes))
        return NULL;
    if (h->body_bytes > len_bytes - sizeof(*h) || !emx_frame_unhurt(h))
        return NULL;
    if (!(op = emx_op_match(e, EMX_TAGGED, m.bits, s->peer)))
        return NULL;
    emx_session_heard(s, now);
    emx_credit_heard(&s->credit, h->credit, h->ack, s->tx.next);
    emx_reorder_accepted(&s->rx);
    fast_end_receive(e, op, m.data, m.len_bytes);
    emx_credit_passed(s, emx_eager_cost(m.len_bytes));
    emx_session_later(s, h->ack, now);
    return op;
}
