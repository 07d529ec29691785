/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Placement: where the data of received frames is to go, so that a wire can have the kernel write it there, in the
 * program's memory, instead of into a buffer from which it would be copied. The engine implements it
 * (core/msg/place.c), wires use it (wire/gso_rx.c). Neither knows the other.
 *
 * It is a guess from the first bytes of a packet, made before the packet is received: its frames are taken for the next
 * chunks of one message. The places are of data that is missing, so a wrong guess does no harm: what was written there
 * is overwritten later. An eager message has a place only if it is the next frame that is handled, because any frame
 * before it may take its receive. Under the endpoint's lock.
 */
#ifndef EMX_BASE_PLACEMENT_H
#define EMX_BASE_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/txframe.h"

#define EMX_PLACE_HEAD_BYTES 64 /* most bytes of a frame before its data */

/* Frames whose data may have a place begin with one of these, two bytes as a big-endian number. */
#define EMX_PLACE_MARK_OFF    0xE10B /* without a checksum */
#define EMX_PLACE_MARK_HEADER 0xD20B /* with one of the header */

static inline bool emx_place_is_marked(const uint8_t *frame)
{
    unsigned mark = (unsigned)frame[0] << 8 | frame[1];

    return mark == EMX_PLACE_MARK_OFF || mark == EMX_PLACE_MARK_HEADER;
}

/* The head of a frame that has chunks of a message and no tag, as far as wires know it; core/format has the rest.
 * Numbers are little-endian. The heads of the following chunks, sent together, differ from it in the index of the
 * chunk, check, and, for the message's last one, in body_bytes; of an eager message in the sequence number, too. */
struct __attribute__((packed, aligned(1))) emx_place_head {
    uint8_t version, type;
    uint16_t body_bytes; /* of what follows the first EMX_PLACE_FRAME_BYTES, with the data */
    uint8_t ids[12];
    uint32_t seq; /* 0 in data */
    uint8_t news[8];
    uint32_t check; /* CRC-32C of the head with this field as 0; 0 without a checksum */
    union {
        uint8_t message[6]; /* data of a large message */
        struct __attribute__((packed, aligned(1))) {
            uint16_t total_low;        /* of an eager message: its length, */
            uint8_t total_high, index; /* and the index of the chunk */
            uint16_t joined;
        };
    };
    uint16_t chunk_bytes; /* of all chunks but the last */
    uint64_t chunk;       /* index; of an eager message: its bits */
};
#define EMX_PLACE_FRAME_BYTES 32

/* Types of frames with such a head. */
#define EMX_PLACE_DATA  (EMX_PLACE_MARK_OFF & 0xff)
#define EMX_PLACE_EAGER 36

struct emx_place {
    void *at;
    uint32_t len_bytes;
};

/* The first frames of a packet. All but the last have the same length. */
struct emx_placement {
    unsigned count;      /* 0: no data has a place */
    unsigned head_bytes; /* of each frame, before its data */
    struct emx_place place[EMX_WIRE_BATCH];
    void *message; /* the engine's own, as is first */
    uint64_t first;
};

struct emx_placer {
    void *arg; /* NULL: not yet; nothing may be called */

    /* Whether data was requested that has not arrived. Eager messages may have places in any case. */
    bool (*expects)(const void *arg);

    /* Whether the data of a packet with this head has no place yet, and may soon have one: then the packet is left
     * where it is for now. Each call counts, and only a few in a row say so. */
    bool (*is_early)(void *arg, const uint8_t *head, size_t head_bytes);

    /* Guesses from the first head_bytes of a packet, whose frames have len_bytes in all, where their data is to go. */
    void (*plan)(void *arg, const uint8_t *head, size_t head_bytes, size_t len_bytes, struct emx_placement *p);

    /* The data of the first n frames, n <= p->count, lies in the places; their heads are at head, stride bytes apart.
     * Returns how many are what was guessed. If the guess can be corrected for all, they are moved: p has where they
     * are then. The data of the others must be copied away before anything else is done. */
    unsigned (*settle)(void *arg, struct emx_placement *p, const uint8_t *head, size_t stride, unsigned n);
};

#endif
