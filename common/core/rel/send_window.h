/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Send window: sequenced frames, kept until acknowledged. send_window.c explains retransmission.
 */
#ifndef EMX_CORE_SEND_WINDOW_H
#define EMX_CORE_SEND_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/min.h"
#include "core/cc/cc.h"
#include "core/rel/txbuf.h"
#include "core/time.h"

struct emx_engine;
struct emx_session;

/* Frames acked..next-1 are in unacked, in order. Those from send_next on were never sent. */
struct emx_send_window {
    uint32_t next, acked;
    uint32_t first; /* first number */
    uint16_t peer_window;
    bool probing;         /* after a time-out one frame may leave, regardless of those in flight */
    bool doubtful;        /* the window counts as lost, */
    bool falsely;         /* and a part of it has arrived */
    bool undoable;        /* the last time-outs made the window count as lost, and may have been false */
    bool started;         /* a frame was sent */
    uint8_t runs;         /* in unacked */
    uint32_t shortest_ns; /* shortest round trip; UINT32_MAX: not measured */
    struct emx_list unacked;
    struct emx_list *send_next; /* &unacked: all sent */
    unsigned in_flight;         /* sent, not acknowledged, not lost */
    unsigned lost;
    struct emx_cc cc;
    struct emx_list control; /* built, no sequence number yet */
    struct emx_txbuf *open;  /* last of unacked, if it is unsent and takes more messages; else NULL */
    emx_time rto_from_ns;    /* when the retransmission timer started; 0: stopped */
    unsigned backoff;
    uint32_t recover;      /* one window reduction per round trip */
    uint32_t start_frames; /* if started: its part of engine.start_frames */
    unsigned slots_taken;  /* eager messages in GSO packets, not acknowledged */
    struct emx_cc before;  /* if undoable: cc before that */
    uint32_t resent;       /* between the first of the last time-outs in a row and an acknowledgement; less those that
                              had arrived */
    uint32_t doubled_told; /* frames that arrived twice, as last told */
};

/* Number of frames that the window has room for. */
static inline unsigned emx_send_window_room(const struct emx_send_window *w)
{
    unsigned used = w->next - w->acked;

    return used < w->peer_window ? w->peer_window - used : 0;
}

/* Takes a number for a frame of a reliable session, which is not kept. */
static inline void emx_send_window_reserve(struct emx_send_window *w)
{
    w->acked = ++w->next;
}

/* Whether no frame may leave before others are acknowledged. */
static inline bool emx_send_window_full(const struct emx_send_window *w)
{
    return w->in_flight && w->in_flight >= w->cc.flight_frames && !w->probing;
}

static inline void emx_send_window_open(struct emx_send_window *w, struct emx_txbuf *b) /* b was just pushed */
{
    w->open = b;
}

/* The peer accepts this many frames. */
static inline void emx_send_window_limit(struct emx_send_window *w, uint16_t peer_window)
{
    w->peer_window = peer_window;
}

/* Whether all of the window was sent, and one more frame may leave immediately. */
static inline bool emx_send_window_clear(const struct emx_send_window *w)
{
    return w->send_next == &w->unacked && !w->lost && (!w->in_flight || w->in_flight < w->cc.cwnd_frames) &&
           emx_send_window_room(w);
}

/* How many frames may be in flight now, or soon: below the threshold the window doubles with each round trip. */
static inline unsigned emx_send_window_outlook(const struct emx_send_window *w)
{
    return (unsigned)emx_max(w->cc.cwnd_frames, w->cc.threshold_frames);
}

/* Whether that many more frames would leave without waiting for acknowledgements, if limit_frames may be in flight. */
static inline bool emx_send_window_takes(const struct emx_send_window *w, unsigned frames, unsigned limit_frames)
{
    return !w->lost && w->in_flight + frames <= limit_frames && frames <= emx_send_window_room(w);
}

void emx_send_window_init(struct emx_send_window *w, const struct emx_cc_ops *cc, uint32_t first,
                          uint32_t limit_frames);
void emx_send_window_direct(struct emx_session *s, struct emx_txbuf *b,
                            emx_time now);                                   /* sent as frame tx_next, if clear */
void emx_send_window_push(struct emx_session *s, struct emx_txbuf *b);       /* enters the window and gets its number */
void emx_send_window_push_all(struct emx_session *s, struct emx_list *made); /* in this order, by link */
void emx_send_window_control(struct emx_session *s, struct emx_txbuf *b);    /* enters it when there is room */
void emx_send_window_ack(struct emx_session *s, uint32_t ack, uint64_t early, emx_time now);
struct emx_txbuf *emx_send_window_next(struct emx_session *s); /* the next to send; NULL: none may leave */
void emx_send_window_sent(struct emx_session *s, struct emx_txbuf *b, emx_time now);
emx_time emx_send_window_deadline(const struct emx_session *s);
void emx_send_window_expire(struct emx_session *s, emx_time now);
void emx_send_window_marked(struct emx_session *s, uint32_t frames, emx_time now); /* this many arrived with marks */
void emx_send_window_doubled(struct emx_session *s,
                             uint32_t frames); /* so many had arrived before, since the session began */
void emx_send_window_hurry(struct emx_session *s, emx_time now); /* the cause of loss is over: retransmit soon */
void emx_send_window_fini(struct emx_session *s);
void emx_send_window_spend(struct emx_engine *e); /* the wire has copied its frames */

#endif
