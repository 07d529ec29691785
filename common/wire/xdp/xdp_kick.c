/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A kernel that copies sends inside the call, a part of the ring each time, so the call is repeated until the ring is
 * empty. A driver with zero copy is only woken by the call and processes the ring later: when it is scheduled, or,
 * without carrier, when the carrier is back. So a call that moved nothing is not repeated immediately, but when the
 * wire has no other work.
 */
#include "wire/xdp/xdp_kick.h"

#include <errno.h>
#include <linux/if_xdp.h>

#include "wire/backlog.h"

#ifndef XDP_RING_NEED_WAKEUP
#define XDP_RING_NEED_WAKEUP (1 << 0)
#endif

static uint32_t xdp_kick_consumed(const struct emx_xdp_kick *k)
{
    return __atomic_load_n(k->consumer, __ATOMIC_ACQUIRE);
}

unsigned emx_xdp_kick(const struct emx_xdp_kick *k, bool *stuck_p)
{
    unsigned lost = 0;
    uint32_t before;

    *stuck_p = false;
    while ((before = xdp_kick_consumed(k)) != *k->producer) {
        if (!(__atomic_load_n(k->flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP))
            return lost;
        if (k->wake(k->fd) >= 0) {
            if (xdp_kick_consumed(k) == before)
                return lost;
        } else if (xdp_kick_consumed(k) != before) {
            lost += !emx_backlog_full_error(errno); /* the last frame it processed; it continues after it */
            *k->tries = 0;
        } else {
            *stuck_p = !emx_backlog_full_error(errno) || ++*k->tries > EMX_BACKLOG_TRIES;
            return lost;
        }
    }
    *k->tries = 0;
    return lost;
}
