/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Multi-receives: an operation for the whole buffer, which stays posted, and one for each message in it, its *part*.
 *
 * The fast path leaves messages for them to the general path: only that knows the length of a message before it looks
 * for the receive, and only the length says where the next message begins.
 */
#ifndef EMX_CORE_MULTI_H
#define EMX_CORE_MULTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/msg/op.h"
#include "ethmx_multi.h"

/* ---- For programs ---- */

/* Posts a multi-receive. a: of the whole buffer; its arg becomes the operation that completes. */
struct emx_multi_args {
    size_t min_bytes;
    ethmx_multi_fn fn;
    void *arg, *owner; /* as the caller likes */
};
int emx_engine_recv_multi(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *a,
                          const struct emx_multi_args *m, struct emx_op **op_p, emx_time now);
const struct emx_multi_args *emx_engine_multi_args(const struct emx_op *op);
/* The result of one of its operations is about to be delivered. *base_p: where the message lies; NULL: it is none.
 * true: it is the last; call emx_engine_multi_over() when it is delivered, and only then free the operation. */
bool emx_engine_multi_deliver(struct emx_engine *e, struct emx_op *op, void **base_p);
void emx_engine_multi_over(struct emx_engine *e, struct emx_op *op);

/* ---- For those who find receives ---- */

struct emx_multi {
    struct emx_multi_args args;
    struct emx_op *whole;
    size_t used_bytes;
    uint64_t parts; /* whose results the program has not taken */
    int status;     /* after its end: that of the last call; ETHMX_OK: the last part is the last call */
};

/* Makes the operation for the whole buffer, which is not posted yet. NULL: no memory. */
struct emx_op *emx_multi_new(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *a,
                             const struct emx_multi_args *m, emx_time now);
void emx_multi_free(struct emx_engine *e, struct emx_op *whole);
void emx_multi_post(struct emx_engine *e, struct emx_op *whole);
/* It takes no message any more, and gives the buffer back with its last part, or, if it has none, with this status. */
void emx_multi_end(struct emx_engine *e, struct emx_op *whole, int status);

/* An operation for a message of this length. NULL: no memory. */
struct emx_op *emx_multi_part(struct emx_engine *e, struct emx_op *whole, size_t len_bytes, emx_time now);
void emx_multi_unpart(struct emx_engine *e, struct emx_op *part); /* the message was not taken */
bool emx_multi_is_full(const struct emx_op *whole);

struct emx_op *emx_multi_match(struct emx_engine *e, enum emx_space space, uint64_t bits, struct emx_peer *p,
                               size_t len_bytes);

/* A message of this length has arrived: as emx_op_match(), for multi-receives as well. After emx_multi_reserve(). */
static inline struct emx_op *emx_multi_or_match(struct emx_engine *e, enum emx_space space, uint64_t bits,
                                                struct emx_peer *p, size_t len_bytes)
{
    struct emx_op *op = e->match[space].multi_count ? emx_multi_match(e, space, bits, p, len_bytes) : NULL;

    return op ? op : emx_op_match(e, space, bits, p);
}

/* So that the next emx_multi_or_match() does not fail. false: no memory. */
static inline bool emx_multi_reserve(struct emx_engine *e, enum emx_space space)
{
    return !e->match[space].multi_count || !emx_pool_reserve(&e->ops);
}

#endif
