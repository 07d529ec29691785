/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UDP sockets send GSO packets since Linux 4.18 (UDP_SEGMENT) and receive them since 5.0 (UDP_GRO), which is long
 * before packet sockets do. Their way through the kernel is longer: routing, UDP's own checks, and the packet filter.
 *
 * The source address and the interface are those that were chosen for the way (IP_PKTINFO), so that routes of the
 * system do not send the packets elsewhere.
 */
#define _GNU_SOURCE
#include "wire/gso_udp.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/udp_socket.h"

#define BUFFER_BYTES 65536

/* Ancillary data of a packet that is sent. */
union gso_udp_tx_control {
    char space[CMSG_SPACE(sizeof(struct in_pktinfo)) + CMSG_SPACE(sizeof(uint16_t))];
    struct cmsghdr align;
};

/* Opens a socket that drops what arrives. UDP_GRO: see offload.c. */
static int gso_udp_open_holder(struct emx_gso_udp *u)
{
    struct sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog prog = {.len = 1, .filter = drop_all};
    int on = 1, smallest = 1;

    u->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (u->fd < 0 || setsockopt(u->fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ||
        setsockopt(u->fd, SOL_UDP, UDP_GRO, &on, sizeof(on)) ||
        setsockopt(u->fd, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof(smallest)))
        return -1;
    return 0;
}

static int gso_udp_open_carrier(struct emx_gso_udp *u, const struct emx_wire_params *params, uint64_t buffer_bytes)
{
    struct emx_udp_socket s;
    int ret = emx_udp_socket_open(&s, params, buffer_bytes);

    u->fd = s.fd;
    if (!ret && !(s.gso && s.gro)) {
        errno = EOPNOTSUPP;
        ret = -1;
    }
    for (unsigned i = 0; i < EMX_GSO_UDP_BUFFERS && !ret; i++) {
        u->buffer[i] = aligned_alloc(64, BUFFER_BYTES);
        ret = u->buffer[i] ? 0 : -1;
    }
    return ret;
}

int emx_gso_udp_open(struct emx_gso_udp *u, const struct emx_wire_params *params, bool carries, uint64_t buffer_bytes)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t len = sizeof(any);

    *u = (struct emx_gso_udp){.stats = params->stats};
    if ((carries ? gso_udp_open_carrier(u, params, buffer_bytes) : gso_udp_open_holder(u)) ||
        bind(u->fd, (const struct sockaddr *)&any, sizeof(any)) || getsockname(u->fd, (struct sockaddr *)&any, &len))
        return -1;
    u->port = ntohs(any.sin_port);
    return 0;
}

void emx_gso_udp_close(struct emx_gso_udp *u)
{
    if (u->fd >= 0)
        close(u->fd);
    for (unsigned i = 0; i < EMX_GSO_UDP_BUFFERS; i++)
        free(u->buffer[i]);
    *u = (struct emx_gso_udp){.fd = -1};
}

/* ---- Sending ---- */

/* Tells the kernel the way, and, for several frames, their length. */
static void gso_udp_put_control(struct msghdr *msg, union gso_udp_tx_control *control, unsigned ifindex,
                                uint32_t from_ip, unsigned part_bytes)
{
    const struct in_pktinfo info = {.ipi_ifindex = (int)ifindex, .ipi_spec_dst.s_addr = from_ip};
    struct cmsghdr *c;

    memset(control, 0, sizeof(*control));
    msg->msg_control = control->space;
    msg->msg_controllen = sizeof(control->space);
    c = CMSG_FIRSTHDR(msg);
    c->cmsg_level = IPPROTO_IP;
    c->cmsg_type = IP_PKTINFO;
    c->cmsg_len = CMSG_LEN(sizeof(info));
    memcpy(CMSG_DATA(c), &info, sizeof(info));
    if (part_bytes)
        emx_udp_socket_put_segment(CMSG_NXTHDR(msg, c), part_bytes);
    else
        msg->msg_controllen = CMSG_SPACE(sizeof(info));
}

int emx_gso_udp_send(struct emx_gso_udp *u, unsigned ifindex, const struct emx_gso_way *way,
                     const struct emx_txframe *f, unsigned n)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = way->to_ip, .sin_port = htons(way->to_port)};
    struct iovec iov[2 * EMX_GSO_PARTS];
    struct msghdr msg = {.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = iov};
    union gso_udp_tx_control control;

    msg.msg_iovlen = emx_gso_iov(iov, f, n);
    gso_udp_put_control(&msg, &control, ifindex, way->from_ip, n > 1 ? emx_gso_frame_bytes(f) : 0);
    return sendmsg(u->fd, &msg, MSG_DONTWAIT) < 0 ? errno : 0;
}

/* ---- Receiving ---- */

bool emx_gso_udp_receive(struct emx_gso_udp *u, unsigned i, struct emx_gso *packet_p)
{
    struct iovec iov = {.iov_base = u->buffer[i], .iov_len = BUFFER_BYTES};
    union emx_udp_control control;
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof(control.space)};
    ssize_t got = recvmsg(u->fd, &msg, MSG_DONTWAIT);
    unsigned part_bytes;
    bool marked;

    if (got < 0)
        return false;
    part_bytes = emx_udp_socket_read_control(&msg, u->stats, &u->drops, &marked);
    emx_gso_open_frames(packet_p, u->buffer[i], (size_t)got, part_bytes);
    packet_p->marked = marked;
    return true;
}
