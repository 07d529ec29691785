/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Completion queues: a ring that grows, because no completion may be lost. If there is no memory for that, what is read
 * after the completions before it is -FI_EOVERRUN.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

#define RING_LEAST 64

static void cq_lock(struct prov_cq *cq)
{
    if (cq->domain->threads)
        pthread_mutex_lock(&cq->lock);
}

static void cq_unlock(struct prov_cq *cq)
{
    if (cq->domain->threads)
        pthread_mutex_unlock(&cq->lock);
}

static bool cq_grow(struct prov_cq *cq)
{
    size_t size = cq->size ? 2 * cq->size : RING_LEAST;
    struct prov_event *ring = malloc(size * sizeof(*ring));

    if (!ring)
        return false;
    for (size_t i = 0; i < cq->count; i++)
        ring[i] = cq->ring[(cq->head + i) & (cq->size - 1)];
    free(cq->ring);
    cq->ring = ring;
    cq->size = size;
    cq->head = 0;
    return true;
}

static void cq_lose(struct prov_cq *cq)
{
    if (!cq->overrun)
        FI_WARN(&prov_provider, FI_LOG_CQ, "a completion is lost: there is no memory for it\n");
    cq->overrun = true;
}

void prov_cq_write(struct prov_cq *cq, const struct prov_event *ev)
{
    cq_lock(cq);
    if (cq->count < cq->size || cq_grow(cq))
        cq->ring[(cq->head + cq->count++) & (cq->size - 1)] = *ev;
    else
        cq_lose(cq);
    prov_wait_notify(&cq->wait);
    cq_unlock(cq);
}

bool prov_cq_empty(struct prov_cq *cq)
{
    bool empty;

    cq_lock(cq);
    empty = !cq->count && !cq->overrun;
    cq_unlock(cq);
    return empty;
}

/* Saves a call. If several threads use it, that must look under the lock. */
static inline bool cq_may_have(const struct prov_cq *cq)
{
    return cq->domain->threads || cq->count || cq->overrun;
}

static size_t cq_entry_bytes(enum fi_cq_format format)
{
    switch (format) {
    case FI_CQ_FORMAT_MSG:
        return sizeof(struct fi_cq_msg_entry);
    case FI_CQ_FORMAT_DATA:
        return sizeof(struct fi_cq_data_entry);
    case FI_CQ_FORMAT_TAGGED:
        return sizeof(struct fi_cq_tagged_entry);
    default:
        return sizeof(struct fi_cq_entry);
    }
}

/* What a read says that takes nothing. */
static int cq_why_none(const struct prov_cq *cq)
{
    if (cq->count)
        return -FI_EAVAIL;
    return cq->overrun ? -FI_EOVERRUN : -FI_EAGAIN;
}

/* Takes up to count successful completions, as far as the first error. -FI_EAGAIN: there is nothing. */
static ssize_t cq_take(struct prov_cq *cq, uint8_t *buf, size_t count, fi_addr_t *source)
{
    size_t bytes = cq_entry_bytes(cq->format), n = 0;
    ssize_t rc;

    cq_lock(cq);
    while (n < count && cq->count && !cq->ring[cq->head].err) {
        const struct prov_event *ev = &cq->ring[cq->head];

        if (cq->format == FI_CQ_FORMAT_TAGGED) /* a length that the compiler knows */
            memcpy(buf + n * bytes, &ev->entry, sizeof(ev->entry));
        else
            memcpy(buf + n * bytes, &ev->entry, bytes); /* each format begins as the longer ones do */
        if (source)
            source[n] = ev->source;
        cq->head = (cq->head + 1) & (cq->size - 1);
        cq->count--;
        n++;
    }
    rc = n ? (ssize_t)n : cq_why_none(cq);
    cq_unlock(cq);
    return rc;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source)
{
    struct prov_cq *cq = (struct prov_cq *)fid;
    ssize_t n = count && cq_may_have(cq) ? cq_take(cq, buf, count, source) : -FI_EAGAIN;

    if (n != -FI_EAGAIN)
        return n;
    prov_watch_progress(cq->domain, &cq->watch);
    if (!cq_may_have(cq))
        return -FI_EAGAIN;
    return count ? cq_take(cq, buf, count, source) : prov_cq_empty(cq) ? -FI_EAGAIN : 0;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
    return cq_readfrom(fid, buf, count, NULL);
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source, const void *cond,
                            int timeout_ms)
{
    struct prov_cq *cq = (struct prov_cq *)fid;
    int64_t deadline_ms = prov_deadline_ms(timeout_ms);
    ssize_t n;

    (void)cond; /* a hint */
    if (cq->wait.object == FI_WAIT_NONE)
        return -FI_ENOSYS;
    while ((n = cq_readfrom(fid, buf, count, source)) == -FI_EAGAIN) {
        if (atomic_exchange(&cq->signaled, false) || prov_now_ms() >= deadline_ms)
            return -FI_EAGAIN;
        if (cq->wait.object == FI_WAIT_YIELD)
            sched_yield();
        else if (!prov_cq_trywait(cq))
            prov_wait_sleep(&cq->wait, deadline_ms);
    }
    return n;
}

