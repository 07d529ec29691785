/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The session's own structure. It is made of the concepts' own structures; each is written by its own file, and by
 * others through the functions of its header. Its functions are in rel/session.h.
 */
#ifndef EMX_CORE_SESSION_IMPL_H
#define EMX_CORE_SESSION_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "core/engine_impl.h"
#include "core/msg/coalesce.h"
#include "core/msg/eager.h"
#include "core/msg/lapse.h"
#include "core/msg/rdma_threshold.h"
#include "core/msg/rndv.h"
#include "core/rel/connect.h"
#include "core/rel/credit.h"
#include "core/rel/ecn.h"
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

#endif
