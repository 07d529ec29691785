/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations: sends and receives in progress.
 */
#ifndef EMX_CORE_OP_H
#define EMX_CORE_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/list.h"
#include "core/engine.h"
#include "core/msg/match.h"
#include "core/peer.h"

struct emx_exported;
struct emx_multi;
struct emx_rma;
struct emx_rndv;
struct emx_session;

enum emx_op_where {
    EMX_OP_FREE,
    EMX_OP_BACKLOG,    /* send: waits for the connection, the window or credit */
    EMX_OP_ANNOUNCED,  /* send: rts sent, data being pulled */
    EMX_OP_MATCHING,   /* send: synchronous eager message sent, not yet matched; or a message to self */
    EMX_OP_POSTED,     /* receive: waits for a message */
    EMX_OP_COLLECTING, /* multi-receive: waits for messages */
    EMX_OP_FILLING,    /* receive: an eager message is arriving */
    EMX_OP_PULLING,    /* receive: pulls a large message */
    EMX_OP_REMOTE,     /* one-sided: sent, the target has not replied; or a flush */
    EMX_OP_QUIESCING,  /* has ended, and completes when no device accesses its memory any more */
    EMX_OP_DONE,       /* in the engine's list of completed operations */
};

struct emx_op {
    struct emx_posted match;   /* receives; first member */
    struct emx_list link;      /* in a backlog or the completed list */
    struct emx_list peer_link; /* in peer.ops while it fails with that peer */
    struct ethmx_data data;
    ethmx_done_fn done;
    void *arg;
    struct emx_peer *peer;         /* sends: to; receives: from, once known */
    struct emx_rndv *rndv;         /* receives by rendezvous */
    struct emx_exported *exported; /* sends that devices read or write, receives that they write; else NULL */
    uint8_t where;                 /* enum emx_op_where */
    bool is_send, is_am, sync;
    bool has_remote;   /* receives: the message had remote data */
    bool gso;          /* sends: its frames are marked for a GSO packet */
    bool eager;        /* sends: credit was taken, frames are being made */
    bool counted_wait; /* counted in session.awaits */
    uint8_t space;     /* enum emx_space: sends, posted receives */
    bool matched;      /* synchronous sends: the first frame is matched, the others wait for the window */
    uint8_t reading;   /* reads in progress at a device; sends: writes */
    bool asked;        /* announced sends: the peer has requested data */
    uint16_t am_header_bytes;
    uint16_t chunk_bytes; /* announced by the sender */
    uint32_t id;          /* in the engine's table; 0: none */
    int status;
    uint64_t bits;    /* of the message */
    size_t len_bytes; /* result */
    size_t msg_bytes; /* result; sends: total to send without header */
    union {
        size_t sent_bytes; /* sends: eager progress, header included */
        uint64_t remote;   /* receives: the message's remote data, if has_remote */
    };
    union {
        uint8_t *am_header;  /* if am_header_bytes: an owned copy */
        struct emx_rma *rma; /* otherwise: a one-sided operation's record; NULL: none */
    };
    struct emx_multi *multi; /* of multi-receives and their parts only */
};

static inline bool emx_op_is_rma(const struct emx_op *op)
{
    return op->rma && !op->am_header_bytes;
}

/* The flags in frames of a message, by its kind. */
static inline uint16_t emx_op_args_flags(const struct emx_op_args *a)
{
    static const uint16_t flags[] = {
        [EMX_KIND_AM] = EMX_FF_AM, [EMX_KIND_REMOTE] = EMX_FF_REMOTE, [EMX_KIND_UNTAGGED] = EMX_FF_UNTAGGED};

    return flags[a->kind] | (a->kind == EMX_KIND_UNTAGGED && a->am_header_bytes ? EMX_FF_REMOTE : 0);
}

static inline uint16_t emx_op_flags(const struct emx_op *op)
{
    return op->is_am ? EMX_FF_AM
                     : (op->space == EMX_UNTAGGED ? EMX_FF_UNTAGGED : 0) | (op->am_header_bytes ? EMX_FF_REMOTE : 0);
}

static inline enum emx_space emx_op_args_space(const struct emx_op_args *a)
{
    return a->kind == EMX_KIND_UNTAGGED ? EMX_UNTAGGED : EMX_TAGGED;
}

/* By the flags in its frame. */
static inline enum emx_space emx_flags_space(unsigned flags)
{
    return flags & EMX_FF_UNTAGGED ? EMX_UNTAGGED : EMX_TAGGED;
}

/* The receive has met a message with this header. */
static inline void emx_op_set_remote(struct emx_op *op, const void *header)
{
    memcpy(&op->remote, header, sizeof(op->remote));
    op->has_remote = true;
}

struct emx_op *emx_op_new(struct emx_engine *e, const struct emx_op_args *a, emx_time now); /* NULL: no memory */
struct emx_op *emx_op_new_send(struct emx_engine *e, struct emx_peer *p, const struct emx_op_args *a, emx_time now);
void emx_op_queue(struct emx_session *s, struct emx_op *op); /* queues a send that waits for room in the window */
struct emx_op *emx_op_by_id(struct emx_engine *e, uint32_t id, const struct emx_session *s);
bool emx_op_take_id(struct emx_engine *e, struct emx_op *op);
bool emx_op_reserve_id(struct emx_engine *e); /* so that the next emx_op_take_id() succeeds */
void emx_op_drop_id(struct emx_engine *e, struct emx_op *op);
/* The operation has ended with this status, but devices still access its memory. */
void emx_op_hold(struct emx_engine *e, struct emx_op *op, int status);
void emx_op_await(struct emx_op *op); /* a send waits for the peer's program */
/* A receive waits for the rest of a message of p. */
void emx_op_expect(struct emx_engine *e, struct emx_op *op, struct emx_peer *p);
void emx_op_complete(struct emx_engine *e, struct emx_op *op, int status);
void emx_op_end(struct emx_engine *e, struct emx_op *op, int status); /* the same, and the caller delivers it */
void emx_op_discard(struct emx_engine *e, struct emx_op *op); /* it has just completed, and nobody takes its result */
void emx_op_received(struct emx_engine *e, struct emx_op *op, uint64_t msg_bytes); /* sets the status by length */
void emx_op_recycle(struct emx_engine *e, struct emx_op *op);
/* A message has arrived. NULL: no receive takes it, or a multi-receive does. */
struct emx_op *emx_op_match(struct emx_engine *e, enum emx_space space, uint64_t bits, struct emx_peer *p);
void emx_op_unpost(struct emx_engine *e, struct emx_op *op); /* counts that it is not posted any more */

/* Makes the operation fail when the peer does. */
static inline void emx_op_depend(struct emx_engine *e, struct emx_op *op, struct emx_peer *p)
{
    op->peer = p;
    if (!emx_list_linked(&op->peer_link))
        emx_list_append(&p->ops, &op->peer_link);
    emx_peer_watch(e, p);
}

#endif
