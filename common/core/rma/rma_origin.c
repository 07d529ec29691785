/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations, the origin: makes requests, and handles replies.
 *
 * An operation takes an id, and its frames enter the window, in the call if nothing waits before it; a single frame
 * leaves there without the lists of output, as short messages do. Otherwise the operation waits in the session's
 * backlog, like a message, or for an id. The data of a put is copied into its frames, several if
 * necessary, of which the target replies to the last. A put above eager_max is announced, and pulled by the target from
 * the program's memory; its fin is the reply.
 */
#include <string.h>

#include "base/min.h"
#include "core/engine_impl.h"
#include "core/msg/data.h"
#include "core/msg/eager.h"
#include "core/msg/op.h"
#include "core/msg/read.h"
#include "core/msg/rndv.h"
#include "core/peer.h"
#include "core/rel/ack.h"
#include "core/rel/offload_probe.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"
#include "core/rma/rma_apply.h"
#include "core/rma/rma_direct.h"
#include "core/rma/rma_local.h"
#include "core/rma/rma_record.h"

/* Longest data in one frame. */
static size_t rma_origin_room(const struct emx_session *s)
{
    return emx_eager_room(s) + sizeof(struct emx_f_eager) - sizeof(struct emx_f_rma);
}

/* Whether it is complete here when its frames have entered the window. */
static bool rma_origin_is_copied(const struct emx_op *op)
{
    return op->rma->local && op->where != EMX_OP_ANNOUNCED;
}

/* ---- Frames ---- */

static enum emx_frame_type rma_origin_type(const struct emx_rma *r)
{
    static const uint8_t type[] = {[EMX_RMA_PUT] = EMX_F_rma_put,
                                   [EMX_RMA_GET] = EMX_F_rma_get,
                                   [EMX_RMA_ACCUMULATE] = EMX_F_rma_atomic,
                                   [EMX_RMA_FETCH_OP] = EMX_F_rma_atomic,
                                   [EMX_RMA_COMPARE_SWAP] = EMX_F_rma_atomic};

    return type[r->kind];
}

static uint16_t rma_origin_flags(const struct emx_rma *r)
{
    if (r->kind == EMX_RMA_COMPARE_SWAP)
        return EMX_RMA_FETCH | EMX_RMA_SWAP;
    return r->kind == EMX_RMA_FETCH_OP ? EMX_RMA_FETCH : 0;
}

/* Bytes of a put or an accumulate in the frame that begins with this offset. With several frames they have the length
 * that GSO packets allow. */
static size_t rma_origin_part_bytes(const struct emx_session *s, const struct emx_rma *r, size_t offset)
{
    size_t unit = r->kind == EMX_RMA_PUT ? 1 : emx_rma_type_bytes(r->type);
    size_t room = emx_eager_part_limit(s) - sizeof(struct emx_frame) - sizeof(struct emx_f_rma);

    if (!offset && r->len_bytes <= rma_origin_room(s))
        return r->len_bytes;
    return emx_min(r->len_bytes - offset, room - room % unit);
}

/* Bytes behind the header of the frame that begins with this offset of the data. */
static size_t rma_origin_body_bytes(const struct emx_session *s, const struct emx_rma *r, size_t offset)
{
    switch (r->kind) {
    case EMX_RMA_PUT:
        return rma_origin_part_bytes(s, r, offset);
    case EMX_RMA_ACCUMULATE:
        return r->action == ETHMX_RMA_NO_OP ? 0 : rma_origin_part_bytes(s, r, offset);
    case EMX_RMA_GET:
        return 0;
    case EMX_RMA_COMPARE_SWAP:
        return 2 * r->len_bytes;
    default:
        return r->action == ETHMX_RMA_NO_OP ? 0 : r->len_bytes;
    }
}

static void rma_origin_write_body(const struct emx_op *op, size_t offset, uint8_t *to, size_t n)
{
    const struct emx_rma *r = op->rma;

    if (r->kind == EMX_RMA_COMPARE_SWAP)
        memcpy(to, r->swap, n);
    else if (r->kind == EMX_RMA_FETCH_OP && n)
        memcpy(to, r->operand, n);
    else
        emx_data_read(&op->data, offset, to, n);
}

