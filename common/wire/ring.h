/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ring: slots into which the kernel puts the packets of a packet socket (TPACKET_V2), mapped into this process. Polling
 * the next slot is no system call. Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_RING_H
#define EMX_WIRE_RING_H

#include <linux/if_packet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/min.h"

struct emx_ring {
    int fd; /* the packet socket; the ring's user opens and closes it */
    uint8_t *mem;
    size_t bytes;
    uint8_t **slot; /* address of each */
    unsigned slot_count, next;
};

/* Opens a packet socket for a ring. It gets no packets that leave this host, and none at all before it is bound to a
 * protocol. -1 and errno. */
int emx_ring_socket(void);

/* Binds it: from now on it gets packets of this protocol (network order) of all interfaces. -1 and errno. */
int emx_ring_bind(const struct emx_ring *r, uint16_t protocol);

/* How long the ring of each of a host's ranks is: they share what comes to the host, so each has a part of ring_bytes,
 * but room for EMX_RING_SHARED_SLOTS packets if ring_bytes has that much. The kernel clears a ring when it makes it,
 * which counts where many ranks start at once. */
#define EMX_RING_SHARED_SLOTS 640
static inline uint64_t emx_ring_part_bytes(uint64_t ring_bytes, unsigned local_ranks, unsigned slot_bytes)
{
    return emx_part(ring_bytes, local_ranks, (uint64_t)EMX_RING_SHARED_SLOTS * slot_bytes);
}

/* Requests about ring_bytes of slots of at least slot_bytes, fewer if memory is short, but at least slots_min; and maps
 * them. -1 and errno. Call it when the socket's options are set and before it is bound. */
int emx_ring_open(struct emx_ring *r, int fd, size_t ring_bytes, unsigned slot_bytes, unsigned slots_min);
/* Unmaps; also what was never opened (all 0). */
void emx_ring_close(struct emx_ring *r);

static inline struct tpacket2_hdr *emx_ring_slot(const struct emx_ring *r, unsigned i)
{
    return (struct tpacket2_hdr *)(void *)r->slot[i];
}

/* The next packet's status word, 0: there is none. */
static inline uint32_t emx_ring_peek(const struct emx_ring *r)
{
    uint32_t status = __atomic_load_n(&emx_ring_slot(r, r->next)->tp_status, __ATOMIC_ACQUIRE);

    return status & TP_STATUS_USER ? status : 0;
}

/* When the next packet came, if there is one. By the clock of all rings. */
static inline uint64_t emx_ring_time_ns(const struct emx_ring *r)
{
    const struct tpacket2_hdr *h = emx_ring_slot(r, r->next);

    return (uint64_t)h->tp_sec * 1000000000 + h->tp_nsec;
}

/* Whether the next packet came after that time; UINT64_MAX: never. */
static inline bool emx_ring_is_later(const struct emx_ring *r, uint64_t time_ns)
{
    return time_ns != UINT64_MAX && emx_ring_time_ns(r) > time_ns;
}

/* Takes the next packet; returns the number of its slot. */
static inline unsigned emx_ring_take(struct emx_ring *r)
{
    unsigned i = r->next;

    r->next = i + 1 == r->slot_count ? 0 : i + 1;
    return i;
}

static inline void emx_ring_give_back(struct emx_ring *r, unsigned i)
{
    __atomic_store_n(&emx_ring_slot(r, i)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
}

/* Packets that the kernel dropped since it was last asked. */
unsigned emx_ring_drops(const struct emx_ring *r);

#endif
