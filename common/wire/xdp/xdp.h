/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The xdp wire: AF_XDP sockets. xdp.c describes the mechanism. In a build without libxdp open() fails and says so.
 */
#ifndef EMX_WIRE_XDP_H
#define EMX_WIRE_XDP_H

#include "wire/ethernet.h"
#include "wire/offload.h"
#include "wire/wire.h"

extern const struct emx_wire_ops emx_wire_xdp;

/* This wire's part of an address: the interfaces (1 byte), then the part of all Ethernet wires. */
#define EMX_XDP_PART       4
#define EMX_XDP_PART_MIN   1 /* for a first hello */
#define EMX_XDP_PART_BYTES (EMX_ETHERNET_PART_BYTES + 1)

struct emx_xdp_part {
    uint8_t ifs; /* bit i: the wire listens on interface i of the address */
    struct emx_ethernet_part ethernet;
};

/* Adds to the part that the wire listens on nif, if the address contains that interface. */
void emx_xdp_part_listen(struct emx_xdp_part *part, const struct emx_way_site *site, const struct emx_netif *nif);

/* Returns EMX_XDP_PART_BYTES. */
unsigned emx_xdp_part_write(const struct emx_xdp_part *part, uint8_t value[EMX_XDP_PART_BYTES]);

/* Prepares a destination: frames for the MAC address leave through interface ifindex, one of those the wire listens on.
 * way NULL: no GSO packets. */
void emx_xdp_addr(struct emx_wire_addr *a, unsigned ifindex, const uint8_t mac[6], const struct emx_offload_way *way);

/* As in struct emx_wire_ops (xdp_way.c). */
void emx_xdp_ways(struct emx_wire *w, struct emx_way_search *s);

#endif
