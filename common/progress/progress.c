/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that waits for a message runs rounds in a loop, millions of times without a frame, and each poll may delay
 * a frame that has just arrived. So an idle round does as little as possible:
 *
 *     - A wire that is polled in memory is polled in each round. A wire that needs a system call is polled when peers
 * are connected over it and the others had nothing, or when it is the only one. Otherwise it waits for the next
 * *sweep*, every SWEEP_NS, which finds the first frames of new peers.
 *     - The clock is read at most once in a round, and not at all in most: even reading the processor's counter costs
 * as much as dozens of instructions. While rounds follow each other closely, every eighth reads it, and frames that
 *       start no timer (emx_engine_timeless()) are handled with the time read last. Where rounds are further apart,
 * each reads the clock, or timers would fire late; unless reading it is expensive.
 *     - If the program does nothing but wait, a round that finds nothing polls LOOKS times, slowly, before it returns.
 * The loop of the MPI library around it polls other things, too, and a message is found sooner here.
 *     - No timer fires while received frames wait to be handled: when the program has been away for a while, the frame
 * that the timer waits for may be among them. A flood of frames delays timers for a few rounds only.
 *     - One word of the engine says whether it has something to send.
 */
#include "progress/progress.h"

#include "base/pause.h"
#include "core/msg/lend.h"
#include "core/rma/rma.h"

#define RX_BATCHES 4       /* of one link in one round; then the others have their turn */
#define SWEEP_NS   50000   /* longest time that a wire is left alone */
#define LOOK_NS    1000000 /* interval of on_look() */
#define PATIENCE   8       /* rounds that timers wait for frames to be looked at */
#define CLOCK_GAP  8       /* rounds for one reading of the clock, */
#define EXPORTS    8       /* regions exported in one round */
#define CLOSE_NS   8000    /* if they took no longer than this */
#define LOOKS      8       /* polls in a round of a program that only waits */

/* Reads the clock unless this round has done so. */
static inline emx_time progress_round_time(struct emx_progress *p, emx_time *now_p)
{
    if (!*now_p)
        *now_p = emx_clock_now(&p->clock);
    return *now_p;
}

static void progress_output(struct emx_progress *p, unsigned i, emx_time now)
{
    struct emx_link *k = &p->links.link[i];
    struct emx_txframe f[EMX_WIRE_BATCH];

    p->full &= ~(1u << i);
    while (emx_engine_wants_output(p->engine, i)) {
        unsigned room = k->ops->tx_room(k->wire);
        unsigned n;

        if (!room) {
            p->full |= 1u << i;
            p->stats->wire_full++;
            return;
        }
        n = emx_engine_output(p->engine, i, f, room < EMX_WIRE_BATCH ? room : EMX_WIRE_BATCH, now);
        if (!n)
            return;
        k->ops->tx(k->wire, f, n);
    }
}

/* Sends a message of several frames by writing each where the wire wants it, one after the other. false: not possible,
 * nothing has happened. *rc_p ETHMX_INPROGRESS: the rest waits; flush. */
static bool progress_reserve_all(struct emx_progress *p, struct emx_peer *peer, const struct emx_op_args *a,
                                 emx_time now, int *rc_p)
{
    const struct emx_wire_addr *to;
    struct emx_reservation m;
    struct emx_link *k;
    uint32_t len_bytes;
    unsigned link;
    void *frame;

    if (!emx_engine_reserve_begin(p->engine, peer, a, &m, &link))
        return false;
    k = &p->links.link[link];
    if (!k->ops->reserve)
        return false;
    while ((len_bytes = emx_engine_reserve_next(&m, &to)) && (frame = k->ops->reserve(k->wire, to, len_bytes))) {
        emx_engine_reserve_fill(&m, frame, len_bytes);
        k->ops->commit(k->wire);
    }
    if (!m.done_bytes)
        return false;
    *rc_p = emx_engine_reserve_end(&m, now);
    return true;
}

