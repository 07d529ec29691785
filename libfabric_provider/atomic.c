/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fi_atomic(), fi_fetch_atomic(), fi_compare_atomic() and their relatives, for the types and operations that ethmx has.
 */
#include "provider.h"

#define INTEGERS_END FI_FLOAT

/* ---- What there is ---- */

static const int atomic_types[FI_DATATYPE_LAST] = {
    [FI_INT8] = ETHMX_RMA_INT8,
    [FI_UINT8] = ETHMX_RMA_UINT8,
    [FI_INT16] = ETHMX_RMA_INT16,
    [FI_UINT16] = ETHMX_RMA_UINT16,
    [FI_INT32] = ETHMX_RMA_INT32,
    [FI_UINT32] = ETHMX_RMA_UINT32,
    [FI_INT64] = ETHMX_RMA_INT64,
    [FI_UINT64] = ETHMX_RMA_UINT64,
    [FI_FLOAT] = ETHMX_RMA_FLOAT,
    [FI_DOUBLE] = ETHMX_RMA_DOUBLE,
    [FI_FLOAT_COMPLEX] = ETHMX_RMA_COMPLEX_FLOAT,
    [FI_DOUBLE_COMPLEX] = ETHMX_RMA_COMPLEX_DOUBLE,
    [FI_LONG_DOUBLE] = ETHMX_RMA_LONG_DOUBLE,
    [FI_LONG_DOUBLE_COMPLEX] = ETHMX_RMA_COMPLEX_LONG_DOUBLE,
};

enum kinds { INTEGERS = 1, REALS = 2, COMPLEX = 4, NUMBERS = 7 };

static const struct {
    int op;
    unsigned kinds; /* 0: there is no such operation */
} atomic_ops[FI_ATOMIC_OP_LAST] = {
    [FI_MIN] = {ETHMX_RMA_MIN, INTEGERS | REALS},  [FI_MAX] = {ETHMX_RMA_MAX, INTEGERS | REALS},
    [FI_SUM] = {ETHMX_RMA_SUM, NUMBERS},           [FI_PROD] = {ETHMX_RMA_PROD, NUMBERS},
    [FI_LOR] = {ETHMX_RMA_LOR, INTEGERS},          [FI_LAND] = {ETHMX_RMA_LAND, INTEGERS},
    [FI_BOR] = {ETHMX_RMA_BOR, INTEGERS},          [FI_BAND] = {ETHMX_RMA_BAND, INTEGERS},
    [FI_LXOR] = {ETHMX_RMA_LXOR, INTEGERS},        [FI_BXOR] = {ETHMX_RMA_BXOR, INTEGERS},
    [FI_ATOMIC_READ] = {ETHMX_RMA_NO_OP, NUMBERS}, [FI_ATOMIC_WRITE] = {ETHMX_RMA_REPLACE, NUMBERS},
};

static unsigned atomic_kind(enum fi_datatype type)
{
    switch (type) {
    case FI_FLOAT:
    case FI_DOUBLE:
    case FI_LONG_DOUBLE:
        return REALS;
    case FI_FLOAT_COMPLEX:
    case FI_DOUBLE_COMPLEX:
    case FI_LONG_DOUBLE_COMPLEX:
        return COMPLEX;
    default:
        return INTEGERS;
    }
}

static size_t atomic_bytes(enum fi_datatype type)
{
    return ethmx_rma_type_bytes((enum ethmx_rma_type)atomic_types[type]);
}

static bool atomic_has(enum fi_datatype type, enum fi_op op)
{
    return (unsigned)type < FI_DATATYPE_LAST && (unsigned)op < FI_ATOMIC_OP_LAST &&
           atomic_ops[op].kinds & atomic_kind(type);
}

static int atomic_valid(enum fi_datatype type, enum fi_op op, size_t *count_p)
{
    if (!atomic_has(type, op))
        return -FI_EOPNOTSUPP;
    *count_p = ETHMX_RMA_ATOMIC_MAX / atomic_bytes(type);
    return 0;
}

static int atomic_writevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count_p)
{
    (void)ep;
    return op == FI_ATOMIC_READ ? -FI_EOPNOTSUPP : atomic_valid(type, op, count_p);
}

static int atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count_p)
{
    (void)ep;
    return atomic_valid(type, op, count_p);
}

static int atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count_p)
{
    (void)ep;
    if (op != FI_CSWAP || (unsigned)type >= INTEGERS_END)
        return -FI_EOPNOTSUPP;
    *count_p = 1;
    return 0;
}

