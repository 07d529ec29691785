/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations, the target: does what a frame requests as soon as it arrives in order, and replies. The reply
 * is made before anything is changed, so a frame that is dropped for lack of memory has done nothing, and is handled
 * when it arrives again.
 *
 * Replies without data are collected: while one waits for the window, or to be sent at the end of the round, further
 * operations with consecutive ids join it.
 */
#include <string.h>

#include "base/copy.h"
#include "core/engine_impl.h"
#include "core/msg/eager.h"
#include "core/msg/op.h"
#include "core/msg/read.h"
#include "core/msg/rndv.h"
#include "core/rel/ack.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"
#include "core/rma/rma_apply.h"
#include "core/rma/rma_record.h"
#include "core/rma/rma_region.h"

/* ---- Replies ---- */

/* A frame in session.tx.control with this header. NULL: no memory. */
static void *rma_target_frame(struct emx_session *s, enum emx_frame_type type, size_t body_bytes)
{
    struct emx_txbuf *b = emx_rma_buffer(s, type, body_bytes);

    if (!b)
        return NULL;
    emx_send_window_control(s, b);
    return emx_txbuf_frame(b) + 1;
}

static struct emx_f_rma_done *rma_target_done_frame(const struct emx_txbuf *b)
{
    return (struct emx_f_rma_done *)(uintptr_t)(b->frame + sizeof(struct emx_frame));
}

/* Whether the reply that waits is continued by one with this id and status. */
static bool rma_target_continues(const struct emx_rma_peer *p, uint32_t id, enum emx_rma_status status)
{
    const struct emx_f_rma_done *f = p->done ? rma_target_done_frame(p->done) : NULL;

    return f && f->status == status && f->id + f->count == id && f->count < EMX_RMA_OPEN_MAX;
}

/* Replies without data. false: no memory. */
static bool rma_target_tell(struct emx_session *s, uint32_t id, enum emx_rma_status status)
{
    struct emx_rma_peer *p = s->rma;
    struct emx_f_rma_done *f;

    if (rma_target_continues(p, id, status)) {
        rma_target_done_frame(p->done)->count++;
    } else {
        f = rma_target_frame(s, EMX_F_rma_done, sizeof(*f));
        if (!f)
            return false;
        *f = (struct emx_f_rma_done){.id = id, .count = 1, .status = status};
        p->done = emx_list_entry(s->tx.control.prev, struct emx_txbuf, link);
    }
    p->owed++;
    if (status == EMX_RMA_REFUSED)
        emx_count(s->e, rma_refused);
    else
        emx_count(s->e, rma_served);
    return true;
}

void emx_rma_reply_later(struct emx_session *s, struct emx_txbuf *b)
{
    emx_send_window_control(s, b);
    s->rma->owed++;
}

/* Replies with n bytes of data. NULL: no memory; otherwise write them there. */
static uint8_t *rma_target_reply(struct emx_session *s, uint32_t id, size_t n)
{
    struct emx_f_rma_reply *f;
    struct emx_txbuf *b = emx_rma_buffer(s, EMX_F_rma_reply, sizeof(*f) + n);

    if (!b)
        return NULL;
    if (s->rma->answering)
        s->rma->answer = b;
    else
        emx_rma_reply_later(s, b);
    f = (struct emx_f_rma_reply *)(emx_txbuf_frame(b) + 1);
    f->id = id;
    f->reserved = 0;
    emx_count(s->e, rma_served);
    return (uint8_t *)(f + 1);
}

void emx_rma_pushed(struct emx_session *s, const struct emx_txbuf *b)
{
    const struct emx_frame *h = (const void *)b->frame;

    if (h->type == EMX_F_rma_reply)
        s->rma->owed--;
    if (h->type == EMX_F_rma_done)
        s->rma->owed -= rma_target_done_frame(b)->count;
    if (b == s->rma->done)
        s->rma->done = NULL;
}

/* ---- Requests ---- */

/* Whether the peer may have one more operation open here. */
static bool rma_target_has_room(const struct emx_session *s)
{
    return s->rma->owed + s->rma->serving < EMX_RMA_OPEN_MAX;
}

static enum emx_drop rma_target_refuse(struct emx_session *s, uint32_t id)
{
    return rma_target_tell(s, id, EMX_RMA_REFUSED) ? EMX_ACCEPTED : EMX_DROP_MEMORY;
}

enum emx_drop emx_rma_input_put(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_rma *f = (const void *)(h + 1);
    size_t n = h->body_bytes - sizeof(*f);
    bool last = n == f->len_bytes;
    uint8_t *memory;

    (void)now;
    if (n > f->len_bytes || (!n && !last))
        return EMX_DROP_MALFORMED;
    if (!emx_rma_peer(s))
        return EMX_DROP_MEMORY;
    if (last && !rma_target_has_room(s))
        return EMX_DROP_MALFORMED;
    /* The range includes the frames that follow: if it is not within the region, none is written. */
    memory = emx_rma_memory(s->e, f->key, f->offset, f->len_bytes, ETHMX_RMA_MAY_WRITE, NULL);
    if (!memory)
        return last ? rma_target_refuse(s, f->id) : EMX_ACCEPTED;
    if (last && !rma_target_tell(s, f->id, EMX_RMA_DONE))
        return EMX_DROP_MEMORY;
    if (n)
        emx_copy(memory, f + 1, n);
    return EMX_ACCEPTED;
}

