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
 * packet_tx.c has the sending.
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

#include "base/min.h"
#include "wire/backlog.h"
#include "wire/offload.h"
#include "wire/ethernet.h"
#include "wire/fanout.h"
#include "wire/netif.h"
#include "wire/packet/packet.h"
#include "wire/packet/packet_choice.h"
#include "wire/packet/packet_impl.h"
#include "wire/qos.h"
#include "wire/ring.h"
#include "wire/udp_socket.h"

#define FRAME_OFFSET   80                   /* chosen by the kernel; aligned */
#define SLOTS_MIN      (2 * EMX_WIRE_BATCH) /* a batch in use by rx(), and a batch that the kernel can fill */
#define LO_FRAME_BYTES 9000                 /* if loopback is the only interface: slots of its MTU would be few */

void emx_packet_addr(struct emx_wire_addr *a, unsigned ifindex, const uint8_t mac[6], const struct emx_offload_way *way)
{
    emx_offload_addr(a, ifindex, mac, way, 0);
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
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ETH_HLEN + EMX_PACKET_DST_ID),
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
    const unsigned slot_bytes = FRAME_OFFSET + w->frame_bytes;
    const uint64_t ring_bytes = emx_ring_part_bytes(params->cfg->p_ring, params->local_ranks, slot_bytes);

    w->rx_fd = emx_ring_socket();
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
    if (packet_attach_filter(w)) {
        snprintf(why, why_len_bytes, "the packet socket cannot be set up: %s", strerror(errno));
        return ETHMX_ERR_NO_WIRE;
    }
    if (emx_ring_open(&w->ring, w->rx_fd, ring_bytes, slot_bytes, SLOTS_MIN)) {
        snprintf(why, why_len_bytes, "no memory for the receive ring (%s): lower ETHMX_RING or ETHMX_MTU",
                 strerror(errno));
        return ETHMX_ERR_NO_MEMORY;
    }
    if (emx_ring_bind(&w->ring, w->ethertype)) {
        snprintf(why, why_len_bytes, "the packet socket cannot be bound: %s", strerror(errno));
        return ETHMX_ERR_NO_WIRE;
    }
    snprintf(why, why_len_bytes, "receive ring of %u frames of up to %u bytes (%zu KiB)%s", w->ring.slot_count,
             w->frame_bytes, w->ring.bytes / 1024,
             w->ring.bytes < ring_bytes ? ", smaller than its part of ETHMX_RING: memory is short" : "");
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

/* reason: why the first interface with frames in UDP has them, or why none has. */
static void packet_read_ports(struct packet_wire *w, const struct emx_config *cfg, const struct emx_netifs *n,
                              char *reason, size_t reason_len_bytes)
{
    char why[128];

    reason[0] = 0;
    for (unsigned i = 0; i < n->count; i++)
        if (n->nif[i].has_mac && (n->nif[i].chosen || n->nif[i].index == n->loopback_index)) {
            struct packet_port *port = &w->port[w->port_count++];

            port->ifindex = n->nif[i].index;
            memcpy(port->mac, n->nif[i].mac, ETH_ALEN);
            port->by_udp = emx_packet_chooses_udp(cfg, &n->nif[i], EMX_PACKET_SYSFS, why, sizeof(why));
            if (!reason[0])
                snprintf(reason, reason_len_bytes, "%s", why);
        }
}

static void packet_close(struct emx_wire *base)
{
    struct packet_wire *w = (struct packet_wire *)base;

    emx_fanout_close(w->fanout);
    emx_offload_close(w->offload);
    if (w->udp)
        emx_packet_udp_close(w->udp);
    free(w->udp);
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
    struct emx_fanout_rank self = {
        .v6 = emx_offload_is_v6(params->netifs),
        .fd = {w->rx_fd, w->offload ? emx_offload_fanout_fd(w->offload, EMX_FANOUT_GSO) : -1,
               w->udp ? w->udp->rx_fd : -1, w->offload ? emx_offload_fanout_fd(w->offload, EMX_FANOUT_TSO) : -1},
        .key = {params->endpoint_id, w->offload ? emx_offload_port(w->offload) : 0, w->udp ? w->udp->port.port : 0,
                w->offload ? emx_offload_port(w->offload) : 0}};
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

/* From now on the sending socket takes the kernel's header before each frame, if frames in UDP need it. -1 and errno:
 * they cannot be sent, and are closed. */
static int packet_take_vnet(struct packet_wire *w)
{
    int on = 1, err;

    if (!w->udp->v6 || !setsockopt(w->tx_fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)))
        return 0;
    err = errno;
    emx_packet_udp_close(w->udp);
    errno = err;
    return -1;
}

