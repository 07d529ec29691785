/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rendezvous: large messages, pulled by the receiver. rndv_send.c has the sender's part, rndv_recv.c the receiver's,
 * pull.c the requested blocks.
 */
#ifndef EMX_CORE_RNDV_H
#define EMX_CORE_RNDV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "core/cc/reo_window.h"
#include "core/engine.h"
#include "core/format/frame.h"
#include "core/rel/rtt.h"
#include "core/time.h"

struct emx_op;
struct emx_rail;
struct emx_scratch;
struct emx_session;
struct emx_txbuf;
struct emx_unexpected;

#define EMX_BLOCKS            128 /* requested blocks of one message, */
#define EMX_BLOCKS_OWN        16  /* so many have room in the message itself */
#define EMX_RNDV_HEAD_BYTES   (sizeof(struct emx_frame) + sizeof(struct emx_f_data)) /* of a frame with a chunk */
#define EMX_PULL_REQUESTS_MAX 4096 /* blocks queued for one peer; further ones are left to the puller's timer */

/* A requested block. */
struct emx_block {
    uint64_t first;
    uint64_t missing; /* bit i: chunk first+i has not arrived */
    uint64_t asked;   /* by the last request: all that was missing, or, after a time-out, one chunk */
    emx_time asked_ns;
    uint32_t ahead_bytes; /* requested over the rail at the time of the first request, this block included */
    uint8_t round;
    uint8_t rail : 4;      /* over which the data is to come */
    uint8_t left_rail : 4; /* over which it was to come, and nothing came in a time-out: its number + 1; 0: none */
    bool due : 1;          /* a pull frame is to be sent */
    bool late : 1;         /* the sender was away meanwhile */
    bool overtaken : 1;    /* data requested later has arrived */
    bool gap : 1;          /* was therefore requested again, and nothing has arrived since */
    bool pushed : 1;       /* comes with the announcement, and was not requested yet */
    bool timed_out : 1;    /* nothing has arrived for a time-out: one chunk of it was requested again, or is to be */
};
static_assert(sizeof(struct emx_block) == 40, "each message that is pulled has EMX_BLOCKS_OWN");

/* The parts of a message that had arrived when its chunks became shorter. */
struct emx_received_map {
    struct emx_received_map *next; /* the map of an earlier time */
    uint64_t next_chunk;           /* chunks before it have arrived, except for those missing in blocks */
    uint16_t chunk_bytes;
    unsigned active;
    struct {
        uint64_t first, missing;
    } block[];
};

/* The receiving side of a rendezvous. */
struct emx_rndv {
    struct emx_list wait;   /* in engine.pull_wait while it may request more, or in engine.reads */
    struct emx_list asking; /* in engine.asking while blocks of it count in engine.pulling_bytes */
    struct emx_list due;    /* in session.pulling.pulls while a pull frame is to be sent */
    struct emx_timer timer; /* nothing has arrived for too long */
    struct emx_op *op;
    uint32_t sender_op;
    uint16_t chunk_bytes;
    uint16_t backoff;
    uint16_t pushed;     /* so many of the first chunks are on their way when the message is matched */
    uint64_t want_bytes; /* the message, or what fits the receive buffer */
    uint64_t chunks;     /* of want_bytes */
    uint64_t next_chunk; /* first chunk never requested */
    uint64_t got_chunks;
    emx_time last_ns;             /* time of the last arrival */
    emx_time gap_ns;              /* then overtaken blocks are lost; EMX_NEVER: none is overtaken */
    uint64_t last_pulled_bytes;   /* engine.pulled_bytes at that time */
    bool away;                    /* the sender was silent for too long: the blocks count in engine.away_bytes */
    bool reading;                 /* from the sender's memory, without blocks */
    bool in_hand;                 /* a read at the wire: the program's memory may be written */
    int8_t ends;                  /* then: the peer has failed meanwhile, an enum ethmx_status; 0: no */
    uint64_t remote;              /* address of the message in the sender's process */
    uint64_t read_bytes;          /* so far */
    bool by_put;                  /* instead of reading: the sender's device writes, see rdma_put.c */
    bool by_get;                  /* reading by a device, see rdma_get.c */
    bool asked;                   /* the next key was requested */
    bool broken;                  /* a read or write has failed, others are in progress */
    bool last;                    /* no further reads or writes are started */
    uint8_t tries;                /* failed attempts */
    uint64_t key;                 /* for memory from started_bytes */
    uint64_t lent_bytes;          /* to here; puts: requested up to here */
    uint64_t started_bytes;       /* reads end here that the device has completed or begun */
    struct emx_txbuf *fin;        /* made beforehand, or NULL */
    struct emx_received_map *had; /* arrived in longer chunks; NULL: nothing */
    uint8_t shortened;            /* number of times */
    unsigned active;
    struct emx_block *block; /* the first `active` are in use, oldest first; own_block, or of engine.many_blocks */
    struct emx_block own_block[EMX_BLOCKS_OWN];
};

