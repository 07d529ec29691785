/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GSO choice: whether packets of large messages are to be received into their place, or in the receiver's ring.
 *
 * Into its place is one copy less. But then the memory of a packet comes back to the kernel on another processor, or
 * late. On some machines, and for some time, copying into such memory takes the sender several times as long, more than
 * the copy that was saved. Nothing tells this but the time that sending takes. So the sender begins with places, then
 * compares both ways, and again when sending into places has become slower, and now and then while it uses the ring.
 * The middle one of several times counts, because processors are shared. Pure.
 */
#ifndef EMX_WIRE_GSO_CHOICE_H
#define EMX_WIRE_GSO_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_GSO_CHOICE_LEAST 32768 /* bytes of a packet that tells something */
#define EMX_GSO_CHOICE_TIMES 24    /* packets that are compared */

enum emx_gso_phase { EMX_GSO_START, EMX_GSO_TRY_PLACE, EMX_GSO_TRY_RING, EMX_GSO_STAY };

struct emx_gso_choice { /* all 0 at first */
    enum emx_gso_phase phase;
    bool ring;                           /* the result of the last comparison */
    unsigned packets;                    /* in this phase */
    unsigned place_cost;                 /* ns per 64 KiB, when last compared */
    uint32_t cost[EMX_GSO_CHOICE_TIMES]; /* of the last packets */
};

/* Whether the next packet goes to the ring. */
static inline bool emx_gso_choice_is_ring(const struct emx_gso_choice *c)
{
    return c->phase == EMX_GSO_TRY_RING || (c->phase == EMX_GSO_STAY && c->ring);
}

/* A packet of at least EMX_GSO_CHOICE_LEAST bytes was sent accordingly, in ns. */
void emx_gso_choice_sent(struct emx_gso_choice *c, uint64_t ns, unsigned len_bytes);

#endif
