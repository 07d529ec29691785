/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The udp wire: one unprivileged UDP socket. udp.c describes the mechanism.
 */
#ifndef EMX_WIRE_UDP_H
#define EMX_WIRE_UDP_H

#include "base/ip.h"
#include "wire/wire.h"

extern const struct emx_wire_ops emx_wire_udp;

/* This wire's part of an address: the port, little-endian. */
#define EMX_UDP_PART       2
#define EMX_UDP_PART_BYTES 2

/* Prepares a destination. scope: the ifindex for a link-local address of IPv6, otherwise 0; port in host order. */
void emx_udp_addr(struct emx_wire_addr *a, const struct emx_ip *ip, unsigned scope, uint16_t port);

/* As in struct emx_wire_ops (udp_way.c). */
void emx_udp_ways(struct emx_wire *w, struct emx_way_search *s);

#endif
