/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The verbs wire: frames over RDMA devices.
 *
 * A frame is a message on a reliable connection (verbs_conn.c), which the first frame to a peer establishes
 * (verbs_cm.c). Short frames are given to the device inline, longer ones are copied into registered buffers. Received
 * frames are used in the buffer that the device wrote. A frame that finds no connection, no credit or no room in the
 * send queue is copied into the peer's *backlog* and sent in order. Other peers are not delayed.
 *
 * The wire does not claim to be reliable, although its connections are: if one breaks, frames in flight are lost. The
 * engine keeps frames until they are acknowledged and retransmits them over a new connection. So no frame is lost or
 * delivered twice. (While the first copy is in flight, the wire drops the second.) The cost, one acknowledgement for
 * many frames, is small compared with the device's work.
 *
 * A poll reads the completion queues, in memory. Events of rdma_cm wait for sweep(). Before a sleep, arm() requests an
 * event from the completion queues and polls once more. One epoll descriptor holds all descriptors.
 */
#define _GNU_SOURCE
#include "wire/verbs/verbs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/log.h"
#include "mem/fork.h"
#include "wire/verbs/verbs_peer.h"
#include "wire/verbs/verbs_read.h"
#include "wire/way.h"

#define BACKLOG_MAX 512 /* frames to one peer: more than the engine's send window */
#define POLLED      32  /* completions taken by one poll */
#define EVENTS      16
#define EVENTS_NS   1000000 /* between two polls for events, unless one is expected */

static_assert(sizeof(struct emx_verbs_way) <= EMX_WIRE_ADDR_BYTES, "verbs address");

/* ---- Peers ---- */

struct emx_verbs_peer *emx_verbs_peer_get(struct emx_verbs_wire *w, uint32_t id)
{
    struct emx_verbs_peer **bucket = &w->peer[id % EMX_VERBS_PEER_BUCKETS], *p = *bucket;

    while (p && p->way.id != id)
        p = p->next;
    if (p)
        return p;
    p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->way.id = id;
    p->last_p = &p->first;
    emx_list_init(&p->busy);
    p->next = *bucket;
    *bucket = p;
    return p;
}

/* The peer of an address. Later connect requests use this way. NULL: out of memory. */
static struct emx_verbs_peer *verbs_peer_at(struct emx_verbs_wire *w, const struct emx_wire_addr *to)
{
    struct emx_verbs_way way;

    memcpy(&way, to, sizeof(way));
    if (!w->last || w->last->way.id != way.id)
        w->last = emx_verbs_peer_get(w, way.id);
    if (w->last)
        w->last->way = way;
    return w->last;
}

static void verbs_free_peers(struct emx_verbs_wire *w)
{
    for (unsigned i = 0; i < EMX_VERBS_PEER_BUCKETS; i++) {
        struct emx_verbs_peer *p;

        while ((p = w->peer[i])) {
            w->peer[i] = p->next;
            emx_verbs_peer_lose(w, p);
            free(p);
        }
    }
}

/* ---- The backlog ---- */

static void verbs_drop_first(struct emx_verbs_peer *p)
{
    struct emx_verbs_kept *k = p->first;

    p->first = k->next;
    p->kept--;
    free(k);
    if (p->first)
        return;
    p->last_p = &p->first;
    emx_list_del(&p->busy);
}

void emx_verbs_peer_lose(struct emx_verbs_wire *w, struct emx_verbs_peer *p)
{
    while (p->first) {
        verbs_drop_first(p);
        w->stats->wire_tx_errors++;
    }
}

void emx_verbs_peer_flush(struct emx_verbs_wire *w, struct emx_verbs_peer *p)
{
    (void)w;
    while (p->first && p->conn) {
        struct emx_verbs_kept *k = p->first;
        const struct emx_txframe f = {.head = k->data, .head_bytes = (uint16_t)k->len_bytes};

        if (!emx_verbs_conn_put(p->conn, &f, k->since_ns))
            return;
        verbs_drop_first(p);
    }
}

