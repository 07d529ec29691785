/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the programs that measure bare packet sockets share: a socket's receive ring, polled without system calls.
 */
#ifndef EMX_TESTS_BENCH_BARE_H
#define EMX_TESTS_BENCH_BARE_H

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BARE_BLOCK_BYTES = 65536 }; /* a ring has whole ones */

struct bare_ring {
    int fd;
    uint8_t *memory;
    unsigned slot_bytes, slot_count, at;
};

/* A packet socket with this option switched on. -1 and errno. */
static inline int bare_socket(int option)
{
    int fd = socket(AF_PACKET, SOCK_RAW, 0), on = 1;

    return fd < 0 || setsockopt(fd, SOL_PACKET, option, &on, sizeof(on)) ? -1 : fd;
}

/* protocol 0: the socket only sends. 0, or -1 and errno. */
static inline int bare_bind(int fd, int interface, int protocol)
{
    struct sockaddr_ll a = {
        .sll_family = AF_PACKET, .sll_protocol = htons((uint16_t)protocol), .sll_ifindex = interface};

    return bind(fd, (struct sockaddr *)&a, sizeof(a));
}

/* Gives a packet socket, whose options are set, a ring, and binds it. 0, or -1 and errno. */
static inline int bare_ring_open(struct bare_ring *r, int fd, int interface, int protocol, unsigned slot_bytes,
                                 unsigned slot_count)
{
    const size_t bytes = (size_t)slot_bytes * slot_count;
    struct tpacket_req req = {.tp_block_size = BARE_BLOCK_BYTES,
                              .tp_block_nr = (unsigned)(bytes / BARE_BLOCK_BYTES),
                              .tp_frame_size = slot_bytes,
                              .tp_frame_nr = slot_count};
    int version = TPACKET_V2;

    *r = (struct bare_ring){.fd = fd, .slot_bytes = slot_bytes, .slot_count = slot_count};
    if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
        setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)))
        return -1;
    r->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    return r->memory == MAP_FAILED ? -1 : bare_bind(fd, interface, protocol);
}

static inline struct tpacket2_hdr *bare_ring_slot(const struct bare_ring *r)
{
    return (struct tpacket2_hdr *)(void *)(r->memory + (size_t)r->at * r->slot_bytes);
}

/* The next packet, from its Ethernet header on; NULL: there is none. */
static inline const uint8_t *bare_ring_look(const struct bare_ring *r)
{
    const struct tpacket2_hdr *h = bare_ring_slot(r);

    return __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER ? (const uint8_t *)h + h->tp_mac : NULL;
}

/* It is not needed any more. */
static inline void bare_ring_give_back(struct bare_ring *r)
{
    __atomic_store_n(&bare_ring_slot(r)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    r->at = (r->at + 1) % r->slot_count;
}

static inline void bare_ring_close(struct bare_ring *r)
{
    munmap(r->memory, (size_t)r->slot_bytes * r->slot_count);
    close(r->fd);
}

#endif
