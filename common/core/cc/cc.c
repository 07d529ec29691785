/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion control: see cc.h.
 */
#include "core/cc/cc.h"

static uint32_t at_least(uint32_t a, uint32_t floor)
{
    return a > floor ? a : floor;
}

static void cc_limit(struct emx_cc *cc)
{
    if (cc->cwnd_frames > cc->limit_frames)
        cc->cwnd_frames = cc->limit_frames;
    cc->flight_frames = cc->cwnd_frames;
}

void emx_cc_init(struct emx_cc *cc, uint32_t limit_frames)
{
    *cc = (struct emx_cc){.cwnd_frames = EMX_CC_START, .threshold_frames = limit_frames, .limit_frames = limit_frames};
    cc_limit(cc);
}

uint32_t emx_cc_first(struct emx_cc *cc, uint32_t left_frames)
{
    uint32_t part = at_least(left_frames / EMX_CC_PIECE, EMX_CC_ALONE);

    if (part < cc->cwnd_frames)
        cc->cwnd_frames = part;
    cc_limit(cc);
    return cc->cwnd_frames < left_frames ? cc->cwnd_frames : left_frames;
}

void emx_cc_met(struct emx_cc *cc)
{
    cc->cwnd_frames = at_least(cc->cwnd_frames, EMX_CC_START);
    cc_limit(cc);
}

void emx_cc_acked(struct emx_cc *cc, uint32_t frames, bool limits, bool recovers)
{
    if (cc->clean_frames < EMX_CC_CLEAN && !recovers)
        cc->clean_frames += frames;
    if (!limits)
        frames = 0;
    if (cc->cwnd_frames < cc->threshold_frames) {
        cc->cwnd_frames += frames;
    } else if (!recovers) {
        cc->credit += frames * EMX_CC_GROWTH;
        if (cc->credit >= cc->cwnd_frames * 100) {
            cc->credit -= cc->cwnd_frames * 100;
            cc->cwnd_frames++;
        }
    }
    cc_limit(cc);
}

void emx_cc_coalesce(struct emx_cc *cc, uint32_t in_flight_frames, uint64_t rtt_ns)
{
    uint32_t together = cc->cwnd_frames / EMX_CC_PARTS;

    if (rtt_ns > EMX_CC_LONG_NS && in_flight_frames && in_flight_frames + together > cc->cwnd_frames)
        cc->flight_frames = 0;
}

static void cc_decrease(struct emx_cc *cc)
{
    cc->cwnd_frames = at_least(cc->cwnd_frames * EMX_CC_LEAVES / 10, EMX_CC_FLOOR);
    cc->threshold_frames = cc->flight_frames = cc->cwnd_frames;
    cc->credit = cc->clean_frames = 0;
}

void emx_cc_lost(struct emx_cc *cc)
{
    cc_decrease(cc);
}

/* As much as for a loss: cc.h tells why. */
void emx_cc_marked(struct emx_cc *cc)
{
    cc_decrease(cc);
}

void emx_cc_timed_out(struct emx_cc *cc)
{
    if (cc->cwnd_frames > 1) /* further time-outs in a row say nothing new */
        cc->threshold_frames = at_least(cc->cwnd_frames / 2, EMX_CC_FLOOR);
    cc->cwnd_frames = cc->flight_frames = 1;
    cc->credit = cc->clean_frames = 0;
}
