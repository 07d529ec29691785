/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/msg/multi.h"

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/msg/match.h"
#include "core/msg/op.h"
#include "core/peer.h"

struct emx_op *emx_multi_new(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *a,
                             const struct emx_multi_args *m, emx_time now)
{
    struct emx_op *whole = emx_op_new(e, a, now);
    struct emx_multi *multi = whole ? emx_pool_get(&e->multis) : NULL;

    if (!multi) {
        if (whole)
            emx_op_recycle(e, whole);
        return NULL;
    }
    *multi = (struct emx_multi){.args = *m, .whole = whole};
    whole->multi = multi;
    whole->arg = whole;
    whole->where = EMX_OP_FILLING;
    whole->space = emx_op_args_space(a);
    whole->match.bits = a->bits;
    whole->match.mask = a->mask;
    whole->match.peer = peer;
    return whole;
}

void emx_multi_free(struct emx_engine *e, struct emx_op *whole)
{
    emx_pool_put(&e->multis, whole->multi);
    emx_op_recycle(e, whole);
}

void emx_multi_post(struct emx_engine *e, struct emx_op *whole)
{
    struct emx_peer *peer = whole->match.peer;

    whole->where = EMX_OP_COLLECTING;
    if (peer) {
        emx_op_depend(e, whole, peer);
        peer->posted++;
    } else {
        e->posted_any++;
    }
    e->stats->posted_now++;
    emx_match_post_multi(&e->match[whole->space], &whole->match);
}

static void multi_unpost(struct emx_engine *e, struct emx_op *whole)
{
    emx_match_unpost_multi(&e->match[whole->space], &whole->match);
    emx_op_unpost(e, whole);
    if (emx_list_linked(&whole->peer_link))
        emx_list_del(&whole->peer_link);
    whole->peer = NULL; /* which may be removed before the last call */
    whole->where = EMX_OP_FILLING;
}

void emx_multi_end(struct emx_engine *e, struct emx_op *whole, int status)
{
    multi_unpost(e, whole);
    whole->multi->status = status;
    if (!whole->multi->parts)
        emx_op_complete(e, whole, status);
}

static size_t multi_free_bytes(const struct emx_op *whole)
{
    return whole->data.len_bytes - whole->multi->used_bytes;
}

bool emx_multi_is_full(const struct emx_op *whole)
{
    size_t free_bytes = multi_free_bytes(whole);

    return !free_bytes || (whole->multi->used_bytes && free_bytes < whole->multi->args.min_bytes);
}

struct emx_op *emx_multi_part(struct emx_engine *e, struct emx_op *whole, size_t len_bytes, emx_time now)
{
    size_t free_bytes = multi_free_bytes(whole);
    const struct emx_op_args a = {.data = {.len_bytes = len_bytes < free_bytes ? len_bytes : free_bytes,
                                           .base = (uint8_t *)whole->data.base + whole->multi->used_bytes},
                                  .done = whole->done};
    struct emx_op *part = emx_op_new(e, &a, now);

    if (!part)
        return NULL;
    part->arg = part;
    part->multi = whole->multi;
    part->where = EMX_OP_FILLING;
    whole->multi->used_bytes += a.data.len_bytes;
    whole->multi->parts++;
    return part;
}

void emx_multi_unpart(struct emx_engine *e, struct emx_op *part)
{
    part->multi->used_bytes -= part->data.len_bytes;
    part->multi->parts--;
    emx_op_recycle(e, part);
}

/* The tick runs since the receive was posted, so the time does not matter. */
struct emx_op *emx_multi_match(struct emx_engine *e, enum emx_space space, uint64_t bits, struct emx_peer *p,
                               size_t len_bytes)
{
    struct emx_posted *m = emx_match_multi(&e->match[space], bits, p);
    struct emx_op *whole, *part;

    if (!m)
        return NULL;
    whole = emx_container(m, struct emx_op, match);
    part = emx_multi_part(e, whole, len_bytes, 0);
    part->bits = bits;
    part->peer = p;
    if (emx_multi_is_full(whole))
        multi_unpost(e, whole);
    return part;
}

const struct emx_multi_args *emx_engine_multi_args(const struct emx_op *op)
{
    return &op->multi->args;
}

bool emx_engine_multi_deliver(struct emx_engine *e, struct emx_op *op, void **base_p)
{
    struct emx_multi *multi = op->multi;
    struct emx_op *whole = multi->whole;

    *base_p = op == whole ? NULL : op->data.base;
    if (op == whole)
        return true;
    if (--multi->parts || whole->where == EMX_OP_COLLECTING)
        return false;
    if (!multi->status)
        return true;
    emx_op_complete(e, whole, multi->status);
    return false;
}

void emx_engine_multi_over(struct emx_engine *e, struct emx_op *op)
{
    struct emx_multi *multi = op->multi;

    if (op != multi->whole)
        emx_op_recycle(e, multi->whole);
    emx_pool_put(&e->multis, multi);
}