/* Frames in UDP, if an interface wants them. Without them the wire works, too. why: the format and the reason. */
static void packet_open_udp(struct packet_wire *w, const struct emx_wire_params *params, const char *reason, char *why,
                            size_t why_len_bytes)
{
    bool wanted = false;

    for (unsigned i = 0; i < w->port_count; i++)
        wanted |= w->port[i].by_udp;
    w->udp = wanted ? malloc(sizeof(*w->udp)) : NULL;
    if (w->udp && !emx_packet_udp_open(w->udp, params, w->frame_bytes) && !packet_take_vnet(w)) {
        w->has_udp = 1;
        snprintf(why, why_len_bytes, ", frames in UDP (port %u%s; %s)", w->udp->port.port, w->udp->v6 ? ", IPv6" : "",
                 reason);
        return;
    }
    snprintf(why, why_len_bytes, ", frames of EtherType 0x%04x (%s%s)", ntohs(w->ethertype), wanted ? "in UDP: " : "",
             wanted      ? strerror(errno)
             : reason[0] ? reason
                         : "no interface with several receive queues, or bond");
    free(w->udp);
    w->udp = NULL;
}

bool emx_packet_prefers_udp(const struct emx_wire *base, unsigned ifindex)
{
    const struct packet_wire *w = (const struct packet_wire *)base;

    for (unsigned i = 0; w && w->udp && i < w->port_count; i++)
        if (w->port[i].ifindex == ifindex)
            return w->port[i].by_udp;
    return false;
}

