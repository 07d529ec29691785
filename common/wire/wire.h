/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Wire: what every data mover implements. A wire moves frames between endpoints; it knows no tags, no
 * acknowledgements and no peers. It may lose, duplicate or reorder frames, but delivers only whole ones.
 *
 * A wire has no lock of its own: its caller holds the endpoint's. It does not block.
 */
#ifndef EMX_WIRE_H
#define EMX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/crossing.h"
#include "base/stats.h"
#include "base/txframe.h"
#include "base/wire_part.h"

#define EMX_WIRE_FDS 2 /* descriptors of a wire */

/* One received frame, lent: valid until rx_return(). data may start at any byte. */
struct emx_rxframe {
    const uint8_t *data; /* the ethmx frame header */
    uint32_t len_bytes;
    uint32_t cookie; /* the wire's own */
    union {
        uint16_t remarks; /* 0: none of these */
        struct {
            uint8_t parts; /* of the first of several frames that came together: how many; otherwise 0 */
            bool marked;   /* it came in an IP packet that says that there is congestion on the way (CE of RFC 3168) */
        };
    };
};

struct emx_netif; /* wire/netif.h */
struct emx_netifs;
struct emx_way_site; /* wire/way.h */
struct emx_way_search;

struct emx_wire_params {
    const struct emx_config *cfg;
    const struct emx_netifs *netifs; /* the host's interfaces with the choice made; outlives the wire */
    uint32_t endpoint_id;            /* frames for other ids need not be handed up */
    uint32_t job_cookie;             /* equal in all endpoints of a job, hardly in others */
    uint64_t job_secret;             /* the same, and not to be guessed by others where the launcher's key is not */
    unsigned local_ranks;            /* of the job on this host, with this one; 0: unknown */
    struct emx_stats *stats;         /* wire_* counters */
};

struct emx_wire_attr {
    unsigned frame_bytes;      /* longest frame (from the ethmx header on) the wire itself can carry on any interface */
    bool cheap_poll;           /* rx with nothing there costs no system call */
    bool reliable;             /* frames of one sender arrive once, whole and in order, while both ends live */
    bool connected;            /* frames travel over connections: as long as one lasts they arrive once, in order and as
                                  they were sent, of whatever length */
    bool reads;                /* read() works here; towards a given peer it may still fail */
    uint64_t export_min_bytes; /* export() and what belongs to it are worth while for messages from this length on; 0:
                                they do not work here */
    const struct emx_costs *export_costs; /* for weighing that against a round trip; NULL: not known. The wire's own */
    bool guarded; /* the kernel lets nobody but processes of this user put frames in: they need no tag */
};

/* Memory that peers' devices are to read, or to write. */
struct emx_wire_export {
    const struct emx_wire_addr *to;
    const void *base; /* a whole message */
    size_t len_bytes;
    uint64_t offset; /* it is wanted from here on */
    bool free_only;  /* if it costs nothing */
    bool write;      /* the peer is to write */
    bool kept;       /* result: it was registered already */
    uint64_t key;    /* result: over this connection and with this key it can be reached, from offset */
    uint64_t end;    /* to here */
};

/* A read of a peer's memory: by our device, or, without key, whole and cookie, by the processor. Or a write to it, by
 * our device. */
struct emx_wire_read {
    const struct emx_wire_addr *from; /* or to */
    uint64_t remote, key;
    void *local;
    size_t len_bytes;
    void *whole; /* the message's memory here, of which local is a part: to be registered as one */
    size_t whole_bytes;
    void *cookie; /* the caller's, returned at the end */
    bool write;   /* read_start(): from local to remote */
    bool lasting; /* read(): local remains as it is for as long as it takes */
};

struct emx_wire_read_end {
    void *cookie;
    uint64_t remote;
    size_t len_bytes; /* as asked */
    int status; /* ETHMX_OK: all is there. Otherwise it is not known what is. Of a write nothing more will come to be
                   there, then or later, unless it is ETHMX_ERR_UNREACHABLE */
};

struct emx_wire {
    const struct emx_wire_ops *ops;
};

/* A frame where it lies. data NULL: there is none. len_bytes 0: there may be some, but rx() must lend them. */
struct emx_wire_peek {
    const uint8_t *data;
    uint32_t len_bytes;
};

/* For peek(): rx() must do it. */
static inline struct emx_wire_peek emx_wire_peek_rx(void)
{
    return (struct emx_wire_peek){.data = (const uint8_t *)""};
}

struct emx_wire_ops {
    const char *name;
    const char *help; /* one line for ethmx_info */
    const char
        *opt_in;   /* why it is opened only when ETHMX_WIRES names it; NULL: looking whether it works is harmless */
    unsigned part; /* type of its part of addresses: its own, 1 to EMX_WIRE_PART_TYPES, the same in all versions */

    /* Opens the wire. Fails clean: nothing is left behind, *w_p is untouched, and why has a sentence with the remedy
     * ("raw sockets need CAP_NET_RAW: run `setcap cap_net_raw+ep ...` or use ETHMX_WIRES=udp"). On success why may say
     * what was found (ring, offloads). ETHMX_ERR_NO_WIRE, ETHMX_ERR_PARAM, ETHMX_ERR_NO_MEMORY. */
    int (*open)(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes);
    void (*close)(struct emx_wire *w);
    void (*query)(const struct emx_wire *w, struct emx_wire_attr *attr_p);

    /* Writes to value what peers must know of this wire to reach it, beside the interfaces that the site tells of;
     * returns the length. It is this wire's part of the endpoint's address. The launcher may carry only the first
     * *least_p bytes: enough for a first hello, which tells the rest. NULL: nothing, but that the wire is open. */
    unsigned (*describe)(const struct emx_wire *w, const struct emx_way_site *site, uint8_t value[EMX_WIRE_VALUE_BYTES],
                         unsigned *least_p);

