/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pace: how much an endpoint asks for at once, over all senders of large messages. Pure arithmetic.
 *
 * What was asked for and has not arrived meets in one queue: that of the switch's port to us. If it is longer than the
 * queue, frames are lost, and the queue's length is not known. So the limit is found out. It begins at a quarter of the
 * most. Each window's worth of data moves it up by a step, which doubles when nothing was lost meanwhile and begins
 * small again when something was; each byte lost takes one byte off. So what was overdone is undone at once, a queue
 * that is too short costs one small step per window, and after a disturbance the limit is soon where it was. A few
 * frames lost by chance, which no queue is to blame for, cost little. (Decrease in proportion to loss as DCTCP does to
 * marks, SIGCOMM 2010.)
 *
 * Silence is no loss: the sender may be busy. And what comes twice was not lost.
 */
#ifndef EMX_PROTO_PACE_H
#define EMX_PROTO_PACE_H

#include <stdint.h>

struct emx_pace {
    uint64_t limit_bytes; /* may be asked for at once */
    uint64_t most_bytes, least_bytes;
    uint64_t arrived_bytes; /* since the last step up */
    uint64_t step_bytes;    /* the next */
};

void emx_pace_init(struct emx_pace *p, uint64_t most_bytes);

/* Data has arrived while the limit kept more from being asked for. */
void emx_pace_arrived(struct emx_pace *p, uint64_t bytes);

/* Data did not arrive and is asked for again. */
void emx_pace_lost(struct emx_pace *p, uint64_t bytes);

/* Data has arrived twice: it had been asked for again without need. */
void emx_pace_twice(struct emx_pace *p, uint64_t bytes);

#endif
