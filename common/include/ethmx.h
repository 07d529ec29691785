/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ethmx: MPI messages straight over Ethernet. The public interface of libethmx, all that an adapter may include.
 *
 * Objects: an *endpoint* (one per process) talks to *peers* (other endpoints, known by an opaque address that the
 * launcher carries). Messages have 64 match bits. Operations are non-blocking: they either finish in the call
 * (ETHMX_OK) or go on (ETHMX_INPROGRESS) and report to a callback that runs inside ethmx_progress().
 *
 * Threads: an endpoint opened with thread_multiple may be used by any number of threads at once; otherwise by one
 * thread at a time. Callbacks run in the thread that called ethmx_progress(), with no lock held: they may start new
 * operations, but must not call ethmx_progress() or ethmx_ep_close() themselves.
 *
 * Order: messages from one peer match in the order they were sent, as MPI demands; between peers there is none.
 *
 * Structures. Those that the library allocates may get more fields at their end in a later version. So may those with
 * struct_bytes, which the program sets to their sizeof: the library then knows which fields the program has. The others
 * stay as they are within a major version. Initialize structures ({.field = ...}), so that new fields are 0.
 *
 * Errors are negative. For calls that open or configure, ethmx_error_text() has a sentence for the person at the
 * terminal: what happened, where, what to do.
 */
#ifndef ETHMX_H
#define ETHMX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library is compiled with hidden visibility; what is declared here is seen outside. */
#pragma GCC visibility push(default)

#define ETHMX_API_VERSION      4   /* changes when a program must be rebuilt; checked by ethmx_ep_open() */
#define ETHMX_ADDRESS_MAX      256 /* bytes of the longest endpoint address */
#define ETHMX_ADDRESS_LAUNCHER 56  /* bytes of the longest that ethmx_ep_address() writes, for a launcher to carry */
#define ETHMX_AM_HEADER_MAX    512
#define ETHMX_AM_HANDLERS      64

/* The version of the library at run time, such as "1.0.0". */
const char *ethmx_version(void);

enum ethmx_status {
    ETHMX_INPROGRESS = 1, /* goes on; the callback will tell */
    ETHMX_OK = 0,
    ETHMX_ERR_TRUNCATED = -1,   /* the message was longer than the receive buffer, which is full */
    ETHMX_ERR_CANCELED = -2,    /* the receive was cancelled */
    ETHMX_ERR_PEER_DEAD = -3,   /* the peer stayed silent for ETHMX_PEER_TIMEOUT, or its process ended */
    ETHMX_ERR_UNREACHABLE = -4, /* no wire reached the peer */
    ETHMX_ERR_NO_WIRE = -5,     /* no wire is usable on this host */
    ETHMX_ERR_NO_MEMORY = -6,
    ETHMX_ERR_PARAM = -7,    /* an argument or an ETHMX_* variable is wrong */
    ETHMX_ERR_NO_MATCH = -8, /* a probe found nothing; a request is not cancellable any more */
    ETHMX_ERR_VERSION = -9,  /* built against another ETHMX_API_VERSION */
    ETHMX_ERR_CLOSED = -10,  /* the endpoint is closing, or the peer was removed */
    ETHMX_ERR_BUSY = -11,    /* operations with the peer are open, or something is to be done first */
    ETHMX_ERR_ACCESS = -12,  /* the peer has not exposed that memory (ethmx_rma.h) */
};

/* A short fixed text for a status. */
const char *ethmx_strerror(int status);

/* The full sentence of the calling thread's last failed call, never NULL. Valid until its next failed call. */
const char *ethmx_error_text(void);

struct ethmx_config;  /* settings */
struct ethmx_ep;      /* endpoint */
struct ethmx_peer;    /* a known other endpoint */
struct ethmx_req;     /* an operation under way; ours; gone after its callback has returned */
struct ethmx_message; /* a message taken out of matching by ethmx_improbe() or handed to an active-message handler */

/* ---- Configuration: one table for ETHMX_* variables, MCA parameters, documentation -------------------------- */

struct ethmx_param_info {
    const char *name;  /* lower case, without prefix: "eager_max" is ETHMX_EAGER_MAX */
    const char *deflt; /* default, as a user would write it */
    const char *range; /* legal values, for people */
    const char *help;  /* one sentence or two */
};

/* Row i of the table, or NULL past its end. Thread-safe. */
const struct ethmx_param_info *ethmx_param(unsigned i);

