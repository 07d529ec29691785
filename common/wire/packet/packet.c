/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The packet wire: frames of a separate EtherType that bypass the IP stack, through AF_PACKET.
 *
 * Receiving. One socket listens on all interfaces, loopback included. So peers on this host and on others are received
 * alike, and an interface that is removed and added again needs no action. The kernel writes frames into a mapped ring
 * of slots: rx() reads the status word of the next slot and makes no system call. When the ring is full the kernel
 * drops frames, and sets a flag in the status of the next frame.
 *
 * Filtering. A socket filter passes only frames for this endpoint's id. It is attached before the socket is bound.
 * Where several ranks of a job are on the host, a fanout program that they share selects the socket: see fanout.c. A
 * rank that is alone on its host detaches its filter, because the kernel runs it for each frame. It attaches the filter
 * again for good when another rank of the job connects, or when it finds a frame for another endpoint in the ring. Such
 * a frame is dropped there.
 *
 *     A slot:  0 status, lengths, sender's interface | 66 Ethernet header | 80 the ethmx frame ... up to slot_bytes
 *
 * Sending. A second socket sends, and receives nothing, so that sender and receiver do not share the kernel's counters.
 * If frames leave through one interface only, the socket is bound to it, because the kernel then looks up no interface
 * per frame. Short frames are copied together and sent by send() or sendto(), which is cheaper than sendmsg() with
 * three parts. Several frames are sent by sendmmsg(). Frames that the kernel has no space for wait in the backlog.
 *
 * Data frames of large messages travel as GSO packets (offload.c). Where those are not available, they are single
 * frames of the same EtherType.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/backlog.h"
#include "wire/offload.h"
#include "wire/ethernet.h"
#include "wire/fanout.h"
#include "wire/netif.h"
#include "wire/packet/packet.h"
#include "wire/qos.h"
#include "wire/ring.h"
#include "wire/udp_socket.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

#define FRAME_OFFSET   80                   /* chosen by the kernel; aligned */
#define SLOTS_MIN      (2 * EMX_WIRE_BATCH) /* a batch in use by rx(), and a batch that the kernel can fill */
#define COPY_BYTES     2048                 /* shorter frames are copied together before sending */
#define LO_FRAME_BYTES 9000                 /* if loopback is the only interface: slots of its MTU would be few */
#define DST_ID_OFFSET  4                    /* of the receiving endpoint's id in an ethmx frame */

/* An interface that frames leave through. */
struct packet_port {
    unsigned ifindex;
    uint8_t mac[ETH_ALEN];
};

/* Arguments of the system calls, per frame. */
struct packet_tx {
    struct sockaddr_ll to[EMX_WIRE_BATCH];
    struct iovec iov[EMX_WIRE_BATCH][3];
    struct mmsghdr msg[EMX_WIRE_BATCH];
    uint8_t copy[EMX_WIRE_BATCH][ETH_HLEN + COPY_BYTES]; /* Ethernet header; all of a short frame */
};

struct packet_wire {
    struct emx_wire base;
    int rx_fd, tx_fd;
    uint32_t endpoint_id;
    bool filtered;       /* the kernel passes only frames for endpoint_id */
    bool bared;          /* the filter was detached at least once */
    bool foreign_frames; /* frames for other endpoints arrive at this host */
    struct emx_stats *stats;
    unsigned frame_bytes;
    uint16_t ethertype; /* network order */
    struct emx_ring ring;
    struct emx_offload *offload; /* NULL: no GSO packets */
    bool no_joining;             /* the kernel or an interface refused GSO packets */
    bool offload_last;           /* rx() reads the offload ring last, the other one first */

    struct emx_fanout *fanout; /* NULL: the kernel runs this rank's filter for each frame */

    struct packet_port port[EMX_NETIF_MAX];
    unsigned port_count;
    unsigned bound_ifindex; /* the sending socket is bound to it; 0: not bound */
    struct packet_tx *tx;
    struct emx_backlog backlog;
};