static bool rma_target_is_valid(const struct emx_f_rma *f, size_t n)
{
    size_t bytes = emx_rma_type_bytes(f->type);

    if (f->flags & ~(EMX_RMA_FETCH | EMX_RMA_SWAP) || !f->len_bytes || f->len_bytes > INT64_MAX)
        return false;
    if (f->flags & EMX_RMA_SWAP)
        return f->flags & EMX_RMA_FETCH && emx_rma_is_integer(f->type) && f->len_bytes == bytes && n == 2 * bytes;
    if (!emx_rma_fits(f->op, f->type) || f->len_bytes % bytes || n % bytes)
        return false;
    if (f->flags & EMX_RMA_FETCH && f->len_bytes > ETHMX_RMA_ATOMIC_MAX)
        return false;
    if (f->op == ETHMX_RMA_NO_OP)
        return !n;
    return f->flags & EMX_RMA_FETCH ? n == f->len_bytes : n && n <= f->len_bytes;
}

/* What an atomic operation needs. */
static unsigned rma_target_access(const struct emx_f_rma *f)
{
    if (f->flags & EMX_RMA_FETCH && f->op == ETHMX_RMA_NO_OP && !(f->flags & EMX_RMA_SWAP))
        return ETHMX_RMA_MAY_READ;
    return f->flags & EMX_RMA_FETCH ? EMX_RMA_MAY_BOTH : ETHMX_RMA_MAY_WRITE;
}

/* old: NULL, or it gets what was there before. words: by the processor's atomic instructions. */
static void rma_target_change(const struct emx_f_rma *f, uint8_t *memory, size_t n, uint8_t *old, bool words)
{
    const uint8_t *operand = (const uint8_t *)(f + 1);

    if (f->flags & EMX_RMA_SWAP)
        emx_rma_exchange(memory, operand, operand + f->len_bytes, old, f->len_bytes, words);
    else
        emx_rma_change(f->op, f->type, memory, operand, old, old ? f->len_bytes : n, words);
}

enum emx_drop emx_rma_input_atomic(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_rma *f = (const void *)(h + 1);
    size_t n = h->body_bytes - sizeof(*f);
    bool last = n >= f->len_bytes || !n;
    struct emx_rma_region *region;
    uint8_t *memory, *old = NULL;

    (void)now;
    if (!rma_target_is_valid(f, n))
        return EMX_DROP_MALFORMED;
    if (!emx_rma_peer(s))
        return EMX_DROP_MEMORY;
    if (last && !rma_target_has_room(s))
        return EMX_DROP_MALFORMED;
    memory = emx_rma_memory(s->e, f->key, f->offset, f->len_bytes, rma_target_access(f), &region);
    if (!memory)
        return last ? rma_target_refuse(s, f->id) : EMX_ACCEPTED;
    if (f->flags & EMX_RMA_FETCH) {
        if (!(old = rma_target_reply(s, f->id, f->len_bytes)))
            return EMX_DROP_MEMORY;
    } else if (last && !rma_target_tell(s, f->id, EMX_RMA_DONE)) {
        return EMX_DROP_MEMORY;
    }
    rma_target_change(f, memory, n, old, emx_rma_by_words(region, f->type, memory, f->len_bytes));
    emx_rma_changed(region);
    return EMX_ACCEPTED;
}

/* ---- Long operations ---- */

/* An operation of this endpoint that nobody here waits for: it moves the data of the peer's. NULL: no memory. */
static struct emx_op *rma_target_serve(struct emx_session *s, struct emx_rma_region *region, uint32_t id,
                                       uint8_t *memory, uint64_t len_bytes, emx_time now)
{
    const struct emx_op_args a = {.data = {.base = memory, .len_bytes = len_bytes}};
    struct emx_op *op = emx_rma_new(s->e, s, EMX_RMA_SERVE, &a, now);

    if (!op)
        return NULL;
    op->rma->id = id;
    emx_list_append(&region->served, &op->rma->open);
    s->rma->serving++;
    return op;
}

/* Before anything has happened. */
static enum emx_drop rma_target_serve_later(struct emx_session *s, struct emx_op *op)
{
    struct emx_rma *r = op->rma;

    s->rma->serving--;
    emx_rma_part(r);
    emx_rma_free(s->e, r);
    emx_op_drop_id(s->e, op);
    emx_op_recycle(s->e, op);
    return EMX_DROP_MEMORY;
}

