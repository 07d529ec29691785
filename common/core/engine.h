/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Engine: the protocol of one endpoint, over all its links. Pure: no system call, clock, environment, lock or global.
 * Its caller passes received frames and the time, and asks what to send.
 *
 * Progress (progress/progress.c) calls it, with a time that never decreases:
 *     frames received  -> emx_engine_input() each
 *     deadline reached -> emx_engine_expire()
 *     then, per link   -> emx_engine_output() until it has nothing, or the wire has no room
 *     and              -> emx_engine_export() and _export_done() while there is something, then output once more
 *     and              -> emx_engine_read() and _read_done(), some at a time while emx_engine_wants_read()
 *     then             -> emx_engine_event(), emx_engine_completed(), emx_engine_am() until empty
 * Contract: with output drained on all links, emx_engine_deadline() > now or EMX_NEVER.
 *
 * A *link* is a number that progress gives to an open wire. A *route* is a way to a peer: a link, the wire's form of
 * the address, and the longest frame that both ends take there.
 */
#ifndef EMX_CORE_ENGINE_H
#define EMX_CORE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/config.h"
#include "base/list.h"
#include "base/placement.h"
#include "base/stats.h"
#include "base/txframe.h"
#include "ethmx.h"
#include "ethmx_remote.h"
#include "core/format/address.h"
#include "core/format/frame.h"
#include "core/time.h"

#define EMX_ENGINE_LINKS 8 /* wires that an endpoint may have open */
#define EMX_ROUTES_MAX   8
#define EMX_RAILS_MAX    4 /* of these, through cards of their own, used at once */

struct emx_engine;
struct emx_peer;
struct emx_exported;   /* private to the engine */
struct emx_op;         /* a send or receive in progress; public as struct ethmx_req */
struct emx_unexpected; /* a message taken out of matching; public as struct ethmx_message */

struct emx_engine_params {
    const struct emx_config *cfg;
    struct emx_stats *stats;
    const struct emx_alloc *alloc;
    const struct emx_address *self; /* copied; received frames must carry its id and cookie. auth: with a secret */
    uint64_t seed;                  /* for jitter, the only random part */
    unsigned guarded_links;         /* mask: frames there need no tag (emx_wire_attr.guarded) */
    unsigned reliable_links;        /* mask: frames there are never lost or damaged; the links of reliable routes */
    unsigned local_ranks;           /* of the job on this host, which share its links; 0: unknown */
};

/* ETHMX_ERR_NO_MEMORY. cfg, stats and alloc must outlive the engine. */
int emx_engine_create(const struct emx_engine_params *params, struct emx_engine **e_p);
/* Frees everything, including peers, operations and messages, without completing them. */
void emx_engine_destroy(struct emx_engine *e);

/* ---- Peers ---- */

/* Finds or creates the peer of this encoded address, as the launcher passed it. ETHMX_ERR_PARAM (err has a sentence: it
 * is no address, or only one end has authentication), ETHMX_ERR_NO_MEMORY. */
int emx_engine_peer(struct emx_engine *e, const void *addr, size_t len_bytes, struct emx_peer **peer_p, char *err,
                    size_t err_len_bytes);

/* As ethmx_peer_remove(). Progress must not be handling an event of the peer. */
int emx_engine_remove(struct emx_engine *e, struct emx_peer *peer, bool force, emx_time now);

struct emx_route {
    uint8_t link;
    uint16_t frame_bytes;
    uint16_t gso_bytes;      /* longest frame that may travel in a GSO packet, 0: none does */
    uint8_t more_bytes;      /* by which its headers are longer than those of IPv4 and UDP */
    uint8_t card;            /* number of the interface that it leaves through; a number of its own if there is none */
    uint8_t theirs;          /* the peer's interface: its number in the peer's address + 1; 0: none */
    bool by_ip : 1, tso : 1; /* the wire needs the interface's IP address; GSO packets may be TSO packets */
    bool down, lost;         /* its interface, or the peer's, carries nothing now (emx_engine_interface()) */
    bool guess;              /* unlikely to lead to the peer: tried for a shorter time, at first */
    bool reliable;           /* the wire loses, duplicates and reorders nothing: no acknowledgements, no copies kept */
    bool connected; /* the wire has connections: frames are lost only with one, never for their length, and never
                       damaged */
    bool reads;     /* the receiver of a large message may read it from the sender's memory */
    uint64_t export_min_bytes;            /* a device may read messages of this length or more; 0: none can */
    const struct emx_costs *export_costs; /* saving compared with eager messages; NULL: unknown. Outlives the engine */
    struct emx_wire_addr to;
    char name[24]; /* "packet eth0", for people */
};

