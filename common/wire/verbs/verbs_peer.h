/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The verbs wire's own structures, for verbs.c (frames) and verbs_cm.c (connections). Not for others.
 */
#ifndef EMX_WIRE_VERBS_PEER_H
#define EMX_WIRE_VERBS_PEER_H

#include "base/list.h"
#include "wire/netif.h"
#include "wire/verbs/verbs_conn.h"

#define EMX_VERBS_PEER_BUCKETS 256
#define EMX_VERBS_PORTS        8 /* interfaces with RDMA devices that are used at once */

/* A frame that waits. */
struct emx_verbs_kept {
    struct emx_verbs_kept *next;
    uint64_t since_ns;
    uint32_t len_bytes;
    uint8_t data[];
};

/* What we have with another endpoint. */
struct emx_verbs_peer {
    struct emx_verbs_peer *next; /* in the table */
    struct emx_verbs_way way;
    struct emx_verbs_conn *conn; /* NULL: none, or all that there were have ended */
    uint32_t epoch;              /* connections that have come up */
    uint64_t not_before_ns;      /* when it may be called again */
    uint64_t crowded_ns;         /* since when there has been no room for a connection with it; 0: there is */
    uint32_t room_serial;        /* of the connection that ended last to make room for it; 0: none */
    unsigned failures;           /* calls since a connection was up that have failed */
    bool lost;                   /* it is to be told */
    uint32_t write_bytes;        /* at a time, see verbs_read.c; 0: as much as is read at a time */
    unsigned written_well;       /* parts of that length */
    struct emx_verbs_kept *first, **last_p;
    unsigned kept;
    struct emx_list busy; /* in the wire's list while frames wait */
};

/* An interface with a device, where we can be called. */
struct emx_verbs_port {
    struct rdma_cm_id *listener;
    struct emx_verbs_dev *dev;
    unsigned nif; /* place in emx_netifs */
};

struct emx_verbs_wire {
    struct emx_wire base;
    struct emx_stats *stats;
    const struct emx_config *cfg;
    uint32_t id;
    int epoll;
    bool armed;
    struct rdma_event_channel *channel;
    uint16_t listen_port; /* of all ports */
    struct emx_verbs_port port[EMX_VERBS_PORTS];
    unsigned port_count;
    struct emx_verbs_dev *dev[EMX_VERBS_PORTS];
    unsigned dev_count;
    struct emx_list conns, ending; /* emx_verbs_conn */
    uint32_t serial;               /* of the last one */
    uint64_t now_ns;               /* of the last sweep */
    uint64_t looked_ns;            /* when connections were looked after */
    uint64_t events_ns;            /* when the descriptors were looked at */
    bool lost;                     /* peers are, perhaps */
    struct emx_list busy;          /* emx_verbs_peer */
    struct emx_list ended;         /* emx_verbs_read that are over */
    struct emx_list exposed;       /* see verbs_read.c */
    struct emx_verbs_peer *peer[EMX_VERBS_PEER_BUCKETS];
    struct emx_verbs_peer *last;                /* that was sent to */
    struct emx_verbs_buf *arrived, **arrived_p; /* frames not handed up yet */
    struct emx_verbs_buf *passed;               /* the last one that was passed, if it is not posted again yet */
};

/* verbs.c */
struct emx_verbs_peer *emx_verbs_peer_get(struct emx_verbs_wire *w, uint32_t id); /* NULL: out of memory */
void emx_verbs_peer_lose(struct emx_verbs_wire *w, struct emx_verbs_peer *p);     /* what waits is lost, and counted */
void emx_verbs_peer_flush(struct emx_verbs_wire *w, struct emx_verbs_peer *p);    /* sends what waits and can go */
void emx_verbs_drain(struct emx_verbs_wire *w); /* takes all that devices have finished; frames wait for rx() */

/* verbs_cm.c */
uint64_t emx_verbs_now(void);

/* Listens on every chosen interface that has a device. ETHMX_ERR_NO_WIRE: there is none, or none works; why has a
 * sentence for each. ETHMX_OK: why tells what was found. */
int emx_verbs_listen(struct emx_verbs_wire *w, const struct emx_netifs *netifs, char *why, size_t why_len_bytes);
/* Ends all connections at once and closes the devices. */
void emx_verbs_disconnect(struct emx_verbs_wire *w);

/* Calls a peer that has no connection, unless it is too early for that. */
void emx_verbs_call(struct emx_verbs_wire *w, struct emx_verbs_peer *p);
/* Takes note of what rdma_cm tells, if there is news; ends what takes too long; calls whom frames wait for. */
void emx_verbs_calls(struct emx_verbs_wire *w, bool news);
/* A connection has come up: by the event, or by a first message that was faster. */
void emx_verbs_up(struct emx_verbs_wire *w, struct emx_verbs_conn *c);
/* It cannot be used any more. */
void emx_verbs_broke(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const char *why);
/* As in struct emx_wire_ops. */
bool emx_verbs_lost(struct emx_wire *w, struct emx_wire_addr *to_p);
void emx_verbs_disconnect_key(struct emx_wire *w, const struct emx_wire_addr *to, const uint64_t *key);
/* Whether a connection that is severed ends what the peer writes at once. Otherwise it must not write. */
bool emx_verbs_halts(const struct emx_verbs_dev *d);

#endif