int emx_progress_send_long(struct emx_progress *p, struct emx_peer *peer, const struct emx_op_args *a)
{
    emx_time now = emx_clock_now(&p->clock);
    int rc;

    if (!progress_reserve_all(p, peer, a, now, &rc)) {
        emx_engine_lend(p->engine);
        rc = emx_engine_send(p->engine, peer, a, now);
    }
    emx_progress_flush(p, now);
    emx_engine_settle(p->engine);
    return rc;
}

/* Does the operation in memory of the peer that this process has mapped. false: it needs frames. */
static bool progress_rma_view(struct emx_progress *p, struct emx_peer *peer, const struct emx_rma_args *a)
{
    const struct emx_wire_addr *to;
    struct emx_view *view;
    const struct emx_link *k;
    unsigned link;

    if (!(a->key & EMX_KEY_MAPPABLE) || !emx_engine_rma_is_idle(peer, &link, &to))
        return false;
    k = &p->links.link[link];
    view = k->ops->view ? k->ops->view(k->wire, to, a->key) : NULL;
    return view && emx_engine_rma_view(p->engine, a, view);
}

int emx_progress_rma(struct emx_progress *p, struct emx_peer *peer, const struct emx_rma_args *a, bool more)
{
    struct emx_txframe f = {.to = NULL};
    const struct emx_link *k = NULL;
    emx_time now;
    unsigned link;
    int rc;

    if (progress_rma_view(p, peer, a))
        return ETHMX_OK;
    now = emx_clock_now(&p->clock);
    if (!more && emx_engine_rma_direct(peer, &link) && p->links.link[link].ops->tx_room(p->links.link[link].wire))
        k = &p->links.link[link];
    rc = emx_engine_rma(p->engine, peer, a, k ? &f : NULL, now);
    if (f.to)
        k->ops->tx(k->wire, &f, 1);
    if (!more)
        emx_progress_flush(p, now);
    return rc;
}

static int progress_do_export(const struct emx_link *k, struct emx_export *m)
{
    struct emx_wire_export l = {.to = m->to,
                                .base = m->base,
                                .len_bytes = m->len_bytes,
                                .offset = m->offset,
                                .free_only = m->what == EMX_EXPORT_FOUND,
                                .write = m->write};
    int status;

    if (m->what == EMX_EXPORT_DISCONNECT || m->disconnect)
        k->ops->disconnect(k->wire, m->to, m->keyed ? &m->key : NULL);
    if (m->what == EMX_EXPORT_DISCONNECT)
        return ETHMX_OK;
    k->ops->unexport(k->wire, m->held, m->what == EMX_UNEXPORT ? NULL : (const char *)m->base + m->done_bytes);
    if (m->what == EMX_UNEXPORT)
        return ETHMX_OK;
    status = k->ops->export(k->wire, &l, m->held);
    m->key = l.key;
    m->end = l.end;
    m->kept = l.kept;
    return status;
}

/* Does what the engine wants done with memory. Registering takes time: the frames go before. */
static void progress_export(struct emx_progress *p, unsigned i, emx_time now)
{
    struct emx_export m;

    for (unsigned n = 0; n < EXPORTS && emx_engine_export(p->engine, i, &m); n++) {
        if (m.what == EMX_EXPORT && emx_engine_wants_output(p->engine, i)) {
            progress_output(p, i, now);
            if (!emx_engine_export(p->engine, i, &m))
                return;
        }
        emx_engine_export_done(p->engine, &m, progress_do_export(&p->links.link[i], &m), now);
    }
}

static void progress_start_read(struct emx_progress *p, const struct emx_link *k, const struct emx_read *r)
{
    const struct emx_wire_read wr = {.from = r->from,
                                     .remote = r->remote,
                                     .key = r->key,
                                     .local = r->local,
                                     .len_bytes = r->len_bytes,
                                     .message = r->message,
                                     .message_bytes = r->message_bytes,
                                     .write = r->write,
                                     .cookie = r->op};
    int status = k->ops->read_start(k->wire, &wr);

    emx_engine_read_started(p->engine, r, status, emx_clock_now(&p->clock));
}

