/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Packets of several frames, whose data is received into its place: the shipped wires' own code (wire/gso_rx.h) with
 * copies in memory instead of recvmsg(). By chance the guess is good, is made from another frame, or is not made. The
 * frames of a packet may be of different senders, and some are lost between them, so that guesses fail in many ways.
 * Its chance is its own: what arrives, and when, is the same with places and without.
 */
#ifndef SIM_PACKET_H
#define SIM_PACKET_H

#include <stdbool.h>

#include "../link.h"
#include "base/hash.h"
#include "wire/gso_rx.h"

struct sim_packet {
    struct emx_gso_rx rx;
    struct emx_rng rng;
    uint64_t placed; /* frames so far */
};

void sim_packet_init(struct sim_packet *p, const struct emx_placer *placer, struct emx_stats *stats, uint64_t seed);
void sim_packet_fini(struct sim_packet *p);

/* Receives frames that begin with first as one packet; those of a TSO packet as one frame of several chunks. Returns
 * how many, at most max if they stay what they are; *given_p: what they have become. 0: not now. */
unsigned sim_packet_receive(struct sim_packet *p, const struct sim_frame *first, struct emx_rxframe *f, unsigned max,
                            unsigned *given_p);

#endif