void emx_packet_addr(struct emx_wire_addr *a, unsigned ifindex, const uint8_t mac[6], const struct emx_offload_way *way)
{
    emx_offload_addr(a, ifindex, mac, way);
}

/* ---- Opening ---- */

/* The longest frame of the chosen interfaces; 0: none of them carries Ethernet frames. */
static unsigned packet_longest_frame(const struct emx_wire_params *params)
{
    unsigned longest = 0;

    for (unsigned i = 0; i < params->netifs->count; i++) {
        const struct emx_netif *nif = &params->netifs->nif[i];
        unsigned mtu = nif->mtu_bytes;

        if (!nif->chosen || !nif->has_mac)
            continue;
        if (nif->loopback && mtu > LO_FRAME_BYTES)
            mtu = LO_FRAME_BYTES;
        if (mtu > longest)
            longest = mtu;
    }
    if (params->cfg->p_mtu && longest > params->cfg->p_mtu)
        longest = (unsigned)params->cfg->p_mtu;
    return longest > UINT16_MAX ? UINT16_MAX : longest;
}

/* Passes frames for this endpoint's id. The frame begins after the Ethernet header. Ids are little-endian, the filter
 * loads big-endian. */
static int packet_attach_filter(struct packet_wire *w)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ETH_HLEN + DST_ID_OFFSET),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __builtin_bswap32(w->endpoint_id), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    int ret = setsockopt(w->rx_fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));

    w->filtered |= !ret;
    return ret;
}

static void packet_detach_filter(struct packet_wire *w)
{
    int unused = 0;

    if (setsockopt(w->rx_fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused))) {
        w->foreign_frames = true; /* the filter stays attached */
        return;
    }
    w->filtered = false;
    w->bared = true;
}

/* If the filter was detached once, such frames show that another rank has started. Otherwise they are misdelivered. */
static void packet_count_foreign(struct packet_wire *w)
{
    w->stats->drop_not_mine += !w->bared;
    w->foreign_frames = true;
    if (!w->filtered)
        packet_attach_filter(w);
}

static int packet_open_rx(struct packet_wire *w, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    struct sockaddr_ll all = {.sll_family = AF_PACKET, .sll_protocol = w->ethertype};
    int version = TPACKET_V2, on = 1;

    /* Protocol 0: receives nothing before bind(). */
    w->rx_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (w->rx_fd < 0 && (errno == EPERM || errno == EACCES)) {
        snprintf(why, why_len_bytes,
                 "raw sockets need CAP_NET_RAW: run `setcap cap_net_raw+ep PROGRAM` as root, give the container "
                 "that capability, or use ETHMX_WIRES=udp");
        return ETHMX_ERR_NO_WIRE;
    }
    if (w->rx_fd < 0) {
        snprintf(why, why_len_bytes, "this kernel has no packet sockets (%s): use ETHMX_WIRES=udp", strerror(errno));
        return ETHMX_ERR_NO_WIRE;
    }
    setsockopt(w->rx_fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)); /* old kernels do not have it */
    if (packet_attach_filter(w) || setsockopt(w->rx_fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version))) {
        snprintf(why, why_len_bytes, "the packet socket cannot be set up: %s", strerror(errno));
        return ETHMX_ERR_NO_WIRE;
    }
    if (emx_ring_open(&w->ring, w->rx_fd, params->cfg->p_ring, FRAME_OFFSET + w->frame_bytes, SLOTS_MIN)) {
        snprintf(why, why_len_bytes, "no memory for the receive ring (%s): lower ETHMX_RING or ETHMX_MTU",
                 strerror(errno));
        return ETHMX_ERR_NO_MEMORY;
    }
    if (bind(w->rx_fd, (const struct sockaddr *)&all, sizeof(all))) {
        snprintf(why, why_len_bytes, "the packet socket cannot be bound: %s", strerror(errno));
        return ETHMX_ERR_NO_WIRE;
    }
    snprintf(why, why_len_bytes, "receive ring of %u frames of up to %u bytes (%zu KiB)%s", w->ring.slot_count,
             w->frame_bytes, w->ring.bytes / 1024,
             w->ring.bytes < params->cfg->p_ring ? ", smaller than ETHMX_RING: memory is short" : "");
    return ETHMX_OK;
}

