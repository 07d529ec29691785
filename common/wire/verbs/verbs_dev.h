/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An RDMA device as the verbs wire uses it: one completion queue, one shared receive queue if the device supports that,
 * and registered buffers for frames. verbs_dev.c explains the buffers. Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_VERBS_DEV_H
#define EMX_WIRE_VERBS_DEV_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "mem/threshold.h"
#include "mem/regcache.h"
#include "wire/verbs/verbs.h"
#include "wire/verbs/verbs_event.h"
#include "wire/wire.h"

struct emx_verbs_conn; /* verbs_conn.h */

#define EMX_VERBS_BUCKETS   64
#define EMX_VERBS_BATCH     8 /* buffers that are returned to a shared queue together */
#define EMX_VERBS_BUF_BYTES (EMX_VERBS_FRAME_BYTES + 8)

/* A registered buffer; its address is the number of the receive that it is posted for. */
struct emx_verbs_buf {
    struct emx_verbs_buf *next;
    struct emx_verbs_conn *conn; /* received: the sender's connection */
    uint32_t lkey;
    uint32_t len_bytes; /* received */
    uint8_t data[EMX_VERBS_BUF_BYTES] __attribute__((aligned(64)));
};

/* Whether a device reports that a queue pair in error takes nothing more from the shared queue. */
enum emx_verbs_tells { EMX_VERBS_TELLS_PERHAPS, EMX_VERBS_TELLS, EMX_VERBS_TELLS_NOT };

/* In the order of the words of ETHMX_REG_FAULT_IN. */
enum emx_reg_fault { EMX_REG_FAULT_AUTO, EMX_REG_FAULT_YES, EMX_REG_FAULT_NO };

struct emx_verbs_slab {
    struct emx_verbs_slab *next;
    struct ibv_mr *mr;
    void *memory;
    size_t len_bytes;
};

struct emx_verbs_dev {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_srq *srq; /* NULL: each connection has receives of its own */
    enum emx_verbs_fabric fabric;
    unsigned credits;    /* frames that a peer may have in flight to this endpoint */
    unsigned conn_limit; /* connections that the queues have room for */
    unsigned conn_count;
    unsigned sge_limit;
    unsigned inline_bytes; /* requested by connections */
    bool gone;             /* it is being removed, or has failed */
    struct emx_list events_link;
    struct emx_verbs_dev_events events;
    enum emx_verbs_tells tells; /* observed when connections ended */

    struct emx_regcache *cache;         /* of the program's memory; NULL: devices read nothing */
    struct emx_reg_threshold threshold; /* the registration threshold */
    char threshold_text[128];
    unsigned reads_max;    /* in progress on one connection */
    uint32_t read_bytes;   /* in one read */
    bool overlap;          /* register memory after its message was announced */
    unsigned write_access; /* to memory that is received into */

    struct emx_verbs_slab *slabs;
    struct emx_verbs_buf *free;
    unsigned bufs, promised;                     /* in total; of these, reserved for connections */
    unsigned posted;                             /* to the shared queue, or received from it */
    unsigned wanted;                             /* target of posted: what its connections need, plus those in back */
    struct emx_verbs_buf *back[EMX_VERBS_BATCH]; /* to be posted again; included in posted */
    unsigned back_count;
    struct emx_verbs_conn *by_qp[EMX_VERBS_BUCKETS];
};

/* Opens the device of context, with this port. On failure nothing is left behind, and why has a sentence.
 * ETHMX_ERR_NO_WIRE, ETHMX_ERR_NO_MEMORY. */
int emx_verbs_dev_open(struct emx_verbs_dev **d_p, struct ibv_context *context, uint8_t port,
                       const struct emx_config *cfg, struct emx_stats *stats, char *why, size_t why_len_bytes);
/* Closes the device. All its connections have been freed. */
void emx_verbs_dev_close(struct emx_verbs_dev *d);

/* The network of a port. false: the port is not active, or of an unknown kind; why has a sentence. */
bool emx_verbs_port_fabric(struct ibv_context *context, uint8_t port, enum emx_verbs_fabric *fabric_p, char *why,
                           size_t why_len_bytes);

/* Registers memory for another connection: reserves bufs further buffers. ENOMEM: probably the limit of locked memory;
 * ENOSPC: the queues have room for no more connections; or another errno. */
int emx_verbs_dev_promise(struct emx_verbs_dev *d, unsigned bufs);
void emx_verbs_dev_release(struct emx_verbs_dev *d, unsigned bufs);

static inline struct emx_verbs_buf *emx_verbs_buf_get(struct emx_verbs_dev *d)
{
    struct emx_verbs_buf *b = d->free;

    if (b)
        d->free = b->next;
    return b;
}

static inline void emx_verbs_buf_put(struct emx_verbs_dev *d, struct emx_verbs_buf *b)
{
    b->next = d->free;
    d->free = b;
}

/* Posts a buffer for a message: to the shared queue, or to qp if there is none. 0, or an errno: the caller keeps the
 * buffer. */
int emx_verbs_dev_post(struct emx_verbs_dev *d, struct ibv_qp *qp, struct emx_verbs_buf *b);

/* Returns a buffer to the shared queue, several together. 0, or an errno: those that were not taken are no longer
 * counted as posted. */
int emx_verbs_dev_post_back(struct emx_verbs_dev *d, struct emx_verbs_buf *b);

/* Acknowledges the completion queue's events, which make the channel readable. */
void emx_verbs_dev_quiesce(struct emx_verbs_dev *d);

#endif
