/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "wire/udp_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* The filter comes before the port, so that no packet enters the queue. */
int emx_udp_port_open(struct emx_udp_port *p)
{
    struct sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog prog = {.len = 1, .filter = drop_all};
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t len = sizeof(any);
    int smallest = 1, err;

    p->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->fd < 0)
        return -1;
    if (setsockopt(p->fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ||
        setsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof(smallest)) ||
        bind(p->fd, (const struct sockaddr *)&any, sizeof(any)) || getsockname(p->fd, (struct sockaddr *)&any, &len)) {
        err = errno;
        emx_udp_port_close(p);
        errno = err;
        return -1;
    }
    p->port = ntohs(any.sin_port);
    return 0;
}

void emx_udp_port_close(struct emx_udp_port *p)
{
    if (p->fd >= 0)
        close(p->fd);
    *p = (struct emx_udp_port){.fd = -1};
}
