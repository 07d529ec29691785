/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reordering window: how long data that later data has overtaken may still arrive. Pure arithmetic.
 *
 * Most Ethernet paths keep the order of frames, so a gap is a loss at once, and this is the fastest recovery. Some do
 * not: cards with several queues that are served by several processors, bonds that use their ports in turn. There a gap
 * proves nothing at first. As in RACK (RFC 8985) the waiting time is a number of quarters of the shortest response
 * time, and the receiver's experience gives that number: one more for each gap that was filled by the original data
 * after it had been requested again, none after LOSSES gaps in a row that were losses.
 */
#ifndef EMX_CORE_REO_WINDOW_H
#define EMX_CORE_REO_WINDOW_H

#include <stdint.h>

#include "core/time.h"

struct emx_reo_window {
    uint8_t quarters; /* 0: gaps are losses at once */
    uint8_t losses;   /* gaps that were losses since the last one that was not */
};

/* How long to wait for overtaken data. way_ns: the shortest response time. rto_ns: the time-out, which ends each wait.
 */
emx_time emx_reo_window_ns(const struct emx_reo_window *o, emx_time way_ns, emx_time rto_ns);

/* Data that was requested again for a gap has arrived: the original, or only the requested one. */
void emx_reo_window_was_order(struct emx_reo_window *o);
void emx_reo_window_was_loss(struct emx_reo_window *o);

#endif
