/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine's structure. The engine owns peers (until they are removed), a peer owns its session (from first contact
 * on), a session owns its frame buffers and pull requests. Operations come from a pool; each is in exactly one of the
 * places that enum emx_op_where names. Not for other rooms.
 */
#ifndef EMX_CORE_ENGINE_IMPL_H
#define EMX_CORE_ENGINE_IMPL_H

#include "base/arena.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/hash.h"
#include "core/cc/pace.h"
#include "core/engine.h"
#include "core/format/frame.h"
#include "core/msg/match.h"
#include "core/rel/txbuf.h"
#include "core/upcalls.h"

struct emx_rma_engine;
struct emx_rndv;
struct emx_session;

#define EMX_HOSTS_LATELY 64 /* hosts remembered while peers are added */

/* The owner of a timer. */
enum emx_timer_kind { EMX_TIMER_TICK, EMX_TIMER_SESSION, EMX_TIMER_RNDV, EMX_TIMER_LOOK, EMX_TIMER_REMOVAL };

struct emx_op_slot {
    struct emx_op *op;
    uint32_t next_free;
    uint32_t generation;
};

/* Memory for the headers of a frame that is built when it leaves. */
struct emx_scratch {
    uint8_t pad[8], tag[sizeof(struct emx_tag)]; /* space for a tag directly before b */
    uint8_t b[sizeof(struct emx_frame) + 32] __attribute__((aligned(16)));
};

static_assert(offsetof(struct emx_scratch, b) - offsetof(struct emx_scratch, tag) == sizeof(struct emx_tag),
              "the tag precedes the frame");

/* A frame that was received on the fast path, with work left to do (session.c). */
struct emx_deferred_ack {
    struct emx_session *session; /* NULL: none */
    emx_time now;                /* time of arrival */
    uint32_t ack;                /* the acknowledgement in the frame */
};

/* In an engine, for each number of a rail but 0: all peers' rails of that number lead to one card of this host. */
struct emx_rail_share {
    struct emx_pace pace; /* limit of asked_bytes */
    uint64_t asked_bytes; /* requested, not arrived */
};

struct emx_engine {
    struct emx_engine_ready ready_flags; /* first */
    const struct emx_upcalls *up;
    const struct emx_config *cfg;
    struct emx_stats *stats;
    struct emx_alloc alloc; /* counts, then calls the caller's */
    const struct emx_alloc *outer;
    size_t memory_bytes;
    struct emx_address self;
    uint8_t self_addr[ETHMX_ADDRESS_MAX];
    size_t self_addr_bytes;
    uint8_t *hello_body;     /* own address as it is now, and zeros, up to the longest frame */
    size_t hello_addr_bytes; /* of the address */
    uint32_t moves;          /* how often an interface has got another address; self_addr has those of the beginning */
    struct emx_rng rng;
    const struct emx_cc_ops *cc; /* of new sessions */
    bool closing;

    struct emx_match match[EMX_SPACES];
    unsigned posted_any; /* receives from any source */
    struct emx_pool ops, multis, unexpected_pool, pull_requests, rndvs, many_blocks, exported_pool;
    struct emx_txbufs txbufs;

    struct emx_peer **peers; /* hash by id */
    unsigned peer_mask, peer_count;
    struct emx_arena peer_memory;
    struct emx_peer *of_host[EMX_HOSTS_LATELY]; /* by host: the peer against whose address others are packed */
    struct emx_peer *last_peer;                 /* of the last frame */
    struct emx_peer *removed;                   /* peers whose memory is still in use, by next_hash */
    struct emx_timer removal;                   /* checks whether it still is */
    uint32_t removals;                          /* number of removals */
    uint32_t tx_first;                          /* later than all sequence numbers sent to removed peers */
    struct emx_deferred_ack deferred;

    struct emx_op_slot *slots;
    uint32_t slot_count, slot_free, slot_last; /* free slots, longest free first; 0: none (slot 0 is not used) */

    emx_time silence_ns;   /* without a reply, after which a session is checked (failover.c) */
    uint32_t start_frames; /* first frames left for peers that have acknowledged none */
    struct emx_heap timers;
    unsigned timer_reserve;
    struct emx_timer tick;     /* checks peers with open operations */
    struct emx_peer **watched; /* peers with open operations, and some that had */
    unsigned watched_count, watched_room;
    bool unwatched;           /* memory was missing to add some to watched */
    uint16_t lost_interfaces; /* mask: of this endpoint's address, they carry nothing now */
    struct emx_list living;   /* sessions that are not over; the last checked is last */
    struct emx_list ready[EMX_ENGINE_LINKS], hello_acking[EMX_ENGINE_LINKS];
    unsigned link_peers[EMX_ENGINE_LINKS];
    unsigned local_ranks;  /* ranks that share the links; 0: unknown */
    unsigned greeting;     /* peers with an unanswered hello */
    struct emx_list turns; /* peers that wait until these are fewer, in order of demand */

