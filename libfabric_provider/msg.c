/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fi_send() and its relatives.
 */
#include "provider.h"

static uint64_t msg_send_flags(struct fid_ep *ep)
{
    return ((struct prov_ep *)ep)->send_flags;
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t from,
                         void *context)
{
    struct prov_recv r = {
        .iov = iov, .count = count, .from = from, .flags = ((struct prov_ep *)ep)->recv_flags, .context = context};

    (void)desc;
    return prov_recv(ep, &r);
}

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return msg_recvv(ep, &iov, &desc, 1, from, context);
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    struct prov_recv r = {
        .iov = msg->msg_iov, .count = msg->iov_count, .from = msg->addr, .flags = flags, .context = msg->context};

    return prov_recv(ep, &r);
}

static ssize_t msg_send_one(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t data, uint64_t flags,
                            void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct prov_send s = {.iov = &iov, .count = 1, .to = to, .data = data, .flags = flags, .context = context};

    return prov_send(ep, &s);
}

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, void *context)
{
    (void)desc;
    return msg_send_one(ep, buf, len, to, 0, msg_send_flags(ep), context);
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t to,
                         void *context)
{
    struct prov_send s = {.iov = iov, .count = count, .to = to, .flags = msg_send_flags(ep), .context = context};

    (void)desc;
    return prov_send(ep, &s);
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    struct prov_send s = {.iov = msg->msg_iov,
                          .count = msg->iov_count,
                          .to = msg->addr,
                          .data = msg->data,
                          .flags = flags,
                          .context = msg->context};

    return prov_send(ep, &s);
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
                            void *context)
{
    (void)desc;
    return msg_send_one(ep, buf, len, to, data, msg_send_flags(ep) | FI_REMOTE_CQ_DATA, context);
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to)
{
    return msg_send_one(ep, buf, len, to, 0, FI_INJECT | PROV_QUIET, NULL);
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t to)
{
    return msg_send_one(ep, buf, len, to, data, FI_INJECT | PROV_QUIET | FI_REMOTE_CQ_DATA, NULL);
}

struct fi_ops_msg prov_msg_ops = {.size = sizeof(struct fi_ops_msg),
                                  .recv = msg_recv,
                                  .recvv = msg_recvv,
                                  .recvmsg = msg_recvmsg,
                                  .send = msg_send,
                                  .sendv = msg_sendv,
                                  .sendmsg = msg_sendmsg,
                                  .inject = msg_inject,
                                  .senddata = msg_senddata,
                                  .injectdata = msg_injectdata};
