/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection of the verbs wire: a reliable queue pair and its credits. verbs_conn.c explains the credits, verbs_cm.c
 * how connections are established. Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_VERBS_CONN_H
#define EMX_WIRE_VERBS_CONN_H

#include <assert.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "wire/verbs/verbs_dev.h"
#include "wire/verbs/verbs_event.h"
#include "wire/wire.h"

#define EMX_VERBS_RECEIVES(credits) ((credits) + 3) /* buffers for a peer with so many frames in flight */
#define EMX_VERBS_READS             16              /* in progress */
#define EMX_VERBS_SGES              3 /* parts of a message: the wire's header, the frame's head and body */
#define EMX_VERBS_SENDS(credits)    ((credits) + 4) /* messages in flight */
/* All work in progress, with an empty read. */
#define EMX_VERBS_WORK(credits)     (EMX_VERBS_SENDS(credits) + EMX_VERBS_READS + 1)

/* The header before each frame. */
struct emx_verbs_head {
    uint8_t kind; /* enum emx_verbs_kind */
    uint8_t zero[3];
    uint32_t credits; /* further frames that the receiver of this may send */
};
static_assert(sizeof(struct emx_verbs_head) + EMX_VERBS_FRAME_BYTES == EMX_VERBS_BUF_BYTES, "buffer");

enum emx_verbs_kind {
    EMX_VERBS_FRAME = 0xa1,
    EMX_VERBS_CREDIT, /* no frame: credits only */
};

/* In this order. ENDING may follow any state. */
enum emx_verbs_state {
    EMX_VERBS_CALLING, /* this side connects: resolves the address, then sends the request */
    EMX_VERBS_ASKED,   /* this side has accepted the peer's request */
    EMX_VERBS_LEFT,    /* this side's request was abandoned; its reply is still to come, see verbs_cm.c */
    EMX_VERBS_UP,
    EMX_VERBS_ENDING, /* in error: freed when its sends have come back */
};

/* A part of a read or a write in progress at the device. */
struct emx_verbs_part {
    struct emx_verbs_read *read; /* NULL: there is none */
    struct emx_verbs_hold *hold; /* its local memory; NULL: an empty read */
    uint32_t len_bytes;
};

/* A message in flight. */
struct emx_verbs_flight {
    struct emx_verbs_buf *buf; /* NULL: inline */
    uint64_t since_ns;         /* when the wire got it, or earlier */
};

struct emx_verbs_conn {
    struct emx_list link; /* in the wire's list of connections, or of those that end */
    struct emx_verbs_peer *peer;
    struct rdma_cm_id *id;
    struct emx_verbs_dev *dev;      /* NULL: not known yet, and the fields below are not set */
    struct emx_verbs_conn *next_qp; /* in the device's table */
    uint32_t qp_num;
    uint32_t serial; /* a queue pair's number may be reused, this is not reused soon */
    enum emx_verbs_state state;
    bool active;       /* this side connected */
    uint64_t asked_ns; /* when the request was sent; 0: not yet */
    bool may_send;     /* a message has arrived, or this side sends first */
    int broken;        /* an errno: the connection must be ended */
    struct emx_verbs_conn_events events;
    bool taking;       /* while it ends: receives of the shared queue may still come back */
    bool drained;      /* they are back */
    uint64_t since_ns; /* when this state began */

    unsigned credits;      /* frames that the peer has buffers for */
    unsigned owed;         /* credits to return to the peer */
    unsigned lent;         /* received frames in use by the engine */
    unsigned own;          /* without a shared queue: receives posted or in use */
    unsigned depth;        /* messages in the send queue, at most */
    uint32_t sent, reaped; /* messages sent, and completed */
    unsigned unsignalled;  /* sent since the last signalled one */
    unsigned inline_bytes; /* messages up to this need no buffer: */
    struct ibv_send_wr inline_wr;
    struct ibv_sge inline_sge[EMX_VERBS_SGES];
    uint32_t in_flight_mask;            /* by number: */
    struct emx_verbs_flight *in_flight; /* a power of two, at least depth */

