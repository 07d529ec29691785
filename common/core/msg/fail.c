/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations of a peer that fails.
 */
#include "core/engine_impl.h"
#include "core/msg/fail.h"
#include "core/msg/match.h"
#include "core/msg/multi.h"
#include "core/msg/op.h"
#include "core/msg/rdma_get.h"
#include "core/msg/read.h"
#include "core/msg/rndv.h"
#include "core/peer.h"
#include "core/rel/session.h"

/* Removes an operation from the list in which it waits. */
static void fail_unqueue(struct emx_engine *e, struct emx_op *op)
{
    struct emx_session *s = op->peer ? op->peer->session : NULL;

    switch (op->where) {
    case EMX_OP_BACKLOG:
        emx_list_del(&op->link);
        break;
    case EMX_OP_ANNOUNCED:
        emx_rndv_forget_pull_requests(s, op);
        break;
    case EMX_OP_POSTED:
        emx_match_unpost(&e->match[op->space], &op->match);
        break;
    case EMX_OP_PULLING:
        emx_rndv_drop(e, op);
        break;
    default:
        break;
    }
}

void emx_peer_fail(struct emx_engine *e, struct emx_peer *p, int status)
{
    struct emx_list *l;

    while ((l = emx_list_first(&p->ops))) {
        struct emx_op *op = emx_list_entry(l, struct emx_op, peer_link);

        if (emx_read_late(op, status))
            continue;
        if (op->where == EMX_OP_COLLECTING) {
            emx_multi_end(e, op, status);
            continue;
        }
        fail_unqueue(e, op);
        if (!emx_get_sever(e, op, status))
            emx_op_complete(e, op, status);
    }
}
