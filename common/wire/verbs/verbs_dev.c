/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Buffers. Memory is registered in slabs: one whenever there are more connections than ever before. It belongs to the
 * device, not to the connection, because the buffer of a received frame is passed up, and may be posted to any queue
 * when it is returned. A forked child does not get the slabs. Otherwise copy-on-write could move the parent's pages, to
 * which the device writes.
 *
 * Receives. Each connection's peer may have `credits` frames in flight to this endpoint. So as many buffers, and a
 * few for messages without credit (EMX_VERBS_RECEIVES), are posted for it, and a message always finds a buffer. In a
 * shared queue these numbers are added: the receives of a connection that ends serve the next one. Buffers are returned
 * to it several at a time, because each call has a cost (locks, with hardware a doorbell). As many as may wait for that
 * are posted in addition.
 */
#define _GNU_SOURCE
#include "wire/verbs/verbs_dev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "wire/verbs/verbs_conn.h"
#include "wire/verbs/verbs_reg.h"

#define MAX_BYTES    (UINT64_C(1) << 62) /* a device that reports more has no limit */
#define INLINE_BYTES 220                 /* requested; longer messages are copied into a buffer */
#define SPARE        (EMX_VERBS_BATCH - 1)
#define READ_MIN     32768 /* for shorter messages, copying is faster than a rendezvous, even into absent pages */

bool emx_verbs_port_fabric(struct ibv_context *context, uint8_t port, enum emx_verbs_fabric *fabric_p, char *why,
                           size_t why_len_bytes)
{
    const char *name = ibv_get_device_name(context->device);
    struct ibv_port_attr attr;
    int err = ibv_query_port(context, port, &attr);

    if (err) {
        snprintf(why, why_len_bytes, "port %u of %s: %s", port, name, strerror(err));
        return false;
    }
    if (attr.state != IBV_PORT_ACTIVE) {
        snprintf(why, why_len_bytes, "port %u of %s is not active (%s)", port, name, ibv_port_state_str(attr.state));
        return false;
    }
    if (context->device->transport_type == IBV_TRANSPORT_IWARP) {
        *fabric_p = EMX_VERBS_IWARP;
        return true;
    }
    if (context->device->transport_type != IBV_TRANSPORT_IB) {
        snprintf(why, why_len_bytes, "%s is neither RoCE nor iWARP nor InfiniBand", name);
        return false;
    }
    *fabric_p = attr.link_layer == IBV_LINK_LAYER_ETHERNET ? EMX_VERBS_ROCE : EMX_VERBS_IB;
    return true;
}

/* ---- Opening ---- */

