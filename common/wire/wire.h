/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Wire: the interface of all wires. A wire moves frames between endpoints. It knows no tags, acknowledgements or
 * sessions. It may lose, duplicate and reorder frames, but delivers only complete ones.
 *
 * A wire has no lock: its caller holds the endpoint's. No function blocks, except open() and close().
 */
#ifndef EMX_WIRE_H
#define EMX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/list.h"
#include "base/placement.h"
#include "base/threshold.h"
#include "base/stats.h"
#include "base/txframe.h"
#include "base/view.h"
#include "base/wire_part.h"

#define EMX_WIRE_FDS 4 /* descriptors of a wire */

/* One received frame. Owned by the wire, readable until rx_return(). data may start at any byte. */
struct emx_rxframe {
    const uint8_t *data; /* the ethmx frame header, and all that follows */
    uint32_t len_bytes;  /* of all */
    uint32_t cookie;     /* the wire's own */
    union {
        uint16_t remarks; /* 0: none of these */
        struct {
            uint8_t parts;   /* first of several frames of one packet: how many; otherwise 0 */
            bool marked : 1; /* its IP packet has the congestion mark CE (RFC 3168) */
            bool tso : 1;    /* with parts or counts: that packet was a TSO packet */
            /* A piece of a packet, or all of it: it counts as if the packet had come whole. The sender's interface has
             * segmented it, so that it costs the sender little; as single frames the data would take longer. */
            bool counts : 1;
        };
    };
    const void *body; /* the frame's data lie here, in their place (base/placement.h), not behind its head; NULL: all
                         of it is at data */
};

struct emx_netif; /* wire/netif.h */
struct emx_netifs;
struct emx_way_site; /* wire/way.h */
struct emx_way_search;

struct emx_wire_params {
    const struct emx_config *cfg;
    const struct emx_netifs *netifs; /* the host's interfaces with the choice made; outlives the wire */
    uint32_t endpoint_id;            /* frames for other ids need not be passed up */
    uint32_t job_cookie;             /* equal in all endpoints of a job, random between jobs */
    uint64_t job_secret;             /* the same; as secret as the launcher's key */
    unsigned local_ranks;            /* of the job on this host, with this one; 0: unknown */
    struct emx_stats *stats;         /* wire_* counters */
    struct emx_list *segments;       /* emx_segment.link: what peers may map; outlives the wire; NULL: nothing */
    const struct emx_placer *placer; /* outlives the wire; NULL: received data is not put into its place */
};

struct emx_wire_attr {
    unsigned frame_bytes;      /* longest frame (from the ethmx header on) the wire itself can carry on any interface */
    bool cheap_poll;           /* rx() without a frame makes no system call */
    bool reliable;             /* frames of one sender arrive once, whole and in order, while both ends live */
    bool connected;            /* frames use connections; while one lasts, they arrive once, in order and unchanged */
    bool reads;                /* read() works on this host; for a given peer it may still fail */
    uint64_t export_min_bytes; /* shortest message for which export() pays; 0: export() and the like do not work here */
    const struct emx_costs *export_costs; /* costs to compare with a round trip; owned by the wire; NULL: not known */
    bool guarded; /* only processes of this user can send frames here, by the kernel: they need no tag */
};

/* Memory to export, so that a peer's device can read or write it. */
struct emx_wire_export {
    const struct emx_wire_addr *to;
    const void *base; /* the complete message */
    size_t len_bytes;
    uint64_t offset; /* export from here on */
    bool free_only;  /* only if it costs nothing */
    bool write;      /* the peer writes; otherwise it reads */
    bool kept;       /* result: it was registered already */
    uint64_t key;    /* result: valid over this connection, from offset */
    uint64_t end;    /* result: to here */
};

/* A read of a peer's memory: by this host's device, or by the processor, which ignores key, whole and cookie. Or a
 * write to it by the device. */
struct emx_wire_read {
    const struct emx_wire_addr *from; /* the peer */
    uint64_t remote, key;
    void *local;
    size_t len_bytes;
    void *message; /* the local message, which contains local; registered as one */
    size_t message_bytes;
    void *cookie; /* returned by read_end() */
    bool write;   /* read_start(): from local to remote */
    bool lasting; /* read(): local stays valid until read() has ended */
};