    /* Adds to s the ways to a peer that has this wire open too, as far as can be told at once; or says by an obstacle
     * why there is none. s->theirs and s->ifs come from the network: any bytes, of any length. */
    void (*ways)(struct emx_wire *w, struct emx_way_search *s);

    /* Frames tx() would take now, up to EMX_WIRE_BATCH. 0: full; progress will make room. */
    unsigned (*tx_room)(struct emx_wire *w);

    /* Sends n <= tx_room() frames, in order. Cannot refuse: what the kernel will not take is lost, as on any
     * Ethernet, and counted (wire_tx_errors). Nothing of f is referenced after return. */
    void (*tx)(struct emx_wire *w, const struct emx_txframe *f, unsigned n);

    /* Sends one frame without a copy: reserve() returns memory for its len_bytes, to be written once, byte by byte;
     * commit() sends it, before any other call. reserve() returns NULL: tx() must send it. Both NULL: not supported. */
    void *(*reserve)(struct emx_wire *w, const struct emx_wire_addr *to, uint32_t len_bytes);
    void (*commit)(struct emx_wire *w);

    /* Whether frames that tx() took have not left yet and would be lost by close(). NULL: nobody relies on them. */
    bool (*unsent)(const struct emx_wire *w);

    /* Lends up to max (perhaps 0) frames; returns how many. The caller gives back all of them before the next rx().
     * Also tries again to send what tx() took and the kernel did not yet. */
    unsigned (*rx)(struct emx_wire *w, struct emx_rxframe *f, unsigned max);
    void (*rx_return)(struct emx_wire *w, const struct emx_rxframe *f, unsigned n);

    /* Returns the frame that rx() would lend first, while nothing is lent; all else is as with rx(). consume() takes
     * it, before any other call; without consume() rx() lends it again. Both NULL: not supported. */
    struct emx_wire_peek (*peek)(struct emx_wire *w);
    void (*consume)(struct emx_wire *w);

    /* Copies len_bytes at remote in the memory of the process at from, to local. NULL, unless attr.reads.
     * ETHMX_OK: done. ETHMX_INPROGRESS, only if r->lasting: others may be writing to local. The caller calls again,
     * with the same r, until it hears something else, and reads nothing else over this wire before. Anything else:
     * nothing may be relied upon, nobody writes to local any more, and the caller takes another way: ETHMX_ERR_PARAM
     * for what lies there (the system does not copy it, such as memory of a device), otherwise for all that is at this
     * peer. A process that has come in the place of the one at from is an error. */
    int (*read)(struct emx_wire *w, const struct emx_wire_read *r);

    /* For wires whose devices read and write memory by themselves; NULL, unless attr.export_min_bytes. Keys are good
     * for the connection that there is when they are made: none is of use once it has ended, however it has.
     *
     * export() lets the peer at `to` read, or write, from l->offset on, as much as is convenient, until unexport();
     * *held has what is exposed of this message, NULL at first. ETHMX_OK. ETHMX_INPROGRESS: not now, but perhaps later:
     * there is no connection, or free_only and it would cost something. Otherwise: it can't be, or copying is cheaper.
     */
    int (*export)(struct emx_wire *w, struct emx_wire_export *l, void **held);
    void (*unexport)(struct emx_wire *w, void **held, const void *until); /* what ends there or before; NULL: all */

    /* Begins to read, or to write. ETHMX_OK: read_end() will tell the end, in the order in which those over the same
     * connection began; until then the device is at r->local. ETHMX_INPROGRESS: the key is of no use any more, another
     * may be. Otherwise: not this memory, or copying is cheaper. read_end() is asked after rx(), whose descriptor tells
     * of it too. */
    int (*read_start)(struct emx_wire *w, const struct emx_wire_read *r);
    bool (*read_end)(struct emx_wire *w, struct emx_wire_read_end *end_p);

    /* Ends the connection to `to`, if there is one; with key only if it is that of this key, which otherwise has ended.
     * At return its keys are of no use to the peer: it reads nothing and writes nothing here any more. Reads and writes
     * over it end within a second or so. */
    void (*disconnect)(struct emx_wire *w, const struct emx_wire_addr *to, const uint64_t *key);

    /* For wires that notice when a destination cannot be reached any more that they have reached before: tells of the
     * next, once; false: there is none. NULL: others do not. */
    bool (*unreachable)(struct emx_wire *w, struct emx_wire_addr *to_p);

    /* Descriptors that become readable when rx() has frames. 0: of all, or, when there is a descriptor 1, of all but
     * bulk frames, for which that one is. -1: there is none; no descriptor 0: poll only. With arm(): only after it. */
    int (*fd)(struct emx_wire *w, unsigned i);

    /* For wires whose frames come without the kernel. The caller is about to sleep on fd(). true: there is nothing now,
     * and whatever comes makes a descriptor readable, room for frames that had to wait included; the next rx() ends
     * this. false: do not sleep, something is there. NULL: the descriptors become readable by themselves. */
    bool (*arm)(struct emx_wire *w);

    /* Does work that needs system calls and is not urgent, such as accepting connections. Progress calls it
     * regularly, and before it sleeps. NULL: nothing to do. */
    void (*sweep)(struct emx_wire *w);
};

/* Every wire of this build, best first; ends with NULL. */
extern const struct emx_wire_ops *const emx_wires[];

/* The wire's table by name, or NULL. */
const struct emx_wire_ops *emx_wire_find(const char *name);

#endif
