/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From which length on it is better to register a message's memory than to copy the message.
 *
 * Costs are measured for some lengths. Copying costs more the longer a message is; registering costs something in any
 * case, and the rendezvous that goes before a device can read costs round trips, which a copied message that goes
 * eagerly does not wait for. How long these take depends on the peer, so costs are kept by length, and the lengths are
 * found anew for each round trip that is measured.
 */
#ifndef EMX_BASE_CROSSING_H
#define EMX_BASE_CROSSING_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_THRESHOLD_SIZES 9    /* lengths, doubling: 4 KiB to 1 MiB */
#define EMX_THRESHOLD_FIRST 4096 /* the first of them */
#define EMX_THRESHOLD_NEVER UINT64_MAX

/* Of a message's whole way: at the sender, whose pages are there, and at the receiver, where they may not be. */
struct emx_costs {
    unsigned count; /* of lengths that were measured; 0: nothing is known */
    uint64_t reg_ns[EMX_THRESHOLD_SIZES];
    uint64_t copy_ns[EMX_THRESHOLD_SIZES];
};

/* Of n lengths: from which on registering is the better choice, all taken together. One that was measured wrong does
 * not decide, the longest least of all: each counts by how much the wrong choice costs there, twice as much at most.
 * EMX_THRESHOLD_NEVER: from none. */
uint64_t emx_threshold(const uint64_t *reg_ns, const uint64_t *copy_ns, unsigned n);

/* The same for a message that would go eagerly if it were copied. In memory that is registered already (kept) the first
 * frame brings the key, and the data come one round trip later. Otherwise the key is asked for meanwhile: two; and as
 * the program hardly has that memory for later messages, it waits for the end, which it would not: three. */
uint64_t emx_threshold_eager(const struct emx_costs *c, uint64_t round_trip_ns, bool kept);

#endif
