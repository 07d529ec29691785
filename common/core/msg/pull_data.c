/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Data frames of large messages: for which message they are, and whether they fit it.
 */
#include "base/min.h"
#include "core/engine_impl.h"
#include "core/msg/op.h"
#include "core/msg/rndv.h"
#include "core/rel/session.h"

bool emx_rndv_has_chunks(const struct emx_rndv *r, uint64_t chunk, size_t n)
{
    uint64_t chunks = emx_rndv_chunks(n, r->chunk_bytes);

    return n && chunk < r->chunks && chunks <= r->chunks - chunk &&
           n == emx_min(chunks * r->chunk_bytes, r->op->msg_bytes - chunk * r->chunk_bytes);
}

struct emx_rndv *emx_rndv_of_data(struct emx_session *s, const struct emx_f_data *f)
{
    const uint32_t pushed_rx = s->early ? 0 : s->pushed_rx;
    struct emx_op *op = emx_op_by_id(s->e, f->pushed ? pushed_rx : f->rop, s);

    if (!op || op->where != EMX_OP_PULLING || op->rndv->chunk_bytes != f->chunk_bytes ||
        (f->pushed && op->rndv->sender_op != f->rop))
        return NULL;
    return op->rndv;
}
