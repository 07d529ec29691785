/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ethmx_progress(): a round of progress, then the program's callbacks.
 *
 * Callbacks run without the lock, so that they may start operations and other threads may continue. Completions are
 * taken from the engine in batches under the lock, delivered without it, and freed under it again. One thread at a time
 * delivers (`delivering`). Other threads, and callbacks that call ethmx_progress(), only move frames. So active
 * messages of one peer are handled one after the other, in order.
 */
#include "base/log.h"
#include "endpoint/ep.h"
#include "endpoint/event.h"

#define DONE_BATCH     32
#define DELIVER_ROUNDS 16 /* limit: callbacks may start operations that complete at once */

struct finished {
    struct emx_op *op;
    ethmx_done_fn done;
    void *arg;
    struct ethmx_result result;
};

/* Its callback has run. */
static inline void deliver_forget(struct ethmx_ep *ep, struct emx_op *op)
{
    ep->large_ops -= emx_ep_is_large(ep, emx_op_data_bytes(op));
    emx_engine_op_free(ep->progress.engine, op);
    ep->progress.open_ops--;
}

static unsigned deliver_completions(struct ethmx_ep *ep)
{
    struct finished f[DONE_BATCH];
    unsigned n = 0;

    while (n < DONE_BATCH && (f[n].op = emx_engine_completed(ep->progress.engine))) {
        emx_op_result(f[n].op, &f[n].done, &f[n].arg, &f[n].result);
        n++;
    }
    if (!n)
        return 0;
    emx_ep_leave(ep);
    for (unsigned i = 0; i < n; i++) {
        if (f[i].done)
            f[i].done(f[i].arg, &f[i].result);
    }
    emx_lock_take(&ep->lock);
    for (unsigned i = 0; i < n; i++)
        deliver_forget(ep, f[i].op);
    return n;
}

/* Runs the handler of one message. The message is over when it returns, unless it was received or is kept. */
static void deliver_handle_am(struct ethmx_ep *ep, const struct emx_am_slot *slot, struct emx_unexpected *msg,
                              const struct ethmx_am *am)
{
    bool kept;

    ep->am_message = msg;
    emx_ep_leave(ep);
    kept = slot->fn(slot->arg, am);
    emx_lock_take(&ep->lock);
    if (ep->am_message && !kept)
        emx_engine_release(ep->progress.engine, msg, emx_clock_now(&ep->progress.clock));
    ep->am_message = NULL;
}

static unsigned deliver_ams(struct ethmx_ep *ep)
{
    struct ethmx_am am;
    struct emx_unexpected *msg;
    unsigned id, n = 0;

    while (n < DONE_BATCH && (msg = emx_engine_am(ep->progress.engine, &am, &id))) {
        struct emx_am_slot slot = id < ETHMX_AM_HANDLERS ? ep->am[id] : (struct emx_am_slot){0};

        if (slot.fn) {
            deliver_handle_am(ep, &slot, msg, &am);
            n++;
        } else if (id < ETHMX_AM_HANDLERS) {
            emx_engine_am_defer(ep->progress.engine, msg);
        } else {
            emx_engine_release(ep->progress.engine, msg, emx_clock_now(&ep->progress.clock));
        }
    }
    return n;
}

static bool deliver_has_ready(const struct ethmx_ep *ep)
{
    return emx_engine_has_results(ep->progress.engine) || !emx_list_empty(&ep->failures);
}

static __attribute__((noinline)) unsigned deliver_all(struct ethmx_ep *ep)
{
    const struct emx_engine_ready *ready = emx_engine_ready(ep->progress.engine);
    unsigned total = 0, n;

    ep->progress.delivering = true;
    for (unsigned i = 0; i < DELIVER_ROUNDS && deliver_has_ready(ep); i++) {
        n = 0;
        if (!emx_list_empty(&ep->failures))
            n += emx_event_deliver(ep);
        if (ready->pending & EMX_RESULT_DONE)
            n += deliver_completions(ep);
        if (ready->pending & EMX_RESULT_AM)
            n += deliver_ams(ep);
        if (!n)
            break;
        total += n;
    }
    ep->progress.delivering = false;
    if (ready->output || ready->pending & EMX_RESULT_EVENT)
        emx_progress_flush(&ep->progress, emx_clock_now(&ep->progress.clock));
    return total;
}

/* Delivers a receive that is in no list. Not inline, like deliver_all(), so that a poll that finds nothing saves and
 * restores few registers. */
static __attribute__((noinline)) void deliver_fast(struct ethmx_ep *ep, struct emx_op *op)
{
    struct ethmx_result result;
    ethmx_done_fn done;
    void *arg;

    emx_op_result(op, &done, &arg, &result);
    ep->progress.delivering = true;
    emx_ep_leave(ep);
    if (done)
        done(arg, &result);
    emx_lock_take(&ep->lock);
    ep->progress.delivering = false;
    deliver_forget(ep, op);
    if (emx_progress_wants_flush(&ep->progress))
        emx_progress_flush_now(&ep->progress, emx_clock_now(&ep->progress.clock)); /* the last time read may be old */
}

static inline unsigned deliver_round(struct ethmx_ep *ep)
{
    struct emx_op *fast = NULL;
    unsigned n = emx_progress_round(&ep->progress, false, &fast);

    if (fast)
        deliver_fast(ep, fast);
    if (deliver_has_ready(ep) && !ep->progress.delivering)
        n += deliver_all(ep);
    if (n)
        emx_wait_policy_reset(&ep->wait_policy);
    return n;
}

/* A poll has found nothing, and it is time to check whether polling takes the core from others. */
static __attribute__((noinline)) unsigned deliver_poll(struct ethmx_ep *ep)
{
    return emx_wait_policy_check(ep) ? deliver_round(ep) : 0;
}

unsigned ethmx_progress(struct ethmx_ep *ep)
{
    unsigned n;

    if (!emx_ep_enter(ep))
        return 0;
    atomic_store_explicit(&ep->rounds, atomic_load_explicit(&ep->rounds, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    n = deliver_round(ep);
    if (!n && emx_wait_policy_poll(&ep->wait_policy, ep->progress.clock.last_ns))
        n = deliver_poll(ep);
    emx_ep_leave(ep);
    return n;
}

int ethmx_am_handler(struct ethmx_ep *ep, unsigned id, ethmx_am_fn fn, void *arg)
{
    if (id >= ETHMX_AM_HANDLERS) {
        emx_error_set("active message handler %u: handlers go from 0 to %u", id, ETHMX_AM_HANDLERS - 1);
        return ETHMX_ERR_PARAM;
    }
    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    ep->am[id] = (struct emx_am_slot){.fn = fn, .arg = arg};
    emx_engine_am_retry(ep->progress.engine);
    emx_ep_leave(ep);
    return ETHMX_OK;
}

void ethmx_ep_on_error(struct ethmx_ep *ep,
                       void (*fn)(void *arg, struct ethmx_peer *peer, int status, const char *text), void *arg)
{
    if (!emx_ep_enter(ep))
        return;
    ep->on_error = fn;
    ep->on_error_arg = arg;
    emx_ep_leave(ep);
}
