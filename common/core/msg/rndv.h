/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rendezvous: large messages, pulled by the receiver. rndv_send.c has the sender's part, rndv_recv.c the receiver's,
 * pull.c the blocks that are asked for.
 */
#ifndef EMX_CORE_RNDV_H
#define EMX_CORE_RNDV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "core/engine.h"
#include "core/format/frame.h"
#include "core/rel/rtt.h"
#include "core/time.h"

struct emx_op;
struct emx_scratch;
struct emx_session;
struct emx_txbuf;
struct emx_unexpected;

#define EMX_BLOCKS            16   /* blocks of one message under way */
#define EMX_PULL_REQUESTS_MAX 4096 /* pulled blocks queued to one peer; more are left to the puller's timer */

/* A block that was asked for. */
struct emx_block {
    uint64_t first;   /* index of the first chunk */
    uint64_t missing; /* bit i: chunk first+i has not arrived */
    uint64_t asked;   /* as missing when last asked */
    emx_time asked_ns;
    uint16_t round;
    bool due;  /* a pull frame is to be sent */
    bool late; /* the sender was away meanwhile */
};

/* What had arrived of a message when its chunks became shorter. */
struct emx_received_map {
    struct emx_received_map *next; /* when they did so before */
    uint64_t next_chunk;           /* those before it have, except for what is missing of blocks */
    uint16_t chunk_bytes;
    unsigned active;
    struct {
        uint64_t first, missing;
    } block[EMX_BLOCKS];
};

/* The receiving side of a rendezvous. */
struct emx_rndv {
    struct emx_list wait;   /* in engine.pull_wait while it may ask for more, or in engine.reads */
    struct emx_list asking; /* in engine.asking while blocks of it count in engine.pulling_bytes */
    struct emx_list due;    /* in session.pulling.pulls while a pull frame is to be sent */
    struct emx_timer timer; /* nothing has arrived for too long */
    struct emx_op *op;
    uint32_t sender_op;
    uint16_t chunk_bytes;
    uint16_t backoff;
    uint64_t want_bytes; /* the message, or what fits the receive buffer */
    uint64_t chunks;     /* of want_bytes */
    uint64_t next_chunk; /* first that was never asked for */
    uint64_t got_chunks;
    emx_time last_ns;             /* when something last arrived */
    uint64_t last_pulled_bytes;   /* engine.pulled_bytes at that time */
    bool away;                    /* its sender was silent for too long: its blocks count in engine.away_bytes */
    bool reading;                 /* from the sender's memory, without blocks */
    bool in_hand;                 /* the wire's: others may be writing to the program's memory */
    int8_t ends;                  /* then: the peer has failed meanwhile, with this enum ethmx_status; 0: it has not */
    uint64_t remote;              /* where the message begins there */
    uint64_t read_bytes;          /* so far */
    bool by_put;                  /* in its place: the sender's device writes, see rdma_put.c */
    bool by_get;                  /* reading, by a device, see rdma_get.c: */
    bool asked;                   /* for the next key */
    bool broken;                  /* a read or write has failed, others are under way */
    bool last;                    /* those under way are */
    uint8_t tries;                /* that failed */
    uint64_t key;                 /* for what lies between started_bytes */
    uint64_t lent_bytes;          /* and this; what is requested to be written ends here */
    uint64_t started_bytes;       /* reads end here that the device has done, or is at */
    struct emx_txbuf *fin;        /* made beforehand, or NULL */
    struct emx_received_map *had; /* with longer chunks; NULL: nothing */
    uint8_t shortened;            /* so many times */
    unsigned active;
    struct emx_block block[EMX_BLOCKS]; /* the first `active` are in use, oldest first */
};

/* Chunks of a message that the peer has asked for. */
struct emx_pull_request {
    struct emx_list link;
    struct emx_op *op;
    uint64_t first, wanted;
    uint32_t rop;
    uint16_t round, chunk_bytes;
    bool gso; /* goes in GSO packets */
};

/* Of a session: what the peer has asked us for. */
struct emx_rndv_tx {
    struct emx_list requests;
    unsigned request_count;
};

/* Of a session: what we ask the peer for. */
struct emx_rndv_rx {
    struct emx_list pulls;    /* rndv.due: pull frames to send */
    struct emx_rtt block_rtt; /* from asking for a block until it is whole */
    emx_time way_ns;          /* the shortest from asking until the first of it came (pace.h) */
    emx_time data_ns;         /* when the last of it came */
    unsigned away;            /* messages that are (emx_rndv.away) */
};

void emx_rndv_open(struct emx_session *s);       /* it begins */
void emx_rndv_unmeasured(struct emx_session *s); /* no answer has come over its new route yet */
bool emx_rndv_announce(struct emx_session *s, struct emx_op *op, bool starved); /* false: no memory */
enum emx_drop emx_rndv_input_rts(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rndv_input_fin(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rndv_input_pull(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rndv_input_data(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rndv_input_shorter(struct emx_session *s, const uint8_t *data, emx_time now);
/* A receive takes an announced message; frees the unexpected message. NO_MEMORY: nothing has happened. */
int emx_rndv_receive(struct emx_engine *e, struct emx_unexpected *a, struct emx_op *op, emx_time now);
int emx_rndv_refuse(struct emx_session *s, uint32_t sender_op); /* fin without pulling */
bool emx_rndv_output_pull(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, emx_time now);
bool emx_rndv_output_data(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, unsigned i);
void emx_rndv_more(struct emx_engine *e, emx_time now); /* hands out the pull window */
void emx_rndv_expire(struct emx_rndv *r, emx_time now);
void emx_rndv_look(struct emx_engine *e, emx_time now);         /* for senders that are away */
void emx_rndv_drop(struct emx_engine *e, struct emx_op *op);    /* gives up a pull; no read of it is in hand */
void emx_rndv_finish(struct emx_session *s, struct emx_op *op); /* all is there */
/* Begins to pull what follows the first got_bytes. */
void emx_rndv_pull_rest(struct emx_engine *e, struct emx_rndv *r, uint64_t got_bytes, emx_time now);
void emx_rndv_forget_pull_requests(struct emx_session *s, const struct emx_op *op /* NULL: all */);

static inline uint64_t emx_rndv_chunks(uint64_t bytes, uint16_t chunk_bytes)
{
    return (bytes + chunk_bytes - 1) / chunk_bytes;
}

static inline unsigned emx_rndv_highest_bit(uint64_t map)
{
    return 63u - (unsigned)__builtin_clzll(map);
}

/* The fin of a message; NULL: no memory. */
struct emx_txbuf *emx_rndv_make_fin(struct emx_session *s, uint32_t sender_op, uint64_t pulled_bytes);

#endif
