/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reordering window: see reo_window.h.
 */
#include "core/cc/reo_window.h"

#include "base/min.h"

#define LOSSES 16

emx_time emx_reo_window_ns(const struct emx_reo_window *o, emx_time way_ns, emx_time rto_ns)
{
    return emx_min(o->quarters * way_ns / 4, rto_ns);
}

void emx_reo_window_was_order(struct emx_reo_window *o)
{
    o->losses = 0;
    if (o->quarters < UINT8_MAX)
        o->quarters++;
}

void emx_reo_window_was_loss(struct emx_reo_window *o)
{
    if (++o->losses >= LOSSES)
        *o = (struct emx_reo_window){0};
}
