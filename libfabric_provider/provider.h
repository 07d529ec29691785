/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The libfabric provider: its objects, and what its files call of each other. Each object begins with libfabric's, so
 * that a fid is a pointer to the object.
 *
 * A domain has one lock. It is not used with FI_THREAD_DOMAIN. Callbacks of ethmx take it, so nothing calls
 * ethmx_progress() while it holds it. A completion queue has a lock of its own, which is taken last.
 */
#ifndef ETHMX_PROVIDER_H
#define ETHMX_PROVIDER_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include "ethmx.h"
#include "ethmx_multi.h"
#include "ethmx_remote.h"
#include "ethmx_rma.h"
#include "ethmx_untagged.h"

/* Values that clients of older interfaces use. Later headers of libfabric lack the names, or warn of them. */
#define PROV_SPECIFIC    (1u << 31)
#define PROV_MR_UNSPEC   0
#define PROV_MR_SCALABLE (1 << 1)

#define PROV_NAME_BYTES   ETHMX_ADDRESS_LAUNCHER /* of the name of an endpoint */
#define PROV_ADDR_FORMAT  (PROV_SPECIFIC | 0x784d)
#define PROV_PROTOCOL     (PROV_SPECIFIC | 0x784d)
#define PROV_IOV_MAX      8
#define PROV_INJECT_BYTES 16384
#define PROV_SMALL_BYTES  128  /* injected data of this length is copied into the request */
#define PROV_QUEUE_SIZE   1024 /* what clients are told; queues grow */
#define PROV_MULTI_BYTES  64   /* FI_OPT_MIN_MULTI_RECV unless set */

/* A flag of sends, beside libfabric's: success is not reported. */
#define PROV_QUIET (UINT64_C(1) << 63)

#define PROV_TAG_FORMAT UINT64_C(0xaaaaaaaaaaaaaaaa)

extern struct fi_provider prov_provider;

/* name.c: an endpoint's name is its address, with a fixed length. false: there is none, or it is none of ours. */
bool prov_name_write(const struct ethmx_ep *ep, uint8_t name[PROV_NAME_BYTES]);
bool prov_name_read(const uint8_t name[PROV_NAME_BYTES], uint8_t addr[PROV_NAME_BYTES], size_t *len_bytes_p);

/* error.c */
int prov_error(int status); /* FI_E* of a negative ethmx_status; positive */

/* info.c */
int prov_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                 struct fi_info **info_p);

/* fabric.c */
int prov_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric_p, void *context);
int prov_no_control(struct fid *fid, int command, void *arg);
int prov_no_bind(struct fid *fid, struct fid *other, uint64_t flags);
int prov_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

/* Endpoints that are moved when the client looks at a queue or a counter. Under the domain's lock. */
struct prov_watch {
    struct prov_ep **ep;
    unsigned count;
};

/* ---- Wait objects of queues and counters, wait.c ---- */

struct prov_domain;

struct prov_wait {
    enum fi_wait_obj object;
    int fd, event_fd;  /* -1: there is nothing to sleep on */
    atomic_bool armed; /* a client sleeps, or is about to */
    atomic_bool woken; /* the event is set */
};

int prov_wait_open(struct prov_wait *w, enum fi_wait_obj object); /* 0, or -FI_E* */
void prov_wait_close(struct prov_wait *w);
int prov_wait_tell(enum fi_wait_obj object, int fd, int command, void *arg); /* FI_GETWAIT, FI_GETWAITOBJ */
void prov_wait_wake(struct prov_wait *w);

/* To sleep: begin, look whether the object has something new, arm, sleep. A write in between ends the sleep. arm:
 * -FI_EAGAIN: an endpoint has something to do first. The deadline is one of prov_deadline_ms(). */
int prov_wait_begin(struct prov_wait *w);
int prov_wait_arm(struct prov_domain *d, struct prov_wait *w, struct prov_watch *watch);
void prov_wait_sleep(struct prov_wait *w, int64_t deadline_ms);

/* The object has something new. */
static inline void prov_wait_notify(struct prov_wait *w)
{
    if (__builtin_expect(atomic_load(&w->armed), 0))
        prov_wait_wake(w);
}

/* ---- Domains, domain.c ---- */

struct prov_domain {
    struct fid_domain fid;
    struct ethmx_config *cfg;
    bool threads; /* several at once */
    pthread_mutex_t lock;
    atomic_uint refs;            /* open objects */
    struct prov_watch endpoints; /* with one-sided operations, open */
    struct prov_mr *regions;
};

int prov_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain_p, void *context);

static inline void prov_lock(struct prov_domain *d)
{
    if (d->threads)
        pthread_mutex_lock(&d->lock);
}

