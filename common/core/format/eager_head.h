/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The headers of frames that begin an eager message: one writer and one reader for the forms eager, compact and short.
 * Used by all paths.
 */
#ifndef EMX_CORE_EAGER_HEAD_H
#define EMX_CORE_EAGER_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/format/frame.h"
#include "ethmx.h"

#define EMX_COMPACT_HEAD_BYTES (sizeof(struct emx_frame) + sizeof(struct emx_f_compact))
#define EMX_EAGER_HEAD_BYTES   (sizeof(struct emx_frame) + sizeof(struct emx_f_eager))

/* The common fields of the frame; short: no ack. By reference, so that each is read when it is written: if all were
 * read first, they would not fit into registers. */
struct emx_eager_envelope {
    const uint32_t *dst_id, *cookie, *src_id, *seq, *ack;
    uint32_t credit;
};

static inline void emx_eager_put_word(uint8_t *to, uint64_t word)
{
    memcpy(to, &word, sizeof(word));
}

/* Headers are written in 64-bit words, each once. If a word were stored in halves and then read as one, as by the
 * checksum, the processor would stall on store forwarding. The check is 0. */
static inline void emx_eager_put_frame(uint8_t *to, const struct emx_eager_envelope *v, enum emx_frame_type type,
                                       uint64_t body_bytes)
{
    emx_eager_put_word(to, (uint64_t)*v->dst_id << 32 | body_bytes << 16 | (unsigned)type << 8 | EMX_FRAME_V_HEADER);
    emx_eager_put_word(to + 8, (uint64_t)*v->src_id << 32 | *v->cookie);
    emx_eager_put_word(to + 16, (uint64_t)*v->ack << 32 | *v->seq);
    emx_eager_put_word(to + 24, v->credit);
}

/* The fields of struct emx_f_eager about the message. */
struct emx_eager_told {
    uint64_t bits, total_bytes; /* total_bytes: below 2^32 */
    uint32_t op, joined;
    uint16_t am_header_bytes, flags;
};

/* n bytes of the message follow the header. */
static inline void emx_eager_put(uint8_t *to, const struct emx_eager_envelope *v, const struct emx_eager_told *t,
                                 size_t n)
{
    emx_eager_put_word(to + 32, t->bits);
    emx_eager_put_word(to + 40, (uint64_t)t->op << 32 | t->total_bytes);
    emx_eager_put_word(to + 48, (uint64_t)t->joined << 32 | (uint32_t)t->flags << 16 | t->am_header_bytes);
    emx_eager_put_frame(to, v, EMX_F_eager, sizeof(struct emx_f_eager) + n);
}

static inline void emx_eager_put_compact(uint8_t *to, const struct emx_eager_envelope *v, uint64_t bits, size_t n)
{
    emx_eager_put_word(to + 32, bits);
    emx_eager_put_frame(to, v, EMX_F_compact, sizeof(struct emx_f_compact) + n);
}

/* The memory may be read by another processor at the same time. */
static inline void emx_eager_put_short(uint8_t *to, const struct emx_eager_envelope *v, uint64_t bits, size_t n)
{
    emx_eager_put_word(to, (uint64_t)*v->dst_id << 32 | (uint32_t)n << 16 | EMX_F_eager << 8 | EMX_FRAME_V_SHORT);
    emx_eager_put_word(to + 8, (uint64_t)*v->src_id << 32 | *v->cookie);
    emx_eager_put_word(to + 16, (uint64_t)v->credit << 32 | *v->seq);
    emx_eager_put_word(to + 24, bits);
}

static_assert(offsetof(struct emx_f_eager, op) == 12 && offsetof(struct emx_f_eager, flags) == 18 &&
                  offsetof(struct emx_f_eager, joined) == 20,
              "words of an eager frame");

