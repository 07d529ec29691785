/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ethmx makes progress in the program's own thread, inside its MPI calls. A program that computes for a long time
 * without such a call would not respond to its peers: their frames stay unacknowledged and are retransmitted, large
 * messages do not move, and finally the peers declare the program dead.
 *
 * So a helper thread checks the program from time to time. If the program has called ethmx_progress() since the last
 * check, or waits in ethmx_wait() or ethmx_progress() or for the endpoint's descriptor, nothing needs to be done. If
 * not, the helper *runs*: it makes progress, sleeps until a frame arrives or a timer is due, and so on, until it
 * detects that the program is back. It never runs callbacks: completions stay queued for the program's own thread.
 * While the program is active, the helper sleeps on its timer and on wakeups only, so that frames do not wake it.
 *
 * The interval of its checks is the difference between ETHMX_PROGRESS=caller, which only keeps peers from declaring the
 * program dead, and thread, where messages move while the program computes:
 *
 *     caller    every ETHMX_HEARTBEAT
 *     thread    CHECK_MIN_NS after the program has started a long message (it sends a wakeup), and after a run; doubled
 *               each time that the program is found polling, up to CHECK_MAX_NS
 *
 * While memory is exposed to one-sided operations, the intervals of `thread` are used in any case: peers wait for their
 * operations, not for the program.
 *
 * A wakeup is a system call. That is expensive for a program that starts a long message and then waits for it in MPI.
 * So after USELESS wakeups from a program that polled, wakeups are disabled until a check finds the program away.
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

#define CHECK_MIN_NS 20000
#define CHECK_MAX_NS 1000000
#define RUN_SLEEP_NS 500000000 /* longest sleep of a run, if ETHMX_HEARTBEAT is 0 */
#define SLACK_NS     1000      /* timer slack: the kernel may delay sleeps by this much */
#define USELESS      4
#define ROUNDS       64 /* rounds of progress before the lock is released for a moment */
#define FALSE_ALARMS 8  /* in a row: a descriptor is ready without a frame */

enum wakeup { WAKEUP_DISABLED, WAKEUP_ENABLED, WAKEUP_REQUESTED };

struct emx_helper {
    pthread_t thread;
    int request_fd;     /* an eventfd, readable: stop, or a wakeup */
    _Atomic bool stop;  /* the thread must end */
    _Atomic int wakeup; /* enum wakeup */
    _Atomic int core;   /* the program's core when it last started a long message; -1: none yet */
    /* private to the thread */
    cpu_set_t cores;   /* allowed cores */
    int avoided;       /* the allowed core that it avoids; -1: none */
    uint64_t check_ns; /* time to the next check */
    unsigned useless;  /* wakeups in a row from a program that polled */
};

static bool helper_program_is_back(const struct ethmx_ep *ep, uint32_t seen)
{
    return atomic_load_explicit(&ep->rounds, memory_order_relaxed) != seen || emx_ep_waits(ep);
}

static uint64_t helper_longest_sleep(const struct ethmx_ep *ep)
{
    return ep->cfg.p_heartbeat ? ep->cfg.p_heartbeat : RUN_SLEEP_NS;
}

bool emx_helper_enter(struct ethmx_ep *ep)
{
    if (!emx_lock_try(&ep->lock))
        return false;
    if (!emx_ep_waits(ep))
        return true;
    emx_lock_return(&ep->lock);
    return false;
}

/* Leaves the program's core if the helper runs there and may use others. The kernel often wakes a thread on the core
 * where it slept last, even if that is busy. Then the helper would delay the program. */
static void helper_leave_core(struct emx_helper *b)
{
    int core = atomic_load_explicit(&b->core, memory_order_relaxed);
    cpu_set_t others = b->cores;

    if (core == b->avoided || core < 0 || core >= CPU_SETSIZE || sched_getcpu() != core)
        return;
    b->avoided = core;
    CPU_CLR((unsigned)core, &others);
    if (CPU_COUNT(&others))
        sched_setaffinity(0, sizeof(others), &others);
}

