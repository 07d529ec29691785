/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine's own structures and the calls between its files. Not for other rooms.
 *
 * Who owns what: the engine owns peers (until they are removed), a peer owns its session (from first contact on), a
 * session owns its frame buffers and jobs. Operations come from a pool; each is in exactly one of the places that
 * enum emx_op_where names.
 */
#ifndef EMX_CORE_IMPL_H
#define EMX_CORE_IMPL_H

#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/pool.h"
#include "core/cc/cc.h"
#include "core/msg/data.h"
#include "core/engine.h"
#include "core/format/frame.h"
#include "core/msg/match.h"
#include "core/cc/pace.h"
#include "core/msg/pack.h"
#include "core/rel/replay.h"

#define EMX_EAGER_OVERHEAD    128  /* what an unexpected message costs beside its data */
#define EMX_PUTS              2    /* parts of a message that are offered and not told of, see rdma_put.c */
#define EMX_BLOCKS            16   /* blocks of one message under way */
#define EMX_PULL_REQUESTS_MAX 4096 /* pulled blocks queued to one peer; more are left to the puller's timer */
#define EMX_HOSTS_LATELY      64   /* hosts that are remembered while peers are added */
#define EMX_GREETED_NODE      128  /* peers that the endpoints of a host greet at a time, */
#define EMX_GREETED_LEAST     2    /* and each of them at least */
#define EMX_FRAME_LEAST       400  /* no shorter frames are tried where long ones get lost */
#define EMX_SEQ_FRAME_MAX     9216 /* longest sequenced frame; data frames may be longer */

/* ---- Operations -------------------------------------------------------------------------------------------- */

enum emx_op_where {
    EMX_OP_FREE,
    EMX_OP_BACKLOG,   /* send: waits for the connection, the window or credit */
    EMX_OP_ANNOUNCED, /* send: rts sent, data being pulled */
    EMX_OP_MATCHING,  /* send: synchronous eager message sent, not yet matched; or a message to ourselves */
    EMX_OP_POSTED,    /* receive: waits for a message */
    EMX_OP_FILLING,   /* receive: an eager message is arriving */
    EMX_OP_PULLING,   /* receive: pulls a large message */
    EMX_OP_QUIESCING, /* is over, and completes when no device is at its memory any more */
    EMX_OP_DONE,      /* in the engine's list of completed operations */
};

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
    struct emx_list due;    /* in session.pulls while a pull frame is to be sent */
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
    bool lends;                   /* in its place: the sender's device writes, see rdma_put.c */
    bool borrows;                 /* reading, by a device, see rdma_get.c: */
    bool asked;                   /* for the next key */
    bool broken;                  /* a read or write has failed, others are under way */
    bool last;                    /* those under way are */
    uint8_t tries;                /* that failed */
    uint64_t key;                 /* for what lies between started_bytes */
    uint64_t lent_bytes;          /* and this; what is offered to be written ends here */
    uint64_t started_bytes;       /* reads end here that the device has done, or is at */
    struct emx_txbuf *fin;        /* made beforehand, or NULL */
    struct emx_received_map *had; /* with longer chunks; NULL: nothing */
    uint8_t shortened;            /* so many times */
    unsigned active;
    struct emx_block block[EMX_BLOCKS]; /* the first `active` are in use, oldest first */
};

enum emx_put_state {
    EMX_PUT_READY,
    EMX_PUT_TAKEN, /* a device writes */
    EMX_PUT_OVER,
};

/* A part of a message that is to be written to the receiver's memory, see rdma_put.c. The receiver knows only from
 * where to where. */
struct emx_put {
    uint64_t remote, key, offset, end; /* remote: of the message */
    struct emx_txbuf *answer;
    uint32_t rop;
    uint8_t state;  /* enum emx_put_state */
    uint8_t status; /* then: enum emx_put_status */
};

/* Memory of a message that devices reach: the sending side, see rdma_get.c, or the receiving side, see rdma_put.c. */
struct emx_exported {
    struct emx_list link;  /* in engine.loans while progress has something to do for it */
    struct emx_list write; /* sends: in engine.writes while there is something to be written */
    struct emx_session *session;
    struct emx_wire_addr to;  /* of the session when this began, */
    uint8_t on;               /* and its link: it may have left them */
    struct emx_op *op;        /* NULL: it is over */
    struct emx_txbuf *rts;    /* waits for its key; NULL: it has got it, or must do without */
    struct emx_txbuf *answer; /* to the receiver, who has asked; NULL: has not */
    void *held;               /* the wire's: what is exposed of the message */
    uint64_t key, from, end;  /* a piece that is exposed, and the receiver was not told; end 0: there is none. Of a
                                 receive: key is that of what is unproven */
    uint64_t asked_from;      /* what the receiver asked for last: from here, */
    uint64_t done_bytes;      /* and it has so much */
    uint32_t rop;             /* its operation */
    uint8_t what;             /* enum emx_export_what: to be done, while linked */
    bool failed;              /* nobody must reach what is held any more, when it is taken back */
    bool unproven;            /* receives: a write has failed, which may still come */
    uint8_t offers;           /* not answered, the oldest first: */
    struct emx_put offered[EMX_PUTS];
};

struct emx_op {
    struct emx_posted match;   /* receives; first member */
    struct emx_list link;      /* in a backlog or the completed list */
    struct emx_list peer_link; /* in peer.ops while it depends on that peer */
    struct ethmx_data data;
    ethmx_done_fn done;
    void *arg;
    struct emx_peer *peer;     /* sends: to; receives: from, once known */
    struct emx_rndv *rndv;     /* receives by rendezvous */
    struct emx_exported *loan; /* sends that devices read or write, receives that they write; NULL otherwise */
    uint8_t where;             /* enum emx_op_where */
    bool is_send, is_am, sync;
    bool bulk;         /* sends: the frames being made are */
    bool eager;        /* sends: credit was taken, frames are being made */
    bool counted_wait; /* counted in session.awaits */
    bool matched;      /* synchronous sends: the first frame was, while the rest waits for the window */
    uint8_t reading;   /* reads of a device under way, or, of a send, writes */
    uint16_t am_header_bytes;
    uint16_t chunk_bytes; /* announced */
    uint32_t id;          /* in the engine's table; 0: none */
    int status;
    uint64_t bits;      /* of the message */
    size_t len_bytes;   /* result */
    size_t msg_bytes;   /* result; sends: total to send without header */
    size_t sent_bytes;  /* eager progress, header included */
    uint8_t *am_header; /* owned copy */
};

