/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ethmx works in the program's own thread, inside its MPI calls. A program that computes for a minute without one would
 * leave its peers without an answer: their frames stay unacknowledged and are sent again and again, large messages
 * stand still, and in the end the program is declared dead.
 *
 * So a thread looks in from time to time. If the program has called ethmx_progress() since the last look, or sleeps in
 * ethmx_wait() or ethmx_progress(), all is well. If not, the thread *stands in* for it: it calls for progress, sleeps
 * until a frame comes or a timer is due, and so on, until it sees that the program is back. It never runs callbacks:
 * what completes stays queued for the program's own thread. While the program is active the thread sleeps on nothing
 * but its timer and the bell, so that frames do not wake it.
 *
 * How often it looks in is the difference between ETHMX_PROGRESS=caller, where it only keeps the peers content, and
 * thread, where messages are to move while the program computes:
 *
 *     caller    every ETHMX_HEARTBEAT
 *     thread    LOOK_MIN_NS after the program has started a long message (it rings the bell), and after a stand-in; and
 *               as long as the program is found polling, each time after twice the time, up to LOOK_MAX_NS
 *
 * Ringing costs the program a microsecond, which is much for a program that starts a long message and then waits for
 * it in MPI. So when the bell has been rung USELESS times for a program that polled, it is taken down, until a look
 * finds the program away.
 */
#define _GNU_SOURCE
#include "endpoint/helper.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/min.h"
#include "base/log.h"
#include "endpoint/wait.h"

#define LOOK_MIN_NS  20000
#define LOOK_MAX_NS  1000000
#define STAND_IN_NS  500000000 /* longest sleep of a stand-in, where ETHMX_HEARTBEAT does not say */
#define SLACK_NS     1000      /* the kernel may round our sleeps so much */
#define USELESS      4
#define ROUNDS       64 /* of progress at a stretch; then the lock is given back for a moment */
#define FALSE_ALARMS 8  /* in a row: a descriptor is ready, but not for frames */

enum bell { BELL_DOWN, BELL_UP, BELL_RUNG };

struct emx_helper {
    pthread_t thread;
    int order_fd;      /* an eventfd, readable: stop, or the bell was rung */
    _Atomic bool stop; /* the thread must end */
    _Atomic int bell;  /* enum bell */
    _Atomic int core;  /* where the program was when it last started a long message; -1: not yet */
    /* the thread's own */
    cpu_set_t cores;  /* that it may use */
    int left;         /* the one of them that it keeps off; -1: none */
    uint64_t look_ns; /* time to the next look */
    unsigned useless; /* rings in a row for a program that polled */
};

static bool helper_program_is_back(const struct ethmx_ep *ep, uint32_t seen)
{
    return atomic_load_explicit(&ep->rounds, memory_order_relaxed) != seen || atomic_load(&ep->sleepers);
}

static uint64_t helper_longest_sleep(const struct ethmx_ep *ep)
{
    return ep->cfg.p_heartbeat ? ep->cfg.p_heartbeat : STAND_IN_NS;
}

bool emx_helper_enter(struct ethmx_ep *ep)
{
    if (!emx_lock_try(&ep->lock))
        return false;
    if (!atomic_load(&ep->sleepers))
        return true;
    emx_lock_return(&ep->lock);
    return false;
}

/* Off the program's core, if we are there and may use others. A thread that wakes up is often put where it slept last,
 * be that core busy or not; messages that are moved there take the time in which the program computes. */
static void helper_leave_core(struct emx_helper *b)
{
    int core = atomic_load_explicit(&b->core, memory_order_relaxed);
    cpu_set_t others = b->cores;

    if (core == b->left || core < 0 || core >= CPU_SETSIZE || sched_getcpu() != core)
        return;
    b->left = core;
    CPU_CLR((unsigned)core, &others);
    if (CPU_COUNT(&others))
        sched_setaffinity(0, sizeof(others), &others);
}

/* Rounds until nothing comes any more and prepares the sleep. False: the program is inside or sleeps, or frames came
 * without end. */
static bool helper_progress_until_idle(struct ethmx_ep *ep, struct emx_wait *w, bool *got_p)
{
    bool idle = false;

    helper_leave_core(ep->beat);
    if (!emx_helper_enter(ep))
        return false;
    *got_p = false;
    for (unsigned i = 0; i < ROUNDS && !idle && !emx_lock_wanted(&ep->lock); i++) {
        idle = !emx_progress_round(&ep->progress, true, NULL);
        *got_p |= !idle;
    }
    emx_wait_prepare(ep, idle ? helper_longest_sleep(ep) : 0, w);
    emx_lock_return(&ep->lock);
    return true;
}

/* Sleeps on w and on orders. False: the one to stop came. *frames_p: something of w was ready. */
static bool helper_sleep(struct ethmx_ep *ep, struct emx_wait *w, bool *frames_p)
{
    struct pollfd *order = &w->fd[w->fd_count++];
    uint64_t times;

    *order = (struct pollfd){.fd = ep->beat->order_fd, .events = POLLIN};
    *frames_p = emx_wait_sleep(w);
    if (order->revents && read(ep->beat->order_fd, &times, sizeof(times)) < 0)
        return true; /* not yet, after all */
    return !atomic_load(&ep->beat->stop);
}

/* ---- Standing in ---- */

static bool helper_is_frequent(const struct ethmx_ep *ep)
{
    return ep->cfg.p_progress == EMX_PROGRESS_THREAD;
}

static void helper_count_run(struct ethmx_ep *ep)
{
    if (!emx_lock_try(&ep->lock))
        return;
    ep->stats.stand_ins++;
    emx_lock_return(&ep->lock);
}