static inline void prov_unlock(struct prov_domain *d)
{
    if (d->threads)
        pthread_mutex_unlock(&d->lock);
}

/* ---- Memory regions, mr.c ---- */

extern struct fi_ops_mr prov_mr_ops;
int prov_mr_ep_opened(struct prov_ep *ep); /* exposes all regions of its domain. 0, or -FI_E* */
void prov_mr_ep_closing(struct prov_ep *ep);

/* A key of a client may be 0, one of ethmx not. */
static inline uint64_t prov_key(uint64_t key)
{
    return key + 1;
}

/* eq.c */
int prov_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq_p, void *context);
int prov_eq_trywait(struct fid_eq *fid); /* as prov_cq_trywait() */

/* ---- Completion queues, cq.c ---- */

struct prov_event {
    struct fi_cq_tagged_entry entry;
    fi_addr_t source;
    size_t missing_bytes; /* of an error: what did not fit */
    int status;           /* of ethmx, not 0: an error */
    int err;              /* FI_E* */
};

struct prov_cq {
    struct fid_cq fid;
    struct prov_domain *domain;
    enum fi_cq_format format;
    struct prov_wait wait;
    struct prov_watch watch;
    pthread_mutex_t lock;
    struct prov_event *ring;
    size_t head, count, size; /* size: a power of two */
    bool overrun;             /* a completion was lost: there was no memory for it */
    atomic_bool signaled;
    atomic_uint refs;
};

int prov_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq_p, void *context);
void prov_cq_write(struct prov_cq *cq, const struct prov_event *ev);
bool prov_cq_empty(struct prov_cq *cq);
int prov_cq_trywait(struct prov_cq *cq); /* 0: the client may sleep; or -FI_E* */

/* ---- Counters, cntr.c ---- */

struct prov_cntr {
    struct fid_cntr fid;
    struct prov_domain *domain;
    struct prov_wait wait;
    struct prov_watch watch;
    atomic_uint_fast64_t value, errors;
    atomic_uint_fast64_t seen; /* their sum when the client last read one of them */
    atomic_uint refs;
};

int prov_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr_p, void *context);
int prov_cntr_trywait(struct prov_cntr *cntr); /* as prov_cq_trywait() */

static inline void prov_cntr_count(struct prov_cntr *cntr, bool failed)
{
    if (!cntr)
        return;
    atomic_fetch_add(failed ? &cntr->errors : &cntr->value, 1);
    prov_wait_notify(&cntr->wait);
}

/* poll.c */
int prov_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **poll_p);

/* ---- Progress, watch.c ---- */

int prov_watch_add(struct prov_domain *d, struct prov_watch *w, struct prov_ep *ep); /* 0, or -FI_ENOMEM */
void prov_watch_remove(struct prov_domain *d, struct prov_watch *w, struct prov_ep *ep);
void prov_watch_progress(struct prov_domain *d, struct prov_watch *w);
/* The endpoint *i_p of them, of those that are open; NULL: there are no more. */
struct ethmx_ep *prov_watch_next(struct prov_domain *d, struct prov_watch *w, unsigned *i_p);
int64_t prov_now_ms(void);
/* When a wait of timeout_ms (negative: for ever) that begins now is over. */
int64_t prov_deadline_ms(int timeout_ms);

/* ---- Address vectors, av.c ---- */

struct prov_av {
    struct fid_av fid;
    struct prov_domain *domain;
    struct prov_av_entry {
        uint8_t name[PROV_NAME_BYTES];
        bool used;
    } * entry; /* by fi_addr_t */
    size_t count, room;
    struct prov_watch endpoints; /* bound */
    atomic_uint refs;
};

int prov_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av_p, void *context);
int prov_av_teach(struct prov_av *av, struct prov_ep *ep); /* all entries, to an endpoint that was opened. Locked */

/* ---- Endpoints, ep.c ---- */

enum prov_cntr_kind { PROV_CNTR_SEND, PROV_CNTR_RECV, PROV_CNTR_READ, PROV_CNTR_WRITE, PROV_CNTRS };

struct prov_ep {
    struct fid_ep fid;
    struct prov_domain *domain;
    struct prov_av *av;
    struct prov_cq *send_cq, *recv_cq;
    bool send_selective, recv_selective; /* only operations with FI_COMPLETION are reported */
    struct prov_cntr *cntr[PROV_CNTRS];
    uint64_t caps, send_flags, recv_flags; /* flags: of calls that have none */
    size_t multi_bytes;                    /* FI_OPT_MIN_MULTI_RECV */
    struct ethmx_ep *ep;                   /* NULL: not opened yet */
    bool enabled;
    struct ethmx_peer **peer; /* by fi_addr_t */
    size_t peer_room;
    struct prov_slab *slabs;
    struct prov_req *free;
    struct prov_req *posted;   /* receives, for cancel */
    struct prov_claim *claims; /* messages taken by FI_CLAIM */
};

