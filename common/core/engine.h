/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Engine: the protocol of one endpoint, over all its links. Pure: no system call, clock, environment, lock or global.
 * It is driven by: a frame came in; time is now t; what do you want to send?
 *
 * Progress (progress/progress.c) does, with time that never goes backwards:
 *     frames received  -> emx_engine_input() each
 *     deadline reached -> emx_engine_expire()
 *     then, per link   -> emx_engine_output() until it has nothing, or the wire has no room
 *     and              -> emx_engine_export() and _lending_done() while there is something, then output once more
 *     and              -> emx_engine_read() and _read_done(), some at a time while emx_engine_wants_read()
 *     then             -> emx_engine_event(), emx_engine_completed(), emx_engine_am() until empty
 * Contract: with output drained on all links, emx_engine_deadline() > now or EMX_NEVER.
 *
 * A *link* is a number progress gives to a wire it has open. A *route* is a way to a peer: a link, the wire's form of
 * the address, and the longest frame both ends take there.
 */
#ifndef EMX_CORE_ENGINE_H
#define EMX_CORE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/config.h"
#include "base/list.h"
#include "base/stats.h"
#include "base/txframe.h"
#include "ethmx.h"
#include "core/format/address.h"
#include "core/format/frame.h"
#include "core/time.h"

#define EMX_ENGINE_LINKS 8 /* wires that an endpoint may have open */
#define EMX_ROUTES_MAX   8

struct emx_engine;
struct emx_peer;
struct emx_exported;   /* the engine's own */
struct emx_op;         /* a send or receive under way: struct ethmx_req to the outside */
struct emx_unexpected; /* a message taken out of matching: struct ethmx_message to the outside */

struct emx_engine_params {
    const struct emx_config *cfg;
    struct emx_stats *stats;
    const struct emx_alloc *alloc;
    const struct emx_address *self; /* copied; id and cookie are what arriving frames must carry. auth: with a secret */
    uint64_t seed;                  /* for jitter; nothing else is random here */
    unsigned guarded_links;         /* mask: frames there need no tag (emx_wire_attr.guarded) */
    unsigned reliable_links;        /* mask: frames there are never lost or damaged; the links of reliable routes */
    unsigned local_ranks;           /* of the job on this host, which share its links; 0: unknown */
};

/* ETHMX_ERR_NO_MEMORY. cfg, stats and alloc must outlive the engine. */
int emx_engine_create(const struct emx_engine_params *params, struct emx_engine **e_p);
/* Frees all, peers, operations and messages included, without completing them. */
void emx_engine_destroy(struct emx_engine *e);

/* ---- Peers ---- */

/* Finds or makes the peer of this encoded address, as the launcher told it. ETHMX_ERR_PARAM (err has a sentence: it is
 * no address, or one of us has authentication and the other not), ETHMX_ERR_NO_MEMORY. */
int emx_engine_peer(struct emx_engine *e, const void *addr, size_t len_bytes, struct emx_peer **peer_p, char *err,
                    size_t err_len_bytes);

/* As ethmx_peer_remove(). The peer may not be in progress' hands: no event of it is being answered. */
int emx_engine_remove(struct emx_engine *e, struct emx_peer *peer, bool force, emx_time now);

struct emx_route {
    uint8_t link;
    uint16_t frame_bytes;
    uint16_t gso_bytes;        /* longest frame that may travel in a GSO packet, 0: none does */
    bool reliable;             /* the wire loses, doubles and reorders nothing: no acknowledgements, no copies kept */
    bool connected;            /* the wire has connections, and frames are lost only with one: none for its length, none
                                  is damaged */
    bool reads;                /* the receiver of a large message may read it from the sender's memory */
    uint64_t export_min_bytes; /* a device may, if it is so long; 0: none can */
    const struct emx_costs *export_costs; /* what it saves beside going eagerly; NULL: not known. Outlives the engine */
    struct emx_wire_addr to;
    char name[24]; /* "packet eth0", for people */
};

