/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory regions. ethmx registers memory with devices by itself. So a region is a key, and, if peers may access it, a
 * region of each endpoint of the domain that has one-sided operations.
 */
#include <stdlib.h>

#include "provider.h"

struct prov_mr {
    struct fid_mr fid;
    struct prov_domain *domain;
    struct prov_mr *next, **at_p; /* in the domain's list */
    void *base;
    size_t len_bytes;
    unsigned access; /* ETHMX_RMA_MAY_* */
    struct mr_exposed {
        struct mr_exposed *next;
        struct prov_ep *ep;
        struct ethmx_region *region;
    } * exposed;
};

/* Locked. */
static int mr_expose(struct prov_mr *mr, struct prov_ep *ep)
{
    struct mr_exposed *x = calloc(1, sizeof(*x));
    int status;

    if (!x)
        return -FI_ENOMEM;
    x->ep = ep;
    status = ethmx_rma_expose_for(ep->ep, mr->base, mr->len_bytes, prov_key(mr->fid.key), mr->access, &x->region);
    if (status) {
        free(x);
        FI_WARN(&prov_provider, FI_LOG_MR, "%s\n", ethmx_error_text());
        return status == ETHMX_ERR_PARAM ? -FI_ENOKEY : -prov_error(status);
    }
    x->next = mr->exposed;
    mr->exposed = x;
    return 0;
}

/* From one endpoint, which is about to close and withdraws it, or from all. Locked. */
static int mr_withdraw(struct prov_mr *mr, const struct prov_ep *closing)
{
    struct mr_exposed **at = &mr->exposed, *x;

    while ((x = *at)) {
        if (closing && x->ep != closing) {
            at = &x->next;
            continue;
        }
        if (!closing && ethmx_rma_withdraw(x->ep->ep, x->region))
            return -FI_EAGAIN;
        *at = x->next;
        free(x);
    }
    return 0;
}

int prov_mr_ep_opened(struct prov_ep *ep)
{
    struct prov_domain *d = ep->domain;
    int rc = prov_watch_add(d, &d->endpoints, ep);

    prov_lock(d);
    for (struct prov_mr *mr = d->regions; mr && !rc; mr = mr->next)
        rc = mr_expose(mr, ep);
    prov_unlock(d);
    return rc;
}

void prov_mr_ep_closing(struct prov_ep *ep)
{
    struct prov_domain *d = ep->domain;

    prov_watch_remove(d, &d->endpoints, ep);
    prov_lock(d);
    for (struct prov_mr *mr = d->regions; mr; mr = mr->next)
        mr_withdraw(mr, ep);
    prov_unlock(d);
}

static void mr_unlink(struct prov_mr *mr)
{
    if (!mr->at_p)
        return;
    *mr->at_p = mr->next;
    if (mr->next)
        mr->next->at_p = mr->at_p;
    mr->at_p = NULL;
}

static int mr_close(struct fid *fid)
{
    struct prov_mr *mr = (struct prov_mr *)(void *)fid;
    struct prov_domain *d = mr->domain;
    int rc;

    prov_lock(d);
    if (!(rc = mr_withdraw(mr, NULL)))
        mr_unlink(mr);
    prov_unlock(d);
    if (rc)
        return rc;
    atomic_fetch_sub(&d->refs, 1);
    free(mr);
    return 0;
}

/* A region may be bound to counters and endpoints, and enabled: that changes nothing. */
static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid;
    (void)other;
    (void)flags;
    return 0;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
    (void)fid;
    (void)arg;
    return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
}

static struct fi_ops mr_fi_ops = {
    .size = sizeof(struct fi_ops), .close = mr_close, .bind = mr_bind, .control = mr_control, .ops_open = prov_no_ops};

/* Adds the region to the domain, and exposes it. Locked. */
static int mr_publish(struct prov_mr *mr)
{
    struct prov_domain *d = mr->domain;
    int rc = 0;

    for (struct prov_mr *other = d->regions; other; other = other->next)
        if (other->fid.key == mr->fid.key)
            return -FI_ENOKEY;
    for (unsigned i = 0; i < d->endpoints.count && !rc; i++)
        rc = mr_expose(mr, d->endpoints.ep[i]);
    if (rc) {
        mr_withdraw(mr, NULL);
        return rc;
    }
    mr->next = d->regions;
    mr->at_p = &d->regions;
    if (mr->next)
        mr->next->at_p = &mr->next;
    d->regions = mr;
    return 0;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr_p)
{
    struct prov_domain *d = (struct prov_domain *)(void *)fid;
    bool remote = attr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE);
    struct prov_mr *mr;
    int rc = 0;

    (void)flags;
    if (fid->fclass != FI_CLASS_DOMAIN || attr->iface != FI_HMEM_SYSTEM || attr->iov_count != 1)
        return -FI_EINVAL;
    if (remote && attr->requested_key == FI_KEY_NOTAVAIL)
        return -FI_EKEYREJECTED;
    if (remote && attr->mr_iov->iov_len > UINTPTR_MAX - (uintptr_t)attr->mr_iov->iov_base)
        return -FI_EINVAL;
    if (!(mr = calloc(1, sizeof(*mr))))
        return -FI_ENOMEM;
    mr->domain = d;
    mr->base = attr->mr_iov->iov_base;
    mr->len_bytes = attr->mr_iov->iov_len;
    mr->access = (attr->access & FI_REMOTE_READ ? ETHMX_RMA_MAY_READ : 0) |
                 (attr->access & FI_REMOTE_WRITE ? ETHMX_RMA_MAY_WRITE : 0);
    mr->fid = (struct fid_mr){.fid = {.fclass = FI_CLASS_MR, .context = attr->context, .ops = &mr_fi_ops},
                              .key = attr->requested_key};
    prov_lock(d);
    if (remote)
        rc = mr_publish(mr);
    prov_unlock(d);
    if (rc) {
        free(mr);
        return rc;
    }
    atomic_fetch_add(&d->refs, 1);
    *mr_p = &mr->fid;
    return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
                   uint64_t requested_key, uint64_t flags, struct fid_mr **mr_p, void *context)
{
    struct fi_mr_attr attr = {.mr_iov = iov,
                              .iov_count = count,
                              .access = access,
                              .offset = offset,
                              .requested_key = requested_key,
                              .context = context};

    return mr_regattr(fid, &attr, flags, mr_p);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                  uint64_t requested_key, uint64_t flags, struct fid_mr **mr_p, void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

    return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr_p, context);
}

struct fi_ops_mr prov_mr_ops = {
    .size = sizeof(struct fi_ops_mr), .reg = mr_reg, .regv = mr_regv, .regattr = mr_regattr};