struct emx_wire_read_end {
    void *cookie;
    uint64_t remote;
    size_t len_bytes; /* as asked */
    int status;       /* ETHMX_OK: complete. Otherwise the content is undefined; a write writes nothing more afterwards,
                         unless       the status is ETHMX_ERR_UNREACHABLE */
};

struct emx_wire {
    const struct emx_wire_ops *ops;
};

/* A frame in place. data NULL: there is none. len_bytes 0: there may be one, but only rx() can take it. */
struct emx_wire_peek {
    const uint8_t *data;
    uint32_t len_bytes;
};

/* The result of peek() if only rx() can tell. */
static inline struct emx_wire_peek emx_wire_peek_rx(void)
{
    return (struct emx_wire_peek){.data = (const uint8_t *)""};
}

struct emx_wire_ops {
    const char *name;
    const char *help;   /* one line for ethmx_info */
    const char *opt_in; /* why it is opened only when ETHMX_WIRES names it; NULL: trying to open it is harmless */
    unsigned part;      /* type of its part of addresses: its own, 1 to EMX_WIRE_PART_TYPES, the same in all versions */
    bool by_ip;         /* it reaches an interface of which only the IP address is told */

    /* Opens the wire. On failure nothing is left behind, *w_p is unchanged, and why has a sentence with the remedy
     * ("raw sockets need CAP_NET_RAW: run `setcap cap_net_raw+ep ...` or use ETHMX_WIRES=udp"). On success why may
     * describe what was found (ring, offloads). ETHMX_ERR_NO_WIRE, ETHMX_ERR_PARAM, ETHMX_ERR_NO_MEMORY. */
    int (*open)(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes);
    void (*close)(struct emx_wire *w);
    void (*query)(const struct emx_wire *w, struct emx_wire_attr *attr_p);

    /* Writes to value what peers need to reach this wire, in addition to the site's interfaces; returns its length. It
     * is the wire's part of the endpoint's address. The launcher may carry only the first *min_p bytes: enough for a
     * first hello, which has the rest. NULL: peers need only know that the wire is open. */
    unsigned (*describe)(const struct emx_wire *w, const struct emx_way_site *site, uint8_t value[EMX_WIRE_VALUE_BYTES],
                         unsigned *min_p);

    /* Adds to s the ways to a peer that has this wire open, too; or an obstacle that says why there is none. s->theirs
     * and s->ifs come from the network: any bytes, of any length. */
    void (*ways)(struct emx_wire *w, struct emx_way_search *s);

    /* How many frames tx() takes now, up to EMX_WIRE_BATCH. 0: full, until progress makes room. */
    unsigned (*tx_room)(struct emx_wire *w);

    /* Sends n <= tx_room() frames, in order. It cannot refuse: what the kernel does not take is lost, as on any
     * Ethernet, and counted (wire_tx_errors). f and its memory are not used after the return. */
    void (*tx)(struct emx_wire *w, const struct emx_txframe *f, unsigned n);

    /* Sends one frame without a copy: reserve() returns memory for len_bytes, to be written once, byte by byte;
     * commit() sends it, and must be the next call. reserve() returns NULL: use tx(). Both NULL: not supported. */
    void *(*reserve)(struct emx_wire *w, const struct emx_wire_addr *to, uint32_t len_bytes);
    void (*commit)(struct emx_wire *w);

    /* Whether frames that tx() took have not left yet, so that close() would lose them. NULL: not tracked. */
    bool (*unsent)(const struct emx_wire *w);

    /* Receives up to max frames (max may be 0); returns how many. The caller returns all of them before the next rx().
     * Also tries again to send what tx() took and the kernel did not. */
    unsigned (*rx)(struct emx_wire *w, struct emx_rxframe *f, unsigned max);
    void (*rx_return)(struct emx_wire *w, const struct emx_rxframe *f, unsigned n);

    /* Returns the frame that rx() would return first; no frame may be outstanding. Otherwise it has the effect of rx().
     * consume() takes the frame, and must be the next call; without it, rx() returns the frame again. Both NULL: not
     * supported. */
    struct emx_wire_peek (*peek)(struct emx_wire *w);
    void (*consume)(struct emx_wire *w);

