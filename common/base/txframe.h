/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A frame to be sent: what the engine makes, and what progress passes to a wire. The memory at head and body belongs to
 * the engine and is valid until tx() returns.
 */
#ifndef EMX_BASE_TXFRAME_H
#define EMX_BASE_TXFRAME_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_WIRE_ADDR_BYTES 48    /* a destination in the wire's own format, prepared once per peer */
#define EMX_WIRE_BATCH      64    /* frames in one tx or rx call */
#define EMX_WIRE_JOIN_BYTES 65408 /* most bytes of the frames in one GSO packet */

struct emx_wire_addr {
    uint8_t b[EMX_WIRE_ADDR_BYTES];
};

/* Header and payload are separate, so that large messages need no copy. */
struct emx_txframe {
    const struct emx_wire_addr *to;
    const void *head; /* ethmx frame header and what is packed with it */
    const void *body; /* NULL when body_bytes is 0 */
    uint16_t head_bytes;
    uint16_t body_bytes;
    bool gso;   /* data of a large message: may go in a GSO packet, and may overtake other frames */
    bool apart; /* of another message than the frame before: goes in another GSO packet, so that the data of each
                   packet has its place in one message (base/placement.h) */
    uint16_t chunk_bytes; /* the body is chunks of so many bytes, the last may be shorter, and goes as a TSO packet
                             (wire/tso.h) or is split; 0: the frame is what is sent */
    uint64_t age_ns; /* retransmission: time since it was last sent; a wire that still queues that copy may drop this */
};

/* How many frames it is when it is split. */
static inline unsigned emx_txframe_chunks(const struct emx_txframe *f)
{
    return f->chunk_bytes ? ((unsigned)f->body_bytes + f->chunk_bytes - 1) / f->chunk_bytes : 1;
}

#endif
