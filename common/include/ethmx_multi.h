/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Multi-receives: a buffer that takes many messages, one behind the other. Part of the interface of libethmx; ethmx.h
 * has the rules for threads, callbacks and errors.
 *
 * A multi-receive matches as a receive does, by the order in which receives were posted, and stays posted until less
 * than min_bytes of its buffer are free. So of two with the same arguments, the second takes a message only when the
 * first takes none any more. Each message lies directly behind the one before. One that is longer than the rest of the
 * buffer is cut (ETHMX_ERR_TRUNCATED).
 */
#ifndef ETHMX_MULTI_H
#define ETHMX_MULTI_H

#include "ethmx.h"
#include "ethmx_remote.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct ethmx_multi {
    unsigned struct_bytes;
    void *base;
    size_t len_bytes;
    size_t min_bytes; /* with less free memory the buffer is given back. 0: only when it is full */
    bool untagged;    /* it takes untagged messages (ethmx_untagged.h), and bits and mask mean nothing */
};

struct ethmx_multi_result {
    struct ethmx_result message;
    struct ethmx_remote remote; /* of the message */
    void *base;                 /* where the message lies; NULL: this is no message */
    bool last;                  /* the buffer belongs to the program again; nothing follows */
};

/* Called for each message that is complete; large ones may be behind later ones. The last call is that of the message
 * that was complete last, or it has no message but a status: ETHMX_ERR_CANCELED, or why the peer can send no more. */
typedef void (*ethmx_multi_fn)(void *arg, const struct ethmx_multi_result *result);

/* Posts a multi-receive. ETHMX_INPROGRESS: fn will be called, never within this call; *req_p (may be NULL) can be given
 * to ethmx_cancel() until the last call: then it takes no message any more, those that have begun become complete, and
 * the last call has ETHMX_ERR_CANCELED. If memory runs out while it takes messages that have arrived before, the buffer
 * is given back early. Errors: as ethmx_irecv(), ETHMX_ERR_PARAM (struct_bytes), ETHMX_ERR_VERSION (a field that the
 * library does not have is set). */
int ethmx_irecv_multi(struct ethmx_ep *ep, struct ethmx_peer *peer, uint64_t bits, uint64_t mask,
                      const struct ethmx_multi *multi, ethmx_multi_fn fn, void *arg, struct ethmx_req **req_p);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
