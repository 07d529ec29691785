/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ring of short TSO packets: pieces of one frame each, of large messages, which neither the card nor the kernel has
 * joined. One of them costs as much to announce, and to receive with a system call, as a long packet. So they come in a
 * ring of their own, whole, and their data is copied from there. Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_TSO_RING_H
#define EMX_WIRE_TSO_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/ring.h"
#include "wire/tso.h"
#include "wire/wire.h"

struct emx_tso_ring {
    struct emx_ring ring; /* all 0: not open */
    int fd;               /* the packet socket; -1: there will be no ring */
    uint64_t ring_bytes;
    struct emx_stats *stats;
    unsigned run; /* short packets since a longer one came otherwise */
};

/* Makes the socket, which gets no packets yet: later the process may have lost its rights, or entered another network
 * namespace. Where a host has several ranks there is none: their filters are locked in a fanout group. */
void emx_tso_ring_init(struct emx_tso_ring *t, const struct emx_wire_params *params);

static inline bool emx_tso_ring_is_open(const struct emx_tso_ring *t)
{
    return t->ring.mem;
}

/* A packet came otherwise. Whether the ring should be opened: many short ones have come, one after the other. */
bool emx_tso_ring_is_wanted(struct emx_tso_ring *t, const struct emx_tso *came);

/* Opens it for packets to port (host order). false: it is to be closed. */
bool emx_tso_ring_open(struct emx_tso_ring *t, uint16_t port);
void emx_tso_ring_close(struct emx_tso_ring *t); /* for good; also if it is not open */

/* Becomes readable when packets come; -1: it is not open. */
static inline int emx_tso_ring_fd(const struct emx_tso_ring *t)
{
    return emx_tso_ring_is_open(t) ? t->fd : -1;
}

/* When the next packet came, by the clock of rings. UINT64_MAX: there is none. */
static inline uint64_t emx_tso_ring_since_ns(const struct emx_tso_ring *t)
{
    return emx_tso_ring_is_open(t) && emx_ring_peek(&t->ring) ? emx_ring_time_ns(&t->ring) : UINT64_MAX;
}

/* As rx() of a wire; only packets that came until then. The cookies are the numbers of slots, with cookie_bits set;
 * emx_tso_ring_return() takes these numbers. */
unsigned emx_tso_ring_rx(struct emx_tso_ring *t, struct emx_rxframe *f, unsigned max, uint64_t until_ns,
                         uint32_t cookie_bits);
static inline void emx_tso_ring_return(struct emx_tso_ring *t, uint32_t slot)
{
    emx_ring_give_back(&t->ring, slot);
}

#endif