/* A message that no receive has taken yet, or an active message on its way to its handler. */
struct emx_unexpected {
    struct emx_unexpected_match match; /* first member */
    struct emx_list am_link;           /* in engine.am, .am_deferred, .unreleased or .taken */
    struct emx_session *session;       /* NULL: from ourselves */
    struct emx_op *local;              /* from ourselves: the sender's operation, when it waits for us */
    uint8_t *buf;                      /* eager: header and data; rts: header */
    uint32_t sender_op;
    uint32_t cost;          /* credit that it holds */
    uint64_t total_bytes;   /* data, without header */
    uint64_t got_bytes;     /* eager: header and data that have arrived */
    uint64_t remote;        /* rts: where the data lie in the sender's memory; 0: not told */
    struct emx_f_lent lent; /* rts: the same for a device */
    uint16_t am_header_bytes;
    uint16_t chunk_bytes;
    bool is_rts, is_am, sync, whole, in_match;
    bool orphan;       /* its sender was removed */
    uint8_t small[56]; /* buf of short ones */
};

/* ---- Sessions ----------------------------------------------------------------------------------------------- */

/* Buffers for sequenced frames: of three lengths, as most frames are short, and the longest ones stay on the host. */
enum emx_txbuf_size {
    EMX_TXBUF_SMALL,
    EMX_TXBUF_BIG,  /* engine.seq_frame_bytes */
    EMX_TXBUF_NEAR, /* EMX_SEQ_FRAME_MAX */
    EMX_TXBUF_SIZES
};

/* A sequenced frame, kept until acknowledged. */
struct emx_txbuf {
    struct emx_list link; /* session.control or session.unacked */
    emx_time sent_ns;     /* 0: not yet */
    uint32_t seq;
    uint16_t len_bytes;
    uint16_t tries;
    bool early;   /* acknowledged before its turn */
    bool lost;    /* to be sent again */
    bool unready; /* an rts whose key is still to come (rdma_get.c) */
    uint8_t size; /* enum emx_txbuf_size: whose it is */
    bool bulk;    /* may travel in a superframe, the first time */
    bool slot;    /* the first frame of a message that does */

    uint8_t tag[sizeof(struct emx_tag)] __attribute__((aligned(8))); /* room for one */
    uint8_t frame[] __attribute__((aligned(8)));
};

static_assert(offsetof(struct emx_txbuf, frame) - offsetof(struct emx_txbuf, tag) == sizeof(struct emx_tag),
              "the tag precedes the frame");

/* A sequenced frame that arrived before its turn. */
struct emx_rxbuf {
    struct emx_list link;
    uint32_t seq;
    uint32_t len_bytes;
    uint8_t frame[];
};

/* Chunks of a message that the peer has asked for. */
struct emx_pull_request {
    struct emx_list link;
    struct emx_op *op;
    uint64_t first, wanted;
    uint32_t rop;
    uint16_t round, chunk_bytes;
    bool bulk; /* goes in superframes */
};

enum emx_state {
    EMX_S_ROUTES,     /* wants routes */
    EMX_S_CONNECTING, /* hellos are out */
    EMX_S_CONNECTED,
    EMX_S_LEAVING, /* the peer was removed, and the goodbye is on its way out */
    EMX_S_DEAD,    /* unreachable or silent for too long */
    EMX_S_CLOSED,  /* said goodbye */
};

/* The ways to a peer and the handshake's state. Kept when connected: a repeated hello wants its answer. */
struct emx_connect {
    struct emx_route route[EMX_ROUTES_MAX];
    unsigned count, current;
    emx_time since_ns;   /* the first was tried */
    emx_time give_up_ns; /* on the current route */
    emx_time retry_ns;
    emx_time wait_ns;  /* between tries, doubling */
    bool got[2];       /* welcomes: small, full */
    bool due[2];       /* hellos to send */
    emx_time place_ns; /* it counts in engine.greeting until then at most, */
    bool has_place;    /* and does now */
    bool again;        /* all routes have failed, and were tried once more */
    char why[320];     /* of the routes that failed */

    /* when connected: whether long frames still arrive is being tried out */
    bool doubted;
    uint16_t tried_bytes;
    unsigned strikes; /* tries of which the short frame was answered and the long one was not */
};

struct emx_hello_ack {
    bool due;
    uint8_t link;         /* the hello came from */
    uint16_t frame_bytes; /* its length, which the answer shall have */
    uint32_t probe;
};

/* The time of an answer, see rtt.c. */
struct emx_rtt {
    uint32_t network_ns;          /* 0: not measured */
    uint32_t least_ns, before_ns; /* of the samples so far in this window, and of the window before; 0: none */
    uint32_t samples;             /* in this window */
    emx_time rto_ns;
};

struct emx_tag_keys {
    uint8_t first[16], rest[16];
};

/* With ETHMX_AUTH=on: see tag.c. */
struct emx_tags {
    uint8_t whose; /* enum emx_tag_key: the secret that our keys come from */
    struct emx_tag_keys out;
    uint64_t sent; /* number of the last frame */
    struct emx_tag_keys in[EMX_TAG_KEYS];
    bool have[EMX_TAG_KEYS]; /* of in */
    struct emx_replay seen;
};

/* See rdma_get.c. */
struct emx_get_eager {
    const struct emx_costs *costs;  /* NULL: not known */
    emx_time round_trip_ns;         /* the shortest yet, 0: not measured */
    uint64_t kept_bytes, new_bytes; /* from these lengths on they are read, if their memory is registered; if not */
    uint8_t missed;                 /* messages in a row, between these lengths, whose memory was not */
    uint8_t passed;                 /* such ones that have gone eagerly since */
};

struct emx_session {
    struct emx_engine *e;
    struct emx_peer *peer;
    struct emx_list living;    /* in engine.living until it is over */
    struct emx_list routing;   /* in engine.want_routes */
    struct emx_list turn;      /* in engine.turns while it may not say hello yet */
    struct emx_list ready;     /* in engine.ready[link] while there may be something to send */
    struct emx_list welcoming; /* in engine.welcoming[link] while welcomes are due there */
    struct emx_connect *connect;
    struct emx_wire_addr to;
    uint8_t link;
    uint8_t state;     /* enum emx_state */
    bool greeted;      /* the peer has said where its numbers begin */
    bool takes;        /* frames of it that are not of the handshake; only then */
    int8_t end_status; /* dead or closed: why, an enum ethmx_status */
    uint16_t frame_bytes;
    uint16_t bulk_bytes; /* longest frame in a superframe, 0: none */
    uint16_t peer_window;
    uint32_t quick_room;             /* messages shorter than this may go the short way (fast_path.c); 0: none */
    bool reliable;                   /* our frames arrive once and in order: none is kept or acknowledged */
    bool in_place;                   /* and need not be sealed: a wire may take data from where they are */
    bool connected;                  /* our frames travel over connections (emx_route) */
    emx_time ack_delay_ns;           /* how long one waits for a frame to ride on, */
    emx_time peer_ack_delay_ns;      /* and one of the peer's; */
    emx_time peer_timeout_ns;        /* when the peer gives this side up (EMX_NEVER: not told) */
    uint8_t seal;                    /* of our frames: enum emx_checksum, or EMX_SEAL_TAG */
    bool reads;                      /* large messages are read from the sender's memory */
    uint64_t lend_min_bytes;         /* messages from this length on are read by a device (rdma_get.c); 0: none */
    struct emx_get_eager lend_eager; /* of them, which do not rather go eagerly */
    bool lapsed;                     /* silent for so long that the peer may have given this side up */