static bool verbs_keep(struct emx_verbs_wire *w, struct emx_verbs_peer *p, const struct emx_txframe *f)
{
    size_t len_bytes = (size_t)f->head_bytes + f->body_bytes;
    struct emx_verbs_kept *k = p->kept < BACKLOG_MAX ? malloc(sizeof(*k) + len_bytes) : NULL;

    if (!k)
        return false;
    *k = (struct emx_verbs_kept){.since_ns = w->now_ns, .len_bytes = (uint32_t)len_bytes};
    memcpy(k->data, f->head, f->head_bytes);
    if (f->body_bytes)
        memcpy(k->data + f->head_bytes, f->body, f->body_bytes);
    *p->last_p = k;
    p->last_p = &k->next;
    p->kept++;
    if (!emx_list_linked(&p->busy))
        emx_list_append(&w->busy, &p->busy);
    return true;
}

/* ---- Sending ---- */

/* Whether an earlier copy of a retransmitted frame is still in flight. Frames to a peer stay in order, so it is if any
 * frame is in flight that is as old. A second copy would be useless and take a credit. If the devices lose packets, and
 * frames wait for longer than the engine's time-out, such copies would soon fill the queue. */
static bool verbs_is_under_way(const struct emx_verbs_peer *p, uint64_t age_ns)
{
    uint64_t now = emx_verbs_now();

    if (p->conn && emx_verbs_conn_unsent(p->conn))
        return now - emx_verbs_conn_oldest_ns(p->conn) >= age_ns;
    return p->first && now - p->first->since_ns >= age_ns;
}

/* false: the frame is lost. */
static bool verbs_send_one(struct emx_verbs_wire *w, const struct emx_txframe *f)
{
    size_t len_bytes = (size_t)f->head_bytes + f->body_bytes;
    struct emx_verbs_peer *p = verbs_peer_at(w, f->to);

    if (!p || !len_bytes || len_bytes > EMX_VERBS_FRAME_BYTES)
        return false;
    if (f->age_ns && verbs_is_under_way(p, f->age_ns))
        return true;
    if (!p->first && p->conn && emx_verbs_conn_put(p->conn, f, w->now_ns))
        return true;
    if (!verbs_keep(w, p, f))
        return false;
    emx_verbs_call(w, p);
    return true;
}

static unsigned verbs_tx_room(struct emx_wire *base)
{
    (void)base;
    return EMX_WIRE_BATCH;
}

static void verbs_tx(struct emx_wire *base, const struct emx_txframe *f, unsigned n)
{
    struct emx_verbs_wire *w = (struct emx_verbs_wire *)base;

    for (unsigned i = 0; i < n; i++) {
        if (!verbs_send_one(w, &f[i]))
            w->stats->wire_tx_errors++;
    }
}

static bool verbs_unsent(const struct emx_wire *base)
{
    const struct emx_verbs_wire *w = (const struct emx_verbs_wire *)base;
    bool unsent = !emx_list_empty(&w->busy);

    emx_list_each(l, &w->conns) unsent |= emx_verbs_conn_unsent(emx_list_entry(l, struct emx_verbs_conn, link));
    return unsent;
}

/* ---- Receiving ---- */

static void verbs_arrived(struct emx_verbs_wire *w, struct emx_verbs_conn *c, struct emx_verbs_buf *b,
                          uint32_t len_bytes)
{
    b->next = NULL;
    b->conn = c;
    b->len_bytes = len_bytes;
    c->lent++;
    *w->arrived_p = b;
    w->arrived_p = &b->next;
}

