/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sends. Injected data is copied, because a send of ethmx may still need it when the call has returned.
 */
#include <stdlib.h>
#include <string.h>

#include "provider.h"

#define SYNC_FLAGS (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)

static void send_report(struct prov_cq *cq, const struct prov_req *r, int status)
{
    struct prov_event ev = {
        .entry = {.op_context = r->context, .flags = r->flags, .len = r->data.len_bytes, .tag = r->tag},
        .source = FI_ADDR_NOTAVAIL,
        .status = status,
        .err = status ? prov_error(status) : 0};

    prov_cq_write(cq, &ev);
}

static void send_end(struct prov_req *r, int status)
{
    struct prov_ep *ep = r->ep;

    prov_cntr_count(ep->cntr[r->cntr], status);
    if (ep->send_cq && (status || r->reports))
        send_report(ep->send_cq, r, status);
    prov_lock(ep->domain);
    prov_req_put(r);
    prov_unlock(ep->domain);
}

void prov_send_done(void *arg, const struct ethmx_result *result)
{
    send_end(arg, result->status);
}

static size_t send_len_bytes(const struct prov_send *s)
{
    size_t len_bytes = 0;

    for (size_t i = 0; i < s->count; i++)
        len_bytes += s->iov[i].iov_len;
    return len_bytes;
}

static bool send_copy(struct prov_req *r)
{
    size_t done_bytes = 0;
    uint8_t *to = r->small;

    if (!r->data.len_bytes)
        return true;
    if (r->data.len_bytes > sizeof(r->small) && !(to = r->copy = malloc(r->data.len_bytes)))
        return false;
    if (r->data.iov) {
        for (size_t i = 0; i < r->data.iov_count; i++) {
            memcpy(to + done_bytes, r->iov[i].base, r->iov[i].len_bytes);
            done_bytes += r->iov[i].len_bytes;
        }
    } else {
        memcpy(to, r->data.base, r->data.len_bytes);
    }
    r->data = (struct ethmx_data){.len_bytes = r->data.len_bytes, .base = to};
    return true;
}

ssize_t prov_send_prepare(struct prov_ep *ep, const struct prov_send *s, uint64_t flags, struct prov_req **r_p,
                          struct ethmx_peer **peer_p)
{
    struct prov_req *r;
    ssize_t rc = 0;

    if (!ep->enabled)
        return -FI_EOPBADSTATE;
    if (s->count > PROV_IOV_MAX || (s->flags & FI_INJECT && send_len_bytes(s) > PROV_INJECT_BYTES))
        return -FI_EINVAL;
    prov_lock(ep->domain);
    if (s->to >= ep->peer_room || !(*peer_p = ep->peer[s->to])) {
        rc = -FI_EINVAL;
    } else if (!(r = prov_req_get(ep))) {
        rc = -FI_EAGAIN;
    } else {
        r->context = s->context;
        r->tag = s->tag;
        r->flags = flags;
        r->cntr = flags & FI_SEND ? PROV_CNTR_SEND : flags & FI_READ ? PROV_CNTR_READ : PROV_CNTR_WRITE;
        r->reports = !(s->flags & PROV_QUIET) && (!ep->send_selective || s->flags & FI_COMPLETION);
        prov_req_describe(r, s->iov, s->count);
        *r_p = r;
        if (s->flags & FI_INJECT && !send_copy(r)) {
            prov_req_put(r);
            rc = -FI_EAGAIN;
        }
    }
    prov_unlock(ep->domain);
    return rc;
}

ssize_t prov_send_started(struct prov_req *r, int status)
{
    struct prov_ep *ep = r->ep;

    if (status >= 0) {
        if (status == ETHMX_OK)
            send_end(r, ETHMX_OK);
        return 0;
    }
    prov_lock(ep->domain);
    prov_req_put(r);
    prov_unlock(ep->domain);
    return status == ETHMX_ERR_NO_MEMORY ? -FI_EAGAIN : -prov_error(status);
}

ssize_t prov_send(struct fid_ep *fid, const struct prov_send *s)
{
    struct prov_ep *ep = (struct prov_ep *)fid;
    enum ethmx_send_mode mode = s->flags & SYNC_FLAGS ? ETHMX_SEND_SYNC : ETHMX_SEND_STANDARD;
    const uint64_t *data = s->flags & FI_REMOTE_CQ_DATA ? &s->data : NULL;
    struct ethmx_peer *peer;
    struct prov_req *r;
    ssize_t rc = prov_send_prepare(ep, s, FI_SEND | (s->tagged ? FI_TAGGED : FI_MSG), &r, &peer);
    int status;

    if (rc)
        return rc;
    if (!s->tagged)
        status = ethmx_isend_untagged(ep->ep, peer, data, &r->data, mode, prov_send_done, r);
    else if (data)
        status = ethmx_isend_remote(ep->ep, peer, s->tag, *data, &r->data, mode, prov_send_done, r);
    else
        status = ethmx_isend(ep->ep, peer, s->tag, &r->data, mode, prov_send_done, r);
    if (status != ETHMX_INPROGRESS)
        return prov_send_started(r, status);
    return 0;
}