/* Makes a configuration from the defaults and the environment. The caller owns *cfg_p and destroys it.
 * A malformed ETHMX_* value is an error (ETHMX_ERR_PARAM, ethmx_error_text() names it); an unknown ETHMX_* name is
 * warned about on the log. ETHMX_ERR_NO_MEMORY. */
int ethmx_config_create(struct ethmx_config **cfg_p);
void ethmx_config_destroy(struct ethmx_config *cfg);

/* Sets one parameter. source (kept, not copied: a literal) says who set it, such as "MCA".
 * ETHMX_ERR_PARAM: unknown name or malformed value; the old value stays. */
int ethmx_config_set(struct ethmx_config *cfg, const char *name, const char *value, const char *source);

/* The current value of parameter i as text, and who set it ("default", "environment", ...).
 * ETHMX_ERR_PARAM: no such parameter. */
int ethmx_config_get(const struct ethmx_config *cfg, unsigned i, char *text, size_t text_len_bytes,
                     const char **source_p);

/* ---- What this host has ---------------------------------------------------------------------------------- */

struct ethmx_interface_info {
    const char *name;
    const char *kind; /* "" or the kernel's link kind: bridge, veth, bond, ... */
    const char *ipv4; /* "10.0.0.1/24" or "" */
    const char *ipv6; /* "2001:db8::1/64" or "" */
    const char *mac;  /* "02:..:.." or "" */
    unsigned mtu_bytes;
    bool up;
    bool chosen;         /* ethmx would use it */
    const char *reason;  /* why chosen or not, and why it comes first */
    unsigned speed_mbit; /* 0: unknown */
    int numa_node;       /* -1: unknown */
};

struct ethmx_wire_info {
    const char *name;
    const char *help; /* one line */
    bool usable;
    const char *reason;   /* why not, and what to do; or what it can do here (ring, offloads) */
    unsigned frame_bytes; /* longest frame, when usable */
};

/* Calls fn for each interface / each wire, in order of preference. The strings live for the call only.
 * Opens what must be opened to know and closes it again. */
int ethmx_each_interface(const struct ethmx_config *cfg, void (*fn)(void *arg, const struct ethmx_interface_info *),
                         void *arg);
int ethmx_each_wire(const struct ethmx_config *cfg, void (*fn)(void *arg, const struct ethmx_wire_info *), void *arg);

/* ---- Memory that stays registered with devices ----------------------------------------------------------------- */

struct ethmx_memory_info {
    bool keeps;           /* registrations are kept for further messages */
    const char *watch;    /* who tells of memory that the program unmaps: "uffd", "host" or "off" */
    const char *reason;   /* how that works here, or why not; what bounds it */
    uint64_t limit_bytes; /* most that may be registered at once */
};

/* Finds out what works here, and calls fn once with it. The strings live for the call only. */
int ethmx_memory_query(const struct ethmx_config *cfg, void (*fn)(void *arg, const struct ethmx_memory_info *),
                       void *arg);

/* What is measured by ethmx_memory_measure(). */
struct ethmx_memory_case {
    unsigned struct_bytes;
    const char *registrar; /* "verbs" or "verbs:DEVICE", "pin", "mlock"; NULL: the first that works */
    size_t len_bytes;      /* whole pages */
    unsigned threads;      /* up to 64 at the same time, each with memory of its own */
    unsigned rounds;       /* up to 64, of which the median is taken */
    bool resident;         /* the pages are there; otherwise the memory is fresh from the system */
    bool huge;             /* (transparent) huge pages */
};

struct ethmx_memory_cost {
    unsigned struct_bytes;        /* set by the program */
    const char *registrar, *text; /* what was measured, in a word and in a sentence. Literals */
    uint64_t register_ns;
    uint64_t fault_register_ns; /* faulted in first, then registered */
    uint64_t deregister_ns;
    uint64_t copy_ns; /* memcpy() into the memory */
};

/* Measures what registering memory costs here, beside copying it. ETHMX_ERR_NO_MEMORY: so much cannot be registered
 * (RLIMIT_MEMLOCK). ETHMX_ERR_PARAM: no such registrar, no huge pages, or the case is out of bounds. */
int ethmx_memory_measure(const struct ethmx_memory_case *c, struct ethmx_memory_cost *cost_p);

/* A host of ethmx, such as an MPI library, that has hooks in the memory functions of the process. */
struct ethmx_memory_host {
    unsigned struct_bytes;
    const char *name;
    /* on: from now on the host calls ethmx_memory_gone() for every page that leaves. false: it cannot. Not on: it may
     * stop. Called while the first endpoint that needs it is opened, and when the last one has been closed. */
    bool (*tell)(bool on);
};

