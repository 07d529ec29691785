/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Address: what an endpoint tells others about itself; the opaque bytes of ethmx_ep_address(). Pure encoding.
 * docs/protocol.md describes each field.
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

#define EMX_ADDRESS_VERSION     6
#define EMX_ADDRESS_HOST        48
#define EMX_ADDRESS_SECRET      16
#define EMX_ADDRESS_PART_BYTES  95 /* all parts of wires, with their headers */
#define EMX_ADDRESS_LAUNCHER    ETHMX_ADDRESS_LAUNCHER
#define EMX_ADDRESS_HOST_ID_MAX UINT64_C(0xffffffffffff)

struct emx_address {
    uint32_t id;      /* the endpoint's random incarnation number, never 0 */
    uint32_t cookie;  /* frames to it must carry this */
    uint64_t host_id; /* of 48 bits */
    uint8_t if_count;
    struct emx_wire_if ifs[EMX_WIRE_IFS];
    uint8_t part_bytes; /* the wires' parts, encoded; use emx_address_part() and emx_address_add_part() */
    uint8_t part[EMX_ADDRESS_PART_BYTES];
    uint8_t
        min_bytes[EMX_WIRE_PART_TYPES + 1]; /* of each type, how much of the value a first hello needs; not encoded */
    uint32_t by_ip; /* bit of each type whose wire reaches an interface of which only the IP is told; not encoded */
    char host[EMX_ADDRESS_HOST]; /* host name, cut if need be, with a final 0 */
    bool auth;                   /* its frames carry tags (ETHMX_AUTH=on) */
    bool has_secret;             /* this address tells the secret: it comes from the launcher, not from the network */
    uint8_t secret[EMX_ADDRESS_SECRET];
};

/* The part of a wire: type 1 to EMX_WIRE_PART_TYPES. Valid as long as a. */
struct emx_wire_value emx_address_part(const struct emx_address *a, unsigned type);

/* Adds a part of a type that a does not have. false: no room. */
bool emx_address_add_part(struct emx_address *a, unsigned type, const void *value, unsigned len_bytes);

/* Whether both have the same values in the parts that both have, as far as both tell them. */
bool emx_address_parts_agree(const struct emx_address *a, const struct emx_address *b);

/* The host for people: its name, or an IP address that is told, or its number; in text or a. */
const char *emx_address_host(const struct emx_address *a, char text[EMX_ADDRESS_HOST]);

/* Writes a to buf (ETHMX_ADDRESS_MAX bytes suffice always) and returns the length. */
size_t emx_address_encode(const struct emx_address *a, uint8_t *buf);

/* The same without the secret, as it may travel in frames. */
size_t emx_address_encode_public(const struct emx_address *a, uint8_t *buf);

/* So many of the first interfaces lie each in a network of its own: whoever is told of them knows a way by each of the
 * networks. Interfaces of a network that is there already are to stand behind them. */
unsigned emx_address_networks(const struct emx_address *a);

/* What a first hello to a needs, and what else fits in room_bytes: at least one interface (of an address that has any);
 * then as many networks as fit, MAC addresses, all of the parts and how long frames may be. Where not all networks fit,
 * they come before the parts of wires that hellos may tell as well, and before MAC addresses. Never the host name. The
 * rest is told by a's own hellos. Returns 0 if there is not enough room. */
size_t emx_address_encode_within(const struct emx_address *a, size_t room_bytes, uint8_t *buf);

/* Reads and checks: version, lengths, counts, id. false and a sentence in err: not a usable address. */
bool emx_address_decode(struct emx_address *a, const void *buf, size_t len_bytes, char *err, size_t err_len_bytes);

/* Writes the endpoint number to its place in an encoded address of ETHMX_ADDRESS_MAX bytes. */
void emx_address_put_id(uint8_t *buf, uint32_t id);

#endif