/* Chunks of a message that the peer has requested. */
struct emx_pull_request {
    struct emx_list link;
    struct emx_op *op;
    uint64_t first, wanted;
    uint32_t rop;
    uint16_t chunk_bytes;
    uint8_t round, rail;
    bool pushed; /* not requested: rop is the sender's own */
    bool gso;    /* goes in GSO packets, */
    bool tso;    /* in TSO packets */
};

/* In a session: requests of the peer. */
struct emx_rndv_tx {
    struct emx_list requests;
    unsigned request_count;
    uint32_t last_rop; /* of the last data frame */
};

/* In a session: requests to the peer. */
struct emx_rndv_rx {
    struct emx_list pulls;            /* rndv.due: pull frames to send */
    struct emx_rtt block_rtt;         /* from the request for a block until it is complete */
    emx_time way_ns;                  /* base time: shortest time from a request to its first data (pace.h) */
    emx_time data_ns;                 /* time of the last data */
    unsigned away;                    /* messages with emx_rndv.away */
    struct emx_reo_window reo_window; /* for gaps in the data */
};

void emx_rndv_open(struct emx_session *s);  /* the session begins */
void emx_rndv_moved(struct emx_session *s); /* it has a new route, over which no response was measured yet */
void emx_rndv_rail_lost(struct emx_session *s, unsigned rail);
bool emx_rndv_announce(struct emx_session *s, struct emx_op *op, bool starved); /* false: no memory */
enum emx_drop emx_rndv_input_rts(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rndv_input_fin(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rndv_input_pull(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rndv_input_data(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rndv_input_shorter(struct emx_session *s, const uint8_t *data, emx_time now);
/* A receive takes an announced message; frees the unexpected message. NO_MEMORY: nothing was changed. */
int emx_rndv_receive(struct emx_engine *e, struct emx_unexpected *a, struct emx_op *op, emx_time now);
/* Pulls op->data.len_bytes of the peer's announced operation into op, without a message, or reads them at this address
 * of its process (0: no). false: no memory. */
bool emx_rndv_pull(struct emx_session *s, struct emx_op *op, uint32_t sender_op, uint16_t chunk_bytes, uint64_t remote,
                   emx_time now);
uint16_t emx_rndv_chunk_bytes(const struct emx_session *s);     /* longest chunk that the route carries */
int emx_rndv_refuse(struct emx_session *s, uint32_t sender_op); /* fin without pulling */
bool emx_rndv_output_pull(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, emx_time now);
bool emx_rndv_output_data(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, unsigned i);
void emx_rndv_send_by_others(struct emx_session *s, unsigned rail); /* what the peer has requested over this rail */
bool emx_rndv_output_rail(struct emx_rail *k, struct emx_txframe *f, struct emx_scratch *scratch, unsigned i);
void emx_rndv_more(struct emx_engine *e, emx_time now); /* distributes the pull window */
void emx_rndv_expire(struct emx_rndv *r, emx_time now);
void emx_rndv_look(struct emx_engine *e, emx_time now);         /* checks senders that may be away */
void emx_rndv_drop(struct emx_engine *e, struct emx_op *op);    /* gives up a pull; no read of it is at the wire */
void emx_rndv_finish(struct emx_session *s, struct emx_op *op); /* all data has arrived */
/* Starts to pull what follows the first got_bytes. */
void emx_rndv_pull_rest(struct emx_engine *e, struct emx_rndv *r, uint64_t got_bytes, emx_time now);
void emx_rndv_forget_pull_requests(struct emx_session *s, const struct emx_op *op /* NULL: all */);

/* How many chunks are missing from this one on, in the block that has it, *b_p; 0: it has arrived or was not requested.
 */
static inline unsigned emx_rndv_missing(struct emx_rndv *r, uint64_t chunk, struct emx_block **b_p)
{
    for (unsigned i = 0; i < r->active; i++) {
        struct emx_block *b = &r->block[i];
        uint64_t bit = chunk - b->first, from;

        if (bit >= 64 || !((from = b->missing >> bit) & 1))
            continue;
        *b_p = b;
        return ~from ? (unsigned)__builtin_ctzll(~from) : 64;
    }
    return 0;
}

/* The message that is pulled and that the data is for; NULL: there is none. */
struct emx_rndv *emx_rndv_of_data(struct emx_session *s, const struct emx_f_data *f);

/* Whether n bytes from this chunk on are whole chunks of what is wanted of the message. */
bool emx_rndv_has_chunks(const struct emx_rndv *r, uint64_t chunk, size_t n);

static inline uint64_t emx_rndv_chunks(uint64_t bytes, uint16_t chunk_bytes)
{
    return (bytes + chunk_bytes - 1) / chunk_bytes;
}

/* A map of so many chunks, at most 64, without gaps. */
static inline uint64_t emx_rndv_map(uint64_t chunks)
{
    return chunks == 64 ? UINT64_MAX : (UINT64_C(1) << chunks) - 1;
}

static inline unsigned emx_rndv_highest_bit(uint64_t map)
{
    return 63u - (unsigned)__builtin_clzll(map);
}

/* The fin of a message; NULL: no memory. */
struct emx_txbuf *emx_rndv_make_fin(struct emx_session *s, uint32_t sender_op, uint64_t pulled_bytes);

#endif