/* Answers EMX_EVENT_ROUTES: the ways to the peer, best first; n 0: there is none, and why says so. The engine tries
 * them in order with a small and a full-sized hello. */
void emx_engine_routes(struct emx_engine *e, struct emx_peer *peer, const struct emx_route *r, unsigned n,
                       const char *why, emx_time now);

/* The wire of this link has given up reaching `to` (emx_wire_ops.unreachable): the peer connected that way is sent to
 * over the next of its routes from now on, if there is one over another wire that may lose frames as this one did. */
void emx_engine_unreached(struct emx_engine *e, unsigned link, const struct emx_wire_addr *to, emx_time now);

/* What is known of a peer's address: that which it was made from, or what its hello told; valid until the next call. */
const struct emx_address *emx_peer_address(struct emx_engine *e, const struct emx_peer *peer);
/* That which it was made from, whatever was learned since; valid until the next call. */
const struct emx_address *emx_peer_given_address(struct emx_engine *e, const struct emx_peer *peer);
/* Its host, for people; valid until the next call. */
const char *emx_peer_host(struct emx_engine *e, const struct emx_peer *peer);
void *emx_peer_user(const struct emx_peer *peer);
void emx_peer_set_user(struct emx_peer *peer, void *user);
/* Name, frame length, rtt, state, memory; host, wire and interface from the route's name and the address. */
void emx_peer_query(struct emx_engine *e, const struct emx_peer *peer, struct ethmx_peer_info *info_p);

/* ---- Operations: results as the functions of ethmx.h with the same names ---- */

struct emx_op_args {
    uint64_t bits, mask; /* mask: receives */
    struct ethmx_data data;
    enum ethmx_send_mode mode; /* sends */
    bool is_am;                /* sends: bits is the handler */
    const void *am_header;
    size_t am_header_bytes;
    ethmx_done_fn done;
    void *arg;
};

int emx_engine_send(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *a, emx_time now);
/* The fast path of a short message: whether it can be sent in this moment as one frame, over which link. */
bool emx_engine_fast(const struct emx_peer *peer, const struct emx_op_args *a, unsigned *link_p);
/* Sends it, if emx_engine_fast() just said so and the link's wire has room. *f is its frame, for the wire to take
 * before anything else is done with the engine or the message's data. ETHMX_OK, ETHMX_ERR_NO_MEMORY. */
int emx_engine_send_fast(struct emx_peer *peer, const struct emx_op_args *a, struct emx_txframe *f, emx_time now);
/* The same without a copy, for a wire that gives memory to write the frame to. emx_engine_reserve() tells how long it
 * is, and to whom it goes; 0: send_quick must do it. write_placed() writes it, send_placed() is told when it is on its
 * way: what is only counted need not stand before that. lately: as with emx_engine_input(). */
uint32_t emx_engine_reserve(const struct emx_peer *peer, const struct emx_op_args *a,
                            const struct emx_wire_addr **to_p);
void emx_engine_write_reserved(struct emx_peer *peer, const struct emx_op_args *a, void *frame);
void emx_engine_commit(struct emx_peer *peer, const struct emx_op_args *a, emx_time lately);

/* A message of several frames, likewise written to where the wire wants them (reserve.c), one after the other:
 * begin(): whether that can be done now, over which link. Then, until next() says 0 or the wire has no room: next()
 * tells how long the next frame is and to whom it goes, fill() writes it, and the wire sends it. At last end():
 * ETHMX_OK, or ETHMX_INPROGRESS: the rest waits. No frame sent: there is nothing to end, emx_engine_send() must do it.
 * Nothing else may be done with the engine meanwhile. */
struct emx_reservation {
    struct emx_peer *peer;
    const struct emx_op_args *a;
    size_t done_bytes;
};
bool emx_engine_reserve_begin(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *a,
                              struct emx_reservation *p_p, unsigned *link_p);
