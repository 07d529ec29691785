/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Network cards, bonds and routers with several paths spread packets by IP addresses and UDP ports, and do not look
 * into frames of another EtherType. So frames in UDP of several ranks arrive in several receive queues. They have a
 * type of service, and switches can mark them (ECN).
 *
 * Receiving. A packet socket with a ring, whose filter passes UDP packets to this endpoint's port. It is not the port
 * for GSO packets: those need slots of 64 KB. A UDP socket holds the port. It does not ask for UDP_GRO, so the kernel
 * merges no frames.
 *
 *     A slot:  0 status, lengths | 70 Ethernet header | 84 IPv4 | 104 UDP | 112 the ethmx frame ... up to slot_bytes
 *     of IPv6:                     | 82 Ethernet header | 96 IPv6 | 136 UDP | 144 the ethmx frame ...
 *
 * Sending. In IPv4 the UDP checksum is 0, which means that there is none. A frame has a check value of its own
 * (ETHMX_CHECKSUM), the IPv4 header has its checksum, and the Ethernet frame check covers each link, as for frames of
 * an EtherType. A port is unique on its host only, so the receiver also compares the endpoint's id.
 *
 * IPv6 has no checksum of its header, and requires that of UDP (RFC 8200). So the kernel is asked to complete it
 * (PACKET_VNET_HDR), or lets the network card do so. Then the kernel's header precedes all that this socket sends.
 */
#define _GNU_SOURCE
#include "wire/packet/packet_udp.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/udp.h>
#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/offload.h"

#define RESERVE_BYTES   4   /* so that the frame begins at FRAME_OFFSET */
#define RESERVE6_BYTES  16  /* the same of IPv6 */
#define FRAME_OFFSET    112 /* in a slot */
#define FRAME6_OFFSET   144
#define SLOTS_MIN       (2 * EMX_WIRE_BATCH) /* as of the other ring */
#define UDP_CHECKSUM_AT (EMX_GSO_HEAD_BYTES - 2)

static_assert(EMX_PACKET_VNET_BYTES == sizeof(struct virtio_net_hdr), "what the kernel takes before a packet");

unsigned emx_packet_udp_head(uint8_t *head, const struct emx_gso_way *way, size_t len_bytes)
{
    struct virtio_net_hdr vnet = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                  .gso_type = VIRTIO_NET_HDR_GSO_NONE,
                                  .hdr_len = EMX_GSO_HEAD_MOST,
                                  .csum_start = EMX_GSO_HEAD_MOST - sizeof(struct udphdr),
                                  .csum_offset = offsetof(struct udphdr, check)};

    if (emx_ip_is_v6(&way->to_ip)) {
        memcpy(head, &vnet, sizeof(vnet));
        return EMX_PACKET_VNET_BYTES + emx_gso_head(head + EMX_PACKET_VNET_BYTES, way, len_bytes);
    }
    emx_gso_head(head, way, len_bytes);
    memset(head + UDP_CHECKSUM_AT, 0, 2);
    return EMX_GSO_HEAD_BYTES;
}

/* Passes whole IP packets, without options or extension headers, of UDP to our port with something in them. Of IPv6,
 * whose version the socket's protocol tells, and whose fragments have an extension header, the next header is looked at
 * in place of these. */