/* Whether its data may be in several frames. */
static bool rma_origin_is_parted(const struct emx_rma *r)
{
    return r->kind == EMX_RMA_PUT || (r->kind == EMX_RMA_ACCUMULATE && r->action != ETHMX_RMA_NO_OP);
}

/* Marks the frames of a long operation for GSO packets. Each of these takes a slot of the target's ring. */
static void rma_origin_join(struct emx_session *s, struct emx_op *op, struct emx_txbuf *b, size_t offset, size_t n)
{
    size_t run_bytes = EMX_WIRE_JOIN_BYTES / b->len_bytes * n;
    bool begins = n && offset % run_bytes == 0;

    if (begins)
        op->gso = op->msg_bytes - offset >= EMX_JOINED_BYTES && emx_eager_take_slot(s);
    b->gso = op->gso && s->gso_bytes;
    b->slot = b->gso && begins;
}

/* Sends one frame. f: as emx_engine_rma(). false: no room or no memory. */
static bool rma_origin_send_frame(struct emx_session *s, struct emx_op *op, struct emx_txframe *f_p, emx_time now)
{
    const struct emx_rma *r = op->rma;
    size_t offset = op->sent_bytes, n = rma_origin_body_bytes(s, r, offset);
    struct emx_txbuf *b;
    struct emx_f_rma *f;

    if (!emx_send_window_room(&s->tx) || !(b = emx_rma_buffer(s, rma_origin_type(r), sizeof(*f) + n)))
        return false;
    f = (struct emx_f_rma *)(emx_txbuf_frame(b) + 1);
    *f = (struct emx_f_rma){.id = r->id,
                            .op = r->action,
                            .type = r->type,
                            .flags = rma_origin_flags(r),
                            .key = r->key,
                            .offset = r->offset + offset,
                            .len_bytes = r->len_bytes - offset};
    rma_origin_write_body(op, offset, (uint8_t *)(f + 1), n);
    op->sent_bytes = rma_origin_is_parted(r) ? offset + n : r->len_bytes;
    if (f_p && !offset && op->sent_bytes == op->msg_bytes && emx_rma_is_direct(s)) {
        emx_rma_send_direct(s, b, f_p, now);
        return true;
    }
    if (rma_origin_is_parted(r))
        rma_origin_join(s, op, b, offset, n);
    emx_send_window_push(s, b);
    return true;
}

static bool rma_origin_announce(struct emx_session *s, struct emx_op *op)
{
    const struct emx_rma *r = op->rma;
    struct emx_txbuf *b;

    if (!emx_send_window_room(&s->tx) || !emx_op_take_id(s->e, op) ||
        !(b = emx_rma_buffer(s, EMX_F_rma_put_rts, sizeof(struct emx_f_rma_put_rts))))
        return false;
    op->chunk_bytes = emx_rndv_chunk_bytes(s);
    *(struct emx_f_rma_put_rts *)(emx_txbuf_frame(b) + 1) =
        (struct emx_f_rma_put_rts){.id = r->id,
                                   .op = op->id,
                                   .key = r->key,
                                   .offset = r->offset,
                                   .len_bytes = r->len_bytes,
                                   .remote = emx_read_address(s, op),
                                   .chunk_bytes = op->chunk_bytes};
    op->where = EMX_OP_ANNOUNCED;
    emx_send_window_push(s, b);
    return true;
}

/* ---- Sending ---- */

static bool rma_origin_is_long(const struct emx_session *s, const struct emx_op *op)
{
    return op->rma->kind == EMX_RMA_PUT && !op->sent_bytes && op->msg_bytes > s->e->cfg->p_eager_max &&
           op->msg_bytes > rma_origin_room(s);
}

/* Moves it into the window as far as there is room. f: as emx_engine_rma(). true: all of it. */
static bool rma_origin_go(struct emx_session *s, struct emx_op *op, struct emx_txframe *f, emx_time now)
{
    if (rma_origin_is_long(s, op))
        return rma_origin_announce(s, op);
    do {
        if (!rma_origin_send_frame(s, op, f, now))
            return false;
    } while (op->sent_bytes < op->msg_bytes);
    op->where = EMX_OP_REMOTE;
    return true;
}

