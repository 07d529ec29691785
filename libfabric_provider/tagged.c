/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fi_tsend() and its relatives.
 */
#include "provider.h"

static uint64_t tagged_send_flags(struct fid_ep *ep)
{
    return ((struct prov_ep *)ep)->send_flags;
}

static ssize_t tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t from,
                            uint64_t tag, uint64_t ignore, void *context)
{
    struct prov_recv r = {.iov = iov,
                          .count = count,
                          .from = from,
                          .tagged = true,
                          .tag = tag,
                          .ignore = ignore,
                          .flags = ((struct prov_ep *)ep)->recv_flags & ~FI_MULTI_RECV,
                          .context = context};

    (void)desc;
    return prov_recv(ep, &r);
}

static ssize_t tagged_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t tag,
                           uint64_t ignore, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return tagged_recvv(ep, &iov, &desc, 1, from, tag, ignore, context);
}

static ssize_t tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct prov_recv r = {.iov = msg->msg_iov,
                          .count = msg->iov_count,
                          .from = msg->addr,
                          .tagged = true,
                          .tag = msg->tag,
                          .ignore = msg->ignore,
                          .flags = flags & ~FI_MULTI_RECV,
                          .context = msg->context};

    return prov_recv(ep, &r);
}

static ssize_t tagged_send_one(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t tag,
                               uint64_t data, uint64_t flags, void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct prov_send s = {.iov = &iov,
                          .count = 1,
                          .to = to,
                          .tagged = true,
                          .tag = tag,
                          .data = data,
                          .flags = flags,
                          .context = context};

    return prov_send(ep, &s);
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t tag,
                           void *context)
{
    (void)desc;
    return tagged_send_one(ep, buf, len, to, tag, 0, tagged_send_flags(ep), context);
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t to,
                            uint64_t tag, void *context)
{
    struct prov_send s = {.iov = iov,
                          .count = count,
                          .to = to,
                          .tagged = true,
                          .tag = tag,
                          .flags = tagged_send_flags(ep),
                          .context = context};

    (void)desc;
    return prov_send(ep, &s);
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct prov_send s = {.iov = msg->msg_iov,
                          .count = msg->iov_count,
                          .to = msg->addr,
                          .tagged = true,
                          .tag = msg->tag,
                          .data = msg->data,
                          .flags = flags,
                          .context = msg->context};

    return prov_send(ep, &s);
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
                               uint64_t tag, void *context)
{
    (void)desc;
    return tagged_send_one(ep, buf, len, to, tag, data, tagged_send_flags(ep) | FI_REMOTE_CQ_DATA, context);
}

static ssize_t tagged_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t tag)
{
    return tagged_send_one(ep, buf, len, to, tag, 0, FI_INJECT | PROV_QUIET, NULL);
}

static ssize_t tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t to,
                                 uint64_t tag)
{
    return tagged_send_one(ep, buf, len, to, tag, data, FI_INJECT | PROV_QUIET | FI_REMOTE_CQ_DATA, NULL);
}

struct fi_ops_tagged prov_tagged_ops = {.size = sizeof(struct fi_ops_tagged),
                                        .recv = tagged_recv,
                                        .recvv = tagged_recvv,
                                        .recvmsg = tagged_recvmsg,
                                        .send = tagged_send,
                                        .sendv = tagged_sendv,
                                        .sendmsg = tagged_sendmsg,
                                        .inject = tagged_inject,
                                        .senddata = tagged_senddata,
                                        .injectdata = tagged_injectdata};
