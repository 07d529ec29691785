/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations: sends and receives in progress, their numbers in frames, their completion.
 *
 * A number is a slot of a table and the slot's generation, so that a late frame for an ended operation does not match
 * the next one in the same slot. The slot that has been free for longest is used, so that a number is used again after
 * SLOTS_LEAST * 2^10 operations at the earliest.
 */
#include <string.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/msg/data.h"
#include "core/msg/exported.h"
#include "core/msg/match.h"
#include "core/msg/op.h"
#include "core/peer.h"
#include "core/rel/session.h"

#define SLOT_BITS   22
#define SLOT_MASK   ((1u << SLOT_BITS) - 1)
#define SLOTS_LEAST 256

struct emx_op *emx_op_new(struct emx_engine *e, const struct emx_op_args *a, emx_time now)
{
    struct emx_op *op = emx_pool_get(&e->ops);

    if (!op)
        return NULL;
    emx_list_init(&op->match.link);
    emx_list_init(&op->link);
    emx_list_init(&op->peer_link);
    op->data = emx_data_same(&a->data);
    op->done = a->done;
    op->arg = a->arg;
    op->peer = NULL;
    op->rndv = NULL;
    op->exported = NULL;
    op->reading = 0;
    op->asked = false;
    op->is_send = op->is_am = op->sync = op->has_remote = op->eager = op->counted_wait = op->matched = false;
    op->space = EMX_TAGGED;
    op->am_header_bytes = 0;
    op->am_header = NULL;
    op->id = 0;
    op->status = ETHMX_OK;
    op->bits = a->bits;
    op->len_bytes = op->msg_bytes = op->sent_bytes = 0;
    emx_engine_tick_arm(e, now);
    return op;
}

struct emx_op *emx_op_new_send(struct emx_engine *e, struct emx_peer *p, const struct emx_op_args *a, emx_time now)
{
    struct emx_op *op = emx_op_new(e, a, now);

    if (!op)
        return NULL;
    if (a->am_header_bytes) {
        op->am_header = emx_alloc_get(&e->alloc, a->am_header_bytes);
        if (!op->am_header) {
            emx_pool_put(&e->ops, op);
            return NULL;
        }
        memcpy(op->am_header, a->am_header, a->am_header_bytes);
    }
    op->is_send = true;
    op->is_am = a->kind == EMX_KIND_AM;
    op->space = emx_op_args_space(a);
    op->am_header_bytes = (uint16_t)a->am_header_bytes;
    op->sync = a->mode == ETHMX_SEND_SYNC && a->kind != EMX_KIND_AM;
    op->msg_bytes = a->data.len_bytes;
    emx_op_depend(e, op, p);
    return op;
}

void emx_op_queue(struct emx_session *s, struct emx_op *op)
{
    op->where = EMX_OP_BACKLOG;
    emx_list_append(&s->backlog, &op->link);
    emx_session_ready(s);
}

/* ---- Numbers ---- */

static bool op_grow(struct emx_engine *e)
{
    uint32_t count = e->slot_count ? e->slot_count * 2 : SLOTS_LEAST;
    struct emx_op_slot *slots;

    if (count > SLOT_MASK)
        return false;
    slots = emx_alloc_get(&e->alloc, count * sizeof(*slots));
    if (!slots)
        return false;
    if (e->slot_count)
        memcpy(slots, e->slots, e->slot_count * sizeof(*slots));
    for (uint32_t i = e->slot_count; i < count; i++)
        slots[i] = (struct emx_op_slot){.next_free = i + 1 < count ? i + 1 : 0, .generation = 1};
    e->slot_free = e->slot_count ? e->slot_count : 1; /* slot 0 is unused: number 0 means none */
    e->slot_last = count - 1;
    emx_alloc_put(&e->alloc, e->slots);
    e->slots = slots;
    e->slot_count = count;
    return true;
}

bool emx_op_reserve_id(struct emx_engine *e)
{
    return e->slot_free || op_grow(e);
}

bool emx_op_take_id(struct emx_engine *e, struct emx_op *op)
{
    uint32_t i;

    if (op->id)
        return true;
    if (!e->slot_free && !op_grow(e))
        return false;
    i = e->slot_free;
    e->slot_free = e->slots[i].next_free;
    e->slots[i].op = op;
    op->id = e->slots[i].generation << SLOT_BITS | i;
    return true;
}

void emx_op_drop_id(struct emx_engine *e, struct emx_op *op)
{
    uint32_t i = op->id & SLOT_MASK;

    if (!op->id)
        return;
    e->slots[i].op = NULL;
    e->slots[i].generation++;
    e->slots[i].next_free = 0;
    if (e->slot_free)
        e->slots[e->slot_last].next_free = i;
    else
        e->slot_free = i;
    e->slot_last = i;
    op->id = 0;
}

struct emx_op *emx_op_by_id(struct emx_engine *e, uint32_t id, const struct emx_session *s)
{
    uint32_t i = id & SLOT_MASK;
    struct emx_op *op = i < e->slot_count ? e->slots[i].op : NULL;