/* Continues the link's read. false: it is still under way. Where other processes want this core, no helper is asked:
 * one that waits for its core in the middle of a part delays the message. */
static bool progress_read_some(struct emx_progress *p, struct emx_link *k)
{
    const struct emx_wire_read wr = {.from = k->read.from,
                                     .remote = k->read.remote,
                                     .local = k->read.local,
                                     .len_bytes = k->read.len_bytes,
                                     .lasting = k->read.lasting && !p->oversubscribed};
    int status = k->ops->read(k->wire, &wr);

    if (status == ETHMX_ERR_PARAM) { /* nothing was read, but another message may be */
        k->read.len_bytes = 0;
        status = ETHMX_OK;
    }
    k->reading = status == ETHMX_INPROGRESS;
    if (!k->reading)
        emx_engine_read_done(p->engine, &k->read, status, emx_clock_now(&p->clock));
    return !k->reading;
}

/* Reads one part of a large message. Frames are sent before the copy, because it takes time, and after it, because it
 * may have been the last part. */
static void progress_read_piece(struct emx_progress *p, unsigned i)
{
    struct emx_link *k = &p->links.link[i];

    if (!k->reading && !emx_engine_read(p->engine, i, &k->read))
        return;
    if (k->read.message)
        progress_start_read(p, k, &k->read);
    else if (progress_read_some(p, k) && emx_engine_wants_output(p->engine, i))
        progress_output(p, i, emx_clock_now(&p->clock));
}

bool emx_progress_end_reads(struct emx_progress *p)
{
    bool ended = true;

    for (unsigned i = 0; i < p->links.count; i++) {
        struct emx_link *k = &p->links.link[i];

        if (k->reading)
            ended &= progress_read_some(p, k);
    }
    return ended;
}

static void progress_export_and_output(struct emx_progress *p, unsigned i, emx_time now)
{
    if (emx_engine_wants_export(p->engine, i))
        progress_export(p, i, now);
    if (emx_engine_wants_output(p->engine, i))
        progress_output(p, i, now);
}

/* A message that leaves the backlog may have memory to be looked up before it is announced. It leaves, too. */
void emx_progress_flush_now(struct emx_progress *p, emx_time now)
{
    const struct emx_engine_ready *ready = emx_engine_ready(p->engine);

    do { /* a read that fails is an event, too, and nobody need call again soon */
        if (ready->pending & EMX_RESULT_EVENT)
            p->on_event(p->on_event_arg, now);
        for (unsigned i = 0; i < p->links.count; i++) {
            progress_export_and_output(p, i, now);
            if (emx_engine_wants_export(p->engine, i))
                progress_export_and_output(p, i, now);
            if (emx_engine_wants_read(p->engine, i))
                progress_read_piece(p, i);
        }
    } while (ready->pending & EMX_RESULT_EVENT);
}

/* Whether the next round has work even if no frame arrives: a large message is being read, one part a round, or frames
 * could not be handled for lack of memory. */
static inline bool progress_unfinished(const struct emx_progress *p)
{
    return emx_engine_ready(p->engine)->reads || emx_engine_ready(p->engine)->memory || p->stuck;
}

/* What a wire has to say of a frame that was accepted. */
static void progress_report_marks(struct emx_progress *p, const struct emx_rxframe *f)
{
    if (f->parts || f->counts)
        emx_engine_joined(p->engine, f->data, f->counts ? 0 : f->parts, f->tso);
    if (f->marked)
        emx_engine_marked(p->engine, f->data);
}

