/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which interfaces the xdp wire takes, and in what modes: what can be decided without the kernel.
 */
#ifndef EMX_WIRE_XDP_CHOICE_H
#define EMX_WIRE_XDP_CHOICE_H

#include "wire/netif.h"

/* Best first; the values less one of ETHMX_XDP_MODE. */
enum emx_xdp_mode { EMX_XDP_NATIVE, EMX_XDP_COPY, EMX_XDP_GENERIC, EMX_XDP_MODES };

/* Of the interfaces that are chosen. named: by ETHMX_IF. */
bool emx_xdp_takes(const struct emx_netif *nif, bool named);

/* The modes to be tried on an interface of this kind, in their order; wanted: ETHMX_XDP_MODE. Returns how many; 0: the
 * one that is wanted cannot work there. */
unsigned emx_xdp_modes(const char *kind, unsigned wanted, enum emx_xdp_mode mode[EMX_XDP_MODES]);

#endif
