/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The xdp wire: frames of a separate EtherType through AF_XDP sockets, bypassing the network stack at both ends.
 *
 * Receiving. A program in the driver (xdp_prog.c) redirects the frames of this endpoint to its socket. The kernel puts
 * them into chunks of shared memory and their descriptors into a ring. rx() reads the ring and makes no system call.
 * Chunks are returned to the kernel several at a time: when there are many, or when rx() finds nothing. A frame longer
 * than a chunk arrives in several chunks and is joined here.
 *
 * Sending. The frame is written into a chunk and its descriptor into the ring. One system call for a batch makes the
 * kernel process the ring. A kernel that copies sends inside that call; a driver with zero copy may send later.
 *
 * Data frames of large messages are sent and received as GSO packets through the network stack: see offload.c. With
 * AF_XDP the kernel handles each frame as a separate packet, which costs far more. If a card accesses the chunks itself
 * (zero copy), there are no GSO packets.
 *
 * All endpoints of this host share the memory and two of the rings: see xdp_group.c. They use another wire between each
 * other.
 */
#define _GNU_SOURCE
#include "wire/xdp/xdp.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/min.h"
#include "wire/backlog.h"
#include "wire/offload.h"
#include "wire/tso.h"
#include "wire/netif.h"
#include "wire/xdp/xdp_choice.h"
#include "wire/xdp/xdp_group.h"
#include "wire/xdp/xdp_kick.h"

#define PORTS_MAX   4
#define REFILL      32 /* received chunks that are returned together */
#define SERVE_EVERY 16 /* sweeps between two checks for endpoints that want to join */

/* One interface. */
struct xdp_port {
    struct emx_xdp_group *group;
    unsigned ifindex, frame_bytes, netif;
    uint8_t mac[ETH_ALEN];
    unsigned tries;        /* calls in a row that did not make the kernel send */
    bool stuck;            /* the kernel does not send, such as without carrier: further frames are lost */
    uint64_t passed, lost; /* counted so far */
    bool flooded;          /* a burst has arrived: frames may have been lost */
};

struct xdp_wire {
    struct emx_wire base;
    struct emx_stats *stats;
    uint16_t ethertype; /* network order */
    unsigned frame_bytes;
    bool busy_poll;
    bool armed; /* epoll_fd watches the sockets */
    struct xdp_port port[PORTS_MAX];
    unsigned port_count, last_port, sweeps, lent;
    int epoll_fd;
    uint8_t *joined; /* frames joined from several chunks: memory for all that rx() returns */
    unsigned joined_count;
    struct xsk_ring_cons *peeked; /* where xdp_peek() saw a frame */
    struct emx_offload *offload;  /* NULL: no GSO packets */
    bool no_joining;              /* the kernel or an interface refused GSO packets */
    bool offload_waits;           /* rx() reads GSO packets first: it has left some */
};

/* ---- Opening ---- */

/* op: EPOLL_CTL_ADD or EPOLL_CTL_DEL */
static int xdp_watch(const struct xdp_wire *w, int op, int fd)
{
    struct epoll_event e = {.events = EPOLLIN};

    return epoll_ctl(w->epoll_fd, op, fd, &e);
}

/* The sockets are in the epoll set only during a sleep, because the kernel would signal each frame. */
static bool xdp_watch_sockets(struct xdp_wire *w, int op)
{
    bool all = true;

    for (unsigned i = 0; i < w->port_count; i++)
        for (unsigned q = 0; q < w->port[i].group->queue_count; q++)
            all = !xdp_watch(w, op, w->port[i].group->queue[q].sock_fd) && all;
    w->armed = op == EPOLL_CTL_ADD;
    return all;
}

