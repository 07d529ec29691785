/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Untagged messages: they have no match bits, and only receives of untagged messages take them, whatever the bits of
 * others. Part of the interface of libethmx; ethmx.h has the rules for threads, callbacks and errors.
 *
 * The bits of their results are 0. ethmx_match_ignore() and ethmx_flush_unexpected() do not concern them;
 * ethmx_cancel(), ethmx_imrecv() and ethmx_req_remote() do. ethmx_multi.h has multi-receives of them.
 */
#ifndef ETHMX_UNTAGGED_H
#define ETHMX_UNTAGGED_H

#include "ethmx.h"
#include "ethmx_remote.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* As ethmx_isend(), without bits. remote: 64 bits of remote data, copied; NULL: none. */
int ethmx_isend_untagged(struct ethmx_ep *ep, struct ethmx_peer *peer, const uint64_t *remote,
                         const struct ethmx_data *data, enum ethmx_send_mode mode, ethmx_done_fn done, void *arg);

/* As ethmx_irecv(), for an untagged message. */
int ethmx_irecv_untagged(struct ethmx_ep *ep, struct ethmx_peer *peer, const struct ethmx_data *data,
                         ethmx_done_fn done, void *arg, struct ethmx_req **req_p, struct ethmx_result *result_p);

/* As ethmx_probe_remote(), for an untagged message. remote_p may be NULL. */
int ethmx_probe_untagged(struct ethmx_ep *ep, struct ethmx_peer *peer, struct ethmx_message **msg_p,
                         struct ethmx_result *result_p, struct ethmx_remote *remote_p);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