/* Passes the received frames to the engine. false: it is out of memory, and nobody would send this frame again. */
static bool progress_take_lent(struct emx_progress *p, unsigned i, emx_time *now_p)
{
    struct emx_link *k = &p->links.link[i];

    for (; k->rx_next < k->rx_count; k->rx_next++) {
        const struct emx_rxframe *f = &k->rx[k->rx_next];
        emx_time now = emx_engine_timeless(f->data, f->len_bytes) ? p->clock.last_ns : progress_round_time(p, now_p);
        enum emx_drop why = f->body ? emx_engine_input_placed(p->engine, i, f->data, f->body, f->len_bytes, now)
                                    : emx_engine_input(p->engine, i, f->data, f->len_bytes, now);

        if (why == EMX_DROP_MEMORY && k->attr.reliable)
            return false;
        if (why == EMX_ACCEPTED && f->remarks)
            progress_report_marks(p, f);
    }
    return true;
}

/* The wire has received frames. Returns how many; more: there may be further ones. Not inline, so that a poll that
 * finds nothing saves and restores few registers. */
__attribute__((noinline)) static unsigned progress_take(struct emx_progress *p, unsigned i, bool *more_p,
                                                        emx_time *now_p)
{
    struct emx_link *k = &p->links.link[i];
    unsigned n = k->rx_count;

    *more_p = false;
    if (!progress_take_lent(p, i, now_p)) {
        p->stuck |= 1u << i;
        return 1; /* again in the next round */
    }
    p->stuck &= ~(1u << i);
    k->ops->rx_return(k->wire, k->rx, n);
    k->rx_next = k->rx_count = 0;
    *more_p = n == EMX_WIRE_BATCH;
    return n;
}

static inline bool progress_look(struct emx_link *k)
{
    if (!k->rx_count)
        k->rx_count = k->ops->rx(k->wire, k->rx, EMX_WIRE_BATCH);
    return k->rx_count;
}

/* Handles the next frame on the fast path, if possible. Not while other completions wait for delivery. */
static inline bool progress_input_fast(struct emx_progress *p, unsigned i, const struct emx_wire_peek *f,
                                       emx_time *now_p, struct emx_op **fast_p)
{
    struct emx_link *k = &p->links.link[i];

    if (!fast_p || *fast_p || !f->len_bytes || p->delivering || emx_engine_has_results(p->engine))
        return false;
    if (k->attr.reliable)
        *fast_p = emx_engine_input_short(p->engine, i, f->data, f->len_bytes, p->clock.last_ns);
    else
        *fast_p = emx_engine_input_compact(p->engine, i, f->data, f->len_bytes, progress_round_time(p, now_p));
    if (*fast_p)
        k->ops->consume(k->wire);
    return *fast_p;
}

/* Not inline, as progress_take(). */
static __attribute__((noinline)) unsigned progress_input(struct emx_progress *p, unsigned i, emx_time *now_p)
{
    unsigned total = 0;
    bool more = true;

    while (more && total < RX_BATCHES * EMX_WIRE_BATCH && progress_look(&p->links.link[i]))
        total += progress_take(p, i, &more, now_p);
    return total;
}

/* A frame of one-sided operations: answers a request at once, or completes an operation. false: nothing was done. */
static bool progress_input_rma(struct emx_progress *p, unsigned i, struct emx_wire_peek f, emx_time *now_p,
                               struct emx_op **fast_p)
{
    struct emx_link *k = &p->links.link[i];
    struct emx_txframe reply = {.to = NULL};
    bool done;

    if (!fast_p || *fast_p || f.len_bytes < 2 || p->delivering || emx_engine_has_results(p->engine))
        return false;
    if (emx_engine_rma_is_reply(f.data)) {
        *fast_p = emx_engine_rma_reply(p->engine, i, f.data, f.len_bytes, progress_round_time(p, now_p));
        return *fast_p;
    }
    if (!emx_engine_rma_is_request(f.data) || !k->ops->tx_room(k->wire))
        return false;
    done = emx_engine_rma_request(p->engine, i, f.data, f.len_bytes, &reply, progress_round_time(p, now_p));
    if (reply.to)
        k->ops->tx(k->wire, &reply, 1);
    return done;
}