/* Adds interface i of the host. */
static int xdp_add_port(struct xdp_wire *w, const struct emx_wire_params *params, unsigned i, char *why,
                        size_t why_len_bytes)
{
    const struct emx_netif *nif = &params->netifs->nif[i];
    struct xdp_port *p = &w->port[w->port_count];
    struct emx_xdp_want want = {.ifname = nif->name,
                                .kind = nif->kind,
                                .ifindex = nif->index,
                                .mtu_bytes = nif->mtu_bytes,
                                .id = params->endpoint_id,
                                .cfg = params->cfg};
    int status;

    if (params->cfg->p_mtu)
        want.mtu_bytes = emx_min_u(want.mtu_bytes, (unsigned)params->cfg->p_mtu);
    status = emx_xdp_group_join(&p->group, &want, why, why_len_bytes);
    if (status)
        return status;
    p->ifindex = nif->index;
    p->netif = i;
    w->busy_poll |= p->group->busy_polls;
    p->frame_bytes = emx_min_u(want.mtu_bytes, emx_xdp_group_frame_bytes(p->group));
    memcpy(p->mac, nif->mac, ETH_ALEN);
    if (p->frame_bytes > w->frame_bytes)
        w->frame_bytes = p->frame_bytes;
    w->port_count++;
    return xdp_watch(w, EPOLL_CTL_ADD, emx_xdp_group_serve_fd(p->group)) ? ETHMX_ERR_NO_MEMORY : ETHMX_OK;
}

/* Adds every available interface that xdp supports. why: the result for each. */
static int xdp_add_ports(struct xdp_wire *w, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    const struct emx_netifs *n = params->netifs;
    int status = ETHMX_ERR_NO_WIRE;

    snprintf(why, why_len_bytes,
             "no interface chosen that carries Ethernet frames to other hosts: name one in ETHMX_IF");
    for (unsigned i = 0, said = 0; i < n->count && w->port_count < PORTS_MAX; i++) {
        if (!emx_xdp_takes(&n->nif[i], params->cfg->p_if[0]))
            continue;
        if (said + 2 < why_len_bytes) {
            said += (unsigned)snprintf(why + said, why_len_bytes - said, "%s", said ? "; " : "");
            status = xdp_add_port(w, params, i, why + said, why_len_bytes - said);
            said = (unsigned)strlen(why);
        }
    }
    return w->port_count ? ETHMX_OK : status;
}

static void xdp_close(struct emx_wire *base)
{
    struct xdp_wire *w = (struct xdp_wire *)base;

    emx_offload_close(w->offload);
    for (unsigned i = 0; i < w->port_count; i++)
        emx_xdp_group_leave(w->port[i].group);
    if (w->epoll_fd >= 0)
        close(w->epoll_fd);
    free(w->joined);
    free(w);
}

static void xdp_open_offload(struct xdp_wire *w, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    size_t said = strlen(why);

    for (unsigned i = 0; i < w->port_count; i++)
        if (!w->port[i].group->copies)
            return;
    if (said + 2 < why_len_bytes)
        said += (size_t)snprintf(why + said, why_len_bytes - said, ", ");
    w->offload = emx_offload_open(params, why + said, why_len_bytes - said);
}

static int xdp_open(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    struct xdp_wire *w = calloc(1, sizeof(*w));
    int status;

    if (!w) {
        snprintf(why, why_len_bytes, "out of memory");
        return ETHMX_ERR_NO_MEMORY;
    }
    w->base.ops = &emx_wire_xdp;
    w->stats = params->stats;
    w->ethertype = htons((uint16_t)params->cfg->p_xdp_ethertype);
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    status = xdp_add_ports(w, params, why, why_len_bytes);
    if (!status) {
        w->joined = malloc((size_t)EMX_WIRE_BATCH * w->frame_bytes);
        status = w->joined ? ETHMX_OK : ETHMX_ERR_NO_MEMORY;
    }
    if (status) {
        xdp_close(&w->base);
        return status;
    }
    xdp_open_offload(w, params, why, why_len_bytes);
    *w_p = &w->base;
    return ETHMX_OK;
}

