/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The system call for each frame, and its way through the kernel at both ends, limit the speed of large messages. The
 * kernel takes up to 64 KB at once if they look like a UDP packet to be segmented (GSO); it does not segment frames of
 * an EtherType of one's own. So data frames leave as GSO packets: Ethernet, IPv4 and UDP headers, then frames back to
 * back. The network card, or the kernel just above it, segments them at the frame boundaries.
 *
 * Receiving. A second packet socket for IPv4 has a ring of slots that hold a whole GSO packet. Its filter passes UDP
 * packets to this endpoint's port, which nobody else on the host has. It does not check the frames in them: a damaged
 * or foreign frame must not take the others with it, so the engine checks each. The kernel reports the frames' length
 * (PACKET_VNET_HDR). The frames are used in place, and the slot goes back when the last of them is returned.
 *
 *     A slot:  0 status, lengths | 76 Ethernet header, before it the kernel's header on segments | 100 IPv4 and UDP
 *              headers | 128 the first frame ...
 *
 * The kernel's own UDP stack gets these packets too. A UDP socket holds the port, so that nobody else gets it and no
 * "port unreachable" is sent; its filter drops all. UDP_GRO on it lets network cards and drivers reassemble what was
 * segmented; without it the kernel would also segment packets again before it drops them. It counts each as an error
 * (UdpInErrors). A full socket would count them, too. What would drop them before UDP, such as a packet filter, is the
 * administrator's to set up.
 *
 * Sending. A third packet socket, with PACKET_VNET_HDR. It does not bypass the queueing discipline: the bypass takes no
 * packet that the kernel has to segment.
 *
 * Packet sockets do this since Linux 6.2. On older kernels the UDP socket sends and receives the packets (gso_udp.c).
 * The second packet socket then has a ring of short slots, each of which announces a packet: so polling makes no system
 * call while there is none. A packet passes packet sockets first, so the UDP socket may have it some time later. It may
 * also drop a packet that was announced, and a full ring announces none: so the wait for a packet is limited, and the
 * UDP socket is asked now and then without an announcement. Both kinds are the same packets on the network.
 */
#define _GNU_SOURCE
#include "wire/offload.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/min.h"
#include "wire/gso_udp.h"
#include "wire/netif.h"
#include "wire/qos.h"
#include "wire/ring.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define SLOT_BYTES     65536
#define SLOTS_MIN      8       /* fewer than rx() may return: see offload_slot_waits() */
#define SHARED_BYTES   1048576 /* each of many ranks of a host has at least this, if it may have as much */
#define RESERVE_BYTES  10      /* so that the first frame begins at byte 128 */
#define PORT_OF_NOBODY 0       /* packets from this port are ignored */

/* Of UDP sockets. */
#define ANNOUNCE_BYTES 64    /* of each packet, in the ring */
#define ANNOUNCE_SLOT  192   /* with what the kernel puts before it */
#define ANNOUNCE_RING  65536 /* bytes */
#define LATE_POLLS     256   /* so often an announced packet may not be there */
#define UNASKED_POLLS  256   /* after so many without an announcement the socket is asked */

static_assert(sizeof(struct emx_offload_to) <= EMX_WIRE_ADDR_BYTES, "address of a wire with GSO packets");

struct emx_offload {
    int rx_fd, tx_fd;
    struct emx_gso_udp udp;
    bool by_udp; /* the UDP socket sends and receives the packets */
    struct emx_stats *stats;
    uint8_t tos; /* of IPv4 packets */

    struct emx_ring ring;
    uint16_t *lent;     /* by slot, or by buffer of UDP: frames in use, plus 1 while frames are being taken from it */
    struct emx_gso now; /* being taken apart */
    unsigned now_slot;
    bool now_open;
    uint8_t now_parts; /* of it, to be told with its first frame */

    /* With UDP sockets: */
    unsigned buffer;        /* the next one */
    uint32_t announced;     /* packets that were not received yet */
    unsigned late, unasked; /* polls */