/* Makes a host known (NULL: none). Kept, not copied. While no endpoint is open. */
void ethmx_memory_host(const struct ethmx_memory_host *host);

/* These pages are about to be unmapped, moved or discarded. Called in the thread that does it, before it does.
 * Allocates nothing and may be called inside of malloc() and free(). Thread-safe. */
void ethmx_memory_gone(const void *base, size_t len_bytes);

/* ---- Endpoint -------------------------------------------------------------------------------------------- */

struct ethmx_ep_options {
    unsigned api_version; /* ETHMX_API_VERSION */
    unsigned struct_bytes;
    bool thread_multiple; /* several threads will use the endpoint at once */
    uint8_t job_key[16];  /* the same in every process of a job, unknown to others; all zero: random */
    uint64_t process;    /* of those with this key no other process has the number, such as the launcher's number of the
                            job in the upper half, and the rank + 1 in the lower. 0: unknown; then the endpoint's number
                            is random, and may clash with another's */
    bool polls_others;   /* the loop around ethmx_progress() drives other transports, too: it must not sleep there */
    uint16_t local_rank; /* number of this process among those of the job on this host, from 0 */
    unsigned local_ranks; /* processes of the job on this host; 0: unknown */
    const char *reach;    /* "a.b.c.d" or a host name that peers are near to (the launcher's own contact), or NULL;
                             a hint for choosing between interfaces of one speed */
};

/* Opens an endpoint. cfg is read, not kept (NULL: defaults and environment). Caller closes *ep_p.
 * ETHMX_ERR_NO_WIRE (text: each wire's reason), ETHMX_ERR_PARAM, ETHMX_ERR_NO_MEMORY, ETHMX_ERR_VERSION. */
int ethmx_ep_open(const struct ethmx_config *cfg, const struct ethmx_ep_options *opt, struct ethmx_ep **ep_p);

/* Delivers what was sent (for up to ETHMX_LINGER), says goodbye to connected peers and frees everything, peers
 * included. Requests still open are dropped without a callback. */
void ethmx_ep_close(struct ethmx_ep *ep);

/* Copies the endpoint's own address. *len_bytes_p: room in, length out. Where there is less room than
 * ETHMX_ADDRESS_MAX, it may tell fewer of the interfaces; it is the same endpoint for all. It takes at most
 * ETHMX_ADDRESS_LAUNCHER bytes and tells what a first hello needs; hellos tell the rest. ETHMX_ERR_PARAM: too little
 * room for one interface. */
int ethmx_ep_address(const struct ethmx_ep *ep, void *addr, size_t *len_bytes_p);

/* Moves frames, fires timers, runs callbacks. Returns how many events there were; 0: idle. Called in a loop that finds
 * nothing, it yields its core to others and sleeps for up to a millisecond, as ETHMX_WAIT says. */
unsigned ethmx_progress(struct ethmx_ep *ep);

/* Sleeps until there may be something to do for ethmx_progress(), or timeout_ns has passed. */
void ethmx_wait(struct ethmx_ep *ep, uint64_t timeout_ns);

/* Text of an asynchronous error of the endpoint that has no request of its own (a peer declared dead, a wire lost).
 * Called from ethmx_progress(). Without it such texts go to stderr. */
void ethmx_ep_on_error(struct ethmx_ep *ep,
                       void (*fn)(void *arg, struct ethmx_peer *peer, int status, const char *text), void *arg);

/* ---- Peers ------------------------------------------------------------------------------------------------ */

/* Makes the endpoint with this address known; asking again for the same address gives the same peer (and sets user
 * when it is not NULL). Nothing is sent yet. The address is copied. The endpoint owns the peer.
 * ETHMX_ERR_PARAM: not an ethmx address, or of another version (text names both). ETHMX_ERR_NO_MEMORY. */
int ethmx_peer_add(struct ethmx_ep *ep, const void *addr, size_t len_bytes, void *user, struct ethmx_peer **peer_p);

