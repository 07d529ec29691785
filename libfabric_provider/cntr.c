/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Counters of completed operations.
 */
#include <sched.h>
#include <stdlib.h>

#include "provider.h"

static struct prov_cntr *cntr_of(struct fid_cntr *fid)
{
    return (struct prov_cntr *)fid;
}

/* Its value, or number of errors. */
static uint64_t cntr_look(struct prov_cntr *cntr, const atomic_uint_fast64_t *which)
{
    uint64_t value, errors;

    prov_watch_progress(cntr->domain, &cntr->watch);
    value = atomic_load(&cntr->value);
    errors = atomic_load(&cntr->errors);
    atomic_store(&cntr->seen, value + errors);
    return which == &cntr->value ? value : errors;
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
    return cntr_look(cntr_of(fid), &cntr_of(fid)->value);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
    return cntr_look(cntr_of(fid), &cntr_of(fid)->errors);
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
    atomic_fetch_add(&cntr_of(fid)->value, value);
    prov_wait_notify(&cntr_of(fid)->wait);
    return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
    atomic_store(&cntr_of(fid)->value, value);
    prov_wait_notify(&cntr_of(fid)->wait);
    return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
    atomic_fetch_add(&cntr_of(fid)->errors, value);
    prov_wait_notify(&cntr_of(fid)->wait);
    return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
    atomic_store(&cntr_of(fid)->errors, value);
    prov_wait_notify(&cntr_of(fid)->wait);
    return 0;
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout_ms)
{
    struct prov_cntr *cntr = cntr_of(fid);
    int64_t deadline_ms = prov_deadline_ms(timeout_ms);
    uint64_t errors = atomic_load(&cntr->errors);

    while (cntr_read(fid) < threshold) {
        if (atomic_load(&cntr->errors) != errors)
            return -FI_EAVAIL;
        if (prov_now_ms() >= deadline_ms)
            return -FI_ETIMEDOUT;
        if (cntr->wait.fd < 0)
            sched_yield();
        else if (!prov_cntr_trywait(cntr))
            prov_wait_sleep(&cntr->wait, deadline_ms);
    }
    return 0;
}

int prov_cntr_trywait(struct prov_cntr *cntr)
{
    int rc = prov_wait_begin(&cntr->wait);

    if (rc)
        return rc;
    if (atomic_load(&cntr->value) + atomic_load(&cntr->errors) != atomic_load(&cntr->seen))
        return -FI_EAGAIN;
    return prov_wait_arm(cntr->domain, &cntr->wait, &cntr->watch);
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
    const struct prov_wait *w = &((struct prov_cntr *)(void *)fid)->wait;

    return prov_wait_tell(w->object, w->fd, command, arg);
}

static int cntr_close(struct fid *fid)
{
    struct prov_cntr *cntr = (struct prov_cntr *)(void *)fid;

    if (atomic_load(&cntr->refs))
        return -FI_EBUSY;
    atomic_fetch_sub(&cntr->domain->refs, 1);
    prov_wait_close(&cntr->wait);
    free(cntr);
    return 0;
}

static struct fi_ops cntr_fi_ops = {.size = sizeof(struct fi_ops),
                                    .close = cntr_close,
                                    .bind = prov_no_bind,
                                    .control = cntr_control,
                                    .ops_open = prov_no_ops};

static struct fi_ops_cntr cntr_ops = {.size = sizeof(struct fi_ops_cntr),
                                      .read = cntr_read,
                                      .readerr = cntr_readerr,
                                      .add = cntr_add,
                                      .set = cntr_set,
                                      .wait = cntr_wait,
                                      .adderr = cntr_adderr,
                                      .seterr = cntr_seterr};

int prov_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr_p, void *context)
{
    struct prov_domain *d = (struct prov_domain *)domain;
    struct prov_cntr *cntr = calloc(1, sizeof(*cntr));
    int rc;

    if (!cntr)
        return -FI_ENOMEM;
    if ((rc = prov_wait_open(&cntr->wait, attr ? attr->wait_obj : FI_WAIT_NONE))) {
        free(cntr);
        return rc;
    }
    cntr->domain = d;
    cntr->fid =
        (struct fid_cntr){.fid = {.fclass = FI_CLASS_CNTR, .context = context, .ops = &cntr_fi_ops}, .ops = &cntr_ops};
    atomic_fetch_add(&d->refs, 1);
    *cntr_p = &cntr->fid;
    return 0;
}
