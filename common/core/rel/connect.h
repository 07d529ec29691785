/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connecting: the handshake, the routes to a peer, and path MTU probing.
 */
#ifndef EMX_CORE_CONNECT_H
#define EMX_CORE_CONNECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/engine.h"
#include "core/format/frame.h"
#include "core/rel/failover.h"
#include "core/time.h"

struct emx_scratch;
struct emx_session;

#define EMX_GREETED_NODE     128     /* peers that get hellos at a time from the endpoints of a host */
#define EMX_GREETED_LEAST    2       /* minimum for each endpoint */
#define EMX_CONNECT_RETRY_NS 5000000 /* time to the first retry of a hello */
#define EMX_FRAME_LEAST      400     /* no shorter frames are tried */

#define EMX_CONNECT_WHY_BYTES 320

/* As far as is known of the interfaces at both ends. */
static inline bool emx_route_carries(const struct emx_route *r)
{
    return !r->down && !r->lost;
}

/* The routes to a peer and the state of the handshake. Kept when connected, because a repeated hello needs a reply. */
struct emx_connect {
    struct emx_route route[EMX_ROUTES_MAX];
    unsigned count, current;
    emx_time since_ns;   /* time of the first try */
    emx_time give_up_ns; /* for the current route */
    emx_time retry_ns;
    emx_time wait_ns;    /* between tries, doubles */
    emx_time place_ns;   /* it counts in engine.greeting until then at most */
    bool has_place;      /* it counts there now */
    bool got[2];         /* hello_acks: small, full */
    bool due[2];         /* hellos to send */
    bool answered;       /* a hello got a reply, over any route */
    bool renews;         /* connected: the routes were requested, because an interface is back and may have changed */
    bool relearns;       /* the routes for the address in told were requested */
    uint32_t moves;      /* of the peer's interfaces: the last that is known */
    uint32_t told_moves; /* of this side's, that the peer knows */
    uint16_t told_bytes;
    uint8_t *told; /* the address in its hello, if it has more than the launcher's (learn.c); else NULL */
    bool has_why;  /* since all were tried */
    bool again;    /* all routes have failed, and were tried again */
    char *why;     /* reasons of failed routes, EMX_CONNECT_WHY_BYTES; NULL: none has failed */

    /* for path_mtu.c, when connected */
    bool mtu_probing;
    uint16_t tried_bytes;
    unsigned failures; /* tries in which the short frame got a reply and the long one did not */

    struct emx_failover failover;
};

struct emx_hello_ack {
    uint8_t due : 1;
    uint8_t replies : 7;  /* sent to hellos with the same probe, and perhaps lost; 0 again after 127 */
    uint8_t link;         /* link that the hello arrived on */
    uint16_t frame_bytes; /* length of the hello, and of the reply */
    uint32_t probe;
};

enum emx_drop emx_connect_hello(struct emx_engine *e, unsigned link, const uint8_t *data, emx_time now);
enum emx_drop emx_connect_hello_ack(struct emx_session *s, const uint8_t *data, emx_time now);
emx_time emx_connect_deadline(const struct emx_session *s);
void emx_connect_expire(struct emx_session *s, emx_time now);
void emx_connect_give_place(struct emx_session *s, emx_time now); /* releases its place for another peer */
void emx_connect_review(struct emx_session *s,
                        emx_time now); /* the interface of a route carries nothing, or does again */
void emx_connect_delayed(struct emx_session *s, emx_time late_ns); /* this process was stopped for that long */
/* Sets the properties of frames over this route. */
void emx_connect_take_nature(struct emx_session *s, const struct emx_route *r);
bool emx_connect_output_hello(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, emx_time now);
bool emx_connect_output_hello_ack(struct emx_session *s, unsigned link, struct emx_txframe *f,
                                  struct emx_scratch *scratch);

#endif
