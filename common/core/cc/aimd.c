/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion control by additive increase and multiplicative decrease.
 *
 * The rule is AIMD as CUBIC uses it for small windows (RFC 9438, section 4.3), with its growth and its decrease, so
 * that a session gets as much of a link as a TCP flow beside it. The window does not grow while frames that were sent
 * before a gap are missing (RFC 5681). It starts at EMX_CC_START frames and doubles per round trip until the first
 * loss.
 *
 * Windows alone do not decide which stream loses frames at a full queue. Frames that leave one by one, each when an
 * acknowledgement has arrived, take the places in the queue that have just become free, and rarely find it full. A TCP
 * flow sends two or more frames for each acknowledgement, finds the queue full instead, and loses many more frames.
 * (Floyd and Jacobson, "Traffic phase effects in packet-switched gateways", 1992, describe this.) So if a round trip is
 * so long that most of it must be queueing (EMX_AIMD_LONG_NS), frames wait until an eighth of the window can leave
 * together. A quarter is too much: such bursts take all places that are free. tests/sim/sharing shows this.
 *
 * A mark decreases the window as much as a gap, as in Linux' CUBIC. A smaller decrease would do for a queue that is
 * still short (RFC 8511, ABE). But the next mark would then come sooner, and CUBIC, which updates its growth only a few
 * times a second, would hardly grow between marks, and get a small part of the link. DCTCP (RFC 8257), which decreases
 * in proportion to the marked frames, needs configured switches, and starves TCP at others.
 */
#include "core/cc/aimd.h"

#define GROWTH 53 /* hundredths of a frame in a round trip */
#define LEAVES 7  /* tenths of the window, after a gap or a mark */
#define PARTS  8  /* of the window: one of them leaves together if round trips are long */

/* Uses its state: hundredths of frames since the last step above the threshold, times cwnd_frames. */
static uint32_t *aimd_growth(struct emx_cc *cc)
{
    return &cc->state[0];
}

static void aimd_init(struct emx_cc *cc)
{
    (void)cc; /* slow start until the first loss */
}

/* The window after these frames were acknowledged. */
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
    if (cc->cwnd_frames > 1) /* consecutive time-outs are one event */
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
