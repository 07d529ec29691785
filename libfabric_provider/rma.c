/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fi_read(), fi_write() and their relatives. A write is complete when the target's memory has changed, so that its
 * errors are reported. Remote data of a write follows in an active message.
 */
#include <string.h>

#include "provider.h"

#define READ_FLAGS  (FI_RMA | FI_READ)
#define WRITE_FLAGS (FI_RMA | FI_WRITE)
#define TELL_ID     0 /* of active messages */

struct remote_range {
    uint64_t addr, key;
};

/* ---- Remote data ---- */

static void rma_tell(void *arg, const struct ethmx_result *result)
{
    struct prov_req *r = arg;
    int status;

    if (result->status || !r->tells) {
        prov_send_done(r, result);
        return;
    }
    r->tells = false;
    status = ethmx_am_send(r->ep->ep, r->to, TELL_ID, r->told, sizeof(r->told), NULL, rma_tell, r);
    if (status != ETHMX_INPROGRESS)
        prov_send_done(r, &(struct ethmx_result){.status = status});
}

static bool rma_told(void *arg, const struct ethmx_am *am)
{
    struct prov_ep *ep = arg;
    struct prov_event ev = {.entry = {.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA}};
    uint64_t told[2];

    if (am->header_bytes != sizeof(told) || !ep->recv_cq)
        return false;
    memcpy(told, am->header, sizeof(told));
    ev.entry.data = told[0];
    ev.entry.len = told[1];
    prov_lock(ep->domain);
    ev.source = prov_ep_source(ep, am->peer);
    prov_unlock(ep->domain);
    prov_cq_write(ep->recv_cq, &ev);
    return false;
}

int prov_rma_listen(struct prov_ep *ep)
{
    return ethmx_am_handler(ep->ep, TELL_ID, rma_told, ep);
}

/* ---- Operations ---- */

static ssize_t rma_read_any(struct fid_ep *fid, const struct prov_send *s, const struct remote_range *at)
{
    struct prov_ep *ep = (struct prov_ep *)fid;
    struct ethmx_rma_target from = {.key = prov_key(at->key), .offset = at->addr};
    struct prov_req *r;
    ssize_t rc = prov_send_prepare(ep, s, READ_FLAGS, &r, &from.peer);
    int status;

    if (rc)
        return rc;
    status = ethmx_rma_get(ep->ep, &from, &r->data, prov_send_done, r);
    return status == ETHMX_INPROGRESS ? 0 : prov_send_started(r, status);
}

static ssize_t rma_write_any(struct fid_ep *fid, const struct prov_send *s, const struct remote_range *at)
{
    struct prov_ep *ep = (struct prov_ep *)fid;
    struct ethmx_rma_target to = {.key = prov_key(at->key), .offset = at->addr};
    struct prov_req *r;
    ssize_t rc = prov_send_prepare(ep, s, WRITE_FLAGS, &r, &to.peer);
    int status;

    if (rc)
        return rc;
    r->tells = s->flags & FI_REMOTE_CQ_DATA;
    r->to = to.peer;
    r->told[0] = s->data;
    r->told[1] = r->data.len_bytes;
    status = ethmx_rma_put(ep->ep, &to, &r->data, ETHMX_RMA_REMOTE, rma_tell, r);
    if (status == ETHMX_INPROGRESS)
        return 0;
    if (status == ETHMX_OK && r->tells) {
        rma_tell(r, &(struct ethmx_result){.status = ETHMX_OK});
        return 0;
    }
    return prov_send_started(r, status);
}

static uint64_t rma_flags(struct fid_ep *ep)
{
    return ((struct prov_ep *)ep)->send_flags;
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t from,
                         uint64_t addr, uint64_t key, void *context)
{
    struct prov_send s = {.iov = iov, .count = count, .to = from, .flags = rma_flags(ep), .context = context};

    (void)desc;
    s.flags &= ~FI_INJECT;
    return rma_read_any(ep, &s, &(struct remote_range){addr, key});
}

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t addr,
                        uint64_t key, void *context)
{
    struct iovec iov = {buf, len};

    return rma_readv(ep, &iov, &desc, 1, from, addr, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    struct prov_send s = {.iov = msg->msg_iov,
                          .count = msg->iov_count,
                          .to = msg->addr,
                          .flags = flags & ~FI_INJECT,
                          .context = msg->context};

    if (msg->rma_iov_count != 1)
        return -FI_EINVAL;
    return rma_read_any(ep, &s, &(struct remote_range){msg->rma_iov->addr, msg->rma_iov->key});
}

static ssize_t rma_write_one(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t data,
                             uint64_t flags, const struct remote_range *at, void *context)
{
    struct iovec iov = {(void *)(uintptr_t)buf, len};
    struct prov_send s = {.iov = &iov, .count = 1, .to = to, .data = data, .flags = flags, .context = context};

    return rma_write_any(ep, &s, at);
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t addr,
                         uint64_t key, void *context)
{
    (void)desc;
    return rma_write_one(ep, buf, len, to, 0, rma_flags(ep), &(struct remote_range){addr, key}, context);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t to,
                          uint64_t addr, uint64_t key, void *context)
{
    struct prov_send s = {.iov = iov, .count = count, .to = to, .flags = rma_flags(ep), .context = context};

    (void)desc;
    return rma_write_any(ep, &s, &(struct remote_range){addr, key});
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    struct prov_send s = {.iov = msg->msg_iov,
                          .count = msg->iov_count,
                          .to = msg->addr,
                          .data = msg->data,
                          .flags = flags,
                          .context = msg->context};

    if (msg->rma_iov_count != 1)
        return -FI_EINVAL;
    return rma_write_any(ep, &s, &(struct remote_range){msg->rma_iov->addr, msg->rma_iov->key});
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t addr, uint64_t key)
{
    return rma_write_one(ep, buf, len, to, 0, FI_INJECT | PROV_QUIET, &(struct remote_range){addr, key}, NULL);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
                             uint64_t addr, uint64_t key, void *context)
{
    (void)desc;
    return rma_write_one(ep, buf, len, to, data, rma_flags(ep) | FI_REMOTE_CQ_DATA, &(struct remote_range){addr, key},
                         context);
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t to,
                              uint64_t addr, uint64_t key)
{
    return rma_write_one(ep, buf, len, to, data, FI_INJECT | PROV_QUIET | FI_REMOTE_CQ_DATA,
                         &(struct remote_range){addr, key}, NULL);
}

struct fi_ops_rma prov_rma_ops = {.size = sizeof(struct fi_ops_rma),
                                  .read = rma_read,
                                  .readv = rma_readv,
                                  .readmsg = rma_readmsg,
                                  .write = rma_write,
                                  .writev = rma_writev,
                                  .writemsg = rma_writemsg,
                                  .inject = rma_inject,
                                  .writedata = rma_writedata,
                                  .injectdata = rma_injectdata};
