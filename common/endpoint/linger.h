/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Linger: how long closing an endpoint waits for its last acknowledgements.
 *
 * The time is counted in rounds, and a round counts for at most the time that it could wait. A program that was
 * stopped, or got no core for seconds, could not receive in that time, and its peers may have been stopped with it. If
 * that time counted, closing would lose messages that a single round delivers. Not thread-safe: one thread closes.
 */
#ifndef EMX_ENDPOINT_LINGER_H
#define EMX_ENDPOINT_LINGER_H

#include "base/min.h"
#include "core/engine.h"

#define EMX_LINGER_ROUND_NS 100000000u

struct emx_linger {
    emx_time seen_ns, left_ns;
};

static inline struct emx_linger emx_linger_start(emx_time linger_ns, emx_time now)
{
    return (struct emx_linger){.seen_ns = now, .left_ns = linger_ns};
}

/* How long the next round may wait; 0: stop waiting. */
static inline emx_time emx_linger_round(struct emx_linger *l, emx_time now)
{
    l->left_ns -= emx_min(l->left_ns, emx_min(now - l->seen_ns, EMX_LINGER_ROUND_NS));
    l->seen_ns = now;
    return emx_min(l->left_ns, EMX_LINGER_ROUND_NS);
}

#endif
