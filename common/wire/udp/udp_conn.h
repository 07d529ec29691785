/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lines: connected UDP sockets, each for sending to one of the peers that get most frames. See udp_conn.c.
 */
#ifndef EMX_WIRE_UDP_CONN_H
#define EMX_WIRE_UDP_CONN_H

#include <netinet/in.h>
#include <stdint.h>

#define EMX_UDP_CONN_SETS  16
#define EMX_UDP_CONN_WAYS  4  /* peers of a set that are remembered */
#define EMX_UDP_CONN_AFTER 64 /* datagrams to a peer until it gets a line */

/* A peer that was sent to lately, with or without a line. */
struct emx_udp_conn {
    uint64_t peer;   /* its address and port; 0: none */
    int fd;          /* -1: it has no line */
    uint32_t frames; /* datagrams, counted while it has none */
    uint32_t wanted; /* when it gets one */
    uint32_t used;   /* lately, by emx_udp_conns.now */
};

struct emx_udp_conns {
    int wire_fd; /* the wire's own socket; belongs to the caller */
    in_port_t port;
    int fd_end; /* descriptors from this on are left to the program */
    uint32_t now;
    int64_t made_s; /* when the oldest line may have been made */
    unsigned count; /* of lines */
    struct emx_udp_conn *last;
    struct emx_udp_conn line[EMX_UDP_CONN_SETS][EMX_UDP_CONN_WAYS];
};

/* There are no lines yet. wire_fd is bound to port (network order) of all addresses; new lines copy its options. */
void emx_udp_conns_init(struct emx_udp_conns *l, int wire_fd, in_port_t port);
void emx_udp_conns_fini(struct emx_udp_conns *l);

/* n datagrams are about to go to ip and port (network order). The connected socket to send them by; -1: by the wire's.
 */
int emx_udp_conn_for(struct emx_udp_conns *l, struct in_addr ip, in_port_t port, unsigned n);

/* The line to ip and port refused what the wire's own socket took. It ends; the next one takes longer to come. */
void emx_udp_conn_failed(struct emx_udp_conns *l, struct in_addr ip, in_port_t port);

/* To be called now and then: ends lines that are old. now_s: seconds of a clock that goes steadily. */
void emx_udp_conns_sweep(struct emx_udp_conns *l, int64_t now_s);

#endif