static int packet_open(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    unsigned frame_bytes = packet_longest_frame(params);
    char udp_reason[128];
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
    w->tos = emx_qos_tos(params->cfg);
    w->peeked = &w->ring;
    packet_read_ports(w, params->cfg, params->netifs, udp_reason, sizeof(udp_reason));
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
    packet_open_udp(w, params, udp_reason, why + said, why_len_bytes - said);
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
    struct emx_ethernet_part part = {.frame_bytes = (uint16_t)w->frame_bytes,
                                     .ethertype = ntohs(w->ethertype),
                                     .udp_port = w->udp ? w->udp->port.port : 0};

    (void)site;
    emx_ethernet_part_offload(&part, w->offload);
    emx_ethernet_part_write(&part, value);
    *min_p = 0;
    return EMX_ETHERNET_PART_BYTES;
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
    return emx_packet_is_for(w->endpoint_id, p->data, p->len_bytes);
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

/* Takes frames that came until then. */
static unsigned packet_take(struct packet_wire *w, struct emx_rxframe *f, unsigned max, uint64_t until_ns)
{
    struct emx_ring *r = &w->ring;
    unsigned n = 0;

    while (n < max) {
        uint32_t status = emx_ring_peek(r);
        struct emx_wire_peek p;
        unsigned slot;

        if (!status || emx_ring_is_later(r, until_ns))
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

/* Takes single frames, of both kinds in turn. */
static unsigned packet_take_both(struct packet_wire *w, struct emx_rxframe *f, unsigned max, uint64_t until_ns)
{
    unsigned n = 0;

    if (!w->udp)
        return packet_take(w, f, max, until_ns);
    w->udp_last = !w->udp_last;
    if (!w->udp_last)
        n = emx_packet_udp_rx(w->udp, f, max, until_ns);
    n += packet_take(w, f + n, max - n, until_ns);
    return w->udp_last ? n + emx_packet_udp_rx(w->udp, f + n, max - n, until_ns) : n;
}

/* When the next single frame came; UINT64_MAX: there is none. */
static uint64_t packet_since_ns(const struct packet_wire *w)
{
    uint64_t since_ns = emx_ring_peek(&w->ring) ? emx_ring_time_ns(&w->ring) : UINT64_MAX;

    if (w->udp && emx_ring_peek(&w->udp->ring))
        since_ns = emx_min(since_ns, emx_ring_time_ns(&w->udp->ring));
    return since_ns;
}

/* Single frames and GSO packets in the order in which they came: a message must not overtake the one before it. Frames
 * of GSO packets begin a batch (offload.h). Those without an announcement, which are rare, have a turn, too. */
static unsigned packet_rx(struct emx_wire *base, struct emx_rxframe *f, unsigned max)
{
    struct packet_wire *w = (struct packet_wire *)base;
    uint64_t since_ns;
    unsigned n;

    if (w->backlog.count)
        emx_packet_tx_room(base);
    if (!w->offload)
        return packet_take_both(w, f, max, UINT64_MAX);
    since_ns = emx_offload_since_ns(w->offload);
    w->offload_first = since_ns == UINT64_MAX && emx_offload_waits(w->offload) && !w->offload_first;
    if (!w->offload_first && (n = packet_take_both(w, f, max, since_ns)))
        return n;
    n = emx_offload_rx(w->offload, f, max, packet_since_ns(w));
    return n ? n : packet_take_both(w, f, max, UINT64_MAX);
}

static void packet_rx_return(struct emx_wire *base, const struct emx_rxframe *f, unsigned n)
{
    struct packet_wire *w = (struct packet_wire *)base;

    for (unsigned i = 0; i < n; i++)
        if (f[i].cookie & EMX_OFFLOAD_COOKIE)
            emx_offload_return(w->offload, f[i].cookie);
        else if (f[i].cookie & EMX_PACKET_UDP_COOKIE)
            emx_packet_udp_return(w->udp, f[i].cookie);
        else
            emx_ring_give_back(&w->ring, f[i].cookie);
}

/* As packet_peek(), with frames in UDP. If both rings have frames, rx() takes them in turn. */
static __attribute__((noinline)) struct emx_wire_peek packet_peek_both(struct packet_wire *w)
{
    uint32_t status = emx_ring_peek(&w->ring);
    bool in_udp = emx_ring_peek(&w->udp->ring);
    struct emx_wire_peek p;

    if (w->backlog.count || status & TP_STATUS_LOSING || (status && in_udp) ||
        (w->offload && emx_offload_waits(w->offload)))
        return emx_wire_peek_rx();
    w->peeked = in_udp ? &w->udp->ring : &w->ring;
    if (in_udp)
        return emx_packet_udp_peek(w->udp);
    if (!status)
        return (struct emx_wire_peek){0};
    p = packet_frame_in(emx_ring_slot(&w->ring, w->ring.next));
    return p.data && packet_is_ours(w, &p) ? p : emx_wire_peek_rx();
}

/* Shows a frame only if there is no other work and nothing to count. */
static struct emx_wire_peek packet_peek(struct emx_wire *base)
{
    struct packet_wire *w = (struct packet_wire *)base;
    uint32_t status = emx_ring_peek(&w->ring);
    struct emx_wire_peek p;

    if ((w->backlog.count | w->has_udp) || status & TP_STATUS_LOSING || (w->offload && emx_offload_waits(w->offload)))
        return w->udp ? packet_peek_both(w) : emx_wire_peek_rx();
    if (!status)
        return (struct emx_wire_peek){0};
    p = packet_frame_in(emx_ring_slot(&w->ring, w->ring.next));
    return p.data && packet_is_ours(w, &p) ? p : emx_wire_peek_rx();
}

static void packet_consume(struct emx_wire *base)
{
    struct packet_wire *w = (struct packet_wire *)base;

    emx_ring_give_back(w->peeked, emx_ring_take(w->peeked));
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

static void packet_renumber(struct emx_wire *base, unsigned old_index, const struct emx_netif *nif)
{
    struct packet_wire *w = (struct packet_wire *)base;

    for (unsigned i = 0; i < w->port_count; i++)
        if (w->port[i].ifindex == old_index) {
            w->port[i].ifindex = nif->index;
            memcpy(w->port[i].mac, nif->mac, ETH_ALEN);
        }
    if (w->bound_ifindex == old_index)
        packet_bind_tx(w, nif->index);
}

static int packet_fd(struct emx_wire *base, unsigned i)
{
    struct packet_wire *w = (struct packet_wire *)base;

    if (i == 0)
        return w->rx_fd;
    if (i == 2)
        return w->udp ? w->udp->rx_fd : -1;
    return w->offload ? emx_offload_fd(w->offload, i == 1 ? 0 : 1) : -1;
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
    .tx_room = emx_packet_tx_room,
    .tx = emx_packet_tx,
    .rx = packet_rx,
    .rx_return = packet_rx_return,
    .peek = packet_peek,
    .consume = packet_consume,
    .fd = packet_fd,
    .renumber = packet_renumber,
    .sweep = packet_sweep,
};
