/* SPDX-License-Identifier: BSD-3-Clause
 *
 * State of an open udp wire, shared by its files: udp.c (open, close), udp_tx.c, udp_rx.c. The caller holds the
 * endpoint's lock.
 */
#ifndef EMX_WIRE_UDP_WIRE_H
#define EMX_WIRE_UDP_WIRE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "wire/backlog.h"
#include "wire/gso.h"
#include "wire/gso_rx.h"
#include "wire/udp/udp_conn.h"
#include "wire/udp_socket.h"
#include "wire/wire.h"

#define EMX_UDP_BUFFERS      8                                    /* received in one call */
#define EMX_UDP_BUFFER_BYTES (UINT16_MAX + 1 + 3 * EMX_GSO_PARTS) /* with room to move parts apart for alignment */
#define EMX_UDP_COPY_BYTES   2048 /* shorter frames are copied together before sending */

/* A received buffer: parts of part_bytes each, part_step apart, the last may be shorter. */
struct emx_udp_buffer {
    uint8_t *data;
    unsigned len_bytes, part_bytes, part_step;
    unsigned lent_bytes; /* bytes of len_bytes that were passed up */
    unsigned lent_parts;
    bool marked; /* carries the congestion mark CE */
};

/* Messages for the kernel. A GSO packet uses one message, and two iovecs for each of its frames. */
struct emx_udp_tx {
    const struct emx_wire_addr *to[EMX_WIRE_BATCH]; /* of each message */
    union emx_udp_sockaddr sockaddr[EMX_WIRE_BATCH];
    struct iovec iov[2 * EMX_WIRE_BATCH];
    struct mmsghdr msg[EMX_WIRE_BATCH];
    unsigned frames[EMX_WIRE_BATCH]; /* in each message */
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(uint16_t))];
    } control[EMX_WIRE_BATCH];
    uint8_t copy[EMX_UDP_COPY_BYTES];
};

struct emx_udp_wire {
    struct emx_wire base;
    int fd;
    bool v6; /* the socket is of IPv6, and sends IPv4, too */
    struct emx_stats *stats;
    unsigned frame_bytes;
    uint16_t port; /* host order */
    bool gso;

    struct emx_udp_buffer buffer[EMX_UDP_BUFFERS];
    unsigned filled, current; /* buffers in use; the one that frames are taken from */
    bool busy;                /* the last rx() found something */
    bool joined;              /* the last long datagram was joined with others */
    struct emx_gso_rx place;  /* a packet received into its place */
    bool gro;                 /* the kernel can join datagrams */
    bool unjoined;            /* joining is disabled, and recv() is called */
    unsigned singles;         /* short datagrams in a row, each alone */
    unsigned run;             /* successful polls in a row */
    uint32_t drops;           /* the kernel's count at the last check */
    struct mmsghdr msg[EMX_UDP_BUFFERS];
    struct iovec iov[EMX_UDP_BUFFERS];
    union emx_udp_control control[EMX_UDP_BUFFERS];

    struct emx_udp_tx *tx;
    struct emx_udp_conns conns;
    struct emx_backlog backlog;
};

/* Operations of struct emx_wire_ops. */
unsigned emx_udp_tx_budget(struct emx_wire *base);
void emx_udp_tx(struct emx_wire *base, const struct emx_txframe *f, unsigned n);
unsigned emx_udp_rx(struct emx_wire *base, struct emx_rxframe *f, unsigned max);
void emx_udp_rx_return(struct emx_wire *base, const struct emx_rxframe *f, unsigned n);

#endif