/* A frame that is no message for the fast path. Not inline, as progress_take(). Looks at the frame again: arguments
 * would cost an idle poll more. */
static __attribute__((noinline)) unsigned progress_input_other(struct emx_progress *p, unsigned i, emx_time *now_p,
                                                               struct emx_op **fast_p)
{
    struct emx_link *k = &p->links.link[i];

    if (!progress_input_rma(p, i, k->ops->peek(k->wire), now_p, fast_p))
        return progress_input(p, i, now_p);
    k->ops->consume(k->wire);
    return 1;
}

/* For a wire that supports peek() and has no frame outstanding. */
static inline unsigned progress_input_peek(struct emx_progress *p, unsigned i, emx_time *now_p, struct emx_op **fast_p)
{
    struct emx_link *k = &p->links.link[i];
    struct emx_wire_peek f = k->ops->peek(k->wire);

    if (!f.data)
        return 0;
    return progress_input_fast(p, i, &f, now_p, fast_p) ? 1 : progress_input_other(p, i, now_p, fast_p);
}

static inline unsigned progress_input_cheap(struct emx_progress *p, emx_time *now_p, struct emx_op **fast_p)
{
    unsigned total = 0;

    for (unsigned left = p->links.cheap; left; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctz(left);

        if (p->links.link[i].ops->peek && !p->links.link[i].rx_count)
            total += progress_input_peek(p, i, now_p, fast_p);
        else if (progress_look(&p->links.link[i]))
            total += progress_input(p, i, now_p);
    }
    return total;
}

/* Whether the program waits for something of ours and for nothing else, and nobody else wants the core. */
static inline bool progress_only_waits(const struct emx_progress *p)
{
    return p->open_ops && p->rounds_dark_max > 1 && !p->oversubscribed;
}

/* The cheap wires had nothing, so no frame of theirs is outstanding. Polls again those that are polled in memory. */
static inline unsigned progress_look_again(struct emx_progress *p, emx_time *now_p, struct emx_op **fast_p)
{
    unsigned total = 0;

    for (unsigned left = p->links.peekable; left && !total; left &= left - 1)
        total = progress_input_peek(p, (unsigned)__builtin_ctz(left), now_p, fast_p);
    return total;
}

static inline unsigned progress_input_patiently(struct emx_progress *p, emx_time *now_p, struct emx_op **fast_p)
{
    unsigned total = progress_input_cheap(p, now_p, fast_p);

    if (total || !fast_p || !p->links.peekable || !progress_only_waits(p))
        return total;
    for (unsigned n = 1; n < LOOKS && !total; n++) {
        emx_pause_loads();
        total = progress_look_again(p, now_p, fast_p);
    }
    return total;
}

/* quiet: the cheap wires had nothing. all: whether anybody uses them or not. */
static unsigned progress_input_syscall_poll(struct emx_progress *p, bool quiet, bool all, emx_time *now_p)
{
    unsigned total = 0;

    for (unsigned m = p->links.syscall_poll; m; m &= m - 1) {
        unsigned i = (unsigned)__builtin_ctz(m);

        if (all || p->links.count == 1 || (quiet && emx_engine_link_peers(p->engine, i)))
            total += progress_input(p, i, now_p);
    }
    return total;
}

/* Tells the engine what reads by devices have ended. Returns how many. */
static unsigned progress_end_reads(struct emx_progress *p, emx_time *now_p)
{
    struct emx_wire_read_end end;
    unsigned n = 0;

    for (unsigned i = 0; i < p->links.count; i++) {
        const struct emx_link *k = &p->links.link[i];

        while (k->attr.export_min_bytes && k->ops->read_end(k->wire, &end)) {
            emx_engine_read_ended(p->engine, end.cookie, end.remote, end.len_bytes, end.status,
                                  progress_round_time(p, now_p));
            n++;
        }
    }
    return n;
}

