/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Chunks. A standard eager message that leaves at once, from the program's memory, travels in one or a few TSO packets.
 * Its data is in one piece there, and the receiving wire writes it to its place in the program's memory, if a receive
 * matches. So the kernel copies it twice and nobody else waits for a copy: the one for retransmissions is made after it
 * has left (lend.c). Other eager messages are in frames of the types eager and more (eager.c).
 *
 * Each chunk has a sequence number. The chunks of a packet are a run in the send window (rel/send_run.h). Those that
 * are sent again are single frames.
 */
#include "core/msg/chunk.h"

#include "base/min.h"
#include "core/engine_impl.h"
#include "core/format/chunk_frame.h"
#include "core/msg/data.h"
#include "core/msg/eager.h"
#include "core/msg/op.h"
#include "core/peer.h"
#include "core/rel/connect.h"
#include "core/rel/offload_probe.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

#define ALIGN       8u    /* of the data of chunks */
#define LEAST_BYTES 16384 /* shorter messages arrive sooner in frames that are used where the kernel has put them */
#define UNACKED     16u   /* messages in chunks without acknowledgement: they share the receiver's socket buffer */

static_assert(EMX_CHUNK_HEAD_BYTES == sizeof(struct emx_place_head), "head");
static_assert(EMX_PLACE_EAGER == EMX_F_chunk, "type");
static_assert(offsetof(struct emx_place_head, total_low) - EMX_PLACE_FRAME_BYTES ==
                  offsetof(struct emx_f_chunk, total_low),
              "head");
static_assert(offsetof(struct emx_place_head, index) - EMX_PLACE_FRAME_BYTES == offsetof(struct emx_f_chunk, index),
              "head");
static_assert(offsetof(struct emx_place_head, seq) == offsetof(struct emx_frame, seq), "head");
static_assert(offsetof(struct emx_place_head, chunk) - EMX_PLACE_FRAME_BYTES == offsetof(struct emx_f_chunk, bits),
              "head");

/* ---- Out ---- */

static unsigned chunk_bytes(const struct emx_session *s)
{
    return (unsigned)(emx_eager_part_limit(s) - EMX_CHUNK_HEAD_BYTES) & ~(ALIGN - 1);
}

unsigned emx_chunk_suits(const struct emx_session *s, const struct emx_eager_source *m)
{
    const struct emx_send_window *w = &s->tx;
    unsigned n;

    if (m->total_bytes < LEAST_BYTES || m->flags || !s->e->lends || !emx_connect_has_tso(s) ||
        !emx_data_contiguous(m->data) || w->slots_taken >= UNACKED)
        return 0;
    n = (m->total_bytes + chunk_bytes(s) - 1) / chunk_bytes(s);
    if (n > EMX_CHUNK_MOST || w->send_next != &w->unacked || !emx_send_window_takes(w, n, w->cc.flight_frames))
        return 0; /* it would wait, and so be copied before it leaves */
    return n;
}

/* Makes a buffer for n chunks from chunk i on. NULL: no memory. */
static struct emx_txbuf *chunk_make(struct emx_session *s, const struct emx_eager_source *m, unsigned i, unsigned n)
{
    unsigned offset = i * chunk_bytes(s), len_bytes = emx_min_u(m->total_bytes - offset, n * chunk_bytes(s));
    struct emx_txbuf *b = emx_txbuf_get(&s->e->txbufs, EMX_CHUNK_HEAD_BYTES + (n > 1 ? 0 : len_bytes));
    struct emx_frame *h;

    if (!b)
        return NULL;
    if (n > 1 && !(b->copy = (uint8_t *)emx_pool_get(&s->e->txbufs.copies))) {
        emx_txbuf_put(&s->e->txbufs, b); /* no run yet */
        return NULL;
    }
    h = emx_txbuf_frame(b);
    emx_engine_head(s->e, s->peer, h, EMX_F_chunk, sizeof(struct emx_f_chunk) + len_bytes);
    *(struct emx_f_chunk *)(h + 1) = (struct emx_f_chunk){.total_low = (uint16_t)m->total_bytes,
                                                          .total_high = (uint8_t)(m->total_bytes >> 16),
                                                          .index = (uint8_t)i,
                                                          .chunk_bytes = (uint16_t)chunk_bytes(s),
                                                          .bits = m->bits};
    b->gso = true;
    b->slot = i == 0;
    b->frames = (uint16_t)n;
    b->len_bytes = (uint16_t)(EMX_CHUNK_HEAD_BYTES + len_bytes);
    b->body = (const uint8_t *)m->data->base + offset;
    b->body_bytes = (uint16_t)len_bytes;
    emx_list_append(&s->e->lent, &b->lent);
    return b;
}

