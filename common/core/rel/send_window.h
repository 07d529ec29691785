/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Send window: sequenced frames out, kept until acknowledged. send_window.c tells when a frame is sent again.
 */
#ifndef EMX_CORE_SEND_WINDOW_H
#define EMX_CORE_SEND_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/cc/cc.h"
#include "core/rel/txbuf.h"
#include "core/time.h"

struct emx_engine;
struct emx_session;

/* Frames acked..next-1 are in unacked, in order; from send_next on they were never sent. */
struct emx_send_window {
    uint32_t next, acked;
    uint32_t first; /* where the numbers begin */
    uint16_t peer_window;
    bool probing;         /* after a time-out one frame may leave, whatever is in flight */
    bool doubtful;        /* the window counts as lost, */
    bool falsely;         /* and something of it has arrived */
    bool started;         /* a frame was sent, */
    uint32_t shortest_ns; /* round trip of all; UINT32_MAX: not measured */
    struct emx_list unacked;
    struct emx_list *send_next; /* &unacked: all sent */
    unsigned in_flight;         /* sent, not acknowledged, not lost */
    unsigned lost;
    struct emx_cc cc;
    struct emx_list control; /* built, no sequence number yet */
    struct emx_txbuf *open;  /* the last of unacked, which was not sent and takes more messages; NULL: none */
    emx_time rto_from_ns;    /* when the clock of the resend timer started; 0: stopped */
    unsigned backoff;
    uint32_t recover;      /* one window reduction per round trip */
    uint32_t start_frames; /* started: so many of engine.start_frames */
    unsigned slots_taken;  /* eager messages in GSO packets, not acknowledged */
    struct emx_cc before;  /* doubtful: cc before that */
};

/* Frames the window takes. */
static inline unsigned emx_send_window_room(const struct emx_send_window *w)
{
    unsigned used = w->next - w->acked;

    return used < w->peer_window ? w->peer_window - used : 0;
}

/* Takes a number for a frame of a reliable session, of which nothing is kept. */
static inline void emx_send_window_reserve(struct emx_send_window *w)
{
    w->acked = ++w->next;
}

/* No frame may leave before others are acknowledged. */
static inline bool emx_send_window_full(const struct emx_send_window *w)
{
    return w->in_flight && w->in_flight >= w->cc.flight_frames && !w->probing;
}

static inline void emx_send_window_open(struct emx_send_window *w, struct emx_txbuf *b) /* it was pushed just now */
{
    w->open = b;
}

/* The peer takes so many frames. */
static inline void emx_send_window_limit(struct emx_send_window *w, uint16_t peer_window)
{
    w->peer_window = peer_window;
}

/* All that is in the window has been sent, and one more may go at once. */
static inline bool emx_send_window_clear(const struct emx_send_window *w)
{
    return w->send_next == &w->unacked && !w->lost && (!w->in_flight || w->in_flight < w->cc.cwnd_frames) &&
           emx_send_window_room(w);
}

void emx_send_window_init(struct emx_send_window *w, const struct emx_cc_ops *cc, uint32_t first,
                          uint32_t limit_frames);
void emx_send_window_direct(struct emx_session *s, struct emx_txbuf *b,
                            emx_time now);                                /* sent as frame tx_next, when clear */
void emx_send_window_push(struct emx_session *s, struct emx_txbuf *b);    /* into the window: gets its number */
void emx_send_window_control(struct emx_session *s, struct emx_txbuf *b); /* when there is room */
void emx_send_window_ack(struct emx_session *s, uint32_t ack, uint64_t early, emx_time now);
struct emx_txbuf *emx_send_window_next(struct emx_session *s); /* the next to send, NULL: none may go */
void emx_send_window_sent(struct emx_session *s, struct emx_txbuf *b, emx_time now);
emx_time emx_send_window_deadline(const struct emx_session *s);
void emx_send_window_expire(struct emx_session *s, emx_time now);
void emx_send_window_marked(struct emx_session *s, uint32_t frames, emx_time now); /* so many arrived with marks */
void emx_send_window_hurry(struct emx_session *s,
                           emx_time now); /* what kept it from arriving is over: send again soon */
void emx_send_window_fini(struct emx_session *s);
void emx_send_window_spend(struct emx_engine *e); /* the wire has copied what it was given */

#endif
