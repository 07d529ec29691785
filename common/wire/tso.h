/* SPDX-License-Identifier: BSD-3-Clause
 *
 * TSO packet: the data of consecutive chunks of one message, in the form of a TCP segment over IPv4 that the kernel or
 * the network card segments (TCP segmentation offload). All cards segment TCP and few segment UDP, packet sockets take
 * such packets in all kernels, and the data is in one piece, because the frames' heads are not between the chunks. As
 * in STT (draft-davie-stt), the TCP header carries what each segment needs, and there is no TCP connection.
 *
 *     Ethernet  14
 *     IPv4      20   destination 0.0.0.0: the receiver's IP stack drops the packet, and only packet sockets get it
 *     TCP       20   ports as in other GSO packets; sequence number: offset of the data in the packet that was sent, or
 *                    in the eager message; acknowledgement number: `check` of the head that lies at offset 0; flags:
 *                    ACK, PSH; urgent pointer: 1 if the interface segments the packet
 *     options   40   large message: 254 (experimental), 40, version, 0, ids, news, message, chunk_bytes, chunk of that
 *                    head
 *                    eager message: 253, 40, version, total_high, ids, news, seq, total_low, chunk_bytes, chunk; and
 *                    joined in the place of the window
 *     data           the chunks, one in each segment
 *
 * A segment has all the packet has but its own offset. So the receiver gets the packet as it was sent, or in any number
 * of pieces at chunk boundaries. Each of these becomes one frame that has several chunks. Pure functions on bytes.
 */
#ifndef EMX_WIRE_TSO_H
#define EMX_WIRE_TSO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/placement.h"
#include "wire/gso.h"

#define EMX_TSO_HEAD_BYTES  94   /* Ethernet, IPv4 and TCP headers */
#define EMX_TSO_IP_BYTES    80   /* IPv4 and TCP headers */
#define EMX_TSO_TCP_BYTES   60   /* TCP header */
#define EMX_TSO_SHORT_BYTES 1600 /* a packet up to this length is short (tso_ring.h): a frame at an MTU of 1500 */
#define EMX_TSO_DATA_OPTION 254  /* experimental (RFC 4727): data of a large message */
#define EMX_TSO_MORE_BYTES  4    /* by which a chunk's headers are longer than in other GSO packets of IPv4 */

/* Writes the headers of the packet for a frame with chunk_bytes. The sending kernel computes the TCP checksum: the
 * field holds the sum over the pseudo header. */
void emx_tso_head(uint8_t head[EMX_TSO_HEAD_BYTES], const struct emx_gso_way *way, const struct emx_txframe *f);

/* The frames that such a frame becomes when it is sent another way. */
struct emx_tso_split {
    struct emx_txframe f[EMX_WIRE_BATCH];
    struct emx_place_head head[EMX_WIRE_BATCH];
};

/* Splits f, which has at most EMX_WIRE_BATCH chunks. Returns how many frames there are. */
unsigned emx_tso_split(struct emx_tso_split *s, const struct emx_txframe *f);

/* A received packet, or a piece of it, as one frame with several chunks. */
struct emx_tso {
    struct emx_place_head head; /* without a checksum: that of the first frame's head was right */
    uint32_t data_bytes;
    unsigned chunks;
    bool counts;  /* it begins a packet that an interface has segmented: see struct emx_rxframe */
    bool marked;  /* it has the congestion mark CE */
    bool checked; /* its head had a checksum: the sender wants damage to be found */
};

/* Whether the TCP checksum is right, which covers the offset that the head's checksum does not. data: where the data
 * is, in n pieces. For packets of which the kernel does not know. */
bool emx_tso_sum_fits(const uint8_t *ip, const struct iovec *data, unsigned n, size_t data_bytes);

/* Reads the headers of a packet, which begin at ip; EMX_TSO_IP_BYTES of it can be read. false: it is no such packet, or
 * damaged. Its data_bytes may be more than was received. */
bool emx_tso_open(struct emx_tso *t, const uint8_t *ip);

#endif
