/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The packet wire: AF_PACKET sockets with an EtherType of its own. packet.c describes the mechanism.
 */
#ifndef EMX_WIRE_PACKET_H
#define EMX_WIRE_PACKET_H

#include "wire/offload.h"
#include "wire/wire.h"

extern const struct emx_wire_ops emx_wire_packet;

#define EMX_PACKET_PART 1 /* its part of an address: struct emx_ethernet_part */

/* Prepares a destination: frames leave through interface ifindex for mac. For a peer on this host: ifindex of lo and
 * any mac. way NULL: no GSO packets. */
void emx_packet_addr(struct emx_wire_addr *a, unsigned ifindex, const uint8_t mac[6],
                     const struct emx_offload_way *way);

/* Whether single frames that leave through interface ifindex go in UDP if the peer takes them. w NULL: no. */
bool emx_packet_prefers_udp(const struct emx_wire *w, unsigned ifindex);

/* As in struct emx_wire_ops (packet_way.c). */
void emx_packet_ways(struct emx_wire *w, struct emx_way_search *s);

#endif
