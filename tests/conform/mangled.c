/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "../unit/unit.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <netinet/ip.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mangled.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define UDP_AT          (EMX_GSO_HEAD_BYTES - 8)
#define CHECKSUM_IN_UDP 6

void mangled_init(struct mangled *m, const struct end *from, const struct end *to, uint32_t first, unsigned n,
                  unsigned len_bytes)
{
    static struct frame f;

    assert_true(n <= MANGLED_FRAMES && len_bytes <= 256);
    for (unsigned i = 0; i < n; i++) {
        frame_make(&f, from, to, first + i, len_bytes);
        memcpy(m->frames + i * len_bytes, f.bytes, len_bytes);
    }
    m->told_bytes = m->sent_bytes = n * len_bytes;
    m->part_bytes = len_bytes;
    m->marked = false;
}

struct emx_gso_way mangled_way(const struct end *from, const struct end *to)
{
    bool same = from->host == to->host;
    struct emx_gso_way way = {.from_port = 9, .to_port = to->gso_port};

    if (!way.to_port)
        way.to_port = to->port;
    assert_true(emx_ip_parse(&way.from_ip, same ? "127.0.0.1" : from->host->ip));
    assert_true(emx_ip_parse(&way.to_ip, same ? "127.0.0.1" : to->host->ip));
    if (!same) {
        memcpy(way.from_mac, from->host->mac, sizeof(way.from_mac));
        memcpy(way.to_mac, to->host->mac, sizeof(way.to_mac));
    }
    return way;
}

void mangled_send_pieces(const struct end *from, const struct end *to, struct iovec *iov, unsigned pieces)
{
    bool same = from->host == to->host;
    struct sockaddr_ll ll = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(ETH_P_IP),
                             .sll_ifindex = (int)(same ? from->host->netifs.loopback_index : from->host->eth0_index)};
    struct msghdr msg = {.msg_name = &ll, .msg_namelen = sizeof(ll), .msg_iov = iov, .msg_iovlen = pieces};
    int fd, on = 1;

    host_enter(from->host);
    fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)), 0);
    assert_true(sendmsg(fd, &msg, 0) > 0);
    close(fd);
}

/* From "may be marked" to "is": one more in the IPv4 header, one less in its checksum. */
static void mark(uint8_t head[EMX_GSO_HEAD_BYTES])
{
    uint8_t *ip = head + ETH_HLEN;

    ip[1]++;
    ip[10] = (uint8_t)(ip[10] - !ip[11]);
    ip[11]--;
}

void mangled_send(const struct mangled *m, const struct end *from, const struct end *to)
{
    struct emx_gso_way way = mangled_way(from, to);
    uint8_t head[EMX_GSO_HEAD_BYTES];
    struct virtio_net_hdr vnet = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                  .gso_type = m->part_bytes ? VIRTIO_NET_HDR_GSO_UDP_L4 : VIRTIO_NET_HDR_GSO_NONE,
                                  .gso_size = (uint16_t)m->part_bytes,
                                  .hdr_len = sizeof(head),
                                  .csum_start = UDP_AT,
                                  .csum_offset = CHECKSUM_IN_UDP};
    struct iovec iov[] = {{.iov_base = &vnet, .iov_len = sizeof(vnet)},
                          {.iov_base = head, .iov_len = sizeof(head)},
                          {.iov_base = (void *)m->frames, .iov_len = m->sent_bytes}};

    way.tos = m->marked ? IPTOS_ECN_ECT0 : IPTOS_ECN_NOT_ECT;
    emx_gso_head(head, &way, m->told_bytes);
    if (m->marked)
        mark(head);
    mangled_send_pieces(from, to, iov, 3);
}

void mangled_send_headers(const struct mangled *m, const struct end *from, const struct end *to, unsigned len_bytes)
{
    struct emx_gso_way way = mangled_way(from, to);
    uint8_t head[EMX_GSO_HEAD_BYTES];
    struct virtio_net_hdr vnet = {.gso_type = VIRTIO_NET_HDR_GSO_NONE};
    struct iovec iov[] = {{.iov_base = &vnet, .iov_len = sizeof(vnet)}, {.iov_base = head, .iov_len = len_bytes}};

    assert_true(len_bytes <= sizeof(head));
    emx_gso_head(head, &way, m->told_bytes);
    mangled_send_pieces(from, to, iov, 2);
}

/* Marks the frame's bit in seen, if it is whole. It may begin at any byte. */
static void take_frame(const struct emx_rxframe *rx, uint32_t first, uint32_t mask, uint32_t *seen)
{
    static _Alignas(8) uint8_t copy[65536];
    struct emx_rxframe aligned = {.data = copy, .len_bytes = rx->len_bytes};
    unsigned number, len;

    assert_true(rx->len_bytes <= sizeof(copy));
    memcpy(copy, rx->data, rx->len_bytes);
    if (!frame_is_whole(&aligned))
        return;
    number = frame_check(&aligned, &len) - first;
    if (number >= 32 || !(mask >> number & 1))
        fail_msg("frame %u came whole", first + number);
    assert_false(*seen >> number & 1);
    *seen |= 1u << number;
}

void mangled_expect(struct end *to, uint32_t first, uint32_t mask)
{
    struct emx_rxframe rx[EMX_WIRE_BATCH];
    uint32_t seen = 0;
    unsigned n;

    do {
        n = seen == mask ? to->ops->rx(to->w, rx, EMX_WIRE_BATCH) : end_wait(to, rx, EMX_WIRE_BATCH);
        if (!n && seen != mask)
            fail_msg("of frames %#x from %u on, %#x came", mask, first, seen);
        for (unsigned i = 0; i < n; i++)
            take_frame(&rx[i], first, mask, &seen);
        to->ops->rx_return(to->w, rx, n);
    } while (n);
}