    struct iovec iov[1 + 2 * EMX_WIRE_BATCH];
    struct {
        struct virtio_net_hdr vnet;
        uint8_t head[EMX_GSO_HEAD_BYTES];
    } __attribute__((packed)) front;
};

void emx_offload_addr(struct emx_wire_addr *a, unsigned ifindex, const uint8_t mac[6],
                      const struct emx_offload_way *way)
{
    struct emx_offload_to to;

    memset(&to, 0, sizeof(to)); /* destinations are compared byte by byte: what lies behind the last field too */
    to.ifindex = ifindex;
    memcpy(to.mac, mac, ETH_ALEN);
    if (way) {
        to.gso_bytes = way->frame_bytes;
        to.from_ip = way->from.s_addr;
        to.to_ip = way->to.s_addr;
        to.to_port = way->port;
    }
    memset(a, 0, sizeof(*a));
    memcpy(a, &to, sizeof(to));
}

struct emx_offload_to emx_offload_to(const struct emx_wire_addr *a)
{
    struct emx_offload_to to;

    memcpy(&to, a, sizeof(to));
    return to;
}

/* ---- Opening ---- */

/* Passes IPv4 packets, whole and without options, of UDP to our port with something in them. */
static int offload_attach_filter(const struct emx_offload *b)
{
    const uint32_t len_bytes = b->by_udp ? ANNOUNCE_BYTES : UINT32_MAX;
    enum { IP = ETH_HLEN, UDP = IP + 20 };
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, IP),      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x45, 0, 11),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, IP + 9),  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 9),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, UDP + 2), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, b->udp.port, 0, 7),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, IP + 6),  BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x3fff, 5, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, UDP),     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PORT_OF_NOBODY, 3, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, UDP + 4), BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, sizeof(struct udphdr), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, len_bytes),        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return setsockopt(b->rx_fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

/* The ring for whole packets, or for announcements. */
static int offload_open_ring(struct emx_offload *b, uint64_t ring_bytes)
{
    int on = 1, reserve = RESERVE_BYTES;

    if (b->by_udp)
        return emx_ring_open(&b->ring, b->rx_fd, ANNOUNCE_RING, ANNOUNCE_SLOT, SLOTS_MIN);
    if (setsockopt(b->rx_fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) ||
        setsockopt(b->rx_fd, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof(reserve)))
        return -1;
    return emx_ring_open(&b->ring, b->rx_fd, ring_bytes, SLOT_BYTES, SLOTS_MIN);
}

static int offload_open_rx(struct emx_offload *b, uint64_t ring_bytes)
{
    struct sockaddr_ll all = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP)};
    int version = TPACKET_V2, on = 1;

    b->rx_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (b->rx_fd < 0)
        return -1;
    setsockopt(b->rx_fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
    if (offload_attach_filter(b) || setsockopt(b->rx_fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
        offload_open_ring(b, ring_bytes))
        return -1;
    b->lent = calloc(b->by_udp ? EMX_GSO_UDP_BUFFERS : b->ring.slot_count, sizeof(*b->lent));
    return b->lent ? bind(b->rx_fd, (const struct sockaddr *)&all, sizeof(all)) : -1;
}

static int offload_open_tx(struct emx_offload *b, const struct emx_wire_params *params)
{
    int bytes = params->cfg->p_ring > INT32_MAX / 2 ? INT32_MAX / 2 : (int)params->cfg->p_ring, on = 1;

    b->tx_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (b->tx_fd < 0 || setsockopt(b->tx_fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)))
        return -1;
    if (setsockopt(b->tx_fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)))
        setsockopt(b->tx_fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    emx_qos_set_priority(b->tx_fd, params->cfg);
    return 0;
}

static int offload_send_way(struct emx_offload *b, unsigned ifindex, const struct emx_gso_way *way,
                            const struct emx_txframe *f, unsigned n);