static int packet_udp_attach_filter(const struct emx_packet_udp *u)
{
    enum { IP = ETH_HLEN };
    const uint32_t UDP = emx_gso_head_bytes(u->v6) - sizeof(struct udphdr), proto_at = u->v6 ? IP + 6 : IP + 9;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, UDP + 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, u->port.port, 0, 9),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, u->v6 ? proto_at : IP),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, u->v6 ? IPPROTO_UDP : 0x45, 0, 7),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, proto_at),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 5),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, IP + 6),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, u->v6 ? 0 : 0x3fff, 3, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, UDP + 4),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, sizeof(struct udphdr), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return setsockopt(u->rx_fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

static int packet_udp_open_rx(struct emx_packet_udp *u, const struct emx_wire_params *params, unsigned frame_bytes)
{
    int reserve = u->v6 ? RESERVE6_BYTES : RESERVE_BYTES;
    const unsigned slot_bytes = (u->v6 ? FRAME6_OFFSET : FRAME_OFFSET) + frame_bytes;
    const uint64_t ring_bytes = emx_ring_part_bytes(params->cfg->p_ring, params->local_ranks, slot_bytes);

    u->rx_fd = emx_ring_socket();
    if (u->rx_fd < 0)
        return -1;
    if (packet_udp_attach_filter(u) || setsockopt(u->rx_fd, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof(reserve)) ||
        emx_ring_open(&u->ring, u->rx_fd, ring_bytes, slot_bytes, SLOTS_MIN))
        return -1;
    return emx_ring_bind(&u->ring, htons(u->v6 ? ETH_P_IPV6 : ETH_P_IP));
}

int emx_packet_udp_open(struct emx_packet_udp *u, const struct emx_wire_params *params, unsigned frame_bytes)
{
    int err;

    *u = (struct emx_packet_udp){.rx_fd = -1,
                                 .v6 = emx_offload_is_v6(params->netifs),
                                 .port.fd = -1,
                                 .endpoint_id = params->endpoint_id,
                                 .stats = params->stats};
    if (!emx_udp_port_open(&u->port, u->v6) && !packet_udp_open_rx(u, params, frame_bytes))
        return 0;
    err = errno;
    emx_packet_udp_close(u);
    errno = err;
    return -1;
}

void emx_packet_udp_close(struct emx_packet_udp *u)
{
    emx_ring_close(&u->ring);
    if (u->rx_fd >= 0)
        close(u->rx_fd);
    u->rx_fd = -1;
    emx_udp_port_close(&u->port);
}

/* The frame in a slot. false: there is none, or it is truncated. */
static bool packet_udp_frame_in(const struct tpacket2_hdr *h, struct emx_rxframe *f_p)
{
    const uint8_t *ip = (const uint8_t *)h + h->tp_net;
    unsigned eth_bytes = (unsigned)h->tp_net - h->tp_mac;
    struct emx_gso packet;

    if (h->tp_snaplen < h->tp_len || h->tp_snaplen <= eth_bytes ||
        !emx_gso_open(&packet, ip, h->tp_snaplen - eth_bytes, 0) || packet.lost)
        return false;
    *f_p = (struct emx_rxframe){.data = packet.at, .len_bytes = packet.left_bytes, .marked = packet.marked};
    return true;
}

/* Only rx() reports what a frame has besides its bytes, and counts. */
struct emx_wire_peek emx_packet_udp_peek(const struct emx_packet_udp *u)
{
    uint32_t status = emx_ring_peek(&u->ring);
    struct emx_rxframe f;

    if (!status)
        return (struct emx_wire_peek){0};
    if (status & TP_STATUS_LOSING || !packet_udp_frame_in(emx_ring_slot(&u->ring, u->ring.next), &f) || f.marked ||
        !emx_packet_is_for(u->endpoint_id, f.data, f.len_bytes))
        return emx_wire_peek_rx();
    return (struct emx_wire_peek){f.data, f.len_bytes};
}

unsigned emx_packet_udp_rx(struct emx_packet_udp *u, struct emx_rxframe *f, unsigned max, uint64_t until_ns)
{
    struct emx_ring *r = &u->ring;
    unsigned n = 0, slot;
    uint32_t status;
    bool whole;

    while (n < max && (status = emx_ring_peek(r)) && !emx_ring_is_later(r, until_ns)) {
        if (status & TP_STATUS_LOSING)
            u->stats->wire_lost += emx_ring_drops(r);
        slot = emx_ring_take(r);
        whole = packet_udp_frame_in(emx_ring_slot(r, slot), &f[n]);
        if (whole && emx_packet_is_for(u->endpoint_id, f[n].data, f[n].len_bytes)) {
            f[n++].cookie = EMX_PACKET_UDP_COOKIE | slot;
            continue;
        }
        u->stats->drop_not_mine += whole;
        u->stats->wire_lost += !whole;
        emx_ring_give_back(r, slot);
    }
    return n;
}

void emx_packet_udp_return(struct emx_packet_udp *u, uint32_t cookie)
{
    emx_ring_give_back(&u->ring, cookie & ~EMX_PACKET_UDP_COOKIE);
}
