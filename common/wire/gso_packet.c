/* SPDX-License-Identifier: BSD-3-Clause
 *
 * With PACKET_VNET_HDR the kernel's header on segmentation precedes each packet. The socket does not bypass the
 * queueing discipline: the bypass takes no packet that the kernel has to segment.
 */
#define _GNU_SOURCE
#include "wire/gso_packet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/min.h"
#include "wire/gso_filter.h"
#include "wire/netif.h"
#include "wire/qos.h"
#include "wire/tso_socket.h"
#include "wire/udp_socket.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define PORT_OF_NOBODY 0 /* packets from this port are ignored */

/* The socket's protocol tells the version of IPv6 packets, so their next header is looked at in place of the version.
 * That excludes fragments, too: the mask for these is 0. */
int emx_gso_packet_filter(int fd, bool v6, uint16_t port, unsigned loopback_index, uint32_t placed_bytes,
                          uint32_t other_bytes, uint32_t tso_bytes, uint32_t tso_short_bytes)
{
    enum { IP = ETH_HLEN, CHECKS = 13, TSO = EMX_TSO_FILTER_CODES };
    const uint32_t FRAME = emx_gso_head_bytes(v6), UDP = FRAME - sizeof(struct udphdr);
    const uint32_t proto_at = v6 ? IP + 6 : IP + 9;
    struct sock_filter code[] = {
        [TSO] = BPF_STMT(BPF_LD | BPF_B | BPF_ABS, v6 ? proto_at : IP),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v6 ? IPPROTO_UDP : 0x45, 0, 10),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, proto_at),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 8),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, UDP + 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 6),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, IP + 6),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, v6 ? 0 : 0x3fff, 4, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, UDP + 4),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, FRAME - UDP + 1, 0, 2),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, UDP),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PORT_OF_NOBODY, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        [TSO + CHECKS + EMX_GSO_FILTER_CODES - 1] = {0},
    };
    const unsigned from = tso_bytes ? 0 : TSO;
    struct sock_fprog prog = {.len = (unsigned short)(sizeof(code) / sizeof(code[0]) - from), .filter = code + from};

    emx_tso_filter(code, port, tso_bytes, tso_short_bytes);
    emx_gso_filter(code + TSO + CHECKS, UDP, loopback_index, placed_bytes, other_bytes);
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

/* Kernels before 6.2 know no such packets. So one is sent over loopback, to our port but
 * from nobody: our own filters drop it. */
static bool gso_packet_is_known(int fd, const struct emx_netifs *netifs, uint16_t port)
{
    const struct emx_ip loopback = emx_ip_from_v4(htonl(INADDR_LOOPBACK));
    struct emx_gso_way way = {.from_ip = loopback, .to_ip = loopback, .from_port = PORT_OF_NOBODY, .to_port = port};
    static const uint8_t zeros[64];
    struct emx_txframe f[2] = {{.head = zeros, .head_bytes = sizeof(zeros)},
                               {.head = zeros, .head_bytes = sizeof(zeros)}};

    return !netifs->loopback_index || emx_gso_packet_send(fd, netifs->loopback_index, &way, f, 2) != EINVAL;
}

int emx_gso_packet_open(const struct emx_wire_params *params, uint16_t port)
{
    int fd = emx_tso_open_tx(params);

    if (fd < 0 || gso_packet_is_known(fd, params->netifs, port))
        return fd;
    close(fd);
    errno = EOPNOTSUPP;
    return -1;
}

/* ---- Sending ---- */

int emx_gso_packet_send(int fd, unsigned ifindex, const struct emx_gso_way *way, const struct emx_txframe *f,
                        unsigned n)
{
    struct {
        struct virtio_net_hdr vnet;
        uint8_t head[EMX_GSO_HEAD_MOST];
    } __attribute__((packed)) front;
    const bool v6 = emx_ip_is_v6(&way->to_ip);
    const uint16_t head_bytes = (uint16_t)emx_gso_head_bytes(v6);
    struct sockaddr_ll to = {
        .sll_family = AF_PACKET, .sll_protocol = htons(v6 ? ETH_P_IPV6 : ETH_P_IP), .sll_ifindex = (int)ifindex};
    struct iovec iov[1 + 2 * EMX_WIRE_BATCH];
    struct msghdr msg = {.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = iov};
    size_t len_bytes = 0;

    iov[0] = (struct iovec){.iov_base = &front, .iov_len = sizeof(front.vnet) + head_bytes};
    msg.msg_iovlen = 1 + emx_gso_iov(iov + 1, f, n);
    for (unsigned i = 0; i < n; i++)
        len_bytes += emx_gso_frame_bytes(&f[i]);
    front.vnet = (struct virtio_net_hdr){.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                         .gso_type = VIRTIO_NET_HDR_GSO_NONE,
                                         .hdr_len = head_bytes,
                                         .csum_start = head_bytes - sizeof(struct udphdr),
                                         .csum_offset = offsetof(struct udphdr, check)};
    if (n > 1) {
        front.vnet.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
        front.vnet.gso_size = (uint16_t)emx_gso_frame_bytes(f);
    }
    emx_gso_head(front.head, way, len_bytes);
    return sendmsg(fd, &msg, MSG_DONTWAIT) < 0 ? errno : 0;
}