int prov_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep_p, void *context);
int prov_ep_learn(struct prov_ep *ep, fi_addr_t addr, const uint8_t name[PROV_NAME_BYTES]); /* locked. 0, or -FI_E* */
/* Who that is; FI_ADDR_NOTAVAIL: nobody that the address vector has. Locked. */
fi_addr_t prov_ep_source(const struct prov_ep *ep, const struct ethmx_peer *peer);

int prov_ep_getname(fid_t fid, void *name, size_t *len_bytes_p);

extern struct fi_ops_cm prov_cm_ops;         /* none.c */
extern struct fi_ops_msg prov_msg_ops;       /* msg.c */
extern struct fi_ops_tagged prov_tagged_ops; /* tagged.c */
extern struct fi_ops_rma prov_rma_ops;       /* rma.c */
extern struct fi_ops_atomic prov_atomic_ops; /* atomic.c */

/* ---- Operations under way, req.c ---- */

struct prov_req {
    struct prov_req *next, *prev; /* free, or posted */
    struct prov_ep *ep;
    void *context;
    struct ethmx_req *req;      /* receives, once posted */
    struct ethmx_remote remote; /* receives of claimed messages */
    struct ethmx_data data;     /* the data points to iov, copy or small */
    struct ethmx_iov iov[PROV_IOV_MAX];
    uint64_t flags, tag; /* of the completion */
    bool reports;        /* success is reported, too */
    bool posted;         /* in the endpoint's list */
    bool claimed;
    bool discarded; /* claimed, and its data is not wanted */
    uint8_t *copy;  /* of injected data, if it is not small; owned */
    uint8_t small[PROV_SMALL_BYTES];
    uint8_t cntr; /* enum prov_cntr_kind; not of receives */
    /* writes with remote data: whom to tell, and what */
    bool tells;
    struct ethmx_peer *to;
    uint64_t told[2];
};

struct prov_req *prov_req_get(struct prov_ep *ep); /* locked; NULL: no memory */
void prov_req_put(struct prov_req *r);             /* locked */
void prov_req_post(struct prov_req *r);            /* locked: into the list for cancel */
void prov_req_describe(struct prov_req *r, const struct iovec *iov, size_t count);
void prov_req_free_all(struct prov_ep *ep);

/* ---- Sends and receives, send.c, recv.c, peek.c ---- */

struct prov_send {
    const struct iovec *iov;
    size_t count;
    fi_addr_t to;
    bool tagged;
    uint64_t tag;  /* if tagged */
    uint64_t data; /* with FI_REMOTE_CQ_DATA */
    uint64_t flags;
    void *context;
};

struct prov_recv {
    const struct iovec *iov;
    size_t count;
    fi_addr_t from;
    bool tagged;
    uint64_t tag, ignore; /* if tagged */
    uint64_t flags;
    void *context;
};

struct prov_claim {
    struct prov_claim *next;
    void *context;
    struct ethmx_message *msg;
    struct ethmx_remote remote;
};

ssize_t prov_send(struct fid_ep *ep, const struct prov_send *s);
/* For sends and one-sided operations. 0, and *r_p and *peer_p are set; or -FI_E*. flags: of the completion. */
ssize_t prov_send_prepare(struct prov_ep *ep, const struct prov_send *s, uint64_t flags, struct prov_req **r_p,
                          struct ethmx_peer **peer_p);
/* What the call of ethmx has returned, as the client's call returns it. */
ssize_t prov_send_started(struct prov_req *r, int status);
void prov_send_done(void *arg, const struct ethmx_result *result);

int prov_rma_listen(struct prov_ep *ep); /* rma.c: to remote data of writes. A status of ethmx */
/* atomic.c */
int prov_atomic_query(struct fid_domain *domain, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr,
                      uint64_t flags);
ssize_t prov_recv(struct fid_ep *ep, const struct prov_recv *r);
ssize_t prov_peek(struct prov_ep *ep, const struct prov_recv *r);
ssize_t prov_claimed(struct prov_ep *ep, const struct prov_recv *r); /* FI_CLAIM without FI_PEEK */
ssize_t prov_cancel(fid_t fid, void *context);
void prov_recv_done(void *arg, const struct ethmx_result *result);
bool prov_recv_peer(struct prov_ep *ep, const struct prov_recv *r, struct ethmx_peer **peer_p); /* locked */
uint64_t prov_recv_flags(const struct prov_recv *r);                                            /* of its completion */

#endif
