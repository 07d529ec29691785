/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Watches: the endpoints behind a queue or a counter. A client that looks there moves them.
 */
#include <stdlib.h>
#include <time.h>

#include "provider.h"

int prov_watch_add(struct prov_domain *d, struct prov_watch *w, struct prov_ep *ep)
{
    struct prov_ep **more;
    int rc = 0;

    prov_lock(d);
    for (unsigned i = 0; i < w->count; i++)
        if (w->ep[i] == ep)
            goto out;
    if (!(more = realloc(w->ep, (w->count + 1) * sizeof(*more)))) {
        rc = -FI_ENOMEM;
        goto out;
    }
    w->ep = more;
    w->ep[w->count++] = ep;
out:
    prov_unlock(d);
    return rc;
}

void prov_watch_remove(struct prov_domain *d, struct prov_watch *w, struct prov_ep *ep)
{
    prov_lock(d);
    for (unsigned i = 0; i < w->count; i++)
        if (w->ep[i] == ep)
            w->ep[i--] = w->ep[--w->count];
    if (!w->count) {
        free(w->ep);
        w->ep = NULL;
    }
    prov_unlock(d);
}

/* Progress runs without the lock, so other threads may change the list meanwhile. */
struct ethmx_ep *prov_watch_next(struct prov_domain *d, struct prov_watch *w, unsigned *i_p)
{
    struct ethmx_ep *ep = NULL;

    prov_lock(d);
    while (!ep && *i_p < w->count)
        ep = w->ep[(*i_p)++]->ep;
    prov_unlock(d);
    return ep;
}

void prov_watch_progress(struct prov_domain *d, struct prov_watch *w)
{
    struct ethmx_ep *ep;
    unsigned i = 0;

    if (d->threads) {
        while ((ep = prov_watch_next(d, w, &i)))
            ethmx_progress(ep);
        return;
    }
    for (; i < w->count; i++)
        if (w->ep[i]->ep)
            ethmx_progress(w->ep[i]->ep);
}

int64_t prov_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t prov_deadline_ms(int timeout_ms)
{
    return timeout_ms < 0 ? INT64_MAX : prov_now_ms() + timeout_ms;
}
