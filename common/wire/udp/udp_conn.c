/* SPDX-License-Identifier: BSD-3-Clause
 *
 * With an unconnected socket the kernel looks up a route for each datagram; a connected socket caches it. So a peer
 * that gets many frames gets a connected socket, for sending only.
 *
 * The connected socket sends from the wire's own port, so that firewalls and connection tracking see one flow. But a
 * connected socket on the wire's port would receive all that its peer sends, and each further receiving socket costs a
 * system call for each poll. So it is bound to a multicast address which is never assigned to a group: 224.0.0.0 (RFC
 * 1112), or ff0e:: (RFC 4291) if the peer is reached by IPv6. No datagram has this destination. When such a socket is
 * connected, the kernel gives it the source address of its route. Nothing arrives on it, ICMP errors included.
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

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define LIFE_S     2
#define WANTED_MAX (1u << 20) /* frames to a peer between two attempts, if connecting fails */
#define FD_END     65536
#define SET_BITS   4
#define SPREAD     UINT64_C(0x9e3779b97f4a7c15) /* odd: all bits of a product's factor count in its first bits */

static_assert(EMX_UDP_CONN_SETS == 1 << SET_BITS, "sets");

/* Never assigned to a group: 224.0.0.0 (RFC 1112) and ff0e:: (RFC 4291). */
static const struct emx_udp_addr nowhere4 = {.ip = {{[10] = 0xff, [11] = 0xff, [12] = 224}}};
static const struct emx_udp_addr nowhere6 = {.ip = {{[0] = 0xff, [1] = 0x0e}}, .v6 = 1};

socklen_t emx_udp_sockaddr_of(const struct emx_udp_addr *a, bool v6, union emx_udp_sockaddr *to_p)
{
    if (!v6) {
        to_p->in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = a->port};
        memcpy(&to_p->in.sin_addr, &a->ip.b[EMX_IP_V4_AT], EMX_IP_V4_BYTES);
        return sizeof(to_p->in);
    }
    to_p->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = a->port, .sin6_scope_id = a->scope};
    memcpy(&to_p->in6.sin6_addr, &a->ip, sizeof(a->ip));
    return sizeof(to_p->in6);
}

static bool udp_conn_equal(const struct emx_udp_addr *a, const struct emx_udp_addr *b)
{
    return !memcmp(a, b, sizeof(*a));
}

void emx_udp_conns_init(struct emx_udp_conns *l, int wire_fd, bool v6, in_port_t port)
{
    struct rlimit limit;

    memset(l, 0, sizeof(*l));
    l->wire_fd = wire_fd;
    l->v6 = v6;
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

/* Copies the options of the wire's socket that concern sending to fd, which is of IPv6 if v6. */
static bool udp_conn_copy_options(const struct emx_udp_conns *l, int fd, bool v6)
{
    static const struct {
        int level, name, set;
    } option[] = {
        {IPPROTO_IP, IP_MTU_DISCOVER, IP_MTU_DISCOVER},
        {IPPROTO_IP, IP_TOS, IP_TOS}, /* before the priority, which it changes */
        {IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_MTU_DISCOVER},
        {IPPROTO_IPV6, IPV6_DONTFRAG, IPV6_DONTFRAG},
        {IPPROTO_IPV6, IPV6_TCLASS, IPV6_TCLASS},
        {SOL_SOCKET, SO_PRIORITY, SO_PRIORITY},
        {SOL_SOCKET, SO_SNDBUF, SO_SNDBUFFORCE},
    };

    for (unsigned i = 0; i < sizeof(option) / sizeof(option[0]); i++) {
        bool bytes = option[i].name == SO_SNDBUF;
        int value = 0;
        socklen_t len = sizeof(value);

        if (option[i].level == IPPROTO_IPV6 && !v6)
            continue;
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
static bool udp_conn_share_port(const struct emx_udp_conns *l, int fd, bool v6)
{
    struct emx_udp_addr nowhere = v6 ? nowhere6 : nowhere4;
    union emx_udp_sockaddr at;
    socklen_t len;
    int on = 1, off = 0;
    bool bound;

    nowhere.port = l->port;
    len = emx_udp_sockaddr_of(&nowhere, v6, &at);

    if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) ||
        setsockopt(l->wire_fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)))
        return false;
    bound = !bind(fd, &at.any, len);
    setsockopt(l->wire_fd, SOL_SOCKET, SO_REUSEPORT, &off, sizeof(off));
    return bound;
}