/* Whether a message with these flags may have a header of this length. */
static inline bool emx_message_head_fits(unsigned flags, size_t head_bytes)
{
    if (flags & EMX_FF_AM)
        return !(flags & (EMX_FF_REMOTE | EMX_FF_UNTAGGED)) && head_bytes <= ETHMX_AM_HEADER_MAX;
    return head_bytes == (flags & EMX_FF_REMOTE ? EMX_REMOTE_BYTES : 0);
}

/* Whether f is valid for a frame with n bytes of the message. All code that accepts eager messages checks this, that no
 * other message is incomplete (msg/eager.h), and that credit covers this one (rel/credit.h). */
static inline bool emx_eager_fits(const struct emx_f_eager *f, size_t n)
{
    bool am = f->flags & EMX_FF_AM;

    if (n > f->total_bytes || (n < f->total_bytes && !n))
        return false;
    if (f->am_header_bytes > f->total_bytes || !emx_message_head_fits(f->flags, f->am_header_bytes))
        return false;
    if (f->flags & EMX_FF_REMOTE && n < EMX_REMOTE_BYTES)
        return false;
    return !am || f->bits < ETHMX_AM_HANDLERS;
}

/* A standard message in one frame. */
struct emx_eager_whole {
    const void *data;
    uint64_t bits;
    uint32_t len_bytes;
};

/* Whether an eager or compact frame with len_bytes is such a message, by its header, which need not be checked yet.
 * joined: the sender's last value; the frame has no other news. Includes emx_eager_fits(). */
static inline bool emx_eager_is_whole(const struct emx_frame *h, uint32_t len_bytes, uint32_t joined,
                                      struct emx_eager_whole *m)
{
    const struct emx_f_eager *f = (const void *)(h + 1);
    const struct emx_f_compact *w = (const void *)(h + 1);

    if (h->type == EMX_F_compact && len_bytes >= sizeof(*h) + sizeof(*w) && h->body_bytes >= sizeof(*w)) {
        *m =
            (struct emx_eager_whole){.data = w + 1, .bits = w->bits, .len_bytes = h->body_bytes - (uint32_t)sizeof(*w)};
        return true;
    }
    if (h->type != EMX_F_eager || len_bytes < sizeof(*h) + sizeof(*f))
        return false;
    *m = (struct emx_eager_whole){.data = f + 1, .bits = f->bits, .len_bytes = f->total_bytes};
    return !f->flags && !f->am_header_bytes && h->body_bytes == sizeof(*f) + f->total_bytes && f->joined == joined;
}

/* As emx_eager_is_whole(), for an eager frame of an untagged message, or with remote data, or both. *flags_p: which.
 * Remote data is before the data. */
static inline bool emx_eager_is_flagged(const struct emx_frame *h, uint32_t len_bytes, uint32_t joined,
                                        struct emx_eager_whole *m, uint16_t *flags_p)
{
    const struct emx_f_eager *f = (const void *)(h + 1);
    uint32_t head_bytes;

    if (h->type != EMX_F_eager || len_bytes < sizeof(*h) + sizeof(*f))
        return false;
    head_bytes = f->flags & EMX_FF_REMOTE ? EMX_REMOTE_BYTES : 0;
    *m = (struct emx_eager_whole){
        .data = (const uint8_t *)(f + 1) + head_bytes, .bits = f->bits, .len_bytes = f->total_bytes - head_bytes};
    *flags_p = f->flags;
    return f->flags && !(f->flags & ~(EMX_FF_REMOTE | EMX_FF_UNTAGGED)) && f->am_header_bytes == head_bytes &&
           f->total_bytes >= head_bytes && h->body_bytes == sizeof(*f) + f->total_bytes && f->joined == joined;
}

/* Whether a short frame with len_bytes is complete. */
static inline bool emx_eager_is_short(const struct emx_short *h, uint32_t len_bytes)
{
    return len_bytes >= sizeof(*h) && len_bytes - sizeof(*h) >= h->body_bytes;
}

#endif