/* Forgets a peer and frees its memory. It is told goodbye, and messages from it that no receive has taken are dropped;
 * receives from any source go on. Frames that still come from it are counted (drop_no_session) and dropped.
 *
 * force false: ETHMX_ERR_BUSY, and nothing has happened, while operations with it are open (receives from any source do
 * not count) or something that was sent to it has not been acknowledged: go on with ethmx_progress(), and call again.
 * force true: operations that are open with it complete with ETHMX_ERR_CLOSED, and what was sent, also by sends that
 * have completed, may not arrive.
 *
 * After ETHMX_OK the handle must not be used, nor user be expected anywhere: results that are delivered from then on
 * have peer NULL instead. The buffers of operations belong to the program again when these have completed, as ever. A
 * message that the program has taken (ethmx_improbe(), or kept by an active-message handler) stays its own; it can be
 * received if it has arrived whole, otherwise that fails with ETHMX_ERR_PEER_DEAD. In a program of several threads no
 * other thread may use the handle meanwhile. Callbacks may call this.
 *
 * The peer finds this endpoint closed. The two can talk again when it has removed this one as well: then either may
 * add the other, or be greeted by it, and has a new peer. ETHMX_ERR_PARAM: the endpoint itself. ETHMX_ERR_CLOSED. */
int ethmx_peer_remove(struct ethmx_ep *ep, struct ethmx_peer *peer, bool force);

/* Copies the address that the peer was made known by first: by the program or its hello. *len_bytes_p: room in, length
 * out. ETHMX_ERR_PARAM: too little room. */
int ethmx_peer_address(struct ethmx_ep *ep, const struct ethmx_peer *peer, void *addr, size_t *len_bytes_p);

/* What ethmx_peer_add() was given as user; NULL for a peer that came by itself. */
void *ethmx_peer_user(const struct ethmx_peer *peer);

struct ethmx_peer_info {
    unsigned struct_bytes; /* set by the program */
    char host[64];         /* the peer's host name */
    char wire[16];         /* "packet", ...; "" before the first message */
    char interface[32];    /* ours, towards it; "" in shared memory */
    unsigned frame_bytes;  /* longest frame to it */
    uint64_t rtt_ns;       /* smoothed round-trip time, 0: not measured */
    const char *state;     /* "known", "connecting", "connected", "dead", "closed" */
    size_t memory_bytes;   /* core state held for it */
};

/* ETHMX_ERR_PARAM: struct_bytes is not set. */
int ethmx_peer_query(struct ethmx_ep *ep, const struct ethmx_peer *peer, struct ethmx_peer_info *info_p);

/* ---- Data descriptions ------------------------------------------------------------------------------------ */

struct ethmx_iov {
    void *base;
    size_t len_bytes;
};

/* Copies len_bytes at offset of the packed message out of (pack) or into (unpack) the program's data. Runs with the
 * endpoint's lock held, perhaps in another thread (never two at once for one message): it must not call ethmx.
 * Sends: each byte is asked for at least once, in any order. Receives: each byte comes once, in any order. */
typedef void (*ethmx_copy_fn)(void *arg, size_t offset, void *buf, size_t len_bytes);

/* Where a message's bytes lie. Exactly one of: base (contiguous), iov, copy. All that it refers to must stay until
 * the operation has completed; the struct itself and the iov array too when the call returns ETHMX_INPROGRESS
 * (the struct is copied; the iov array is not). */
struct ethmx_data {
    size_t len_bytes;
    void *base;
    const struct ethmx_iov *iov;
    size_t iov_count;
    ethmx_copy_fn copy;
    void *copy_arg;
};

/* ---- Tagged messages -------------------------------------------------------------------------------------- */

struct ethmx_result {
    int status;              /* ETHMX_OK or an error */
    uint64_t bits;           /* receives: the message's bits */
    struct ethmx_peer *peer; /* receives: who sent it; sends: who it went to; NULL: it was removed */
    size_t len_bytes;        /* receives: bytes written to the buffer (TRUNCATED: the buffer's length) */
    size_t msg_bytes;        /* receives: length of the message */
};

typedef void (*ethmx_done_fn)(void *arg, const struct ethmx_result *result);

enum ethmx_send_mode {
    ETHMX_SEND_STANDARD, /* completes when the data may be overwritten */
    ETHMX_SEND_SYNC,     /* completes when matched */
};

/* Sends. ETHMX_OK: done, the data may be overwritten, done is not called. ETHMX_INPROGRESS: done will be called once.
 * Errors (PEER_DEAD, UNREACHABLE, NO_MEMORY, CLOSED): nothing was sent, done is not called. */
int ethmx_isend(struct ethmx_ep *ep, struct ethmx_peer *peer, uint64_t bits, const struct ethmx_data *data,
                enum ethmx_send_mode mode, ethmx_done_fn done, void *arg);