/* The only interface to other hosts, or loopback if there is none. 0: there are several. */
static unsigned packet_only_port(const struct packet_wire *w, unsigned loopback_index)
{
    unsigned found = 0;

    for (unsigned i = 0; i < w->port_count; i++) {
        if (w->port[i].ifindex == loopback_index && w->port_count > 1)
            continue;
        if (found)
            return 0;
        found = w->port[i].ifindex;
    }
    return found;
}

/* Protocol 0: the bound socket receives nothing. */
static void packet_bind_tx(struct packet_wire *w, unsigned ifindex)
{
    struct sockaddr_ll there = {.sll_family = AF_PACKET, .sll_ifindex = (int)ifindex};

    if (ifindex && !bind(w->tx_fd, (const struct sockaddr *)&there, sizeof(there)))
        w->bound_ifindex = ifindex;
}

static int packet_open_tx(struct packet_wire *w, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    int on = 1;

    w->tx = malloc(sizeof(*w->tx));
    if (!w->tx || !emx_backlog_init(&w->backlog, w->frame_bytes)) {
        snprintf(why, why_len_bytes, "out of memory");
        return ETHMX_ERR_NO_MEMORY;
    }
    w->tx_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (w->tx_fd < 0 ||
        (params->cfg->p_qdisc_bypass && setsockopt(w->tx_fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)))) {
        snprintf(why, why_len_bytes, "the packet socket for sending cannot be set up: %s", strerror(errno));
        return ETHMX_ERR_NO_WIRE;
    }
    packet_bind_tx(w, packet_only_port(w, params->netifs->loopback_index));
    /* A whole batch should fit; the backlog takes the rest. */
    emx_socket_size_buffer(w->tx_fd, SO_SNDBUF, params->cfg->p_ring);
    emx_qos_set_priority(w->tx_fd, params->cfg);
    return ETHMX_OK;
}

static void packet_read_ports(struct packet_wire *w, const struct emx_netifs *n)
{
    for (unsigned i = 0; i < n->count; i++)
        if (n->nif[i].has_mac && (n->nif[i].chosen || n->nif[i].index == n->loopback_index)) {
            struct packet_port *port = &w->port[w->port_count++];

            port->ifindex = n->nif[i].index;
            memcpy(port->mac, n->nif[i].mac, ETH_ALEN);
        }
}

static void packet_close(struct emx_wire *base)
{
    struct packet_wire *w = (struct packet_wire *)base;

    emx_fanout_close(w->fanout);
    emx_offload_close(w->offload);
    emx_ring_close(&w->ring);
    if (w->rx_fd >= 0)
        close(w->rx_fd);
    if (w->tx_fd >= 0)
        close(w->tx_fd);
    emx_backlog_fini(&w->backlog);
    free(w->tx);
    free(w);
}

/* Joins the fanout groups of the job, so that the kernel does not run the filter of every rank for each frame. */
static void packet_open_fanout(struct packet_wire *w, const struct emx_wire_params *params, char *why,
                               size_t why_len_bytes)
{
    struct emx_fanout_rank self = {.fd = {w->rx_fd, w->offload ? emx_offload_fanout_fd(w->offload) : -1},
                                   .key = {params->endpoint_id, w->offload ? emx_offload_port(w->offload) : 0}};
    char reason[256] = "";

    if (!params->cfg->p_fanout)
        snprintf(reason, sizeof(reason), "ETHMX_FANOUT");
    else
        w->fanout = emx_fanout_open(params, ntohs(w->ethertype), &self, reason, sizeof(reason));
    if (w->fanout)
        snprintf(why, why_len_bytes, ", the job's ranks on this host share each look at a frame (fanout)");
    else
        snprintf(why, why_len_bytes, ", each rank's socket looks at every frame (%s)", reason);
}