static void xdp_query(const struct emx_wire *base, struct emx_wire_attr *attr_p)
{
    const struct xdp_wire *w = (const struct xdp_wire *)base;

    *attr_p = (struct emx_wire_attr){.frame_bytes = w->frame_bytes, .cheap_poll = !w->busy_poll};
}

static unsigned xdp_describe(const struct emx_wire *base, const struct emx_way_site *site, uint8_t *value,
                             unsigned *min_p)
{
    const struct xdp_wire *w = (const struct xdp_wire *)base;
    struct emx_xdp_part part = {
        .ethernet = {.frame_bytes = (uint16_t)emx_min_u(w->frame_bytes, UINT16_MAX), .ethertype = ntohs(w->ethertype)}};

    emx_ethernet_part_offload(&part.ethernet, w->offload);
    for (unsigned i = 0; i < w->port_count; i++)
        emx_xdp_part_listen(&part, site, &site->netifs->nif[w->port[i].netif]);
    *min_p = EMX_XDP_PART_MIN;
    return emx_xdp_part_write(&part, value);
}

/* ---- Sending ---- */

static unsigned xdp_chunks_of(const struct xdp_port *p)
{
    return (p->frame_bytes + ETH_HLEN + p->group->chunk_bytes - 1) / p->group->chunk_bytes;
}

static uint8_t *xdp_busy_flag(const struct emx_xdp_group *g, const struct xdp_desc *d)
{
    return &g->tx_busy[(d->addr - g->tx_base) / g->chunk_bytes];
}

/* Collects sent chunks until they suffice for n frames, or there are no more. Returns for how many they suffice. */
static unsigned xdp_free_chunks(struct xdp_port *p, unsigned n)
{
    struct emx_xdp_group *g = p->group;
    unsigned each = xdp_chunks_of(p);

    if (g->free_tx_count < n * each) {
        emx_xdp_group_reap(g);
        for (uint32_t c = 0; c < EMX_XDP_TX; c++) {
            if (__atomic_load_n(&g->tx_busy[c], __ATOMIC_ACQUIRE) != EMX_XDP_FREE)
                continue;
            g->tx_busy[c] = EMX_XDP_LISTED;
            g->free_tx[g->free_tx_count++] = c;
        }
    }
    return g->free_tx_count / each;
}

static bool xdp_is_sent(const struct xsk_ring_prod *tx)
{
    return __atomic_load_n(tx->consumer, __ATOMIC_ACQUIRE) == *tx->producer;
}

static bool xdp_is_stuck(const struct xdp_port *p)
{
    return p->stuck && !xdp_is_sent(&p->group->queue[0].tx);
}