enum emx_drop emx_rma_input_put_rts(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_rma_put_rts *f = (const void *)(data + sizeof(struct emx_frame));
    struct emx_rma_region *region;
    struct emx_op *op;
    uint8_t *memory;

    if (f->chunk_bytes < 8 || !f->len_bytes || f->len_bytes > INT64_MAX)
        return EMX_DROP_MALFORMED;
    if (!emx_rma_peer(s))
        return EMX_DROP_MEMORY;
    if (!rma_target_has_room(s))
        return EMX_DROP_MALFORMED;
    memory = emx_rma_memory(s->e, f->key, f->offset, f->len_bytes, ETHMX_RMA_MAY_WRITE, &region);
    if (!memory)
        return rma_target_refuse(s, f->id);
    op = rma_target_serve(s, region, f->id, memory, f->len_bytes, now);
    if (!op)
        return EMX_DROP_MEMORY;
    if (!emx_rndv_pull(s, op, f->op, f->chunk_bytes, f->remote, now))
        return rma_target_serve_later(s, op);
    emx_count(s->e, rma_served);
    return EMX_ACCEPTED;
}

/* Lets the origin pull or read. */
static enum emx_drop rma_target_announce(struct emx_session *s, struct emx_op *op)
{
    struct emx_f_rma_get_rts *t;

    op->is_send = true;
    op->msg_bytes = op->data.len_bytes;
    op->chunk_bytes = emx_rndv_chunk_bytes(s);
    if (!emx_op_take_id(s->e, op) || !(t = rma_target_frame(s, EMX_F_rma_get_rts, sizeof(*t))))
        return rma_target_serve_later(s, op);
    *t = (struct emx_f_rma_get_rts){
        .id = op->rma->id, .op = op->id, .chunk_bytes = op->chunk_bytes, .remote = emx_read_address(s, op)};
    op->where = EMX_OP_ANNOUNCED;
    emx_op_expect(s->e, op, s->peer);
    emx_count(s->e, rma_served);
    return EMX_ACCEPTED;
}

/* Longest data of a get that is in its reply. */
static size_t rma_target_reply_room(const struct emx_session *s)
{
    return emx_eager_room(s) + sizeof(struct emx_f_eager) - sizeof(struct emx_f_rma_reply);
}

enum emx_drop emx_rma_input_get(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_rma *f = (const void *)(data + sizeof(struct emx_frame));
    struct emx_rma_region *region;
    uint8_t *memory, *to;
    struct emx_op *op;

    if (!emx_rma_peer(s))
        return EMX_DROP_MEMORY;
    if (!rma_target_has_room(s))
        return EMX_DROP_MALFORMED;
    memory = emx_rma_memory(s->e, f->key, f->offset, f->len_bytes, ETHMX_RMA_MAY_READ, &region);
    if (!memory || f->len_bytes > INT64_MAX)
        return rma_target_refuse(s, f->id);
    if (f->len_bytes <= rma_target_reply_room(s)) {
        if (!(to = rma_target_reply(s, f->id, f->len_bytes)))
            return EMX_DROP_MEMORY;
        if (f->len_bytes)
            memcpy(to, memory, f->len_bytes);
        return EMX_ACCEPTED;
    }
    op = rma_target_serve(s, region, f->id, memory, f->len_bytes, now);
    return op ? rma_target_announce(s, op) : EMX_DROP_MEMORY;
}

/* ---- Withdrawal ---- */

/* Gives up a long operation and refuses it. */
static int rma_target_give_up(struct emx_engine *e, struct emx_rma *r)
{
    struct emx_op *op = r->op;

    if (op->where == EMX_OP_PULLING && op->rndv->in_hand)
        return ETHMX_ERR_BUSY;
    if (!rma_target_tell(r->session, r->id, EMX_RMA_REFUSED))
        return ETHMX_ERR_NO_MEMORY;
    if (op->where == EMX_OP_PULLING)
        emx_rndv_drop(e, op);
    else
        emx_rndv_forget_pull_requests(r->session, op);
    emx_op_complete(e, op, ETHMX_ERR_ACCESS);
    return ETHMX_OK;
}

int emx_engine_withdraw(struct emx_engine *e, struct emx_rma_region *region, emx_time now)
{
    int rc = ETHMX_OK;

    emx_session_deferred_ack(e);
    emx_rma_region_hide(region);
    emx_list_each_safe(l, next, &region->served)
    {
        int one = rma_target_give_up(e, emx_list_entry(l, struct emx_rma, open));

        rc = one ? one : rc;
    }
    emx_rndv_more(e, now);
    if (rc)
        return rc;
    emx_rma_region_free(e, region);
    return ETHMX_OK;
}

void emx_rma_fini(struct emx_engine *e)
{
    if (!e->rma)
        return;
    emx_rma_regions_fini(e);
    emx_pool_fini(&e->rma->records);
    emx_alloc_put(&e->alloc, e->rma);
    e->rma = NULL;
}