static unsigned verbs_dev_min(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned verbs_dev_shared_room(const struct ibv_device_attr *attr)
{
    return attr->max_srq_wr > SPARE ? (unsigned)attr->max_srq_wr - SPARE : 0;
}

/* The user's number of connections, if the device's queues are long enough. */
static void verbs_dev_take_limits(struct emx_verbs_dev *d, const struct ibv_device_attr *attr,
                                  const struct emx_config *cfg)
{
    unsigned per_conn;

    d->credits = (unsigned)cfg->p_verbs_credits;
    d->sge_limit = (unsigned)attr->max_sge;
    d->inline_bytes = INLINE_BYTES;
    while (d->credits > 4 && EMX_VERBS_WORK(d->credits) > (unsigned)attr->max_qp_wr)
        d->credits /= 2;
    per_conn = EMX_VERBS_RECEIVES(d->credits) + EMX_VERBS_WORK(d->credits);
    d->conn_limit = verbs_dev_min((unsigned)cfg->p_verbs_peers, (unsigned)attr->max_qp);
    d->conn_limit = verbs_dev_min(d->conn_limit, (unsigned)attr->max_cqe / per_conn);
    if (cfg->p_verbs_srq && attr->max_srq > 0 && attr->max_srq_wr > 0)
        d->conn_limit = verbs_dev_min(d->conn_limit, verbs_dev_shared_room(attr) / EMX_VERBS_RECEIVES(d->credits));
}

/* ---- The program's memory ---- */

static int verbs_dev_reg(void *arg, void *base, size_t len_bytes, unsigned access, void **mr_p)
{
    const struct emx_verbs_dev *d = arg;
    int flags = 0;

    if (access & EMX_MEM_READ)
        flags |= IBV_ACCESS_REMOTE_READ;
    if (access & EMX_MEM_WRITE)
        flags |= (int)d->write_access;
    return emx_verbs_reg(d->pd, base, len_bytes, flags, mr_p);
}

/* The measured threshold compares registering with copying. A read needs further messages. */
static void verbs_dev_count_rendezvous(struct emx_reg_threshold *c)
{
    if (c->resident_bytes < READ_MIN)
        c->resident_bytes = READ_MIN;
    if (c->fresh_bytes < READ_MIN)
        c->fresh_bytes = READ_MIN;
}

/* Reads are optional: without them the device can still carry frames. */
static int verbs_dev_open_cache(struct emx_verbs_dev *d, const struct ibv_device_attr *attr,
                                const struct emx_config *cfg, struct emx_stats *stats, char *why, size_t why_len_bytes)
{
    struct emx_regcache_params p = {
        .cfg = cfg,
        .stats = stats,
        .registrar = {.name = "verbs", .reg = verbs_dev_reg, .dereg = emx_verbs_dereg, .arg = d}};

    if (!cfg->p_verbs_read || attr->max_qp_rd_atom < 1 || attr->max_qp_init_rd_atom < 1)
        return ETHMX_OK;
    d->reads_max = verbs_dev_min(verbs_dev_min((unsigned)cfg->p_verbs_reads, (unsigned)attr->max_qp_rd_atom),
                                 (unsigned)attr->max_qp_init_rd_atom);
    d->overlap = cfg->p_reg_overlap;
    d->read_bytes = (uint32_t)cfg->p_verbs_read_bytes;
    /* With iWARP the reply to a read is a write to this device. */
    d->write_access = IBV_ACCESS_LOCAL_WRITE;
    if (d->fabric == EMX_VERBS_IWARP || cfg->p_verbs_move == EMX_MOVE_WRITE)
        d->write_access |= IBV_ACCESS_REMOTE_WRITE;
    if (attr->max_mr_size && attr->max_mr_size < MAX_BYTES)
        p.registrar.max_bytes = attr->max_mr_size;
    emx_reg_threshold_get(&p.registrar, ibv_get_device_name(d->context->device), cfg, &d->threshold, d->threshold_text,
                          sizeof(d->threshold_text));
    if (!cfg->p_reg_min)
        verbs_dev_count_rendezvous(&d->threshold);
    p.fault_in =
        cfg->p_reg_fault_in == EMX_REG_FAULT_AUTO ? d->threshold.fault_in : cfg->p_reg_fault_in == EMX_REG_FAULT_YES;
    return emx_regcache_open(&d->cache, &p, why, why_len_bytes);
}

static int verbs_dev_make_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? errno : 0;
}

/* Each completion vector has an interrupt, and most drivers route each to a different processor. The processes of a
 * node mostly have consecutive numbers, so they get different vectors. A driver that has fewer than it reports has the
 * first. */
static int verbs_dev_make_cq(struct emx_verbs_dev *d, int cqe)
{
    int vectors = d->context->num_comp_vectors, vector = vectors > 1 ? (int)(getpid() % vectors) : 0;

    d->cq = ibv_create_cq(d->context, cqe, NULL, d->channel, vector);
    if (!d->cq && vector)
        d->cq = ibv_create_cq(d->context, cqe, NULL, d->channel, 0);
    return d->cq ? 0 : errno;
}