/* Kernels before 6.2 know no such packets, neither sending nor receiving. So one is sent over loopback, to our port but
 * from nobody: our own filter drops it. */
static bool offload_kernel_has_gso(struct emx_offload *b, const struct emx_netifs *netifs)
{
    struct emx_gso_way way = {.from_ip = htonl(INADDR_LOOPBACK),
                              .to_ip = htonl(INADDR_LOOPBACK),
                              .from_port = PORT_OF_NOBODY,
                              .to_port = b->udp.port};
    static const uint8_t zeros[64];
    struct emx_txframe f[2] = {{.head = zeros, .head_bytes = sizeof(zeros)},
                               {.head = zeros, .head_bytes = sizeof(zeros)}};

    return !netifs->loopback_index || offload_send_way(b, netifs->loopback_index, &way, f, 2) != EINVAL;
}

/* Sets up GSO packets over one kind of socket. NULL: they do not work; why has the reason. */
static struct emx_offload *offload_open_by(const struct emx_wire_params *params, bool by_udp, char *why,
                                           size_t why_len_bytes)
{
    /* The ranks of a host share its pull window, so what comes to each is a part of it, and the ring is the same part.
     */
    uint64_t ring_bytes = emx_part(params->cfg->p_gso_ring, params->local_ranks, SHARED_BYTES);
    struct emx_offload *b = calloc(1, sizeof(*b));

    if (!b) {
        snprintf(why, why_len_bytes, "out of memory");
        return NULL;
    }
    b->rx_fd = b->tx_fd = b->udp.fd = -1;
    b->stats = params->stats;
    b->tos = emx_qos_tos(params->cfg);
    b->by_udp = by_udp;
    if (emx_gso_udp_open(&b->udp, params, by_udp, ring_bytes) || offload_open_rx(b, ring_bytes) ||
        (!by_udp && offload_open_tx(b, params))) {
        snprintf(why, why_len_bytes, "%s", strerror(errno));
    } else if (!by_udp && !offload_kernel_has_gso(b, params->netifs)) {
        snprintf(why, why_len_bytes, "they need Linux 6.2");
    } else {
        return b;
    }
    emx_offload_close(b);
    return NULL;
}

struct emx_offload *emx_offload_open(const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    const enum emx_gso_sockets sockets = (enum emx_gso_sockets)params->cfg->p_gso;
    char packet_why[128] = "ETHMX_GSO", udp_why[128] = "ETHMX_GSO";
    struct emx_offload *b = NULL;

    if (!params->cfg->p_gso_ring || sockets == EMX_GSO_OFF) {
        snprintf(why, why_len_bytes, "GSO packets off (%s)", params->cfg->p_gso_ring ? "ETHMX_GSO" : "ETHMX_GSO_RING");
        return NULL;
    }
    if (sockets != EMX_GSO_UDP)
        b = offload_open_by(params, false, packet_why, sizeof(packet_why));
    if (!b && sockets != EMX_GSO_PACKET)
        b = offload_open_by(params, true, udp_why, sizeof(udp_why));
    if (!b)
        snprintf(why, why_len_bytes, "GSO packets off: packet sockets: %s; UDP sockets: %s", packet_why, udp_why);
    else if (b->by_udp)
        snprintf(why, why_len_bytes, "GSO packets through UDP sockets (port %u; packet sockets: %s)", b->udp.port,
                 packet_why);
    else
        snprintf(why, why_len_bytes, "%u GSO packets (port %u)", b->ring.slot_count, b->udp.port);
    return b;
}

void emx_offload_close(struct emx_offload *b)
{
    if (!b)
        return;
    emx_ring_close(&b->ring);
    if (b->rx_fd >= 0)
        close(b->rx_fd);
    if (b->tx_fd >= 0)
        close(b->tx_fd);
    emx_gso_udp_close(&b->udp);
    free(b->lent);
    free(b);
}

