/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A frame on its way to a wire: what the engine hands out, and what progress hands to the wire.
 */
#ifndef EMX_BASE_TXFRAME_H
#define EMX_BASE_TXFRAME_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_WIRE_ADDR_BYTES 24    /* a wire's own form of a destination, prepared once per peer */
#define EMX_WIRE_BATCH      64    /* frames in one tx or rx call */
#define EMX_WIRE_JOIN_BYTES 65408 /* frames that travel together, where the wire can do that */

struct emx_wire_addr {
    uint8_t b[EMX_WIRE_ADDR_BYTES];
};

/* One frame to send: header and payload lie apart so that large messages need no copy here. */
struct emx_txframe {
    const struct emx_wire_addr *to;
    const void *head; /* ethmx frame header and what is packed with it */
    const void *body; /* NULL when body_bytes is 0 */
    uint16_t head_bytes;
    uint16_t body_bytes;
    bool bulk; /* data of a large message: may travel together with its neighbours, and overtake other frames */
    uint64_t
        age_ns; /* of a frame that is sent again: since it was sent last. A wire that has it still may drop it now */
};

#endif
