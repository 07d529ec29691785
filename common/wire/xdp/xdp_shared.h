/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Structures and functions shared by the files of a group; xdp_group.c has the mechanism.
 */
#ifndef EMX_WIRE_XDP_SHARED_H
#define EMX_WIRE_XDP_SHARED_H

#include <linux/if_ether.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/xdp/xdp_group.h"

#define MAGIC          0x45584450u
#define SLOTS_MAX      64
#define HEADROOM       2   /* before the Ethernet header, so that what follows it is aligned */
#define KERNEL_ROOM    256 /* before each frame received (XDP_PACKET_HEADROOM) */
#define VLAN_BYTES     4
#define FRAME_LIMIT    (3 * 4096 - 3 * KERNEL_ROOM - 64) /* fits three chunks */
#define ANSWER_MS      4000                              /* how long to wait for other processes */
#define SETTLE_MS      1500 /* how long a group that has ended may still occupy the interface */
#define SMALL_RING     2    /* of a root, which sends nothing */
#define SMALL_COMPLETE 64

/* In emx_xdp_group.fd. */
enum {
    FD_MEMORY,
    FD_LISTEN,
    FD_STORE_IN,
    FD_STORE_OUT,
    FD_LINK,
    FD_IDS,
    FD_SOCKS,
    FD_PASSED,
    FD_ROOT,
    FD_COUNT = FD_ROOT + EMX_XDP_QUEUES,
    FD_LIFE = FD_COUNT, /* this process's own descriptor of the memory file, for the lock of its slot */
    FD_ALL
};

struct slot {
    uint32_t id;
    uint32_t used;   /* it has an owner, alive or not */
    uint32_t filled; /* the kernel has the slot's part of the chunks for receiving */
};

/* The current operation of the lock's holder. */
struct journal {
    uint32_t refilling; /* 1 + slot that returns chunks; 0: none */
    uint32_t queue, fill_before, rx_after;
    uint32_t reap_next, reap_end; /* completed chunks whose flags are still to be cleared */
};

struct emx_xdp_shared {
    uint32_t magic, bytes;
    pthread_mutex_t lock;
    uint32_t chunk_bytes, slots, rx_chunks, queues; /* rx_chunks: per slot */
    uint32_t several_buffers, native, zero_copy, ethertype;
    struct journal journal;
    struct slot slot[SLOTS_MAX];
    uint8_t tx_busy[SLOTS_MAX * EMX_XDP_TX];
};

static inline unsigned emx_xdp_power_of_two(unsigned n)
{
    unsigned p = 1;

    while (p < n)
        p *= 2;
    return p;
}

/* Chunks for receiving per slot, for queue q. Most frames arrive on queue 0. */
static inline unsigned emx_xdp_queue_chunks(const struct emx_xdp_shared *s, unsigned q)
{
    return q ? s->rx_chunks / 4 : s->rx_chunks;
}

/* Chunks for receiving per slot, for all queues. */
static inline unsigned emx_xdp_slot_chunks(const struct emx_xdp_shared *s)
{
    return s->rx_chunks + (s->queues - 1) * emx_xdp_queue_chunks(s, 1);
}

/* Chunks for receiving of all slots. The chunks for sending follow them. */
static inline unsigned emx_xdp_rx_chunks(const struct emx_xdp_shared *s)
{
    return s->slots * emx_xdp_slot_chunks(s);
}

/* ---- xdp_ring.c ---- */

/* Requests a ring of socket fd. -1 and errno. */
int emx_xdp_set_ring(int fd, int option, unsigned entries);
unsigned emx_xdp_completed_entries(const struct emx_xdp_shared *s, unsigned q);
/* Maps the rings of queue q that all members share. -1 and errno; EBUSY: they are another process's, before Linux 6.4.
 */
int emx_xdp_map_shared_rings(struct emx_xdp_group *g, unsigned q);
/* Maps the rings of any member's socket for queue q. -1 and errno; the maps made are in map. */
int emx_xdp_map_own_rings(const struct emx_xdp_shared *s, int fd, unsigned q, struct xsk_ring_cons *rx,
                          struct xsk_ring_prod *tx, struct emx_xdp_map map[2]);
/* Unmaps a ring, if it is mapped. */
void emx_xdp_unmap(struct emx_xdp_map *m);

/* ---- xdp_make.c ---- */

/* Creates a new group, except its listener. -1 and errno. */
int emx_xdp_make(struct emx_xdp_group *g, const struct emx_xdp_want *want);
/* Maps the memory of a group by its descriptors. -1 and errno. */
int emx_xdp_map_memory(struct emx_xdp_group *g);

#endif
