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
#include "wire/netif.h"
#include "wire/qos.h"
#include "wire/ring.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define SLOT_BYTES     65536
#define SLOTS_MIN      8       /* fewer than rx() may return: see offload_slot_waits() */
#define SHARED_BYTES   1048576 /* each of many ranks of a host has at least this, if it may have as much */
#define RESERVE_BYTES  10      /* so that the first frame begins at byte 128 */
#define PORT_OF_NOBODY 0       /* packets from this port are ignored */

static_assert(sizeof(struct emx_offload_to) <= EMX_WIRE_ADDR_BYTES, "address of a wire with GSO packets");

struct emx_offload {
    int rx_fd, tx_fd, udp_fd;
    struct emx_stats *stats;
    uint16_t port; /* host order */
    uint8_t tos;   /* of IPv4 packets */

    struct emx_ring ring;
    uint16_t *lent;     /* by slot: frames in use, plus 1 while frames are being taken from it */
    struct emx_gso now; /* being taken apart */
    unsigned now_slot;
    bool now_open;
    uint8_t now_parts; /* of it, to be told with its first frame */

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

/* The socket that holds the port: nothing gets into it. */
static int offload_open_udp(struct emx_offload *b)
{
    struct sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog prog = {.len = 1, .filter = drop_all};
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t len = sizeof(any);
    int on = 1, smallest = 1;

    b->udp_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (b->udp_fd < 0 || setsockopt(b->udp_fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ||
        setsockopt(b->udp_fd, SOL_UDP, UDP_GRO, &on, sizeof(on)) ||
        setsockopt(b->udp_fd, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof(smallest)) ||
        bind(b->udp_fd, (const struct sockaddr *)&any, sizeof(any)) ||
        getsockname(b->udp_fd, (struct sockaddr *)&any, &len))
        return -1;
    b->port = ntohs(any.sin_port);
    return 0;
}

/* Passes IPv4 packets, whole and without options, of UDP to our port with something in them. */
static int offload_attach_filter(const struct emx_offload *b)
{
    enum { IP = ETH_HLEN, UDP = IP + 20 };
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, IP),      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x45, 0, 11),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, IP + 9),  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 9),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, UDP + 2), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, b->port, 0, 7),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, IP + 6),  BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x3fff, 5, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, UDP),     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PORT_OF_NOBODY, 3, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, UDP + 4), BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, sizeof(struct udphdr), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),       BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return setsockopt(b->rx_fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

static int offload_open_rx(struct emx_offload *b, const struct emx_wire_params *params)
{
    struct sockaddr_ll all = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP)};
    int version = TPACKET_V2, on = 1, reserve = RESERVE_BYTES;
    /* The ranks of a host share its pull window, so what comes to each is a part of it, and the ring is the same part.
     */
    uint64_t ring_bytes = emx_part(params->cfg->p_gso_ring, params->local_ranks, SHARED_BYTES);

    b->rx_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (b->rx_fd < 0)
        return -1;
    setsockopt(b->rx_fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
    if (offload_attach_filter(b) || setsockopt(b->rx_fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
        setsockopt(b->rx_fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) ||
        setsockopt(b->rx_fd, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof(reserve)) ||
        emx_ring_open(&b->ring, b->rx_fd, ring_bytes, SLOT_BYTES, SLOTS_MIN))
        return -1;
    b->lent = calloc(b->ring.slot_count, sizeof(*b->lent));
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
                              .to_port = b->port};
    static const uint8_t zeros[64];
    struct emx_txframe f[2] = {{.head = zeros, .head_bytes = sizeof(zeros)},
                               {.head = zeros, .head_bytes = sizeof(zeros)}};

    return !netifs->loopback_index || offload_send_way(b, netifs->loopback_index, &way, f, 2) != EINVAL;
}

