/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fi_getinfo(): one answer, the same on every host, so that all processes choose the same. Nothing is opened here.
 */
#include <stdlib.h>
#include <string.h>

#include "provider.h"

#define CAPS_ONESIDED  (FI_RMA | FI_ATOMIC)
#define CAPS_PRIMARY   (FI_MSG | FI_TAGGED | CAPS_ONESIDED)
#define CAPS_TARGET    (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define CAPS_ORIGIN    (FI_READ | FI_WRITE)
#define CAPS_DIRECTION (FI_SEND | FI_RECV | CAPS_ORIGIN | CAPS_TARGET)
#define CAPS_SECONDARY (FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define CAPS           (CAPS_PRIMARY | CAPS_DIRECTION | CAPS_SECONDARY)
#define TX_CAPS        (CAPS_PRIMARY | FI_SEND | CAPS_ORIGIN)
#define RX_CAPS        (CAPS_PRIMARY | FI_RECV | CAPS_TARGET | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE)

#define TX_FLAGS                                                                                                       \
    (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
#define RX_FLAGS  (FI_COMPLETION | FI_MULTI_RECV)
#define MSG_ORDER FI_ORDER_SAS
#define MSG_MAX   (UINT64_C(1) << 62)

static void info_fill(struct fi_info *i)
{
    i->caps = CAPS;
    i->mode = 0;
    i->addr_format = PROV_ADDR_FORMAT;
    *i->tx_attr = (struct fi_tx_attr){.caps = TX_CAPS,
                                      .msg_order = MSG_ORDER,
                                      .inject_size = PROV_INJECT_BYTES,
                                      .size = PROV_QUEUE_SIZE,
                                      .iov_limit = PROV_IOV_MAX,
                                      .rma_iov_limit = 1};
    *i->rx_attr = (struct fi_rx_attr){
        .caps = RX_CAPS, .msg_order = MSG_ORDER, .size = PROV_QUEUE_SIZE, .iov_limit = PROV_IOV_MAX};
    i->ep_attr->type = FI_EP_RDM;
    i->ep_attr->protocol = PROV_PROTOCOL;
    i->ep_attr->protocol_version = 1;
    i->ep_attr->max_msg_size = MSG_MAX;
    i->ep_attr->mem_tag_format = PROV_TAG_FORMAT;
    i->ep_attr->tx_ctx_cnt = i->ep_attr->rx_ctx_cnt = 1;
    /* Field by field: a later libfabric has more of them. */
    i->domain_attr->threading = FI_THREAD_SAFE;
    i->domain_attr->control_progress = i->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    i->domain_attr->resource_mgmt = FI_RM_ENABLED;
    i->domain_attr->av_type = FI_AV_UNSPEC;
    i->domain_attr->mr_key_size = sizeof(uint64_t);
    i->domain_attr->cq_data_size = sizeof(uint64_t);
    i->domain_attr->cq_cnt = i->domain_attr->ep_cnt = i->domain_attr->cntr_cnt = i->domain_attr->mr_cnt = 1024;
    i->domain_attr->tx_ctx_cnt = i->domain_attr->rx_ctx_cnt = 1024;
    i->domain_attr->max_ep_tx_ctx = i->domain_attr->max_ep_rx_ctx = 1;
    i->domain_attr->mr_iov_limit = 1;
    i->domain_attr->caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
}

static struct fi_info *info_new(void)
{
    struct fi_info *i = fi_dupinfo(NULL);

    if (!i)
        return NULL;
    info_fill(i);
    i->domain_attr->name = strdup(prov_provider.name);
    i->fabric_attr->name = strdup(prov_provider.name);
    i->fabric_attr->prov_version = prov_provider.version;
    if (i->domain_attr->name && i->fabric_attr->name)
        return i;
    fi_freeinfo(i);
    return NULL;
}

static int info_refuse(const char *what)
{
    FI_INFO(&prov_provider, FI_LOG_CORE, "not offered: %s\n", what);
    return -FI_ENODATA;
}

static bool info_is_within(uint64_t wanted, uint64_t offered)
{
    return !(wanted & ~offered);
}

/* Each of these: 0, and the answer has what the hints chose; or -FI_ENODATA. */

static int info_check_tx(const struct fi_tx_attr *h, struct fi_tx_attr *a)
{
    if (!info_is_within(h->caps, TX_CAPS | CAPS_SECONDARY))
        return info_refuse("tx_attr->caps");
    if (!info_is_within(h->op_flags, TX_FLAGS))
        return info_refuse("tx_attr->op_flags");
    if (!info_is_within(h->msg_order, MSG_ORDER) || h->comp_order)
        return info_refuse("tx_attr->msg_order or comp_order");
    if (h->inject_size > a->inject_size || h->size > a->size || h->iov_limit > a->iov_limit ||
        h->rma_iov_limit > a->rma_iov_limit)
        return info_refuse("tx_attr->inject_size, size, iov_limit or rma_iov_limit");
    a->op_flags = h->op_flags;
    if (h->caps)
        a->caps = h->caps;
    return 0;
}

static int info_check_rx(const struct fi_rx_attr *h, struct fi_rx_attr *a)
{
    if (!info_is_within(h->caps, RX_CAPS | CAPS_SECONDARY))
        return info_refuse("rx_attr->caps");
    if (!info_is_within(h->op_flags, RX_FLAGS))
        return info_refuse("rx_attr->op_flags");
    if (!info_is_within(h->msg_order, MSG_ORDER) || h->comp_order)
        return info_refuse("rx_attr->msg_order or comp_order");
    if (h->size > a->size || h->iov_limit > a->iov_limit)
        return info_refuse("rx_attr->size or iov_limit");
    a->op_flags = h->op_flags;
    if (h->caps)
        a->caps = h->caps;
    return 0;
}

static int info_check_ep(const struct fi_ep_attr *h, const struct fi_ep_attr *a)
{
    if (h->type != FI_EP_UNSPEC && h->type != FI_EP_RDM)
        return info_refuse("ep_attr->type");
    if (h->protocol != FI_PROTO_UNSPEC && h->protocol != a->protocol)
        return info_refuse("ep_attr->protocol");
    if (h->protocol_version > a->protocol_version || h->max_msg_size > a->max_msg_size)
        return info_refuse("ep_attr->protocol_version or max_msg_size");
    if ((h->tx_ctx_cnt > 1 && h->tx_ctx_cnt != FI_SHARED_CONTEXT) || h->tx_ctx_cnt == FI_SHARED_CONTEXT ||
        h->rx_ctx_cnt > 1)
        return info_refuse("ep_attr->tx_ctx_cnt or rx_ctx_cnt");
    if (h->auth_key_size)
        return info_refuse("ep_attr->auth_key");
    return 0;
}

static int info_check_domain(const struct fi_domain_attr *h, struct fi_domain_attr *a, uint32_t version)
{
    if (h->name && strcmp(h->name, a->name))
        return info_refuse("domain_attr->name");
    if (h->mr_key_size > a->mr_key_size || h->cq_data_size > a->cq_data_size)
        return info_refuse("domain_attr->mr_key_size or cq_data_size");
    if (!info_is_within(h->caps, a->caps))
        return info_refuse("domain_attr->caps");
    if (h->cq_cnt > a->cq_cnt || h->ep_cnt > a->ep_cnt || h->cntr_cnt > a->cntr_cnt || h->mr_iov_limit > 1 ||
        h->max_ep_tx_ctx > 1 || h->max_ep_rx_ctx > 1 || h->max_ep_stx_ctx || h->max_ep_srx_ctx)
        return info_refuse("a count of domain_attr");
    if (FI_VERSION_LT(version, FI_VERSION(1, 5))) {
        if (h->mr_mode != PROV_MR_UNSPEC && h->mr_mode != PROV_MR_SCALABLE)
            return info_refuse("domain_attr->mr_mode");
    }
    if (h->threading != FI_THREAD_UNSPEC)
        a->threading = h->threading;
    if (h->control_progress != FI_PROGRESS_UNSPEC)
        a->control_progress = h->control_progress;
    if (h->data_progress != FI_PROGRESS_UNSPEC)
        a->data_progress = h->data_progress;
    if (h->resource_mgmt != FI_RM_UNSPEC)
        a->resource_mgmt = h->resource_mgmt;
    if (h->av_type != FI_AV_UNSPEC)
        a->av_type = h->av_type;
    return 0;
}

/* Both directions of what is wanted. */
static uint64_t info_directions(uint64_t wanted)
{
    return (wanted & (FI_MSG | FI_TAGGED) ? FI_SEND | FI_RECV : 0) |
           (wanted & CAPS_ONESIDED ? CAPS_ORIGIN | CAPS_TARGET : 0);
}

static int info_check_caps(uint64_t wanted, struct fi_info *i)
{
    if (!info_is_within(wanted, CAPS))
        return info_refuse("caps");
    if (!wanted)
        return 0;
    i->caps = wanted | (CAPS_SECONDARY & (FI_LOCAL_COMM | FI_REMOTE_COMM));
    if (!(wanted & CAPS_PRIMARY))
        i->caps |= CAPS_PRIMARY;
    if (!(wanted & CAPS_DIRECTION))
        i->caps |= info_directions(i->caps);
    i->tx_attr->caps &= i->caps;
    i->rx_attr->caps &= i->caps;
    return 0;
}

static int info_copy_addr(const void *from, size_t len_bytes, void **to_p, size_t *len_bytes_p)
{
    if (!from || !len_bytes)
        return 0;
    if (!(*to_p = malloc(len_bytes)))
        return -FI_ENOMEM;
    memcpy(*to_p, from, len_bytes);
    *len_bytes_p = len_bytes;
    return 0;
}

static int info_check(const struct fi_info *h, struct fi_info *i, uint32_t version)
{
    int rc = info_check_caps(h->caps, i);

    if (!rc && h->addr_format != FI_FORMAT_UNSPEC && h->addr_format != i->addr_format)
        rc = info_refuse("addr_format");
    if (!rc && h->fabric_attr && h->fabric_attr->name && strcmp(h->fabric_attr->name, i->fabric_attr->name))
        rc = info_refuse("fabric_attr->name");
    if (!rc && h->ep_attr)
        rc = info_check_ep(h->ep_attr, i->ep_attr);
    if (!rc && h->domain_attr)
        rc = info_check_domain(h->domain_attr, i->domain_attr, version);
    if (!rc && h->tx_attr)
        rc = info_check_tx(h->tx_attr, i->tx_attr);
    if (!rc && h->rx_attr)
        rc = info_check_rx(h->rx_attr, i->rx_attr);
    if (!rc && h->addr_format == i->addr_format) {
        rc = info_copy_addr(h->src_addr, h->src_addrlen, &i->src_addr, &i->src_addrlen);
        if (!rc)
            rc = info_copy_addr(h->dest_addr, h->dest_addrlen, &i->dest_addr, &i->dest_addrlen);
    }
    i->handle = h->handle;
    return rc;
}

int prov_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                 struct fi_info **info_p)
{
    struct fi_info *i = info_new();
    int rc = 0;

    (void)node; /* names come from fi_getname() only */
    (void)service;
    if (!i)
        return -FI_ENOMEM;
    if (FI_VERSION_LT(version, FI_VERSION(1, 5)))
        i->domain_attr->mr_mode = PROV_MR_SCALABLE;
    if (hints && !(flags & FI_PROV_ATTR_ONLY))
        rc = info_check(hints, i, version);
    if (rc) {
        fi_freeinfo(i);
        return rc;
    }
    *info_p = i;
    return 0;
}
