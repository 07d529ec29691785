/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The private structures of the verbs wire, for verbs.c (frames), verbs_cm.h (connections) and verbs_read.c. Used under
 * the endpoint's lock.
 */
#ifndef EMX_WIRE_VERBS_PEER_H
#define EMX_WIRE_VERBS_PEER_H

#include "base/list.h"
#include "wire/netif.h"
#include "wire/verbs/verbs_conn.h"

#define EMX_VERBS_PEER_BUCKETS 256
#define EMX_VERBS_PORTS        8 /* interfaces with RDMA devices, at most */

/* A frame in the backlog. */
struct emx_verbs_kept {
    struct emx_verbs_kept *next;
    uint64_t since_ns;
    uint32_t len_bytes;
    uint8_t data[];
};

/* Another endpoint. */
struct emx_verbs_peer {
    struct emx_verbs_peer *next; /* in the table */
    struct emx_verbs_way way;
    struct emx_verbs_conn *conn; /* NULL: none, or it has ended */
    uint32_t epoch;              /* connections that came up */
    uint64_t not_before_ns;      /* time before which no request is sent */
    uint64_t crowded_ns;         /* time since which there is no room for its connection; 0: there is */
    uint32_t room_serial;        /* serial of the connection that ended last to make room for it; 0: none */
    unsigned failures;           /* failed requests since the last connection */
    bool lost;                   /* unreachable() must report it */
    uint32_t write_bytes;        /* length of a part, see verbs_read.c; 0: that of reads */
    unsigned written_well;       /* successful parts of that length */
    struct emx_verbs_kept *first, **last_p;
    unsigned kept;
    struct emx_list busy; /* in the wire's list while frames wait */
};

/* An interface with a device, on which this endpoint listens. */
struct emx_verbs_port {
    struct rdma_cm_id *listener;
    struct emx_verbs_dev *dev;
    unsigned nif; /* index in emx_netifs */
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
    uint64_t looked_ns;            /* when connections were checked */
    uint64_t events_ns;            /* time of the last poll of the descriptors */
    bool lost;                     /* a peer may be unreachable */
    struct emx_list busy;          /* emx_verbs_peer */
    struct emx_list ended;         /* emx_verbs_read that have ended */
    struct emx_list exports;       /* verbs_export, see verbs_read.c */
    struct emx_verbs_peer *peer[EMX_VERBS_PEER_BUCKETS];
    struct emx_verbs_peer *last;                /* the last one sent to */
    struct emx_verbs_buf *arrived, **arrived_p; /* received frames not passed up yet */
    struct emx_verbs_buf *passed;               /* the last one consumed, until it is posted again */
};

/* verbs.c */
struct emx_verbs_peer *emx_verbs_peer_get(struct emx_verbs_wire *w, uint32_t id); /* NULL: out of memory */
void emx_verbs_peer_lose(struct emx_verbs_wire *w, struct emx_verbs_peer *p);     /* drops and counts the backlog */
void emx_verbs_peer_flush(struct emx_verbs_wire *w, struct emx_verbs_peer *p);    /* sends from the backlog */
void emx_verbs_drain(struct emx_verbs_wire *w); /* takes all completions; frames wait for rx() */

/* See verbs_cm.h for their files. */
uint64_t emx_verbs_now(void);

/* Listens on every chosen interface that has a device. ETHMX_ERR_NO_WIRE: there is none, or none works; why has a
 * sentence for each. ETHMX_OK: why says what was found. */
int emx_verbs_listen(struct emx_verbs_wire *w, const struct emx_netifs *netifs, char *why, size_t why_len_bytes);
/* Ends all connections at once and closes the devices. */
void emx_verbs_disconnect(struct emx_verbs_wire *w);

/* Sends a connect request to a peer without connection, unless it is too early for that. */
void emx_verbs_call(struct emx_verbs_wire *w, struct emx_verbs_peer *p);
/* Handles the events of rdma_cm if there are any (events). Ends requests that take too long. Connects to peers with a
 * backlog. */
void emx_verbs_calls(struct emx_verbs_wire *w, bool events);
/* A connection is up, as shown by its event, or by a first message that arrived before the event. */
void emx_verbs_up(struct emx_verbs_wire *w, struct emx_verbs_conn *c);
/* A connection cannot be used any more. why: for the log. */
void emx_verbs_broke(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const char *why);
/* As in struct emx_wire_ops. */
bool emx_verbs_lost(struct emx_wire *w, struct emx_wire_addr *to_p);
void emx_verbs_disconnect_key(struct emx_wire *w, const struct emx_wire_addr *to, const uint64_t *key);
/* Whether disconnecting stops the peer's writes immediately. If not, peers must not write to this device. */
bool emx_verbs_halts(const struct emx_verbs_dev *d);

#endif
