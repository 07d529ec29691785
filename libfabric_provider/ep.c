/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Endpoints: each is one endpoint of ethmx, which is opened when the client enables it or asks for its name.
 */
#include <stdlib.h>
#include <string.h>

#include "provider.h"

static atomic_uint ep_open_count; /* endpoints of ethmx in the process */

/* ---- Peers ---- */

int prov_ep_learn(struct prov_ep *ep, fi_addr_t number, const uint8_t name[PROV_NAME_BYTES])
{
    uint8_t addr[PROV_NAME_BYTES];
    struct ethmx_peer *peer;
    size_t len_bytes;
    int rc;

    if (!prov_name_read(name, addr, &len_bytes)) {
        FI_WARN(&prov_provider, FI_LOG_AV, "a name is none of an endpoint of ethmx\n");
        return -FI_EINVAL;
    }
    if (number >= ep->peer_room) {
        size_t room = ep->peer_room ? 2 * ep->peer_room : 16;
        struct ethmx_peer **more;

        while (room <= number)
            room *= 2;
        if (!(more = realloc(ep->peer, room * sizeof(*more))))
            return -FI_ENOMEM;
        memset(more + ep->peer_room, 0, (room - ep->peer_room) * sizeof(*more));
        ep->peer = more;
        ep->peer_room = room;
    }
    if ((rc = ethmx_peer_add(ep->ep, addr, len_bytes, (void *)(uintptr_t)(number + 1), &peer))) {
        FI_WARN(&prov_provider, FI_LOG_AV, "%s\n", ethmx_error_text());
        return -prov_error(rc);
    }
    ep->peer[number] = peer;
    return 0;
}

fi_addr_t prov_ep_source(const struct prov_ep *ep, const struct ethmx_peer *peer)
{
    fi_addr_t number = peer ? (fi_addr_t)(uintptr_t)ethmx_peer_user(peer) : 0;

    if (!number || number > ep->peer_room || ep->peer[number - 1] != peer)
        return FI_ADDR_NOTAVAIL;
    return number - 1;
}

/* ---- Opening ---- */

static void ep_on_error(void *arg, struct ethmx_peer *peer, int status, const char *text)
{
    (void)arg;
    (void)peer;
    FI_WARN(&prov_provider, FI_LOG_EP_DATA, "%s (%s)\n", text, ethmx_strerror(status));
}

static int ep_start(struct prov_ep *ep)
{
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION,
                                   .struct_bytes = sizeof(opt),
                                   .thread_multiple = ep->domain->threads,
                                   .polls_others = atomic_load(&ep_open_count) > 0};
    int rc;

    if (ep->ep)
        return 0;
    if ((rc = ethmx_ep_open(ep->domain->cfg, &opt, &ep->ep))) {
        FI_WARN(&prov_provider, FI_LOG_EP_CTRL, "%s\n", ethmx_error_text());
        return -prov_error(rc);
    }
    atomic_fetch_add(&ep_open_count, 1);
    ethmx_ep_on_error(ep->ep, ep_on_error, NULL);
    if (!(ep->caps & (FI_RMA | FI_ATOMIC)))
        return 0;
    if (prov_rma_listen(ep))
        return -FI_ENOMEM;
    return prov_mr_ep_opened(ep);
}

/* Who waits already does not watch this endpoint yet. */
static void ep_wake_waiters(struct prov_ep *ep)
{
    if (ep->send_cq)
        prov_wait_wake(&ep->send_cq->wait);
    if (ep->recv_cq)
        prov_wait_wake(&ep->recv_cq->wait);
    for (unsigned i = 0; i < PROV_CNTRS; i++)
        if (ep->cntr[i])
            prov_wait_wake(&ep->cntr[i]->wait);
}

static int ep_enable(struct prov_ep *ep)
{
    int rc;

    if (!ep->av)
        return -FI_ENOAV;
    if ((!ep->send_cq && ep->caps & FI_SEND) || (!ep->recv_cq && ep->caps & FI_RECV))
        return -FI_ENOCQ;
    if ((rc = ep_start(ep)))
        return rc;
    prov_lock(ep->domain);
    rc = prov_av_teach(ep->av, ep);
    ep->enabled = !rc;
    prov_unlock(ep->domain);
    ep_wake_waiters(ep);
    return rc;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    struct prov_ep *ep = (struct prov_ep *)(void *)fid;
    uint64_t *flags = arg;

    switch (command) {
    case FI_ENABLE:
        return ep_enable(ep);
    case FI_GETOPSFLAG:
        *flags = *flags & FI_TRANSMIT ? ep->send_flags : ep->recv_flags;
        return 0;
    case FI_SETOPSFLAG:
        *(*flags & FI_TRANSMIT ? &ep->send_flags : &ep->recv_flags) = *flags & ~(uint64_t)(FI_TRANSMIT | FI_RECV);
        return 0;
    default:
        return -FI_ENOSYS;
    }
}