    unsigned credit_peers;   /* peers with a share of unexpected_max */
    struct emx_list sharing; /* emx_session.sharing; the last checked is last */
    emx_time recall_ns;      /* time before which no share is recalled */
    uint64_t pulling_bytes;  /* requested, not arrived */
    uint64_t away_bytes;     /* of it, of senders that do not respond */
    uint64_t pulled_bytes;   /* total arrived */
    struct emx_list asking;  /* emx_rndv.asking */
    emx_time pulled_ns;      /* time of the last arrival */
    struct emx_timer look;   /* checks senders that do not respond, while messages wait for the window */
    struct emx_pace pace;    /* limit of pulling_bytes */
    struct emx_list pull_wait;
    struct emx_rail_share rail[EMX_RAILS_MAX];     /* as pace and pulling_bytes, for rails other than 0 */
    unsigned railed;                               /* sessions with rails */
    uint64_t rail_bytes;                           /* requested over rails other than 0, not arrived */
    struct emx_list rails_ready[EMX_ENGINE_LINKS]; /* emx_rail.ready */
    bool rails_last;                               /* the last batch began with sessions */
    unsigned reliable_links, input_link;           /* mask; link of the frame being handled */
    unsigned output_room;                          /* frames, split, that the batch still takes */
    const void *input_body;                        /* where a wire has put its data; NULL: behind its head */
    unsigned tagged_links;                         /* mask: frames carry tags there */
    struct emx_list spent;                         /* frames of reliable sessions that the wire still uses */
    struct emx_list lent;                          /* emx_txbuf.lent: frames that end in memory of the program */
    bool lends;                                    /* eager messages that are sent now may be in such frames */
    struct emx_list reads[EMX_ENGINE_LINKS];       /* emx_rndv.wait of messages that are read */
    struct emx_list writes[EMX_ENGINE_LINKS];      /* emx_exported.write of messages to be written */
    struct emx_list exports[EMX_ENGINE_LINKS];     /* emx_exported.link: work for progress */
    struct emx_list disconnects[EMX_ENGINE_LINKS]; /* emx_op.link: connections to end */

    struct emx_list quiescing; /* emx_op.peer_link of operations in state EMX_OP_QUIESCING */

    struct emx_list completed, events, want_routes, am, am_deferred;
    struct emx_list taken;      /* unexpected messages held by the program */
    struct emx_list unreleased; /* unexpected messages whose senders could not be notified yet for lack of memory */
    struct emx_rma_engine *rma; /* NULL: no one-sided operations and no regions */
    size_t seq_frame_bytes;     /* longest sequenced frame to another host, by its interfaces */

    struct emx_scratch scratch[EMX_WIRE_BATCH];
    uint8_t *stage;                   /* copies of scattered data being sent, for EMX_WIRE_BATCH frames */
    struct emx_address decoded;       /* last result of emx_peer_address() */
    char host_text[EMX_ADDRESS_HOST]; /* last result of emx_peer_host() */
};

#define emx_count(e, name)  ((e)->stats->name++)
#define emx_add(e, name, n) ((e)->stats->name += (n))

/* Marks that engine.ready or .hello_acking of link is not empty. */
static inline void emx_engine_has_output(struct emx_engine *e, unsigned link)
{
    e->ready_flags.output |= 1u << link;
}

/* The handlers of frames, in the rows of EMX_FRAME_TYPES; NULL: the type is not sequenced. */
extern const emx_input_fn emx_engine_in_order[EMX_F_COUNT];

/* Passes a reassembled frame, of the link of the frame being handled, to its handler. Does not count it. */
enum emx_drop emx_engine_dispatch(struct emx_engine *e, const uint8_t *data, uint32_t len_bytes, emx_time now);
bool emx_engine_session_drained(const struct emx_session *s); /* all that was sent has arrived */

/* Memory of EMX_FRAME_MAX bytes for scattered data; NULL: out of memory. */
static inline uint8_t *emx_engine_stage(struct emx_engine *e, unsigned i)
{
    if (!e->stage)
        e->stage = (uint8_t *)emx_alloc_get(&e->alloc, (size_t)EMX_WIRE_BATCH * EMX_FRAME_MAX);
    return e->stage ? e->stage + i * (size_t)EMX_FRAME_MAX : NULL;
}

static inline void emx_engine_tick_arm(struct emx_engine *e, emx_time now) /* an operation waits */
{
    if (!emx_timer_is_set(&e->tick))
        emx_heap_set(&e->timers, &e->tick, now + e->cfg->p_peer_timeout / 4);
}

#endif
