/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/ip.h"

#include <arpa/inet.h>
#include <assert.h>

#define EUI64_AT 8

static_assert(EMX_IP_TEXT == INET6_ADDRSTRLEN, "text of an address");

void emx_ip_put_eui64(struct emx_ip *ip, const uint8_t mac[6])
{
    uint8_t *id = &ip->b[EUI64_AT];

    id[0] = mac[0] ^ 2; /* the bit that says whether the MAC address is universal is inverted */
    id[1] = mac[1];
    id[2] = mac[2];
    id[3] = 0xff;
    id[4] = 0xfe;
    id[5] = mac[3];
    id[6] = mac[4];
    id[7] = mac[5];
}

bool emx_ip_is_eui64(const struct emx_ip *ip, const uint8_t mac[6])
{
    struct emx_ip made = *ip;

    emx_ip_put_eui64(&made, mac);
    return emx_ip_equal(&made, ip);
}

bool emx_ip_parse(struct emx_ip *ip_p, const char *text)
{
    struct in6_addr in6;
    struct in_addr in;

    if (inet_pton(AF_INET, text, &in) == 1) {
        *ip_p = emx_ip_from_v4(in.s_addr);
        return true;
    }
    if (inet_pton(AF_INET6, text, &in6) != 1)
        return false;
    memcpy(ip_p, &in6, sizeof(*ip_p));
    return true;
}

const char *emx_ip_text(const struct emx_ip *ip, char text[EMX_IP_TEXT])
{
    if (emx_ip_is_v6(ip))
        return inet_ntop(AF_INET6, ip->b, text, EMX_IP_TEXT);
    return inet_ntop(AF_INET, &ip->b[EMX_IP_V4_AT], text, EMX_IP_TEXT);
}
