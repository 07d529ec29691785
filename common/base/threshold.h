/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The message length from which registering memory is cheaper than copying the message (the registration threshold).
 *
 * Costs are measured at several lengths. Copying costs more the longer a message is. Registering has a fixed cost, and
 * a device can read only after a rendezvous, which costs round trips that an eager message does not wait for. Their
 * duration depends on the peer. So the costs are kept by length, and the threshold is computed again for each measured
 * round trip. Pure functions.
 */
#ifndef EMX_BASE_THRESHOLD_H
#define EMX_BASE_THRESHOLD_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_THRESHOLD_SIZES 9    /* lengths, doubling: 4 KiB to 1 MiB */
#define EMX_THRESHOLD_FIRST 4096 /* the first of them */
#define EMX_THRESHOLD_NEVER UINT64_MAX

/* Costs at both ends together: at the sender, whose pages are resident, and at the receiver, where they may not be. */
struct emx_costs {
    unsigned count; /* of lengths that were measured; 0: nothing is known */
    uint64_t reg_ns[EMX_THRESHOLD_SIZES];
    uint64_t copy_ns[EMX_THRESHOLD_SIZES];
};

/* The length from which on registering is the better choice, from the costs at n lengths. EMX_THRESHOLD_NEVER: at none.
 * Minimizes the sum of the extra costs of wrong choices, each limited to a factor of two, so that one wrong measurement
 * does not decide. */
uint64_t emx_threshold(const uint64_t *reg_ns, const uint64_t *copy_ns, unsigned n);

/* The same for a message that would be sent eagerly if it were copied. kept: its memory is registered already, so the
 * first frame carries the key, and the data comes one round trip later. Otherwise the key is requested while the memory
 * is registered, and the program, which rarely reuses such memory, waits for the end: three round trips. */
uint64_t emx_threshold_eager(const struct emx_costs *c, uint64_t round_trip_ns, bool kept);

#endif
