/* SPDX-License-Identifier: BSD-3-Clause
 *
 * IP addresses of both families. An IPv4 address is kept in its mapped form, ::ffff:a.b.c.d (RFC 4291), so that
 * addresses of both families are compared alike, and sockets of both families take it.
 */
#ifndef EMX_BASE_IP_H
#define EMX_BASE_IP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/min.h"

#define EMX_IP_BYTES    16
#define EMX_IP_TEXT     46 /* INET6_ADDRSTRLEN */
#define EMX_IP_V4_AT    12 /* where the IPv4 address is in its mapped form */
#define EMX_IP_V4_BYTES 4

struct emx_ip {
    uint8_t b[EMX_IP_BYTES]; /* all zero: none */
};

static inline bool emx_ip_equal(const struct emx_ip *a, const struct emx_ip *b)
{
    return !memcmp(a, b, sizeof(*a));
}

static inline bool emx_ip_is_none(const struct emx_ip *ip)
{
    return emx_ip_equal(ip, &(const struct emx_ip){{0}});
}

static inline bool emx_ip_is_v4(const struct emx_ip *ip)
{
    static const uint8_t mapped[EMX_IP_V4_AT] = {[10] = 0xff, [11] = 0xff};

    return !memcmp(ip->b, mapped, sizeof(mapped));
}

static inline bool emx_ip_is_v6(const struct emx_ip *ip)
{
    return !emx_ip_is_v4(ip) && !emx_ip_is_none(ip);
}

/* v4: in network order; 0: none. */
static inline struct emx_ip emx_ip_from_v4(uint32_t v4)
{
    struct emx_ip ip = {{0}};

    if (!v4)
        return ip;
    ip.b[10] = ip.b[11] = 0xff;
    memcpy(&ip.b[EMX_IP_V4_AT], &v4, sizeof(v4));
    return ip;
}

/* The IPv4 address in network order; 0: it has another family. */
static inline uint32_t emx_ip_v4(const struct emx_ip *ip)
{
    uint32_t v4 = 0;

    if (emx_ip_is_v4(ip))
        memcpy(&v4, &ip->b[EMX_IP_V4_AT], sizeof(v4));
    return v4;
}

/* fe80::/10: such an address means nothing without the interface (scope) on whose link it is. */
static inline bool emx_ip_is_link_local6(const struct emx_ip *ip)
{
    return ip->b[0] == 0xfe && (ip->b[1] & 0xc0) == 0x80;
}

static inline bool emx_ip_is_loopback(const struct emx_ip *ip)
{
    static const struct emx_ip loopback6 = {{[15] = 1}};

    return emx_ip_is_v4(ip) ? ip->b[EMX_IP_V4_AT] == 127 : emx_ip_equal(ip, &loopback6);
}

/* The longest prefix of an address of this family. */
static inline unsigned emx_ip_prefix_max(const struct emx_ip *ip)
{
    return emx_ip_is_v6(ip) ? 128 : 32;
}

/* Whether both addresses have one family, and are of one network with a prefix of so many bits of that family. More
 * bits than an address has count as all. */
static inline bool emx_ip_same_network(const struct emx_ip *ip, const struct emx_ip *other, unsigned prefix_bits)
{
    unsigned bits = emx_min_u(prefix_bits, emx_ip_prefix_max(ip));
    unsigned bytes, rest;

    if (emx_ip_is_v4(ip) != emx_ip_is_v4(other))
        return false;
    bits += emx_ip_is_v4(ip) ? 8 * EMX_IP_V4_AT : 0;
    bytes = bits / 8;
    rest = bits % 8;
    return !memcmp(ip->b, other->b, bytes) && (!rest || !((ip->b[bytes] ^ other->b[bytes]) >> (8 - rest)));
}

/* Whether the last half of ip is made from the MAC address (modified EUI-64, RFC 4291). */
bool emx_ip_is_eui64(const struct emx_ip *ip, const uint8_t mac[6]);

/* Makes the last half of ip from the MAC address. */
void emx_ip_put_eui64(struct emx_ip *ip, const uint8_t mac[6]);

/* Reads "10.1.0.3" or "2001:db8::3". false: neither. */
bool emx_ip_parse(struct emx_ip *ip_p, const char *text);

/* Writes ip as people write it to text, and returns that. */
const char *emx_ip_text(const struct emx_ip *ip, char text[EMX_IP_TEXT]);

#endif