    uint32_t tx_first, rx_first; /* where the numbers begin: ours, the peer's */
    emx_time left_ns;            /* when it began to leave */

    /* sending: frames tx_acked..tx_next-1 are in unacked, in order; from send_next on they were never sent */
    uint32_t tx_next, tx_acked;
    struct emx_list unacked;
    struct emx_list *send_next; /* &unacked: all sent */
    unsigned flying;            /* sent, not acknowledged, not lost */
    unsigned lost;
    struct emx_list control; /* built, no sequence number yet */
    struct emx_txbuf *open;  /* the last of unacked, a bundle that was not sent and takes more; NULL: none */
    struct emx_list backlog; /* sends */
    struct emx_cc cc;
    struct emx_rtt rtt;
    emx_time rto_from_ns; /* when the clock of the resend timer started; 0: stopped */
    unsigned backoff;
    bool probing;          /* after a time-out one frame may leave, whatever flies */
    bool doubtful;         /* the window counts as lost, */
    bool falsely;          /* and something of it has arrived: */
    struct emx_cc before;  /* cc then */
    uint32_t recover;      /* one window reduction per round trip */
    bool started;          /* a frame was sent, */
    uint32_t start_frames; /* with so many of engine.start_frames */

    /* receiving */
    uint32_t rx_next;
    uint16_t rx_parts_bytes; /* of the bundle rx_next, parts handled before memory ran out */
    uint64_t rx_early;       /* bit i: rx_next+1+i is held */
    struct emx_list held;
    unsigned held_count;
    unsigned unacked_rx; /* sequenced frames since the last acknowledgement */
    emx_time ack_at_ns;  /* when one must go; 0: none owed */
    bool ack_now;
    bool ping_due, pong_due, swallow;
    uint8_t byes_due;
    struct emx_op *rx_op;              /* the eager message under way goes to this receive, */
    struct emx_unexpected *rx_arrival; /* or here; */
    uint32_t rx_got, rx_total;         /* its header and data; swallow: nowhere */

    /* credit */
    uint32_t credit_used, credit_limit; /* ours to spend, mod 2^32 */
    uint32_t rx_charged;                /* eager bytes received in all, mod 2^32 */
    uint32_t rx_released;               /* of these, no longer held */
    uint32_t rx_grown;                  /* rx_charged when the share last grew */
    uint32_t share;                     /* the peer may have this much unreleased */
    uint32_t announced;                 /* limit last told */
    struct emx_list sharing;            /* in engine.sharing while the share may be more than a floor */
    uint32_t rx_seen;                   /* rx_charged at the last look, */
    emx_time seen_ns;                   /* and since when it has been that; 0: no look yet */
    emx_time recalled_ns;               /* the share was last asked for; 0: never */
    bool recall_due;
    bool gave;           /* some of ours was given back, ever; */
    bool giving;         /* the peer has not heard of it yet */
    uint32_t credit_ack; /* then: frames that acknowledge less tell an older limit */

    /* large messages */
    struct emx_list jobs; /* asked of us */
    unsigned job_count;
    struct emx_list pulls;    /* rndv.due: pull frames to send */
    struct emx_rtt block_rtt; /* from asking for a block until it is whole */
    emx_time way_ns;          /* the shortest from asking until the first of it came (pace.h) */
    emx_time data_ns;         /* when the last of it came */
    unsigned away;            /* messages that are (emx_rndv.away) */
    unsigned slots_taken;     /* eager messages in superframes, not acknowledged */
    uint32_t joined_rx;       /* superframes that arrived well joined */
    uint32_t joined_told;     /* of ours, as the peer last told */
    unsigned bulk_left;       /* blocks that may go in superframes before the peer must tell of some */
    unsigned bulk_wait;       /* without any left: blocks until the next is tried, */
    unsigned bulk_gap;        /* and how many were waited for */

    /* marks of congestion, see ecn.c */
    uint32_t marked_rx;   /* sequenced frames that arrived with one, mod 2^32 */
    uint32_t marked_told; /* of ours, as the peer last told */
    bool marks_due;       /* some of marked_rx were not told yet */

    /* life */
    struct emx_timer timer;
    struct emx_tags *tags; /* NULL: no frame carries one */
    emx_time heard_ns;
    emx_time spoke_ns;               /* with reads: when a frame last went out */
    emx_time asked_ns;               /* first frame since then that wants an answer; 0: none */
    unsigned awaits;                 /* operations that wait for the peer, but posted receives */
    struct emx_hello_ack welcome[2]; /* small, full */
    uint32_t probe;                  /* number of the current route's hellos */
    struct emx_fragmenting *cut;     /* the route has become narrower: longer frames leave in pieces; else NULL */
    struct emx_reassembly *join;     /* frames of which pieces came, and not all; NULL: none */
};

/* A job has many peers that are never talked to, so all that only others need is in the session. */
struct emx_peer {
    struct emx_peer *next_hash;
    struct emx_peer *like; /* its address is packed against this one's; NULL: against our own */
    void *user;
    struct emx_session *session;
    struct emx_list ops; /* operations that fail when the peer does */
    uint32_t id, cookie;
    unsigned posted; /* receives from it alone */
    uint32_t packed_bytes : 10;
    uint32_t has_secret : 1; /* which follows packed; with ETHMX_AUTH=on there is always room for it */
    uint32_t watched : 1;    /* in engine.watched */
    uint32_t ghost : 1;      /* was removed, and stays for others' sake */
    uint32_t likes : 19;     /* peers whose like this one is; EMX_LIKES_MAX: that or more */
    uint8_t packed[];        /* its address, see peer.c */
};
#define EMX_LIKES_MAX ((1u << 19) - 1)
static_assert(EMX_PACK_MAX(ETHMX_ADDRESS_MAX) < 1 << 10, "packed_bytes");

