/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The interfaces of the xdp wire and their modes: the decisions that need no kernel. Pure functions.
 */
#ifndef EMX_WIRE_XDP_CHOICE_H
#define EMX_WIRE_XDP_CHOICE_H

#include "wire/netif.h"

/* Best first; value i is value i + 1 of ETHMX_XDP_MODE. */
enum emx_xdp_mode { EMX_XDP_NATIVE, EMX_XDP_COPY, EMX_XDP_GENERIC, EMX_XDP_MODES };

/* Whether the wire uses this interface, one of the chosen ones. named: ETHMX_IF names it. */
bool emx_xdp_takes(const struct emx_netif *nif, bool named);

/* The modes to try on an interface of this kind, in order. wanted: ETHMX_XDP_MODE. Returns how many; 0: the wanted one
 * cannot work there. */
unsigned emx_xdp_modes(const char *kind, unsigned wanted, enum emx_xdp_mode mode[EMX_XDP_MODES]);

/* The length of chunks for frames of up to frame_bytes, Ethernet header included, behind room_bytes of each chunk.
 * *several_p: the longest need several chunks. driver: the kernel's name. */
unsigned emx_xdp_chunk_bytes(const char *driver, unsigned frame_bytes, unsigned room_bytes, bool *several_p);

#endif
