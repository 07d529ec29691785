/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion control of sequenced frames: how many may be in flight. (Large messages are paced by their receivers, see
 * pace.h.)
 *
 * A congestion control is a file of this folder and a row of the table in cc.c. The first row is used. The send window
 * reads the fields of struct emx_cc without a call, and calls emx_cc_ops on events. No other code depends on which one
 * is used.
 */
#ifndef EMX_CORE_CC_H
#define EMX_CORE_CC_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_CC_START 64  /* initial window: round trips are short, and switches have larger buffers */
#define EMX_CC_BURST 256 /* limit on first frames of all peers that have acknowledged none, because */
#define EMX_CC_PIECE 4   /* they may meet in one queue. One peer takes this part of the rest of the limit, */
#define EMX_CC_ALONE 4   /* and at least this many */
#define EMX_CC_CLEAN 32  /* frames without a loss that show that the path has room */
#define EMX_CC_STATE 1   /* private words of a congestion control in each session */

struct emx_cc {
    /* Set by the congestion control: */
    uint32_t cwnd_frames;   /* the window; at least 1, at most limit_frames */
    uint32_t flight_frames; /* frames may leave while fewer than this are in flight: cwnd_frames, or 0 while frames wait
                               to leave together. With none in flight, one may always leave */
    uint32_t threshold_frames; /* below it the window doubles per round trip: slow start */
    uint32_t clean_frames;     /* acknowledged since the last gap, mark or time-out; counts up to EMX_CC_CLEAN */

    uint32_t limit_frames;
    uint32_t state[EMX_CC_STATE]; /* private; 0 at first. The structure may be copied */
};

struct emx_cc_event {
    uint64_t now_ns;
    uint64_t rtt_ns;       /* network round trip (rtt.c); 0: not measured */
    uint32_t frames;       /* frames that the event concerns */
    uint32_t bytes;        /* their length, headers included */
    uint32_t flew_frames;  /* in flight before the event */
    uint32_t flies_frames; /* in flight after the event */
    bool limits;           /* the window limits the frames in flight: see emx_cc_limits() */
    bool recovers;         /* frames that were sent before the last gap or time-out are missing */
    bool resends;          /* frames wait to be retransmitted */
};

struct emx_cc_ops {
    const char *name;

    void (*init)(struct emx_cc *cc); /* the fields are set */

    /* Frames were acknowledged. */
    void (*acked)(struct emx_cc *cc, const struct emx_cc_event *ev);

    /* Later frames have arrived, and these have not. For losses and marks this is called once for all frames in flight:
     * not again before all of them have been acknowledged. */
    void (*lost)(struct emx_cc *cc, const struct emx_cc_event *ev);

    /* Frames arrived with a congestion mark (rel/ecn.c). bytes: 0, because the peer reports no lengths. */
    void (*marked)(struct emx_cc *cc, const struct emx_cc_event *ev);

    /* Nothing was acknowledged for so long that all frames in flight, more than one, count as lost. If that proves
     * wrong, the earlier copy of the structure is restored. */
    void (*timed_out)(struct emx_cc *cc, const struct emx_cc_event *ev);
};

/* All congestion controls, the default first; ends with NULL. */
extern const struct emx_cc_ops *const emx_cc_table[];

void emx_cc_init(struct emx_cc *cc, const struct emx_cc_ops *ops, uint32_t limit_frames);

/* Sets the initial window of a peer, a part of the endpoint's burst. Returns how many of left_frames it takes. */
uint32_t emx_cc_first(struct emx_cc *cc, uint32_t left_frames);
/* The peer has acknowledged its first frame. */
void emx_cc_met(struct emx_cc *cc);

/* Whether the window, not the program, limits the frames in flight (RFC 7661, section 4.1). If not, the window should
 * not grow, because nothing shows that the network can carry more. */
static inline bool emx_cc_limits(const struct emx_cc *cc, uint32_t in_flight_frames)
{
    return in_flight_frames >= (cc->cwnd_frames < cc->threshold_frames ? cc->cwnd_frames / 2 : cc->cwnd_frames);
}

static inline void emx_cc_set(struct emx_cc *cc,
                              uint32_t frames) /* for congestion controls: sets the window, within limits */
{
    cc->cwnd_frames = cc->flight_frames = frames < cc->limit_frames ? frames : cc->limit_frames;
}

#endif
