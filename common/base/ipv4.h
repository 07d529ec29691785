/* SPDX-License-Identifier: BSD-3-Clause
 *
 * IPv4 addresses, as uint32_t in network order.
 */
#ifndef EMX_BASE_IPV4_H
#define EMX_BASE_IPV4_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/min.h"

/* Whether both addresses are of one network with a prefix of so many bits; more than 32 count as 32. */
static inline bool emx_ipv4_same_network(uint32_t ip, uint32_t other_ip, unsigned prefix_bits)
{
    uint32_t mask = prefix_bits ? htonl(UINT32_MAX << (32 - emx_min_u(prefix_bits, 32))) : 0;

    return !((ip ^ other_ip) & mask);
}

#endif
