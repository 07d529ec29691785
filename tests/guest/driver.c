/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../unit/unit.h"

#define HELD_MAX    4096
#define EVENTS_MAX  64
#define QPS_MAX     32
#define TELLS_AFTER 40 /* polls */

struct held {
    struct ibv_cq *cq;
    struct ibv_wc wc;
};

/* A queue pair in error, which has not told yet. */
struct failed {
    struct ibv_qp *qp;
    unsigned polls_left;
};

/* An event that waits. */
struct event {
    struct ibv_context *context;
    struct ibv_qp *qp; /* NULL: of none */
    struct ibv_async_event ev;
};

struct driver driver;

static struct held held[HELD_MAX];
static unsigned held_count;
static struct event event[EVENTS_MAX];
static unsigned event_count;
static struct failed failed[QPS_MAX];
static unsigned failed_count;
static bool ours; /* the event that was read last */
static int (*device_poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc);

/* librdmacm calls them, too. */
#define EXPORTED   __attribute__((visibility("default")))
#define NEXT(name) ((__typeof__(&(name)))next_function(#name))

static void *next_function(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);

    assert_non_null(f);
    return f;
}

void driver_reset(void)
{
    if (driver.event_fd > 0)
        close(driver.event_fd);
    driver = (struct driver){.refuses_vector = -1, .event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    assert_true(driver.event_fd > 0);
    held_count = event_count = failed_count = 0;
}

/* ---- Events ---- */

static void add_event(struct event e)
{
    const uint64_t one = 1;

    assert_true(event_count < EVENTS_MAX);
    event[event_count++] = e;
    assert_int_equal(write(driver.event_fd, &one, sizeof(one)), sizeof(one));
}

static void remove_event(unsigned i)
{
    uint64_t n;

    memmove(event + i, event + i + 1, (--event_count - i) * sizeof(event[0]));
    if (!event_count)
        assert_int_equal(read(driver.event_fd, &n, sizeof(n)), sizeof(n));
}

void driver_qp_event(enum ibv_event_type type, struct ibv_qp *qp)
{
    struct event e = {.context = qp->context, .qp = qp, .ev.event_type = type};

    e.ev.element.qp = qp;
    add_event(e);
}

void driver_event(enum ibv_event_type type, struct ibv_context *context, int port)
{
    struct event e = {.context = context, .ev.event_type = type};

    e.ev.element.port_num = port;
    add_event(e);
}

static bool get_own_event(const struct ibv_context *context, struct ibv_async_event *ev)
{
    for (unsigned i = 0; i < event_count; i++) {
        if (event[i].context != context)
            continue;
        *ev = event[i].ev;
        remove_event(i);
        return true;
    }
    return false;
}

EXPORTED int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *ev)
{
    int rc;

    assert_int_equal(driver.events, driver.acks); /* that before has been acknowledged */
    ours = get_own_event(context, ev);
    rc = ours ? 0 : NEXT(ibv_get_async_event)(context, ev);
    if (rc)
        return rc;
    driver.events++;
    driver.types |= 1u << ev->event_type;
    return 0;
}

EXPORTED void ibv_ack_async_event(struct ibv_async_event *ev)
{
    driver.acks++;
    if (!ours)
        NEXT(ibv_ack_async_event)(ev);
}

/* ---- Completions ---- */

static bool is_kept_back(const struct ibv_wc *wc)
{
    for (unsigned i = 0; i < failed_count; i++) {
        if (failed[i].qp->qp_num == wc->qp_num && wc->status == IBV_WC_WR_FLUSH_ERR)
            return true;
    }
    return false;
}

static void let_tell(void)
{
    for (unsigned i = failed_count; i-- > 0;) {
        if (--failed[i].polls_left)
            continue;
        driver_qp_event(IBV_EVENT_QP_LAST_WQE_REACHED, failed[i].qp);
        failed[i] = failed[--failed_count];
    }
}

unsigned driver_fetch(struct ibv_cq *cq)
{
    struct ibv_wc wc;

    while (device_poll(cq, 1, &wc) == 1) {
        assert_true(held_count < HELD_MAX);
        held[held_count++] = (struct held){cq, wc};
    }
    return held_count;
}

static int poll_held(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    unsigned kept = 0;
    int taken = 0;

    driver_fetch(cq);
    for (unsigned i = 0; i < held_count; i++) {
        if (taken < n && held[i].cq == cq && !is_kept_back(&held[i].wc))
            wc[taken++] = held[i].wc;
        else
            held[kept++] = held[i];
    }
    held_count = kept;
    let_tell();
    return taken;
}

static void clean(const struct ibv_qp *qp)
{
    unsigned kept = 0;

    driver_fetch(qp->recv_cq);
    for (unsigned i = 0; i < held_count; i++) {
        if (held[i].cq == qp->recv_cq && held[i].wc.qp_num == qp->qp_num)
            driver.dropped += (held[i].wc.wr_id & 3) == 0;
        else
            held[kept++] = held[i];
    }
    held_count = kept;
}

EXPORTED struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                      struct ibv_comp_channel *channel, int vector)
{
    driver.vector = vector;
    if (vector == driver.refuses_vector) {
        errno = EINVAL;
        return NULL;
    }
    if ((driver.cleans || driver.tells) && context->ops.poll_cq != poll_held) {
        device_poll = context->ops.poll_cq;
        context->ops.poll_cq = poll_held;
    }
    return NEXT(ibv_create_cq)(context, cqe, cq_context, channel, vector);
}

/* ---- Queue pairs ---- */

static void forget_failed(const struct ibv_qp *qp)
{
    for (unsigned i = failed_count; i-- > 0;) {
        if (failed[i].qp == qp)
            failed[i] = failed[--failed_count];
    }
}

static void note_failed(struct ibv_qp *qp)
{
    forget_failed(qp);
    assert_true(failed_count < QPS_MAX);
    failed[failed_count++] = (struct failed){qp, TELLS_AFTER};
}

EXPORTED int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    enum ibv_qp_state before = qp->state;
    int rc = NEXT(ibv_modify_qp)(qp, attr, mask);

    if (rc || !(mask & IBV_QP_STATE))
        return rc;
    if (driver.tells && attr->qp_state == IBV_QPS_ERR && before != IBV_QPS_ERR && qp->srq)
        note_failed(qp);
    if (attr->qp_state != IBV_QPS_RESET)
        return 0;
    forget_failed(qp);
    if (driver.cleans)
        clean(qp);
    return 0;
}

EXPORTED void rdma_destroy_qp(struct rdma_cm_id *id)
{
    forget_failed(id->qp);
    for (unsigned i = event_count; i-- > 0;) {
        if (event[i].qp == id->qp)
            remove_event(i);
    }
    if (driver.cleans)
        clean(id->qp);
    NEXT(rdma_destroy_qp)(id);
}

/* ---- Memory ---- */

EXPORTED struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                         unsigned int access)
{
    bool relaxed = access & IBV_ACCESS_RELAXED_ORDERING;

    if (pd == driver.full || (relaxed && driver.refuses_relaxed)) {
        errno = pd == driver.full ? ENOMEM : EOPNOTSUPP;
        return NULL;
    }
    driver.relaxed += relaxed;
    driver.strict += !relaxed;
    return NEXT(ibv_reg_mr_iova2)(pd, addr, length, iova, access);
}
