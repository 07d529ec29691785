/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The header of IPv4, and numbers and sums as the Internet protocols have them: what the forms of GSO packets have in
 * common. Pure functions on bytes.
 */
#ifndef EMX_WIRE_IP_HEADER_H
#define EMX_WIRE_IP_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/ip.h"

#define EMX_IPV4_BYTES      20   /* without options */
#define EMX_IPV4_PLAIN      0x45 /* version 4, header without options */
#define EMX_IPV4_DONT_BREAK 0x40 /* DF */
#define EMX_IPV4_FRAGMENT   0x3f /* MF and the offset's upper bits */
#define EMX_IP_HOPS         64
#define EMX_ETHTYPE_IPV4    0x0800

static inline void emx_put_be16(uint8_t *p, unsigned v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static inline unsigned emx_get_be16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

/* The Internet checksum's sum, not complemented. len_bytes is even. */
static inline unsigned emx_ip_sum16(const uint8_t *p, size_t len_bytes, unsigned sum)
{
    for (size_t i = 0; i < len_bytes; i += 2)
        sum += emx_get_be16(p + i);
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

/* Writes the header before len_bytes of the protocol, to zeros. Returns the sum over its addresses. */
static inline unsigned emx_ipv4_put(uint8_t *ip, unsigned protocol, uint8_t tos, const struct emx_ip *from,
                                    const struct emx_ip *to, unsigned len_bytes)
{
    ip[0] = EMX_IPV4_PLAIN;
    ip[1] = tos;
    emx_put_be16(ip + 2, len_bytes + EMX_IPV4_BYTES);
    ip[6] = EMX_IPV4_DONT_BREAK;
    ip[8] = EMX_IP_HOPS;
    ip[9] = (uint8_t)protocol;
    memcpy(ip + 12, &from->b[EMX_IP_V4_AT], EMX_IP_V4_BYTES);
    memcpy(ip + 16, &to->b[EMX_IP_V4_AT], EMX_IP_V4_BYTES);
    emx_put_be16(ip + 10, ~emx_ip_sum16(ip, EMX_IPV4_BYTES, 0) & 0xffff);
    return emx_ip_sum16(ip + 12, 2 * EMX_IP_V4_BYTES, 0);
}

/* Whether it is the header of a whole packet of this protocol, without options. */
static inline bool emx_ipv4_is_whole(const uint8_t *ip, unsigned protocol)
{
    return ip[0] == EMX_IPV4_PLAIN && ip[9] == protocol && !(ip[6] & EMX_IPV4_FRAGMENT) && !ip[7];
}

#endif