static void verbs_take_message(struct emx_verbs_wire *w, struct emx_verbs_conn *c, struct emx_verbs_buf *b,
                               uint32_t len_bytes)
{
    struct emx_verbs_head h;

    if (len_bytes < sizeof(h)) {
        c->broken = EPROTO;
        emx_verbs_conn_recycle(c, b, false);
        return;
    }
    memcpy(&h, b->data, sizeof(h));
    c->credits += h.credits;
    c->may_send = c->heard = true;
    c->used_ns = *c->now_ns;
    if (c->state == EMX_VERBS_ASKED)
        emx_verbs_up(w, c);
    if (h.kind == EMX_VERBS_FRAME && len_bytes > sizeof(h)) {
        verbs_arrived(w, c, b, len_bytes - (uint32_t)sizeof(h));
        return;
    }
    if (h.kind != EMX_VERBS_CREDIT)
        c->broken = EPROTO;
    emx_verbs_conn_recycle(c, b, false);
}

/* A receive without a message, or on a connection that has ended. */
static void verbs_foreign_receive(struct emx_verbs_dev *d, struct emx_verbs_conn *c, struct emx_verbs_buf *b)
{
    if (c) {
        emx_verbs_conn_recycle(c, b, false);
        return;
    }
    if (d->srq && d->posted <= d->wanted && !emx_verbs_dev_post(d, NULL, b))
        return;
    if (d->srq)
        d->posted--;
    emx_verbs_buf_put(d, b);
}

static void verbs_take_failure(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const struct ibv_wc *wc)
{
    if (!c || c->state == EMX_VERBS_ENDING)
        return;
    if (wc->status == IBV_WC_RETRY_EXC_ERR)
        emx_verbs_write_less(c);
    emx_verbs_broke(w, c, ibv_wc_status_str(wc->status));
}

static void verbs_take_receive(struct emx_verbs_wire *w, struct emx_verbs_dev *d, struct emx_verbs_conn *c,
                               const struct ibv_wc *wc)
{
    struct emx_verbs_buf *b = (struct emx_verbs_buf *)(uintptr_t)wc->wr_id;

    if (__builtin_expect(c && wc->status == IBV_WC_SUCCESS, 1)) {
        verbs_take_message(w, c, b, wc->byte_len);
        return;
    }
    if (wc->status != IBV_WC_SUCCESS)
        verbs_take_failure(w, c, wc);
    verbs_foreign_receive(d, c, b);
}

static __attribute__((noinline)) void verbs_take_send(struct emx_verbs_wire *w, struct emx_verbs_conn *c,
                                                      const struct ibv_wc *wc)
{
    if (c && !emx_verbs_is_of(c, wc->wr_id))
        return;
    if (wc->status != IBV_WC_SUCCESS)
        verbs_take_failure(w, c, wc);
    if (c)
        emx_verbs_conn_reap(c, wc->wr_id, wc->status == IBV_WC_SUCCESS);
}

static inline void verbs_take_completion(struct emx_verbs_wire *w, struct emx_verbs_dev *d, const struct ibv_wc *wc)
{
    struct emx_verbs_conn *c = emx_verbs_conn_find(d, wc->qp_num);

    if (emx_verbs_work(wc->wr_id) == EMX_VERBS_RECEIVE)
        verbs_take_receive(w, d, c, wc);
    else
        verbs_take_send(w, c, wc);
}

static inline unsigned verbs_poll_device(struct emx_verbs_wire *w, struct emx_verbs_dev *d)
{
    struct ibv_wc wc[POLLED];
    int n = ibv_poll_cq(d->cq, POLLED, wc);

    for (int i = 0; i < n; i++)
        verbs_take_completion(w, d, &wc[i]);
    return n > 0 ? (unsigned)n : 0;
}

/* Takes all completions of the devices. Returns how many. */
static inline unsigned verbs_poll_devices(struct emx_verbs_wire *w)
{
    unsigned total = 0;

    for (unsigned i = 0; i < w->dev_count; i++)
        total += verbs_poll_device(w, w->dev[i]);
    return total;
}

