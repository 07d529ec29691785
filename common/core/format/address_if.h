/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The interfaces in an encoded address. Only address.c uses this; others use address.h.
 */
#ifndef EMX_CORE_ADDRESS_IF_H
#define EMX_CORE_ADDRESS_IF_H

#include <stdbool.h>
#include <stdint.h>

#include "core/format/address.h"

#define EMX_ADDRESS_IFS_BYTES 78 /* of all interfaces: 6 with IPv4, 3 with IPv6, or 2 with both */

/* Numbers of an address are little-endian. Both move on by so many bytes. */
static inline uint8_t *emx_address_put(uint8_t *p, uint64_t v, unsigned bytes)
{
    for (; bytes; bytes--, v >>= 8)
        *p++ = (uint8_t)v;
    return p;
}

static inline uint64_t emx_address_get(const uint8_t **p, unsigned bytes)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)(*p)[i] << 8 * i;
    *p += bytes;
    return v;
}

/* Whether the MAC address makes half of its IP, which then need not be encoded. */
bool emx_address_if_is_eui64(const struct emx_wire_if *i);

/* Writes the interfaces of a to p, and returns where they end. */
uint8_t *emx_address_if_put_all(uint8_t *p, const struct emx_address *a);

/* Reads a->if_count interfaces at *p_p, which end before end, into a. NULL: *p_p points behind them. Otherwise the
 * error. */
const char *emx_address_if_get_all(struct emx_address *a, const uint8_t **p_p, const uint8_t *end);

#endif
