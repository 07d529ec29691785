/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The format of the packet wire's single frames at an interface: of the EtherType, or in UDP. packet_choice.c has the
 * rules. Thread-safe; no privilege is needed.
 */
#ifndef EMX_WIRE_PACKET_CHOICE_H
#define EMX_WIRE_PACKET_CHOICE_H

#include "wire/netif.h"

#define EMX_PACKET_SYSFS "/sys/class/net"

/* Whether frames at nif are to be in UDP, by ETHMX_PACKET_FRAMES, the interface and the devices below it. why: the
 * reason to do so or, if the parameter says it, not to; else empty. sysfs: EMX_PACKET_SYSFS; tests have their own. */
bool emx_packet_chooses_udp(const struct emx_config *cfg, const struct emx_netif *nif, const char *sysfs, char *why,
                            size_t why_len_bytes);

#endif
