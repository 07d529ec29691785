/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connecting: the handshake, the ways to a peer, and probing of the path MTU.
 */
#ifndef EMX_CORE_CONNECT_H
#define EMX_CORE_CONNECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/engine.h"
#include "core/format/frame.h"
#include "core/time.h"

struct emx_scratch;
struct emx_session;

#define EMX_GREETED_NODE     128     /* peers that the endpoints of a host greet at a time, */
#define EMX_GREETED_LEAST    2       /* and each of them at least */
#define EMX_CONNECT_RETRY_NS 5000000 /* after which a hello is first sent again */
#define EMX_FRAME_LEAST      400     /* no shorter frames are tried where long ones get lost */

/* The ways to a peer and the handshake's state. Kept when connected: a repeated hello wants its answer. */
struct emx_connect {
    struct emx_route route[EMX_ROUTES_MAX];
    unsigned count, current;
    emx_time since_ns;   /* the first was tried */
    emx_time give_up_ns; /* on the current route */
    emx_time retry_ns;
    emx_time wait_ns;  /* between tries, doubling */
    emx_time place_ns; /* it counts in engine.greeting until then at most, */
    bool has_place;    /* and does now */
    bool got[2];       /* hello_acks: small, full */
    bool due[2];       /* hellos to send */
    bool relearns;     /* the routes by told are asked for */
    uint16_t told_bytes;
    uint8_t *told; /* the address in its hello, if that tells more than the launcher (learn.c); else NULL */
    bool again;    /* all routes have failed, and were tried once more */
    char why[320]; /* of the routes that failed */

    /* when connected, of path_mtu.c */
    bool mtu_probing;
    uint16_t tried_bytes;
    unsigned failures; /* tries of which the short frame was answered and the long one was not */
};

struct emx_hello_ack {
    bool due;
    uint8_t link;         /* the hello came from */
    uint16_t frame_bytes; /* its length, which the answer shall have */
    uint32_t probe;
};

enum emx_drop emx_connect_hello(struct emx_engine *e, unsigned link, const uint8_t *data, emx_time now);
enum emx_drop emx_connect_hello_ack(struct emx_session *s, const uint8_t *data, emx_time now);
emx_time emx_connect_deadline(const struct emx_session *s);
void emx_connect_expire(struct emx_session *s, emx_time now);
void emx_connect_give_place(struct emx_session *s, emx_time now);  /* it needs none any more: another one's turn */
void emx_connect_delayed(struct emx_session *s, emx_time late_ns); /* this process was stopped for so long */
bool emx_connect_output_hello(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, emx_time now);
bool emx_connect_output_hello_ack(struct emx_session *s, unsigned link, struct emx_txframe *f,
                                  struct emx_scratch *scratch);

#endif
