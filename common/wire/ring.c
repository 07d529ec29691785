/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "wire/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

#define BLOCK_BYTES 65536 /* contiguous memory that the kernel is asked for; one or several slots each */

/* How long a slot is and how many there are. */
struct shape {
    unsigned slot_bytes, block_bytes, block_count, slot_count;
};

/* Blocks that hold a few slots waste little; larger ones are hard to get. */
static struct shape packet_ring_shape_of(size_t ring_bytes, unsigned slot_bytes, unsigned slots_min)
{
    struct shape s = {.block_bytes = BLOCK_BYTES, .slot_bytes = (slot_bytes + 63) / 64 * 64};
    unsigned per_block;

    while (s.block_bytes % s.slot_bytes && s.block_bytes < 4 * s.slot_bytes)
        s.block_bytes *= 2;
    per_block = s.block_bytes / s.slot_bytes;
    s.block_count = (unsigned)((ring_bytes + s.block_bytes - 1) / s.block_bytes);
    if (s.block_count * per_block < slots_min)
        s.block_count = (slots_min + per_block - 1) / per_block;
    s.slot_count = s.block_count * per_block;
    return s;
}

static int packet_ring_request(int fd, size_t ring_bytes, unsigned slot_bytes, unsigned slots_min,
                               struct shape *shape_p)
{
    for (;;) {
        struct shape s = packet_ring_shape_of(ring_bytes, slot_bytes, slots_min);
        struct tpacket_req req = {.tp_block_size = s.block_bytes,
                                  .tp_block_nr = s.block_count,
                                  .tp_frame_size = s.slot_bytes,
                                  .tp_frame_nr = s.slot_count};

        if (!setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req))) {
            *shape_p = s;
            return 0;
        }
        ring_bytes /= 2;
        if (errno != ENOMEM || s.slot_count <= slots_min || !ring_bytes)
            return -1;
    }
}

int emx_ring_socket(void)
{
    int version = TPACKET_V2, on = 1, fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)); /* old kernels do not have it */
    if (!setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)))
        return fd;
    err = errno;
    close(fd);
    errno = err;
    return -1;
}

int emx_ring_bind(const struct emx_ring *r, uint16_t protocol)
{
    struct sockaddr_ll all = {.sll_family = AF_PACKET, .sll_protocol = protocol};

    return bind(r->fd, (const struct sockaddr *)&all, sizeof(all));
}

int emx_ring_open(struct emx_ring *r, int fd, size_t ring_bytes, unsigned slot_bytes, unsigned slots_min)
{
    struct emx_ring made = {.fd = fd};
    unsigned per_block;
    struct shape s;

    if (packet_ring_request(fd, ring_bytes, slot_bytes, slots_min, &s))
        return -1;
    per_block = s.block_bytes / s.slot_bytes;
    made.slot = calloc(s.slot_count, sizeof(*made.slot));
    if (!made.slot) {
        errno = ENOMEM;
        return -1;
    }
    made.bytes = (size_t)s.block_count * s.block_bytes;
    made.mem = mmap(NULL, made.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (made.mem == MAP_FAILED) {
        free(made.slot);
        return -1;
    }
    for (unsigned i = 0; i < s.slot_count; i++)
        made.slot[i] = made.mem + (size_t)(i / per_block) * s.block_bytes + (size_t)(i % per_block) * s.slot_bytes;
    made.slot_count = s.slot_count;
    *r = made;
    return 0;
}

void emx_ring_close(struct emx_ring *r)
{
    if (r->mem)
        munmap(r->mem, r->bytes);
    free(r->slot);
    *r = (struct emx_ring){.fd = -1};
}

unsigned emx_ring_drops(const struct emx_ring *r)
{
    struct tpacket_stats st;
    socklen_t len = sizeof(st);

    return getsockopt(r->fd, SOL_PACKET, PACKET_STATISTICS, &st, &len) ? 0 : st.tp_drops;
}