int prov_cq_trywait(struct prov_cq *cq)
{
    int rc = prov_wait_begin(&cq->wait);

    if (rc)
        return rc;
    if (!prov_cq_empty(cq) || atomic_load(&cq->signaled))
        return -FI_EAGAIN;
    return prov_wait_arm(cq->domain, &cq->wait, &cq->watch);
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout_ms)
{
    return cq_sreadfrom(fid, buf, count, NULL, cond, timeout_ms);
}

/* A client built for a later libfabric has a longer entry, one for an older a shorter one: err_data is not written. */
static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *to, uint64_t flags)
{
    struct prov_cq *cq = (struct prov_cq *)fid;
    const struct prov_event *ev;
    ssize_t rc = -FI_EAGAIN;

    (void)flags;
    cq_lock(cq);
    ev = &cq->ring[cq->head];
    if (cq->count && ev->err) {
        to->op_context = ev->entry.op_context;
        to->flags = ev->entry.flags;
        to->len = ev->entry.len;
        to->buf = ev->entry.buf;
        to->data = ev->entry.data;
        to->tag = ev->entry.tag;
        to->olen = ev->missing_bytes;
        to->err = ev->err;
        to->prov_errno = ev->status;
        cq->head = (cq->head + 1) & (cq->size - 1);
        cq->count--;
        rc = 1;
    }
    cq_unlock(cq);
    return rc;
}

static int cq_signal(struct fid_cq *fid)
{
    struct prov_cq *cq = (struct prov_cq *)fid;

    atomic_store(&cq->signaled, true);
    prov_wait_wake(&cq->wait);
    return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf, size_t len)
{
    const char *text = ethmx_strerror(prov_errno);

    (void)fid;
    (void)err_data;
    if (buf && len) {
        strncpy(buf, text, len - 1);
        buf[len - 1] = 0;
        return buf;
    }
    return text;
}

static int cq_close(struct fid *fid)
{
    struct prov_cq *cq = (struct prov_cq *)(void *)fid;

    if (atomic_load(&cq->refs))
        return -FI_EBUSY;
    atomic_fetch_sub(&cq->domain->refs, 1);
    prov_wait_close(&cq->wait);
    pthread_mutex_destroy(&cq->lock);
    free(cq->ring);
    free(cq);
    return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
    const struct prov_wait *w = &((struct prov_cq *)(void *)fid)->wait;

    return prov_wait_tell(w->object, w->fd, command, arg);
}

static struct fi_ops cq_fi_ops = {.size = sizeof(struct fi_ops),
                                  .close = cq_close,
                                  .bind = prov_no_bind,
                                  .control = cq_control,
                                  .ops_open = prov_no_ops};

static struct fi_ops_cq cq_ops = {.size = sizeof(struct fi_ops_cq),
                                  .read = cq_read,
                                  .readfrom = cq_readfrom,
                                  .readerr = cq_readerr,
                                  .sread = cq_sread,
                                  .sreadfrom = cq_sreadfrom,
                                  .signal = cq_signal,
                                  .strerror = cq_strerror};

int prov_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq_p, void *context)
{
    struct prov_domain *d = (struct prov_domain *)domain;
    struct prov_cq *cq = calloc(1, sizeof(*cq));
    int rc;

    if (!cq)
        return -FI_ENOMEM;
    cq->domain = d;
    cq->format = attr->format;
    if ((rc = prov_wait_open(&cq->wait, attr->wait_obj)) || !cq_grow(cq)) {
        prov_wait_close(&cq->wait);
        free(cq);
        return rc ? rc : -FI_ENOMEM;
    }
    pthread_mutex_init(&cq->lock, NULL);
    cq->fid = (struct fid_cq){.fid = {.fclass = FI_CLASS_CQ, .context = context, .ops = &cq_fi_ops}, .ops = &cq_ops};
    atomic_fetch_add(&d->refs, 1);
    *cq_p = &cq->fid;
    return 0;
}
