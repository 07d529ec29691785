/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations: from the arguments of ethmx.h to the engine, and what the engine then wants to send at once to the wire,
 * so that a short message has left when the call returns.
 */
#include "base/log.h"
#include "endpoint/helper.h"
#include "endpoint/ep.h"
#include "core/msg/data.h"
#include "ethmx_untagged.h"

#define LONG_BYTES 16384 /* worth waking the progress thread for */

/* After an operation was started. */
static inline void op_note_started(struct ethmx_ep *ep, const struct emx_op_args *a, int rc)
{
    if (rc != ETHMX_INPROGRESS)
        return;
    ep->progress.open_ops++;
    ep->large_ops += emx_ep_is_large(ep, a->data.len_bytes);
    if (ep->cfg.p_progress == EMX_PROGRESS_THREAD && a->data.len_bytes >= LONG_BYTES)
        emx_helper_wake(ep->helper);
}

static inline int start_send(struct ethmx_ep *ep, struct ethmx_peer *peer, const struct emx_op_args *a)
{
    int rc;

    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    rc = emx_progress_send(&ep->progress, emx_peer_in(peer), a);
    op_note_started(ep, a, rc);
    emx_ep_leave(ep);
    return rc;
}

int ethmx_isend(struct ethmx_ep *ep, struct ethmx_peer *peer, uint64_t bits, const struct ethmx_data *data,
                enum ethmx_send_mode mode, ethmx_done_fn done, void *arg)
{
    const struct emx_op_args a = {.bits = bits, .data = emx_data_same(data), .mode = mode, .done = done, .arg = arg};

    return start_send(ep, peer, &a);
}

int ethmx_isend_remote(struct ethmx_ep *ep, struct ethmx_peer *peer, uint64_t bits, uint64_t remote,
                       const struct ethmx_data *data, enum ethmx_send_mode mode, ethmx_done_fn done, void *arg)
{
    const struct emx_op_args a = {.bits = bits,
                                  .data = emx_data_same(data),
                                  .mode = mode,
                                  .kind = EMX_KIND_REMOTE,
                                  .am_header = &remote,
                                  .am_header_bytes = sizeof(remote),
                                  .done = done,
                                  .arg = arg};

    return start_send(ep, peer, &a);
}

int ethmx_isend_untagged(struct ethmx_ep *ep, struct ethmx_peer *peer, const uint64_t *remote,
                         const struct ethmx_data *data, enum ethmx_send_mode mode, ethmx_done_fn done, void *arg)
{
    const struct emx_op_args a = {.data = emx_data_same(data),
                                  .mode = mode,
                                  .kind = EMX_KIND_UNTAGGED,
                                  .am_header = remote,
                                  .am_header_bytes = remote ? sizeof(*remote) : 0,
                                  .done = done,
                                  .arg = arg};

    return start_send(ep, peer, &a);
}

int ethmx_am_send(struct ethmx_ep *ep, struct ethmx_peer *peer, unsigned id, const void *header, size_t header_bytes,
                  const struct ethmx_data *data, ethmx_done_fn done, void *arg)
{
    const struct emx_op_args a = {.bits = id,
                                  .data = data ? *data : (struct ethmx_data){0},
                                  .kind = EMX_KIND_AM,
                                  .am_header = header,
                                  .am_header_bytes = header_bytes,
                                  .done = done,
                                  .arg = arg};

    if (id >= ETHMX_AM_HANDLERS || header_bytes > ETHMX_AM_HEADER_MAX) {
        emx_error_set(
            "active message to handler %u with a header of %zu bytes: handlers go from 0 to %u, headers to %u "
            "bytes",
            id, header_bytes, ETHMX_AM_HANDLERS - 1, ETHMX_AM_HEADER_MAX);
        return ETHMX_ERR_PARAM;
    }
    return start_send(ep, peer, &a);
}

static inline int start_recv(struct ethmx_ep *ep, struct ethmx_peer *peer, const struct emx_op_args *a,
                             struct ethmx_req **req_p, struct ethmx_result *result_p)
{
    struct emx_op *op = NULL;
    int rc;

    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    rc = emx_progress_recv(&ep->progress, emx_peer_in(peer), a, &op, result_p);
    if (rc == ETHMX_INPROGRESS && req_p)
        *req_p = (struct ethmx_req *)op;
    op_note_started(ep, a, rc);
    emx_ep_leave(ep);
    return rc;
}

int ethmx_irecv(struct ethmx_ep *ep, struct ethmx_peer *peer, uint64_t bits, uint64_t mask,
                const struct ethmx_data *data, ethmx_done_fn done, void *arg, struct ethmx_req **req_p,
                struct ethmx_result *result_p)
{
    const struct emx_op_args a = {.bits = bits, .mask = mask, .data = emx_data_same(data), .done = done, .arg = arg};