/* 0, or an errno; *what: what could not be created. */
static int verbs_dev_make_queues(struct emx_verbs_dev *d, const struct ibv_device_attr *attr, bool share,
                                 const char **what)
{
    struct ibv_srq_init_attr srq = {
        .attr = {.max_wr = d->conn_limit * EMX_VERBS_RECEIVES(d->credits) + SPARE, .max_sge = 1}};
    unsigned per_conn = EMX_VERBS_RECEIVES(d->credits) + EMX_VERBS_WORK(d->credits);
    int err;

    *what = "protection domain";
    d->pd = ibv_alloc_pd(d->context);
    if (!d->pd)
        return errno;
    *what = "completion channel";
    d->channel = ibv_create_comp_channel(d->context);
    if (!d->channel || verbs_dev_make_nonblocking(d->channel->fd))
        return errno;
    *what = "completion queue";
    err = verbs_dev_make_cq(d, (int)(d->conn_limit * per_conn));
    if (err)
        return err;
    if (!share || attr->max_srq <= 0)
        return 0;
    *what = "shared receive queue";
    d->srq = ibv_create_srq(d->pd, &srq);
    if (!d->srq)
        return errno;
    d->wanted = d->promised = SPARE;
    return 0;
}

int emx_verbs_dev_open(struct emx_verbs_dev **d_p, struct ibv_context *context, uint8_t port,
                       const struct emx_config *cfg, struct emx_stats *stats, char *why, size_t why_len_bytes)
{
    const char *name = ibv_get_device_name(context->device), *what = "limits";
    struct emx_verbs_dev *d = calloc(1, sizeof(*d));
    struct ibv_device_attr attr;
    int err;

    if (!d) {
        snprintf(why, why_len_bytes, "out of memory");
        return ETHMX_ERR_NO_MEMORY;
    }
    d->context = context;
    emx_list_init(&d->events_link);
    if (!emx_verbs_port_fabric(context, port, &d->fabric, why, why_len_bytes)) {
        free(d);
        return ETHMX_ERR_NO_WIRE;
    }
    err = ibv_query_device(context, &attr);
    if (!err) {
        verbs_dev_take_limits(d, &attr, cfg);
        err = d->conn_limit ? verbs_dev_make_queues(d, &attr, cfg->p_verbs_srq, &what) : ENOSPC;
    }
    if (!err && verbs_dev_open_cache(d, &attr, cfg, stats, why, why_len_bytes)) {
        emx_verbs_dev_close(d);
        return ETHMX_ERR_NO_WIRE;
    }
    if (!err) {
        emx_verbs_events_open(d);
        *d_p = d;
        return ETHMX_OK;
    }
    snprintf(why, why_len_bytes, "%s: %s: %s", name, what, strerror(err));
    emx_verbs_dev_close(d);
    return ETHMX_ERR_NO_WIRE;
}

static void verbs_dev_free_slab(struct emx_verbs_slab *s)
{
    if (s->mr)
        ibv_dereg_mr(s->mr);
    munmap(s->memory, s->len_bytes);
    free(s);
}

void emx_verbs_dev_close(struct emx_verbs_dev *d)
{
    struct emx_verbs_slab *s;

    emx_verbs_events_close(d);
    if (d->cache)
        emx_regcache_close(d->cache);
    if (d->srq)
        ibv_destroy_srq(d->srq);
    if (d->cq)
        ibv_destroy_cq(d->cq);
    if (d->channel)
        ibv_destroy_comp_channel(d->channel);
    while ((s = d->slabs)) {
        d->slabs = s->next;
        verbs_dev_free_slab(s);
    }
    if (d->pd)
        ibv_dealloc_pd(d->pd);
    free(d);
}

/* ---- Buffers ---- */

static struct emx_verbs_slab *verbs_dev_new_slab(struct emx_verbs_dev *d, unsigned bufs, int *err_p)
{
    struct emx_verbs_slab *s = calloc(1, sizeof(*s));