int prov_atomic_query(struct fid_domain *domain, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr,
                      uint64_t flags)
{
    int rc;

    (void)domain;
    if (flags & FI_TAGGED)
        return -FI_EOPNOTSUPP;
    if (flags & FI_COMPARE_ATOMIC)
        rc = atomic_compwritevalid(NULL, type, op, &attr->count);
    else if (flags & FI_FETCH_ATOMIC)
        rc = atomic_readwritevalid(NULL, type, op, &attr->count);
    else
        rc = atomic_writevalid(NULL, type, op, &attr->count);
    if (!rc)
        attr->size = atomic_bytes(type);
    return rc;
}

/* ---- Operations ---- */

struct call {
    struct fid_ep *ep;
    const void *operand, *compare;
    void *result;
    size_t count;
    fi_addr_t to;
    uint64_t addr, key;
    enum fi_datatype type;
    enum fi_op op;
    uint64_t flags;
    void *context;
};

/* local: the memory here that the operation is about. 0, and *r_p and *at_p are set. */
static ssize_t atomic_prepare(const struct call *c, const void *local, uint64_t flags, struct prov_req **r_p,
                              struct ethmx_rma_target *at_p)
{
    struct iovec iov = {(void *)(uintptr_t)local, c->count * atomic_bytes(c->type)};
    struct prov_send s = {.iov = &iov, .count = 1, .to = c->to, .flags = c->flags, .context = c->context};

    *at_p = (struct ethmx_rma_target){.key = prov_key(c->key), .offset = c->addr};
    return prov_send_prepare((struct prov_ep *)c->ep, &s, FI_ATOMIC | flags, r_p, &at_p->peer);
}

static bool atomic_count_fits(int valid, size_t count, size_t most)
{
    return !valid && count && count <= most;
}

static ssize_t atomic_write_any(const struct call *c)
{
    struct ethmx_rma_target to;
    struct prov_req *r;
    size_t most = 0;
    ssize_t rc = atomic_writevalid(c->ep, c->type, c->op, &most);
    int status;

    if (!atomic_count_fits((int)rc, c->count, most))
        return rc ? rc : -FI_EINVAL;
    if ((rc = atomic_prepare(c, c->operand, FI_WRITE, &r, &to)))
        return rc;
    status =
        ethmx_rma_accumulate(r->ep->ep, &to, (enum ethmx_rma_op)atomic_ops[c->op].op,
                             (enum ethmx_rma_type)atomic_types[c->type], &r->data, ETHMX_RMA_REMOTE, prov_send_done, r);
    return status == ETHMX_INPROGRESS ? 0 : prov_send_started(r, status);
}

static ssize_t atomic_fetch_any(const struct call *c)
{
    struct ethmx_rma_target from;
    struct prov_req *r;
    size_t most = 0;
    ssize_t rc = atomic_readwritevalid(c->ep, c->type, c->op, &most);
    int status;

    if (!atomic_count_fits((int)rc, c->count, most))
        return rc ? rc : -FI_EINVAL;
    if ((rc = atomic_prepare(c, c->result, FI_READ, &r, &from)))
        return rc;
    status = ethmx_rma_fetch(r->ep->ep, &from, (enum ethmx_rma_op)atomic_ops[c->op].op,
                             (enum ethmx_rma_type)atomic_types[c->type], c->op == FI_ATOMIC_READ ? NULL : c->operand,
                             &r->data, prov_send_done, r);
    return status == ETHMX_INPROGRESS ? 0 : prov_send_started(r, status);
}

static ssize_t atomic_swap_any(const struct call *c)
{
    struct ethmx_rma_target at;
    struct prov_req *r;
    size_t most = 0;
    ssize_t rc = atomic_compwritevalid(c->ep, c->type, c->op, &most);
    int status;

    if (!atomic_count_fits((int)rc, c->count, most))
        return rc ? rc : -FI_EINVAL;
    if ((rc = atomic_prepare(c, c->result, FI_READ, &r, &at)))
        return rc;
    status = ethmx_rma_compare_and_swap(r->ep->ep, &at, (enum ethmx_rma_type)atomic_types[c->type], c->compare,
                                        c->operand, r->data.base, prov_send_done, r);
    return status == ETHMX_INPROGRESS ? 0 : prov_send_started(r, status);
}

/* ---- The calls ---- */

