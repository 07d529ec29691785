/* SPDX-License-Identifier: BSD-3-Clause
 *
 * With PACKET_VNET_HDR the kernel's header on segmentation precedes each packet. Kernels have known TCP there for as
 * long as they have had the option.
 */
#define _GNU_SOURCE
#include "wire/tso_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/min.h"
#include "wire/qos.h"
#include "wire/ring.h"
#include "wire/udp_socket.h"

#define LINEAR_BYTES 32000 /* of a packet, in one block of the kernel's memory */

/* What precedes the data. */
struct tso_front {
    struct virtio_net_hdr vnet;
    uint8_t head[EMX_TSO_HEAD_BYTES];
} __attribute__((packed));

void emx_tso_filter(struct sock_filter code[EMX_TSO_FILTER_CODES], uint16_t port, uint32_t bytes, uint32_t short_bytes)
{
    enum { IP = ETH_HLEN, TCP = IP + 20, OPTION = TCP + 20 };
    const struct sock_filter filter[EMX_TSO_FILTER_CODES] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, IP + 9),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 15),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, IP + 16),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 12),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, IP),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x45, 0, 10),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, TCP + 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 8),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, IP + 6),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x3fff, 6, 0),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, OPTION),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EMX_TSO_DATA_OPTION, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, EMX_TSO_SHORT_BYTES, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, bytes),
        BPF_STMT(BPF_RET | BPF_K, short_bytes),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };

    memcpy(code, filter, sizeof(filter));
}

int emx_tso_attach_filter(int fd, uint16_t port, uint32_t bytes, uint32_t short_bytes)
{
    struct sock_filter code[EMX_TSO_FILTER_CODES + 1];
    struct sock_fprog prog = {.len = EMX_TSO_FILTER_CODES + 1, .filter = code};

    emx_tso_filter(code, port, bytes, short_bytes);
    code[EMX_TSO_FILTER_CODES] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

/* From now on the kernel's header on segmentation precedes each packet. Returns fd; or closes it, -1 and errno. */
static int tso_take_vnet(int fd)
{
    int on = 1, err;

    if (fd < 0 || !setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)))
        return fd;
    err = errno;
    close(fd);
    errno = err;
    return -1;
}

int emx_tso_open_rx(uint16_t port, uint64_t buffer_bytes)
{
    const struct sockaddr_ll all = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP)};
    int fd = tso_take_vnet(emx_ring_socket()), err;

    if (fd < 0)
        return -1;
    emx_socket_size_buffer(fd, SO_RCVBUF, buffer_bytes);
    if (!emx_tso_attach_filter(fd, port, UINT32_MAX, UINT32_MAX) &&
        !bind(fd, (const struct sockaddr *)&all, sizeof(all)))
        return fd;
    err = errno;
    close(fd);
    errno = err;
    return -1;
}

int emx_tso_open_tx(const struct emx_wire_params *params)
{
    int fd = tso_take_vnet(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

    if (fd >= 0) {
        emx_socket_size_buffer(fd, SO_SNDBUF, params->cfg->p_ring);
        emx_qos_set_priority(fd, params->cfg);
    }
    return fd;
}

/* ---- Sending ---- */

/* How much of a packet the kernel is to put into one block: before Linux 6.6 it takes the rest page by page
 * (sock_alloc_send_pskb()). TCP's data lies in blocks of 32 KB, too; longer ones are scarce. But a kernel that segments
 * the packet copies what is in the block. */
static uint16_t tso_linear_bytes(const struct emx_gso_way *way, size_t packet_bytes)
{
    return (uint16_t)(way->segments ? emx_min(packet_bytes, LINEAR_BYTES) : EMX_TSO_HEAD_BYTES);
}

int emx_tso_send(int fd, unsigned ifindex, const struct emx_gso_way *way, const struct emx_txframe *f)
{
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = (int)ifindex};
    struct tso_front front;
    struct iovec iov[2] = {{.iov_base = &front, .iov_len = sizeof(front)},
                           {.iov_base = (void *)f->body, .iov_len = f->body_bytes}};
    struct msghdr msg = {.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = iov, .msg_iovlen = 2};

    front.vnet = (struct virtio_net_hdr){.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                         .gso_type = VIRTIO_NET_HDR_GSO_NONE,
                                         .hdr_len = tso_linear_bytes(way, EMX_TSO_HEAD_BYTES + f->body_bytes),
                                         .csum_start = EMX_TSO_HEAD_BYTES - EMX_TSO_TCP_BYTES,
                                         .csum_offset = offsetof(struct tcphdr, check)};
    if (f->body_bytes > f->chunk_bytes) {
        front.vnet.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
        front.vnet.gso_size = f->chunk_bytes;
    }
    emx_tso_head(front.head, way, f);
    return sendmsg(fd, &msg, MSG_DONTWAIT) < 0 ? errno : 0;
}

