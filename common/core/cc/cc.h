/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion control of sequenced frames: how many may be in flight. A replaceable part: the engine calls these events
 * and reads cwnd_frames and flight_frames, nothing else. (Large messages are paced by their receivers, see pace.h.)
 *
 * The rule is AIMD as CUBIC has it for windows as small as a cluster's (RFC 9438, section 4.3: growth by 0.53 frames a
 * round trip, three tenths off for a gap), so that it gets as much of a link as a TCP beside it. Nothing is added while
 * frames that were sent before a gap are missing (RFC 5681). It starts at EMX_CC_START frames instead of slowly,
 * because round trips are microseconds and switches buffer more than that. But first frames to many peers at once are
 * bounded for the endpoint, as they may meet in one queue.
 *
 * Who is lost at a full queue is no matter of windows alone. Frames that leave one by one, each when one has arrived,
 * take the very places in the queue that have just become free, and hardly ever find it full. A TCP, which sends two
 * and more for each acknowledgement, finds it full in their stead: beside such a stream it lost seven times as many
 * frames. (Floyd and Jacobson, "Traffic phase effects in packet-switched gateways", 1992, tell of the like.) So where
 * round trips are so long (EMX_CC_LONG_NS) that most of it must be a queue, frames wait until an eighth of the window
 * can leave together. A quarter is too much: such bursts take all that is free at once. tests/sim/sharing shows all
 * this.
 *
 * A mark (ecn.c) takes off as much as a gap, as with Linux' CUBIC. A fifth would do for a queue that is still short
 * (RFC 8511, ABE); but it comes back sooner, and with it the next mark, and CUBIC, which looks at its growth about 35
 * times a second, hardly grows where marks come more often: it was left a tenth of a link. DCTCP (RFC 8257), which
 * takes off in proportion to how many frames are marked, needs switches that are set up for it, and starves TCP at
 * those that are not.
 */
#ifndef EMX_CORE_CC_H
#define EMX_CORE_CC_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_CC_START   64
#define EMX_CC_BURST   256    /* frames to all peers that have acknowledged none yet; */
#define EMX_CC_PIECE   4      /* one of them takes at most this part of what is left of these, and may have */
#define EMX_CC_ALONE   4      /* so many in any case */
#define EMX_CC_CLEAN   32     /* so many frames without a loss show that the way is wide */
#define EMX_CC_FLOOR   4      /* after a gap; 1 after a timeout */
#define EMX_CC_GROWTH  53     /* hundredths of a frame in a round trip */
#define EMX_CC_LONG_NS 500000 /* a round trip: no cluster without a queue has it */
#define EMX_CC_PARTS   8
#define EMX_CC_LEAVES  7 /* tenths of the window, after a gap or a mark */

struct emx_cc {
    uint32_t cwnd_frames;
    uint32_t
        flight_frames; /* frames may leave while fewer than this are in flight: cwnd_frames, or 0 while they gather */
    uint32_t threshold_frames; /* slow start below */
    uint32_t credit;           /* hundredths of frames: growth since the last step above it, times cwnd_frames */
    uint32_t limit_frames;
    uint32_t clean_frames; /* acknowledged since the last gap, mark or time-out; counts up to EMX_CC_CLEAN */
};

void emx_cc_init(struct emx_cc *cc, uint32_t limit_frames);

/* What the first frames to a peer may be, of the endpoint's burst. Returns how many of left_frames it takes. */
uint32_t emx_cc_first(struct emx_cc *cc, uint32_t left_frames);
/* The peer has acknowledged the first. */
void emx_cc_met(struct emx_cc *cc);

/* Whether the window, rather than the program, decides how many frames are in flight, which are so many (RFC 7661,
 * section 4.1). If not, the window does not grow: nobody knows whether the network would carry that much. */
static inline bool emx_cc_limits(const struct emx_cc *cc, uint32_t in_flight_frames)
{
    return in_flight_frames >= (cc->cwnd_frames < cc->threshold_frames ? cc->cwnd_frames / 2 : cc->cwnd_frames);
}

/* frames were acknowledged; limits: as above, before that. recovers: some that were sent before the last gap or
 * time-out are still missing. */
void emx_cc_acked(struct emx_cc *cc, uint32_t frames, bool limits, bool recovers);

/* After acknowledgements: so many are in flight still, and round trips take so long. Not while something is to be sent
 * again. */
void emx_cc_coalesce(struct emx_cc *cc, uint32_t in_flight_frames, uint64_t rtt_ns);

/* Frames were lost, or arrived with marks; together once per round trip at most. */
void emx_cc_lost(struct emx_cc *cc);
void emx_cc_marked(struct emx_cc *cc);
void emx_cc_timed_out(struct emx_cc *cc);

#endif