struct emx_event_node {
    struct emx_list link;
    struct emx_event event;
};

/* What a timer is in. */
enum emx_timer_kind { EMX_TIMER_TICK, EMX_TIMER_SESSION, EMX_TIMER_RNDV, EMX_TIMER_LOOK, EMX_TIMER_REMOVAL };

/* ---- Engine ------------------------------------------------------------------------------------------------- */

struct emx_op_slot {
    struct emx_op *op;
    uint32_t next_free;
    uint32_t generation;
};

/* Room for what precedes the data in a frame that is built at the last moment. */
struct emx_scratch {
    uint8_t pad[8], tag[sizeof(struct emx_tag)]; /* room for a tag right before */
    uint8_t b[sizeof(struct emx_frame) + 32] __attribute__((aligned(16)));
};
static_assert(offsetof(struct emx_scratch, b) - offsetof(struct emx_scratch, tag) == sizeof(struct emx_tag),
              "the tag precedes the frame");

/* A frame that was received the short way, and of which the rest is still to be done (session.c). */
struct emx_late {
    struct emx_session *session; /* NULL: there is none */
    emx_time now;                /* when it came */
    uint32_t ack;                /* what it acknowledged */
};

struct emx_engine {
    struct emx_engine_ready hints; /* first */
    const struct emx_config *cfg;
    struct emx_stats *stats;
    struct emx_alloc alloc; /* counts, then asks the caller's */
    const struct emx_alloc *outer;
    size_t memory_bytes;
    struct emx_address self;
    uint8_t self_addr[ETHMX_ADDRESS_MAX];
    size_t self_addr_bytes;
    uint8_t *hello_body; /* own address and zeros, as long as the longest frame */
    struct emx_rng rng;
    bool closing;

    struct emx_match match;
    unsigned posted_any; /* receives from anybody */
    struct emx_pool ops, arrivals, txbufs[EMX_TXBUF_SIZES], jobs, rndvs, loan_pool;

    struct emx_peer **peers; /* hash by id */
    unsigned peer_mask, peer_count;
    struct emx_arena peer_memory;
    struct emx_peer *of_host[EMX_HOSTS_LATELY]; /* by host: whose address others of the host are packed against */
    struct emx_peer *last_peer;                 /* of the last frame */
    struct emx_peer *removed;                   /* those whose memory is still in use, by next_hash, */
    struct emx_timer removal;                   /* which looks whether it is */
    uint32_t removals;                          /* so far; */
    uint32_t tx_first;                          /* later than all numbers of frames to those removed */
    struct emx_late late;

    struct emx_op_slot *slots;
    uint32_t slot_count, slot_free, slot_last; /* free ones, longest free first; 0: none (slot 0 is not used) */

    uint32_t start_frames; /* left for first frames to peers that have acknowledged none */
    struct emx_heap timers;
    unsigned timer_reserve;
    struct emx_timer tick;     /* looks after peers that somebody waits for: */
    struct emx_peer **watched; /* those with operations open, and some that had */
    unsigned watched_count, watched_room;
    bool unwatched;         /* some with operations open are not among them: there was no memory */
    struct emx_list living; /* sessions that are not over; who was looked after last is last */
    struct emx_list ready[EMX_ENGINE_LINKS], welcoming[EMX_ENGINE_LINKS];
    unsigned link_peers[EMX_ENGINE_LINKS];
    unsigned local_ranks;  /* that share the links; 0: unknown */
    unsigned greeting;     /* peers that were said hello to just now, and have not answered, */
    struct emx_list turns; /* and those that wait until these are fewer, in the order in which they are wanted */

    unsigned credit_peers;   /* that have a share of unexpected_max */
    struct emx_list sharing; /* emx_session.sharing; who was looked at last is last */
    emx_time recall_ns;      /* shares are not asked for before that */
    uint64_t pulling_bytes;  /* asked for, not arrived; */
    uint64_t away_bytes;     /* of senders that are away; */
    uint64_t pulled_bytes;   /* arrived, in all */
    struct emx_list asking;  /* emx_rndv.asking */
    emx_time pulled_ns;      /* when the last arrived */
    struct emx_timer look;   /* for senders that are away, while messages wait for the window */
    struct emx_pace pace;    /* how much that may be */
    struct emx_list pull_wait;
    unsigned reliable_links, input_link;      /* mask; of the frame being handled */
    unsigned tagged_links;                    /* mask: frames carry tags there */
    struct emx_list spent;                    /* frames of reliable sessions that are in the wire's hands */
    struct emx_list reads[EMX_ENGINE_LINKS];  /* emx_rndv.wait of messages that are read */
    struct emx_list writes[EMX_ENGINE_LINKS]; /* emx_exported.write of messages that are to be written */
    struct emx_list loans[EMX_ENGINE_LINKS];  /* for which progress has something to do; */
    struct emx_list severs[EMX_ENGINE_LINKS]; /* emx_op.link: connections that must end for it */

    struct emx_list severed; /* emx_op.peer_link of operations that are EMX_OP_QUIESCING */

    struct emx_list completed, events, want_routes, am, am_deferred;
    struct emx_list taken;      /* arrivals in the program's hands */
    struct emx_list unreleased; /* arrivals whose senders could not be told yet for want of memory */
    size_t seq_frame_bytes;     /* longest sequenced frame to another host: what its interfaces take */

    struct emx_scratch scratch[EMX_WIRE_BATCH];
    uint8_t *stage;             /* scattered data on its way out, EMX_WIRE_BATCH frames */
    struct emx_address decoded; /* what emx_peer_address() returned last */
};

void emx_session_deferred_ack_now(struct emx_engine *e);
static inline void emx_session_deferred_ack(struct emx_engine *e)
{
    if (__builtin_expect(e->late.session != NULL, 0))
        emx_session_deferred_ack_now(e);
}

#define emx_count(e, name)  ((e)->stats->name++)
#define emx_add(e, name, n) ((e)->stats->name += (n))

static inline struct emx_frame *emx_txbuf_frame(struct emx_txbuf *b)
{
    return (struct emx_frame *)b->frame;
}

/* Dead or closed: nothing comes or goes any more. */
static inline bool emx_session_over(const struct emx_session *s)
{
    return s->state == EMX_S_DEAD || s->state == EMX_S_CLOSED;
}

static inline bool emx_seq_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

/* peer.c */
struct emx_peer *emx_peer_look_up(struct emx_engine *e, uint32_t id);
static inline struct emx_peer *emx_peer_find(struct emx_engine *e, uint32_t id)
{
    struct emx_peer *p = e->last_peer;

    return p && p->id == id ? p : emx_peer_look_up(e, id);
}
/* Finds or makes the peer of an address that has been looked at: decoded and encoded. */
int emx_peer_make(struct emx_engine *e, const struct emx_address *a, const void *addr, size_t len_bytes,
                  struct emx_peer **peer_p); /* NO_MEMORY, PARAM: another one has its number */
