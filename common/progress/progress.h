/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Progress: moves frames between an engine and its open wires. An endpoint owns one (endpoint/ep.h), and so does each
 * node of the simulator and of the fuzzer, with simulated wires and a driven clock.
 *
 * Contract: the owner sets engine, links, clock, stats and on_event before the first call, and frees them. It holds one
 * lock around each call; progress has no lock, thread, sleep or user callback. Times are nanoseconds of its clock. Only
 * the functions that start an operation can fail, with the results of core/engine.h. Wires count what they refuse or
 * lose.
 */
#ifndef EMX_PROGRESS_H
#define EMX_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/stats.h"
#include "progress/clock.h"
#include "progress/link.h"
#include "core/engine.h"

struct emx_rma_args;

struct emx_progress {
    /* the owner's, set before the first call; none of it is freed here */
    struct emx_engine *engine;
    struct emx_links links;
    struct emx_clock clock;
    struct emx_stats *stats;                   /* wire_full */
    void (*on_event)(void *arg, emx_time now); /* the engine has events: takes all of them (emx_engine_event()) */
    void *on_event_arg;
    void (*on_look)(void *arg, emx_time now); /* the owner's own work, about every millisecond; NULL: there is none */
    void *on_look_arg;

    /* the owner's, changed as it likes */
    uint64_t open_ops;   /* operations whose completion was not delivered yet */
    bool delivering;     /* completions are being delivered: the fast receive path is off */
    bool oversubscribed; /* other processes want this core */

    /* to be read by others */
    unsigned stuck; /* mask of links whose frames could not be handled: out of memory */
    unsigned full;  /* mask of links whose wire had no room for what the engine wanted to send */

    /* progress.c's own */
    emx_time sweep_ns;                     /* when all wires are polled next, those that need a system call too */
    emx_time look_ns;                      /* when on_look() is due */
    emx_time read_ns;                      /* when a round last read the clock */
    unsigned rounds_dark, rounds_dark_max; /* rounds since then, and their limit */
    unsigned held_back;                    /* rounds that timers have waited for frames to be handled */
};

/* One round: input, timers, output. every_wire: polls all wires, and reads the clock. Returns the number of frames
 * received plus the number of device reads that ended. fast_p: NULL, or *fast_p is NULL on entry and may become a
 * receive that completed on the fast path (emx_engine_input_short()). The caller delivers it at once and then frees it.
 */
unsigned emx_progress_round(struct emx_progress *p, bool every_wire, struct emx_op **fast_p);

/* Whether the last round read the clock, and so checked the timers and all wires that were due. If it did and found
 * nothing, progress has nothing to do until a frame arrives or the deadline passes. */
static inline bool emx_progress_looked_around(const struct emx_progress *p)
{
    return !p->rounds_dark;
}

/* When the next round is due even if no frame arrives: EMX_NEVER, or a time, which may have passed. */
emx_time emx_progress_deadline(const struct emx_progress *p);

/* Handles the engine's events, then sends what it has to send. Called after each operation. now: by the clock. */
void emx_progress_flush_now(struct emx_progress *p, emx_time now);
static inline bool emx_progress_wants_flush(const struct emx_progress *p)
{
    const struct emx_engine_ready *ready = emx_engine_ready(p->engine);

    return ready->output | ready->reads | ready->memory | (ready->pending & EMX_RESULT_EVENT);
}
static inline void emx_progress_flush(struct emx_progress *p, emx_time now)
{
    if (emx_progress_wants_flush(p))
        emx_progress_flush_now(p, now);
}

/* Continues reads in which other processes write to the program's memory. true: none is left. Before the engine or the
 * links are destroyed it is called until it returns true. */
bool emx_progress_end_reads(struct emx_progress *p);

/* ---- Operations, whose first frames leave in the call ---- */

/* Writes the frame into memory of the wire, without reading the clock. false: not possible; nothing has happened. */
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

/* Sends a message on the fast path. false: not possible now. *rc_p: as emx_engine_send(). */
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

/* Sends a message that cannot take the fast path. Result as emx_engine_send(). */
int emx_progress_send_long(struct emx_progress *p, struct emx_peer *peer, const struct emx_op_args *a);

/* Sends a message, on the fast path if possible. Result as emx_engine_send(). */
static inline int emx_progress_send(struct emx_progress *p, struct emx_peer *peer, const struct emx_op_args *a)
{
    int rc;

    return emx_progress_send_fast(p, peer, a, &rc) ? rc : emx_progress_send_long(p, peer, a);
}

/* Starts a one-sided operation. more: frames may wait for those of the next one. Results as emx_engine_rma(). */
int emx_progress_rma(struct emx_progress *p, struct emx_peer *peer, const struct emx_rma_args *a, bool more);

/* Posts a receive. Results as emx_engine_recv(). While others have completed and were not delivered, it completes
 * behind them. */
static inline int emx_progress_recv(struct emx_progress *p, struct emx_peer *peer, const struct emx_op_args *a,
                                    struct emx_op **op_p, struct ethmx_result *result_p)
{
    bool timeless = emx_engine_posts_timeless(p->engine);
    emx_time now = timeless ? p->clock.last_ns : emx_clock_now(&p->clock);
    bool behind = !timeless && (p->delivering || emx_engine_has_results(p->engine));
    int rc = emx_engine_recv(p->engine, peer, a, op_p, behind ? NULL : result_p, now);

    if (emx_progress_wants_flush(p))
        emx_progress_flush_now(p, emx_clock_now(&p->clock));
    return rc;
}

#endif
