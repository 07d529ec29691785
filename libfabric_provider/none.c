/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls of connection management that endpoints without connections do not have.
 */
#include "provider.h"

static int none_setname(fid_t fid, void *addr, size_t len_bytes)
{
    (void)fid;
    (void)addr;
    (void)len_bytes;
    return -FI_ENOSYS;
}

static int none_getpeer(struct fid_ep *ep, void *addr, size_t *len_bytes_p)
{
    (void)ep;
    (void)addr;
    (void)len_bytes_p;
    return -FI_ENOSYS;
}

static int none_connect(struct fid_ep *ep, const void *addr, const void *param, size_t len_bytes)
{
    (void)ep;
    (void)addr;
    (void)param;
    (void)len_bytes;
    return -FI_ENOSYS;
}

static int none_listen(struct fid_pep *pep)
{
    (void)pep;
    return -FI_ENOSYS;
}

static int none_accept(struct fid_ep *ep, const void *param, size_t len_bytes)
{
    (void)ep;
    (void)param;
    (void)len_bytes;
    return -FI_ENOSYS;
}

static int none_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t len_bytes)
{
    (void)pep;
    (void)handle;
    (void)param;
    (void)len_bytes;
    return -FI_ENOSYS;
}

static int none_shutdown(struct fid_ep *ep, uint64_t flags)
{
    (void)ep;
    (void)flags;
    return -FI_ENOSYS;
}

static int none_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context)
{
    (void)ep;
    (void)addr;
    (void)flags;
    (void)mc;
    (void)context;
    return -FI_ENOSYS;
}

struct fi_ops_cm prov_cm_ops = {.size = sizeof(struct fi_ops_cm),
                                .setname = none_setname,
                                .getname = prov_ep_getname,
                                .getpeer = none_getpeer,
                                .connect = none_connect,
                                .listen = none_listen,
                                .accept = none_accept,
                                .reject = none_reject,
                                .shutdown = none_shutdown,
                                .join = none_join};