/* Replies to EMX_EVENT_ROUTES: the ways to the peer, best first; n 0: there is none, and why has the reason. The engine
 * tries them in order with a small and a full-sized hello. */
void emx_engine_routes(struct emx_engine *e, struct emx_peer *peer, const struct emx_route *r, unsigned n,
                       const char *why, emx_time now);

/* The wire of this link has given up reaching `to` (emx_wire_ops.unreachable). A peer that is connected that way uses
 * its next route from now on, if there is one over another wire that may lose frames as this one did. */
void emx_engine_unreached(struct emx_engine *e, unsigned link, const struct emx_wire_addr *to, emx_time now);

struct emx_interface {    /* the state of an interface of this host */
    const char *why;      /* what it lacks, for people; NULL: nothing. Then the routes are requested again */
    uint8_t card;         /* its number in routes */
    unsigned numbers;     /* mask: in this endpoint's address */
    bool carries, has_ip; /* it is up and has a carrier; it has the IP address that peers know */
};

/* It has changed. Peers over one that carries nothing take their next route and are told; they return later. */
void emx_engine_interface(struct emx_engine *e, const struct emx_interface *i, emx_time now);
/* Interfaces have other addresses than before: those in self, which is the same otherwise. Peers are told. */
void emx_engine_moved(struct emx_engine *e, const struct emx_address *self, emx_time now);

/* What is known of a peer's address: the given address, or that of its hello. Valid until the next call. */
const struct emx_address *emx_peer_address(struct emx_engine *e, const struct emx_peer *peer);
/* The address that the peer was created from. Valid until the next call. */
const struct emx_address *emx_peer_given_address(struct emx_engine *e, const struct emx_peer *peer);
/* Its host, for messages to the user; valid until the next call. */
const char *emx_peer_host(struct emx_engine *e, const struct emx_peer *peer);
void *emx_peer_user(const struct emx_peer *peer);
void emx_peer_set_user(struct emx_peer *peer, void *user);
/* Name, frame length, rtt, state, memory; host, wire and interface from the route's name and the address. */
void emx_peer_query(struct emx_engine *e, const struct emx_peer *peer, struct ethmx_peer_info *info_p);

/* ---- Operations: results as the functions of ethmx.h with the same names ---- */

enum emx_kind {
    EMX_KIND_TAGGED,
    EMX_KIND_AM,       /* bits is the handler */
    EMX_KIND_REMOTE,   /* a tagged message with remote data */
    EMX_KIND_UNTAGGED, /* with remote data or without */
};

struct emx_op_args {
    uint64_t bits, mask; /* mask: receives */
    struct ethmx_data data;
    enum ethmx_send_mode mode; /* sends */
    uint8_t kind;              /* enum emx_kind; receives: TAGGED or UNTAGGED */
    const void *am_header;     /* not AM: EMX_REMOTE_BYTES of remote data */
    size_t am_header_bytes;
    ethmx_done_fn done;
    void *arg;
};

int emx_engine_send(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *a, emx_time now);
/* The fast path of a short message: whether it can be sent now as one frame, and over which link. */
bool emx_engine_fast(const struct emx_peer *peer, const struct emx_op_args *a, unsigned *link_p);
/* Sends it, after emx_engine_fast() has returned true, if the link's wire has room. *f is its frame, which the wire
 * must take before the next use of the engine or the message's data. ETHMX_OK, ETHMX_ERR_NO_MEMORY. */
int emx_engine_send_fast(struct emx_peer *peer, const struct emx_op_args *a, struct emx_txframe *f, emx_time now);
/* The same without a copy, for a wire that provides memory for the frame. emx_engine_reserve() returns the length and
 * the destination; 0: call emx_engine_send_fast(). emx_engine_write_reserved() writes the frame. emx_engine_commit() is
 * called after it has left, because counting can wait. lately: as with emx_engine_input(). */
