/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations: the program of one endpoint, the *origin*, uses memory that another one, the *target*, has
 * exposed. The target's engine does it when the frame arrives; its program takes no part.
 *
 * Requests and replies are sequenced frames, so each is handled exactly once and in order, and nothing has to remember
 * what was done. A long put or get is announced instead (rma_put_rts, rma_get_rts), and the side that the data goes to
 * pulls it as it pulls a message (msg/pull.c): with the same pace, and in its place. Within a node it reads the data
 * from the other process's memory (msg/read.c).
 *
 * Bounds. An origin has at most EMX_RMA_OPEN_MAX operations at a target for which no reply has arrived; further ones
 * wait here, in order. So replies that cannot leave, and long operations, need little memory at a target. A target
 * drops what exceeds the bound. Replies wait for nothing but the window, which the other side's engine opens: there is
 * no deadlock.
 *
 * rma_record.c has the origin's records and flushes, rma_origin.c its operations, rma_target.c what targets do,
 * rma_direct.c and rma_fast.c the short ways, rma_local.c memory that needs no frames, rma_region.c the regions,
 * rma_apply.c and rma_atomic.c the arithmetic.
 */
#ifndef EMX_CORE_RMA_H
#define EMX_CORE_RMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/pool.h"
#include "base/view.h"
#include "core/engine.h"
#include "core/format/rma_frame.h"
#include "core/time.h"
#include "ethmx_rma.h"

struct emx_op;
struct emx_rma_region; /* public as struct ethmx_region */
struct emx_session;
struct emx_txbuf;

enum emx_rma_kind {
    EMX_RMA_PUT,
    EMX_RMA_GET,
    EMX_RMA_ACCUMULATE,
    EMX_RMA_FETCH_OP,
    EMX_RMA_COMPARE_SWAP,
    EMX_RMA_FLUSH, /* complete when all before it are */
    EMX_RMA_SERVE, /* at the target: a long put or get of a peer */
};

/* ---- For the endpoint; results as the functions of ethmx_rma.h ---- */

struct emx_rma_args {
    enum emx_rma_kind kind; /* up to EMX_RMA_COMPARE_SWAP */
    enum ethmx_rma_op op;
    enum ethmx_rma_type type;
    uint64_t key, offset;
    struct ethmx_data data;    /* of put and accumulate; otherwise where the result goes */
    const void *operand;       /* of fetch */
    const void *compare, *set; /* of compare and swap */
    enum ethmx_rma_mode mode;  /* of put and accumulate */
    ethmx_done_fn done;
    void *arg;
};

/* key: not 0. ETHMX_ERR_PARAM: another region has it. access: ETHMX_RMA_MAY_* */
int emx_engine_expose(struct emx_engine *e, void *base, size_t len_bytes, uint64_t key, unsigned access,
                      struct emx_rma_region **region_p);
/* Other processes can map the memory of the region, and that of those that are exposed later and overlap it. *sharing
 * outlives these regions. */
void emx_engine_region_share(struct emx_engine *e, struct emx_rma_region *region, struct emx_sharing *sharing);
/* ETHMX_ERR_BUSY: progress is reading a peer's data into it; when such reads have ended (emx_progress_end_reads()),
 * call again. New operations do not find it from the first call on. */
int emx_engine_withdraw(struct emx_engine *e, struct emx_rma_region *region, emx_time now);
/* Whether a frame to the peer may leave at once, over this link. */
bool emx_engine_rma_direct(const struct emx_peer *peer, unsigned *link_p);
/* f: NULL, or it gets the operation's frame if that leaves at once: the wire must take it. Without one f->to is NULL.
 */
int emx_engine_rma(struct emx_engine *e, struct emx_peer *peer, const struct emx_rma_args *a, struct emx_txframe *f,
                   emx_time now);
/* Whether memory of the peer may be used: it is connected, and nothing is open there. Over this link, at to. */
bool emx_engine_rma_is_idle(const struct emx_peer *peer, unsigned *link_p, const struct emx_wire_addr **to_p);
/* Does it in that memory, instead of emx_engine_rma(). false: not possible; nothing was done. */
bool emx_engine_rma_view(struct emx_engine *e, const struct emx_rma_args *a, struct emx_view *view);
int emx_engine_rma_flush(struct emx_engine *e, struct emx_peer *peer, ethmx_done_fn done, void *arg, emx_time now);

#define EMX_RMA_MAY_BOTH (ETHMX_RMA_MAY_READ | ETHMX_RMA_MAY_WRITE)