/* Returns a new connected socket, or -1. */
static int udp_conn_connect(const struct emx_udp_conns *l, const struct emx_udp_addr *a)
{
    union emx_udp_sockaddr to;
    socklen_t len = emx_udp_sockaddr_of(a, a->v6, &to);
    int fd = socket(a->v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    if (fd < l->fd_end && udp_conn_same_network(l, fd) && udp_conn_copy_options(l, fd, a->v6) &&
        udp_conn_share_port(l, fd, a->v6) && !connect(fd, &to.any, len))
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

static struct emx_udp_conn *udp_conn_set_of(struct emx_udp_conns *l, const struct emx_udp_addr *peer)
{
    uint64_t network, host, port;

    static_assert(sizeof(network) + sizeof(host) == sizeof(peer->ip), "address");
    memcpy(&network, &peer->ip.b[0], sizeof(network));
    memcpy(&host, &peer->ip.b[sizeof(network)], sizeof(host));
    memcpy(&port, &peer->scope, sizeof(port)); /* and all that follows */
    return l->conn[(network ^ host ^ port) * SPREAD >> (64 - SET_BITS)];
}

/* NULL: the peer is not in the table. */
static struct emx_udp_conn *udp_conn_find(struct emx_udp_conns *l, const struct emx_udp_addr *peer)
{
    struct emx_udp_conn *set = udp_conn_set_of(l, peer);

    for (unsigned i = 0; i < EMX_UDP_CONN_WAYS; i++)
        if (udp_conn_equal(&set[i].peer, peer))
            return &set[i];
    return NULL;
}

/* Adds a new peer in place of the least recently used one. */
static struct emx_udp_conn *udp_conn_add(struct emx_udp_conns *l, const struct emx_udp_addr *peer)
{
    struct emx_udp_conn *set = udp_conn_set_of(l, peer), *oldest = set;

    for (unsigned i = 1; i < EMX_UDP_CONN_WAYS; i++)
        if (l->now - set[i].used > l->now - oldest->used)
            oldest = &set[i];
    udp_conn_disconnect(l, oldest);
    *oldest = (struct emx_udp_conn){.peer = *peer, .fd = -1, .wanted = EMX_UDP_CONN_AFTER};
    return oldest;
}

/* Counts n more datagrams to a peer that has no connected socket. */
static void udp_conn_count(struct emx_udp_conns *l, struct emx_udp_conn *conn, unsigned n)
{
    conn->frames += n;
    if (conn->frames < conn->wanted)
        return;
    conn->fd = udp_conn_connect(l, &conn->peer);
    if (conn->fd < 0)
        udp_conn_put_off(conn);
    else
        l->count++;
}

int emx_udp_conn_for(struct emx_udp_conns *l, const struct emx_udp_addr *a, unsigned n)
{
    struct emx_udp_conn *conn = l->last;

    if (!udp_conn_equal(&conn->peer, a)) {
        conn = udp_conn_find(l, a);
        if (!conn)
            conn = udp_conn_add(l, a);
        l->last = conn;
    }
    conn->used = ++l->now;
    if (conn->fd < 0)
        udp_conn_count(l, conn, n);
    return conn->fd;
}

void emx_udp_conn_failed(struct emx_udp_conns *l, const struct emx_udp_addr *a)
{
    struct emx_udp_conn *conn = udp_conn_find(l, a);

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
