/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The xdp wire: AF_XDP sockets. See xdp.c for the mechanism. In a build without libxdp it declines, and says so.
 */
#ifndef EMX_WIRE_XDP_H
#define EMX_WIRE_XDP_H

#include "wire/offload.h"
#include "wire/wire.h"

extern const struct emx_wire_ops emx_wire_xdp;

/* Prepares a destination: frames leave through interface ifindex, one of those the wire listens on, for mac. offload
 * NULL: no GSO packets. */
void emx_xdp_addr(struct emx_wire_addr *a, unsigned ifindex, const uint8_t mac[6], const struct emx_offload_way *way);

#endif
