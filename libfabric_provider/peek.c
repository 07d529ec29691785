/* SPDX-License-Identifier: BSD-3-Clause
 *
 * FI_PEEK, FI_CLAIM and FI_DISCARD: messages that have arrived are looked at, set aside for their receive, or dropped.
 * A claimed message is known by the context of the call that has claimed it.
 */
#include <stdlib.h>

#include "provider.h"

static void peek_report(struct prov_ep *ep, const struct prov_recv *p, const struct ethmx_result *result,
                        const struct ethmx_remote *remote)
{
    struct prov_event ev = {
        .entry = {.op_context = p->context, .flags = prov_recv_flags(p), .len = result->msg_bytes, .tag = result->bits},
        .source = FI_ADDR_NOTAVAIL,
        .status = result->status,
        .err = result->status ? prov_error(result->status) : 0};

    if (remote->present) {
        ev.entry.flags |= FI_REMOTE_CQ_DATA;
        ev.entry.data = remote->data;
    }
    prov_lock(ep->domain);
    if (!result->status)
        ev.source = prov_ep_source(ep, result->peer);
    prov_unlock(ep->domain);
    if (ep->recv_cq)
        prov_cq_write(ep->recv_cq, &ev);
}

static void peek_nothing(void *arg, const struct ethmx_result *result)
{
    (void)arg;
    (void)result;
}

static void peek_drop(struct prov_ep *ep, struct ethmx_message *msg)
{
    struct ethmx_data none = {0};
    struct ethmx_result result;

    ethmx_imrecv(ep->ep, msg, &none, peek_nothing, NULL, &result);
}

static int peek_probe(struct prov_ep *ep, struct ethmx_peer *peer, const struct prov_recv *p,
                      struct ethmx_message **msg_p, struct ethmx_result *result_p, struct ethmx_remote *remote_p)
{
    if (p->tagged)
        return ethmx_probe_remote(ep->ep, peer, p->tag, ~p->ignore, msg_p, result_p, remote_p);
    return ethmx_probe_untagged(ep->ep, peer, msg_p, result_p, remote_p);
}

ssize_t prov_peek(struct prov_ep *ep, const struct prov_recv *p)
{
    bool takes = p->flags & (FI_CLAIM | FI_DISCARD);
    struct prov_claim *c = p->flags & FI_CLAIM ? calloc(1, sizeof(*c)) : NULL;
    struct ethmx_remote remote = {0};
    struct ethmx_result result = {0};
    struct ethmx_message *msg = NULL;
    struct ethmx_peer *peer;
    bool known;

    if (p->flags & FI_CLAIM && !c)
        return -FI_EAGAIN;
    prov_lock(ep->domain);
    known = prov_recv_peer(ep, p, &peer);
    prov_unlock(ep->domain);
    if (!known) {
        free(c);
        return -FI_EINVAL;
    }
    ethmx_progress(ep->ep);
    result.bits = p->tag;
    result.status = peek_probe(ep, peer, p, takes ? &msg : NULL, &result, &remote);
    peek_report(ep, p, &result, &remote);
    if (result.status) {
        free(c);
    } else if (c) {
        *c = (struct prov_claim){.context = p->context, .msg = msg, .remote = remote};
        prov_lock(ep->domain);
        c->next = ep->claims;
        ep->claims = c;
        prov_unlock(ep->domain);
    } else if (msg) {
        peek_drop(ep, msg);
    }
    return 0;
}

/* Locked. */
static struct prov_claim *peek_take_claim(struct prov_ep *ep, void *context)
{
    for (struct prov_claim **at = &ep->claims; *at; at = &(*at)->next)
        if ((*at)->context == context) {
            struct prov_claim *c = *at;

            *at = c->next;
            return c;
        }
    return NULL;
}

ssize_t prov_claimed(struct prov_ep *ep, const struct prov_recv *p)
{
    struct ethmx_result result = {0};
    struct prov_claim *c;
    struct prov_req *r;
    int status;

    if (p->count > PROV_IOV_MAX)
        return -FI_EINVAL;
    prov_lock(ep->domain);
    if (!(r = prov_req_get(ep))) {
        prov_unlock(ep->domain);
        return -FI_EAGAIN;
    }
    if (!(c = peek_take_claim(ep, p->context))) {
        prov_req_put(r);
        prov_unlock(ep->domain);
        return -FI_EINVAL;
    }
    prov_unlock(ep->domain);
    r->context = p->context;
    r->flags = prov_recv_flags(p);
    r->reports = !ep->recv_selective || p->flags & FI_COMPLETION;
    r->claimed = true;
    r->discarded = p->flags & FI_DISCARD;
    r->remote = c->remote;
    prov_req_describe(r, p->iov, r->discarded ? 0 : p->count);
    status = ethmx_imrecv(ep->ep, c->msg, &r->data, prov_recv_done, r, &result);
    free(c);
    if (status < 0)
        result.status = status;
    if (status != ETHMX_INPROGRESS)
        prov_recv_done(r, &result);
    return 0;
}