    *err_p = ENOMEM;
    if (!s)
        return NULL;
    s->len_bytes = bufs * sizeof(struct emx_verbs_buf);
    s->memory = mmap(NULL, s->len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->memory == MAP_FAILED) {
        free(s);
        return NULL;
    }
    madvise(s->memory, s->len_bytes, MADV_DONTFORK);
    s->mr = emx_verbs_reg_mr(d->pd, s->memory, s->len_bytes, IBV_ACCESS_LOCAL_WRITE);
    if (s->mr)
        return s;
    *err_p = errno;
    verbs_dev_free_slab(s);
    return NULL;
}

int emx_verbs_dev_promise(struct emx_verbs_dev *d, unsigned bufs)
{
    struct emx_verbs_slab *s;
    struct emx_verbs_buf *b;
    unsigned missing = d->promised + bufs > d->bufs ? d->promised + bufs - d->bufs : 0;
    int err;

    if (d->conn_count >= d->conn_limit)
        return ENOSPC;
    if (missing) {
        s = verbs_dev_new_slab(d, missing, &err);
        if (!s && d->cache) { /* release the memory of cached registrations */
            emx_regcache_flush(d->cache);
            s = verbs_dev_new_slab(d, missing, &err);
        }
        if (!s)
            return err;
        s->next = d->slabs;
        d->slabs = s;
        b = s->memory;
        for (unsigned i = 0; i < missing; i++) {
            b[i].lkey = s->mr->lkey;
            emx_verbs_buf_put(d, &b[i]);
        }
        d->bufs += missing;
    }
    d->promised += bufs;
    d->conn_count++;
    return 0;
}

void emx_verbs_dev_release(struct emx_verbs_dev *d, unsigned bufs)
{
    d->promised -= bufs;
    d->conn_count--;
}

struct receive {
    struct ibv_recv_wr wr;
    struct ibv_sge sge;
};

static void verbs_dev_describe(struct receive *r, struct emx_verbs_buf *b, struct receive *next)
{
    r->sge = (struct ibv_sge){.addr = (uintptr_t)b->data, .length = EMX_VERBS_BUF_BYTES, .lkey = b->lkey};
    r->wr =
        (struct ibv_recv_wr){.wr_id = (uintptr_t)b, .next = next ? &next->wr : NULL, .sg_list = &r->sge, .num_sge = 1};
}

int emx_verbs_dev_post(struct emx_verbs_dev *d, struct ibv_qp *qp, struct emx_verbs_buf *b)
{
    struct receive r;
    struct ibv_recv_wr *bad;

    verbs_dev_describe(&r, b, NULL);
    return d->srq ? ibv_post_srq_recv(d->srq, &r.wr, &bad) : ibv_post_recv(qp, &r.wr, &bad);
}

/* The queue did not accept these. */
static void verbs_dev_not_back(struct emx_verbs_dev *d, const struct ibv_recv_wr *wr)
{
    for (; wr; wr = wr->next) {
        emx_verbs_buf_put(d, (struct emx_verbs_buf *)(uintptr_t)wr->wr_id);
        d->posted--;
    }
}

int emx_verbs_dev_post_back(struct emx_verbs_dev *d, struct emx_verbs_buf *b)
{
    struct receive r[EMX_VERBS_BATCH];
    struct ibv_recv_wr *bad;
    int err;

    d->back[d->back_count++] = b;
    if (d->back_count < EMX_VERBS_BATCH)
        return 0;
    d->back_count = 0;
    for (unsigned i = 0; i < EMX_VERBS_BATCH; i++)
        verbs_dev_describe(&r[i], d->back[i], i + 1 < EMX_VERBS_BATCH ? &r[i + 1] : NULL);
    bad = &r[0].wr;
    err = ibv_post_srq_recv(d->srq, &r[0].wr, &bad);
    if (err)
        verbs_dev_not_back(d, bad);
    return err;
}

void emx_verbs_dev_quiesce(struct emx_verbs_dev *d)
{
    struct ibv_cq *cq;
    unsigned events = 0;
    void *context;

    while (!ibv_get_cq_event(d->channel, &cq, &context))
        events++;
    if (events)
        ibv_ack_cq_events(d->cq, events);
}
