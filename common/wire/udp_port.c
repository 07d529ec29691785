/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "wire/udp_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

int emx_udp_port_bind(int fd, bool v6, uint16_t *port_p)
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } at = {.in6 = {.sin6_family = v6 ? AF_INET6 : AF_INET}};
    socklen_t len = v6 ? sizeof(at.in6) : sizeof(at.in);

    if (bind(fd, &at.any, len) || getsockname(fd, &at.any, &len))
        return -1;
    *port_p = ntohs(v6 ? at.in6.sin6_port : at.in.sin_port);
    return 0;
}

/* The filter comes before the port, so that no packet enters the queue. */
int emx_udp_port_open(struct emx_udp_port *p, bool v6)
{
    struct sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog prog = {.len = 1, .filter = drop_all};
    int smallest = 1, both = 0, err;

    p->fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->fd < 0)
        return -1;
    if (setsockopt(p->fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ||
        setsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof(smallest)) ||
        (v6 && setsockopt(p->fd, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof(both))) ||
        emx_udp_port_bind(p->fd, v6, &p->port)) {
        err = errno;
        emx_udp_port_close(p);
        errno = err;
        return -1;
    }
    return 0;
}

void emx_udp_port_close(struct emx_udp_port *p)
{
    if (p->fd >= 0)
        close(p->fd);
    *p = (struct emx_udp_port){.fd = -1};
}
