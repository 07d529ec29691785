/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receives.
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

    if (result->status == ETHMX_ERR_CANCELED)
        return ev;
    ev.entry.tag = result->bits;
    ev.missing_bytes = result->msg_bytes > result->len_bytes ? result->msg_bytes - result->len_bytes : 0;
    if (remote->present) {
        ev.entry.flags |= FI_REMOTE_CQ_DATA;
        ev.entry.data = remote->data;
    }
    return ev;
}

/* The request is free afterwards if this is the last of its results. */
static void recv_take(struct prov_req *r, const struct ethmx_result *result, struct prov_event *ev, bool last)
{
    struct prov_ep *ep = r->ep;
    bool reports = r->reports;

    prov_lock(ep->domain);
    if (result->status != ETHMX_ERR_CANCELED)
        ev->source = prov_ep_source(ep, result->peer);
    if (last)
        prov_req_put(r);
    prov_unlock(ep->domain);
    recv_report(ep, ev, reports);
}

void prov_recv_done(void *arg, const struct ethmx_result *result)
{
    struct prov_req *r = arg;
    struct ethmx_remote remote = r->claimed ? r->remote : ethmx_req_remote(r->req);
    struct ethmx_result whole = *result;
    struct prov_event ev;

    if (r->discarded && whole.status == ETHMX_ERR_TRUNCATED)
        whole.status = ETHMX_OK;
    ev = recv_event(r, &whole, &remote);
    recv_take(r, &whole, &ev, true);
}

/* A message in a buffer with FI_MULTI_RECV, or the end of the buffer. */
static void recv_multi_done(void *arg, const struct ethmx_multi_result *result)
{
    struct prov_req *r = arg;
    struct prov_event ev = recv_event(r, &result->message, &result->remote);

    ev.entry.buf = result->base;
    if (result->last)
        ev.entry.flags |= FI_MULTI_RECV;
    recv_take(r, &result->message, &ev, result->last);
}

/* 0, or the status of a receive that failed. */
static int recv_post(struct prov_req *r, struct ethmx_peer *peer, const struct prov_recv *p)
{
    static const struct ethmx_remote none;
    struct ethmx_result result;
    struct prov_event ev;
    int status;

    if (p->tagged)
        status = ethmx_irecv(r->ep->ep, peer, p->tag, ~p->ignore, &r->data, prov_recv_done, r, &r->req, &result);
    else
        status = ethmx_irecv_untagged(r->ep->ep, peer, &r->data, prov_recv_done, r, &r->req, &result);
    if (status == ETHMX_OK) {
        ev = recv_event(r, &result, &none);
        recv_take(r, &result, &ev, true);
    }
    return status < 0 ? status : 0;
}

static int recv_post_multi(struct prov_req *r, struct ethmx_peer *peer)
{
    const struct ethmx_multi multi = {.struct_bytes = sizeof(multi),
                                      .base = r->data.base,
                                      .len_bytes = r->data.len_bytes,
                                      .min_bytes = r->ep->multi_bytes,
                                      .untagged = true};
    int status = ethmx_irecv_multi(r->ep->ep, peer, 0, 0, &multi, recv_multi_done, r, &r->req);

    return status < 0 ? status : 0;
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

uint64_t prov_recv_flags(const struct prov_recv *r)
{
    return FI_RECV | (r->tagged ? FI_TAGGED : FI_MSG);
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
    if (p->count > PROV_IOV_MAX || (p->flags & FI_MULTI_RECV && (p->count != 1 || !p->iov->iov_len)))
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
    r->flags = prov_recv_flags(p);
    r->reports = !ep->recv_selective || p->flags & FI_COMPLETION;
    prov_req_describe(r, p->iov, p->count);
    prov_req_post(r);
    prov_unlock(ep->domain);
    status = p->flags & FI_MULTI_RECV ? recv_post_multi(r, peer) : recv_post(r, peer, p);
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
