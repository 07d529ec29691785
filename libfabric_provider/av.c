/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Address vectors: names by number. Each endpoint that is bound knows its peers by the same numbers.
 *
 * A removed entry is only forgotten. The peer may still send, because it knows this endpoint. Numbers are not used
 * again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

#define ROOM_LEAST 16

int prov_av_teach(struct prov_av *av, struct prov_ep *ep)
{
    int rc = 0;

    for (size_t i = 0; i < av->count && !rc; i++)
        if (av->entry[i].used)
            rc = prov_ep_learn(ep, i, av->entry[i].name);
    return rc;
}

static int av_add(struct prov_av *av, const uint8_t *name, fi_addr_t *addr_p)
{
    size_t i = av->count;
    int rc = 0;

    if (av->count == av->room) {
        size_t room = av->room ? 2 * av->room : ROOM_LEAST;
        void *more = realloc(av->entry, room * sizeof(*av->entry));

        if (!more)
            return -FI_ENOMEM;
        av->entry = more;
        av->room = room;
    }
    for (unsigned k = 0; k < av->endpoints.count && !rc; k++)
        if (av->endpoints.ep[k]->ep)
            rc = prov_ep_learn(av->endpoints.ep[k], i, name);
    if (rc)
        return rc;
    memcpy(av->entry[i].name, name, PROV_NAME_BYTES);
    av->entry[i].used = true;
    av->count++;
    *addr_p = i;
    return 0;
}

static int av_insert(struct fid_av *fid, const void *names, size_t count, fi_addr_t *addr, uint64_t flags,
                     void *context)
{
    struct prov_av *av = (struct prov_av *)fid;
    int *error = flags & FI_SYNC_ERR ? context : NULL;
    const uint8_t *name = names;
    int inserted = 0;

    prov_lock(av->domain);
    for (size_t i = 0; i < count; i++, name += PROV_NAME_BYTES) {
        fi_addr_t number = FI_ADDR_NOTAVAIL;
        int rc = av_add(av, name, &number);

        inserted += !rc;
        if (addr)
            addr[i] = number;
        if (error)
            error[i] = -rc;
    }
    prov_unlock(av->domain);
    return inserted;
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *addr, uint64_t flags,
                        void *context)
{
    (void)fid;
    (void)node;
    (void)service;
    (void)addr;
    (void)flags;
    (void)context;
    return -FI_ENOSYS;
}

static int av_insertsym(struct fid_av *fid, const char *node, size_t nodes, const char *service, size_t services,
                        fi_addr_t *addr, uint64_t flags, void *context)
{
    (void)nodes;
    (void)services;
    return av_insertsvc(fid, node, service, addr, flags, context);
}

static int av_remove(struct fid_av *fid, fi_addr_t *addr, size_t count, uint64_t flags)
{
    struct prov_av *av = (struct prov_av *)fid;
    int rc = 0;

    (void)flags;
    prov_lock(av->domain);
    for (size_t i = 0; i < count; i++) {
        if (addr[i] >= av->count || !av->entry[addr[i]].used) {
            rc = -FI_EINVAL;
            continue;
        }
        av->entry[addr[i]].used = false;
        for (unsigned k = 0; k < av->endpoints.count; k++)
            if (addr[i] < av->endpoints.ep[k]->peer_room)
                av->endpoints.ep[k]->peer[addr[i]] = NULL;
    }
    prov_unlock(av->domain);
    return rc;
}

static int av_lookup(struct fid_av *fid, fi_addr_t addr, void *name, size_t *len_bytes_p)
{
    struct prov_av *av = (struct prov_av *)fid;
    int rc = 0;

    prov_lock(av->domain);
    if (addr < av->count && av->entry[addr].used)
        memcpy(name, av->entry[addr].name, *len_bytes_p < PROV_NAME_BYTES ? *len_bytes_p : PROV_NAME_BYTES);
    else
        rc = -FI_EINVAL;
    prov_unlock(av->domain);
    *len_bytes_p = PROV_NAME_BYTES;
    return rc;
}

/* The endpoint's number, which frames have, and its host. */
static const char *av_straddr(struct fid_av *fid, const void *name, char *buf, size_t *len_bytes_p)
{
    const uint8_t *b = name;
    int n;

    (void)fid;
    n = snprintf(buf, *len_bytes_p, "ethmx://%02x%02x%02x%02x", b[7], b[6], b[5], b[4]);
    *len_bytes_p = (size_t)n + 1;
    return buf;
}

static int av_no_set(struct fid_av *fid, struct fi_av_set_attr *attr, struct fid_av_set **set, void *context)
{
    (void)fid;
    (void)attr;
    (void)set;
    (void)context;
    return -FI_ENOSYS;
}

static int av_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid;
    (void)flags;
    return other->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL; /* insertions are done in the call */
}

static int av_close(struct fid *fid)
{
    struct prov_av *av = (struct prov_av *)(void *)fid;

    if (atomic_load(&av->refs))
        return -FI_EBUSY;
    atomic_fetch_sub(&av->domain->refs, 1);
    free(av->entry);
    free(av);
    return 0;
}

static struct fi_ops av_fi_ops = {.size = sizeof(struct fi_ops),
                                  .close = av_close,
                                  .bind = av_bind,
                                  .control = prov_no_control,
                                  .ops_open = prov_no_ops};

static struct fi_ops_av av_ops = {.size = sizeof(struct fi_ops_av),
                                  .insert = av_insert,
                                  .insertsvc = av_insertsvc,
                                  .insertsym = av_insertsym,
                                  .remove = av_remove,
                                  .lookup = av_lookup,
                                  .straddr = av_straddr,
                                  .av_set = av_no_set};

int prov_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av_p, void *context)
{
    struct prov_domain *d = (struct prov_domain *)domain;
    struct prov_av *av;

    if (attr->name || attr->rx_ctx_bits || attr->flags & (FI_EVENT | FI_READ))
        return -FI_ENOSYS; /* shared by processes, of scalable endpoints, or with events */
    if (!(av = calloc(1, sizeof(*av))))
        return -FI_ENOMEM;
    if (attr->type == FI_AV_UNSPEC)
        attr->type = FI_AV_TABLE;
    av->domain = d;
    av->fid = (struct fid_av){.fid = {.fclass = FI_CLASS_AV, .context = context, .ops = &av_fi_ops}, .ops = &av_ops};
    atomic_fetch_add(&d->refs, 1);
    *av_p = &av->fid;
    return 0;
}