void emx_verbs_drain(struct emx_verbs_wire *w)
{
    for (unsigned i = 0; i < w->dev_count; i++) {
        while (verbs_poll_device(w, w->dev[i]) == POLLED)
            ;
    }
}

static void verbs_flush_backlogs(struct emx_verbs_wire *w)
{
    emx_list_each_safe(l, next, &w->busy) emx_verbs_peer_flush(w, emx_list_entry(l, struct emx_verbs_peer, busy));
}

/* The first received frame; the list is not empty. */
static inline struct emx_verbs_buf *verbs_take_arrived(struct emx_verbs_wire *w)
{
    struct emx_verbs_buf *b = w->arrived;

    w->arrived = b->next;
    if (!w->arrived)
        w->arrived_p = &w->arrived;
    return b;
}

static unsigned verbs_take_frames(struct emx_verbs_wire *w, struct emx_rxframe *f, unsigned max)
{
    unsigned n = 0;

    for (; n < max && w->arrived; n++) {
        struct emx_verbs_buf *b = verbs_take_arrived(w);

        f[n] = (struct emx_rxframe){.data = b->data + sizeof(struct emx_verbs_head), .len_bytes = b->len_bytes};
    }
    return n;
}

/* The context of an entry in the epoll set: for asynchronous events it is the ibv_context, for completions the device.
 */
static bool verbs_is_context(const struct emx_verbs_wire *w, const void *p)
{
    for (unsigned i = 0; i < w->dev_count; i++) {
        if (w->dev[i]->context == p)
            return true;
    }
    return false;
}

/* Reads the pending events of all descriptors. */
static void verbs_look_at_fds(struct emx_verbs_wire *w)
{
    struct epoll_event ev[EVENTS];
    int n = epoll_wait(w->epoll, ev, EVENTS, 0);
    bool events = false;

    w->events_ns = w->now_ns;
    for (int i = 0; i < n; i++) {
        if (!ev[i].data.ptr)
            events = true;
        else if (verbs_is_context(w, ev[i].data.ptr))
            emx_verbs_events_read(ev[i].data.ptr);
        else
            emx_verbs_dev_quiesce(ev[i].data.ptr);
    }
    emx_verbs_calls(w, events);
}

/* The buffer of the last consumed frame is posted again, and its credit returned, only at the next poll. By then the
 * program has its message, and may have sent the reply. */
static inline void verbs_recycle_passed(struct emx_verbs_wire *w)
{
    struct emx_verbs_buf *b = w->passed;

    if (!b)
        return;
    w->passed = NULL;
    emx_verbs_conn_recycle(b->conn, b, true);
}

/* Adds all that has arrived to the list of received frames. */
static inline void verbs_look(struct emx_verbs_wire *w)
{
    if (w->armed) {
        w->armed = false;
        verbs_look_at_fds(w);
    }
    verbs_recycle_passed(w);
    if (verbs_poll_devices(w) && !emx_list_empty(&w->busy))
        verbs_flush_backlogs(w);
}

static unsigned verbs_rx(struct emx_wire *base, struct emx_rxframe *f, unsigned max)
{
    struct emx_verbs_wire *w = (struct emx_verbs_wire *)base;

    verbs_look(w);
    return verbs_take_frames(w, f, max);
}

static struct emx_wire_peek verbs_peek(struct emx_wire *base)
{
    struct emx_verbs_wire *w = (struct emx_verbs_wire *)base;

    if (!w->arrived)
        verbs_look(w);
    if (!w->arrived)
        return (struct emx_wire_peek){0};
    return (struct emx_wire_peek){w->arrived->data + sizeof(struct emx_verbs_head), w->arrived->len_bytes};
}

static void verbs_rx_return(struct emx_wire *base, const struct emx_rxframe *f, unsigned n)
{
    (void)base;
    for (unsigned i = 0; i < n; i++) {
        struct emx_verbs_buf *b =
            emx_container(f[i].data - sizeof(struct emx_verbs_head), struct emx_verbs_buf, data[0]);

        emx_verbs_conn_recycle(b->conn, b, true);
    }
}

