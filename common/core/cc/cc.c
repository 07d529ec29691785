/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion control: the table, and what all rows share. See cc.h.
 */
#include "core/cc/cc.h"
#include "core/cc/aimd.h"

#include <stddef.h>

const struct emx_cc_ops *const emx_cc_table[] = {&emx_cc_aimd, NULL};

void emx_cc_init(struct emx_cc *cc, const struct emx_cc_ops *ops, uint32_t limit_frames)
{
    *cc = (struct emx_cc){.threshold_frames = limit_frames, .limit_frames = limit_frames};
    emx_cc_set(cc, EMX_CC_START);
    ops->init(cc);
}

uint32_t emx_cc_first(struct emx_cc *cc, uint32_t left_frames)
{
    uint32_t part = left_frames / EMX_CC_PIECE;

    if (part < EMX_CC_ALONE)
        part = EMX_CC_ALONE;
    if (part < cc->cwnd_frames)
        emx_cc_set(cc, part);
    return cc->cwnd_frames < left_frames ? cc->cwnd_frames : left_frames;
}

void emx_cc_met(struct emx_cc *cc)
{
    emx_cc_set(cc, cc->cwnd_frames > EMX_CC_START ? cc->cwnd_frames : EMX_CC_START);
}