    uint32_t nonce;        /* the same at both ends: keys are valid for this connection only */
    struct emx_list reads; /* emx_verbs_read that have not ended; in their order */
    struct emx_verbs_part part[EMX_VERBS_READS];
    unsigned parts_in_flight;
    struct emx_list *ended; /* list that ended reads move to */
    unsigned exposed;       /* exports over this connection */

    const uint64_t *now_ns; /* the wire's clock, updated by sweeps */
    uint64_t used_ns;       /* time of the last frame or read */
    bool heard;             /* something arrived since the last check */
    bool probing;           /* an empty read is in flight */
    unsigned silent;        /* checks in a row without an arrival despite a probe */
};

/* Creates the queue pair on the device of c->id and posts its receives. 0, or an errno: nothing is left behind. ENOSPC:
 * there will be room when another connection has ended. */
int emx_verbs_conn_ready(struct emx_verbs_conn *c, struct emx_verbs_dev *d);

/* Sends a frame, which the wire has had since since_ns. false: there is no credit or no room, or the connection is
 * broken. The frame remains the caller's. */
bool emx_verbs_conn_put(struct emx_verbs_conn *c, const struct emx_txframe *f, uint64_t since_ns);

/* Returns credits to the peer: if they are enough for a message, or always. */
void emx_verbs_conn_tell(struct emx_verbs_conn *c, bool always);

/* Checks whether the peer is alive, unless something has arrived since the last check. Normally the device detects a
 * dead peer and ends the connection. With iWARP this depends on TCP, which takes much longer. So there this returns the
 * number of checks in a row without an arrival. */
unsigned emx_verbs_conn_probe(struct emx_verbs_conn *c);

/* Whether messages are in flight. Asks the device to signal when the last of them has arrived. */
bool emx_verbs_conn_unsent(struct emx_verbs_conn *c);

/* Since when the oldest message has been in flight. Only if emx_verbs_conn_unsent(). */
uint64_t emx_verbs_conn_oldest_ns(const struct emx_verbs_conn *c);

/* The work with this number has completed, successfully or not. For a send, all earlier sends have, too. */
void emx_verbs_conn_reap(struct emx_verbs_conn *c, uint64_t wr_id, bool well);

/* Posts a part of a read or a write to the device. false: there is no room, or the connection is broken. */
bool emx_verbs_conn_read(struct emx_verbs_conn *c, struct ibv_send_wr *wr, const struct emx_verbs_part *part);
/* The same for an empty read. */
bool emx_verbs_conn_read_nothing(struct emx_verbs_conn *c, const struct emx_verbs_part *part);

/* Takes back the buffer of a received frame, or of a message without a frame. */
void emx_verbs_conn_recycle(struct emx_verbs_conn *c, struct emx_verbs_buf *b, bool frame);

/* Whether the device has finished all work of the connection, and none of its frames is in use. */
bool emx_verbs_conn_idle(const struct emx_verbs_conn *c);

/* Destroys the queue pair and the id, and gives the buffers back. c is the caller's to free. */
void emx_verbs_conn_fini(struct emx_verbs_conn *c);

/* The connection of a queue pair, or NULL. */
static inline struct emx_verbs_conn *emx_verbs_conn_find(const struct emx_verbs_dev *d, uint32_t qp_num)
{
    struct emx_verbs_conn *c = d->by_qp[qp_num % EMX_VERBS_BUCKETS];

    while (c && c->qp_num != qp_num)
        c = c->next_qp;
    return c;
}

/* Numbers of work. For a receive: the buffer's address. For others: the last two bits are the kind, then come the
 * number of the send, or the part's index, and the connection's serial number. */
enum emx_verbs_work { EMX_VERBS_RECEIVE = 0, EMX_VERBS_SEND = 1, EMX_VERBS_PART = 2 };

#define EMX_VERBS_SERIAL_SHIFT 34
#define EMX_VERBS_SERIALS      (1u << 30)

static inline enum emx_verbs_work emx_verbs_work(uint64_t wr_id)
{
    return (enum emx_verbs_work)(wr_id & 3);
}

/* Whether it is work of this connection, not of an earlier one with the same queue pair number. */
static inline bool emx_verbs_is_of(const struct emx_verbs_conn *c, uint64_t wr_id)
{
    return wr_id >> EMX_VERBS_SERIAL_SHIFT == c->serial;
}

#endif