static uint64_t atomic_flags(struct fid_ep *ep)
{
    return ((struct prov_ep *)ep)->send_flags & ~FI_INJECT;
}

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc, fi_addr_t to, uint64_t addr,
                            uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    (void)desc;
    return atomic_write_any(&(struct call){.ep = ep,
                                           .operand = buf,
                                           .count = count,
                                           .to = to,
                                           .addr = addr,
                                           .key = key,
                                           .type = type,
                                           .op = op,
                                           .flags = atomic_flags(ep),
                                           .context = context});
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t to,
                             uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    return count == 1 ? atomic_write(ep, iov->addr, iov->count, desc, to, addr, key, type, op, context) : -FI_EINVAL;
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t to, uint64_t addr,
                             uint64_t key, enum fi_datatype type, enum fi_op op)
{
    return atomic_write_any(&(struct call){.ep = ep,
                                           .operand = buf,
                                           .count = count,
                                           .to = to,
                                           .addr = addr,
                                           .key = key,
                                           .type = type,
                                           .op = op,
                                           .flags = FI_INJECT | PROV_QUIET});
}

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
                                void *result_desc, fi_addr_t to, uint64_t addr, uint64_t key, enum fi_datatype type,
                                enum fi_op op, void *context)
{
    (void)desc;
    (void)result_desc;
    return atomic_fetch_any(&(struct call){.ep = ep,
                                           .operand = buf,
                                           .result = result,
                                           .count = count,
                                           .to = to,
                                           .addr = addr,
                                           .key = key,
                                           .type = type,
                                           .op = op,
                                           .flags = atomic_flags(ep),
                                           .context = context});
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
                                 struct fi_ioc *result, void **result_desc, size_t results, fi_addr_t to, uint64_t addr,
                                 uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    (void)desc;
    (void)result_desc;
    if (results != 1 || (count != 1 && op != FI_ATOMIC_READ) || (count && iov->count != result->count))
        return -FI_EINVAL;
    return atomic_readwrite(ep, count ? iov->addr : NULL, result->count, NULL, result->addr, NULL, to, addr, key, type,
                            op, context);
}

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc, const void *compare,
                                void *compare_desc, void *result, void *result_desc, fi_addr_t to, uint64_t addr,
                                uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    (void)desc;
    (void)compare_desc;
    (void)result_desc;
    return atomic_swap_any(&(struct call){.ep = ep,
                                          .operand = buf,
                                          .compare = compare,
                                          .result = result,
                                          .count = count,
                                          .to = to,
                                          .addr = addr,
                                          .key = key,
                                          .type = type,
                                          .op = op,
                                          .flags = atomic_flags(ep),
                                          .context = context});
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
                                 const struct fi_ioc *compare, void **compare_desc, size_t compares,
                                 struct fi_ioc *result, void **result_desc, size_t results, fi_addr_t to, uint64_t addr,
                                 uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    (void)desc;
    (void)compare_desc;
    (void)result_desc;
    if (count != 1 || compares != 1 || results != 1)
        return -FI_EINVAL;
    return atomic_compwrite(ep, iov->addr, iov->count, NULL, compare->addr, NULL, result->addr, NULL, to, addr, key,
                            type, op, context);
}

/* Fills in what fi_*atomicmsg() have in one structure. false: more than one piece. */
static bool atomic_of_msg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags, struct call *c)
{
    if (msg->iov_count > 1 || msg->rma_iov_count != 1)
        return false;
    *c = (struct call){.ep = ep,
                       .operand = msg->iov_count ? msg->msg_iov->addr : NULL,
                       .count = msg->rma_iov->count,
                       .to = msg->addr,
                       .addr = msg->rma_iov->addr,
                       .key = msg->rma_iov->key,
                       .type = msg->datatype,
                       .op = msg->op,
                       .flags = flags,
                       .context = msg->context};
    return true;
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
    struct call c;

    return atomic_of_msg(ep, msg, flags, &c) && c.operand ? atomic_write_any(&c) : -FI_EINVAL;
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, struct fi_ioc *result,
                                   void **result_desc, size_t results, uint64_t flags)
{
    struct call c;

    (void)result_desc;
    if (results != 1 || !atomic_of_msg(ep, msg, flags & ~FI_INJECT, &c))
        return -FI_EINVAL;
    c.result = result->addr;
    return atomic_fetch_any(&c);
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, const struct fi_ioc *compare,
                                   void **compare_desc, size_t compares, struct fi_ioc *result, void **result_desc,
                                   size_t results, uint64_t flags)
{
    struct call c;

    (void)compare_desc;
    (void)result_desc;
    if (results != 1 || compares != 1 || !atomic_of_msg(ep, msg, flags & ~FI_INJECT, &c))
        return -FI_EINVAL;
    c.compare = compare->addr;
    c.result = result->addr;
    return atomic_swap_any(&c);
}

struct fi_ops_atomic prov_atomic_ops = {.size = sizeof(struct fi_ops_atomic),
                                        .write = atomic_write,
                                        .writev = atomic_writev,
                                        .writemsg = atomic_writemsg,
                                        .inject = atomic_inject,
                                        .readwrite = atomic_readwrite,
                                        .readwritev = atomic_readwritev,
                                        .readwritemsg = atomic_readwritemsg,
                                        .compwrite = atomic_compwrite,
                                        .compwritev = atomic_compwritev,
                                        .compwritemsg = atomic_compwritemsg,
                                        .writevalid = atomic_writevalid,
                                        .readwritevalid = atomic_readwritevalid,
                                        .compwritevalid = atomic_compwritevalid};