uint32_t emx_engine_reserve(const struct emx_peer *peer, const struct emx_op_args *a,
                            const struct emx_wire_addr **to_p);
void emx_engine_write_reserved(struct emx_peer *peer, const struct emx_op_args *a, void *frame);
void emx_engine_commit(struct emx_peer *peer, const struct emx_op_args *a, emx_time lately);

/* A message of several frames, written in the same way (reserve.c), one after the other. begin(): whether that is
 * possible now, and over which link. Then, until next() returns 0 or the wire has no room: next() returns the length
 * and destination of the next frame, fill() writes it, and the wire sends it. Finally end(): ETHMX_OK, or
 * ETHMX_INPROGRESS: the rest waits. If no frame was sent, call emx_engine_send() instead of end(). No other use of the
 * engine is allowed meanwhile. */
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

/* result_p NULL: it never completes at once. posts_timeless: the next one starts no timer, so now may be earlier. */
int emx_engine_recv(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *a, struct emx_op **op_p,
                    struct ethmx_result *result_p, emx_time now);
bool emx_engine_posts_timeless(const struct emx_engine *e);
int emx_engine_cancel(struct emx_engine *e, struct emx_op *op);
int emx_engine_probe(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *a,
                     struct emx_unexpected **msg_p /* NULL: leave it */, struct ethmx_result *result_p,
                     struct ethmx_remote *remote_p /* NULL: not wanted */);
/* The remote data of a message that was taken out of matching, or of a receive that has completed. */
struct ethmx_remote emx_unexpected_remote(const struct emx_unexpected *msg);
struct ethmx_remote emx_op_remote(const struct emx_op *op);
int emx_engine_mrecv(struct emx_engine *e, struct emx_unexpected *msg, const struct emx_op_args *a,
                     struct ethmx_result *result_p, emx_time now);
/* Returns a message unread; its sender completes. */
void emx_engine_release(struct emx_engine *e, struct emx_unexpected *msg, emx_time now);
void emx_engine_match_ignore(struct emx_engine *e, uint64_t bits);
unsigned emx_engine_flush_unexpected(struct emx_engine *e, uint64_t bits, uint64_t mask, emx_time now);

/* ---- For progress ---- */

/* Handles a frame from link. Keeps no reference to data. Counts what it drops. If it returns EMX_DROP_MEMORY for a
 * frame from a reliable link, progress must pass the frame again, before any later one of the link, because it is not
 * retransmitted. */
enum emx_drop emx_engine_input(struct emx_engine *e, unsigned link, const uint8_t *data, uint32_t len_bytes,
                               emx_time now);

/* The same for a frame whose data the wire has put into its place: it lies at body, not behind the head. */
enum emx_drop emx_engine_input_placed(struct emx_engine *e, unsigned link, const uint8_t *head, const void *body,
                                      uint32_t len_bytes, emx_time now);

/* Fills in the functions by which wires learn the places of data. */
void emx_engine_placer(struct emx_engine *e, struct emx_placer *placer_p);

/* The fast path of a frame (fast_path.c): the next one of its session, with a complete message for which a receive is
 * posted. The receive is complete then, and belongs to the caller, as if emx_engine_completed() had returned it. So
 * this may be called only while that would return NULL. NULL: nothing was done, and emx_engine_input() must handle the
 * frame. The first is for reliable links; lately may be an earlier time. */
struct emx_op *emx_engine_input_short(struct emx_engine *e, unsigned link, const uint8_t *data, uint32_t len_bytes,
                                      emx_time lately);
struct emx_op *emx_engine_input_compact(struct emx_engine *e, unsigned link, const uint8_t *data, uint32_t len_bytes,
                                        emx_time now);

/* Whether a frame can be handled without reading the clock: now may be an earlier time. Such a frame starts no timer,
 * and is a sign of life at the earlier time too. */
static inline bool emx_engine_timeless(const uint8_t *data, uint32_t len_bytes)
{
    return len_bytes && data[0] == EMX_FRAME_V_SHORT;
}

/* The frame just accepted was the first of so many that were joined; 0: it counts however many these are. */
void emx_engine_joined(struct emx_engine *e, const uint8_t *data, unsigned parts, bool tso);

