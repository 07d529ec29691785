/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rendezvous, the receiver: an announced message meets its receive. It is then read by the processor or a device, or
 * pulled. pull.c explains the protocol.
 */
#include <string.h>

#include "base/heap.h"
#include "core/engine_impl.h"
#include "core/format/eager_head.h"
#include "core/format/frame.h"
#include "core/msg/multi.h"
#include "core/msg/op.h"
#include "core/msg/pull_rail.h"
#include "core/msg/push.h"
#include "core/msg/rdma_get.h"
#include "core/msg/read.h"
#include "core/msg/rndv.h"
#include "core/msg/unexpected.h"
#include "core/rel/credit.h"
#include "core/rel/rail.h"
#include "core/rel/rtt.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

void emx_rndv_open(struct emx_session *s)
{
    emx_list_init(&s->pulled.requests);
    emx_list_init(&s->pulling.pulls);
    emx_rtt_init(&s->pulling.block_rtt, s->e->cfg);
}

/* The requests for the old route are dropped: the puller repeats them, because nothing arrived over that. */
void emx_rndv_moved(struct emx_session *s)
{
    if (s->rails) {
        emx_rndv_forget_pull_requests(s, NULL);
        emx_rails_moved(s);
    }
    s->pulling.reo_window = (struct emx_reo_window){0};
    emx_rtt_init(&s->pulling.block_rtt, s->e->cfg);
}

void emx_rndv_rail_lost(struct emx_session *s, unsigned rail)
{
    emx_pull_ask_others(s, rail);
    emx_rndv_send_by_others(s, rail);
}

int emx_rndv_refuse(struct emx_session *s, uint32_t sender_op)
{
    struct emx_txbuf *b = emx_rndv_make_fin(s, sender_op, 0);

    if (!b)
        return ETHMX_ERR_NO_MEMORY;
    emx_send_window_control(s, b);
    return ETHMX_OK;
}

static struct emx_rndv *rndv_recv_new(struct emx_engine *e)
{
    struct emx_rndv *r;

    if (emx_heap_reserve(&e->timers, e->timer_reserve + 1) || !(r = emx_pool_get(&e->rndvs)))
        return NULL;
    e->timer_reserve++;
    memset(r, 0, offsetof(struct emx_rndv, own_block));
    r->block = r->own_block;
    emx_list_init(&r->wait);
    emx_list_init(&r->due);
    emx_list_init(&r->asking);
    r->timer.kind = EMX_TIMER_RNDV;
    r->gap_ns = EMX_NEVER;
    return r;
}

/* Reserves all that a matched rts needs, before the receive is taken out of matching. After that nothing can fail. */
static bool rndv_recv_reserve(struct emx_engine *e)
{
    return !emx_pool_reserve(&e->rndvs) && !emx_pool_reserve(&e->txbufs.pool[EMX_TXBUF_SMALL]) &&
           !emx_heap_reserve(&e->timers, e->timer_reserve + 1) && emx_op_reserve_id(e);
}

/* The content of an rts. */
struct announced {
    uint32_t sender_op;
    uint16_t chunk_bytes, pushed;
    uint64_t total_bytes;
    uint64_t remote;        /* 0: cannot be read */
    struct emx_f_lent lent; /* remote 0: no device can read */
};

static void rndv_recv_start(struct emx_session *s, struct emx_op *op, const struct announced *m, emx_time now)
{
    struct emx_engine *e = s->e;
    struct emx_rndv *r;

    op->msg_bytes = m->total_bytes;
    if (!m->total_bytes || !op->data.len_bytes) {
        emx_rndv_refuse(s, m->sender_op);
        emx_op_received(e, op, m->total_bytes);
        return;
    }
    r = rndv_recv_new(e);
    emx_op_take_id(e, op);
    emx_op_expect(e, op, s->peer);
    op->where = EMX_OP_PULLING;
    op->rndv = r;
    r->op = op;
    r->sender_op = m->sender_op;
    r->chunk_bytes = m->chunk_bytes;
    r->want_bytes = m->total_bytes < op->data.len_bytes ? m->total_bytes : op->data.len_bytes;
    r->chunks = emx_rndv_chunks(r->want_bytes, m->chunk_bytes);
    r->pushed = r->want_bytes == m->total_bytes ? m->pushed : 0; /* otherwise the last of them may be cut */
    if (emx_read_start(s, r, m->remote, now) || emx_get_start(s, r, &m->lent))
        r->fin = emx_rndv_make_fin(s, r->sender_op, r->want_bytes);
    else
        emx_rndv_pull_rest(e, r, 0, now);
}

/* Length of what follows an active message's header. */
static size_t rndv_recv_end_bytes(const struct emx_f_rts *f)
{
    return f->flags & EMX_FF_LENT ? sizeof(struct emx_f_lent) : f->flags & EMX_FF_READ ? sizeof(uint64_t) : 0;
}

static uint64_t rndv_recv_remote_address(const struct emx_f_rts *f)
{
    uint64_t address = 0;

    if (f->flags & EMX_FF_READ)
        memcpy(&address, (const uint8_t *)(f + 1) + f->am_header_bytes, sizeof(address));
    return address;
}

