/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Wait objects of queues and counters: an epoll descriptor with those of the endpoints behind the object, and an event
 * that another thread sets when it writes to the object.
 */
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ethmx_wait.h"
#include "provider.h"

static int wait_watch(const struct prov_wait *w, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(w->fd, EPOLL_CTL_ADD, fd, &e) && errno != EEXIST ? -errno : 0;
}

int prov_wait_open(struct prov_wait *w, enum fi_wait_obj object)
{
    int rc;

    *w = (struct prov_wait){.object = object, .fd = -1, .event_fd = -1};
    if (object == FI_WAIT_NONE || object == FI_WAIT_YIELD)
        return 0;
    if (object != FI_WAIT_UNSPEC && object != FI_WAIT_FD) {
        FI_WARN(&prov_provider, FI_LOG_DOMAIN, "there is no wait object %d: FI_WAIT_NONE, UNSPEC, YIELD and FD\n",
                object);
        return -FI_ENOSYS;
    }
    w->fd = epoll_create1(EPOLL_CLOEXEC);
    w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = w->fd < 0 || w->event_fd < 0 ? -errno : wait_watch(w, w->event_fd);
    if (rc)
        prov_wait_close(w);
    return rc;
}

void prov_wait_close(struct prov_wait *w)
{
    if (w->event_fd >= 0)
        close(w->event_fd);
    if (w->fd >= 0)
        close(w->fd);
    w->fd = w->event_fd = -1;
}

void prov_wait_wake(struct prov_wait *w)
{
    atomic_store(&w->armed, false);
    if (w->event_fd >= 0 && !eventfd_write(w->event_fd, 1))
        atomic_store(&w->woken, true); /* not before: the event would stay */
}

int prov_wait_begin(struct prov_wait *w)
{
    eventfd_t count;

    if (w->fd < 0)
        return -FI_EINVAL;
    if (atomic_exchange(&w->woken, false))
        eventfd_read(w->event_fd, &count);
    atomic_store(&w->armed, true);
    return 0;
}

static int wait_arm(const struct prov_wait *w, struct ethmx_ep *ep)
{
    int fd, rc;

    if (ethmx_wait_fd(ep, &fd))
        return -FI_ENOMEM;
    if ((rc = wait_watch(w, fd)))
        return rc;
    switch (ethmx_wait_arm(ep)) {
    case ETHMX_OK:
        return 0;
    case ETHMX_ERR_BUSY:
        return -FI_EAGAIN;
    default:
        FI_WARN(&prov_provider, FI_LOG_DOMAIN, "%s\n", ethmx_error_text());
        return -FI_EOTHER;
    }
}

int prov_wait_arm(struct prov_domain *d, struct prov_wait *w, struct prov_watch *watch)
{
    struct ethmx_ep *ep;
    unsigned i = 0;
    int rc;

    while ((ep = prov_watch_next(d, watch, &i)))
        if ((rc = wait_arm(w, ep)))
            return rc;
    return 0;
}

void prov_wait_sleep(struct prov_wait *w, int64_t deadline_ms)
{
    struct pollfd fd = {.fd = w->fd, .events = POLLIN};
    int64_t left_ms = deadline_ms == INT64_MAX ? -1 : deadline_ms - prov_now_ms();

    if (deadline_ms == INT64_MAX || left_ms > 0)
        poll(&fd, 1, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
}

int prov_wait_tell(enum fi_wait_obj object, int fd, int command, void *arg)
{
    switch (command) {
    case FI_GETWAIT:
        if (object != FI_WAIT_FD)
            return -FI_ENODATA;
        *(int *)arg = fd;
        return 0;
    case FI_GETWAITOBJ:
        *(enum fi_wait_obj *)arg = object;
        return 0;
    default:
        return -FI_ENOSYS;
    }
}