/* Whether it is the endpoint that the address is of. */
bool emx_peer_is(struct emx_engine *e, const struct emx_peer *p, const struct emx_address *a);
void emx_peer_fail(struct emx_engine *e, struct emx_peer *p, int status); /* completes all its operations */
void emx_peer_unlink(struct emx_engine *e, struct emx_peer *p);           /* nothing finds it any more */
void emx_peer_free(struct emx_engine *e, struct emx_peer *p); /* its memory, after that; nobody is like it */
void emx_peer_watch_now(struct emx_engine *e, struct emx_peer *p);
static inline void emx_peer_watch(struct emx_engine *e, struct emx_peer *p) /* an operation depends on it */
{
    if (!p->watched)
        emx_peer_watch_now(e, p);
}
void emx_event_post(struct emx_engine *e, enum emx_event_type type, struct emx_peer *p, int status, const char *fmt,
                    ...) __attribute__((format(printf, 5, 6)));

void emx_event_taken(struct emx_engine *e); /* one has left the list of events or of wanted routes */

/* Something for link is in engine.ready or .welcoming. */
static inline void emx_engine_has_output(struct emx_engine *e, unsigned link)
{
    e->hints.output |= 1u << link;
}

/* There may be something to send. */
static inline void emx_session_ready(struct emx_session *s)
{
    if (emx_list_linked(&s->ready) || (s->state != EMX_S_CONNECTING && s->state != EMX_S_CONNECTED))
        return;
    emx_list_append(&s->e->ready[s->link], &s->ready);
    emx_engine_has_output(s->e, s->link);
}

/* removal.c */
void emx_removal_expire(struct emx_engine *e, emx_time now);
void emx_removal_fini(struct emx_engine *e);

/* session.c */
struct emx_session *emx_session_start(struct emx_engine *e, struct emx_peer *p, emx_time now); /* NULL: no memory */
void emx_session_end(struct emx_session *s, enum emx_state state, int status, emx_time now);
void emx_session_leave(struct emx_session *s, emx_time now); /* reachable: all ends but that it says goodbye */
void emx_session_free(struct emx_session *s);
bool emx_session_drained(const struct emx_session *s); /* all that was sent has arrived */
/* A frame of the handshake has told where the peer's numbers begin. */
enum emx_drop emx_session_greet(struct emx_session *s, const struct emx_frame *h, emx_time now);
/* Whether the sender of the frame knows where our numbers begin: the frame is not of a former session. */
static inline bool emx_session_is_meant(const struct emx_session *s, const struct emx_frame *h)
{
    return !emx_seq_before(h->ack, s->tx_first);
}
void emx_session_arm(struct emx_session *s, emx_time at); /* look at the session at this time, or earlier */
void emx_session_expire(struct emx_session *s, emx_time now);
void emx_session_asked_first(struct emx_session *s, emx_time now);
static inline void emx_session_asked(struct emx_session *s, emx_time now) /* a frame went out that wants an answer */
{
    if (!s->asked_ns)
        emx_session_asked_first(s, now);
}
static inline void emx_session_heard(struct emx_session *s, emx_time now)
{
    s->heard_ns = now;
    s->asked_ns = 0;
}
/* Whether the frames that were accepted are to be acknowledged now, rather than in a while. */
static inline bool emx_reorder_acks_at_once(const struct emx_session *s)
{
    const struct emx_config *cfg = s->e->cfg;

    return s->unacked_rx >= cfg->p_ack_every || s->unacked_rx > cfg->p_window / 4 || s->held_count || !s->ack_delay_ns;
}
/* A frame has been received the short way: what it acknowledges is looked at, and it is acknowledged, at the next
 * catch_up(), which all begin with that must know what is under way. By then an answer may have acknowledged it. If it
 * is to be acknowledged at once, that is done. */
static inline void emx_session_later(struct emx_session *s, uint32_t ack, emx_time now)
{
    struct emx_engine *e = s->e;

    emx_session_deferred_ack(e);
    e->late = (struct emx_late){.session = s, .now = now, .ack = ack};
    e->hints.late = true;
    if (s->unacked_rx && emx_reorder_acks_at_once(s))
        emx_session_deferred_ack_now(e);
}

/* connect.c: the handshake */
enum emx_drop emx_connect_hello(struct emx_engine *e, unsigned link, const uint8_t *data, emx_time now);
enum emx_drop emx_connect_hello_ack(struct emx_session *s, const uint8_t *data, emx_time now);
emx_time emx_connect_deadline(const struct emx_session *s);
void emx_connect_expire(struct emx_session *s, emx_time now);
void emx_connect_give_place(struct emx_session *s, emx_time now);  /* it needs none any more: another one's turn */
void emx_connect_delayed(struct emx_session *s, emx_time late_ns); /* this process was stopped for so long */
bool emx_connect_output_hello(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, emx_time now);
bool emx_connect_output_hello_ack(struct emx_session *s, unsigned link, struct emx_txframe *f,
                                  struct emx_scratch *scratch);
static inline bool emx_connect_reachable(const struct emx_session *s) /* a route is being tried or proven */
{
    return s->state == EMX_S_CONNECTING || s->state == EMX_S_CONNECTED;
}

/* Frames of so many bytes, without a tag, seem to get lost: finds out if that is for their length. */
void emx_connect_probe_mtu(struct emx_session *s, size_t frame_bytes, emx_time now);

/* fragment.c: frames that are too long for the route now */
bool emx_fragment_narrow(struct emx_session *s, uint16_t frame_bytes); /* longest from now on; false: no memory */
bool emx_fragment_output(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, unsigned i);
/* Makes of a frame that is too long its first piece; after emx_fragment_narrow(). False: no memory, the frame is lost.
 */
bool emx_fragment_fit(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, unsigned i);
enum emx_drop emx_fragment_input(struct emx_session *s, const uint8_t *data, emx_time now);
void emx_fragment_fini(struct emx_session *s);

/* rtt.c */
void emx_rtt_init(struct emx_rtt *r, const struct emx_config *cfg);
void emx_rtt_sample(struct emx_rtt *r, emx_time ns, emx_time ack_delay_ns, const struct emx_config *cfg);
emx_time emx_rtt_backed_off(const struct emx_rtt *r, unsigned backoff, const struct emx_config *cfg);

