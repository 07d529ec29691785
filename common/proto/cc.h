/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion control of sequenced frames: how many may fly. A replaceable part: the engine calls these events and
 * reads cwnd_frames, nothing else. (Large messages are paced by their receivers, see rndv.c.)
 *
 * Today's rule is AIMD after RFC 5681 with two changes for clusters. It starts at EMX_CC_START frames instead of
 * slowly, because round trips are microseconds and switches buffer more than that. And a gap reduces the window by
 * three tenths instead of half (as CUBIC does, RFC 9438), because single frames are also lost without any congestion.
 */
#ifndef EMX_PROTO_CC_H
#define EMX_PROTO_CC_H

#include <stdint.h>

#define EMX_CC_START 64
#define EMX_CC_FLOOR 4 /* after a gap; 1 after a timeout */

struct emx_cc {
    uint32_t cwnd_frames;
    uint32_t threshold_frames; /* slow start below */
    uint32_t credit_frames;    /* acknowledged since the last step above it */
    uint32_t limit_frames;
};

void emx_cc_init(struct emx_cc *cc, uint32_t limit_frames);
void emx_cc_acked(struct emx_cc *cc, uint32_t frames);
void emx_cc_gap(struct emx_cc *cc); /* once per round trip at most */
void emx_cc_timeout(struct emx_cc *cc);

#endif
