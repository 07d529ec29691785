/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "wire/udp_socket.h"

#include <netinet/in.h>
#include <netinet/ip.h>
#include <string.h>

#include "wire/qos.h"

unsigned emx_socket_size_buffer(int fd, int which, uint64_t wanted_bytes)
{
    int bytes = wanted_bytes > INT32_MAX / 2 ? INT32_MAX / 2 : (int)wanted_bytes, got = 0;
    socklen_t len = sizeof(got);

    if (setsockopt(fd, SOL_SOCKET, which == SO_RCVBUF ? SO_RCVBUFFORCE : SO_SNDBUFFORCE, &bytes, sizeof(bytes)))
        setsockopt(fd, SOL_SOCKET, which, &bytes, sizeof(bytes));
    getsockopt(fd, SOL_SOCKET, which, &got, &len);
    return (unsigned)got / 2; /* the kernel reports twice the value, for its own overhead */
}

/* Makes the socket. An IPv6 socket has the options of both families, as it sends both. */
static bool udp_socket_make(struct emx_udp_socket *s, bool v6)
{
    int df = IP_PMTUDISC_PROBE, df6 = IPV6_PMTUDISC_PROBE, on = 1, off = 0;

    s->fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0 || setsockopt(s->fd, IPPROTO_IP, IP_MTU_DISCOVER, &df, sizeof(df)) ||
        setsockopt(s->fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on)))
        return false;
    return !v6 || (!setsockopt(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) &&
                   !setsockopt(s->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &df6, sizeof(df6)) &&
                   !setsockopt(s->fd, IPPROTO_IPV6, IPV6_DONTFRAG, &on, sizeof(on)));
}

/* Without these no congestion marks are reported. */
static void udp_socket_ask_marks(int fd, bool v6)
{
    int on = 1;

    setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on));
    if (v6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(on));
}

static int udp_socket_open(struct emx_udp_socket *s, bool v6, const struct emx_wire_params *params,
                           uint64_t rcvbuf_bytes)
{
    int on = 1, zero = 0;

    if (!udp_socket_make(s, v6))
        return -1;
    emx_qos_set_tos(s->fd, v6, params->cfg);
    emx_qos_set_priority(s->fd, params->cfg);
    if (params->cfg->p_ecn)
        udp_socket_ask_marks(s->fd, v6);
    s->gso = !setsockopt(s->fd, SOL_UDP, UDP_SEGMENT, &zero, sizeof(zero));
    s->gro = !setsockopt(s->fd, SOL_UDP, UDP_GRO, &on, sizeof(on));
    s->rcvbuf_bytes = emx_socket_size_buffer(s->fd, SO_RCVBUF, rcvbuf_bytes);
    emx_socket_size_buffer(s->fd, SO_SNDBUF, params->cfg->p_ring);
    return 0;
}

int emx_udp_socket_open(struct emx_udp_socket *s, const struct emx_wire_params *params, uint64_t rcvbuf_bytes)
{
    return udp_socket_open(s, false, params, rcvbuf_bytes);
}

int emx_udp_socket_open_dual(struct emx_udp_socket *s, const struct emx_wire_params *params, uint64_t rcvbuf_bytes)
{
    return udp_socket_open(s, true, params, rcvbuf_bytes);
}

unsigned emx_udp_socket_read_control(struct msghdr *msg, struct emx_stats *stats, uint32_t *drops, bool *marked_p)
{
    unsigned part_bytes = 0;

    *marked_p = false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
            int bytes;

            memcpy(&bytes, CMSG_DATA(c), sizeof(bytes));
            part_bytes = bytes > 0 ? (unsigned)bytes : 0;
        } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
            uint32_t count;

            memcpy(&count, CMSG_DATA(c), sizeof(count));
            stats->wire_lost += count - *drops;
            *drops = count;
        } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
            *marked_p = IPTOS_ECN(*CMSG_DATA(c)) == IPTOS_ECN_CE;
        } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
            int tclass;

            memcpy(&tclass, CMSG_DATA(c), sizeof(tclass));
            *marked_p = IPTOS_ECN(tclass) == IPTOS_ECN_CE;
        }
    }
    return part_bytes;
}

void emx_udp_socket_put_segment(struct cmsghdr *c, unsigned part_bytes)
{
    uint16_t len_bytes = (uint16_t)part_bytes;

    c->cmsg_level = SOL_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof(len_bytes));
    memcpy(CMSG_DATA(c), &len_bytes, sizeof(len_bytes));
}