static int xdp_wake(int fd)
{
    return sendto(fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 ? -1 : 0;
}

/* How many frames are in the ring, as far as it shows. */
static unsigned xdp_unsent(const struct xdp_port *p)
{
    struct xsk_ring_prod *tx = &p->group->queue[0].tx;
    unsigned n = 0;

    for (uint32_t at = __atomic_load_n(tx->consumer, __ATOMIC_ACQUIRE); at != *tx->producer; at++)
        n += !(xsk_ring_prod__tx_desc(tx, at)->options & XDP_PKT_CONTD);
    return n;
}

/* Makes the kernel send. What it has no room for stays in the ring. If it does not send at all the frames count as
 * lost, but stay there, too: it may have read further than the ring shows, so nothing can be taken back. Returns how
 * many frames were lost. */
static unsigned xdp_kick(struct xdp_port *p)
{
    struct emx_xdp_queue *queue = &p->group->queue[0];
    const struct emx_xdp_kick k = {.producer = queue->tx.producer,
                                   .consumer = queue->tx.consumer,
                                   .flags = queue->tx.flags,
                                   .wake = xdp_wake,
                                   .fd = queue->sock_fd,
                                   .tries = &p->tries};
    bool was_stuck = xdp_is_stuck(p);
    unsigned lost = emx_xdp_kick(&k, &p->stuck);

    return p->stuck && !was_stuck ? lost + xdp_unsent(p) : lost;
}

static unsigned xdp_tx_room(struct emx_wire *base)
{
    struct xdp_wire *w = (struct xdp_wire *)base;
    unsigned room = EMX_WIRE_BATCH;

    for (unsigned i = 0; i < w->port_count; i++) {
        struct xdp_port *p = &w->port[i];

        if (!xdp_is_sent(&p->group->queue[0].tx) && p->group->copies) {
            w->stats->wire_tx_errors += xdp_kick(p);
            if (!xdp_is_sent(&p->group->queue[0].tx) && !p->stuck)
                return 0;
        }
        if (!xdp_is_stuck(p))
            room = emx_min_u(room, xdp_free_chunks(p, EMX_WIRE_BATCH));
    }
    return room;
}

static struct xdp_port *xdp_port_to(struct xdp_wire *w, unsigned ifindex)
{
    if (w->port[w->last_port].ifindex == ifindex)
        return &w->port[w->last_port];
    for (unsigned i = 0; i < w->port_count; i++)
        if (w->port[i].ifindex == ifindex) {
            w->last_port = i;
            return &w->port[i];
        }
    return NULL;
}

/* Where the next bytes of a frame are written. */
struct writer {
    struct emx_xdp_group *g;
    uint8_t *to;
    unsigned left; /* in the current chunk */
    struct xdp_desc *desc;
};

/* Selects a chunk for sending: the last one if it has been sent, because it is still in the processor's cache. */
static uint32_t xdp_pick_chunk(struct emx_xdp_group *g)
{
    uint8_t *busy = &g->tx_busy[g->last_tx];

    if (__atomic_load_n(busy, __ATOMIC_ACQUIRE) == EMX_XDP_FREE)
        *busy = EMX_XDP_LISTED;
    else
        g->last_tx = g->free_tx[--g->free_tx_count];
    return g->last_tx;
}

static void xdp_next_chunk(struct writer *out)
{
    struct emx_xdp_group *g = out->g;
    struct xsk_ring_prod *tx = &g->queue[0].tx;
    uint32_t c = xdp_pick_chunk(g);

    if (out->desc)
        out->desc->options = XDP_PKT_CONTD;
    out->desc = xsk_ring_prod__tx_desc(tx, tx->cached_prod++);
    *out->desc = (struct xdp_desc){.addr = g->tx_base + (uint64_t)c * g->chunk_bytes};
    out->to = g->umem + out->desc->addr;
    out->left = g->chunk_bytes;
}

static void xdp_write_bytes(struct writer *out, const void *from, unsigned n)
{
    while (n) {
        unsigned part;

        if (!out->left)
            xdp_next_chunk(out);
        part = emx_min_u(n, out->left);
        memcpy(out->to, from, part);
        out->to += part;
        out->left -= part;
        out->desc->len += part;
        from = (const uint8_t *)from + part;
        n -= part;
    }
}

static void xdp_write_frame(struct xdp_wire *w, struct xdp_port *p, const struct emx_offload_to *to,
                            const struct emx_txframe *f)
{
    struct writer out = {.g = p->group};
    uint8_t eth[ETH_HLEN];

    memcpy(eth, to->mac, ETH_ALEN);
    memcpy(eth + ETH_ALEN, p->mac, ETH_ALEN);
    memcpy(eth + 2 * ETH_ALEN, &w->ethertype, sizeof(w->ethertype));
    xdp_write_bytes(&out, eth, ETH_HLEN);
    xdp_write_bytes(&out, f->head, f->head_bytes);
    xdp_write_bytes(&out, f->body, f->body_bytes);
}

/* Makes the written descriptors visible to the kernel, on every interface. */
static void xdp_send_written(struct xdp_wire *w)
{
    for (unsigned i = 0; i < w->port_count; i++) {
        struct xsk_ring_prod *tx = &w->port[i].group->queue[0].tx;

        if (tx->cached_prod == *tx->producer)
            continue;
        for (uint32_t at = *tx->producer; at != tx->cached_prod; at++)
            *xdp_busy_flag(w->port[i].group, xsk_ring_prod__tx_desc(tx, at)) = EMX_XDP_SENT;
        __atomic_store_n(tx->producer, tx->cached_prod, __ATOMIC_RELEASE);
        w->stats->wire_tx_errors += xdp_kick(&w->port[i]);
    }
}

static void xdp_write_frames(struct xdp_wire *w, const struct emx_txframe *f, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct emx_offload_to to = emx_offload_to(f[i].to);
        struct xdp_port *p = xdp_port_to(w, to.ifindex);

        if (p && !xdp_is_stuck(p) && (unsigned)f[i].head_bytes + f[i].body_bytes <= p->frame_bytes &&
            xdp_free_chunks(p, 1))
            xdp_write_frame(w, p, &to, &f[i]);
        else
            w->stats->wire_tx_errors++;
    }
}

