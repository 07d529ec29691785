/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the wires share whose frames travel as payload of Ethernet frames: their part of an address, and how they find
 * ways.
 */
#ifndef EMX_WIRE_ETHERNET_H
#define EMX_WIRE_ETHERNET_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/offload.h"
#include "wire/way.h"

#define EMX_ETHERNET_PART_BYTES 6

/* Encoded: each in two bytes, little-endian. */
struct emx_ethernet_part {
    uint16_t frame_bytes; /* longest frame that it takes */
    uint16_t ethertype;
    uint16_t gso_port; /* UDP port of GSO packets to it, host order; 0: it takes none */
};

void emx_ethernet_part_write(const struct emx_ethernet_part *part, uint8_t value[EMX_ETHERNET_PART_BYTES]);
/* An empty value does not tell them yet: any length, EtherType 0, no GSO packets. false: it is too short. */
bool emx_ethernet_part_read(const struct emx_wire_value *value, struct emx_ethernet_part *part_p);

/* Reads both ends' parts, which begin so many bytes after their values do. false: they cannot talk, whatever the way,
 * and s has the obstacle. parameter: that which sets the EtherType. */
struct emx_ethernet_ends {
    struct emx_ethernet_part ours, theirs;
};
bool emx_ethernet_ends(struct emx_way_search *s, unsigned skip_bytes, const char *parameter,
                       struct emx_ethernet_ends *ends_p);

/* Adds the way from nif to the interface with this mac and address (ip 0: none), with GSO packets where both ends take
 * them and have IP addresses. */
void emx_ethernet_add(struct emx_way_search *s, const struct emx_ethernet_ends *ends, const struct emx_netif *nif,
                      const uint8_t mac[6], uint32_t ip, unsigned mtu_bytes, unsigned score);

/* Our interface from which Ethernet frames reach one of the peer: Ethernet frames pass no router, so both must be in
 * one subnet, without a gateway between. NULL: there is none, and s has the obstacle. */
const struct emx_netif *emx_ethernet_towards(struct emx_way_search *s, const struct emx_wire_if *theirs);

#endif