uint32_t emx_engine_reserve_next(const struct emx_reservation *p, const struct emx_wire_addr **to_p);
void emx_engine_reserve_fill(struct emx_reservation *p, void *frame, uint32_t len_bytes);
int emx_engine_reserve_end(struct emx_reservation *p, emx_time now);

int emx_engine_recv(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *a, struct emx_op **op_p,
                    struct ethmx_result *result_p, emx_time now);
/* Whether the next emx_engine_recv() starts no timer, so that now may be a time told before. */
bool emx_engine_posts_timeless(const struct emx_engine *e);
int emx_engine_cancel(struct emx_engine *e, struct emx_op *op);
int emx_engine_probe(struct emx_engine *e, struct emx_peer *peer, uint64_t bits, uint64_t mask,
                     struct emx_unexpected **msg_p /* NULL: leave it */, struct ethmx_result *result_p);
int emx_engine_mrecv(struct emx_engine *e, struct emx_unexpected *msg, const struct emx_op_args *a,
                     struct ethmx_result *result_p, emx_time now);
/* Gives a message back unread; its sender completes. */
void emx_engine_release(struct emx_engine *e, struct emx_unexpected *msg, emx_time now);
/* As ethmx_match_ignore(). */
void emx_engine_match_ignore(struct emx_engine *e, uint64_t bits);
unsigned emx_engine_flush_unexpected(struct emx_engine *e, uint64_t bits, uint64_t mask, emx_time now);

/* ---- Progress' side ---- */

/* A frame from link. Keeps nothing of data after return. Counts what it drops. EMX_DROP_MEMORY of a frame from a
 * reliable link: nobody sends it again, so progress must offer it again, before any later one of the link. */
enum emx_drop emx_engine_input(struct emx_engine *e, unsigned link, const uint8_t *data, uint32_t len_bytes,
                               emx_time now);

/* The fast path of a frame (fast_path.c): the next one of its session, a whole message that a posted receive takes. The
 * receive is over then, and the caller's as if emx_engine_completed() had returned it; so only while that would return
 * nothing. NULL: nothing has happened, and emx_engine_input() must do it. The first is for reliable links, and lately
 * may be a time told before. */
struct emx_op *emx_engine_input_short(struct emx_engine *e, unsigned link, const uint8_t *data, uint32_t len_bytes,
                                      emx_time lately);
struct emx_op *emx_engine_input_compact(struct emx_engine *e, unsigned link, const uint8_t *data, uint32_t len_bytes,
                                        emx_time now);

/* Whether a frame needs no look at the clock: now may then be a time told before. Such a frame starts no timer, and
 * what it proves, a sign of life, it proves for the earlier time too. */
static inline bool emx_engine_timeless(const uint8_t *data, uint32_t len_bytes)
{
    return len_bytes && data[0] == EMX_FRAME_V_SHORT;
}

/* The frame just accepted was the first of so many that came together. */
void emx_engine_joined(struct emx_engine *e, const uint8_t *data, unsigned parts);

/* The frame just accepted came with a mark of congestion. */
void emx_engine_marked(struct emx_engine *e, const uint8_t *data);

/* Up to max frames for link into f; returns how many. What f points to is valid until the next call of any
 * engine function: hand the frames to the wire first. */
unsigned emx_engine_output(struct emx_engine *e, unsigned link, struct emx_txframe *f, unsigned max, emx_time now);

/* What an idle poll looks at; every engine begins with it. */
struct emx_engine_ready {
    uint32_t output;        /* mask of links that may have frames to send */
    uint32_t reads;         /* mask of links over which something is to be read */
    uint32_t pending;       /* mask of enum emx_results */
    uint32_t deferred_acks; /* not 0: emx_engine_deferred_acks() has something to do */
    uint32_t memory;        /* mask of links over which memory is to be lent or given back */
    uint32_t in_flight;     /* reads and writes that devices are at */
};

enum emx_results {
    EMX_RESULT_EVENT = 1, /* emx_engine_event() has something, */
    EMX_RESULT_DONE = 2,  /* emx_engine_completed(), */
    EMX_RESULT_AM = 4     /* emx_engine_am() */
};