bool emx_rma_advance(struct emx_session *s, struct emx_op *op)
{
    if (!rma_origin_go(s, op, NULL, 0))
        return false;
    emx_list_del(&op->link);
    if (rma_origin_is_copied(op)) {
        emx_rma_part(op->rma);
        emx_op_complete(s->e, op, ETHMX_OK);
    }
    return true;
}

/* Sends an operation that has just begun, or lets it wait. */
static int rma_origin_start(struct emx_session *s, struct emx_op *op, struct emx_txframe *f, emx_time now)
{
    struct emx_engine *e = s->e;

    emx_list_append(&s->rma->open, &op->rma->open);
    emx_list_append(&e->rma->all, &op->rma->all);
    op->where = EMX_OP_BACKLOG;
    if (!emx_rma_take_id(op->rma)) {
        emx_list_append(&s->rma->held, &op->link);
    } else if (s->state != EMX_S_CONNECTED || !emx_list_empty(&s->backlog) || !rma_origin_go(s, op, f, now)) {
        emx_op_queue(s, op);
    } else if (rma_origin_is_copied(op)) {
        emx_rma_part(op->rma);
        emx_op_recycle(e, op);
        return ETHMX_OK;
    }
    emx_op_expect(e, op, s->peer);
    return ETHMX_INPROGRESS;
}

/* ---- The call ---- */

static struct emx_op *rma_origin_new(struct emx_session *s, const struct emx_rma_args *a, emx_time now)
{
    const struct emx_op_args oa = {.data = a->data, .done = a->done, .arg = a->arg};
    struct emx_op *op = emx_rma_engine(s->e) && emx_rma_peer(s) ? emx_rma_new(s->e, s, a->kind, &oa, now) : NULL;
    struct emx_rma *r;

    if (!op)
        return NULL;
    r = op->rma;
    r->action = (uint8_t)a->op;
    r->type = (uint8_t)a->type;
    r->local = a->mode == ETHMX_RMA_LOCAL && (a->kind == EMX_RMA_PUT || a->kind == EMX_RMA_ACCUMULATE);
    r->key = a->key;
    r->offset = a->offset;
    r->len_bytes = a->data.len_bytes;
    r->operand = a->operand;
    if (a->kind == EMX_RMA_COMPARE_SWAP) {
        memcpy(r->swap, a->compare, r->len_bytes);
        memcpy(r->swap + r->len_bytes, a->set, r->len_bytes);
    }
    op->is_send = a->kind == EMX_RMA_PUT || a->kind == EMX_RMA_ACCUMULATE;
    op->msg_bytes = a->data.len_bytes;
    op->gso = false;
    return op;
}

int emx_engine_rma(struct emx_engine *e, struct emx_peer *peer, const struct emx_rma_args *a, struct emx_txframe *f,
                   emx_time now)
{
    struct emx_session *s = peer->session;
    struct emx_op *op;
    int rc;

    if (!f) /* otherwise it is handled when the frame has left */
        emx_session_deferred_ack(e);
    if (e->closing)
        return ETHMX_ERR_CLOSED;
    if (!emx_rma_is_valid(a))
        return ETHMX_ERR_PARAM;
    if (a->offset > UINT64_MAX - a->data.len_bytes)
        return ETHMX_ERR_ACCESS;
    if (peer->id == e->self.id) {
        rc = emx_rma_self(e, a);
    } else {
        if (!s && !(s = emx_session_start(e, peer, now)))
            return ETHMX_ERR_NO_MEMORY;
        if (s->end_status)
            return s->end_status;
        if (!(op = rma_origin_new(s, a, now)))
            return ETHMX_ERR_NO_MEMORY;
        rc = rma_origin_start(s, op, f, now);
    }
    if (rc >= 0)
        emx_rma_count(e, a);
    return rc;
}

/* ---- Replies ---- */

