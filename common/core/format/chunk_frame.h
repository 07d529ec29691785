/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Chunk frames: an eager message in chunks of equal length, the last of which may be shorter. Each chunk has a sequence
 * number and tells all of the message, so consecutive ones can be in one frame, whose first number is in its header,
 * and such a frame can be split anywhere between chunks.
 */
#ifndef EMX_CORE_CHUNK_FRAME_H
#define EMX_CORE_CHUNK_FRAME_H

#include <string.h>

#include "core/format/frame.h"

struct EMX_LAYOUT emx_f_chunk {
    uint16_t total_low; /* bytes of the message, */
    uint8_t total_high; /* bits 16 to 23 */
    uint8_t index;      /* of the first chunk */
    uint16_t joined;    /* as in pull, of each form the lowest 8 bits */
    uint16_t chunk_bytes;
    uint64_t bits;
};
static_assert(sizeof(struct emx_f_chunk) == 16, "chunk");

#define EMX_CHUNK_HEAD_BYTES  (sizeof(struct emx_frame) + sizeof(struct emx_f_chunk))
#define EMX_CHUNK_LEAST       8u    /* bytes of a chunk */
#define EMX_CHUNK_MOST        256u  /* chunks of a message */
#define EMX_CHUNK_FRAME_BYTES 9216u /* most, of the frame of one chunk */

static inline const struct emx_f_chunk *emx_chunk_head(const struct emx_frame *h)
{
    return (const void *)(h + 1);
}

static inline uint32_t emx_chunk_total_bytes(const struct emx_f_chunk *t)
{
    return (uint32_t)t->total_high << 16 | t->total_low;
}

static inline uint32_t emx_chunk_offset(const struct emx_f_chunk *t)
{
    return (uint32_t)t->index * t->chunk_bytes;
}

/* How many chunks a frame of this type has; 0: it is not valid. */
static inline unsigned emx_chunk_count(const struct emx_frame *h)
{
    const struct emx_f_chunk *t = emx_chunk_head(h);
    uint32_t n = h->body_bytes - (uint32_t)sizeof(*t), total_bytes = emx_chunk_total_bytes(t);
    uint32_t offset = emx_chunk_offset(t);

    if (!n || total_bytes > EMX_CHUNK_MOST * t->chunk_bytes || t->chunk_bytes < EMX_CHUNK_LEAST ||
        t->chunk_bytes > EMX_CHUNK_FRAME_BYTES - EMX_CHUNK_HEAD_BYTES || offset >= total_bytes ||
        n > total_bytes - offset || (n % t->chunk_bytes && n != total_bytes - offset))
        return 0;
    return (n + t->chunk_bytes - 1) / t->chunk_bytes;
}

/* Makes the frame of chunk i alone, of EMX_CHUNK_FRAME_BYTES at most, without a checksum. body: the frame's data. */
static inline void emx_chunk_split(uint8_t *to, const struct emx_frame *h, const uint8_t *body, unsigned i)
{
    struct emx_frame *one = (void *)to;
    struct emx_f_chunk *t = (void *)(one + 1);
    unsigned at = i * emx_chunk_head(h)->chunk_bytes, left = h->body_bytes - (unsigned)sizeof(*t) - at;

    memcpy(to, h, EMX_CHUNK_HEAD_BYTES);
    if (left > t->chunk_bytes)
        left = t->chunk_bytes;
    one->version = EMX_FRAME_V_OFF;
    one->check = 0;
    one->seq += i;
    one->body_bytes = (uint16_t)(sizeof(*t) + left);
    t->index = (uint8_t)(t->index + i);
    memcpy(t + 1, body + at, left);
}

#endif
