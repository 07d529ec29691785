/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations under way: what a completion says to the client. They are allocated in slabs, which live as long as the
 * endpoint: ethmx drops operations that are open when it closes, without a callback.
 */
#include <stdlib.h>

#include "provider.h"

#define SLAB_REQS 64

struct prov_slab {
    struct prov_slab *next;
    struct prov_req req[SLAB_REQS];
};

static bool req_grow(struct prov_ep *ep)
{
    struct prov_slab *slab = calloc(1, sizeof(*slab));

    if (!slab)
        return false;
    slab->next = ep->slabs;
    ep->slabs = slab;
    for (unsigned i = 0; i < SLAB_REQS; i++) {
        slab->req[i].ep = ep;
        slab->req[i].next = ep->free;
        ep->free = &slab->req[i];
    }
    return true;
}

struct prov_req *prov_req_get(struct prov_ep *ep)
{
    struct prov_req *r;

    if (!ep->free && !req_grow(ep))
        return NULL;
    r = ep->free;
    ep->free = r->next;
    r->req = NULL;
    r->posted = r->claimed = r->discarded = r->tells = false;
    r->copy = NULL;
    return r;
}

void prov_req_post(struct prov_req *r)
{
    r->posted = true;
    r->prev = NULL;
    r->next = r->ep->posted;
    if (r->next)
        r->next->prev = r;
    r->ep->posted = r;
}

void prov_req_put(struct prov_req *r)
{
    if (r->posted) {
        *(r->prev ? &r->prev->next : &r->ep->posted) = r->next;
        if (r->next)
            r->next->prev = r->prev;
        r->posted = false;
    }
    if (r->copy)
        free(r->copy);
    r->copy = NULL;
    r->next = r->ep->free;
    r->ep->free = r;
}

void prov_req_describe(struct prov_req *r, const struct iovec *iov, size_t count)
{
    size_t len_bytes = 0;

    for (size_t i = 0; i < count; i++) {
        r->iov[i] = (struct ethmx_iov){.base = iov[i].iov_base, .len_bytes = iov[i].iov_len};
        len_bytes += iov[i].iov_len;
    }
    if (count > 1)
        r->data = (struct ethmx_data){.len_bytes = len_bytes, .iov = r->iov, .iov_count = count};
    else
        r->data = (struct ethmx_data){.len_bytes = len_bytes, .base = count ? iov[0].iov_base : NULL};
}

void prov_req_free_all(struct prov_ep *ep)
{
    while (ep->slabs) {
        struct prov_slab *slab = ep->slabs;

        ep->slabs = slab->next;
        for (unsigned i = 0; i < SLAB_REQS; i++)
            free(slab->req[i].copy);
        free(slab);
    }
}
