/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Chunks of a message in TSO packets: as wires send them, and damaged, handed to the network byte by byte.
 */
#ifndef EMX_TESTS_CONFORM_CHUNKS_H
#define EMX_TESTS_CONFORM_CHUNKS_H

#include "wire/tso.h"
#include "world.h"

#define CHUNKS_APART 4096 /* between first chunks: then two packets have no chunk in common, even if damaged */

struct chunks_damage {
    unsigned at;         /* byte of the IP and TCP headers */
    uint8_t change;      /* whose bits of these are the others */
    unsigned sent_bytes; /* so much of the packet is sent; 0: all of it */
};

/* n chunks of a message: the last one has last_bytes, the others chunk_bytes. */
struct chunks {
    uint32_t first; /* index of the first */
    unsigned n, chunk_bytes, last_bytes;
    bool checked; /* the heads have a checksum */
    struct chunks_damage damage;
};

/* By the sender's wire, as one packet. */
void chunks_send(const struct chunks *c, struct end *from, const struct end *to);
/* In a packet that is damaged, without segmentation. */
void chunks_send_damaged(const struct chunks *c, const struct end *from, const struct end *to);

/* Receives until all of them have come, in order, each once and intact. What comes before is of damaged packets. */
void chunks_expect(const struct chunks *c, struct end *to);

#endif
