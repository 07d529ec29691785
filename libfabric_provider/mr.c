/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory regions. ethmx registers memory with devices by itself, so a region of a client that only sends and receives
 * is no more than a key.
 */
#include <stdlib.h>

#include "provider.h"

struct prov_mr {
    struct fid_mr fid;
    struct prov_domain *domain;
};

static int mr_close(struct fid *fid)
{
    struct prov_mr *mr = (struct prov_mr *)(void *)fid;

    atomic_fetch_sub(&mr->domain->refs, 1);
    free(mr);
    return 0;
}

/* Regions may be bound to counters and endpoints, and enabled: that has no meaning here. */
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

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr_p)
{
    struct prov_domain *d = (struct prov_domain *)(void *)fid;
    struct prov_mr *mr;

    (void)flags;
    if (fid->fclass != FI_CLASS_DOMAIN || attr->iface != FI_HMEM_SYSTEM)
        return -FI_EINVAL;
    if (!(mr = calloc(1, sizeof(*mr))))
        return -FI_ENOMEM;
    mr->domain = d;
    mr->fid = (struct fid_mr){.fid = {.fclass = FI_CLASS_MR, .context = attr->context, .ops = &mr_fi_ops},
                              .key = attr->requested_key};
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
