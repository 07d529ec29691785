/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages to self never become frames: they are copied from buffer to buffer when both sides have met. A standard send
 * of at most eager_max bytes is copied, so that it completes without its receive, as eager messages do.
 */
#include <string.h>

#include "core/engine_impl.h"
#include "core/msg/data.h"
#include "core/msg/multi.h"
#include "core/msg/op.h"
#include "core/msg/self.h"
#include "core/msg/unexpected.h"
#include "core/peer.h"
#include "core/rel/credit.h"

static int self_straight(struct emx_engine *e, struct emx_op *op, const struct emx_op_args *a)
{
    size_t len = a->data.len_bytes < op->data.len_bytes ? a->data.len_bytes : op->data.len_bytes;

    emx_count(e, match_posted);
    if (a->am_header_bytes)
        emx_op_set_remote(op, a->am_header);
    emx_data_copy(&op->data, &a->data, len);
    emx_op_received(e, op, a->data.len_bytes);
    return ETHMX_OK;
}

static void self_deliver(struct emx_engine *e, struct emx_unexpected *a, struct emx_peer *p, uint64_t bits)
{
    a->match.peer = p;
    a->match.bits = bits;
    if (a->is_am)
        emx_unexpected_am(e, a);
    else
        emx_unexpected_queue(e, a, p, bits);
}

static uint32_t self_cost(const struct emx_op_args *a)
{
    return emx_eager_cost(a->am_header_bytes + a->data.len_bytes);
}

/* The bound on unexpected memory includes messages to self. */
static bool self_affordable(const struct emx_engine *e, const struct emx_op_args *a)
{
    return a->mode == ETHMX_SEND_STANDARD && a->data.len_bytes <= e->cfg->p_eager_max &&
           e->stats->unexpected_promised + self_cost(a) <= e->cfg->p_unexpected_max;
}

/* The message of a send that has no receive yet. NULL: no memory. */
static struct emx_unexpected *self_new(struct emx_engine *e, const struct emx_op_args *a, size_t buf_bytes)
{
    struct emx_unexpected *m = emx_unexpected_new(e, NULL, buf_bytes);

    if (!m)
        return NULL;
    m->is_am = a->kind == EMX_KIND_AM;
    m->has_remote = !m->is_am && a->am_header_bytes;
    m->space = emx_op_args_space(a);
    m->whole = true;
    m->am_header_bytes = (uint16_t)a->am_header_bytes;
    m->total_bytes = a->data.len_bytes;
    if (a->am_header_bytes)
        memcpy(m->buf, a->am_header, a->am_header_bytes);
    return m;
}

static int self_copied(struct emx_engine *e, struct emx_peer *p, const struct emx_op_args *a)
{
    struct emx_unexpected *m = self_new(e, a, a->am_header_bytes + a->data.len_bytes);

    if (!m)
        return ETHMX_ERR_NO_MEMORY;
    m->cost = self_cost(a);
    e->stats->unexpected_bytes += m->cost;
    e->stats->unexpected_promised += m->cost;
    m->got_bytes = a->am_header_bytes + a->data.len_bytes;
    emx_data_read(&a->data, 0, m->buf + a->am_header_bytes, a->data.len_bytes);
    self_deliver(e, m, p, a->bits);
    return ETHMX_OK;
}

static int self_waiting(struct emx_engine *e, struct emx_peer *p, const struct emx_op_args *a, emx_time now)
{
    struct emx_unexpected *m = self_new(e, a, a->am_header_bytes);
    struct emx_op *op = m ? emx_op_new_send(e, p, a, now) : NULL;

    if (!op) {
        if (m)
            emx_unexpected_free(e, m);
        return ETHMX_ERR_NO_MEMORY;
    }
    op->where = EMX_OP_MATCHING;
    m->local = op;
    self_deliver(e, m, p, a->bits);
    return ETHMX_INPROGRESS;
}

int emx_self_send(struct emx_engine *e, struct emx_peer *p, const struct emx_op_args *a, emx_time now)
{
    enum emx_space space = emx_op_args_space(a);
    struct emx_op *op = NULL;

    if (!emx_multi_reserve(e, space))
        return ETHMX_ERR_NO_MEMORY;
    if (a->kind != EMX_KIND_AM)
        op = emx_multi_or_match(e, space, a->bits, p, a->data.len_bytes);
    if (op)
        return self_straight(e, op, a);
    if (self_affordable(e, a))
        return self_copied(e, p, a);
    return self_waiting(e, p, a, now);
}

void emx_self_receive(struct emx_engine *e, struct emx_unexpected *a, struct emx_op *op)
{
    size_t len = a->total_bytes < op->data.len_bytes ? a->total_bytes : op->data.len_bytes;

    op->peer = a->match.peer;
    if (a->has_remote)
        emx_op_set_remote(op, a->buf);
    if (a->local) {
        emx_data_copy(&op->data, &a->local->data, len);
        emx_op_complete(e, a->local, ETHMX_OK);
        a->local = NULL;
    } else {
        emx_data_write(&op->data, 0, a->buf + a->am_header_bytes, len);
    }
    emx_op_received(e, op, a->total_bytes);
    emx_unexpected_free(e, a);
}