static int packet_open(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    unsigned frame_bytes = packet_longest_frame(params);
    struct packet_wire *w;
    size_t said;
    int ret;

    if (!frame_bytes) {
        snprintf(why, why_len_bytes,
                 "no interface chosen that carries Ethernet frames: name one in ETHMX_IF (ethmx_info lists them; lo "
                 "reaches processes of this host)");
        return ETHMX_ERR_NO_WIRE;
    }
    w = calloc(1, sizeof(*w));
    if (!w) {
        snprintf(why, why_len_bytes, "out of memory");
        return ETHMX_ERR_NO_MEMORY;
    }
    w->base.ops = &emx_wire_packet;
    w->rx_fd = w->tx_fd = -1;
    w->endpoint_id = params->endpoint_id;
    w->stats = params->stats;
    w->frame_bytes = frame_bytes;
    w->ethertype = htons((uint16_t)params->cfg->p_ethertype);
    packet_read_ports(w, params->netifs);
    ret = packet_open_rx(w, params, why, why_len_bytes);
    if (!ret)
        ret = packet_open_tx(w, params, why, why_len_bytes);
    if (ret) {
        packet_close(&w->base);
        return ret;
    }
    said = strlen(why);
    snprintf(why + said, why_len_bytes - said, ", ");
    said = strlen(why);
    w->offload = emx_offload_open(params, why + said, why_len_bytes - said);
    said = strlen(why);
    packet_open_fanout(w, params, why + said, why_len_bytes - said);
    *w_p = &w->base;
    return ETHMX_OK;
}

static void packet_query(const struct emx_wire *base, struct emx_wire_attr *attr_p)
{
    const struct packet_wire *w = (const struct packet_wire *)base;

    *attr_p = (struct emx_wire_attr){.frame_bytes = w->frame_bytes, .cheap_poll = true};
}

static unsigned packet_describe(const struct emx_wire *base, const struct emx_way_site *site, uint8_t *value,
                                unsigned *min_p)
{
    const struct packet_wire *w = (const struct packet_wire *)base;
    const struct emx_ethernet_part part = {.frame_bytes = (uint16_t)w->frame_bytes,
                                           .ethertype = ntohs(w->ethertype),
                                           .gso_port = w->offload ? emx_offload_port(w->offload) : 0};

    (void)site;
    emx_ethernet_part_write(&part, value);
    *min_p = 0;
    return EMX_ETHERNET_PART_BYTES;
}

/* ---- Sending ---- */

static const uint8_t *packet_mac_of(const struct packet_wire *w, unsigned ifindex)
{
    static const uint8_t none[ETH_ALEN];

    for (unsigned i = 0; i < w->port_count; i++)
        if (w->port[i].ifindex == ifindex)
            return w->port[i].mac;
    return none;
}

/* Writes the destination and the Ethernet header. */
static void packet_address_frame(const struct packet_wire *w, const struct emx_wire_addr *to, struct sockaddr_ll *sll,
                                 uint8_t eth[ETH_HLEN])
{
    struct emx_offload_to a = emx_offload_to(to);

    memset(sll, 0, sizeof(*sll));
    sll->sll_family = AF_PACKET;
    sll->sll_protocol = w->ethertype;
    sll->sll_ifindex = (int)a.ifindex;
    memcpy(eth, a.mac, ETH_ALEN);
    memcpy(eth + ETH_ALEN, packet_mac_of(w, a.ifindex), ETH_ALEN);
    memcpy(eth + 2 * ETH_ALEN, &w->ethertype, sizeof(w->ethertype));
}

