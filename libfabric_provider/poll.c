/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Poll sets: which of several queues and counters have something new.
 */
#include <stdlib.h>

#include "provider.h"

struct poll_member {
    struct fid *fid;
    uint64_t seen, seen_errors; /* of a counter */
};

struct prov_poll {
    struct fid_poll fid;
    struct prov_domain *domain;
    struct poll_member *member;
    unsigned count;
};

static bool poll_has_news(struct poll_member *m)
{
    struct prov_cntr *cntr = (struct prov_cntr *)(void *)m->fid;
    uint64_t value, errors;

    if (m->fid->fclass == FI_CLASS_CQ) {
        struct prov_cq *cq = (struct prov_cq *)(void *)m->fid;

        prov_watch_progress(cq->domain, &cq->watch);
        return !prov_cq_empty(cq);
    }
    prov_watch_progress(cntr->domain, &cntr->watch);
    value = atomic_load(&cntr->value);
    errors = atomic_load(&cntr->errors);
    if (value == m->seen && errors == m->seen_errors)
        return false;
    m->seen = value;
    m->seen_errors = errors;
    return true;
}

static int poll_poll(struct fid_poll *fid, void **context, int count)
{
    struct prov_poll *p = (struct prov_poll *)fid;
    int n = 0;

    for (unsigned i = 0; i < p->count && n < count; i++)
        if (poll_has_news(&p->member[i]))
            context[n++] = p->member[i].fid->context;
    return n;
}

static int poll_add(struct fid_poll *fid, struct fid *other, uint64_t flags)
{
    struct prov_poll *p = (struct prov_poll *)fid;
    struct poll_member *more;

    (void)flags;
    if (other->fclass != FI_CLASS_CQ && other->fclass != FI_CLASS_CNTR)
        return -FI_EINVAL;
    if (!(more = realloc(p->member, (p->count + 1) * sizeof(*more))))
        return -FI_ENOMEM;
    p->member = more;
    p->member[p->count++] = (struct poll_member){.fid = other};
    return 0;
}

static int poll_del(struct fid_poll *fid, struct fid *other, uint64_t flags)
{
    struct prov_poll *p = (struct prov_poll *)fid;

    (void)flags;
    for (unsigned i = 0; i < p->count; i++)
        if (p->member[i].fid == other) {
            p->member[i] = p->member[--p->count];
            return 0;
        }
    return -FI_EINVAL;
}

static int poll_close(struct fid *fid)
{
    struct prov_poll *p = (struct prov_poll *)(void *)fid;

    atomic_fetch_sub(&p->domain->refs, 1);
    free(p->member);
    free(p);
    return 0;
}

static struct fi_ops poll_fi_ops = {.size = sizeof(struct fi_ops),
                                    .close = poll_close,
                                    .bind = prov_no_bind,
                                    .control = prov_no_control,
                                    .ops_open = prov_no_ops};

static struct fi_ops_poll poll_ops = {
    .size = sizeof(struct fi_ops_poll), .poll = poll_poll, .poll_add = poll_add, .poll_del = poll_del};

int prov_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **poll_p)
{
    struct prov_domain *d = (struct prov_domain *)domain;
    struct prov_poll *p = calloc(1, sizeof(*p));

    (void)attr;
    if (!p)
        return -FI_ENOMEM;
    p->domain = d;
    p->fid = (struct fid_poll){.fid = {.fclass = FI_CLASS_POLL, .ops = &poll_fi_ops}, .ops = &poll_ops};
    atomic_fetch_add(&d->refs, 1);
    *poll_p = &p->fid;
    return 0;
}
