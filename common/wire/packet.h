/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The packet wire: AF_PACKET, own EtherType. See packet.c for the mechanism.
 */
#ifndef EMX_WIRE_PACKET_H
#define EMX_WIRE_PACKET_H

#include <netinet/in.h>

#include "wire/wire.h"

extern const struct emx_wire_ops emx_wire_packet;

/* What superframes to a destination need. */
struct emx_packet_bulk {
    struct in_addr from, to;
    uint16_t port;        /* the receiver's bulk_port, host order */
    uint16_t frame_bytes; /* longest frame that fits with IPv4 and UDP headers, 0: no superframes */
};

/* Prepares a destination: frames leave through interface ifindex for mac. For a peer on this host: ifindex of lo and
 * any mac. bulk NULL: no superframes. */
void emx_packet_addr(struct emx_wire_addr *a, unsigned ifindex, const uint8_t mac[6],
                     const struct emx_packet_bulk *bulk);

#endif