static struct emx_f_lent rndv_recv_exported(const struct emx_f_rts *f)
{
    struct emx_f_lent lent = {0};

    if (f->flags & EMX_FF_LENT)
        memcpy(&lent, (const uint8_t *)(f + 1) + f->am_header_bytes, sizeof(lent));
    return lent;
}

static bool rndv_recv_is_valid(const struct emx_f_rts *f, size_t body_bytes)
{
    bool am = f->flags & EMX_FF_AM;

    if (f->am_header_bytes + rndv_recv_end_bytes(f) != body_bytes - sizeof(*f))
        return false;
    if (f->flags & EMX_FF_LENT && f->flags & EMX_FF_READ)
        return false;
    if (!emx_message_head_fits(f->flags, f->am_header_bytes))
        return false;
    if (f->chunk_bytes < 8 || f->total_bytes > INT64_MAX)
        return false;
    if (f->pushed && (f->flags & (EMX_FF_AM | EMX_FF_LENT | EMX_FF_READ) || f->pushed > EMX_PUSH_MOST ||
                      f->pushed > emx_rndv_chunks(f->total_bytes, f->chunk_bytes)))
        return false;
    return !am || f->bits < ETHMX_AM_HANDLERS;
}

static enum emx_drop rndv_recv_into_unexpected(struct emx_session *s, const struct emx_f_rts *f)
{
    struct emx_engine *e = s->e;
    struct emx_unexpected *a = emx_unexpected_new(e, s, f->am_header_bytes);

    if (!a)
        return EMX_DROP_MEMORY;
    a->is_rts = true;
    a->is_am = f->flags & EMX_FF_AM;
    a->has_remote = f->flags & EMX_FF_REMOTE;
    a->space = emx_flags_space(f->flags);
    a->sender_op = f->op;
    a->total_bytes = f->total_bytes;
    a->am_header_bytes = f->am_header_bytes;
    a->chunk_bytes = f->chunk_bytes;
    a->pushed = f->pushed;
    if (f->pushed)
        emx_push_unmatched(s, f->op);
    a->remote = rndv_recv_remote_address(f);
    a->lent = rndv_recv_exported(f);
    a->match.bits = f->bits;
    if (f->am_header_bytes)
        memcpy(a->buf, f + 1, f->am_header_bytes);
    if (a->is_am)
        emx_unexpected_am(e, a);
    else
        emx_unexpected_queue(e, a, s->peer, f->bits);
    return EMX_ACCEPTED;
}

enum emx_drop emx_rndv_input_rts(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_rts *f = (const void *)(h + 1);
    enum emx_space space = emx_flags_space(f->flags);
    struct emx_engine *e = s->e;
    struct announced m;
    struct emx_op *op;

    if (!rndv_recv_is_valid(f, h->body_bytes))
        return EMX_DROP_MALFORMED;
    if (f->flags & EMX_FF_STARVED)
        emx_credit_starved(s, now);
    if (f->flags & EMX_FF_AM)
        return rndv_recv_into_unexpected(s, f);
    if (!rndv_recv_reserve(e) || !emx_multi_reserve(e, space))
        return EMX_DROP_MEMORY;
    op = emx_multi_or_match(e, space, f->bits, s->peer, f->total_bytes);
    if (!op)
        return rndv_recv_into_unexpected(s, f);
    emx_count(e, match_posted);
    if (f->flags & EMX_FF_REMOTE)
        emx_op_set_remote(op, f + 1);
    m = (struct announced){.sender_op = f->op,
                           .chunk_bytes = f->chunk_bytes,
                           .pushed = emx_push_is_gone(s, f->op) ? 0 : f->pushed,
                           .total_bytes = f->total_bytes,
                           .remote = rndv_recv_remote_address(f),
                           .lent = rndv_recv_exported(f)};
    rndv_recv_start(s, op, &m, now);
    return EMX_ACCEPTED;
}

int emx_rndv_receive(struct emx_engine *e, struct emx_unexpected *a, struct emx_op *op, emx_time now)
{
    const uint16_t pushed = a->pushed && emx_push_is_coming(a->session, a->sender_op) ? a->pushed : 0;
    const struct announced m = {a->sender_op, a->chunk_bytes, pushed, a->total_bytes, a->remote, a->lent};

    if (!rndv_recv_reserve(e))
        return ETHMX_ERR_NO_MEMORY;
    op->peer = a->match.peer;
    if (a->has_remote)
        emx_op_set_remote(op, a->buf);
    rndv_recv_start(a->session, op, &m, now);
    emx_unexpected_free(e, a);
    return ETHMX_OK;
}

bool emx_rndv_pull(struct emx_session *s, struct emx_op *op, uint32_t sender_op, uint16_t chunk_bytes, uint64_t remote,
                   emx_time now)
{
    const struct announced m = {
        .sender_op = sender_op, .chunk_bytes = chunk_bytes, .total_bytes = op->data.len_bytes, .remote = remote};

    if (!rndv_recv_reserve(s->e))
        return false;
    rndv_recv_start(s, op, &m, now);
    return true;
}
