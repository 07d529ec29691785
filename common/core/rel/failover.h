/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Failover: a connected session whose route does not reach the peer any more goes on over another route.
 */
#ifndef EMX_CORE_FAILOVER_H
#define EMX_CORE_FAILOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "core/format/frame.h"
#include "core/time.h"

struct emx_scratch;
struct emx_session;
struct emx_txframe;

/* Why routes are probed. */
enum emx_failover_goal {
    EMX_FAILOVER_SEARCH,  /* this side hears nothing */
    EMX_FAILOVER_CHECK,   /* the peer hears nothing: is this side's route in order? */
    EMX_FAILOVER_GO_BACK, /* does the route that failed before work again? */
};

struct emx_failover {
    emx_time retry_ns; /* of the next probe; 0: no route is probed */
    emx_time wait_ns;
    uint32_t number;  /* told in probes, returned in replies */
    unsigned probes;  /* sent for this goal */
    unsigned misses;  /* of them over the current route without a reply, since another has replied */
    unsigned replies; /* going back: probes that were replied to */
    uint8_t goal;     /* enum emx_failover_goal */
    uint8_t asked;    /* route of the last probe */
    uint8_t other;    /* the last that was not the current one */
    uint8_t replied;  /* mask of routes; going back: to the last probe */
    bool due;         /* the last probe has not left yet */

    bool away;             /* the current route is not the one that failed first */
    uint8_t home;          /* that is this one */
    emx_time home_ns;      /* time of the next try to go back */
    emx_time home_wait_ns; /* between two tries */

    uint8_t reply_link; /* that the probe arrived on */
    uint8_t reply_left; /* routes below this number, of that link, carry a reply */
    struct emx_f_route_probe reply;
};

/* Time without a reply after which other routes are probed. */
emx_time emx_failover_silence_ns(const struct emx_config *cfg);
emx_time emx_failover_deadline(const struct emx_session *s);
void emx_failover_expire(struct emx_session *s, emx_time now);
/* The frame that is due on this link. */
bool emx_failover_output(struct emx_session *s, unsigned link, struct emx_txframe *f, struct emx_scratch *scratch);

enum emx_drop emx_failover_input_probe(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_failover_input_moved(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_failover_input_reply(struct emx_session *s, const uint8_t *data, emx_time now);

#endif