/* send_window.c: sequenced frames out */
/* A buffer for a frame of so many bytes; NULL: out of memory. */
static inline struct emx_txbuf *emx_send_window_get(struct emx_engine *e, size_t len_bytes)
{
    unsigned size = EMX_TXBUF_SMALL;
    struct emx_txbuf *b;

    while (sizeof(*b) + len_bytes > e->txbufs[size].object_bytes)
        size++;
    b = emx_pool_get(&e->txbufs[size]);
    if (!b)
        return NULL;
    emx_list_init(&b->link);
    b->len_bytes = (uint16_t)len_bytes;
    b->tries = 0;
    b->early = b->lost = false;
    b->size = (uint8_t)size;
    b->bulk = b->slot = b->unready = false;
    return b;
}
void emx_send_window_put(struct emx_engine *e, struct emx_txbuf *b);
/* Frames the window takes. */
static inline unsigned emx_send_window_room(const struct emx_session *s)
{
    unsigned used = s->tx_next - s->tx_acked;

    return used < s->peer_window ? s->peer_window - used : 0;
}
/* No frame may leave before others are acknowledged. */
static inline bool emx_send_window_full(const struct emx_session *s)
{
    return s->flying && s->flying >= s->cc.flight_frames && !s->probing;
}
/* All that is in the window has been sent, and one more may go at once. */
static inline bool emx_send_window_clear(const struct emx_session *s)
{
    return s->send_next == &s->unacked && !s->lost && (!s->flying || s->flying < s->cc.cwnd_frames) &&
           emx_send_window_room(s);
}
void emx_send_window_direct(struct emx_session *s, struct emx_txbuf *b,
                            emx_time now);                                /* sent as frame tx_next, when clear */
void emx_send_window_push(struct emx_session *s, struct emx_txbuf *b);    /* into the window: gets its number */
void emx_send_window_control(struct emx_session *s, struct emx_txbuf *b); /* when there is room */
void emx_send_window_ack(struct emx_session *s, uint32_t ack, uint64_t early, emx_time now);
struct emx_txbuf *emx_send_window_next(struct emx_session *s); /* the next to send, NULL: none may go */
void emx_send_window_sent(struct emx_session *s, struct emx_txbuf *b, emx_time now);
emx_time emx_send_window_deadline(const struct emx_session *s);
void emx_send_window_expire(struct emx_session *s, emx_time now);
void emx_send_window_marked(struct emx_session *s); /* frames of ours arrived with marks */
void emx_send_window_hurry(struct emx_session *s,
                           emx_time now); /* what kept it from arriving is over: send again soon */
void emx_send_window_fini(struct emx_session *s);
void emx_send_window_spend(struct emx_engine *e); /* the wire has copied what it was given */

/* coalesce.c: several small messages in one frame */
bool emx_coalesce_add(struct emx_session *s, const struct ethmx_data *data,
                      uint64_t bits);           /* false: send it by itself */
void emx_coalesce_close(struct emx_session *s); /* it takes no more */
enum emx_drop emx_coalesce_input(struct emx_session *s, const uint8_t *data, emx_time now);

/* offload_probe.c: whether the way takes superframes */
#define EMX_JOINED_BYTES 8192                       /* so much in a superframe makes it worth its slot */
void emx_offload_probe_init(struct emx_session *s); /* a new route */
void emx_offload_probe_told(struct emx_session *s, uint32_t joined);
/* Whether the next block or message goes in superframes; joins: it would come well joined. */
bool emx_offload_probe_take(struct emx_session *s, bool joins);

/* What was accepted, behind its tag if it has one. */
static inline const struct emx_frame *emx_frame_within(const uint8_t *data)
{
    return (const void *)(data[0] == EMX_FRAME_V_TAGGED ? data + sizeof(struct emx_tag) : data);
}

/* ecn.c: marks of congestion. An acknowledgement has told another number of them. */
void emx_ecn_told(struct emx_session *s, uint32_t ack, uint32_t marked);

/* reorder.c: sequenced frames in */
enum emx_drop emx_reorder_input(struct emx_session *s, const uint8_t *data, emx_time now);
void emx_reorder_owe(struct emx_session *s,
                     emx_time now); /* frames were accepted: acknowledged at once or in a while */
static inline void emx_reorder_acked(struct emx_session *s) /* a frame with our ack went out */
{
    s->unacked_rx = 0;
    s->ack_at_ns = 0;
    s->ack_now = false;
}
/* Whether a frame that is sent should tell what has arrived. */
static inline bool emx_reorder_owes(const struct emx_session *s)
{
    return s->ack_now || s->ack_at_ns;
}
/* A frame from a reliable link that is not the next one: why it is dropped; the session may be over. */
enum emx_drop emx_reorder_out_of_turn(struct emx_session *s, uint32_t seq, emx_time now);
void emx_reorder_fini(struct emx_session *s);