/* ---- Binding ---- */

static int ep_bind_cq(struct prov_ep *ep, struct prov_cq *cq, uint64_t flags)
{
    bool selective = flags & FI_SELECTIVE_COMPLETION;
    int rc;

    if (!(flags & (FI_TRANSMIT | FI_RECV)))
        return -FI_EINVAL;
    if ((flags & FI_TRANSMIT && ep->send_cq) || (flags & FI_RECV && ep->recv_cq))
        return -FI_EINVAL;
    if ((rc = prov_watch_add(ep->domain, &cq->watch, ep)))
        return rc;
    if (flags & FI_TRANSMIT) {
        ep->send_cq = cq;
        ep->send_selective = selective;
        atomic_fetch_add(&cq->refs, 1);
    }
    if (flags & FI_RECV) {
        ep->recv_cq = cq;
        ep->recv_selective = selective;
        atomic_fetch_add(&cq->refs, 1);
    }
    return 0;
}

static int ep_bind_cntr(struct prov_ep *ep, struct prov_cntr *cntr, uint64_t flags)
{
    static const uint64_t kinds[PROV_CNTRS] = {FI_SEND, FI_RECV, FI_READ, FI_WRITE};
    int rc = prov_watch_add(ep->domain, &cntr->watch, ep);

    for (unsigned i = 0; i < PROV_CNTRS && !rc; i++) {
        if (!(flags & kinds[i]))
            continue;
        if (ep->cntr[i])
            return -FI_EINVAL;
        ep->cntr[i] = cntr;
        atomic_fetch_add(&cntr->refs, 1);
    }
    return rc;
}

static int ep_bind_av(struct prov_ep *ep, struct prov_av *av)
{
    int rc = ep->av ? -FI_EINVAL : prov_watch_add(ep->domain, &av->endpoints, ep);

    if (rc)
        return rc;
    ep->av = av;
    atomic_fetch_add(&av->refs, 1);
    return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct prov_ep *ep = (struct prov_ep *)(void *)fid;

    switch (other->fclass) {
    case FI_CLASS_CQ:
        return ep_bind_cq(ep, (struct prov_cq *)(void *)other, flags);
    case FI_CLASS_CNTR:
        return ep_bind_cntr(ep, (struct prov_cntr *)(void *)other, flags);
    case FI_CLASS_AV:
        return ep_bind_av(ep, (struct prov_av *)(void *)other);
    case FI_CLASS_EQ:
        return 0; /* it has no events */
    default:
        return -FI_EINVAL;
    }
}

static void ep_unbind_cq(struct prov_ep *ep, struct prov_cq *cq)
{
    if (!cq)
        return;
    prov_watch_remove(ep->domain, &cq->watch, ep);
    atomic_fetch_sub(&cq->refs, 1);
}

static int ep_close(struct fid *fid)
{
    struct prov_ep *ep = (struct prov_ep *)(void *)fid;

    ep_unbind_cq(ep, ep->send_cq);
    ep_unbind_cq(ep, ep->recv_cq);
    for (unsigned i = 0; i < PROV_CNTRS; i++)
        if (ep->cntr[i]) {
            prov_watch_remove(ep->domain, &ep->cntr[i]->watch, ep);
            atomic_fetch_sub(&ep->cntr[i]->refs, 1);
        }
    if (ep->av) {
        prov_watch_remove(ep->domain, &ep->av->endpoints, ep);
        atomic_fetch_sub(&ep->av->refs, 1);
    }
    if (ep->ep) {
        prov_mr_ep_closing(ep);
        ethmx_ep_close(ep->ep);
        atomic_fetch_sub(&ep_open_count, 1);
    }
    while (ep->claims) {
        struct prov_claim *c = ep->claims;

        ep->claims = c->next;
        free(c);
    }
    prov_req_free_all(ep);
    free(ep->peer);
    atomic_fetch_sub(&ep->domain->refs, 1);
    free(ep);
    return 0;
}

