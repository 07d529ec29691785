/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The packet wire's structure, and the functions of packet_tx.c.
 */
#ifndef EMX_WIRE_PACKET_IMPL_H
#define EMX_WIRE_PACKET_IMPL_H

#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "wire/backlog.h"
#include "wire/fanout.h"
#include "wire/netif.h"
#include "wire/offload.h"
#include "wire/packet/packet.h"
#include "wire/packet/packet_udp.h"
#include "wire/ring.h"

#define EMX_PACKET_COPY_BYTES 2048 /* shorter frames are copied together before sending */

/* An interface that frames leave through. */
struct packet_port {
    unsigned ifindex;
    uint8_t mac[ETH_ALEN];
    bool by_udp; /* frames leave in UDP if the peer takes them */
};

/* Arguments of the system calls, per frame. */
struct packet_tx {
    struct sockaddr_ll to[EMX_WIRE_BATCH];
    struct iovec iov[EMX_WIRE_BATCH][3];
    struct mmsghdr msg[EMX_WIRE_BATCH];
    uint8_t copy[EMX_WIRE_BATCH][EMX_PACKET_UDP_HEAD + EMX_PACKET_COPY_BYTES]; /* headers; all of a short frame */
};

struct packet_wire {
    struct emx_wire base;
    int rx_fd, tx_fd;
    uint32_t endpoint_id;
    bool filtered;       /* the kernel passes only frames for endpoint_id */
    bool bared;          /* the filter was detached at least once */
    bool foreign_frames; /* frames for other endpoints arrive at this host */
    struct emx_stats *stats;
    unsigned frame_bytes;
    uint16_t ethertype; /* network order */
    struct emx_ring ring;
    struct emx_offload *offload; /* NULL: no GSO packets */
    bool no_joining;             /* the kernel or an interface refused GSO packets */
    bool no_tso;                 /* the same of TSO packets */
    bool offload_first;          /* rx() has read GSO packets without an announcement first */

    struct emx_packet_udp *udp; /* NULL: no frames in UDP */
    unsigned has_udp;           /* 1: udp is not NULL; read together with the backlog's count */
    uint8_t tos;                /* of these */
    bool udp_last;              /* rx() reads the ring of frames in UDP last */
    struct emx_ring *peeked;    /* the ring that the frame of peek() is in */

    struct emx_fanout *fanout; /* NULL: the kernel runs this rank's filter for each frame */

    struct packet_port port[EMX_NETIF_MAX];
    unsigned port_count;
    unsigned bound_ifindex; /* the sending socket is bound to it; 0: not bound */
    struct packet_tx *tx;
    struct emx_backlog backlog;
};

/* As in struct emx_wire_ops. */
unsigned emx_packet_tx_room(struct emx_wire *base);
void emx_packet_tx(struct emx_wire *base, const struct emx_txframe *f, unsigned n);

#endif
