/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ethernet: what the wires have in common that send Ethernet frames: their part of an address, and how they find ways.
 */
#ifndef EMX_WIRE_ETHERNET_H
#define EMX_WIRE_ETHERNET_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "wire/offload.h"
#include "wire/way.h"

#define EMX_ETHERNET_PART_BYTES 9
#define EMX_ETHERNET_PART_LEAST 6 /* udp_port and what follows may be missing */

/* Encoded little-endian. */
struct emx_ethernet_part {
    uint16_t frame_bytes; /* longest frame that it takes */
    uint16_t ethertype;
    uint16_t gso_port; /* port of GSO packets, host order; 0: none accepted */
    uint16_t udp_port; /* UDP port of single frames; 0: none accepted */
    bool tso;          /* one byte: whether it takes TSO packets to gso_port */
};

/* Sets what the part says of GSO packets; NULL: none are accepted. */
void emx_ethernet_part_offload(struct emx_ethernet_part *part, const struct emx_offload *b);

void emx_ethernet_part_write(const struct emx_ethernet_part *part, uint8_t value[EMX_ETHERNET_PART_BYTES]);
/* An empty value means: not told yet (any length, EtherType 0, no GSO packets). false: it is too short. */
bool emx_ethernet_part_read(const struct emx_wire_value *value, struct emx_ethernet_part *part_p);

/* Reads both ends' parts, which begin skip_bytes after their values. false: the ends cannot communicate, and s has the
 * obstacle. parameter: the name of the one that sets the EtherType. */
struct emx_ethernet_ends {
    struct emx_ethernet_part ours, theirs;
    bool by_udp; /* set by the caller: single frames travel in UDP where possible; false after the call below */
    bool spare;  /* the same: the way is not the kernel's, and is no rail */
    bool v6;     /* IP packets between them are of IPv6 */
    bool tso;    /* both take TSO packets */
};
bool emx_ethernet_ends(struct emx_way_search *s, unsigned skip_bytes, const char *parameter,
                       struct emx_ethernet_ends *ends_p);

/* Adds the way from nif to the interface with this MAC and IP address; with GSO packets if both ends accept them and
 * have IP addresses of the family; before it, if ends->by_udp and the same holds for frames in UDP, a way with those.
 */
void emx_ethernet_add(struct emx_way_search *s, const struct emx_ethernet_ends *ends, const struct emx_netif *nif,
                      const uint8_t mac[6], const struct emx_ip *ip, unsigned mtu_bytes, unsigned score);

/* The MAC address of the peer's interface. One with both families tells it once, with its IPv4 address. From an
 * interface with IPv6 only, it is known all the same if the peer tells no other. NULL: unknown. */
const uint8_t *emx_ethernet_mac(const struct emx_way_search *s, const struct emx_netif *nif,
                                const struct emx_wire_if *theirs);

/* Whether the address is in our network and in the one that the peer tells. */
bool emx_ethernet_same_subnet(const struct emx_netif *nif, const struct emx_wire_if *theirs);

/* The UDP port to which single frames to this destination go, host order; 0: they are frames of the EtherType. */
static inline uint16_t emx_ethernet_udp_port(const struct emx_wire_addr *a)
{
    return emx_offload_to(a).udp_port;
}

/* The local interface that reaches the peer's interface. Ethernet frames pass no router, so both must be in one subnet
 * without a gateway. NULL: there is none, and s has the obstacle. */
const struct emx_netif *emx_ethernet_towards(struct emx_way_search *s, const struct emx_wire_if *theirs);

#endif
