/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "endpoint/wait.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/min.h"
#include "ethmx_wait.h"

#define POLL_ONLY_NS    1000000 /* a wire without descriptor is looked at so often */
#define OTHER_THREAD_NS 1000000 /* another thread's progress may complete what we wait for, and does not wake us */

void emx_wait_prepare(struct ethmx_ep *ep, uint64_t timeout_ns, struct emx_wait *w)
{
    emx_time deadline = emx_progress_deadline(&ep->progress);
    bool all;

    w->fd_count = emx_links_fds(&ep->progress.links, ep->progress.full, w->fd, &all);
    if (ep->watch.fd >= 0)
        w->fd[w->fd_count++] = (struct pollfd){.fd = ep->watch.fd, .events = POLLIN};
    if (!all)
        timeout_ns = emx_min(timeout_ns, POLL_ONLY_NS);
    if (ep->threads)
        timeout_ns = emx_min(timeout_ns, OTHER_THREAD_NS);
    if (deadline != EMX_NEVER) {
        emx_time now = emx_clock_now(&ep->progress.clock);

        timeout_ns = deadline > now ? emx_min(timeout_ns, deadline - now) : 0;
    }
    if (timeout_ns && !emx_links_arm(&ep->progress.links))
        timeout_ns = 0;
    w->timeout_ns = timeout_ns;
}

static struct timespec wait_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(emx_min(ns, INT32_MAX * 1000000000ull) / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}

bool emx_wait_sleep(struct emx_wait *w)
{
    struct timespec ts = wait_timespec(w->timeout_ns);

    return ppoll(w->fd, w->fd_count, &ts, NULL) > 0;
}

/* Under the lock: whether ethmx_progress() would have something to do at once. */
static bool wait_has_work(struct ethmx_ep *ep)
{
    return emx_progress_round(&ep->progress, true, NULL) || emx_engine_has_results(ep->progress.engine) ||
           !emx_list_empty(&ep->failures);
}

void ethmx_wait(struct ethmx_ep *ep, uint64_t timeout_ns)
{
    struct emx_wait w;

    if (!emx_ep_enter(ep))
        return;
    if (wait_has_work(ep)) {
        emx_ep_leave(ep);
        return;
    }
    emx_wait_prepare(ep, timeout_ns, &w);
    atomic_fetch_add(&ep->sleepers, 1);
    emx_ep_leave(ep);
    emx_wait_sleep(&w);
    atomic_fetch_sub(&ep->sleepers, 1);
}

/* ---- The endpoint's descriptor ---- */

static int wait_fail(const char *what)
{
    emx_error_set("cannot wait by a descriptor: %s: %s", what, strerror(errno));
    return ETHMX_ERR_NO_MEMORY;
}

void emx_wait_close(struct ethmx_ep *ep)
{
    if (ep->timer_fd >= 0)
        close(ep->timer_fd);
    if (ep->wait_fd >= 0)
        close(ep->wait_fd);
    ep->timer_fd = ep->wait_fd = -1;
}

/* The descriptor becomes readable when this one has the events. */
static int wait_watch(struct ethmx_ep *ep, int fd, short events)
{
    struct epoll_event e = {.events = (uint32_t)events, .data.fd = fd};

    if (!epoll_ctl(ep->wait_fd, EPOLL_CTL_MOD, fd, &e))
        return 0;
    return errno == ENOENT ? epoll_ctl(ep->wait_fd, EPOLL_CTL_ADD, fd, &e) : -1;
}

static int wait_open(struct ethmx_ep *ep)
{
    if (ep->wait_fd >= 0)
        return ETHMX_OK;
    ep->wait_fd = epoll_create1(EPOLL_CLOEXEC);
    ep->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (ep->wait_fd >= 0 && ep->timer_fd >= 0 && !wait_watch(ep, ep->timer_fd, POLLIN))
        return ETHMX_OK;
    wait_fail("epoll and timer");
    emx_wait_close(ep);
    return ETHMX_ERR_NO_MEMORY;
}

int ethmx_wait_fd(struct ethmx_ep *ep, int *fd_p)
{
    int rc;

    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    rc = wait_open(ep);
    *fd_p = ep->wait_fd;
    emx_ep_leave(ep);
    return rc;
}

/* Setting the timer also makes it unreadable. */
static int wait_arm(struct ethmx_ep *ep)
{
    struct itimerspec t = {0};
    struct emx_wait w;

    if (wait_has_work(ep))
        return ETHMX_ERR_BUSY;
    emx_wait_prepare(ep, UINT64_MAX, &w);
    if (!w.timeout_ns)
        return ETHMX_ERR_BUSY;
    for (unsigned i = 0; i < w.fd_count; i++)
        if (wait_watch(ep, w.fd[i].fd, w.fd[i].events))
            return wait_fail("a wire");
    if (w.timeout_ns != UINT64_MAX)
        t.it_value = wait_timespec(w.timeout_ns);
    if (timerfd_settime(ep->timer_fd, 0, &t, NULL))
        return wait_fail("timer");
    atomic_store(&ep->armed, (uint64_t)atomic_load(&ep->rounds) + 1);
    return ETHMX_OK;
}

int ethmx_wait_arm(struct ethmx_ep *ep)
{
    int rc = ETHMX_ERR_PARAM;

    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    if (ep->wait_fd >= 0)
        rc = wait_arm(ep);
    else
        emx_error_set("ethmx_wait_arm() without ethmx_wait_fd()");
    emx_ep_leave(ep);
    return rc;
}