    return op && op->id == id && op->peer == s->peer ? op : NULL;
}

/* ---- Waiting and matching ---- */

void emx_op_await(struct emx_op *op)
{
    if (op->counted_wait)
        return;
    op->counted_wait = true;
    op->peer->session->awaits++;
}

void emx_op_expect(struct emx_engine *e, struct emx_op *op, struct emx_peer *p)
{
    emx_op_depend(e, op, p);
    emx_op_await(op);
}

void emx_op_unpost(struct emx_engine *e, struct emx_op *op)
{
    e->stats->posted_now--;
    if (op->match.peer)
        op->match.peer->posted--;
    else
        e->posted_any--;
}

struct emx_op *emx_op_match(struct emx_engine *e, enum emx_space space, uint64_t bits, struct emx_peer *p)
{
    struct emx_posted *m = emx_match_arrive(&e->match[space], bits, p);
    struct emx_op *op;

    if (!m)
        return NULL;
    op = emx_container(m, struct emx_op, match);
    emx_op_unpost(e, op);
    op->where = EMX_OP_FILLING;
    op->bits = bits;
    op->peer = p;
    return op;
}

/* ---- Completion ---- */

static inline void op_end(struct emx_engine *e, struct emx_op *op, int status)
{
    if (op->where == EMX_OP_POSTED)
        emx_op_unpost(e, op);
    if (op->counted_wait)
        op->peer->session->awaits--;
    op->counted_wait = false;
    if (op->exported)
        emx_exported_over(op, status);
    emx_op_drop_id(e, op);
    if (emx_list_linked(&op->peer_link))
        emx_list_del(&op->peer_link);
    op->status = status;
    op->where = EMX_OP_DONE;
}

void emx_op_complete(struct emx_engine *e, struct emx_op *op, int status)
{
    op_end(e, op, status);
    emx_list_append(&e->completed, &op->link);
    e->ready_flags.pending |= EMX_RESULT_DONE;
    if (emx_op_is_rma(op))
        e->up->rma_ended(e, op, status);
}

void emx_op_end(struct emx_engine *e, struct emx_op *op, int status)
{
    op_end(e, op, status);
    if (emx_op_is_rma(op))
        e->up->rma_ended(e, op, status);
}

void emx_op_discard(struct emx_engine *e, struct emx_op *op)
{
    emx_list_del(&op->link);
    if (emx_list_empty(&e->completed))
        e->ready_flags.pending &= ~(uint32_t)EMX_RESULT_DONE;
    emx_op_recycle(e, op);
}

void emx_op_hold(struct emx_engine *e, struct emx_op *op, int status)
{
    if (emx_list_linked(&op->peer_link))
        emx_list_del(&op->peer_link);
    emx_list_append(&e->quiescing, &op->peer_link);
    if (op->exported)
        emx_exported_forget_puts(op->exported);
    op->where = EMX_OP_QUIESCING;
    op->status = status;
}

void emx_op_received(struct emx_engine *e, struct emx_op *op, uint64_t msg_bytes)
{
    bool fits = msg_bytes <= op->data.len_bytes;

    op->msg_bytes = msg_bytes;
    op->len_bytes = fits ? msg_bytes : op->data.len_bytes;
    if (!emx_op_is_rma(op)) {
        emx_count(e, msgs_received);
        emx_add(e, bytes_received, op->len_bytes);
    }
    emx_op_complete(e, op, fits ? ETHMX_OK : ETHMX_ERR_TRUNCATED);
}

void emx_op_recycle(struct emx_engine *e, struct emx_op *op)
{
    if (op->am_header)
        emx_alloc_put(&e->alloc, op->am_header);
    op->where = EMX_OP_FREE;
    emx_pool_put(&e->ops, op);
}

struct emx_op *emx_engine_completed(struct emx_engine *e)
{
    struct emx_list *l = emx_list_pop(&e->completed);

    if (emx_list_empty(&e->completed))
        e->ready_flags.pending &= ~(uint32_t)EMX_RESULT_DONE;
    return l ? emx_list_entry(l, struct emx_op, link) : NULL;
}

void emx_op_result(const struct emx_op *op, ethmx_done_fn *done_p, void **arg_p, struct ethmx_result *result_p)
{
    *done_p = op->done;
    *arg_p = op->arg;
    *result_p = (struct ethmx_result){.status = op->status,
                                      .bits = op->bits,
                                      .peer = (struct ethmx_peer *)op->peer,
                                      .len_bytes = op->len_bytes,
                                      .msg_bytes = op->msg_bytes};
}

struct ethmx_remote emx_op_remote(const struct emx_op *op)
{
    return op->has_remote ? (struct ethmx_remote){true, op->remote} : (struct ethmx_remote){0};
}

size_t emx_op_data_bytes(const struct emx_op *op)
{
    return op->data.len_bytes;
}

void emx_engine_op_free(struct emx_engine *e, struct emx_op *op)
{
    emx_op_recycle(e, op);
}
