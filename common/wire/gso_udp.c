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
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/qos.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define BUFFER_BYTES 65536

/* Ancillary data: of a packet that is sent, and of one that is received. */
union gso_udp_tx_control {
    char space[CMSG_SPACE(sizeof(struct in_pktinfo)) + CMSG_SPACE(sizeof(uint16_t))];
    struct cmsghdr align;
};

union gso_udp_rx_control {
    char space[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint32_t)) + CMSG_SPACE(sizeof(uint8_t))];
    struct cmsghdr align;
};

static int gso_udp_drop_all(int fd)
{
    struct sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog prog = {.len = 1, .filter = drop_all};
    int smallest = 1;

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ||
                   setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof(smallest))
               ? -1
               : 0;
}

/* Beyond the system's limit if privileged. A smaller buffer loses packets, which the engine adapts to. */
static void gso_udp_size_buffer(int fd, int force, int plain, uint64_t wanted)
{
    int bytes = wanted > INT32_MAX / 2 ? INT32_MAX / 2 : (int)wanted;

    if (setsockopt(fd, SOL_SOCKET, force, &bytes, sizeof(bytes)))
        setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof(bytes));
}

static int gso_udp_set_up_carrying(struct emx_gso_udp *u, const struct emx_wire_params *params, uint64_t buffer_bytes)
{
    int df = IP_PMTUDISC_PROBE, on = 1, zero = 0;

    if (setsockopt(u->fd, IPPROTO_IP, IP_MTU_DISCOVER, &df, sizeof(df)) ||
        setsockopt(u->fd, SOL_UDP, UDP_SEGMENT, &zero, sizeof(zero)) ||
        setsockopt(u->fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on)))
        return -1;
    if (params->cfg->p_ecn)
        setsockopt(u->fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)); /* without it no congestion marks are reported */
    emx_qos_set_tos(u->fd, params->cfg);
    emx_qos_set_priority(u->fd, params->cfg);
    gso_udp_size_buffer(u->fd, SO_RCVBUFFORCE, SO_RCVBUF, buffer_bytes);
    gso_udp_size_buffer(u->fd, SO_SNDBUFFORCE, SO_SNDBUF, params->cfg->p_ring);
    for (unsigned i = 0; i < EMX_GSO_UDP_BUFFERS; i++) {
        u->buffer[i] = aligned_alloc(64, BUFFER_BYTES);
        if (!u->buffer[i])
            return -1;
    }
    return 0;
}

int emx_gso_udp_open(struct emx_gso_udp *u, const struct emx_wire_params *params, bool carries, uint64_t buffer_bytes)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t len = sizeof(any);
    int on = 1;

    *u = (struct emx_gso_udp){.stats = params->stats};
    u->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (u->fd < 0 || setsockopt(u->fd, SOL_UDP, UDP_GRO, &on, sizeof(on)) ||
        (carries ? gso_udp_set_up_carrying(u, params, buffer_bytes) : gso_udp_drop_all(u->fd)) ||
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

static void gso_udp_put_control(struct cmsghdr *c, int level, int type, const void *data, size_t len_bytes)
{
    c->cmsg_level = level;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(len_bytes);
    memcpy(CMSG_DATA(c), data, len_bytes);
}

/* Tells the kernel the way, and, for several frames, their length. */
static void gso_udp_tell(struct msghdr *msg, union gso_udp_tx_control *control, const struct emx_gso_udp_way *way,
                         const struct emx_txframe *f, unsigned n)
{
    struct in_pktinfo info = {.ipi_ifindex = (int)way->ifindex, .ipi_spec_dst.s_addr = way->from_ip};
    uint16_t part_bytes = (uint16_t)emx_gso_frame_bytes(f);
    struct cmsghdr *c;

    memset(control, 0, sizeof(*control));
    msg->msg_control = control->space;
    msg->msg_controllen = sizeof(control->space);
    c = CMSG_FIRSTHDR(msg);
    gso_udp_put_control(c, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
    if (n == 1) {
        msg->msg_controllen = CMSG_SPACE(sizeof(info));
        return;
    }
    gso_udp_put_control(CMSG_NXTHDR(msg, c), SOL_UDP, UDP_SEGMENT, &part_bytes, sizeof(part_bytes));
}

int emx_gso_udp_send(struct emx_gso_udp *u, const struct emx_gso_udp_way *way, const struct emx_txframe *f, unsigned n)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = way->to_ip, .sin_port = htons(way->to_port)};
    struct iovec iov[2 * EMX_GSO_PARTS];
    struct msghdr msg = {.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = iov};
    union gso_udp_tx_control control;

    for (unsigned i = 0; i < n; i++) {
        iov[msg.msg_iovlen++] = (struct iovec){.iov_base = (void *)f[i].head, .iov_len = f[i].head_bytes};
        if (f[i].body_bytes)
            iov[msg.msg_iovlen++] = (struct iovec){.iov_base = (void *)f[i].body, .iov_len = f[i].body_bytes};
    }
    gso_udp_tell(&msg, &control, way, f, n);
    return sendmsg(u->fd, &msg, MSG_DONTWAIT) < 0 ? errno : 0;
}

/* ---- Receiving ---- */

/* Reads ancillary data: returns the length of the parts, 0: it is one; and whether the packet is marked. */
static unsigned gso_udp_read_control(struct emx_gso_udp *u, struct msghdr *msg, bool *marked_p)
{
    unsigned part_bytes = 0;
    uint32_t drops;
    int bytes;

    *marked_p = false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
            memcpy(&bytes, CMSG_DATA(c), sizeof(bytes));
            part_bytes = bytes > 0 ? (unsigned)bytes : 0;
        } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
            memcpy(&drops, CMSG_DATA(c), sizeof(drops));
            u->stats->wire_lost += drops - u->drops;
            u->drops = drops;
        } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
            *marked_p = IPTOS_ECN(*CMSG_DATA(c)) == IPTOS_ECN_CE;
        }
    }
    return part_bytes;
}

bool emx_gso_udp_receive(struct emx_gso_udp *u, unsigned i, struct emx_gso *packet_p)
{
    struct iovec iov = {.iov_base = u->buffer[i], .iov_len = BUFFER_BYTES};
    union gso_udp_rx_control control;
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof(control.space)};
    ssize_t got = recvmsg(u->fd, &msg, MSG_DONTWAIT);
    unsigned part_bytes;
    bool marked;

    if (got < 0)
        return false;
    part_bytes = gso_udp_read_control(u, &msg, &marked);
    emx_gso_open_frames(packet_p, u->buffer[i], (size_t)got, part_bytes);
    packet_p->marked = marked;
    return true;
}
