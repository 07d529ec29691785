/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Maps the rings of AF_XDP sockets. libxdp's header has the functions that read and write them. Its functions that
 * create sockets are not used, because the results cannot be shared between processes.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/socket.h>

#include "wire/xdp/xdp_shared.h"

int emx_xdp_set_ring(int fd, int option, unsigned entries)
{
    int n = (int)entries;

    return setsockopt(fd, SOL_XDP, option, &n, sizeof(n));
}

static int ring_offsets(int fd, struct xdp_mmap_offsets *o)
{
    socklen_t len = sizeof(*o);

    return getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, o, &len);
}

/* Maps a ring of fd. Not inherited by children, because the map would keep the socket open. */
static uint8_t *map_ring(int fd, off_t which, const struct xdp_ring_offset *o, unsigned entries, size_t entry_bytes,
                         struct emx_xdp_map *m)
{
    m->bytes = o->desc + entries * entry_bytes;
    m->mem = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, which);
    if (m->mem == MAP_FAILED) {
        m->mem = NULL;
        return NULL;
    }
    madvise(m->mem, m->bytes, MADV_DONTFORK);
    return m->mem;
}

void emx_xdp_unmap(struct emx_xdp_map *m)
{
    if (m->mem)
        munmap(m->mem, m->bytes);
    m->mem = NULL;
}

#define RING(type, mem, o, entries)                                                                                    \
    ((struct type){.mask = (entries)-1,                                                                                \
                   .size = (entries),                                                                                  \
                   .producer = (uint32_t *)(void *)((mem) + (o)->producer),                                            \
                   .consumer = (uint32_t *)(void *)((mem) + (o)->consumer),                                            \
                   .flags = (uint32_t *)(void *)((mem) + (o)->flags),                                                  \
                   .ring = (mem) + (o)->desc})

static int xdp_ring_map_producer(int fd, off_t which, const struct xdp_ring_offset *o, unsigned entries,
                                 size_t entry_bytes, struct xsk_ring_prod *r, struct emx_xdp_map *m)
{
    uint8_t *mem = map_ring(fd, which, o, entries, entry_bytes, m);

    if (!mem)
        return -1;
    *r = RING(xsk_ring_prod, mem, o, entries);
    r->cached_prod = *r->producer;
    r->cached_cons = *r->consumer + entries;
    return 0;
}

static int xdp_ring_map_consumer(int fd, off_t which, const struct xdp_ring_offset *o, unsigned entries,
                                 size_t entry_bytes, struct xsk_ring_cons *r, struct emx_xdp_map *m)
{
    uint8_t *mem = map_ring(fd, which, o, entries, entry_bytes, m);

    if (!mem)
        return -1;
    *r = RING(xsk_ring_cons, mem, o, entries);
    r->cached_prod = *r->producer;
    r->cached_cons = *r->consumer;
    return 0;
}

unsigned emx_xdp_completed_entries(const struct emx_xdp_shared *s, unsigned q)
{
    return q ? SMALL_COMPLETE : emx_xdp_power_of_two(s->slots * EMX_XDP_TX);
}

/* The rings of queue q that all members share. */
int emx_xdp_map_shared_rings(struct emx_xdp_group *g, unsigned q)
{
    const struct emx_xdp_shared *s = g->shared;
    struct emx_xdp_queue *queue = &g->queue[q];
    struct xdp_mmap_offsets o;
    int fd = g->fd[FD_ROOT + q];

    if (ring_offsets(fd, &o))
        return -1;
    if (xdp_ring_map_producer(fd, XDP_UMEM_PGOFF_FILL_RING, &o.fr, emx_xdp_power_of_two(emx_xdp_rx_chunks(s)),
                              sizeof(uint64_t), &queue->fill, &queue->map[0]))
        return -1;
    return xdp_ring_map_consumer(fd, XDP_UMEM_PGOFF_COMPLETION_RING, &o.cr, emx_xdp_completed_entries(s, q),
                                 sizeof(uint64_t), &queue->completed, &queue->map[1]);
}

/* The rings of any member's socket for queue q. */
int emx_xdp_map_own_rings(const struct emx_xdp_shared *s, int fd, unsigned q, struct xsk_ring_cons *rx,
                          struct xsk_ring_prod *tx, struct emx_xdp_map map[2])
{
    struct xdp_mmap_offsets o;

    if (ring_offsets(fd, &o) ||
        xdp_ring_map_consumer(fd, XDP_PGOFF_RX_RING, &o.rx, s->rx_chunks, sizeof(struct xdp_desc), rx, &map[0]))
        return -1;
    return q ? 0
             : xdp_ring_map_producer(fd, XDP_PGOFF_TX_RING, &o.tx, EMX_XDP_TX, sizeof(struct xdp_desc), tx, &map[1]);
}
