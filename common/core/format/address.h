/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Address: how others reach an endpoint; the opaque bytes of ethmx_ep_address(). Pure encoding. docs/protocol.md
 * describes each field.
 *
 * It holds what all wires share, and a part of each wire: type, length and value. Parts are bounded and checked here,
 * but only their wires understand the values.
 */
#ifndef EMX_CORE_ADDRESS_H
#define EMX_CORE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wire_part.h"
#include "ethmx.h"

#define EMX_ADDRESS_VERSION     9
#define EMX_ADDRESS_HOST        48
#define EMX_ADDRESS_SECRET      16
#define EMX_ADDRESS_PART_BYTES  95 /* all parts of wires, with their headers */
#define EMX_ADDRESS_HOST_ID_MAX UINT64_C(0xffffffffffff)

struct emx_address {
    uint32_t id;      /* the endpoint's random incarnation number, never 0 */
    uint32_t cookie;  /* frames to the endpoint must carry it */
    uint64_t host_id; /* of 48 bits */
    uint8_t if_count;
    struct emx_wire_if ifs[EMX_WIRE_IFS];
    uint8_t part_bytes; /* parts of wires, encoded; use emx_address_part() and emx_address_add_part() */
    uint8_t part[EMX_ADDRESS_PART_BYTES];
    uint8_t min_bytes[EMX_WIRE_PART_TYPES + 1]; /* by type, how much of the value a first hello needs; not encoded */
    uint32_t by_ip;              /* bit for each type whose wire reaches an interface by its IP alone; not encoded */
    char host[EMX_ADDRESS_HOST]; /* host name, truncated if necessary, with a final 0 */
    bool auth;                   /* its frames carry tags (ETHMX_AUTH=on) */
    bool has_secret;             /* this address has the secret: it comes from the launcher, not from the network */
    uint8_t secret[EMX_ADDRESS_SECRET];
};

/* The part of a wire: type 1 to EMX_WIRE_PART_TYPES. Points into a. */
struct emx_wire_value emx_address_part(const struct emx_address *a, unsigned type);

/* Adds a part of a type that a does not have. false: no room. */
bool emx_address_add_part(struct emx_address *a, unsigned type, const void *value, unsigned len_bytes);

/* Whether both have the same values in their common parts, as far as both have them. */
bool emx_address_parts_agree(const struct emx_address *a, const struct emx_address *b);

/* The host for messages to the user: its name, or an IP address, or its number; in text or a. */
const char *emx_address_host(const struct emx_address *a, char text[EMX_ADDRESS_HOST]);

/* Writes a to buf (ETHMX_ADDRESS_MAX bytes always suffice) and returns the length. */
size_t emx_address_encode(const struct emx_address *a, uint8_t *buf);

/* The same without the secret, as it may travel in frames. */
size_t emx_address_encode_public(const struct emx_address *a, uint8_t *buf);

/* Adds an interface. false: no room, neither in a nor in the encoded address. */
bool emx_address_add_if(struct emx_address *a, const struct emx_wire_if *i);

/* Number of first interfaces that are each in a separate network: with these a peer knows a way by each of the
 * networks. Further interfaces of the same networks must follow them. IPv6 counts only if the first interface is told
 * by IPv6: elsewhere it adds a second way to a network. */
unsigned emx_address_networks(const struct emx_address *a);

/* Encodes what a first hello to a needs, and what else fits in room_bytes: at least one interface (of an address that
 * has any), then as many networks as fit, MAC addresses, the complete parts and frame lengths. If not all networks fit,
 * they have priority over the parts of wires that hellos may carry as well, and over MAC addresses. Without a wire that
 * reaches an interface by IP, half of an IPv6 address may be made from the MAC. Never the host name. The rest is in a's
 * own hellos. Returns 0 if there is not enough room. */
size_t emx_address_encode_within(const struct emx_address *a, size_t room_bytes, uint8_t *buf);

/* Reads and checks: version, lengths, counts, id. false: not a usable address, and err has a sentence. */
bool emx_address_decode(struct emx_address *a, const void *buf, size_t len_bytes, char *err, size_t err_len_bytes);

/* Writes the endpoint number into an encoded address of ETHMX_ADDRESS_MAX bytes. */
void emx_address_put_id(uint8_t *buf, uint32_t id);

#endif
