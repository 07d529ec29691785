/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ethmx works in the program's own thread, inside its MPI calls. A program that computes for a minute without one would
 * leave its peers without an answer: their frames stay unacknowledged and are sent again and again, large messages
 * stand still, and in the end the program is declared dead.
 *
 * So a thread looks in every ETHMX_HEARTBEAT. If the program has called ethmx_progress() since the last time, or sleeps
 * in ethmx_wait(), all is well. If not, the thread *stands in* for it: it runs the pump, sleeps until a frame comes or
 * a timer is due, and so on, until it sees that the program is back. It never runs callbacks: what completes stays
 * queued for the program's own thread.
 *
 * While the program is active the thread sleeps on nothing but its timer, so that frames do not wake it.
 *
 * Guarding. Small messages that follow each other closely are gathered in frames that wait for more (proto/bundle.c),
 * at most for ETHMX_BATCH_DELAY. The program may send and then compute, so somebody must keep that time. A timer per
 * frame would cost more than the frames that are saved: setting one takes 0.3 us, and 10 us in a virtual machine. So
 * this thread wakes up twice in each ETHMX_BATCH_DELAY, as long as messages are gathered, and sends what waits when
 * none was added since the last time. Waking it costs as much as some messages, so it begins only when many could have
 * been gathered (GUARD_FROM), and ends when none was for a while (GUARD_IDLE).
 */
#define _GNU_SOURCE
#include "ctx/beat.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "ctx/pump.h"
#include "ctx/wait.h"

#define ROUNDS       64 /* of the pump at a stretch; then the lock is given back for a moment */
#define FALSE_ALARMS 8  /* in a row: a descriptor is ready, but not for frames */

#define GUARD_FROM 64 /* messages that could have been gathered */
#define GUARD_IDLE 16 /* rounds without one */

struct emx_beat {
    pthread_t thread;
    int order_fd;          /* readable: stop, or guard */
    _Atomic bool stop;     /* the thread must end */
    _Atomic bool guarding; /* the engine may gather. Written under the lock */
    /* the thread's own */
    uint32_t seen;  /* ethmx_ep.gathered_at, in the last round */
    unsigned quiet; /* rounds in which it was the same */
};

static bool program_is_back(const struct ethmx_ep *ep, uint32_t seen)
{
    return atomic_load_explicit(&ep->rounds, memory_order_relaxed) != seen || atomic_load(&ep->sleepers);
}

/* Pumps until nothing comes any more and prepares the sleep. False: the program is inside, or frames came without
 * end. */
static bool pump_until_idle(struct ethmx_ep *ep, struct emx_wait *w, bool *got_p)
{
    bool idle = false;

    if (!emx_lock_try(&ep->lock))
        return false;
    *got_p = false;
    for (unsigned i = 0; i < ROUNDS && !idle && !emx_lock_wanted(&ep->lock); i++) {
        idle = !emx_pump(ep, true);
        *got_p |= !idle;
    }
    emx_wait_prepare(ep, idle ? ep->cfg.p_heartbeat : 0, true, w);
    emx_lock_return(&ep->lock);
    return true;
}

/* Sleeps on w and on orders. False: the one to stop came. *frames_p: something of w was ready. */
static bool sleep_until(struct ethmx_ep *ep, struct emx_wait *w, bool *frames_p)
{
    struct pollfd *order = &w->fd[w->fd_count++];
    uint64_t times;

    *order = (struct pollfd){.fd = ep->beat->order_fd, .events = POLLIN};
    *frames_p = emx_wait_sleep(w);
    if (order->revents && read(ep->beat->order_fd, &times, sizeof(times)) < 0)
        return true; /* not yet, after all */
    return !atomic_load(&ep->beat->stop);
}

/* Returns false on the order to stop. */
static bool stand_in(struct ethmx_ep *ep, uint32_t seen)
{
    unsigned alarms = 0;
    bool ready = false, got;
    struct emx_wait w;

    while (!program_is_back(ep, seen) && !atomic_load(&ep->beat->guarding) && pump_until_idle(ep, &w, &got)) {
        alarms = ready && !got ? alarms + 1 : 0;
        if (alarms == FALSE_ALARMS)
            break;
        if (!sleep_until(ep, &w, &ready))
            return false;
    }
    return true;
}

