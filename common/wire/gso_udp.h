/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The UDP socket of GSO packets: it holds the port to which they go. Where packet sockets do not carry them, it also
 * sends and receives them. Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_GSO_UDP_H
#define EMX_WIRE_GSO_UDP_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/gso.h"
#include "wire/wire.h"

#define EMX_GSO_UDP_BUFFERS 8 /* packets of which frames may be in use at once */

struct emx_gso_udp {
    int fd;                               /* -1: not open */
    uint16_t port;                        /* host order */
    uint8_t *buffer[EMX_GSO_UDP_BUFFERS]; /* NULL: it only holds the port */
    struct emx_stats *stats;
    uint32_t drops; /* as the kernel counts them */
};

/* Opens the socket and binds it to a free port. carries: it sends and receives packets, with a receive buffer of about
 * buffer_bytes; otherwise it only holds the port, and drops what arrives. -1 and errno; then close it, too. */
int emx_gso_udp_open(struct emx_gso_udp *u, const struct emx_wire_params *params, bool carries, uint64_t buffer_bytes);
void emx_gso_udp_close(struct emx_gso_udp *u);

/* Sends n frames as one packet: all of one length, but the last may be shorter. It leaves through the interface; of the
 * way its IP addresses and to_port count. 0 or an errno. */
int emx_gso_udp_send(struct emx_gso_udp *u, unsigned ifindex, const struct emx_gso_way *way,
                     const struct emx_txframe *f, unsigned n);

/* Receives the next packet into buffer i, whose frames are no longer in use. false: there is none. */
bool emx_gso_udp_receive(struct emx_gso_udp *u, unsigned i, struct emx_gso *packet_p);

#endif
