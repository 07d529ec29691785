/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The filter that tells a GSO packet whose data may have a place in the program's memory from the others. It is the end
 * of the filters of two sockets: the packet socket announces such packets, the UDP socket receives them.
 */
#ifndef EMX_WIRE_GSO_FILTER_H
#define EMX_WIRE_GSO_FILTER_H

#include <linux/filter.h>
#include <stdint.h>

#define EMX_GSO_FILTER_CODES 9

/* Writes the filter. It passes placed_bytes of a packet whose data may have a place, unless the packet is for the ring,
 * as are those that come over loopback; and other_bytes of the others. udp_at: where the UDP header is. */
void emx_gso_filter(struct sock_filter code[EMX_GSO_FILTER_CODES], uint32_t udp_at, unsigned loopback_index,
                    uint32_t placed_bytes, uint32_t other_bytes);

#endif