/* Prepares message i of the batch for frame f. */
static void packet_prepare_frame(struct packet_wire *w, unsigned i, const struct emx_txframe *f)
{
    struct packet_tx *tx = w->tx;
    struct iovec *iov = tx->iov[i];
    unsigned parts = 1;

    packet_address_frame(w, f->to, &tx->to[i], tx->copy[i]);
    iov[0] = (struct iovec){.iov_base = tx->copy[i], .iov_len = ETH_HLEN};
    if (f->head_bytes + f->body_bytes <= COPY_BYTES) {
        memcpy(tx->copy[i] + ETH_HLEN, f->head, f->head_bytes);
        if (f->body_bytes)
            memcpy(tx->copy[i] + ETH_HLEN + f->head_bytes, f->body, f->body_bytes);
        iov[0].iov_len += (size_t)f->head_bytes + f->body_bytes;
    } else {
        iov[parts++] = (struct iovec){.iov_base = (void *)f->head, .iov_len = f->head_bytes};
        if (f->body_bytes)
            iov[parts++] = (struct iovec){.iov_base = (void *)f->body, .iov_len = f->body_bytes};
    }
    tx->msg[i] = (struct mmsghdr){
        .msg_hdr = {.msg_name = &tx->to[i], .msg_namelen = sizeof(tx->to[i]), .msg_iov = iov, .msg_iovlen = parts}};
}

/* Sends one frame. If an interface was removed, the socket has lost its binding, even if the interface is back. */
static ssize_t packet_send_one(const struct packet_wire *w, const struct iovec *iov, const struct sockaddr_ll *to)
{
    if ((unsigned)to->sll_ifindex == w->bound_ifindex) {
        ssize_t sent = send(w->tx_fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT);

        if (sent >= 0 || errno != ENXIO)
            return sent;
    }
    return sendto(w->tx_fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT, (const struct sockaddr *)to, sizeof(*to));
}