static inline const struct emx_engine_ready *emx_engine_ready(const struct emx_engine *e)
{
    return (const struct emx_engine_ready *)(const void *)e;
}

/* Whether output may have frames for link: cheap. */
static inline bool emx_engine_wants_output(const struct emx_engine *e, unsigned link)
{
    return emx_engine_ready(e)->output >> link & 1;
}

/* Peers that are or get connected over link. */
unsigned emx_engine_link_peers(const struct emx_engine *e, unsigned link);

/* A piece of a large message that is to be read from the sender's memory, or, by a device only, written to the
 * receiver's. */
struct emx_read {
    const struct emx_wire_addr *from; /* or to */
    uint64_t remote;                  /* address in the other process */
    void *local;
    size_t len_bytes;
    struct emx_op *op; /* the engine's own */
    uint64_t key;      /* whole not NULL: a device does it, with this key; */
    void *message;     /* the memory for all of the message, of which local is a part */
    size_t message_bytes;
    bool write;   /* from local to remote */
    bool lasting; /* local remains as it is until read_done() */
};

/* Whether there is something to read over link: cheap. The deadline does not tell of it. */
static inline bool emx_engine_wants_read(const struct emx_engine *e, unsigned link)
{
    return emx_engine_ready(e)->reads >> link & 1;
}

/* The next read over link; false: there is none. Progress does it with the wire's read() and tells its result:
 * ETHMX_OK, or any other status and the message is pulled in frames instead. now is read after the data were. If it is
 * lasting, it may take its time and go on with its rounds meanwhile, but takes no other read of the link before; the
 * memory does not become the program's again before the result is told, so it must be told before the engine is
 * destroyed. Otherwise the result is told before any other call of an engine function. */
bool emx_engine_read(struct emx_engine *e, unsigned link, struct emx_read *r);
void emx_engine_read_done(struct emx_engine *e, const struct emx_read *r, int status, emx_time now);

/* In its place for a read by a device. ETHMX_OK: it has begun, and emx_engine_read_ended() will tell its end, after
 * those that began before over the same connection. ETHMX_INPROGRESS: the key is of no use any more, another may be.
 * Otherwise: the message is pulled in frames. */
void emx_engine_read_started(struct emx_engine *e, const struct emx_read *r, int status, emx_time now);
/* op and remote: as of the read; len_bytes: its length. Not ETHMX_OK: nothing may be relied upon; but of a write that
 * ends with anything else than ETHMX_ERR_UNREACHABLE nothing more will be written. */
void emx_engine_read_ended(struct emx_engine *e, struct emx_op *op, uint64_t remote, uint64_t len_bytes, int status,
                           emx_time now);

/* What is to be done with the program's memory so that devices reach it, or do not any more (core/msg/rdma_get.c). */
enum emx_export_what {
    EMX_EXPORT_FOUND, /* expose it if that costs nothing. ETHMX_OK; ETHMX_INPROGRESS: not so; else: it can't be exposed,
                        or should not */
    EMX_EXPORT,       /* expose it. ETHMX_OK, or it can't be */
    EMX_UNEXPORT, /* unexport all that is held; if disconnect, end the connection to `to` before, or, if keyed, that of
                   * key
                   */
    EMX_EXPORT_DISCONNECT, /* end the connection to `to`: reads and writes under way end soon */
};

struct emx_export {
    enum emx_export_what what;
    bool disconnect, keyed;
    bool write; /* the peer is to write there */
    const struct emx_wire_addr *to;
    const void *base; /* the message, */
    size_t len_bytes;
    uint64_t offset;               /* of which memory from here on is exposed, */
    uint64_t done_bytes;           /* and what ends here, or before, concealed */
    void **held;                   /* the wire's: what is exposed */
    uint64_t key, end;             /* result: the key, for what lies between offset and end */
    bool kept;                     /* result: it was registered already */
    struct emx_exported *exported; /* the engine's own */
};

