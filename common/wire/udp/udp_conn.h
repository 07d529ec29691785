/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connected UDP sockets, each for sending to one of the peers that get the most frames. udp_conn.c explains their use.
 * Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_UDP_CONN_H
#define EMX_WIRE_UDP_CONN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/ip.h"

#define EMX_UDP_CONN_SETS  16
#define EMX_UDP_CONN_WAYS  4  /* peers in a set */
#define EMX_UDP_CONN_AFTER 64 /* datagrams to a peer before it gets a connected socket */

/* A destination. Compared byte by byte. */
struct emx_udp_addr {
    struct emx_ip ip;
    uint32_t scope; /* ifindex, for a link-local address of IPv6; otherwise 0 */
    in_port_t port; /* network order */
    uint16_t v6;    /* 1: of IPv6 */
};

/* For the kernel. */
union emx_udp_sockaddr {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

/* Writes a for a socket of IPv6, or otherwise of IPv4, and returns the length. */
socklen_t emx_udp_sockaddr_of(const struct emx_udp_addr *a, bool v6, union emx_udp_sockaddr *to_p);

/* A peer that was sent to recently, with or without a connected socket. */
struct emx_udp_conn {
    struct emx_udp_addr peer; /* all zero: none */
    int fd;                   /* -1: not connected */
    uint32_t frames;          /* datagrams, counted while it is not connected */
    uint32_t wanted;          /* number after which it is connected */
    uint32_t used;            /* value of emx_udp_conns.now at the last use */
};

struct emx_udp_conns {
    int wire_fd; /* the wire's own socket; belongs to the caller */
    bool v6;     /* it is of IPv6 */
    in_port_t port;
    int fd_end; /* descriptors from this number on are for the program */
    uint32_t now;
    int64_t made_s; /* time of the oldest connect, or earlier */
    unsigned count; /* of connected sockets */
    struct emx_udp_conn *last;
    struct emx_udp_conn conn[EMX_UDP_CONN_SETS][EMX_UDP_CONN_WAYS];
};

/* wire_fd is bound to port (network order) of all addresses, of IPv6 and IPv4 if v6. The caller keeps it. Connected
 * sockets copy its options.
 */
void emx_udp_conns_init(struct emx_udp_conns *l, int wire_fd, bool v6, in_port_t port);
void emx_udp_conns_fini(struct emx_udp_conns *l);

/* Returns the connected socket for n datagrams to a; -1: use the wire's own socket. */
int emx_udp_conn_for(struct emx_udp_conns *l, const struct emx_udp_addr *a, unsigned n);

/* The connected socket to a refused a datagram that the wire's own socket then sent. Closes the connected
 * socket. Another is connected after more datagrams than before. */
void emx_udp_conn_failed(struct emx_udp_conns *l, const struct emx_udp_addr *a);

/* Called regularly: closes old connected sockets. now_s: seconds of a monotonic clock. */
void emx_udp_conns_sweep(struct emx_udp_conns *l, int64_t now_s);

#endif
