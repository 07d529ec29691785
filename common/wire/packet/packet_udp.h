/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames in UDP: single frames of the packet wire in UDP packets of IPv4 or IPv6. packet_udp.c describes the mechanism.
 * Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_PACKET_UDP_H
#define EMX_WIRE_PACKET_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wire/gso.h"
#include "wire/ring.h"
#include "wire/udp_port.h"
#include "wire/wire.h"

#define EMX_PACKET_DST_ID 4 /* offset of the receiving endpoint's id in an ethmx frame */

/* Whether a frame is for the endpoint with this id. */
static inline bool emx_packet_is_for(uint32_t id, const uint8_t *frame, uint32_t len_bytes)
{
    uint32_t to;

    if (len_bytes < EMX_PACKET_DST_ID + sizeof(to))
        return false;
    memcpy(&to, frame + EMX_PACKET_DST_ID, sizeof(to));
    return to == id;
}

#define EMX_PACKET_UDP_COOKIE 0x40000000u /* set in the cookies of frames from emx_packet_udp_rx() */

struct emx_packet_udp {
    int rx_fd;
    bool v6; /* the packets are of IPv6 */
    struct emx_udp_port port;
    struct emx_ring ring;
    uint32_t endpoint_id;
    struct emx_stats *stats;
};

/* Opens the receiver for frames of up to frame_bytes. -1 and errno: nothing is open. */
int emx_packet_udp_open(struct emx_packet_udp *u, const struct emx_wire_params *params, unsigned frame_bytes);
void emx_packet_udp_close(struct emx_packet_udp *u);

/* Before each packet, if they are of IPv6, and before each frame of the EtherType that is sent by the same socket. */
#define EMX_PACKET_VNET_BYTES 10
#define EMX_PACKET_UDP_HEAD   (EMX_PACKET_VNET_BYTES + EMX_GSO_HEAD_MOST) /* the most */

/* Writes what is before a frame of len_bytes, and returns its length. */
unsigned emx_packet_udp_head(uint8_t *head, const struct emx_gso_way *way, size_t len_bytes);

/* As peek() of a wire, of the frames in UDP alone. */
struct emx_wire_peek emx_packet_udp_peek(const struct emx_packet_udp *u);

/* As rx() and rx_return() of a wire; only what came until that time (ring.h), UINT64_MAX: all. */
unsigned emx_packet_udp_rx(struct emx_packet_udp *u, struct emx_rxframe *f, unsigned max, uint64_t until_ns);
void emx_packet_udp_return(struct emx_packet_udp *u, uint32_t cookie);

#endif