static void verbs_consume(struct emx_wire *base)
{
    struct emx_verbs_wire *w = (struct emx_verbs_wire *)base;

    verbs_recycle_passed(w);
    w->passed = verbs_take_arrived(w);
}

static bool verbs_arm(struct emx_wire *base)
{
    struct emx_verbs_wire *w = (struct emx_verbs_wire *)base;
    unsigned found;

    for (unsigned i = 0; i < w->dev_count; i++) {
        if (ibv_req_notify_cq(w->dev[i]->cq, 0))
            return false;
    }
    verbs_recycle_passed(w);
    found = verbs_poll_devices(w);
    if (found)
        verbs_flush_backlogs(w);
    w->armed = !found && !w->arrived && emx_list_empty(&w->ended);
    return w->armed;
}

static int verbs_fd(struct emx_wire *base, unsigned i)
{
    return i ? -1 : ((struct emx_verbs_wire *)base)->epoll;
}

/* A poll for events is a system call, and sweeps may be as frequent as messages. So events are polled for only if one
 * is expected, or after EVENTS_NS. */
static bool verbs_awaits_events(const struct emx_verbs_wire *w)
{
    return !emx_list_empty(&w->busy) || !emx_list_empty(&w->ending) || w->now_ns - w->events_ns >= EVENTS_NS;
}

static void verbs_sweep(struct emx_wire *base)
{
    struct emx_verbs_wire *w = (struct emx_verbs_wire *)base;

    w->now_ns = emx_verbs_now();
    if (verbs_awaits_events(w))
        verbs_look_at_fds(w);
    for (unsigned i = 0; i < w->dev_count; i++) {
        if (w->dev[i]->cache)
            emx_regcache_sweep(w->dev[i]->cache);
    }
}

/* ---- Opening and closing ---- */

static void verbs_close(struct emx_wire *base)
{
    struct emx_verbs_wire *w = (struct emx_verbs_wire *)base;

    emx_verbs_disconnect(w);
    verbs_free_peers(w);
    if (w->channel)
        rdma_destroy_event_channel(w->channel);
    if (w->epoll >= 0)
        close(w->epoll);
    free(w);
}

static int verbs_watch(const struct emx_verbs_wire *w, int fd, void *what)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = what};
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev))
        return errno;
    return 0;
}

/* Called before any registration, so that the library keeps registered memory out of children. A child that accesses
 * other data in the same pages crashes. Without this, messages would be damaged. */
static void verbs_prepare_for_forks(void)
{
    struct utsname u;
    int err = uname(&u) || emx_fork_takes_pinned(u.release) ? ibv_fork_init() : 0;

    if (err)
        emx_log(EMX_LOG_WARN,
                "verbs: on this kernel (before 5.12) messages may be damaged if this program calls fork() or "
                "system(), and libibverbs cannot prevent it any more (%s)",
                strerror(err));
}

static int verbs_open_channel(struct emx_verbs_wire *w, char *why, size_t why_len_bytes)
{
    int err;

    verbs_prepare_for_forks();
    w->channel = rdma_create_event_channel();
    if (!w->channel) {
        snprintf(why, why_len_bytes,
                 "this host has no RDMA device, or its kernel module rdma_ucm is not loaded (modprobe rdma_ucm; "
                 "`rdma link` lists devices): %s",
                 strerror(errno));
        return ETHMX_ERR_NO_WIRE;
    }
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    err = w->epoll < 0 ? errno : verbs_watch(w, w->channel->fd, NULL);
    if (!err)
        return ETHMX_OK;
    snprintf(why, why_len_bytes, "epoll: %s", strerror(err));
    return ETHMX_ERR_NO_WIRE;
}