/* Passes n prepared messages to the kernel. Returns how many it took; if fewer than n, errno is set. */
static int packet_send_prepared(struct packet_wire *w, unsigned first, unsigned n)
{
    struct packet_tx *tx = w->tx;
    const struct iovec *iov = tx->iov[first];

    if (n > 1)
        return sendmmsg(w->tx_fd, &tx->msg[first], n, MSG_DONTWAIT);
    if (tx->msg[first].msg_hdr.msg_iovlen > 1)
        return sendmsg(w->tx_fd, &tx->msg[first].msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1;
    return packet_send_one(w, iov, &tx->to[first]) < 0 ? -1 : 1;
}

static int packet_send_kept(void *arg, const struct emx_wire_addr *to, const void *data, size_t len_bytes)
{
    struct packet_wire *w = arg;
    struct emx_txframe f = {.to = to, .head = data, .head_bytes = (uint16_t)len_bytes};

    packet_prepare_frame(w, 0, &f);
    return packet_send_prepared(w, 0, 1) < 0 ? errno : 0;
}

static unsigned packet_tx_room(struct emx_wire *base)
{
    struct packet_wire *w = (struct packet_wire *)base;

    if (w->backlog.count)
        w->stats->wire_tx_errors += emx_backlog_flush(&w->backlog, packet_send_kept, w);
    return w->backlog.count ? 0 : EMX_WIRE_BATCH;
}

/* Sends frames of valid length. */
static void packet_send_run(struct packet_wire *w, const struct emx_txframe *f, unsigned n)
{
    unsigned at = 0;

    for (unsigned i = 0; i < n; i++)
        packet_prepare_frame(w, i, &f[i]);
    while (at < n) {
        int taken;

        if (w->backlog.count) { /* from an earlier run of this batch: keep the order */
            w->stats->wire_tx_errors += emx_backlog_keep(&w->backlog, &f[at], n - at);
            return;
        }
        taken = packet_send_prepared(w, at, n - at);

        if (taken > 0) {
            emx_backlog_success(&w->backlog);
            at += (unsigned)taken;
        } else if (emx_backlog_full_error(errno)) {
            unsigned lost = emx_backlog_keep(&w->backlog, &f[at], n - at);

            w->stats->wire_tx_errors += lost;
            return;
        } else {
            w->stats->wire_tx_errors++; /* lost: interface down or removed, frame longer than its MTU, ... */
            at++;
        }
    }
}

/* How many of the n frames at f can be sent as one GSO packet. */
static unsigned packet_joinable(const struct packet_wire *w, const struct emx_txframe *f, unsigned n)
{
    return w->offload && !w->no_joining ? emx_offload_joinable(f, n) : 0;
}

static void packet_send_joined(struct packet_wire *w, const struct emx_txframe *f, unsigned n)
{
    uint64_t errors = w->stats->wire_tx_errors;
    const uint8_t *from_mac = packet_mac_of(w, emx_offload_to(f->to).ifindex);
    int err = w->backlog.count ? EAGAIN : emx_offload_send(w->offload, from_mac, f, n);

    if (!err) {
        emx_backlog_success(&w->backlog);
        w->stats->gso_packets_sent += n > 1;
    } else if (emx_backlog_full_error(err)) {
        w->stats->wire_tx_errors += emx_backlog_keep(&w->backlog, f, n);
    } else {
        packet_send_run(w, f, n);
        if (w->stats->wire_tx_errors == errors) /* the frames were valid: the kernel refuses GSO packets */
            w->no_joining = true;
    }
}

static void packet_tx(struct emx_wire *base, const struct emx_txframe *f, unsigned n)
{
    struct packet_wire *w = (struct packet_wire *)base;
    unsigned from = 0, i = 0, joined;

    while (i < n) {
        if ((unsigned)f[i].head_bytes + f[i].body_bytes > w->frame_bytes) {
            packet_send_run(w, &f[from], i - from);
            w->stats->wire_tx_errors++;
            from = ++i;
        } else if ((joined = packet_joinable(w, &f[i], n - i))) {
            packet_send_run(w, &f[from], i - from);
            packet_send_joined(w, &f[i], joined);
            from = i += joined;
        } else {
            i++;
        }
    }
    packet_send_run(w, &f[from], n - from);
}

/* ---- Receiving ---- */

/* The frame in a slot. data NULL: the frame was longer than the slot and is truncated. */
static struct emx_wire_peek packet_frame_in(const struct tpacket2_hdr *h)
{
    unsigned eth_bytes = (unsigned)h->tp_net - h->tp_mac;

    if (h->tp_snaplen < h->tp_len || h->tp_snaplen <= eth_bytes)
        return (struct emx_wire_peek){0};
    return (struct emx_wire_peek){(const uint8_t *)h + h->tp_net, h->tp_snaplen - eth_bytes};
}

static bool packet_is_ours(const struct packet_wire *w, const struct emx_wire_peek *p)
{
    uint32_t to;

    if (p->len_bytes < DST_ID_OFFSET + sizeof(to))
        return false;
    memcpy(&to, (const uint8_t *)p->data + DST_ID_OFFSET, sizeof(to));
    return to == w->endpoint_id;
}

/* Frees a slot whose frame is not passed up. */
static void packet_skip_foreign(struct packet_wire *w, unsigned slot, bool whole)
{
    if (whole)
        packet_count_foreign(w);
    else
        w->stats->wire_lost++;
    emx_ring_give_back(&w->ring, slot);
}

static unsigned packet_take(struct packet_wire *w, struct emx_rxframe *f, unsigned max)
{
    struct emx_ring *r = &w->ring;
    unsigned n = 0;

    while (n < max) {
        uint32_t status = emx_ring_peek(r);
        struct emx_wire_peek p;
        unsigned slot;

        if (!status)
            break;
        if (status & TP_STATUS_LOSING)
            w->stats->wire_lost += emx_ring_drops(r);
        slot = emx_ring_take(r);
        p = packet_frame_in(emx_ring_slot(r, slot));
        if (p.data && packet_is_ours(w, &p))
            f[n++] = (struct emx_rxframe){.data = p.data, .len_bytes = p.len_bytes, .cookie = slot};
        else
            packet_skip_foreign(w, slot, p.data);
    }
    return n;
}

/* Alternates between the rings, so that a ring that is never empty does not starve the other. */
static unsigned packet_rx(struct emx_wire *base, struct emx_rxframe *f, unsigned max)
{
    struct packet_wire *w = (struct packet_wire *)base;
    unsigned n;

    if (w->backlog.count)
        packet_tx_room(base);
    if (!w->offload)
        return packet_take(w, f, max);
    w->offload_last = !w->offload_last;
    if (w->offload_last) {
        n = packet_take(w, f, max);
        return n + emx_offload_rx(w->offload, f + n, max - n);
    }
    n = emx_offload_rx(w->offload, f, max);
    return n + packet_take(w, f + n, max - n);
}

static void packet_rx_return(struct emx_wire *base, const struct emx_rxframe *f, unsigned n)
{
    struct packet_wire *w = (struct packet_wire *)base;

    for (unsigned i = 0; i < n; i++)
        if (f[i].cookie & EMX_OFFLOAD_COOKIE)
            emx_offload_return(w->offload, f[i].cookie);
        else
            emx_ring_give_back(&w->ring, f[i].cookie);
}

/* Shows a frame only if there is no other work and nothing to count. */
static struct emx_wire_peek packet_peek(struct emx_wire *base)
{
    struct packet_wire *w = (struct packet_wire *)base;
    uint32_t status = emx_ring_peek(&w->ring);
    struct emx_wire_peek p;

    if (w->backlog.count || status & TP_STATUS_LOSING || (w->offload && emx_offload_waits(w->offload)))
        return emx_wire_peek_rx();
    if (!status)
        return (struct emx_wire_peek){0};
    p = packet_frame_in(emx_ring_slot(&w->ring, w->ring.next));
    return p.data && packet_is_ours(w, &p) ? p : emx_wire_peek_rx();
}

static void packet_consume(struct emx_wire *base)
{
    struct packet_wire *w = (struct packet_wire *)base;

    emx_ring_give_back(&w->ring, emx_ring_take(&w->ring));
}

static void packet_sweep(struct emx_wire *base)
{
    struct packet_wire *w = (struct packet_wire *)base;
    bool filter;

    if (!w->fanout)
        return;
    emx_fanout_sweep(w->fanout);
    filter = w->foreign_frames || !emx_fanout_is_alone(w->fanout);
    if (filter == w->filtered)
        return;
    if (filter)
        packet_attach_filter(w);
    else
        packet_detach_filter(w);
}

static int packet_fd(struct emx_wire *base, unsigned i)
{
    struct packet_wire *w = (struct packet_wire *)base;

    if (i == 0)
        return w->rx_fd;
    return i == 1 && w->offload ? emx_offload_fd(w->offload) : -1;
}

const struct emx_wire_ops emx_wire_packet = {
    .name = "packet",
    .part = EMX_PACKET_PART,
    .help = "raw Ethernet frames beside the IP stack; needs CAP_NET_RAW and a common network segment",
    .open = packet_open,
    .close = packet_close,
    .query = packet_query,
    .describe = packet_describe,
    .ways = emx_packet_ways,
    .tx_room = packet_tx_room,
    .tx = packet_tx,
    .rx = packet_rx,
    .rx_return = packet_rx_return,
    .peek = packet_peek,
    .consume = packet_consume,
    .fd = packet_fd,
    .sweep = packet_sweep,
};
