/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The parts of an endpoint's address that concern wires: its interfaces, which all wires use, and one value per wire,
 * which only that wire interprets.
 */
#ifndef EMX_BASE_WIRE_PART_H
#define EMX_BASE_WIRE_PART_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/ip.h"

#define EMX_WIRE_IFS         6  /* interfaces told to peers */
#define EMX_WIRE_PART_TYPES  31 /* types of parts: 1 to this */
#define EMX_WIRE_VALUE_BYTES 16 /* longest value that a wire of ours writes; others may send longer ones */

struct emx_wire_if {
    struct emx_ip ip;
    uint8_t prefix_bits; /* of the address's family; 0: not told */
    uint8_t mac[6];
    uint16_t frame_bytes; /* longest Ethernet payload */
};

/* Whether the MAC address is known. An address that a launcher carries may omit it. */
static inline bool emx_wire_if_has_mac(const struct emx_wire_if *i)
{
    static const uint8_t none[sizeof(i->mac)];

    return memcmp(i->mac, none, sizeof(none)) != 0;
}

/* The value of a wire's part of an address. It points into the address. b NULL: there is no such part. */
struct emx_wire_value {
    const uint8_t *b;
    unsigned len_bytes;
};

static inline uint16_t emx_wire_value_u16(const uint8_t *b)
{
    return (uint16_t)(b[0] | b[1] << 8);
}

static inline void emx_wire_value_put_u16(uint8_t *b, uint16_t v)
{
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}

#endif