/* credit.c: bounded unexpected memory */
static inline uint32_t emx_eager_cost(uint64_t total_bytes)
{
    return (uint32_t)total_bytes + EMX_EAGER_OVERHEAD;
}
uint64_t emx_credit_floor(const struct emx_engine *e); /* the least share that a peer has */
void emx_credit_open(struct emx_session *s);
void emx_credit_close(struct emx_session *s);
static inline bool emx_credit_allows(const struct emx_session *s, uint32_t cost)
{
    return (int32_t)(s->credit_limit - s->credit_used - cost) >= 0;
}
bool emx_credit_take(struct emx_session *s, uint32_t cost); /* sender: true: send eagerly */
void emx_credit_heard_again(struct emx_session *s, uint32_t limit, uint32_t ack);
/* Whether the peer allows more. Counted from what is used, or a peer that tells nonsense could take the limit round. */
static inline bool emx_credit_is_more(const struct emx_session *s, uint32_t limit)
{
    return (int32_t)(limit - s->credit_used) > (int32_t)(s->credit_limit - s->credit_used);
}
static inline void emx_credit_heard(struct emx_session *s, uint32_t limit, uint32_t ack) /* sender: told by a frame */
{
    if (__builtin_expect(s->gave, 0))
        emx_credit_heard_again(s, limit, ack);
    else if (emx_credit_is_more(s, limit))
        s->credit_limit = limit;
}
static inline void emx_credit_heard_short(struct emx_session *s, uint32_t limit) /* by a short frame, without an ack */
{
    if (emx_credit_is_more(s, limit) && !s->giving)
        s->credit_limit = limit;
}
static inline bool emx_credit_covers(const struct emx_session *s, uint64_t total_bytes) /* receiver: false: overdrawn */
{
    return total_bytes <= s->share && s->rx_charged - s->rx_released + emx_eager_cost(total_bytes) <= s->share;
}
static inline void emx_credit_charge(struct emx_session *s, uint32_t cost)
{
    s->rx_charged += cost;
}
void emx_credit_release(struct emx_session *s, uint32_t cost);
void emx_credit_starved(struct emx_session *s, emx_time now);
/* Receiver: takes a recall that is due, and its limit; false: there is none. */
bool emx_credit_recall(struct emx_session *s, uint32_t *limit_p);
enum emx_drop emx_credit_input_recall(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_credit_input_given(struct emx_session *s, const uint8_t *data, emx_time now);
static inline uint32_t emx_credit_limit(const struct emx_session *s)
{
    return s->rx_released + s->share;
}
static inline void emx_credit_tell(struct emx_session *s) /* the sender, before it runs dry */
{
    if (emx_credit_limit(s) - s->announced <= s->share / 2)
        return;
    s->ack_now = true;
    emx_session_ready(s);
}
static inline void emx_credit_passed(struct emx_session *s, uint32_t cost) /* charged and released at once */
{
    emx_credit_charge(s, cost);
    s->rx_released += cost;
    emx_credit_tell(s);
}

/* All but seq, ack, credit, check. */
static inline void emx_engine_head(struct emx_engine *e, const struct emx_peer *p, struct emx_frame *h,
                                   enum emx_frame_type type, size_t body_bytes)
{
    h->type = (uint8_t)type;
    h->body_bytes = (uint16_t)body_bytes;
    h->dst_id = p->id;
    h->cookie = p->cookie;
    h->src_id = e->self.id;
    h->seq = 0;
}

/* Ack and credit. */
static inline void emx_engine_stamp(struct emx_session *s, struct emx_frame *h)
{
    h->ack = s->rx_next;
    h->credit = s->announced = emx_credit_limit(s);
}

/* tag.c: keyed tags of frames (ETHMX_AUTH=on) */
#define EMX_SEAL_TAG (EMX_CHECKSUM_FULL + 1)
bool emx_tag_open(struct emx_session *s); /* false: no memory */
void emx_tag_put(struct emx_session *s, struct emx_frame *h, struct emx_txframe *f);
/* Of a frame from a link with tags. EMX_ACCEPTED: behind its tag is a frame of t->frame_bytes, to be checked as any. */
enum emx_drop emx_tag_check(struct emx_engine *e, const uint8_t *data, uint32_t len_bytes);
void emx_tag_greeted(struct emx_engine *e,
                     const uint8_t *data); /* a hello that was accepted, perhaps the first frame */
/* How frames over a link are sealed, and what that takes from the length. */
static inline unsigned emx_tag_level(const struct emx_engine *e, unsigned link, unsigned checksum)
{
    return e->tagged_links >> link & 1 ? EMX_SEAL_TAG : checksum;
}
static inline unsigned emx_tag_bytes(const struct emx_engine *e, unsigned link)
{
    return e->tagged_links >> link & 1 ? sizeof(struct emx_tag) : 0;
}

/* The last step of every frame: h is complete but for what proves it whole, and *f tells its lengths and body. Before h
 * is room for a tag, and where there is a body, h is in a scratch. */
static inline void emx_engine_seal(struct emx_session *s, struct emx_frame *h, struct emx_txframe *f, unsigned level)
{
    if (__builtin_expect(level == EMX_SEAL_TAG, 0)) {
        emx_tag_put(s, h, f);
        return;
    }
    f->head = h;
    emx_frame_seal(h, f->head_bytes, f->body, f->body_bytes, level);
}

/* eager.c, rndv.c, self.c: message classes. input_* return EMX_ACCEPTED or the reason for dropping; DROP_MEMORY means
 * "not now, send it again". */
struct emx_eager_source { /* what an eager message is made from */
    const struct ethmx_data *data;
    const uint8_t *am_header;
    uint32_t total_bytes; /* header and data */
    uint16_t am_header_bytes;
    uint16_t flags;
    uint32_t op;
    uint64_t bits;
};
bool emx_eager_compact(struct emx_session *s, const struct emx_eager_source *m, unsigned frames); /* false: no memory */
size_t emx_eager_room(const struct emx_session *s); /* data in a message of one frame */
unsigned emx_eager_frames(const struct emx_session *s, uint64_t total_bytes);
/* Whether a message goes eagerly to this peer, and whether nothing is in its way. */
bool emx_eager_suits(const struct emx_session *s, const struct ethmx_data *data, size_t total_bytes);
bool emx_eager_now(const struct emx_session *s, const struct emx_op_args *a);
void emx_eager_count(struct emx_session *s, uint64_t len_bytes, unsigned frames); /* one has been sent, in so many */
/* The frame that begins with the byte at offset: what it brings, its headers' length, and its headers. */
size_t emx_eager_part(const struct emx_session *s, uint64_t total_bytes, size_t offset);
static inline size_t emx_eager_head_bytes(size_t offset)
{
    return sizeof(struct emx_frame) + (offset ? sizeof(struct emx_f_more) : sizeof(struct emx_f_eager));
}
void emx_eager_head(struct emx_session *s, const struct emx_eager_source *m, size_t offset, size_t n,
                    struct emx_frame *h);
bool emx_eager_continue(struct emx_session *s, struct emx_op *op); /* true: all of it is in the window */
enum emx_drop emx_eager_input(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_eager_input_compact(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_eager_input_short(struct emx_engine *e, const uint8_t *data, uint32_t len_bytes, emx_time now);
/* A message of which n bytes have come. The fields of f have been checked. */
enum emx_drop emx_eager_accept(struct emx_session *s, const struct emx_f_eager *f, const uint8_t *from, size_t n);
enum emx_drop emx_eager_input_more(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_eager_input_matched(struct emx_session *s, const uint8_t *data, emx_time now);
/* A receive takes an arrived eager message; frees it. NO_MEMORY: nothing has happened. */
int emx_eager_receive(struct emx_engine *e, struct emx_unexpected *a, struct emx_op *op);
int emx_eager_matched(struct emx_session *s, uint32_t sender_op); /* tells a synchronous sender; 0 or NO_MEMORY */

bool emx_rndv_announce(struct emx_session *s, struct emx_op *op, bool starved); /* false: no memory */
enum emx_drop emx_rndv_input_rts(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rndv_input_fin(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rndv_input_pull(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rndv_input_data(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_rndv_input_shorter(struct emx_session *s, const uint8_t *data, emx_time now);
/* A receive takes an announced message; frees the arrival. NO_MEMORY: nothing has happened. */
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

/* fast_path.c */
void emx_fast_open(struct emx_session *s); /* it is connected */

/* read.c: large messages read from the sender's memory */
uint64_t emx_read_address(const struct emx_session *s, const struct emx_op *op); /* to tell in the rts; 0: none */
bool emx_read_start(struct emx_session *s, struct emx_rndv *r, uint64_t remote, emx_time now); /* false: pull it */
void emx_read_ended(struct emx_engine *e, unsigned link); /* one has left the list */
/* The peer has failed. true: op's memory may be being written to: it completes when progress tells the read's end. */
bool emx_read_late(struct emx_op *op, int status);
void emx_read_spoke(struct emx_session *s, emx_time now);                    /* a frame went out */
void emx_read_trust(struct emx_session *s, emx_time asked_ns, emx_time now); /* what was asked then was answered */

/* rdma_get.c: large messages that devices read */
void emx_exported_route(struct emx_session *s, uint64_t min_bytes,
                        const struct emx_costs *costs);              /* min_bytes 0: none */
void emx_exported_round_trip(struct emx_session *s, emx_time ns);    /* one was measured */
void emx_exported_passed(struct emx_session *s, uint64_t len_bytes); /* a message went eagerly */
/* Whether a message that may go eagerly had better be read. */
bool emx_exported_pays(const struct emx_session *s, const struct ethmx_data *data);
bool emx_exported_start(struct emx_session *s, struct emx_op *op); /* false: no, or no memory */
void emx_exported_announced(struct emx_op *op, struct emx_txbuf *rts);
struct emx_exported *emx_exported_new(struct emx_session *s, struct emx_op *op); /* NULL: no memory */
void emx_exported_free(struct emx_exported *l);
void emx_exported_queue(struct emx_exported *l,
                        enum emx_export_what what); /* progress is to do this, and nothing else */
void emx_exported_unqueue(struct emx_exported *l);
void emx_exported_over(struct emx_op *op, int status); /* the operation is complete */
enum emx_drop emx_exported_input_ask(struct emx_session *s, const uint8_t *data, emx_time now);
bool emx_get_start(struct emx_session *s, struct emx_rndv *r, const struct emx_f_lent *lent); /* false: pull it */
enum emx_drop emx_get_input_lend(struct emx_session *s, const uint8_t *data, emx_time now);
void emx_get_next(const struct emx_rndv *r, struct emx_read *rd);
void emx_get_moved(struct emx_session *s, emx_time now); /* it is about to leave its link: the rest is pulled */
/* Keeps an operation that fails until no device is at its memory any more; false: none is. */
bool emx_get_sever(struct emx_engine *e, struct emx_op *op, int status);

/* rdma_put.c: large messages that the sender's device writes */
bool emx_put_start(struct emx_session *s, struct emx_rndv *r); /* false: no memory */
void emx_put_exposed(struct emx_exported *l, const struct emx_export *m, int status);
void emx_put_taken_back(struct emx_exported *l, emx_time now);
void emx_put_moved(struct emx_op *op);
bool emx_put_sever(struct emx_op *op, int status); /* as emx_get_sever(), of a receive */
enum emx_drop emx_put_input(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_put_input_done(struct emx_session *s, const uint8_t *data, emx_time now);
bool emx_put_next(struct emx_engine *e, unsigned link, struct emx_read *w); /* false: nothing is to be written */
void emx_put_write_started(struct emx_op *op, int status);
void emx_put_write_ended(struct emx_op *op, uint64_t remote, uint64_t len_bytes, int status);
void emx_put_forget(struct emx_exported *l); /* what was offered and not answered */

int emx_self_send(struct emx_engine *e, struct emx_peer *p, const struct emx_op_args *a, emx_time now);
void emx_self_receive(struct emx_engine *e, struct emx_unexpected *a, struct emx_op *op);

/* op.c */
struct emx_op *emx_op_new(struct emx_engine *e, const struct emx_op_args *a, emx_time now); /* NULL: no memory */
struct emx_op *emx_op_new_send(struct emx_engine *e, struct emx_peer *p, const struct emx_op_args *a, emx_time now);
void emx_op_queue(struct emx_session *s, struct emx_op *op); /* a send that waits for room in the window */
void emx_op_depend(struct emx_engine *e, struct emx_op *op, struct emx_peer *p); /* fails when the peer does */
struct emx_op *emx_op_by_id(struct emx_engine *e, uint32_t id, const struct emx_session *s);
bool emx_op_take_id(struct emx_engine *e, struct emx_op *op);
bool emx_op_reserve_id(struct emx_engine *e); /* the next emx_op_take_id() succeeds */
void emx_op_drop_id(struct emx_engine *e, struct emx_op *op);
/* It is over with this status, but for what devices do to its memory. */
void emx_op_hold(struct emx_engine *e, struct emx_op *op, int status);
void emx_op_await(struct emx_op *op); /* a send waits for the peer's program */
/* A receive waits for the rest of a message of p. */
void emx_op_expect(struct emx_engine *e, struct emx_op *op, struct emx_peer *p);
void emx_op_complete(struct emx_engine *e, struct emx_op *op, int status);
void emx_op_received(struct emx_engine *e, struct emx_op *op, uint64_t msg_bytes); /* status by length */
void emx_op_recycle(struct emx_engine *e, struct emx_op *op);
struct emx_op *emx_op_match(struct emx_engine *e, uint64_t bits, struct emx_peer *p); /* a message arrived */

/* unexpected.c */
struct emx_unexpected *emx_unexpected_new(struct emx_engine *e, struct emx_session *s,
                                          size_t buf_bytes); /* NULL: memory */
void emx_unexpected_free(struct emx_engine *e, struct emx_unexpected *a);
void emx_unexpected_queue(struct emx_engine *e, struct emx_unexpected *a, struct emx_peer *p,
                          uint64_t bits);                                 /* unexpected */
void emx_unexpected_take(struct emx_engine *e, struct emx_unexpected *a); /* out of matching */
bool emx_unexpected_lost(const struct emx_unexpected *a);               /* its sender is gone and took the rest along */
void emx_unexpected_am(struct emx_engine *e, struct emx_unexpected *a); /* ready for its handler */
int emx_unexpected_release(struct emx_engine *e, struct emx_unexpected *a); /* unread; NO_MEMORY: still there */

/* engine.c */
/* A frame that was put together, of the link of the frame being handled, to its handler. Not counted. */
enum emx_drop emx_engine_dispatch(struct emx_engine *e, const uint8_t *data, uint32_t len_bytes, emx_time now);
uint8_t *emx_engine_stage(struct emx_engine *e, unsigned i);  /* EMX_FRAME_MAX bytes for scattered data; NULL: memory */
void emx_engine_tick_arm(struct emx_engine *e, emx_time now); /* somebody waits */

#endif
