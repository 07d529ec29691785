/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rails: several ways to one peer that carry the data of large messages at the same time. See rail.c.
 */
#ifndef EMX_CORE_RAIL_H
#define EMX_CORE_RAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/txframe.h"
#include "core/engine.h"
#include "core/format/frame.h"
#include "core/rel/rtt.h"
#include "core/time.h"

#define EMX_RAIL_FAILURES 3 /* time-outs in a row after which a rail is set aside */

struct emx_rails;
struct emx_route;
struct emx_scratch;
struct emx_session;

struct emx_rail {
    struct emx_rails *rails;

    /* Data to the peer. Of the session's route the session has the requests, and the lengths that are valid. */
    struct emx_list ready;    /* in engine.rails_ready[link] while there may be something to send */
    struct emx_list requests; /* emx_pull_request.link */
    struct emx_wire_addr to;
    uint32_t last_rop; /* of the last data frame */
    uint16_t frame_bytes, gso_bytes;
    uint8_t link, seal, card;
    bool tso;  /* its GSO packets may be TSO packets */
    bool left; /* it does not reach the peer any more, or its interface carries nothing: no data is sent over it */
    bool answer_due;
    uint32_t answer; /* number of the question */

    /* Data from the peer, over its rail of the same number; of rail 0 the session and the engine have the rest. */
    bool usable;           /* it has carried a full-sized frame; rail 0 from the beginning */
    uint8_t failures;      /* time-outs in a row */
    emx_time heard_ns;     /* time of the last data */
    emx_time overtaken_ns; /* when a later request over another rail was seen to be answered before one over this */
    emx_time left_ns;      /* of the last request that was repeated over another rail after a time-out */
    emx_time try_ns;       /* not usable: when it is tried again */
    emx_time pause_ns;     /* until the next try but one; doubles */
    uint64_t byte_ps;      /* smoothed: time for each byte, in ps; 0: unknown */
    emx_time way_ns;       /* as emx_rndv_rx.way_ns */
    uint64_t asked_bytes;  /* requested from this peer, not arrived */
    struct emx_rtt block_rtt;
};

struct emx_rails {
    struct emx_session *s;
    unsigned count;       /* rail 0 included; at least 2 */
    unsigned first;       /* the rail that is the session's route: 0, unless the session has moved */
    unsigned ask_due;     /* mask: rails about which the peer is to be asked */
    uint32_t number;      /* of the questions */
    emx_time answered_ns; /* when the latest request was made to which data has arrived */
    emx_time again_ns;    /* when a message, of which nothing had arrived in a time-out, was last requested again */
    struct emx_rail rail[EMX_RAILS_MAX];
};

/* Finds the session's rails. false: there is only one way, or no memory. Cheap if they were found before. */
bool emx_rails_open(struct emx_session *s);
void emx_rails_moved(struct emx_session *s);   /* it has another route, and no requests of the peer */
void emx_rails_quiesce(struct emx_session *s); /* nothing is sent any more */
void emx_rails_close(struct emx_session *s);   /* nothing is requested over them */

/* Asks the peer about rails that are not usable and whose time has come. */
void emx_rails_ask(struct emx_session *s, emx_time now);
/* The data in each frame of a large message, if its route carries most_bytes: what all rails carry. */
uint16_t emx_rails_frame_bytes(const struct emx_session *s, uint16_t most_bytes);

/* The rail that is the session's route, and how many there are: data can be sent over them. */
unsigned emx_rails_first(const struct emx_session *s);
unsigned emx_rails_count(const struct emx_session *s);

/* Routes of the mask carry frames, or not, as their interfaces do. Returns the mask of rails that carry nothing any
 * more. */
unsigned emx_rails_review(struct emx_session *s, unsigned changed, emx_time now);

/* The route of a rail leads to another place. */
void emx_rails_renew(struct emx_session *s, const struct emx_route *r);

void emx_rail_heard(struct emx_rail *k, emx_time now);  /* data has arrived */
void emx_rail_failed(struct emx_rail *k, emx_time now); /* requested data has not, although the peer sends */
void emx_rail_ready(struct emx_rail *k);                /* there may be something to send */

enum emx_drop emx_rail_input(struct emx_session *s, const uint8_t *data, emx_time now);
bool emx_rail_output_ask(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch);
bool emx_rail_output_answer(struct emx_rail *k, struct emx_txframe *f, struct emx_scratch *scratch);

#endif
