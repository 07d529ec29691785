/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Offload probing: whether the path to a peer carries GSO packets.
 */
#ifndef EMX_CORE_OFFLOAD_PROBE_H
#define EMX_CORE_OFFLOAD_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_JOINED_BYTES 8192 /* data that makes a GSO packet worth its slot */

struct emx_offload_probe {
    uint32_t joined_rx;   /* GSO packets that arrived properly joined */
    uint32_t joined_told; /* of those sent by this side, as last reported */
    uint16_t left;        /* blocks that may go in GSO packets before the peer must report some */
    bool no_tso;          /* they are not TSO packets: every other try */
    uint8_t doubts;       /* blocks in TSO packets that were lost since one was surely reported */
    uint16_t eager;       /* eager messages in GSO packets, never of TSO, that may be reported */
    unsigned wait;        /* if none is left: blocks until the next try */
    unsigned gap;         /* the last such distance */
};

void emx_offload_probe_init(struct emx_offload_probe *o); /* a new route */
void emx_offload_probe_told(struct emx_offload_probe *o, uint32_t joined);
/* An eager message, or a block, in GSO packets must be sent again. */
void emx_offload_probe_lost(struct emx_offload_probe *o);
void emx_offload_probe_block_lost(struct emx_offload_probe *o);
/* Whether the next block is sent in GSO packets. joins: it would arrive properly joined. */
bool emx_offload_probe_take(struct emx_offload_probe *o, bool joins);
bool emx_offload_probe_take_eager(struct emx_offload_probe *o); /* the same of an eager message */

#endif