    return start_recv(ep, peer, &a, req_p, result_p);
}

int ethmx_irecv_untagged(struct ethmx_ep *ep, struct ethmx_peer *peer, const struct ethmx_data *data,
                         ethmx_done_fn done, void *arg, struct ethmx_req **req_p, struct ethmx_result *result_p)
{
    const struct emx_op_args a = {
        .mask = UINT64_MAX, .data = emx_data_same(data), .kind = EMX_KIND_UNTAGGED, .done = done, .arg = arg};

    return start_recv(ep, peer, &a, req_p, result_p);
}

int ethmx_cancel(struct ethmx_ep *ep, struct ethmx_req *req)
{
    int rc;

    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    rc = emx_engine_cancel(ep->progress.engine, (struct emx_op *)req);
    emx_ep_leave(ep);
    return rc;
}

int ethmx_iprobe(struct ethmx_ep *ep, struct ethmx_peer *peer, uint64_t bits, uint64_t mask,
                 struct ethmx_result *result_p)
{
    return ethmx_probe_remote(ep, peer, bits, mask, NULL, result_p, NULL);
}

int ethmx_improbe(struct ethmx_ep *ep, struct ethmx_peer *peer, uint64_t bits, uint64_t mask,
                  struct ethmx_message **msg_p, struct ethmx_result *result_p)
{
    return ethmx_probe_remote(ep, peer, bits, mask, msg_p, result_p, NULL);
}

struct ethmx_remote ethmx_req_remote(const struct ethmx_req *req)
{
    return emx_op_remote((const struct emx_op *)req);
}

static int op_probe(struct ethmx_ep *ep, struct ethmx_peer *peer, const struct emx_op_args *a,
                    struct ethmx_message **msg_p, struct ethmx_result *result_p, struct ethmx_remote *remote_p)
{
    struct emx_unexpected *msg = NULL;
    int rc;

    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    rc = emx_engine_probe(ep->progress.engine, emx_peer_in(peer), a, msg_p ? &msg : NULL, result_p, remote_p);
    if (rc == ETHMX_ERR_NO_MATCH)
        emx_wait_policy_probe(&ep->wait_policy);
    emx_ep_leave(ep);
    if (!rc && msg_p)
        *msg_p = (struct ethmx_message *)msg;
    return rc;
}

int ethmx_probe_remote(struct ethmx_ep *ep, struct ethmx_peer *peer, uint64_t bits, uint64_t mask,
                       struct ethmx_message **msg_p, struct ethmx_result *result_p, struct ethmx_remote *remote_p)
{
    const struct emx_op_args a = {.bits = bits, .mask = mask};

    return op_probe(ep, peer, &a, msg_p, result_p, remote_p);
}

int ethmx_probe_untagged(struct ethmx_ep *ep, struct ethmx_peer *peer, struct ethmx_message **msg_p,
                         struct ethmx_result *result_p, struct ethmx_remote *remote_p)
{
    const struct emx_op_args a = {.mask = UINT64_MAX, .kind = EMX_KIND_UNTAGGED};

    return op_probe(ep, peer, &a, msg_p, result_p, remote_p);
}

int ethmx_imrecv(struct ethmx_ep *ep, struct ethmx_message *message, const struct ethmx_data *data, ethmx_done_fn done,
                 void *arg, struct ethmx_result *result_p)
{
    const struct emx_op_args a = {.data = *data, .done = done, .arg = arg};
    struct emx_unexpected *msg = (struct emx_unexpected *)message;
    emx_time now;
    int rc;

    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    if (msg == ep->am_message)
        ep->am_message = NULL;
    now = emx_clock_now(&ep->progress.clock);
    rc = emx_engine_mrecv(ep->progress.engine, msg, &a, result_p, now);
    emx_progress_flush(&ep->progress, now);
    op_note_started(ep, &a, rc);
    emx_ep_leave(ep);
    return rc;
}

void ethmx_match_ignore(struct ethmx_ep *ep, uint64_t bits)
{
    if (!emx_ep_enter(ep))
        return;
    emx_engine_match_ignore(ep->progress.engine, bits);
    emx_ep_leave(ep);
}

unsigned ethmx_flush_unexpected(struct ethmx_ep *ep, uint64_t bits, uint64_t mask)
{
    emx_time now;
    unsigned n;

    if (!emx_ep_enter(ep))
        return 0;
    now = emx_clock_now(&ep->progress.clock);
    n = emx_engine_flush_unexpected(ep->progress.engine, bits, mask, now);
    emx_progress_flush(&ep->progress, now);
    emx_ep_leave(ep);
    return n;
}