/* Returns false on the order to stop. */
static bool helper_run(struct ethmx_ep *ep, uint32_t seen)
{
    unsigned alarms = 0;
    bool ready = false, got;
    struct emx_wait w;

    helper_count_run(ep);
    while (!helper_program_is_back(ep, seen) && helper_progress_until_idle(ep, &w, &got)) {
        alarms = ready && !got ? alarms + 1 : 0;
        if (alarms == FALSE_ALARMS)
            break;
        if (!helper_sleep(ep, &w, &ready))
            return false;
    }
    return true;
}

/* ---- Looking in ---- */

static bool helper_is_requested(const struct ethmx_ep *ep)
{
    return atomic_load(&ep->beat->bell) == BELL_RUNG;
}

/* Until the next look, or until the bell is rung. Returns false on the order to stop. */
static bool helper_wait(struct ethmx_ep *ep)
{
    uint64_t now = emx_clock_kernel_ns(), end_ns = now + ep->beat->look_ns;
    bool ready;

    for (; now < end_ns && !helper_is_requested(ep); now = emx_clock_kernel_ns()) {
        struct emx_wait w = {.timeout_ns = end_ns - now};

        if (!helper_sleep(ep, &w, &ready))
            return false;
    }
    return true;
}

/* The program, which has only just started a message, gets time to come to its wait. */
static void helper_wait_briefly(void)
{
    struct timespec ts = {.tv_nsec = LOOK_MIN_NS};

    nanosleep(&ts, NULL);
}

static void helper_found_polling(struct emx_helper *b, bool rung)
{
    if (rung)
        b->useless++;
    b->look_ns = emx_min(b->look_ns * 2, LOOK_MAX_NS);
}

static void helper_found_away(struct emx_helper *b)
{
    b->useless = 0;
    b->look_ns = LOOK_MIN_NS;
}

static void helper_set_wakeup(struct emx_helper *b)
{
    atomic_store(&b->bell, b->useless < USELESS ? BELL_UP : BELL_DOWN);
}

static uint32_t helper_rounds_of(const struct ethmx_ep *ep)
{
    return atomic_load_explicit(&ep->rounds, memory_order_relaxed);
}

/* Whether the program is away, after a rest. *seen_p: its rounds at the beginning. */
static bool helper_is_away(struct ethmx_ep *ep, uint32_t *seen_p)
{
    struct emx_helper *b = ep->beat;
    bool rung = helper_is_requested(ep), away;

    if (rung) {
        *seen_p = helper_rounds_of(ep);
        helper_wait_briefly();
    }
    away = !helper_program_is_back(ep, *seen_p);
    if (!helper_is_frequent(ep))
        return away;
    if (away)
        helper_found_away(b);
    else
        helper_found_polling(b, rung);
    helper_set_wakeup(b);
    return away;
}

/* One look. Returns false on the order to stop. */
static bool helper_check(struct ethmx_ep *ep)
{
    uint32_t seen = helper_rounds_of(ep);

    if (!helper_wait(ep))
        return false;
    if (helper_is_away(ep, &seen))
        return helper_run(ep, seen);
    return true;
}

static void *helper_main(void *arg)
{
    struct ethmx_ep *ep = arg;

    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    sched_getaffinity(0, sizeof(ep->beat->cores), &ep->beat->cores);
    while (helper_check(ep))
        ;
    return NULL;
}

/* ---- Life ---- */

/* The program's signals are not for this thread, except those that its own faults raise. */
static int helper_create(struct ethmx_ep *ep)
{
    static const int fault[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    for (unsigned i = 0; i < sizeof(fault) / sizeof(fault[0]); i++)
        sigdelset(&all, fault[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&ep->beat->thread, NULL, helper_main, ep);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int emx_helper_start(struct ethmx_ep *ep)
{
    struct emx_helper *b;
    int rc;

    if (!emx_helper_wanted(&ep->cfg))
        return ETHMX_OK;
    b = calloc(1, sizeof(*b));
    if (!b)
        return ETHMX_ERR_NO_MEMORY;
    b->look_ns = helper_is_frequent(ep) ? LOOK_MIN_NS : ep->cfg.p_heartbeat;
    atomic_init(&b->bell, helper_is_frequent(ep) ? BELL_UP : BELL_DOWN);
    atomic_init(&b->core, -1);
    b->left = -1;
    b->order_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = errno;
    if (b->order_fd < 0)
        goto err_free;
    ep->beat = b;
    rc = helper_create(ep);
    if (rc)
        goto err_close;
    pthread_setname_np(b->thread, "ethmx-beat");
    return ETHMX_OK;

err_close:
    close(b->order_fd);
err_free:
    ep->beat = NULL;
    free(b);
    emx_error_set("the helper thread cannot be started (%s); ETHMX_HEARTBEAT=0 with ETHMX_PROGRESS=caller does without",
                  strerror(rc));
    return ETHMX_ERR_NO_MEMORY;
}

static void helper_wake(struct emx_helper *b)
{
    uint64_t one = 1;

    while (write(b->order_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

void emx_helper_wake(struct emx_helper *b)
{
    int up = BELL_UP;

    atomic_store_explicit(&b->core, sched_getcpu(), memory_order_relaxed);
    if (atomic_compare_exchange_strong(&b->bell, &up, BELL_RUNG))
        helper_wake(b);
}

void emx_helper_stop(struct ethmx_ep *ep)
{
    if (!ep->beat)
        return;
    atomic_store(&ep->beat->stop, true);
    helper_wake(ep->beat);
    pthread_join(ep->beat->thread, NULL);
    close(ep->beat->order_fd);
    free(ep->beat);
    ep->beat = NULL;
}
