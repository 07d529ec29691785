/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Domains: the settings and the lock of their objects.
 */
#include <stdlib.h>

#include "provider.h"

static int domain_close(struct fid *fid)
{
    struct prov_domain *d = (struct prov_domain *)fid;

    if (atomic_load(&d->refs))
        return -FI_EBUSY;
    ethmx_config_destroy(d->cfg);
    pthread_mutex_destroy(&d->lock);
    free(d);
    return 0;
}

static int domain_no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
    (void)domain;
    (void)info;
    (void)ep;
    (void)context;
    return -FI_ENOSYS;
}

static int domain_no_stx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context)
{
    (void)domain;
    (void)attr;
    (void)stx;
    (void)context;
    return -FI_ENOSYS;
}

static int domain_no_srx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **ep, void *context)
{
    (void)domain;
    (void)attr;
    (void)ep;
    (void)context;
    return -FI_ENOSYS;
}

static int domain_no_collective(struct fid_domain *domain, enum fi_collective_op op, struct fi_collective_attr *attr,
                                uint64_t flags)
{
    (void)domain;
    (void)op;
    (void)attr;
    (void)flags;
    return -FI_ENOSYS;
}

static struct fi_ops domain_fi_ops = {.size = sizeof(struct fi_ops),
                                      .close = domain_close,
                                      .bind = prov_no_bind,
                                      .control = prov_no_control,
                                      .ops_open = prov_no_ops};

static struct fi_ops_domain domain_ops = {.size = sizeof(struct fi_ops_domain),
                                          .av_open = prov_av_open,
                                          .cq_open = prov_cq_open,
                                          .endpoint = prov_ep_open,
                                          .scalable_ep = domain_no_scalable_ep,
                                          .cntr_open = prov_cntr_open,
                                          .poll_open = prov_poll_open,
                                          .stx_ctx = domain_no_stx,
                                          .srx_ctx = domain_no_srx,
                                          .query_atomic = prov_atomic_query,
                                          .query_collective = domain_no_collective};

/* FI_PROGRESS_AUTO: peers wait for no call of the client. Who has set ETHMX_PROGRESS gets that. */
static int domain_configure(struct prov_domain *d, const struct fi_domain_attr *attr)
{
    int rc = ethmx_config_create(&d->cfg);

    if (rc || attr->data_progress != FI_PROGRESS_AUTO || getenv("ETHMX_PROGRESS"))
        return rc;
    return ethmx_config_set(d->cfg, "progress", "thread", "FI_PROGRESS_AUTO");
}

int prov_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain_p, void *context)
{
    struct prov_domain *d = calloc(1, sizeof(*d));
    int rc;

    (void)fabric;
    if (!d)
        return -FI_ENOMEM;
    if ((rc = domain_configure(d, info->domain_attr))) {
        FI_WARN(&prov_provider, FI_LOG_DOMAIN, "%s\n", ethmx_error_text());
        ethmx_config_destroy(d->cfg);
        free(d);
        return -prov_error(rc);
    }
    pthread_mutex_init(&d->lock, NULL);
    d->threads = info->domain_attr->threading != FI_THREAD_DOMAIN;
    d->fid = (struct fid_domain){.fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fi_ops},
                                 .ops = &domain_ops,
                                 .mr = &prov_mr_ops};
    *domain_p = &d->fid;
    return 0;
}