static int verbs_open_devices(struct emx_verbs_wire *w, const struct emx_netifs *netifs, char *why,
                              size_t why_len_bytes)
{
    int ret = emx_verbs_listen(w, netifs, why, why_len_bytes), err;

    for (unsigned i = 0; !ret && i < w->dev_count; i++) {
        err = verbs_watch(w, w->dev[i]->channel->fd, w->dev[i]);
        if (!err)
            err = verbs_watch(w, w->dev[i]->context->async_fd, w->dev[i]->context);
        if (!err)
            continue;
        snprintf(why, why_len_bytes, "epoll: %s", strerror(err));
        ret = ETHMX_ERR_NO_WIRE;
    }
    return ret;
}

static int verbs_open(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    struct emx_verbs_wire *w = calloc(1, sizeof(*w));
    int ret;

    if (!w) {
        snprintf(why, why_len_bytes, "out of memory");
        return ETHMX_ERR_NO_MEMORY;
    }
    w->base.ops = &emx_wire_verbs;
    w->stats = params->stats;
    w->cfg = params->cfg;
    w->id = params->endpoint_id;
    w->epoll = -1;
    w->arrived_p = &w->arrived;
    emx_list_init(&w->conns);
    emx_list_init(&w->ending);
    emx_list_init(&w->busy);
    emx_list_init(&w->ended);
    emx_list_init(&w->exports);
    ret = verbs_open_channel(w, why, why_len_bytes);
    if (!ret)
        ret = verbs_open_devices(w, params->netifs, why, why_len_bytes);
    if (ret)
        verbs_close(&w->base);
    else
        *w_p = &w->base;
    return ret;
}

static void verbs_query(const struct emx_wire *base, struct emx_wire_attr *attr_p)
{
    const struct emx_verbs_wire *w = (const struct emx_verbs_wire *)base;

    *attr_p = (struct emx_wire_attr){.frame_bytes = EMX_VERBS_FRAME_BYTES,
                                     .cheap_poll = true,
                                     .connected = true,
                                     .export_min_bytes = emx_verbs_export_min(w),
                                     .export_costs = emx_verbs_export_costs(w)};
}

static unsigned verbs_describe(const struct emx_wire *base, const struct emx_way_site *site, uint8_t *value,
                               unsigned *min_p)
{
    const struct emx_verbs_wire *w = (const struct emx_verbs_wire *)base;
    struct emx_verbs_address told = {.port = w->listen_port};

    for (unsigned i = 0; i < w->port_count; i++) {
        unsigned place = emx_way_told(site, &site->netifs->nif[w->port[i].nif]);

        if (w->port[i].dev && place < EMX_WIRE_IFS)
            told.fabric[place] = (uint8_t)(w->port[i].dev->fabric + 1);
    }
    *min_p = EMX_VERBS_ADDRESS_MIN;
    return emx_verbs_address_write(&told, value);
}

const struct emx_wire_ops emx_wire_verbs = {
    .name = "verbs",
    .part = EMX_VERBS_ADDRESS_PART,
    .by_ip = true,
    .help = "RDMA devices: RoCE, iWARP, InfiniBand",
    .open = verbs_open,
    .close = verbs_close,
    .query = verbs_query,
    .describe = verbs_describe,
    .ways = emx_verbs_ways,
    .tx_room = verbs_tx_room,
    .tx = verbs_tx,
    .unsent = verbs_unsent,
    .rx = verbs_rx,
    .rx_return = verbs_rx_return,
    .peek = verbs_peek,
    .consume = verbs_consume,
    .fd = verbs_fd,
    .arm = verbs_arm,
    .export = emx_verbs_export,
    .unexport = emx_verbs_unexport,
    .read_start = emx_verbs_read_start,
    .read_end = emx_verbs_read_end,
    .disconnect = emx_verbs_disconnect_key,
    .unreachable = emx_verbs_lost,
    .sweep = verbs_sweep,
};