uint16_t emx_offload_port(const struct emx_offload *b)
{
    return b->udp.port;
}

int emx_offload_fd(const struct emx_offload *b)
{
    return b->by_udp ? b->udp.fd : b->rx_fd;
}

int emx_offload_fanout_fd(const struct emx_offload *b)
{
    return b->rx_fd;
}

/* ---- Sending ---- */

unsigned emx_offload_joinable(const struct emx_txframe *f, unsigned n)
{
    if (!f->gso || emx_gso_frame_bytes(f) > emx_offload_to(f->to).gso_bytes)
        return 0;
    return emx_gso_fit(f, n, EMX_GSO_MAX, true);
}

static int offload_send_way(struct emx_offload *b, unsigned ifindex, const struct emx_gso_way *way,
                            const struct emx_txframe *f, unsigned n)
{
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = (int)ifindex};
    struct msghdr msg = {.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = b->iov};
    size_t len_bytes = 0;

    b->iov[0] = (struct iovec){.iov_base = &b->front, .iov_len = sizeof(b->front)};
    msg.msg_iovlen = 1 + emx_gso_iov(b->iov + 1, f, n);
    for (unsigned i = 0; i < n; i++)
        len_bytes += emx_gso_frame_bytes(&f[i]);
    b->front.vnet = (struct virtio_net_hdr){.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                            .gso_type = VIRTIO_NET_HDR_GSO_NONE,
                                            .hdr_len = EMX_GSO_HEAD_BYTES,
                                            .csum_start = EMX_GSO_HEAD_BYTES - sizeof(struct udphdr),
                                            .csum_offset = offsetof(struct udphdr, check)};
    if (n > 1) {
        b->front.vnet.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
        b->front.vnet.gso_size = (uint16_t)emx_gso_frame_bytes(f);
    }
    emx_gso_head(b->front.head, way, len_bytes);
    return sendmsg(b->tx_fd, &msg, MSG_DONTWAIT) < 0 ? errno : 0;
}

int emx_offload_send(struct emx_offload *b, const uint8_t from_mac[6], const struct emx_txframe *f, unsigned n)
{
    struct emx_offload_to to = emx_offload_to(f->to);
    struct emx_gso_way way = {
        .from_ip = to.from_ip, .to_ip = to.to_ip, .from_port = b->udp.port, .to_port = to.to_port, .tos = b->tos};

    if (b->by_udp)
        return emx_gso_udp_send(&b->udp, to.ifindex, &way, f, n);
    memcpy(way.from_mac, from_mac, ETH_ALEN);
    memcpy(way.to_mac, to.mac, ETH_ALEN);
    return offload_send_way(b, to.ifindex, &way, f, n);
}

/* ---- Receiving ---- */

static void offload_put_slot(struct emx_offload *b, unsigned slot)
{
    if (!--b->lent[slot] && !b->by_udp)
        emx_ring_give_back(&b->ring, slot);
}

/* Begins with the packet in `slot`, which b->now describes. */
static void offload_begin(struct emx_offload *b, unsigned slot)
{
    b->stats->wire_lost += b->now.lost;
    b->stats->gso_packets_received += b->now.parts > 1;
    b->lent[slot] = 1;
    b->now_slot = slot;
    b->now_open = true;
    b->now_parts = b->now.parts > 1 ? (uint8_t)(b->now.parts < UINT8_MAX ? b->now.parts : UINT8_MAX) : 0;
}

/* Opens the next packet of the ring. false: it has no frames. */
static bool offload_open_packet(struct emx_offload *b, unsigned slot)
{
    const struct tpacket2_hdr *h = emx_ring_slot(&b->ring, slot);
    const uint8_t *mac = (const uint8_t *)h + h->tp_mac, *ip = (const uint8_t *)h + h->tp_net;
    struct virtio_net_hdr vnet;

    memcpy(&vnet, mac - sizeof(vnet), sizeof(vnet));
    if (vnet.gso_type != VIRTIO_NET_HDR_GSO_UDP_L4)
        vnet.gso_size = 0;
    return ip - mac == ETH_HLEN && h->tp_snaplen >= ETH_HLEN &&
           emx_gso_open(&b->now, ip, h->tp_snaplen - ETH_HLEN, vnet.gso_size);
}