/* Whether the frame, if it is one of a session, can be a request for emx_engine_rma_request(), or a reply for
 * emx_engine_rma_reply(). */
static inline bool emx_engine_rma_is_request(const uint8_t *data)
{
    return (data[1] == EMX_F_rma_atomic || data[1] == EMX_F_rma_get) && data[0] != EMX_FRAME_V_SHORT;
}
static inline bool emx_engine_rma_is_reply(const uint8_t *data)
{
    return data[1] == EMX_F_rma_reply && data[0] != EMX_FRAME_V_SHORT;
}
/* The fast path of such a frame, of at least two bytes. false, NULL: nothing was done, and emx_engine_input() must
 * handle it. request: the wire must take f, unless f->to is NULL. reply: the operation is complete, and belongs to the
 * caller, as that of emx_engine_input_compact(). */
bool emx_engine_rma_request(struct emx_engine *e, unsigned link, const uint8_t *data, uint32_t len_bytes,
                            struct emx_txframe *f, emx_time now);
struct emx_op *emx_engine_rma_reply(struct emx_engine *e, unsigned link, const uint8_t *data, uint32_t len_bytes,
                                    emx_time now);

/* ---- Structures ---- */

/* An operation that is not complete at its target, or a flush. */
struct emx_rma {
    struct emx_list open;        /* in emx_rma_peer.open; served: in emx_rma_region.served; otherwise in no list */
    struct emx_list all;         /* in emx_rma_engine.all; served, and flushes of one peer: in no list */
    struct emx_session *session; /* NULL: a flush of all peers */
    struct emx_op *op;           /* NULL: it is complete here */
    uint32_t id;                 /* if it has one; served: the origin's */
    uint8_t kind;                /* enum emx_rma_kind */
    uint8_t action, type;        /* enum ethmx_rma_op, ethmx_rma_type */
    bool has_id, local;          /* local: complete when it is sent */
    uint64_t key, offset, len_bytes;
    const void *operand;
    uint8_t swap[16]; /* the value to compare with, the value to set */
};

/* In a session, from the first operation on. */
struct emx_rma_peer {
    struct emx_list open;                   /* operations and flushes, oldest first */
    struct emx_list held;                   /* emx_op.link: operations that wait for an id */
    struct emx_rma *slot[EMX_RMA_OPEN_MAX]; /* those with an id, by id mod EMX_RMA_OPEN_MAX */
    unsigned ids;
    uint32_t next_id;
    int error; /* the first of operations that were complete here, since the last flush; or ETHMX_OK */

    /* this side is the target */
    unsigned owed;            /* operations whose reply has not entered the window */
    unsigned serving;         /* long ones under way */
    struct emx_txbuf *done;   /* a reply that has not entered the window, and takes more; NULL: none */
    bool answering;           /* the reply with data is to go to answer, and leaves at once */
    struct emx_txbuf *answer; /* NULL: none */
};

/* In an engine, from the first operation or region on. */
struct emx_rma_engine {
    struct emx_pool records;
    struct emx_list all; /* operations with all peers, and flushes of all, oldest first */
    int error;           /* as emx_rma_peer.error, of all peers */
    struct emx_list *bucket;
    unsigned bucket_mask, region_count;
    unsigned shared_count; /* regions with emx_rma_region.sharing */
};

/* ---- For the engine ---- */

/* Moves an operation of the backlog into the window as far as there is room. false: it must wait. */
bool emx_rma_advance(struct emx_session *s, struct emx_op *op);
/* A frame of session.tx.control enters the window. */
void emx_rma_pushed(struct emx_session *s, const struct emx_txbuf *b);
/* As emx_upcalls.rma_ended. */
void emx_rma_ended(struct emx_engine *e, struct emx_op *op, int status);
/* The session ends; its operations have been completed. */
void emx_rma_stop(struct emx_session *s, int status);
void emx_rma_fini(struct emx_engine *e);
/* As emx_engine_check(), for a session and for the engine. */
const char *emx_rma_check_session(const struct emx_session *s);
const char *emx_rma_check(const struct emx_engine *e);

/* A reply with data waits for the window. */
void emx_rma_reply_later(struct emx_session *s, struct emx_txbuf *b);
/* The operation whose data is in this reply, which has it now. NULL: the reply is wrong, or for none. */
struct emx_op *emx_rma_answered(struct emx_session *s, const uint8_t *data);

enum emx_drop emx_rma_input_put(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rma_input_get(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rma_input_atomic(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rma_input_put_rts(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rma_input_get_rts(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rma_input_reply(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rma_input_done(struct emx_session *s, const uint8_t *data, emx_time now);

#endif
