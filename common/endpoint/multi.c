/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Multi-receives. Each counts as one open operation until its last call.
 */
#include "base/log.h"
#include "core/msg/multi.h"
#include "endpoint/ep.h"
#include "endpoint/sized.h"
#include "ethmx_multi.h"

/* A message is complete, or the whole is over. Operations that the engine has made for messages were not counted when
 * they started, and deliver.c takes each from the counts when this returns. */
static void multi_done(void *arg, const struct ethmx_result *result)
{
    struct emx_op *op = arg;
    const struct emx_multi_args m = *emx_engine_multi_args(op);
    struct ethmx_ep *ep = m.owner;
    struct ethmx_multi_result r = {.message = *result, .remote = emx_op_remote(op)};

    emx_lock_take(&ep->lock);
    r.last = emx_engine_multi_deliver(ep->progress.engine, op, &r.base);
    ep->progress.open_ops += !r.last;
    ep->large_ops += emx_ep_is_large(ep, emx_op_data_bytes(op));
    emx_ep_leave(ep);
    m.fn(m.arg, &r);
    if (!r.last)
        return;
    emx_lock_take(&ep->lock);
    emx_engine_multi_over(ep->progress.engine, op);
    emx_ep_leave(ep);
}

int ethmx_irecv_multi(struct ethmx_ep *ep, struct ethmx_peer *peer, uint64_t bits, uint64_t mask,
                      const struct ethmx_multi *multi, ethmx_multi_fn fn, void *arg, struct ethmx_req **req_p)
{
    struct emx_multi_args m = {.fn = fn, .arg = arg, .owner = ep};
    struct emx_op_args a = {.bits = bits, .mask = mask, .done = multi_done};
    struct ethmx_multi own;
    struct emx_op *op;
    emx_time now;
    int rc = emx_sized_in(&own, sizeof(own), emx_sized_end(struct ethmx_multi, min_bytes), multi, multi->struct_bytes,
                          "ethmx_multi");

    if (rc)
        return rc;
    if (!own.len_bytes) {
        emx_error_set("a multi-receive without a buffer");
        return ETHMX_ERR_PARAM;
    }
    if (own.untagged) {
        a.kind = EMX_KIND_UNTAGGED;
        a.bits = 0;
        a.mask = UINT64_MAX;
    }
    a.data = (struct ethmx_data){.base = own.base, .len_bytes = own.len_bytes};
    m.min_bytes = own.min_bytes;
    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    now = emx_clock_now(&ep->progress.clock);
    rc = emx_engine_recv_multi(ep->progress.engine, emx_peer_in(peer), &a, &m, &op, now);
    if (rc == ETHMX_INPROGRESS) {
        ep->progress.open_ops++;
        if (req_p)
            *req_p = (struct ethmx_req *)op;
    }
    emx_progress_flush(&ep->progress, now);
    emx_ep_leave(ep);
    return rc;
}