    /* Copies len_bytes at remote in the process at from to local. NULL, unless attr.reads. ETHMX_OK: done.
     * ETHMX_INPROGRESS, only if r->lasting: other processes may be writing to local. The caller calls again with the
     * same r until it gets another result, and starts no other read over this wire before. Any other result: the
     * content is undefined, nobody writes to local any more, and the caller moves the data another way: ETHMX_ERR_PARAM
     * for this memory (the system does not copy it, such as memory of a device), otherwise for all memory of this peer.
     * That another process has replaced the one at from is an error. */
    int (*read)(struct emx_wire *w, const struct emx_wire_read *r);

    /* The memory of the region with this key, of the process at `to`, if that is mapped here; until the next call of
     * the wire. NULL: it is not, perhaps not yet: the call asks the peer for it. NULL: not supported. */
    struct emx_view *(*view)(struct emx_wire *w, const struct emx_wire_addr *to, uint64_t key);

    /* For wires whose devices read and write memory by themselves; NULL, unless attr.export_min_bytes. A key is valid
     * for the connection over which it was made, and useless once that has ended.
     *
     * export() lets the peer at `to` read or write from l->offset on, as far as convenient, until unexport(). *held has
     * what is exported of this message, NULL at first. ETHMX_OK. ETHMX_INPROGRESS: not now, perhaps later: there is no
     * connection, or free_only and it would cost something. Otherwise: not possible, or copying is cheaper. */
    int (*export)(struct emx_wire *w, struct emx_wire_export *l, void **held);
    void (*unexport)(struct emx_wire *w, void **held,
                     const void *until); /* only what ends there or before; NULL: all */

    /* Starts a read, or a write. ETHMX_OK: read_end() reports the end, in the order in which those over the same
     * connection were started; until then the device uses r->local. ETHMX_INPROGRESS: the key is stale, a new one may
     * work. Otherwise: not for this memory, or copying is cheaper. read_end() is called after rx(), and the descriptor
     * of rx() becomes readable for it, too. */
    int (*read_start)(struct emx_wire *w, const struct emx_wire_read *r);
    bool (*read_end)(struct emx_wire *w, struct emx_wire_read_end *end_p);

    /* Ends the connection to `to`, if there is one; with key, only the connection of this key, unless that has ended.
     * After the return its keys are useless to the peer, which reads and writes nothing here any more. Reads and writes
     * over it end within about a second. */
    void (*disconnect)(struct emx_wire *w, const struct emx_wire_addr *to, const uint64_t *key);

    /* The interface that had the number old_index has another one now, or another address: its driver was reloaded.
     * NULL: the wire knows no interfaces, or cannot use it again. */
    void (*renumber)(struct emx_wire *w, unsigned old_index, const struct emx_netif *nif);

    /* For wires that detect that a destination which was reached cannot be reached any more: returns the next such
     * destination, once. false: none. NULL: not supported. */
    bool (*unreachable)(struct emx_wire *w, struct emx_wire_addr *to_p);

    /* Descriptors that become readable when rx() has frames. 0: for all frames; if there is a descriptor 1, that one is
     * for GSO packets and the others for the rest. -1: there is none; without descriptor 0 the wire can only be polled.
     * With arm(): valid only after it. */
    int (*fd)(struct emx_wire *w, unsigned i);

    /* For wires that receive without the kernel. The caller is about to sleep on fd(). true: there is nothing now, and
     * whatever arrives makes a descriptor readable, room for frames that had to wait included; the next rx() ends this.
     * false: do not sleep, there is something. NULL: the descriptors become readable by themselves. */
    bool (*arm)(struct emx_wire *w);

    /* Does deferred work that needs system calls, such as accepting connections. Progress calls it regularly, and
     * before sleeping. NULL: nothing to do. */
    void (*sweep)(struct emx_wire *w);
};

/* The table of wires: every wire of this build, best first; ends with NULL. */
extern const struct emx_wire_ops *const emx_wires[];

/* The wire's table by name, or NULL. */
const struct emx_wire_ops *emx_wire_find(const char *name);

#endif