/* Tells the engine which destinations the wires report as unreachable. */
static void progress_report_unreachable(struct emx_progress *p, emx_time now)
{
    struct emx_wire_addr to;

    for (unsigned i = 0; i < p->links.count; i++) {
        const struct emx_link *k = &p->links.link[i];

        while (k->ops->unreachable && k->ops->unreachable(k->wire, &to))
            emx_engine_unreached(p->engine, i, &to, now);
    }
}

/* Whether this round is to read the clock. */
static inline bool progress_clock_is_due(const struct emx_progress *p)
{
    return p->rounds_dark >= p->rounds_dark_max;
}

/* The same for a round that completed a receive: such rounds may follow each other closely. Where rounds are far apart,
 * each reads the clock. */
static inline bool progress_clock_is_overdue(const struct emx_progress *p)
{
    return p->rounds_dark + 1 >= 2 * p->rounds_dark_max;
}

/* The clock has been read. */
static void progress_clock_was_read(struct emx_progress *p, emx_time now)
{
    bool close = now - p->read_ns <= CLOSE_NS || !emx_clock_is_cheap(&p->clock);

    p->rounds_dark = 0;
    p->rounds_dark_max = close ? CLOCK_GAP : 1;
    p->read_ns = now;
}

static bool progress_timers_may_fire(struct emx_progress *p, unsigned frames)
{
    if (frames >= RX_BATCHES * EMX_WIRE_BATCH && ++p->held_back < PATIENCE)
        return false;
    p->held_back = 0;
    return true;
}

static void progress_look_at_host(struct emx_progress *p, bool always, emx_time now)
{
    if (!p->on_look || (!always && now < p->look_ns))
        return;
    p->look_ns = now + LOOK_NS;
    p->on_look(p->on_look_arg, now);
}

/* What depends on time. every_wire: even if it is not due. Returns how many frames came. */
static unsigned progress_look_around(struct emx_progress *p, unsigned frames, bool every_wire, emx_time *now_p)
{
    emx_time now = progress_round_time(p, now_p);

    progress_clock_was_read(p, now);
    progress_look_at_host(p, every_wire, now);
    if (now >= p->sweep_ns) {
        p->sweep_ns = now + SWEEP_NS;
        every_wire = true;
    }
    if (every_wire) {
        emx_links_sweep(&p->links);
        progress_report_unreachable(p, now);
    }
    frames += progress_input_syscall_poll(p, !frames, every_wire, now_p);
    if (now >= emx_engine_deadline(p->engine) && progress_timers_may_fire(p, frames))
        emx_engine_expire(p->engine, now);
    return frames;
}

unsigned emx_progress_round(struct emx_progress *p, bool every_wire, struct emx_op **fast_p)
{
    emx_time now = 0; /* not read */
    unsigned total;

    emx_engine_deferred_acks(p->engine);
    total = progress_input_patiently(p, &now, fast_p);
    p->rounds_dark++;
    if (fast_p && *fast_p && !progress_clock_is_overdue(p))
        return total; /* complete the receive first; the next round does the other work */
    if (every_wire || now || progress_clock_is_due(p))
        total = progress_look_around(p, total, every_wire, &now);
    else if (p->links.syscall_poll)
        total += progress_input_syscall_poll(p, !total, false, &now);
    if (emx_engine_ready(p->engine)->in_flight)
        total += progress_end_reads(p, &now);
    if (emx_progress_wants_flush(p))
        emx_progress_flush_now(p, progress_round_time(p, &now));
    return total;
}

emx_time emx_progress_deadline(const struct emx_progress *p)
{
    return progress_unfinished(p) ? 0 : emx_engine_deadline(p->engine);
}
