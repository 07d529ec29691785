/* SPDX-License-Identifier: BSD-3-Clause
 *
 * With an unconnected socket the kernel looks up a route for each datagram; a connected socket caches it. So a peer
 * that gets many frames gets a connected socket, for sending only.
 *
 * The connected socket sends from the wire's own port, so that firewalls and connection tracking see one flow. But a
 * connected socket on the wire's port would receive all that its peer sends, and each further receiving socket costs a
 * system call for each poll. So it is bound to the multicast address 224.0.0.0, which is never assigned to a group (RFC
 * 1112). No datagram has this destination. When such a socket is connected, the kernel gives it the source address of
 * its route. Nothing arrives on it, ICMP errors included.
 *
 * Two sockets may share a port if both have SO_REUSEPORT and belong to one user. The wire's socket has the option only
 * while a connected socket is bound, so that no other process of this user shares the port by accident.
 *
 * A connected socket keeps its source address while routes may change, and a network may drop datagrams from the wrong
 * address. So connected sockets are closed and made again every LIFE_S seconds. The kernel looks up the route again
 * whenever a route of the host changes.
 *
 * A connected socket costs a descriptor. So their number is limited, the least recently used is closed first, and most
 * of the process's descriptors are left to the program. If anything fails, the wire's own socket sends instead.
 */
#define _GNU_SOURCE
#include "wire/udp/udp_conn.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hash.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define LIFE_S     2
#define WANTED_MAX (1u << 20) /* frames to a peer between two attempts, if connecting fails */
#define FD_END     65536

static uint64_t udp_conn_key_of(struct in_addr ip, in_port_t port)
{
    return (uint64_t)port << 32 | ip.s_addr;
}

void emx_udp_conns_init(struct emx_udp_conns *l, int wire_fd, in_port_t port)
{
    struct rlimit limit;

    memset(l, 0, sizeof(*l));
    l->wire_fd = wire_fd;
    l->port = port;
    l->fd_end = FD_END;
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur / 2 < FD_END)
        l->fd_end = (int)(limit.rlim_cur / 2);
    l->last = &l->conn[0][0];
    for (unsigned s = 0; s < EMX_UDP_CONN_SETS; s++)
        for (unsigned i = 0; i < EMX_UDP_CONN_WAYS; i++)
            l->conn[s][i].fd = -1;
}

static void udp_conn_disconnect(struct emx_udp_conns *l, struct emx_udp_conn *conn)
{
    if (conn->fd < 0)
        return;
    close(conn->fd);
    conn->fd = -1;
    l->count--;
}

static void udp_conn_disconnect_all(struct emx_udp_conns *l)
{
    for (unsigned s = 0; s < EMX_UDP_CONN_SETS && l->count; s++)
        for (unsigned i = 0; i < EMX_UDP_CONN_WAYS; i++)
            udp_conn_disconnect(l, &l->conn[s][i]);
}

void emx_udp_conns_fini(struct emx_udp_conns *l)
{
    udp_conn_disconnect_all(l);
}

/* Copies the options of the wire's socket that concern sending to fd. */
static bool udp_conn_copy_options(const struct emx_udp_conns *l, int fd)
{
    static const struct {
        int level, name, set;
    } option[] = {
        {IPPROTO_IP, IP_MTU_DISCOVER, IP_MTU_DISCOVER},
        {IPPROTO_IP, IP_TOS, IP_TOS}, /* before the priority, which it changes */
        {SOL_SOCKET, SO_PRIORITY, SO_PRIORITY},
        {SOL_SOCKET, SO_SNDBUF, SO_SNDBUFFORCE},
    };

    for (unsigned i = 0; i < sizeof(option) / sizeof(option[0]); i++) {
        bool bytes = option[i].name == SO_SNDBUF;
        int value = 0;
        socklen_t len = sizeof(value);

        if (getsockopt(l->wire_fd, option[i].level, option[i].name, &value, &len))
            return false;
        value = bytes ? value / 2 : value; /* the kernel reports twice the value */
        if (setsockopt(fd, option[i].level, option[i].set, &value, sizeof(value)) &&
            setsockopt(fd, option[i].level, option[i].name, &value, sizeof(value)))
            return false;
    }
    return true;
}

/* Whether fd is in the wire's network namespace. The program may have changed its namespace since it opened the wire.
 */
static bool udp_conn_same_network(const struct emx_udp_conns *l, int fd)
{
    uint64_t wires = 0, its = 0;
    socklen_t len = sizeof(wires);

    if (getsockopt(l->wire_fd, SOL_SOCKET, SO_NETNS_COOKIE, &wires, &len))
        return errno == ENOPROTOOPT; /* not reported before Linux 5.14 */
    return !getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &its, &len) && its == wires;
}