/* ---- Options and names ---- */

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *len_bytes_p)
{
    struct prov_ep *ep = (struct prov_ep *)(void *)fid;
    size_t size = name == FI_OPT_MIN_MULTI_RECV ? ep->multi_bytes : name == FI_OPT_CM_DATA_SIZE ? 0 : PROV_QUEUE_SIZE;

    if (level != FI_OPT_ENDPOINT)
        return -FI_ENOPROTOOPT;
    if (name != FI_OPT_MIN_MULTI_RECV && name != FI_OPT_CM_DATA_SIZE && name != FI_OPT_TX_SIZE &&
        name != FI_OPT_RX_SIZE)
        return -FI_ENOPROTOOPT;
    if (*len_bytes_p < sizeof(size))
        return -FI_ETOOSMALL;
    memcpy(value, &size, sizeof(size));
    *len_bytes_p = sizeof(size);
    return 0;
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t len_bytes)
{
    struct prov_ep *ep = (struct prov_ep *)(void *)fid;

    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    if (len_bytes != sizeof(size_t))
        return -FI_EINVAL;
    memcpy(&ep->multi_bytes, value, sizeof(size_t));
    return 0;
}

static int ep_no_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep, void *context)
{
    (void)sep;
    (void)index;
    (void)attr;
    (void)ep;
    (void)context;
    return -FI_ENOSYS;
}

static int ep_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep, void *context)
{
    (void)attr;
    return ep_no_ctx(sep, index, NULL, ep, context);
}

static ssize_t ep_size_left(struct fid_ep *ep)
{
    (void)ep;
    return PROV_QUEUE_SIZE;
}

int prov_ep_getname(fid_t fid, void *name, size_t *len_bytes_p)
{
    struct prov_ep *ep = (struct prov_ep *)(void *)fid;
    size_t room = *len_bytes_p;
    uint8_t full[PROV_NAME_BYTES];
    int rc;

    *len_bytes_p = PROV_NAME_BYTES;
    if ((rc = ep_start(ep)))
        return rc;
    if (!prov_name_write(ep->ep, full)) {
        FI_WARN(&prov_provider, FI_LOG_EP_CTRL, "%s\n", ethmx_error_text());
        return -FI_EINVAL;
    }
    if (room)
        memcpy(name, full, room < PROV_NAME_BYTES ? room : PROV_NAME_BYTES);
    return room < PROV_NAME_BYTES ? -FI_ETOOSMALL : 0;
}

static struct fi_ops ep_fi_ops = {
    .size = sizeof(struct fi_ops), .close = ep_close, .bind = ep_bind, .control = ep_control, .ops_open = prov_no_ops};

static struct fi_ops_ep ep_ops = {.size = sizeof(struct fi_ops_ep),
                                  .cancel = prov_cancel,
                                  .getopt = ep_getopt,
                                  .setopt = ep_setopt,
                                  .tx_ctx = ep_no_ctx,
                                  .rx_ctx = ep_no_rx_ctx,
                                  .rx_size_left = ep_size_left,
                                  .tx_size_left = ep_size_left};

int prov_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep_p, void *context)
{
    struct prov_domain *d = (struct prov_domain *)domain;
    struct prov_ep *ep;

    if (info->ep_attr && info->ep_attr->type != FI_EP_RDM && info->ep_attr->type != FI_EP_UNSPEC)
        return -FI_ENOSYS;
    if (!(ep = calloc(1, sizeof(*ep))))
        return -FI_ENOMEM;
    ep->domain = d;
    ep->caps = info->caps;
    ep->send_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
    ep->recv_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
    ep->multi_bytes = PROV_MULTI_BYTES;
    ep->fid = (struct fid_ep){.fid = {.fclass = FI_CLASS_EP, .context = context, .ops = &ep_fi_ops},
                              .ops = &ep_ops,
                              .cm = &prov_cm_ops,
                              .msg = &prov_msg_ops,
                              .rma = &prov_rma_ops,
                              .atomic = &prov_atomic_ops,
                              .tagged = &prov_tagged_ops};
    atomic_fetch_add(&d->refs, 1);
    *ep_p = &ep->fid;
    return 0;
}
