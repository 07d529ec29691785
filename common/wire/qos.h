/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Quality of service: the type of service of IP packets (ETHMX_TOS) and the priority of sockets (ETHMX_SO_PRIORITY).
 */
#ifndef EMX_WIRE_QOS_H
#define EMX_WIRE_QOS_H

#include <netinet/ip.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"

/* The type of service of IPv4 packets, and the traffic class of IPv6 packets: ETHMX_TOS, and that switches and routers
 * may set CE (ETHMX_ECN). */
static inline uint8_t emx_qos_tos(const struct emx_config *cfg)
{
    return (uint8_t)(cfg->p_tos | (cfg->p_ecn ? IPTOS_ECN_ECT0 : IPTOS_ECN_NOT_ECT));
}

/* Gives all that the UDP socket fd sends emx_qos_tos(). v6: the socket is of IPv6, and may send IPv4, too. If the
 * kernel refuses ETHMX_TOS: a warning. The kernel also derives the socket's priority from it, so this comes before
 * emx_qos_set_priority(). */
void emx_qos_set_tos(int fd, bool v6, const struct emx_config *cfg);

/* Gives all that the socket fd sends ETHMX_SO_PRIORITY; 0: leaves it. If the kernel refuses: a warning, once in a
 * process. */
void emx_qos_set_priority(int fd, const struct emx_config *cfg);

#endif
