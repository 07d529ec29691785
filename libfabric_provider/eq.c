/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Event queues. Endpoints without connections have no events of their own, so a queue has what the client writes.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "provider.h"

struct eq_event {
    struct eq_event *next;
    uint32_t event;
    size_t len_bytes;
    uint8_t data[];
};

struct prov_eq {
    struct fid_eq fid;
    bool writable;
    pthread_mutex_t lock;
    pthread_cond_t written;
    struct eq_event *first, **end_p;
    enum fi_wait_obj object;
    int fd; /* readable while there are events; -1: the client has not asked for it */
};

static struct prov_eq *eq_of(struct fid_eq *fid)
{
    return (struct prov_eq *)fid;
}

/* Locked. */
static ssize_t eq_take(struct prov_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
    struct eq_event *e = eq->first;
    eventfd_t count;
    ssize_t n;

    if (!e)
        return -FI_EAGAIN;
    if (len < e->len_bytes)
        return -FI_ETOOSMALL;
    *event = e->event;
    memcpy(buf, e->data, e->len_bytes);
    n = (ssize_t)e->len_bytes;
    if (flags & FI_PEEK)
        return n;
    eq->first = e->next;
    if (!eq->first) {
        eq->end_p = &eq->first;
        if (eq->fd >= 0)
            eventfd_read(eq->fd, &count);
    }
    free(e);
    return n;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
    struct prov_eq *eq = eq_of(fid);
    ssize_t n;

    pthread_mutex_lock(&eq->lock);
    n = eq_take(eq, event, buf, len, flags);
    pthread_mutex_unlock(&eq->lock);
    return n;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
    (void)fid;
    (void)buf;
    (void)flags;
    return -FI_EAGAIN;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len, uint64_t flags)
{
    struct prov_eq *eq = eq_of(fid);
    struct eq_event *e;

    (void)flags;
    if (!eq->writable)
        return -FI_EINVAL;
    if (!(e = malloc(sizeof(*e) + len)))
        return -FI_ENOMEM;
    *e = (struct eq_event){.event = event, .len_bytes = len};
    memcpy(e->data, buf, len);
    pthread_mutex_lock(&eq->lock);
    *eq->end_p = e;
    eq->end_p = &e->next;
    pthread_cond_broadcast(&eq->written);
    if (eq->fd >= 0)
        eventfd_write(eq->fd, 1);
    pthread_mutex_unlock(&eq->lock);
    return (ssize_t)len;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout_ms, uint64_t flags)
{
    struct prov_eq *eq = eq_of(fid);
    struct timespec until;
    ssize_t n;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000l;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&eq->lock);
    while ((n = eq_take(eq, event, buf, len, flags)) == -FI_EAGAIN && !rc)
        rc = timeout_ms < 0 ? pthread_cond_wait(&eq->written, &eq->lock)
                            : pthread_cond_timedwait(&eq->written, &eq->lock, &until);
    pthread_mutex_unlock(&eq->lock);
    return n;
}

int prov_eq_trywait(struct fid_eq *fid)
{
    struct prov_eq *eq = eq_of(fid);
    bool empty;

    pthread_mutex_lock(&eq->lock);
    empty = !eq->first;
    pthread_mutex_unlock(&eq->lock);
    return eq->fd < 0 ? -FI_EINVAL : empty ? 0 : -FI_EAGAIN;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
    struct prov_eq *eq = (struct prov_eq *)(void *)fid;

    return prov_wait_tell(eq->object, eq->fd, command, arg);
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf, size_t len)
{
    (void)fid;
    (void)err_data;
    (void)buf;
    (void)len;
    return ethmx_strerror(prov_errno);
}

static int eq_close(struct fid *fid)
{
    struct prov_eq *eq = (struct prov_eq *)(void *)fid;
    struct eq_event *e;

    while ((e = eq->first)) {
        eq->first = e->next;
        free(e);
    }
    if (eq->fd >= 0)
        close(eq->fd);
    pthread_cond_destroy(&eq->written);
    pthread_mutex_destroy(&eq->lock);
    free(eq);
    return 0;
}

static struct fi_ops eq_fi_ops = {.size = sizeof(struct fi_ops),
                                  .close = eq_close,
                                  .bind = prov_no_bind,
                                  .control = eq_control,
                                  .ops_open = prov_no_ops};

static struct fi_ops_eq eq_ops = {.size = sizeof(struct fi_ops_eq),
                                  .read = eq_read,
                                  .readerr = eq_readerr,
                                  .write = eq_write,
                                  .sread = eq_sread,
                                  .strerror = eq_strerror};

int prov_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq_p, void *context)
{
    enum fi_wait_obj object = attr ? attr->wait_obj : FI_WAIT_NONE;
    struct prov_eq *eq;
    pthread_condattr_t ca;

    (void)fabric;
    if (object != FI_WAIT_NONE && object != FI_WAIT_UNSPEC && object != FI_WAIT_FD)
        return -FI_ENOSYS;
    if (!(eq = calloc(1, sizeof(*eq))))
        return -FI_ENOMEM;
    eq->object = object;
    eq->fd = -1;
    if (object == FI_WAIT_FD && (eq->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
        free(eq);
        return -FI_EMFILE;
    }
    eq->writable = attr && attr->flags & FI_WRITE;
    eq->end_p = &eq->first;
    pthread_mutex_init(&eq->lock, NULL);
    pthread_condattr_init(&ca);
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_cond_init(&eq->written, &ca);
    pthread_condattr_destroy(&ca);
    eq->fid = (struct fid_eq){.fid = {.fclass = FI_CLASS_EQ, .context = context, .ops = &eq_fi_ops}, .ops = &eq_ops};
    *eq_p = &eq->fid;
    return 0;
}
