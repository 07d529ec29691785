/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The UDP socket of GSO packets: it holds the port to which they go, and receives those with data of large messages.
 * Where packet sockets do not send them, it sends them and receives all. Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_GSO_UDP_H
#define EMX_WIRE_GSO_UDP_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/gso.h"
#include "wire/gso_rx.h"
#include "wire/wire.h"

struct emx_gso_udp {
    int fd;                /* -1: not open */
    uint16_t port;         /* host order */
    unsigned buffer_bytes; /* as the system allows */
    uint32_t drops;        /* as the kernel counts them */
};

/* Opens the socket, of IPv6 if v6 and otherwise of IPv4, and binds it to a free port, with a receive buffer of about
 * buffer_bytes. all: it sends and receives all packets; otherwise it only receives those whose data may have a place
 * (base/placement.h), and drops others. -1 and errno; then close it, too. */
int emx_gso_udp_open(struct emx_gso_udp *u, const struct emx_wire_params *params, bool v6, bool all,
                     uint64_t buffer_bytes);
void emx_gso_udp_close(struct emx_gso_udp *u);

/* From now on the socket only holds the port, and drops what arrives. -1 and errno: nothing has changed. */
int emx_gso_udp_only_hold(struct emx_gso_udp *u);

/* Sends n frames as one packet: all of one length, but the last may be shorter. It leaves through the interface; of the
 * way its IP addresses and to_port count. 0 or an errno. */
int emx_gso_udp_send(struct emx_gso_udp *u, unsigned ifindex, const struct emx_gso_way *way,
                     const struct emx_txframe *f, unsigned n);

/* Receives the next packet from any UDP socket with UDP_GRO; seen NULL: asks the socket first for what can be seen of
 * it. *drops: as with emx_udp_socket_read_control(). false: there is none. */
bool emx_gso_udp_receive(int fd, struct emx_gso_rx *r, const struct emx_gso_seen *seen, uint32_t *drops);

#endif