struct emx_offload *emx_offload_open(const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    struct emx_offload *b;

    if (!params->cfg->p_gso_ring) {
        snprintf(why, why_len_bytes, "GSO packets off (ETHMX_GSO_RING)");
        return NULL;
    }
    b = calloc(1, sizeof(*b));
    if (!b) {
        snprintf(why, why_len_bytes, "GSO packets off: out of memory");
        return NULL;
    }
    b->rx_fd = b->tx_fd = b->udp_fd = -1;
    b->stats = params->stats;
    b->tos = emx_qos_tos(params->cfg);
    if (offload_open_udp(b) || offload_open_rx(b, params) || offload_open_tx(b, params)) {
        snprintf(why, why_len_bytes, "GSO packets off: %s", strerror(errno));
    } else if (!offload_kernel_has_gso(b, params->netifs)) {
        snprintf(why, why_len_bytes, "GSO packets off: they need Linux 6.2");
    } else {
        snprintf(why, why_len_bytes, "%u GSO packets (port %u)", b->ring.slot_count, b->port);
        return b;
    }
    emx_offload_close(b);
    return NULL;
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
    if (b->udp_fd >= 0)
        close(b->udp_fd);
    free(b->lent);
    free(b);
}

uint16_t emx_offload_port(const struct emx_offload *b)
{
    return b->port;
}

int emx_offload_fd(const struct emx_offload *b)
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
    struct msghdr msg = {.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = b->iov, .msg_iovlen = 1};
    size_t len_bytes = 0;

    b->iov[0] = (struct iovec){.iov_base = &b->front, .iov_len = sizeof(b->front)};
    for (unsigned i = 0; i < n; i++) {
        b->iov[msg.msg_iovlen++] = (struct iovec){.iov_base = (void *)f[i].head, .iov_len = f[i].head_bytes};
        if (f[i].body_bytes)
            b->iov[msg.msg_iovlen++] = (struct iovec){.iov_base = (void *)f[i].body, .iov_len = f[i].body_bytes};
        len_bytes += emx_gso_frame_bytes(&f[i]);
    }
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
        .from_ip = to.from_ip, .to_ip = to.to_ip, .from_port = b->port, .to_port = to.to_port, .tos = b->tos};

    memcpy(way.from_mac, from_mac, ETH_ALEN);
    memcpy(way.to_mac, to.mac, ETH_ALEN);
    return offload_send_way(b, to.ifindex, &way, f, n);
}

/* ---- Receiving ---- */

static void offload_put_slot(struct emx_offload *b, unsigned slot)
{
    if (!--b->lent[slot])
        emx_ring_give_back(&b->ring, slot);
}

/* Begins with the next packet. false: it has no frames. */
static bool offload_take_packet(struct emx_offload *b)
{
    unsigned slot = emx_ring_take(&b->ring);
    const struct tpacket2_hdr *h = emx_ring_slot(&b->ring, slot);
    const uint8_t *mac = (const uint8_t *)h + h->tp_mac, *ip = (const uint8_t *)h + h->tp_net;
    struct virtio_net_hdr vnet;

    memcpy(&vnet, mac - sizeof(vnet), sizeof(vnet));
    if (vnet.gso_type != VIRTIO_NET_HDR_GSO_UDP_L4)
        vnet.gso_size = 0;
    if (ip - mac != ETH_HLEN || h->tp_snaplen < ETH_HLEN ||
        !emx_gso_open(&b->now, ip, h->tp_snaplen - ETH_HLEN, vnet.gso_size)) {
        b->stats->wire_lost++;
        emx_ring_give_back(&b->ring, slot);
        return false;
    }
    b->stats->wire_lost += b->now.lost;
    b->stats->gso_packets_received += b->now.parts > 1;
    b->lent[slot] = 1;
    b->now_slot = slot;
    b->now_open = true;
    b->now_parts = b->now.parts > 1 ? (uint8_t)(b->now.parts < UINT8_MAX ? b->now.parts : UINT8_MAX) : 0;
    return true;
}

/* The next packet's status word, 0: there is none. A slot in use still looks full: in a ring with few slots all may be
 * in use, and then the next is the first of them again. */
static uint32_t offload_slot_waits(const struct emx_offload *b)
{
    return b->lent[b->ring.next] ? 0 : emx_ring_peek(&b->ring);
}

bool emx_offload_waits(const struct emx_offload *b)
{
    return b->now_open || offload_slot_waits(b);
}

unsigned emx_offload_rx(struct emx_offload *b, struct emx_rxframe *f, unsigned max)
{
    uint32_t status, len_bytes;
    const uint8_t *data;
    unsigned n = 0;

    while (n < max) {
        if (!b->now_open) {
            if (!(status = offload_slot_waits(b)))
                break;
            if (status & TP_STATUS_LOSING)
                b->stats->wire_lost += emx_ring_drops(&b->ring);
            if (!offload_take_packet(b))
                continue;
        }
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
