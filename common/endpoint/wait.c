/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "endpoint/wait.h"

#include <time.h>

#include "base/min.h"

#define POLL_ONLY_NS    1000000 /* a wire without descriptor is looked at so often */
#define OTHER_THREAD_NS 1000000 /* another thread's progress may complete what we wait for, and does not wake us */

void emx_wait_prepare(struct ethmx_ep *ep, uint64_t timeout_ns, struct emx_wait *w)
{
    emx_time deadline = emx_progress_deadline(&ep->progress);
    bool all;

    w->fd_count = emx_links_fds(&ep->progress.links, ep->progress.full, w->fd, &all);
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

bool emx_wait_sleep(struct emx_wait *w)
{
    struct timespec ts = {.tv_sec = (time_t)(emx_min(w->timeout_ns, INT32_MAX * 1000000000ull) / 1000000000u),
                          .tv_nsec = (long)(w->timeout_ns % 1000000000u)};

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
