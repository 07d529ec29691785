/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receives. One with FI_MULTI_RECV is a receive into what is left of its buffer, posted again after each message.
 */
#include "provider.h"

static void recv_report(struct prov_ep *ep, const struct prov_event *ev, bool reports)
{
    prov_cntr_count(ep->cntr[PROV_CNTR_RECV], ev->err);
    if (ep->recv_cq && (ev->err || reports))
        prov_cq_write(ep->recv_cq, ev);
}

static struct prov_event recv_event(const struct prov_req *r, const struct ethmx_result *result,
                                    const struct ethmx_remote *remote)
{
    struct prov_event ev = {.entry = {.op_context = r->context, .flags = r->flags, .len = result->len_bytes},
                            .source = FI_ADDR_NOTAVAIL,
                            .status = result->status,
                            .err = result->status ? prov_error(result->status) : 0};

    if (r->multi)
        ev.entry.buf = r->data.base;
    if (result->status == ETHMX_ERR_CANCELED)
        return ev;
    ev.entry.tag = result->bits & ~PROV_MSG_BIT;
    ev.missing_bytes = result->msg_bytes > result->len_bytes ? result->msg_bytes - result->len_bytes : 0;
    if (remote->present) {
        ev.entry.flags |= FI_REMOTE_CQ_DATA;
        ev.entry.data = remote->data;
    }
    return ev;
}

/* Whether a multi-receive goes on behind this message. */
static bool recv_goes_on(struct prov_req *r, const struct ethmx_result *result)
{
    if (!r->multi || (result->status && result->status != ETHMX_ERR_TRUNCATED))
        return false;
    r->data.base = (uint8_t *)r->data.base + result->len_bytes;
    r->data.len_bytes -= result->len_bytes;
    return r->data.len_bytes && r->data.len_bytes >= r->ep->multi_bytes;
}

/* A message has arrived. True: the request is to be posted again; otherwise it is free. */
static bool recv_take(struct prov_req *r, const struct ethmx_result *result, const struct ethmx_remote *remote)
{
    struct prov_ep *ep = r->ep;
    struct prov_event ev = recv_event(r, result, remote);
    bool goes_on = recv_goes_on(r, result), reports = r->reports;

    prov_lock(ep->domain);
    if (result->status != ETHMX_ERR_CANCELED)
        ev.source = prov_ep_source(ep, result->peer);
    if (r->multi && !goes_on)
        ev.entry.flags |= FI_MULTI_RECV;
    if (goes_on)
        r->req = NULL;
    else
        prov_req_put(r);
    prov_unlock(ep->domain);
    recv_report(ep, &ev, reports);
    return goes_on;
}

/* Posts r until it waits. 0, or the status of a receive that failed. */
static int recv_post(struct prov_req *r, struct ethmx_peer *peer, uint64_t bits, uint64_t mask)
{
    static const struct ethmx_remote none;
    struct ethmx_result result;
    int status;

    do {
        status = ethmx_irecv(r->ep->ep, peer, bits, mask, &r->data, prov_recv_done, r, &r->req, &result);
        if (status < 0)
            return status;
    } while (status == ETHMX_OK && recv_take(r, &result, &none));
    return 0;
}

void prov_recv_done(void *arg, const struct ethmx_result *result)
{
    struct prov_req *r = arg;
    struct ethmx_remote remote = r->claimed ? r->remote : ethmx_req_remote(r->req);
    struct ethmx_result failed = {.status = ETHMX_OK}, whole = *result;

    if (r->discarded && whole.status == ETHMX_ERR_TRUNCATED)
        whole.status = ETHMX_OK;
    if (!recv_take(r, &whole, &remote))
        return;
    failed.status = recv_post(r, r->from, PROV_MSG_BIT, UINT64_MAX);
    if (failed.status) {
        r->multi = false;
        recv_take(r, &failed, &remote);
    }
}

bool prov_recv_peer(struct prov_ep *ep, const struct prov_recv *r, struct ethmx_peer **peer_p)
{
    *peer_p = NULL;
    if (r->from == FI_ADDR_UNSPEC || !(ep->caps & FI_DIRECTED_RECV))
        return true;
    if (r->from < ep->peer_room)
        *peer_p = ep->peer[r->from];
    return *peer_p;
}

uint64_t prov_recv_mask(const struct prov_recv *r)
{
    return ~r->ignore | PROV_MSG_BIT;
}

ssize_t prov_recv(struct fid_ep *fid, const struct prov_recv *p)
{
    struct prov_ep *ep = (struct prov_ep *)fid;
    struct ethmx_peer *peer;
    struct prov_req *r;
    int status;

    if (!ep->enabled)
        return -FI_EOPBADSTATE;
    if (p->flags & FI_PEEK)
        return prov_peek(ep, p);
    if (p->flags & FI_CLAIM)
        return prov_claimed(ep, p);
    if (p->count > PROV_IOV_MAX || (p->flags & FI_MULTI_RECV && p->count != 1))
        return -FI_EINVAL;
    prov_lock(ep->domain);
    if (!prov_recv_peer(ep, p, &peer)) {
        prov_unlock(ep->domain);
        return -FI_EINVAL;
    }
    if (!(r = prov_req_get(ep))) {
        prov_unlock(ep->domain);
        return -FI_EAGAIN;
    }
    r->context = p->context;
    r->flags = FI_RECV | (p->bits & PROV_MSG_BIT ? FI_MSG : FI_TAGGED);
    r->reports = !ep->recv_selective || p->flags & FI_COMPLETION;
    r->multi = p->flags & FI_MULTI_RECV;
    r->from = peer;
    prov_req_describe(r, p->iov, p->count);
    prov_req_post(r);
    prov_unlock(ep->domain);
    status = recv_post(r, peer, p->bits, prov_recv_mask(p));
    if (!status)
        return 0;
    prov_lock(ep->domain);
    prov_req_put(r);
    prov_unlock(ep->domain);
    return status == ETHMX_ERR_NO_MEMORY ? -FI_EAGAIN : -prov_error(status);
}

ssize_t prov_cancel(fid_t fid, void *context)
{
    struct prov_ep *ep = (struct prov_ep *)(void *)fid;
    struct prov_req *r;

    prov_lock(ep->domain);
    for (r = ep->posted; r && (r->context != context || !r->req); r = r->next)
        ;
    if (r)
        ethmx_cancel(ep->ep, r->req); /* if it has matched, it completes as if nothing had been asked */
    prov_unlock(ep->domain);
    return r ? 0 : -FI_ENOENT;
}
