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

int emx_udp_socket_open(struct emx_udp_socket *s, const struct emx_wire_params *params, uint64_t rcvbuf_bytes)
{
    int df = IP_PMTUDISC_PROBE, on = 1, zero = 0;

    s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0 || setsockopt(s->fd, IPPROTO_IP, IP_MTU_DISCOVER, &df, sizeof(df)) ||
        setsockopt(s->fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on)))
        return -1;
    emx_qos_set_tos(s->fd, params->cfg);
    emx_qos_set_priority(s->fd, params->cfg);
    if (params->cfg->p_ecn)
        setsockopt(s->fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)); /* without it no congestion marks are reported */
    s->gso = !setsockopt(s->fd, SOL_UDP, UDP_SEGMENT, &zero, sizeof(zero));
    s->gro = !setsockopt(s->fd, SOL_UDP, UDP_GRO, &on, sizeof(on));
    s->rcvbuf_bytes = emx_socket_size_buffer(s->fd, SO_RCVBUF, rcvbuf_bytes);
    emx_socket_size_buffer(s->fd, SO_SNDBUF, params->cfg->p_ring);
    return 0;
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
