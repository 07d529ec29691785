/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Offload probing: whether the way to a peer takes GSO packets.
 */
#ifndef EMX_CORE_OFFLOAD_PROBE_H
#define EMX_CORE_OFFLOAD_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_JOINED_BYTES 8192 /* so much in a GSO packet makes it worth its slot */

struct emx_offload_probe {
    uint32_t joined_rx;   /* GSO packets that arrived well joined */
    uint32_t joined_told; /* of ours, as the peer last told */
    unsigned left;        /* blocks that may go in GSO packets before the peer must tell of some */
    unsigned wait;        /* without any left: blocks until the next is tried, */
    unsigned gap;         /* and how many were waited for */
};

void emx_offload_probe_init(struct emx_offload_probe *o); /* a new route */
void emx_offload_probe_told(struct emx_offload_probe *o, uint32_t joined);
/* Whether the next block or message goes in GSO packets; joins: it would come well joined. */
bool emx_offload_probe_take(struct emx_offload_probe *o, bool joins);

#endif