/* Takes the next; false: there is none. Progress does it and tells so before it calls any other engine function. */
bool emx_engine_export(struct emx_engine *e, unsigned link, struct emx_export *m);
void emx_engine_export_done(struct emx_engine *e, const struct emx_export *m, int status, emx_time now);
static inline bool emx_engine_wants_export(const struct emx_engine *e, unsigned link)
{
    return emx_engine_ready(e)->memory >> link & 1;
}

/* Does what was put off of a frame until its receiver had been told: what the frame acknowledged is looked at, and it
 * is acknowledged. Belongs into each round. */
void emx_engine_deferred_acks_now(struct emx_engine *e);
static inline void emx_engine_deferred_acks(struct emx_engine *e)
{
    if (emx_engine_ready(e)->deferred_acks)
        emx_engine_deferred_acks_now(e);
}

/* When emx_engine_expire() must be called; EMX_NEVER: nothing pending. */
emx_time emx_engine_deadline(const struct emx_engine *e);
void emx_engine_expire(struct emx_engine *e, emx_time now);

enum emx_event_type {
    EMX_EVENT_ROUTES,     /* answer with emx_engine_routes() */
    EMX_EVENT_CONNECTED,  /* text: the route's name */
    EMX_EVENT_ROUTE_LOST, /* text: a route that did not reach, why, and what is tried next */
    EMX_EVENT_NOTE,       /* text: something is slower than it could be, and why */
    EMX_EVENT_FAILED,     /* status, text: unreachable, dead; all its requests complete with status */
    EMX_EVENT_CLOSED,     /* said goodbye with nothing open: no error */
    EMX_EVENT_NARROWER,   /* text: a route takes shorter frames only than both ends believe */
};

struct emx_event {
    enum emx_event_type type;
    struct emx_peer *peer;
    int status;
    char text[640];
};

/* Whether emx_engine_event(), emx_engine_completed() or emx_engine_am() would give something: cheap, for idle polls and
 * for going to sleep. */
static inline bool emx_engine_has_results(const struct emx_engine *e)
{
    return emx_engine_ready(e)->pending;
}

/* Takes the next event. */
bool emx_engine_event(struct emx_engine *e, struct emx_event *ev_p);

/* Takes the next completed operation, or NULL. The caller runs op's callback and then frees it. */
struct emx_op *emx_engine_completed(struct emx_engine *e);
void emx_op_result(const struct emx_op *op, ethmx_done_fn *done_p, void **arg_p, struct ethmx_result *result_p);
/* How much data it was started with; of a receive: the room for it. */
size_t emx_op_data_bytes(const struct emx_op *op);
void emx_engine_op_free(struct emx_engine *e, struct emx_op *op);

/* Takes the next active message that a handler can have (whole, or announced by rts), or NULL. am_p is filled; bits
 * is the handler's number. Before the handler's peer's next message is taken, this one must be received (mrecv),
 * released or kept. */
struct emx_unexpected *emx_engine_am(struct emx_engine *e, struct ethmx_am *am_p, unsigned *id_p);
/* Puts back a message whose handler is not registered yet; it comes again after emx_engine_am_retry(), before those
 * that have not been taken yet. */
void emx_engine_am_defer(struct emx_engine *e, struct emx_unexpected *msg);
void emx_engine_am_retry(struct emx_engine *e);

/* True when nothing is queued, unacknowledged or being pulled from us: safe to close. */
bool emx_engine_drained(const struct emx_engine *e);
/* Queues goodbyes to all peers that are connected, or may be; drain output afterwards. No further operations. */
void emx_engine_close(struct emx_engine *e, emx_time now);

/* Checks every internal invariant (counts, lists, windows, memory bounds); NULL, or what is wrong. For tests; slow. */
const char *emx_engine_check(const struct emx_engine *e);

/* Bytes allocated for the engine in all. */
size_t emx_engine_memory(const struct emx_engine *e);

#endif
