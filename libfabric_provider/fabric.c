/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The provider as libfabric finds it, and its fabric object, which has no state.
 */
#define EXTERNALLY_VISIBLE externally_visible

#include <stdlib.h>

#include "provider.h"

#define PROV_VERSION         FI_VERSION(1, 0)
#define PROV_LEAST_LIBFABRIC FI_VERSION(1, 17)

struct prov_fabric {
    struct fid_fabric fid;
};

int prov_no_control(struct fid *fid, int command, void *arg)
{
    (void)fid;
    (void)command;
    (void)arg;
    return -FI_ENOSYS;
}

int prov_no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid;
    (void)other;
    (void)flags;
    return -FI_ENOSYS;
}

int prov_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    (void)fid;
    (void)name;
    (void)flags;
    (void)ops;
    (void)context;
    return -FI_ENOSYS;
}

static int fabric_close(struct fid *fid)
{
    free(fid);
    return 0;
}

static int fabric_no_pep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context)
{
    (void)fabric;
    (void)info;
    (void)pep;
    (void)context;
    return -FI_ENOSYS;
}

static int fabric_no_wait(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **wait)
{
    (void)fabric;
    (void)attr;
    (void)wait;
    return -FI_ENOSYS;
}

static int fabric_trywait_one(struct fid *fid)
{
    switch (fid->fclass) {
    case FI_CLASS_CQ:
        return prov_cq_trywait((struct prov_cq *)(void *)fid);
    case FI_CLASS_CNTR:
        return prov_cntr_trywait((struct prov_cntr *)(void *)fid);
    case FI_CLASS_EQ:
        return prov_eq_trywait((struct fid_eq *)(void *)fid);
    default:
        return -FI_EINVAL;
    }
}

static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    int rc = 0;

    (void)fabric;
    for (int i = 0; i < count && !rc; i++)
        rc = fabric_trywait_one(fids[i]);
    return rc;
}

static struct fi_ops fabric_fi_ops = {.size = sizeof(struct fi_ops),
                                      .close = fabric_close,
                                      .bind = prov_no_bind,
                                      .control = prov_no_control,
                                      .ops_open = prov_no_ops};

static struct fi_ops_fabric fabric_ops = {.size = sizeof(struct fi_ops_fabric),
                                          .domain = prov_domain_open,
                                          .passive_ep = fabric_no_pep,
                                          .eq_open = prov_eq_open,
                                          .wait_open = fabric_no_wait,
                                          .trywait = fabric_trywait};

int prov_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric_p, void *context)
{
    struct prov_fabric *f = calloc(1, sizeof(*f));

    if (!f)
        return -FI_ENOMEM;
    f->fid = (struct fid_fabric){.fid = {.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fabric_fi_ops},
                                 .ops = &fabric_ops,
                                 .api_version = attr->api_version};
    *fabric_p = &f->fid;
    return 0;
}

static void fabric_cleanup(void)
{
}

struct fi_provider prov_provider = {.version = PROV_VERSION,
                                    .name = "ethmx",
                                    .getinfo = prov_getinfo,
                                    .fabric = prov_fabric_open,
                                    .cleanup = fabric_cleanup};

/* libfabric skips a provider whose version of the interface is below the one that a client asks for. What is used of
 * the interface has not changed since 1.17, so the version is that of the library which loads the provider. */
FI_EXT_INI
{
    uint32_t version = fi_version();

    if (FI_VERSION_LT(version, PROV_LEAST_LIBFABRIC)) {
        FI_WARN(&prov_provider, FI_LOG_CORE, "this is libfabric %u.%u; ethmx needs 1.17 or later\n", FI_MAJOR(version),
                FI_MINOR(version));
        return NULL;
    }
    prov_provider.fi_version = version;
    return &prov_provider;
}