bool emx_chunk_push(struct emx_session *s, const struct emx_eager_source *m, unsigned chunks)
{
    unsigned most = EMX_WIRE_JOIN_BYTES / (unsigned)(EMX_CHUNK_HEAD_BYTES + chunk_bytes(s));
    unsigned packets = (chunks + most - 1) / most, each = (chunks + packets - 1) / packets;
    struct emx_list made;

    emx_list_init(&made);
    for (unsigned i = 0; i < chunks; i += each) {
        struct emx_txbuf *b = chunk_make(s, m, i, emx_min_u(each, chunks - i));

        if (!b) {
            emx_txbuf_put_all(&s->e->txbufs, &made);
            return false;
        }
        emx_list_append(&made, &b->link);
    }
    emx_send_window_push_all(s, &made);
    return true;
}

bool emx_chunk_leaves(const struct emx_session *s, const struct emx_txbuf *b)
{
    const struct emx_f_chunk *t = emx_chunk_head((const void *)b->frame);

    return emx_connect_has_tso(s) && b->frames <= s->e->output_room &&
           EMX_CHUNK_HEAD_BYTES + t->chunk_bytes <= emx_eager_part_limit(s);
}

/* ---- In ---- */

enum emx_drop emx_chunk_input(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_chunk *t = emx_chunk_head(h);
    const struct emx_f_eager f = {.bits = t->bits, .total_bytes = emx_chunk_total_bytes(t)};
    const uint8_t *from = s->e->input_body ? s->e->input_body : (const uint8_t *)(t + 1);
    size_t n = h->body_bytes - sizeof(*t);

    (void)now;
    emx_offload_probe_told_briefly(&s->offload, t->joined);
    s->e->input_body = NULL; /* frames that are handled next, because they wait for this one, have theirs behind them */
    if (!emx_chunk_count(h))
        return EMX_DROP_MALFORMED;
    if (t->index)
        return f.total_bytes == s->eager.total ? emx_eager_accept_more(s, emx_chunk_offset(t), from, n)
                                               : EMX_DROP_MALFORMED;
    return emx_eager_is_valid(s, &f, n) ? emx_eager_accept(s, &f, from, n) : EMX_DROP_MALFORMED;
}

/* ---- Places ---- */

/* The session of which this frame is the next; NULL: it is of none. */
static struct emx_session *chunk_session(struct emx_engine *e, const struct emx_frame *h)
{
    struct emx_peer *p;

    if (h->dst_id != e->self.id || h->cookie != e->self.cookie || e->tagged_links)
        return NULL;
    p = emx_peer_find(e, h->src_id);
    if (!p || !p->session || !p->session->takes || h->seq != p->session->rx.next || p->session->rx.held_count)
        return NULL;
    return p->session;
}

/* The receive that this frame's data is for. NULL: none. */
static struct emx_op *chunk_receive(struct emx_session *s, const struct emx_f_chunk *t)
{
    struct emx_posted *posted;

    if (t->index)
        return !s->eager.head_bytes && emx_chunk_offset(t) == s->eager.got ? s->eager.op : NULL;
    if (!emx_eager_rx_idle(&s->eager))
        return NULL;
    posted = emx_match_peek(&s->e->match[EMX_TAGGED], t->bits, s->peer);
    return posted ? emx_container(posted, struct emx_op, match) : NULL;
}

void emx_chunk_plan(struct emx_engine *e, const uint8_t *head, size_t len_bytes, struct emx_placement *p)
{
    const struct emx_frame *h = (const void *)head;
    const struct emx_f_chunk *t = emx_chunk_head(h);
    const uint32_t offset = emx_chunk_offset(t), n = h->body_bytes - (uint32_t)sizeof(*t);
    struct emx_session *s = chunk_session(e, h);
    struct emx_op *op;

    p->count = 0;
    if (!s || !emx_chunk_count(h) || len_bytes != EMX_CHUNK_HEAD_BYTES + n || !(op = chunk_receive(s, t)) ||
        offset + n > op->data.len_bytes)
        return;
    p->head_bytes = EMX_CHUNK_HEAD_BYTES;
    p->message = NULL;
    p->place[0] = (struct emx_place){.at = (void *)(uintptr_t)emx_data_piece(&op->data, offset, n), .len_bytes = n};
    p->count = p->place[0].at != NULL;
}

bool emx_chunk_is_planned(struct emx_engine *e, const struct emx_placement *p, const uint8_t *head)
{
    const struct emx_frame *h = (const void *)head;
    struct emx_placement now;

    if (h->type != EMX_F_chunk)
        return false;
    emx_chunk_plan(e, head, sizeof(*h) + h->body_bytes, &now);
    return now.count && now.place[0].at == p->place[0].at && now.place[0].len_bytes == p->place[0].len_bytes;
}