/* Binds fd to the wire's port, at an address where nothing arrives. */
static bool udp_conn_share_port(const struct emx_udp_conns *l, int fd)
{
    struct sockaddr_in nowhere = {
        .sin_family = AF_INET, .sin_port = l->port, .sin_addr.s_addr = htonl(INADDR_UNSPEC_GROUP)};
    int on = 1, off = 0;
    bool bound;

    if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) ||
        setsockopt(l->wire_fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)))
        return false;
    bound = !bind(fd, (const struct sockaddr *)&nowhere, sizeof(nowhere));
    setsockopt(l->wire_fd, SOL_SOCKET, SO_REUSEPORT, &off, sizeof(off));
    return bound;
}

/* Returns a new connected socket, or -1. */
static int udp_conn_connect(const struct emx_udp_conns *l, struct in_addr ip, in_port_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = port, .sin_addr = ip};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    if (fd < l->fd_end && udp_conn_same_network(l, fd) && udp_conn_copy_options(l, fd) && udp_conn_share_port(l, fd) &&
        !connect(fd, (const struct sockaddr *)&to, sizeof(to)))
        return fd;
    close(fd);
    return -1;
}

/* Doubles the number of frames until the next attempt. */
static void udp_conn_put_off(struct emx_udp_conn *conn)
{
    conn->frames = 0;
    if (conn->wanted < WANTED_MAX)
        conn->wanted *= 2;
}

static struct emx_udp_conn *udp_conn_set_of(struct emx_udp_conns *l, uint64_t peer)
{
    return l->conn[emx_mix64(peer) % EMX_UDP_CONN_SETS];
}

/* NULL: the peer is not in the table. */
static struct emx_udp_conn *udp_conn_find(struct emx_udp_conns *l, uint64_t peer)
{
    struct emx_udp_conn *set = udp_conn_set_of(l, peer);

    for (unsigned i = 0; i < EMX_UDP_CONN_WAYS; i++)
        if (set[i].peer == peer)
            return &set[i];
    return NULL;
}

/* Adds a new peer in place of the least recently used one. */
static struct emx_udp_conn *udp_conn_add(struct emx_udp_conns *l, uint64_t peer)
{
    struct emx_udp_conn *set = udp_conn_set_of(l, peer), *oldest = set;

    for (unsigned i = 1; i < EMX_UDP_CONN_WAYS; i++)
        if (l->now - set[i].used > l->now - oldest->used)
            oldest = &set[i];
    udp_conn_disconnect(l, oldest);
    *oldest = (struct emx_udp_conn){.peer = peer, .fd = -1, .wanted = EMX_UDP_CONN_AFTER};
    return oldest;
}

/* Counts n more datagrams to a peer that has no connected socket. */
static void udp_conn_count(struct emx_udp_conns *l, struct emx_udp_conn *conn, struct in_addr ip, in_port_t port,
                           unsigned n)
{
    conn->frames += n;
    if (conn->frames < conn->wanted)
        return;
    conn->fd = udp_conn_connect(l, ip, port);
    if (conn->fd < 0)
        udp_conn_put_off(conn);
    else
        l->count++;
}

int emx_udp_conn_for(struct emx_udp_conns *l, struct in_addr ip, in_port_t port, unsigned n)
{
    uint64_t peer = udp_conn_key_of(ip, port);
    struct emx_udp_conn *conn = l->last;

    if (conn->peer != peer) {
        conn = udp_conn_find(l, peer);
        if (!conn)
            conn = udp_conn_add(l, peer);
        l->last = conn;
    }
    conn->used = ++l->now;
    if (conn->fd < 0)
        udp_conn_count(l, conn, ip, port, n);
    return conn->fd;
}

void emx_udp_conn_failed(struct emx_udp_conns *l, struct in_addr ip, in_port_t port)
{
    struct emx_udp_conn *conn = udp_conn_find(l, udp_conn_key_of(ip, port));

    if (!conn || conn->fd < 0)
        return;
    udp_conn_disconnect(l, conn);
    udp_conn_put_off(conn);
}

void emx_udp_conns_sweep(struct emx_udp_conns *l, int64_t now_s)
{
    if (now_s - l->made_s < LIFE_S)
        return;
    l->made_s = now_s;
    udp_conn_disconnect_all(l); /* peers that still get frames get a new one immediately */
}