/* If the kernel refuses the GSO packet, sends frame by frame. */
static void xdp_send_joined(struct xdp_wire *w, const struct emx_txframe *f, unsigned n)
{
    const struct xdp_port *p = xdp_port_to(w, emx_offload_to(f->to).ifindex);
    int err = p ? emx_offload_send(w->offload, p->mac, f, n) : ENODEV;
    struct emx_tso_split split;

    if (!err)
        w->stats->gso_packets_sent += n > 1 || emx_txframe_chunks(f) > 1;
    else if (f->chunk_bytes)
        xdp_write_frames(w, split.f, emx_tso_split(&split, f));
    else
        xdp_write_frames(w, f, n);
    w->no_joining |= (err == EINVAL || err == EOPNOTSUPP || err == EMSGSIZE) && !f->chunk_bytes;
}

static void xdp_tx(struct emx_wire *base, const struct emx_txframe *f, unsigned n)
{
    struct xdp_wire *w = (struct xdp_wire *)base;

    for (unsigned i = 0, joined; i < n; i += joined) {
        joined = w->offload && (!w->no_joining || f[i].chunk_bytes) ? emx_offload_joinable(&f[i], n - i) : 0;
        if (joined)
            xdp_send_joined(w, &f[i], joined);
        else
            xdp_write_frames(w, &f[i], joined = 1);
    }
    xdp_send_written(w);
}

/* ---- Receiving ---- */

/* Joins a frame of several chunks, whose descriptors begin at the next of the ring. Returns how many frames this made:
 * 0 if the frame is too long. */
static unsigned xdp_join(struct xdp_wire *w, const struct emx_xdp_group *g, struct xsk_ring_cons *rx,
                         struct emx_rxframe *f)
{
    uint8_t *to = w->joined + (size_t)w->joined_count * w->frame_bytes;
    const struct xdp_desc *d;
    unsigned skip = ETH_HLEN, n = 0, len = 0;

    do {
        d = xsk_ring_cons__rx_desc(rx, rx->cached_cons + n++);
        if (len + d->len - skip <= w->frame_bytes)
            memcpy(to + len, g->umem + d->addr + skip, d->len - skip);
        len += d->len - skip;
        skip = 0;
    } while (d->options & XDP_PKT_CONTD);
    rx->cached_cons += n;
    if (len > w->frame_bytes) {
        w->stats->wire_lost++;
        return false;
    }
    w->joined_count++;
    *f = (struct emx_rxframe){.data = to, .len_bytes = len};
    return true;
}

/* Counts frames that the kernel dropped. */
static void xdp_count_lost(struct xdp_wire *w, struct xdp_port *p)
{
    uint64_t lost = 0;

    p->flooded = false;
    for (unsigned q = 0; q < p->group->queue_count; q++) {
        struct xdp_statistics s = {0};
        socklen_t len = sizeof(s);

        if (!getsockopt(p->group->queue[q].sock_fd, SOL_XDP, XDP_STATISTICS, &s, &len))
            lost += s.rx_dropped + s.rx_ring_full;
    }
    w->stats->wire_lost += lost - p->lost;
    p->lost = lost;
}