/* Runs rounds of progress until one finds nothing, and prepares the sleep. False: the program holds the lock or sleeps.
 */
static bool helper_progress_until_idle(struct ethmx_ep *ep, struct emx_wait *w, bool *got_p)
{
    bool idle = false;

    helper_leave_core(ep->helper);
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

/* Sleeps on w and on requests. False: the helper must stop. *frames_p: a descriptor of w was ready. */
static bool helper_sleep(struct ethmx_ep *ep, struct emx_wait *w, bool *frames_p)
{
    struct pollfd *request = &w->fd[w->fd_count++];
    uint64_t times;

    *request = (struct pollfd){.fd = ep->helper->request_fd, .events = POLLIN};
    *frames_p = emx_wait_sleep(w);
    if (request->revents && read(ep->helper->request_fd, &times, sizeof(times)) < 0)
        return true; /* spurious */
    return !atomic_load(&ep->helper->stop);
}

/* ---- Running ---- */

static bool helper_is_frequent(const struct ethmx_ep *ep)
{
    return ep->cfg.p_progress == EMX_PROGRESS_THREAD || atomic_load_explicit(&ep->regions, memory_order_relaxed);
}

static void helper_count_run(struct ethmx_ep *ep)
{
    if (!emx_lock_try(&ep->lock))
        return;
    ep->stats->helper_runs++;
    emx_lock_return(&ep->lock);
}

/* Returns false if the helper must stop. */
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

/* ---- Checking ---- */

static bool helper_is_requested(const struct ethmx_ep *ep)
{
    return atomic_load(&ep->helper->wakeup) == WAKEUP_REQUESTED;
}

/* Sleeps until the next check or a wakeup. Returns false if the helper must stop. */
static bool helper_wait(struct ethmx_ep *ep)
{
    uint64_t now = emx_clock_kernel_ns(), end_ns = now + ep->helper->check_ns;
    bool ready;

    for (; now < end_ns && !helper_is_requested(ep); now = emx_clock_kernel_ns()) {
        struct emx_wait w = {.timeout_ns = end_ns - now};

        if (!helper_sleep(ep, &w, &ready))
            return false;
    }
    return true;
}

/* The program has just started a message, and may wait for it soon. */
static void helper_wait_after_wakeup(void)
{
    struct timespec ts = {.tv_nsec = CHECK_MIN_NS};

    nanosleep(&ts, NULL);
}

static void helper_found_polling(struct emx_helper *b, bool requested)
{
    if (requested)
        b->useless++;
    b->check_ns = emx_min(b->check_ns * 2, CHECK_MAX_NS);
}

static void helper_found_away(struct emx_helper *b)
{
    b->useless = 0;
    b->check_ns = CHECK_MIN_NS;
}

static void helper_set_wakeup(struct emx_helper *b)
{
    atomic_store(&b->wakeup, b->useless < USELESS ? WAKEUP_ENABLED : WAKEUP_DISABLED);
}

/* Memory may be exposed at this moment: then a wakeup is lost, and the region is seen. */
static void helper_be_rare(struct ethmx_ep *ep)
{
    atomic_store(&ep->helper->wakeup, WAKEUP_DISABLED);
    ep->helper->check_ns = atomic_load(&ep->regions) ? CHECK_MIN_NS : helper_longest_sleep(ep);
}

static uint32_t helper_rounds_of(const struct ethmx_ep *ep)
{
    return atomic_load_explicit(&ep->rounds, memory_order_relaxed);
}

/* Whether the program makes no progress. *seen_p: its rounds before the wait. */
static bool helper_is_away(struct ethmx_ep *ep, uint32_t *seen_p)
{
    struct emx_helper *b = ep->helper;
    bool requested = helper_is_requested(ep), away;

    if (requested) {
        *seen_p = helper_rounds_of(ep);
        helper_wait_after_wakeup();
    }
    away = !helper_program_is_back(ep, *seen_p);
    if (!helper_is_frequent(ep)) {
        helper_be_rare(ep);
        return away;
    }
    if (away)
        helper_found_away(b);
    else
        helper_found_polling(b, requested);
    helper_set_wakeup(b);
    return away;
}

/* Executes one check. Returns false if the helper must stop. */
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
    sched_getaffinity(0, sizeof(ep->helper->cores), &ep->helper->cores);
    while (helper_check(ep))
        ;
    return NULL;
}

