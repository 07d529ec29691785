/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lapses: whether the sender of messages that are read may have declared this side dead.
 */
#ifndef EMX_CORE_LAPSE_H
#define EMX_CORE_LAPSE_H

#include <stdbool.h>

#include "core/time.h"

struct emx_session;

struct emx_lapse {
    emx_time spoke_ns; /* if on: time of the last frame sent */
    bool on;           /* large messages are read from the sender's memory */
    bool lapsed;       /* silent for so long that the peer may have declared this side dead */
};

static inline void emx_lapse_set(struct emx_lapse *l, bool on) /* whether messages are read from now on */
{
    l->on = on;
}

static inline void emx_lapse_begin(struct emx_lapse *l, emx_time now) /* the session is connected */
{
    l->lapsed = false;
    l->spoke_ns = now;
}

void emx_lapse_spoke(struct emx_session *s, emx_time now);                    /* a frame has left */
void emx_lapse_trust(struct emx_session *s, emx_time asked_ns, emx_time now); /* a request of that time got a reply */
/* No lapse: data read now is valid. */
bool emx_lapse_none(const struct emx_session *s, emx_time now);

#endif