/* Sends what waits; ends the guarding if no message was gathered for long. False: the program is inside. */
static bool let_go(struct ethmx_ep *ep, bool end)
{
    if (!emx_lock_try(&ep->lock))
        return false;
    if (end) {
        emx_engine_gather(ep->engine, false);
        atomic_store(&ep->beat->guarding, false);
        ep->gathered = emx_engine_gatherable(ep->engine);
    }
    if (emx_engine_let_go(ep->engine, true))
        emx_pump_flush(ep, emx_clock_now(&ep->clock));
    emx_lock_return(&ep->lock);
    return true;
}

/* A round of guarding. What was gathered before the last round waits for as long as one already. */
static void guard(struct ethmx_ep *ep)
{
    struct emx_beat *b = ep->beat;
    uint32_t now_at = atomic_load_explicit(&ep->gathered_at, memory_order_relaxed);

    if (now_at != b->seen) {
        b->seen = now_at;
        b->quiet = 0;
    } else if (b->quiet && b->quiet < GUARD_IDLE) {
        b->quiet++;
    } else if (let_go(ep, b->quiet == GUARD_IDLE)) {
        b->quiet = b->quiet == GUARD_IDLE ? 0 : 1;
    }
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Until the next heartbeat. */
static bool rest(struct ethmx_ep *ep)
{
    uint64_t now = now_ns(), end_ns = now + ep->cfg.p_heartbeat;
    bool ready;

    for (; now < end_ns; now = now_ns()) {
        bool guarding = atomic_load(&ep->beat->guarding);
        uint64_t round_ns = guarding ? ep->cfg.p_batch_delay / 2 + 1 : UINT64_MAX;
        struct emx_wait w = {.timeout_ns = end_ns - now < round_ns ? end_ns - now : round_ns};

        if (!sleep_until(ep, &w, &ready))
            return false;
        if (guarding)
            guard(ep);
    }
    return true;
}

static void *beat_main(void *arg)
{
    struct ethmx_ep *ep = arg;
    uint32_t seen = atomic_load_explicit(&ep->rounds, memory_order_relaxed);

    while (rest(ep)) {
        if (!program_is_back(ep, seen) && !stand_in(ep, seen))
            break;
        seen = atomic_load_explicit(&ep->rounds, memory_order_relaxed);
    }
    return NULL;
}

/* The program's signals are not for this thread, except those that its own faults raise. */
static int create_without_signals(struct ethmx_ep *ep)
{
    static const int fault[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    for (unsigned i = 0; i < sizeof(fault) / sizeof(fault[0]); i++)
        sigdelset(&all, fault[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&ep->beat->thread, NULL, beat_main, ep);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int emx_beat_start(struct ethmx_ep *ep)
{
    struct emx_beat *b;
    int rc;

    if (!ep->cfg.p_heartbeat)
        return ETHMX_OK;
    b = calloc(1, sizeof(*b));
    if (!b)
        return ETHMX_ERR_NO_MEMORY;
    b->order_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = errno;
    if (b->order_fd < 0)
        goto err_free;
    ep->beat = b;
    rc = create_without_signals(ep);
    if (rc)
        goto err_close;
    pthread_setname_np(b->thread, "ethmx-beat");
    return ETHMX_OK;

err_close:
    close(b->order_fd);
err_free:
    ep->beat = NULL;
    free(b);
    emx_error_set("the helper thread cannot be started (%s); ETHMX_HEARTBEAT=0 does without", strerror(rc));
    return ETHMX_ERR_NO_MEMORY;
}

static void order(struct ethmx_ep *ep, _Atomic bool *what)
{
    uint64_t one = 1;

    atomic_store(what, true);
    while (write(ep->beat->order_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

void emx_beat_sent(struct ethmx_ep *ep)
{
    unsigned gathered = emx_engine_gatherable(ep->engine);

    if (gathered == ep->gathered || !ep->beat || !ep->cfg.p_batch_delay)
        return;
    if (atomic_load_explicit(&ep->beat->guarding, memory_order_relaxed)) {
        ep->gathered = gathered;
        atomic_store_explicit(&ep->gathered_at, gathered, memory_order_relaxed);
    } else if (gathered - ep->gathered >= GUARD_FROM) {
        emx_engine_gather(ep->engine, true);
        order(ep, &ep->beat->guarding);
    }
}

void emx_beat_stop(struct ethmx_ep *ep)
{
    if (!ep->beat)
        return;
    order(ep, &ep->beat->stop);
    pthread_join(ep->beat->thread, NULL);
    close(ep->beat->order_fd);
    free(ep->beat);
    ep->beat = NULL;
}
