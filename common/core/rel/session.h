/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Session: the connection to one peer. It is made of the concepts' own structures; each is written by its own file, and
 * by others through the functions of its header.
 */
#ifndef EMX_CORE_SESSION_H
#define EMX_CORE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "core/cc/ecn.h"
#include "core/engine_impl.h"
#include "core/msg/eager.h"
#include "core/msg/rdma_threshold.h"
#include "core/msg/lapse.h"
#include "core/msg/rndv.h"
#include "core/rel/coalesce.h"
#include "core/rel/connect.h"
#include "core/rel/credit.h"
#include "core/rel/fragment.h"
#include "core/rel/offload_probe.h"
#include "core/rel/reorder.h"
#include "core/rel/rtt.h"
#include "core/rel/send_window.h"

struct emx_peer;
struct emx_tags;

enum emx_state {
    EMX_S_ROUTES,     /* wants routes */
    EMX_S_CONNECTING, /* hellos are out */
    EMX_S_CONNECTED,
    EMX_S_LEAVING, /* the peer was removed, and the goodbye is on its way out */
    EMX_S_DEAD,    /* unreachable or silent for too long */
    EMX_S_CLOSED,  /* said goodbye */
};

struct emx_session {
    struct emx_engine *e;
    struct emx_peer *peer;
    struct emx_list ready; /* in engine.ready[link] while there may be something to send */
    uint8_t link;
    uint8_t state;     /* enum emx_state */
    bool greeted;      /* the peer has said where its numbers begin */
    bool takes;        /* frames of it that are not of the handshake; only then */
    int8_t end_status; /* dead or closed: why, an enum ethmx_status */
    uint8_t seal;      /* of our frames: enum emx_checksum, or EMX_SEAL_TAG */
    bool reliable;     /* our frames arrive once and in order: none is kept or acknowledged */
    bool in_place;     /* and need not be sealed: a wire may take data from where they are */
    bool connected;    /* our frames travel over connections (emx_route) */
    bool ping_due, pong_due;
    uint8_t byes_due;
    uint16_t frame_bytes;
    uint16_t gso_bytes; /* longest frame in a GSO packet, 0: none */
    uint32_t fast_room; /* messages shorter than this may take the fast path (fast_path.c); 0: none */
    emx_time heard_ns;
    emx_time asked_ns; /* first frame since then that wants an answer; 0: none */
    struct emx_wire_addr to;

    struct emx_send_window tx;
    struct emx_reorder rx;
    struct emx_credit credit;
    struct emx_eager_rx eager;
    struct emx_list backlog; /* sends that wait for the connection, the window or credit */
    struct emx_rtt rtt;
    struct emx_coalesce coalesce;
    struct emx_offload_probe offload;
    struct emx_ecn ecn;
    struct emx_fragment fragment;
    struct emx_rndv_tx pulled;
    struct emx_rndv_rx pulling;
    struct emx_lapse read;
    struct emx_get get;
    struct emx_tags *tags; /* NULL: no frame carries one */

    /* the handshake */
    struct emx_connect *connect;
    struct emx_hello_ack hello_ack[2]; /* small, full */
    uint32_t probe;                    /* number of the current route's hellos */

    /* life */
    struct emx_list living;       /* in engine.living until it is over */
    struct emx_list routing;      /* in engine.want_routes */
    struct emx_list turn;         /* in engine.turns while it may not say hello yet */
    struct emx_list hello_acking; /* in engine.hello_acking[link] while hello_acks are due there */
    struct emx_timer timer;
    emx_time peer_ack_delay_ns; /* how long the peer's acknowledgements wait for a frame to ride on */
    emx_time peer_timeout_ns;   /* when the peer gives this side up (EMX_NEVER: not told) */
    emx_time left_ns;           /* when it began to leave */
    unsigned awaits;            /* operations that wait for the peer, but posted receives */
};

/* Dead or closed: nothing comes or goes any more. */
static inline bool emx_session_over(const struct emx_session *s)
{
    return s->state == EMX_S_DEAD || s->state == EMX_S_CLOSED;
}

static inline const struct emx_route *emx_connect_route(const struct emx_session *s) /* in use, or being tried */
{
    return &s->connect->route[s->connect->current];
}
static inline bool emx_connect_reachable(const struct emx_session *s) /* a route is being tried or proven */
{
    return s->state == EMX_S_CONNECTING || s->state == EMX_S_CONNECTED;
}

/* There may be something to send. */
static inline void emx_session_ready(struct emx_session *s)
{
    if (emx_list_linked(&s->ready) || (s->state != EMX_S_CONNECTING && s->state != EMX_S_CONNECTED))
        return;
    emx_list_append(&s->e->ready[s->link], &s->ready);
    emx_engine_has_output(s->e, s->link);
}

struct emx_session *emx_session_start(struct emx_engine *e, struct emx_peer *p, emx_time now); /* NULL: no memory */
void emx_session_ask_routes(struct emx_session *s); /* once: s is not in engine.want_routes */
void emx_session_end(struct emx_session *s, unsigned state, int status, emx_time now);
void emx_session_leave(struct emx_session *s, emx_time now); /* reachable: all ends but that it says goodbye */
void emx_session_free(struct emx_session *s);
bool emx_session_drained(const struct emx_session *s); /* all that was sent has arrived */
/* A frame of the handshake has told where the peer's numbers begin. */
enum emx_drop emx_session_greet(struct emx_session *s, const struct emx_frame *h, emx_time now);

/* Whether the sender of the frame knows where our numbers begin: the frame is not of a former session. */
static inline bool emx_session_is_meant(const struct emx_session *s, const struct emx_frame *h)
{
    return !emx_seq_before(h->ack, s->tx.first);
}

void emx_session_arm(struct emx_session *s, emx_time at); /* look at the session at this time, or earlier */
void emx_session_expire(struct emx_session *s, emx_time now);
emx_time emx_session_death_ns(const struct emx_session *s); /* when a silent peer is dead; EMX_NEVER: it is not asked */
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

#endif
