/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connected UDP sockets, each for sending to one of the peers that get the most frames. udp_conn.c explains their use.
 * Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_UDP_CONN_H
#define EMX_WIRE_UDP_CONN_H

#include <netinet/in.h>
#include <stdint.h>

#define EMX_UDP_CONN_SETS  16
#define EMX_UDP_CONN_WAYS  4  /* peers in a set */
#define EMX_UDP_CONN_AFTER 64 /* datagrams to a peer before it gets a connected socket */

/* A peer that was sent to recently, with or without a connected socket. */
struct emx_udp_conn {
    uint64_t peer;   /* address and port; 0: none */
    int fd;          /* -1: not connected */
    uint32_t frames; /* datagrams, counted while it is not connected */
    uint32_t wanted; /* number after which it is connected */
    uint32_t used;   /* value of emx_udp_conns.now at the last use */
};

struct emx_udp_conns {
    int wire_fd; /* the wire's own socket; belongs to the caller */
    in_port_t port;
    int fd_end; /* descriptors from this number on are for the program */
    uint32_t now;
    int64_t made_s; /* time of the oldest connect, or earlier */
    unsigned count; /* of connected sockets */
    struct emx_udp_conn *last;
    struct emx_udp_conn conn[EMX_UDP_CONN_SETS][EMX_UDP_CONN_WAYS];
};

/* wire_fd is bound to port (network order) of all addresses. The caller keeps it. Connected sockets copy its options.
 */
void emx_udp_conns_init(struct emx_udp_conns *l, int wire_fd, in_port_t port);
void emx_udp_conns_fini(struct emx_udp_conns *l);

/* Returns the connected socket for n datagrams to ip and port (network order); -1: use the wire's own socket. */
int emx_udp_conn_for(struct emx_udp_conns *l, struct in_addr ip, in_port_t port, unsigned n);

/* The connected socket to ip and port refused a datagram that the wire's own socket then sent. Closes the connected
 * socket. Another is connected after more datagrams than before. */
void emx_udp_conn_failed(struct emx_udp_conns *l, struct in_addr ip, in_port_t port);

/* Called regularly: closes old connected sockets. now_s: seconds of a monotonic clock. */
void emx_udp_conns_sweep(struct emx_udp_conns *l, int64_t now_s);

#endif
