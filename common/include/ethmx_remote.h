/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote data: 64 bits that travel with a tagged message and take no part in matching. Part of the interface of
 * libethmx; ethmx.h has the rules for threads, callbacks and errors.
 *
 * A message with remote data matches as others do, and any receive may take it. Messages without it are not longer for
 * that. A receive that takes one with remote data never completes in the call: its callback runs.
 */
#ifndef ETHMX_REMOTE_H
#define ETHMX_REMOTE_H

#include "ethmx.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct ethmx_remote {
    bool present; /* false: the message has none */
    uint64_t data;
};

/* As ethmx_isend(), with remote data. */
int ethmx_isend_remote(struct ethmx_ep *ep, struct ethmx_peer *peer, uint64_t bits, uint64_t remote,
                       const struct ethmx_data *data, enum ethmx_send_mode mode, ethmx_done_fn done, void *arg);

/* The remote data of the message that a receive has taken. Only in the callback of ethmx_irecv(). */
struct ethmx_remote ethmx_req_remote(const struct ethmx_req *req);

/* As ethmx_improbe(), or, if msg_p is NULL, ethmx_iprobe(). *remote_p: the message's remote data. */
int ethmx_probe_remote(struct ethmx_ep *ep, struct ethmx_peer *peer, uint64_t bits, uint64_t mask,
                       struct ethmx_message **msg_p, struct ethmx_result *result_p, struct ethmx_remote *remote_p);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
