/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A packet socket that sends GSO packets: Linux 6.2 and later. Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_GSO_PACKET_H
#define EMX_WIRE_GSO_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/gso.h"
#include "wire/wire.h"

/* Opens the socket. port: of our own packets, host order. -1 and errno, EOPNOTSUPP if the kernel is too old. */
int emx_gso_packet_open(const struct emx_wire_params *params, uint16_t port);

/* Sends n frames as one packet: all of one length, but the last may be shorter. It leaves through the interface. 0 or
 * an errno. */
int emx_gso_packet_send(int fd, unsigned ifindex, const struct emx_gso_way *way, const struct emx_txframe *f,
                        unsigned n);

/* Lets a packet socket that is bound to IPv4, or to IPv6 if v6, receive only whole packets without options or extension
 * headers, of UDP to port, with something in them: of those whose data may have a place (base/placement.h)
 * placed_bytes, of the others other_bytes. All that comes over interface loopback_index is among the others. And, of
 * IPv4 and unless tso_bytes is 0, tso_bytes and tso_short_bytes of TSO packets to port (tso_socket.h). -1 and errno. */
int emx_gso_packet_filter(int fd, bool v6, uint16_t port, unsigned loopback_index, uint32_t placed_bytes,
                          uint32_t other_bytes, uint32_t tso_bytes, uint32_t tso_short_bytes);

#endif