/* The frame just accepted had a congestion mark. */
void emx_engine_marked(struct emx_engine *e, const uint8_t *data);

/* Writes up to max frames for link to f; returns how many. What f points to is valid until the next call of any engine
 * function: pass the frames to the wire first. */
unsigned emx_engine_output(struct emx_engine *e, unsigned link, struct emx_txframe *f, unsigned max, emx_time now);

/* Read by idle polls; the first member of every engine. */
struct emx_engine_ready {
    uint32_t output;        /* mask of links that may have frames to send */
    uint32_t reads;         /* mask of links over which data is to be read */
    uint32_t pending;       /* mask of enum emx_results */
    uint32_t deferred_acks; /* not 0: emx_engine_deferred_acks() has something to do */
    uint32_t memory;        /* mask of links over which memory is to be exported or unexported */
    uint32_t in_flight;     /* reads and writes in progress at devices */
};

enum emx_results {
    EMX_RESULT_EVENT = 1, /* emx_engine_event() has something */
    EMX_RESULT_DONE = 2,  /* emx_engine_completed() has something */
    EMX_RESULT_AM = 4     /* emx_engine_am() has something */
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

/* Number of peers that are connected over link, or about to be. */
unsigned emx_engine_link_peers(const struct emx_engine *e, unsigned link);

/* A part of a large message to be read from the sender's memory, or, by a device only, to be written to the receiver's.
 */
struct emx_read {
    const struct emx_wire_addr *from; /* source, or destination of a write */
    uint64_t remote;                  /* address in the other process */
    void *local;
    size_t len_bytes;
    struct emx_op *op; /* private to the engine */
    uint64_t key;      /* if message is not NULL, a device moves the data, with this key */
    void *message;     /* memory of the complete message, of which local is a part */
    size_t message_bytes;
    bool write;   /* from local to remote */
    bool lasting; /* local stays valid until read_done() */
};

/* Whether there is something to read over link: cheap. Not included in the deadline. */
static inline bool emx_engine_wants_read(const struct emx_engine *e, unsigned link)
{
    return emx_engine_ready(e)->reads >> link & 1;
}

/* The next read over link; false: there is none. Progress calls the wire's read() and reports the result: ETHMX_OK;
 * with any other status the message is pulled in frames. now is read after the data was read. If r is lasting, progress
 * may continue with its rounds before it reports the result, but takes no other read of the link. The memory belongs to
 * the engine until then, so the result must be reported before the engine is destroyed. If r is not lasting, the result
 * is reported before any other call of an engine function. */
bool emx_engine_read(struct emx_engine *e, unsigned link, struct emx_read *r);
void emx_engine_read_done(struct emx_engine *e, const struct emx_read *r, int status, emx_time now);

/* Called instead of emx_engine_read_done() for a read by a device. ETHMX_OK: it has begun, and emx_engine_read_ended()
 * will report its end, after those of earlier reads over the same connection. ETHMX_INPROGRESS: the key is no longer
 * valid, another may be. Otherwise: the message is pulled in frames. */
void emx_engine_read_started(struct emx_engine *e, const struct emx_read *r, int status, emx_time now);
/* op and remote: as in the read; len_bytes: its length. If status is not ETHMX_OK, the data is undefined. A write may
 * still change memory later only if status is ETHMX_ERR_UNREACHABLE. */
void emx_engine_read_ended(struct emx_engine *e, struct emx_op *op, uint64_t remote, uint64_t len_bytes, int status,
                           emx_time now);

/* What to do with the program's memory so that devices can access it, or cannot any more (core/msg/rdma_get.c). */
enum emx_export_what {
    EMX_EXPORT_FOUND, /* export it if that is free. ETHMX_OK; ETHMX_INPROGRESS: it is not free; else: it cannot or
                         should not be exported */
    EMX_EXPORT,       /* export it. ETHMX_OK, or an error */
    EMX_UNEXPORT, /* unexport all that is held. If disconnect: end the connection to `to` before, or, if keyed, that of
                     key */
    EMX_EXPORT_DISCONNECT, /* end the connection to `to`: reads and writes in progress end soon */
};

struct emx_export {
    enum emx_export_what what;
    bool disconnect, keyed;
    bool write; /* the peer writes there */
    const struct emx_wire_addr *to;
    const void *base; /* the message */
    size_t len_bytes;
    uint64_t offset;               /* export from here on */
    uint64_t done_bytes;           /* unexport what ends here or before */
    void **held;                   /* of the wire: what is exported */
    uint64_t key, end;             /* result: the key, for memory from offset to end */
    bool kept;                     /* result: it was registered already */
    struct emx_exported *exported; /* private to the engine */
};

/* Takes the next request; false: there is none. Progress executes it and reports the result before it calls any other
 * engine function. */
bool emx_engine_export(struct emx_engine *e, unsigned link, struct emx_export *m);
void emx_engine_export_done(struct emx_engine *e, const struct emx_export *m, int status, emx_time now);
static inline bool emx_engine_wants_export(const struct emx_engine *e, unsigned link)
{
    return emx_engine_ready(e)->memory >> link & 1;
}

/* Does the deferred work of a frame on the fast path: handles its acknowledgement, and acknowledges it. Called in each
 * round. */
void emx_engine_deferred_acks_now(struct emx_engine *e);
static inline void emx_engine_deferred_acks(struct emx_engine *e)
{
    if (emx_engine_ready(e)->deferred_acks)
        emx_engine_deferred_acks_now(e);
}

/* When emx_engine_expire() must be called; EMX_NEVER: no timer. */
emx_time emx_engine_deadline(const struct emx_engine *e);
void emx_engine_expire(struct emx_engine *e, emx_time now);

enum emx_event_type {
    EMX_EVENT_ROUTES,     /* reply with emx_engine_routes() */
    EMX_EVENT_CONNECTED,  /* text: the route's name */
    EMX_EVENT_ROUTE_LOST, /* text: a route that did not reach, why, and what is tried next */
    EMX_EVENT_NOTE,       /* text: why performance is reduced */
    EMX_EVENT_FAILED,     /* status, text: unreachable, dead; all its requests complete with status */
    EMX_EVENT_CLOSED,     /* the peer has closed its endpoint with no operation open: no error */
    EMX_EVENT_NARROWER,   /* text: a route takes only shorter frames than both ends have configured */
};

struct emx_event {
    enum emx_event_type type;
    struct emx_peer *peer;
    int status;
    char text[640];
};

/* Whether emx_engine_event(), emx_engine_completed() or emx_engine_am() would return something: cheap, for idle polls
 * and before a sleep. */
static inline bool emx_engine_has_results(const struct emx_engine *e)
{
    return emx_engine_ready(e)->pending;
}

/* Takes the next event. */
bool emx_engine_event(struct emx_engine *e, struct emx_event *ev_p);
/* Takes the next completed operation, or NULL. The caller runs op's callback and then frees it. */
struct emx_op *emx_engine_completed(struct emx_engine *e);
void emx_op_result(const struct emx_op *op, ethmx_done_fn *done_p, void **arg_p, struct ethmx_result *result_p);
/* The length of its data; for a receive: of its buffer. */
size_t emx_op_data_bytes(const struct emx_op *op);
void emx_engine_op_free(struct emx_engine *e, struct emx_op *op);

/* Takes the next active message for which a handler can run (complete, or announced by rts), or NULL. am_p is filled;
 * bits is the handler's number. Before the next message of this peer and handler is taken, this one must be received
 * (mrecv), released or kept. */
struct emx_unexpected *emx_engine_am(struct emx_engine *e, struct ethmx_am *am_p, unsigned *id_p);
/* Puts back a message whose handler is not registered yet. It returns after emx_engine_am_retry(), before those that
 * have not been taken yet. */
void emx_engine_am_defer(struct emx_engine *e, struct emx_unexpected *msg);
void emx_engine_am_retry(struct emx_engine *e);

/* True if nothing is queued, unacknowledged or still to be pulled by a peer: safe to close. */
bool emx_engine_drained(const struct emx_engine *e);
/* Queues close frames to all peers that are connected, or may be. Drain output afterwards. No further operations. */
void emx_engine_close(struct emx_engine *e, emx_time now);

/* Checks every internal invariant (counts, lists, windows, memory bounds). NULL, or what is wrong. For tests; slow. */
const char *emx_engine_check(const struct emx_engine *e);
size_t emx_engine_memory(const struct emx_engine *e); /* total bytes allocated for it */

#endif