/* The next packet's status word, 0: there is none. A slot in use still looks full: in a ring with few slots all may be
 * in use, and then the next is the first of them again. */
static uint32_t offload_slot_waits(const struct emx_offload *b)
{
    return b->lent[b->ring.next] ? 0 : emx_ring_peek(&b->ring);
}

/* Begins with the next packet of the ring. false: there is none. */
static bool offload_take_from_ring(struct emx_offload *b)
{
    uint32_t status;
    unsigned slot;

    while ((status = offload_slot_waits(b))) {
        if (status & TP_STATUS_LOSING)
            b->stats->wire_lost += emx_ring_drops(&b->ring);
        slot = emx_ring_take(&b->ring);
        if (offload_open_packet(b, slot)) {
            offload_begin(b, slot);
            return true;
        }
        b->stats->wire_lost++;
        emx_ring_give_back(&b->ring, slot);
    }
    return false;
}

static void offload_count_announcements(struct emx_offload *b)
{
    uint32_t status;

    while ((status = emx_ring_peek(&b->ring))) {
        if (status & TP_STATUS_LOSING) { /* no packet is lost, so it is not counted; this resets the flag */
            emx_ring_drops(&b->ring);
            b->unasked = UNASKED_POLLS;
        }
        emx_ring_give_back(&b->ring, emx_ring_take(&b->ring));
        b->announced++;
        b->late = 0;
    }
}

/* Begins with the next packet of the UDP socket. false: there is none, or no buffer is free. */
static bool offload_take_from_udp(struct emx_offload *b)
{
    unsigned i = b->buffer;

    offload_count_announcements(b);
    if (b->lent[i] || (!b->announced && ++b->unasked < UNASKED_POLLS))
        return false;
    if (!emx_gso_udp_receive(&b->udp, i, &b->now)) {
        b->unasked = 0;
        if (b->announced && ++b->late == LATE_POLLS)
            b->announced = b->late = 0;
        return false;
    }
    b->unasked = b->announced ? 0 : UNASKED_POLLS; /* further ones may have come without an announcement */
    b->announced -= b->announced > 0;
    b->late = 0;
    b->buffer = (i + 1) % EMX_GSO_UDP_BUFFERS;
    offload_begin(b, i);
    return true;
}

bool emx_offload_waits(const struct emx_offload *b)
{
    return b->now_open || b->announced || (b->by_udp ? emx_ring_peek(&b->ring) : offload_slot_waits(b));
}

unsigned emx_offload_rx(struct emx_offload *b, struct emx_rxframe *f, unsigned max)
{
    uint32_t len_bytes;
    const uint8_t *data;
    unsigned n = 0;

    while (n < max) {
        if (!b->now_open && !(b->by_udp ? offload_take_from_udp(b) : offload_take_from_ring(b)))
            break;
        while (n < max && (data = emx_gso_next(&b->now, &len_bytes))) {
            f[n++] = (struct emx_rxframe){.data = data,
                                          .len_bytes = len_bytes,
                                          .cookie = EMX_OFFLOAD_COOKIE | b->now_slot,
                                          .parts = b->now_parts,
                                          .marked = b->now.marked};
            b->now_parts = 0;
            b->lent[b->now_slot]++;
        }
        if (!b->now.left_bytes) {
            b->now_open = false;
            offload_put_slot(b, b->now_slot);
        }
    }
    return n;
}

void emx_offload_return(struct emx_offload *b, uint32_t cookie)
{
    offload_put_slot(b, cookie & ~EMX_OFFLOAD_COOKIE);
}
