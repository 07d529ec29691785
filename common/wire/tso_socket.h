/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The packet sockets of TSO packets. Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_TSO_SOCKET_H
#define EMX_WIRE_TSO_SOCKET_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/gso_rx.h"
#include "wire/tso.h"
#include "wire/wire.h"

#define EMX_TSO_FILTER_CODES 17

/* Writes the beginning of a filter for a packet socket of IPv4. It passes so many bytes of each TSO packet to port
 * (host order): short_bytes of those with data of large messages that have up to EMX_TSO_SHORT_BYTES, and bytes of
 * longer ones and of eager messages. Of other packets, what follows it decides. */
void emx_tso_filter(struct sock_filter code[EMX_TSO_FILTER_CODES], uint16_t port, uint32_t bytes, uint32_t short_bytes);

/* Lets a packet socket of IPv4 receive these and no other packets. -1 and errno; EPERM: it is in a fanout group. */
int emx_tso_attach_filter(int fd, uint16_t port, uint32_t bytes, uint32_t short_bytes);

/* Opens the socket that receives the TSO packets to port, with a buffer of about buffer_bytes. -1 and errno. */
int emx_tso_open_rx(uint16_t port, uint64_t buffer_bytes);

/* Opens a socket that sends them, and other GSO packets if the kernel knows these there (gso_packet.h). -1 and errno.
 */
int emx_tso_open_tx(const struct emx_wire_params *params);

/* Sends a frame with chunk_bytes as a packet, which leaves through the interface. 0 or an errno. */
int emx_tso_send(int fd, unsigned ifindex, const struct emx_gso_way *way, const struct emx_txframe *f);

/* Receives the next packet, as one frame; seen NULL: looks at its headers first. false: there is none. What is no such
 * packet is lost, counted, and has no frame. */
bool emx_tso_receive(int fd, struct emx_gso_rx *r, const struct emx_tso *seen);

#endif