/* ---- Receiving ---- */

/* Reads the headers of the next packet, and leaves it there. false: there is none. */
static bool tso_look(int fd, struct tso_front *front_p)
{
    memset(front_p, 0, sizeof(*front_p));
    return recv(fd, front_p, sizeof(*front_p), MSG_PEEK | MSG_DONTWAIT) >= 0;
}

static const uint8_t *tso_ip(const struct tso_front *front)
{
    return front->head + ETH_HLEN;
}

/* The next packet is of no use. */
static void tso_drop(int fd, struct emx_gso_rx *r)
{
    char unused;

    emx_gso_rx_lost(r);
    (void)!recv(fd, &unused, sizeof(unused), MSG_DONTWAIT);
}

/* Whether the packet that lies at front and iov is as it was sent. A packet without a checksum has not left the host.
 */
static bool tso_is_whole(const struct tso_front *front, const struct emx_tso *t, const struct iovec *iov, unsigned n)
{
    return !t->checked || front->vnet.flags & (VIRTIO_NET_HDR_F_NEEDS_CSUM | VIRTIO_NET_HDR_F_DATA_VALID) ||
           emx_tso_sum_fits(tso_ip(front), iov, n, t->data_bytes);
}

static void tso_take(struct emx_gso_rx *r, const struct emx_tso *t)
{
    memcpy(emx_gso_rx_head(r), &t->head, sizeof(t->head));
    emx_gso_rx_done(r, sizeof(t->head) + t->data_bytes, 0, t->marked);
    r->tso = true;
    r->counts = t->counts;
    r->parts = t->chunks > 1 ? (uint8_t)emx_min_u(t->chunks, UINT8_MAX) : 0;
}

bool emx_tso_receive(int fd, struct emx_gso_rx *r, const struct emx_tso *seen)
{
    struct tso_front front;
    struct msghdr msg = {.msg_iov = r->iov};
    struct emx_tso looked, t;
    ssize_t got;

    if (!seen) {
        if (!tso_look(fd, &front))
            return false;
        if (!emx_tso_open(&looked, tso_ip(&front))) {
            tso_drop(fd, r);
            return true;
        }
        seen = &looked;
    }
    r->iov[0] = (struct iovec){.iov_base = &front, .iov_len = sizeof(front)};
    msg.msg_iovlen = 1 + emx_gso_rx_prepare_data(r, &seen->head, sizeof(seen->head), seen->data_bytes);
    got = recvmsg(fd, &msg, MSG_DONTWAIT);
    if (got < 0) {
        emx_gso_rx_failed(r, errno == EFAULT);
        return false;
    }
    if ((size_t)got < sizeof(front) || !emx_tso_open(&t, tso_ip(&front)) ||
        t.data_bytes > (size_t)got - sizeof(front) ||
        !tso_is_whole(&front, &t, r->iov + 1, (unsigned)msg.msg_iovlen - 1))
        emx_gso_rx_lost(r);
    else
        tso_take(r, &t);
    return true;
}