/* The operation with this id, if it waits for data; or NULL. */
static struct emx_op *rma_origin_find(struct emx_session *s, uint32_t id)
{
    struct emx_rma *r = emx_rma_by_id(s, id);
    bool wants_data = r && r->op && r->kind != EMX_RMA_PUT && r->kind != EMX_RMA_ACCUMULATE;

    return wants_data && r->op->where == EMX_OP_REMOTE ? r->op : NULL;
}

static size_t rma_origin_reply_bytes(const uint8_t *data)
{
    return ((const struct emx_frame *)(const void *)data)->body_bytes - sizeof(struct emx_f_rma_reply);
}

static struct emx_op *rma_origin_of_reply(struct emx_session *s, const uint8_t *data)
{
    const struct emx_f_rma_reply *f = (const void *)(data + sizeof(struct emx_frame));

    return rma_origin_find(s, f->id);
}

static void rma_origin_take_data(struct emx_op *op, const uint8_t *data, size_t n)
{
    emx_data_write(&op->data, 0, data + sizeof(struct emx_frame) + sizeof(struct emx_f_rma_reply), n);
    op->len_bytes = n;
}

enum emx_drop emx_rma_input_reply(struct emx_session *s, const uint8_t *data, emx_time now)
{
    struct emx_op *op = rma_origin_of_reply(s, data);
    size_t n = rma_origin_reply_bytes(data);

    (void)now;
    if (!op)
        return EMX_ACCEPTED; /* sequenced: it is handled once, valid or not */
    if (n != op->msg_bytes)
        return EMX_DROP_MALFORMED;
    rma_origin_take_data(op, data, n);
    emx_op_complete(s->e, op, ETHMX_OK);
    return EMX_ACCEPTED;
}

struct emx_op *emx_rma_answered(struct emx_session *s, const uint8_t *data)
{
    struct emx_op *op = rma_origin_of_reply(s, data);
    size_t n = rma_origin_reply_bytes(data);

    if (!op || n != op->msg_bytes)
        return NULL;
    rma_origin_take_data(op, data, n);
    return op;
}

enum emx_drop emx_rma_input_get_rts(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_rma_get_rts *f = (const void *)(data + sizeof(struct emx_frame));
    struct emx_op *op = rma_origin_find(s, f->id);

    if (!op)
        return EMX_ACCEPTED;
    if (f->chunk_bytes < 8 || op->rma->kind != EMX_RMA_GET || !op->msg_bytes)
        return EMX_DROP_MALFORMED;
    return emx_rndv_pull(s, op, f->op, f->chunk_bytes, f->remote, now) ? EMX_ACCEPTED : EMX_DROP_MEMORY;
}

/* An operation without data to return is complete, or any has failed. */
static void rma_origin_done(struct emx_session *s, struct emx_rma *r, int status, emx_time now)
{
    struct emx_op *op = r->op;

    if (!op) {
        if (status)
            emx_rma_failed_late(r, status);
        else
            emx_rma_end(r);
        return;
    }
    if (op->where == EMX_OP_BACKLOG || (!status && !op->is_send))
        return; /* it was not sent, or waits for data: the peer is wrong */
    if (emx_read_late(op, status))
        return; /* its data is being read: it ends when the read has */
    if (op->where == EMX_OP_ANNOUNCED)
        emx_rndv_forget_pull_requests(s, op);
    else if (op->where == EMX_OP_PULLING)
        emx_rndv_drop(s->e, op);
    emx_op_complete(s->e, op, status);
    emx_rndv_more(s->e, now); /* a pull may have left the window */
}

enum emx_drop emx_rma_input_done(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_rma_done *f = (const void *)(data + sizeof(struct emx_frame));

    if (!f->count || f->count > EMX_RMA_OPEN_MAX || f->status >= EMX_RMA_STATUS_COUNT)
        return EMX_DROP_MALFORMED;
    for (uint32_t i = 0; i < f->count; i++) {
        struct emx_rma *r = emx_rma_by_id(s, f->id + i);

        if (r)
            rma_origin_done(s, r, f->status == EMX_RMA_DONE ? ETHMX_OK : ETHMX_ERR_ACCESS, now);
    }
    return EMX_ACCEPTED;
}
