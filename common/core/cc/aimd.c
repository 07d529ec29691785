/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion control by additive increase and multiplicative decrease.
 *
 * The rule is AIMD as CUBIC has it for windows as small as a cluster's (RFC 9438, section 4.3: growth by 0.53 frames a
 * round trip, three tenths off for a gap), so that it gets as much of a link as a TCP beside it. Nothing is added while
 * frames that were sent before a gap are missing (RFC 5681). It starts at EMX_CC_START frames and doubles from there.
 *
 * Which stream loses frames at a full queue is not decided by windows alone. Frames that leave one by one, each when
 * one has arrived, take the places in the queue that have just become free, and hardly ever find it full. A TCP, which
 * sends two and more for each acknowledgement, finds it full in their stead: beside such a stream it lost seven times
 * as many frames. (Floyd and Jacobson, "Traffic phase effects in packet-switched gateways", 1992, describe this.) So
 * where round trips are so long (EMX_AIMD_LONG_NS) that most of it must be a queue, frames wait until an eighth of the
 * window can leave together. A quarter is too much: such bursts take all that is free at once. tests/sim/sharing shows
 * all this.
 *
 * A mark takes off as much as a gap, as with Linux' CUBIC. A fifth would do for a queue that is still short (RFC 8511,
 * ABE); but it comes back sooner, and with it the next mark, and CUBIC, which looks at its growth about 35 times a
 * second, hardly grows where marks come more often: it was left a tenth of a link. DCTCP (RFC 8257), which takes off in
 * proportion to how many frames are marked, needs switches that are set up for it, and starves TCP at those that are
 * not.
 */
#include "core/cc/aimd.h"

#define GROWTH 53 /* hundredths of a frame in a round trip */
#define LEAVES 7  /* tenths of the window, after a gap or a mark */
#define PARTS  8  /* of the window: one leaves together where round trips are long */

/* Its own state: hundredths of frames since the last step above the threshold, times cwnd_frames. */
static uint32_t *aimd_growth(struct emx_cc *cc)
{
    return &cc->state[0];
}

static void aimd_init(struct emx_cc *cc)
{
    (void)cc; /* doubles until something is lost */
}

/* The window after these frames. */
static uint32_t aimd_grown(struct emx_cc *cc, const struct emx_cc_event *ev)
{
    uint32_t *growth = aimd_growth(cc);
    uint32_t frames = ev->limits ? ev->frames : 0;

    if (cc->cwnd_frames < cc->threshold_frames)
        return cc->cwnd_frames + frames;
    if (ev->recovers)
        return cc->cwnd_frames;
    *growth += frames * GROWTH;
    if (*growth < cc->cwnd_frames * 100)
        return cc->cwnd_frames;
    *growth -= cc->cwnd_frames * 100;
    return cc->cwnd_frames + 1;
}

/* Whether frames wait until more can leave together. */
static bool aimd_gathers(const struct emx_cc *cc, const struct emx_cc_event *ev)
{
    return ev->rtt_ns > EMX_AIMD_LONG_NS && !ev->resends && ev->flies_frames &&
           ev->flies_frames + cc->cwnd_frames / PARTS > cc->cwnd_frames;
}

static void aimd_acked(struct emx_cc *cc, const struct emx_cc_event *ev)
{
    if (cc->clean_frames < EMX_CC_CLEAN && !ev->recovers)
        cc->clean_frames += ev->frames;
    emx_cc_set(cc, aimd_grown(cc, ev));
    if (aimd_gathers(cc, ev))
        cc->flight_frames = 0;
}

static uint32_t aimd_at_least(uint32_t frames, uint32_t least)
{
    return frames > least ? frames : least;
}

static void aimd_decrease(struct emx_cc *cc)
{
    emx_cc_set(cc, aimd_at_least(cc->cwnd_frames * LEAVES / 10, EMX_AIMD_FLOOR));
    cc->threshold_frames = cc->cwnd_frames;
    *aimd_growth(cc) = cc->clean_frames = 0;
}

static void aimd_lost(struct emx_cc *cc, const struct emx_cc_event *ev)
{
    (void)ev;
    aimd_decrease(cc);
}

static void aimd_marked(struct emx_cc *cc, const struct emx_cc_event *ev)
{
    (void)ev;
    aimd_decrease(cc);
}

static void aimd_timed_out(struct emx_cc *cc, const struct emx_cc_event *ev)
{
    (void)ev;
    if (cc->cwnd_frames > 1) /* further time-outs in a row say nothing new */
        cc->threshold_frames = aimd_at_least(cc->cwnd_frames / 2, EMX_AIMD_FLOOR);
    emx_cc_set(cc, 1);
    *aimd_growth(cc) = cc->clean_frames = 0;
}

const struct emx_cc_ops emx_cc_aimd = {.name = "aimd",
                                       .init = aimd_init,
                                       .acked = aimd_acked,
                                       .lost = aimd_lost,
                                       .marked = aimd_marked,
                                       .timed_out = aimd_timed_out};
