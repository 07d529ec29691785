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
 */
#define _GNU_SOURCE
#include "ctx/beat.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "ctx/pump.h"
#include "ctx/wait.h"

#define ROUNDS       64 /* of the pump at a stretch; then the lock is given back for a moment */
#define FALSE_ALARMS 8  /* in a row: a descriptor is ready, but not for frames */

struct emx_beat {
    pthread_t thread;
    int stop_fd;
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

/* Sleeps on w and on the order to stop. False: it came. *frames_p: something of w was ready. */
static bool sleep_until(struct ethmx_ep *ep, struct emx_wait *w, bool *frames_p)
{
    struct pollfd *stop = &w->fd[w->fd_count++];

    *stop = (struct pollfd){.fd = ep->beat->stop_fd, .events = POLLIN};
    *frames_p = emx_wait_sleep(w);
    return !stop->revents;
}

/* Returns false on the order to stop. */
static bool stand_in(struct ethmx_ep *ep, uint32_t seen)
{
    unsigned alarms = 0;
    bool ready = false, got;
    struct emx_wait w;

    while (!program_is_back(ep, seen) && pump_until_idle(ep, &w, &got)) {
        alarms = ready && !got ? alarms + 1 : 0;
        if (alarms == FALSE_ALARMS)
            break;
        if (!sleep_until(ep, &w, &ready))
            return false;
    }
    return true;
}

static bool rest(struct ethmx_ep *ep)
{
    struct emx_wait w = {.timeout_ns = ep->cfg.p_heartbeat};
    bool ready;

    return sleep_until(ep, &w, &ready);
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
    b->stop_fd = eventfd(0, EFD_CLOEXEC);
    rc = errno;
    if (b->stop_fd < 0)
        goto err_free;
    ep->beat = b;
    rc = create_without_signals(ep);
    if (rc)
        goto err_close;
    pthread_setname_np(b->thread, "ethmx-beat");
    return ETHMX_OK;

err_close:
    close(b->stop_fd);
err_free:
    ep->beat = NULL;
    free(b);
    emx_error_set("the helper thread cannot be started (%s); ETHMX_HEARTBEAT=0 does without", strerror(rc));
    return ETHMX_ERR_NO_MEMORY;
}

void emx_beat_stop(struct ethmx_ep *ep)
{
    uint64_t one = 1;

    if (!ep->beat)
        return;
    while (write(ep->beat->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    pthread_join(ep->beat->thread, NULL);
    close(ep->beat->stop_fd);
    free(ep->beat);
    ep->beat = NULL;
}
