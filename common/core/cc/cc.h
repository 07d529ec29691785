/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion control of sequenced frames: how many may be in flight. (Large messages are paced by their receivers, see
 * pace.h.)
 *
 * A congestion control is a file of this folder and a row of the table in cc.c; the first row is the one in use. The
 * send window reads the fields of struct emx_cc, which cost no call, and calls emx_cc_ops when something happens.
 * Nothing else knows which one it is.
 */
#ifndef EMX_CORE_CC_H
#define EMX_CORE_CC_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_CC_START 64  /* frames at first. Round trips are microseconds, and switches buffer more than that; */
#define EMX_CC_BURST 256 /* but those to all peers that have acknowledged none yet are so many at most: */
#define EMX_CC_PIECE 4   /* they may meet in one queue. One peer takes this part of what is left of them, */
#define EMX_CC_ALONE 4   /* and so many in any case */
#define EMX_CC_CLEAN 32  /* so many frames without a loss show that the way is wide */
#define EMX_CC_STATE 3   /* words that a congestion control has for itself, in each session */

struct emx_cc {
    /* Kept by the congestion control: */
    uint32_t cwnd_frames;      /* the window; at least 1, at most limit_frames */
    uint32_t flight_frames;    /* frames may leave while fewer than this are in flight: cwnd_frames, or 0 while they are
                                  to gather. With none in flight one may leave in any case */
    uint32_t threshold_frames; /* the window doubles in a round trip below: slow start */
    uint32_t clean_frames;     /* acknowledged since the last gap, mark or time-out; counts up to EMX_CC_CLEAN */

    uint32_t limit_frames;
    uint32_t state[EMX_CC_STATE]; /* its own; 0 at first. A copy of this structure is one of it */
};

struct emx_cc_event {
    uint64_t now_ns;
    uint64_t rtt_ns;       /* of the network (rtt.c); 0: not measured */
    uint32_t frames;       /* that it is about, */
    uint32_t bytes;        /* and their length, headers included */
    uint32_t flew_frames;  /* in flight before it, */
    uint32_t flies_frames; /* and after it */
    bool limits;           /* the window decides how many frames are in flight: see emx_cc_limits() */
    bool recovers;         /* some that were sent before the last gap or time-out are missing */
    bool resends;          /* some are to be sent again */
};

struct emx_cc_ops {
    const char *name;

    void (*init)(struct emx_cc *cc); /* the fields are set */

    /* Frames were acknowledged. */
    void (*acked)(struct emx_cc *cc, const struct emx_cc_event *ev);

    /* Later ones have arrived, and these have not. Then, and for marks, it is called once for what was in flight: not
     * again before all that has been acknowledged. */
    void (*lost)(struct emx_cc *cc, const struct emx_cc_event *ev);

    /* Frames arrived with a mark of congestion (rel/ecn.c). bytes: 0, the peer tells no lengths. */
    void (*marked)(struct emx_cc *cc, const struct emx_cc_event *ev);

    /* Nothing was acknowledged for so long that all in flight, more than one frame, counts as lost. When that proves
     * false, the structure becomes what it was before. */
    void (*timed_out)(struct emx_cc *cc, const struct emx_cc_event *ev);
};

/* All there are, the default first; the last is NULL. */
extern const struct emx_cc_ops *const emx_cc_table[];

void emx_cc_init(struct emx_cc *cc, const struct emx_cc_ops *ops, uint32_t limit_frames);

/* What the first frames to a peer may be, of the endpoint's burst. Returns how many of left_frames it takes. */
uint32_t emx_cc_first(struct emx_cc *cc, uint32_t left_frames);
/* The peer has acknowledged the first. */
void emx_cc_met(struct emx_cc *cc);

/* Whether the window, rather than the program, decides how many frames are in flight, which are so many (RFC 7661,
 * section 4.1). If not, the window should not grow: nobody knows whether the network would carry that much. */
static inline bool emx_cc_limits(const struct emx_cc *cc, uint32_t in_flight_frames)
{
    return in_flight_frames >= (cc->cwnd_frames < cc->threshold_frames ? cc->cwnd_frames / 2 : cc->cwnd_frames);
}

static inline void emx_cc_set(struct emx_cc *cc, uint32_t frames) /* for their own use: the window, within limits */
{
    cc->cwnd_frames = cc->flight_frames = frames < cc->limit_frames ? frames : cc->limit_frames;
}

#endif
