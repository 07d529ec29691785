/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Progress: moves frames between an engine and the wires that it has open. An endpoint has one (endpoint/ep.h); so has
 * each node of the simulator and of the fuzzer, whose wires and clocks are made up. What they test is this code.
 *
 * Whoever owns it sets engine, links, clock, stats and on_event before the first call, and holds one lock around each
 * call: there is none here, and no thread, no sleep and no callback of the program either. Times are nanoseconds of its
 * clock. Nothing here fails but what starts an operation, whose results are those of core/engine.h; what a wire
 * refuses or loses is the wire's to count.
 */
#ifndef EMX_PROGRESS_H
#define EMX_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/stats.h"
#include "progress/clock.h"
#include "progress/link.h"
#include "core/engine.h"

struct emx_progress {
    /* the owner's, set before the first call; none of it is freed here */
    struct emx_engine *engine;
    struct emx_links links;
    struct emx_clock clock;
    struct emx_stats *stats;                   /* wire_full */
    void (*on_event)(void *arg, emx_time now); /* the engine has events: takes all of them (emx_engine_event()) */
    void *on_event_arg;

    /* the owner's, changed as it likes */
    uint64_t open_ops;   /* operations under way whose end the program has not been told */
    bool delivering;     /* the program is being told of ends: nothing is received the short way meanwhile */
    bool oversubscribed; /* others want this core */

    /* to be read by others */
    unsigned stuck; /* mask of links whose frames could not be taken for want of memory */
    unsigned full;  /* mask of links whose wire had no room for what the engine wanted to send */

    /* progress.c's own */
    emx_time sweep_ns; /* when every wire must be polled again, those that are polled by a system call too */
    emx_time read_ns;  /* when a round last read the clock */
    unsigned rounds_dark, rounds_dark_max; /* rounds since then, and how many there may be */
    unsigned held_back;                    /* rounds that timers have waited for frames to be looked at */
};

/* One round: frames in, timers, frames out. every_wire: polls also those that would not be due, and reads the clock.
 * Returns how many frames came, and how many reads by devices ended.
 * quick_p: NULL, or *quick_p is NULL and may become a receive that was done the short way (emx_engine_input_short()):
 * the caller's to tell at once, and then to free. */
unsigned emx_progress_round(struct emx_progress *p, bool every_wire, struct emx_op **quick_p);

/* Whether the last round has looked at the time, and so at the timers and at every wire that was due. If it has, and
 * found nothing, the owner may leave progress alone until a frame comes or the deadline has passed. */
static inline bool emx_progress_looked_around(const struct emx_progress *p)
{
    return !p->rounds_dark;
}

/* When the next round must be although no frame comes: EMX_NEVER, or a time, perhaps one that has passed. */
emx_time emx_progress_deadline(const struct emx_progress *p);

/* Acts on the engine's events, then sends what it wants to send. After each operation. now: of the clock. */
void emx_progress_flush_now(struct emx_progress *p, emx_time now);
static inline bool emx_progress_wants_flush(const struct emx_progress *p)
{
    const struct emx_engine_ready *hints = emx_engine_ready(p->engine);

    return hints->output | hints->reads | hints->memory | (hints->news & EMX_RESULT_EVENT);
}
static inline void emx_progress_flush(struct emx_progress *p, emx_time now)
{
    if (emx_progress_wants_flush(p))
        emx_progress_flush_now(p, now);
}

/* Goes on with reads in which other processes write to the program's memory. True: there is none any more. Before the
 * engine or the links end it is called until it says so. */
bool emx_progress_end_reads(struct emx_progress *p);

/* ---- Operations, whose first frames leave in the call ---- */

/* Written where the wire wants it, without a look at the clock. false: nothing has happened. */
static inline bool emx_progress_send_reserved(struct emx_progress *p, struct emx_link *k, struct emx_peer *peer,
                                              const struct emx_op_args *a)
{
    const struct emx_wire_addr *to;
    uint32_t len_bytes = k->ops->reserve ? emx_engine_reserve(peer, a, &to) : 0;
    void *frame = len_bytes ? k->ops->reserve(k->wire, to, len_bytes) : NULL;

    if (!frame)
        return false;
    emx_engine_write_reserved(peer, a, frame);
    k->ops->commit(k->wire);
    emx_engine_commit(peer, a, p->clock.last_ns);
    return true;
}

/* Sends a message the short way, if that is possible in this moment. *rc_p: as emx_engine_send(). */
static inline bool emx_progress_send_fast(struct emx_progress *p, struct emx_peer *peer, const struct emx_op_args *a,
                                          int *rc_p)
{
    struct emx_txframe f;
    struct emx_link *k;
    unsigned link;

    if (!emx_engine_fast(peer, a, &link))
        return false;
    k = &p->links.link[link];
    *rc_p = ETHMX_OK;
    if (emx_progress_send_reserved(p, k, peer, a))
        return true;
    if (!k->ops->tx_room(k->wire))
        return false;
    *rc_p = emx_engine_send_fast(peer, a, &f, emx_clock_now(&p->clock));
    if (*rc_p == ETHMX_OK)
        k->ops->tx(k->wire, &f, 1);
    return true;
}

/* Sends any other message, or one that cannot go that way now. Result as emx_engine_send(). */
int emx_progress_send_long(struct emx_progress *p, struct emx_peer *peer, const struct emx_op_args *a);

/* Sends a message: the short way if it can. Result as emx_engine_send(). */
static inline int emx_progress_send(struct emx_progress *p, struct emx_peer *peer, const struct emx_op_args *a)
{
    int rc;

    return emx_progress_send_fast(p, peer, a, &rc) ? rc : emx_progress_send_long(p, peer, a);
}

/* Posts a receive. Results as emx_engine_recv(). */
static inline int emx_progress_recv(struct emx_progress *p, struct emx_peer *peer, const struct emx_op_args *a,
                                    struct emx_op **op_p, struct ethmx_result *result_p)
{
    emx_time now = emx_engine_posts_timeless(p->engine) ? p->clock.last_ns : emx_clock_now(&p->clock);
    int rc = emx_engine_recv(p->engine, peer, a, op_p, result_p, now);

    if (emx_progress_wants_flush(p))
        emx_progress_flush_now(p, emx_clock_now(&p->clock));
    return rc;
}

#endif