/* ---- Starting and stopping ---- */

/* Blocks the program's signals in this thread, except those of its own faults. */
static int helper_create(struct ethmx_ep *ep)
{
    static const int fault[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    for (unsigned i = 0; i < sizeof(fault) / sizeof(fault[0]); i++)
        sigdelset(&all, fault[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&ep->helper->thread, NULL, helper_main, ep);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static int helper_start(struct ethmx_ep *ep)
{
    struct emx_helper *b;
    int rc;

    b = calloc(1, sizeof(*b));
    if (!b)
        return ETHMX_ERR_NO_MEMORY;
    b->check_ns = helper_is_frequent(ep) ? CHECK_MIN_NS : helper_longest_sleep(ep);
    atomic_init(&b->wakeup, helper_is_frequent(ep) ? WAKEUP_ENABLED : WAKEUP_DISABLED);
    atomic_init(&b->core, -1);
    b->avoided = -1;
    b->request_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = errno;
    if (b->request_fd < 0)
        goto err_free;
    ep->helper = b;
    rc = helper_create(ep);
    if (rc)
        goto err_close;
    pthread_setname_np(b->thread, "ethmx-helper");
    return ETHMX_OK;

err_close:
    close(b->request_fd);
err_free:
    ep->helper = NULL;
    free(b);
    emx_error_set("cannot start the helper thread (%s); ETHMX_HEARTBEAT=0 with ETHMX_PROGRESS=caller works without it",
                  strerror(rc));
    return ETHMX_ERR_NO_MEMORY;
}

int emx_helper_start(struct ethmx_ep *ep)
{
    return emx_helper_wanted(&ep->cfg) ? helper_start(ep) : ETHMX_OK;
}

static void helper_wake(struct emx_helper *b)
{
    uint64_t one = 1;

    while (write(b->request_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

void emx_helper_wake(struct emx_helper *b)
{
    int enabled = WAKEUP_ENABLED;

    atomic_store_explicit(&b->core, sched_getcpu(), memory_order_relaxed);
    if (atomic_compare_exchange_strong(&b->wakeup, &enabled, WAKEUP_REQUESTED))
        helper_wake(b);
}

int emx_helper_serve(struct ethmx_ep *ep)
{
    int rc = ETHMX_OK;

    if (atomic_fetch_add(&ep->regions, 1))
        return ETHMX_OK;
    if (ep->helper) { /* it may sleep for a long time */
        atomic_store(&ep->helper->wakeup, WAKEUP_REQUESTED);
        helper_wake(ep->helper);
        return ETHMX_OK;
    }
    if (emx_lock_admit_helper(&ep->lock)) {
        rc = helper_start(ep);
    } else {
        emx_error_set("this kernel supports no helper thread that starts so late: set ETHMX_HEARTBEAT");
        rc = ETHMX_ERR_NO_MEMORY;
    }
    if (rc)
        atomic_fetch_sub(&ep->regions, 1);
    return rc;
}

void emx_helper_unserve(struct ethmx_ep *ep)
{
    atomic_fetch_sub(&ep->regions, 1);
}

void emx_helper_stop(struct ethmx_ep *ep)
{
    if (!ep->helper)
        return;
    atomic_store(&ep->helper->stop, true);
    helper_wake(ep->helper);
    pthread_join(ep->helper->thread, NULL);
    close(ep->helper->request_fd);
    free(ep->helper);
    ep->helper = NULL;
}