static unsigned xdp_take_q(struct xdp_wire *w, struct emx_xdp_group *g, unsigned q, struct emx_rxframe *f, unsigned max)
{
    struct xsk_ring_cons *rx = &g->queue[q].rx;
    unsigned n = 0;

    while (n < max && xsk_cons_nb_avail(rx, 1)) {
        const struct xdp_desc *d = xsk_ring_cons__rx_desc(rx, rx->cached_cons);

        if (d->options & XDP_PKT_CONTD) {
            n += xdp_join(w, g, rx, &f[n]);
            continue;
        }
        f[n++] = (struct emx_rxframe){.data = g->umem + d->addr + ETH_HLEN, .len_bytes = d->len - ETH_HLEN};
        rx->cached_cons++;
    }
    return n;
}

static unsigned xdp_held(const struct xsk_ring_cons *rx)
{
    return rx->cached_cons - *rx->consumer;
}

/* Work that is done when no frames arrive. A driver with zero copy that found no chunks to receive into, as when it was
 * attached, waits for a call. */
static void xdp_rest(struct xdp_wire *w)
{
    for (unsigned i = 0; i < w->port_count; i++) {
        struct xdp_port *p = &w->port[i];

        for (unsigned q = 0; q < p->group->queue_count; q++) {
            if (xdp_held(&p->group->queue[q].rx))
                emx_xdp_group_refill(p->group, q);
            if (p->group->busy_polls || xsk_ring_prod__needs_wakeup(&p->group->queue[q].fill))
                recvfrom(p->group->queue[q].sock_fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
        }
        if (!xdp_is_sent(&p->group->queue[0].tx))
            w->stats->wire_tx_errors += xdp_kick(p);
        if (p->flooded)
            xdp_count_lost(w, p);
    }
}

static void xdp_sweep(struct emx_wire *base)
{
    struct xdp_wire *w = (struct xdp_wire *)base;

    if (++w->sweeps % SERVE_EVERY)
        return;
    for (unsigned i = 0; i < w->port_count; i++) {
        struct xdp_port *p = &w->port[i];

        emx_xdp_group_serve(p->group);
        xdp_count_lost(w, p);
        if (p->group->passed && *p->group->passed != p->passed) {
            w->stats->xdp_passed += *p->group->passed - p->passed;
            p->passed = *p->group->passed;
        }
    }
}

/* Takes frames from the AF_XDP sockets. */
static unsigned xdp_take(struct xdp_wire *w, struct emx_rxframe *f, unsigned max)
{
    unsigned n = 0;

    w->joined_count = 0;
    if (w->armed)
        xdp_watch_sockets(w, EPOLL_CTL_DEL);
    for (unsigned i = 0; i < w->port_count && n < max; i++) {
        struct emx_xdp_group *g = w->port[i].group;

        for (unsigned q = 0; q < g->queue_count && n < max; q++) {
            n += xdp_take_q(w, g, q, f + n, max - n);
            if (g->queue[q].rx.cached_prod - *g->queue[q].rx.consumer > EMX_WIRE_BATCH)
                w->port[i].flooded = true;
        }
    }
    if (!n && max)
        xdp_rest(w);
    w->lent += n;
    return n;
}

/* Single frames first, so that short messages are not overtaken, but GSO packets that wait have the next turn. Their
 * frames begin a batch (offload.h). */
static unsigned xdp_rx(struct emx_wire *base, struct emx_rxframe *f, unsigned max)
{
    struct xdp_wire *w = (struct xdp_wire *)base;
    unsigned n;

    if (!w->offload)
        return xdp_take(w, f, max);
    if (!w->offload_waits && (n = xdp_take(w, f, max))) {
        w->offload_waits = emx_offload_waits(w->offload);
        return n;
    }
    w->offload_waits = false;
    n = emx_offload_rx(w->offload, f, max, UINT64_MAX);
    return n + xdp_take(w, f + n, max - n);
}

/* GSO packets are returned immediately, other chunks when there are many or rx() finds nothing. */
static void xdp_rx_return(struct emx_wire *base, const struct emx_rxframe *f, unsigned n)
{
    struct xdp_wire *w = (struct xdp_wire *)base;

    for (unsigned i = 0; i < n; i++)
        if (f[i].cookie & EMX_OFFLOAD_COOKIE)
            emx_offload_return(w->offload, f[i].cookie);
        else
            w->lent--;
    for (unsigned i = 0; i < w->port_count && !w->lent; i++)
        for (unsigned q = 0; q < w->port[i].group->queue_count; q++)
            if (xdp_held(&w->port[i].group->queue[q].rx) >= REFILL)
                emx_xdp_group_refill(w->port[i].group, q);
}

/* Shows only a frame in one chunk that needs no other work. */
static struct emx_wire_peek xdp_peek(struct emx_wire *base)
{
    struct xdp_wire *w = (struct xdp_wire *)base;

    if (w->armed || (w->offload && emx_offload_waits(w->offload)))
        return emx_wire_peek_rx();
    for (unsigned i = 0; i < w->port_count; i++) {
        struct emx_xdp_group *g = w->port[i].group;

        for (unsigned q = 0; q < g->queue_count; q++) {
            struct xsk_ring_cons *rx = &g->queue[q].rx;
            const struct xdp_desc *d;

            if (!xsk_cons_nb_avail(rx, 1))
                continue;
            d = xsk_ring_cons__rx_desc(rx, rx->cached_cons);
            if (d->options & XDP_PKT_CONTD)
                return emx_wire_peek_rx();
            w->peeked = rx;
            return (struct emx_wire_peek){g->umem + d->addr + ETH_HLEN, d->len - ETH_HLEN};
        }
    }
    xdp_rest(w);
    return (struct emx_wire_peek){0};
}

static void xdp_consume(struct emx_wire *base)
{
    struct xdp_wire *w = (struct xdp_wire *)base;

    w->peeked->cached_cons++;
    xdp_rx_return(base, NULL, 0);
}

static bool xdp_arm(struct emx_wire *base)
{
    struct xdp_wire *w = (struct xdp_wire *)base;

    if (!w->armed && !xdp_watch_sockets(w, EPOLL_CTL_ADD))
        return false;
    for (unsigned i = 0; i < w->port_count; i++) {
        struct emx_xdp_group *g = w->port[i].group;

        if (!xdp_is_sent(&g->queue[0].tx) && !w->port[i].stuck)
            return false;
        for (unsigned q = 0; q < g->queue_count; q++)
            if (xdp_held(&g->queue[q].rx) || xsk_cons_nb_avail(&g->queue[q].rx, 1))
                return false;
    }
    return true;
}

static int xdp_fd(struct emx_wire *base, unsigned i)
{
    const struct xdp_wire *w = (const struct xdp_wire *)base;

    if (i == 0)
        return w->epoll_fd;
    return i <= 2 && w->offload ? emx_offload_fd(w->offload, i - 1) : -1;
}

const struct emx_wire_ops emx_wire_xdp = {
    .name = "xdp",
    .part = EMX_XDP_PART,
    .help = "raw Ethernet frames past the network stack (AF_XDP); needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, and "
            "reaches other hosts only",
    .opt_in = "opening it puts a program into the interface's driver, which resets some cards for a moment: name it "
              "in ETHMX_WIRES, as xdp,packet",
    .open = xdp_open,
    .close = xdp_close,
    .query = xdp_query,
    .describe = xdp_describe,
    .ways = emx_xdp_ways,
    .tx_room = xdp_tx_room,
    .tx = xdp_tx,
    .rx = xdp_rx,
    .rx_return = xdp_rx_return,
    .peek = xdp_peek,
    .consume = xdp_consume,
    .fd = xdp_fd,
    .arm = xdp_arm,
    .sweep = xdp_sweep,
};
