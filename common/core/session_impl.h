/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The structure of a session, composed of the structures of the concepts. Each is written by its own file, and by
 * others through the functions of its header. rel/session.h has the functions of the session.
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
struct emx_rails;
struct emx_rma_peer;
struct emx_tags;

enum emx_state {
    EMX_S_ROUTES,     /* waits for routes */
    EMX_S_CONNECTING, /* hellos are sent */
    EMX_S_CONNECTED,
    EMX_S_LEAVING, /* the peer was removed, and the close frame has not left yet */
    EMX_S_DEAD,    /* unreachable or silent for too long */
    EMX_S_CLOSED,  /* the peer has sent a close frame */
};

struct emx_session {
    struct emx_engine *e;
    struct emx_peer *peer;
    struct emx_list ready; /* in engine.ready[link] while there may be something to send */
    uint8_t link;
    uint8_t state;        /* enum emx_state */
    uint8_t answer_links; /* mask: over which hello_acks or frames of failover may be due */
    bool greeted;         /* the peer's first number is known */
    bool takes;           /* accepts frames that are not of the handshake */
    int8_t end_status;    /* dead or closed: why, an enum ethmx_status */
    uint8_t seal;         /* of frames sent: enum emx_checksum, or EMX_SEAL_TAG */
    bool reliable;        /* frames sent arrive once and in order: none is kept or acknowledged */
    bool in_place;        /* and need no checksum or tag: a wire may take data in place */
    bool connected;       /* frames sent travel over connections (emx_route) */
    bool ping_due, pong_due;
    uint8_t byes_due;
    uint8_t unpushed;    /* so many further messages are not pushed (push.c) */
    bool early;          /* what the peer has pushed last has no receive, */
    uint8_t early_looks; /* and may wait so often more for one */
    uint16_t frame_bytes;
    uint16_t gso_bytes; /* longest frame in a GSO packet, 0: none */
    uint32_t fast_room; /* messages shorter than this may take the fast path (fast_path.c); 0: none */
    unsigned awaits;    /* operations that wait for the peer, except posted receives */
    uint32_t pushed_rx; /* what that is for: the id of the receive, early: of the peer's operation; 0: nothing */
    emx_time heard_ns;
    emx_time asked_ns; /* time of the first frame since then that needs a reply; 0: none */
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
    uint32_t probe;     /* number of the current route's hellos; here it fills a gap, */
    uint32_t pushed_op; /* as does the id of the message that was pushed last; 0: none */
    struct emx_fragment fragment;
    struct emx_rndv_tx pulled;
    struct emx_rndv_rx pulling;
    struct emx_lapse read;
    struct emx_get get;
    struct emx_rma_peer *rma; /* NULL: no one-sided operations */
    struct emx_tags *tags;    /* NULL: frames carry no tags */

    /* handshake */
    struct emx_connect *connect;
    struct emx_hello_ack hello_ack[2]; /* small, full */

    /* life cycle */
    struct emx_list living;       /* in engine.living until it is over */
    struct emx_list routing;      /* in engine.want_routes */
    struct emx_list turn;         /* in engine.turns while it must not send hellos yet */
    struct emx_list hello_acking; /* in engine.hello_acking[link] of one of answer_links */
    struct emx_timer timer;
    emx_time peer_ack_delay_ns; /* how long the peer's acknowledgements wait for a frame to carry them */
    emx_time peer_timeout_ns;   /* after which the peer declares this side dead (EMX_NEVER: unknown) */
    emx_time left_ns;           /* when it entered EMX_S_LEAVING */
    struct emx_rails *rails;    /* NULL: data has one way only, or has needed no other yet */
};

#endif