/* Receives a message whose bits equal bits where mask has ones, from peer (NULL: any). ETHMX_OK: done at once, result
 * filled, done is not called (also when result_p->status is TRUNCATED); not within a callback, and not while other
 * operations have completed whose callbacks have not run: so receives complete in the order of their messages, as far
 * as these are short. ETHMX_INPROGRESS: done will be called, and *req_p (may be NULL) can be cancelled until then.
 * Errors: NO_MEMORY, PEER_DEAD (peer given and gone, nothing buffered from it), CLOSED. */
int ethmx_irecv(struct ethmx_ep *ep, struct ethmx_peer *peer, uint64_t bits, uint64_t mask,
                const struct ethmx_data *data, ethmx_done_fn done, void *arg, struct ethmx_req **req_p,
                struct ethmx_result *result_p);

/* Cancels a receive. ETHMX_OK: it was not matched; done runs with ETHMX_ERR_CANCELED in a later ethmx_progress().
 * ETHMX_ERR_NO_MATCH: it has matched and will complete. req must not have completed. */
int ethmx_cancel(struct ethmx_ep *ep, struct ethmx_req *req);

/* Looks for a message that a receive with the same arguments would match. ETHMX_OK and *result_p (peer, bits,
 * msg_bytes), or ETHMX_ERR_NO_MATCH, or the reason why none can come any more (PEER_DEAD, UNREACHABLE: peer given and
 * gone). Makes no progress itself. */
int ethmx_iprobe(struct ethmx_ep *ep, struct ethmx_peer *peer, uint64_t bits, uint64_t mask,
                 struct ethmx_result *result_p);

/* As ethmx_iprobe(), and takes the message out of matching: only ethmx_imrecv() can receive it. The caller owns
 * *msg_p until then. */
int ethmx_improbe(struct ethmx_ep *ep, struct ethmx_peer *peer, uint64_t bits, uint64_t mask,
                  struct ethmx_message **msg_p, struct ethmx_result *result_p);

/* Receives a message taken by ethmx_improbe(), or by an active-message handler. Consumes msg. Returns as
 * ethmx_irecv(); not cancellable. */
int ethmx_imrecv(struct ethmx_ep *ep, struct ethmx_message *msg, const struct ethmx_data *data, ethmx_done_fn done,
                 void *arg, struct ethmx_result *result_p);

/* Names bits that take no part in matching and only travel with the messages: for receives with ones in the mask
 * everywhere else, which are then as quick as those without wildcards. Before the first operation of the endpoint. */
void ethmx_match_ignore(struct ethmx_ep *ep, uint64_t bits);

/* Drops all unexpected messages whose bits equal bits where mask has ones: for communicators that are freed. Their
 * senders complete. Returns how many there were. */
unsigned ethmx_flush_unexpected(struct ethmx_ep *ep, uint64_t bits, uint64_t mask);

/* ---- Active messages -------------------------------------------------------------------------------------- */

struct ethmx_am {
    struct ethmx_peer *peer;
    const void *header; /* valid during the handler */
    size_t header_bytes;
    const void *data; /* the data, valid during the handler, or NULL: fetch it */
    size_t data_bytes;
    struct ethmx_message *msg;
};

/* Runs in ethmx_progress() without a lock, in order per peer. To receive data that is not there yet (data NULL and
 * data_bytes > 0), or into a buffer of its own, it calls ethmx_imrecv(am->msg) before it returns or keeps am->msg by
 * returning true and calls it later. False and no imrecv: the message is released on return. */
typedef bool (*ethmx_am_fn)(void *arg, const struct ethmx_am *am);

/* Sets the handler of active messages id (< ETHMX_AM_HANDLERS). Messages for an id without handler wait for one.
 * ETHMX_ERR_PARAM. */
int ethmx_am_handler(struct ethmx_ep *ep, unsigned id, ethmx_am_fn fn, void *arg);

/* Sends header (copied, at most ETHMX_AM_HEADER_MAX) and data to handler id of peer. Returns as ethmx_isend(). */
int ethmx_am_send(struct ethmx_ep *ep, struct ethmx_peer *peer, unsigned id, const void *header, size_t header_bytes,
                  const struct ethmx_data *data, ethmx_done_fn done, void *arg);

/* ---- Counters --------------------------------------------------------------------------------------------- */

struct ethmx_counter_info {
    const char *name;
    const char *unit; /* "frames", "bytes", "messages", ... */
    const char *help;
    bool level; /* goes up and down (memory in use); otherwise only up */
};

/* Row i of the table, or NULL past its end. */
const struct ethmx_counter_info *ethmx_counter(unsigned i);

/* The value of counter i. Thread-safe; a snapshot. */
uint64_t ethmx_counter_read(const struct ethmx_ep *ep, unsigned i);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
