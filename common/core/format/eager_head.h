/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The headers of frames that begin an eager message: one maker and one reader for its three forms, eager, compact and
 * short. All paths use them.
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

/* What all three tell of the frame; short: no ack. By reference, for each is read where it is written: read before all
 * stores they would take more registers than there are. */
struct emx_eager_envelope {
    const uint32_t *dst_id, *cookie, *src_id, *seq, *ack;
    uint32_t credit;
};

static inline void emx_eager_put_word(uint8_t *to, uint64_t word)
{
    memcpy(to, &word, sizeof(word));
}

/* Headers are written word by word, and each once: what is stored in halves and then read whole, as by the checksum,
 * makes the processor wait. (A short one made on the stack and copied from there costs 15 ns.) The check is 0. */
static inline void emx_eager_put_frame(uint8_t *to, const struct emx_eager_envelope *v, enum emx_frame_type type,
                                       uint64_t body_bytes)
{
    emx_eager_put_word(to, (uint64_t)*v->dst_id << 32 | body_bytes << 16 | (unsigned)type << 8 | EMX_FRAME_V_HEADER);
    emx_eager_put_word(to + 8, (uint64_t)*v->src_id << 32 | *v->cookie);
    emx_eager_put_word(to + 16, (uint64_t)*v->ack << 32 | *v->seq);
    emx_eager_put_word(to + 24, v->credit);
}

/* What an eager frame tells of its message, as struct emx_f_eager. */
struct emx_eager_told {
    uint64_t bits, total_bytes; /* total_bytes: below 2^32 */
    uint32_t op, joined;
    uint16_t am_header_bytes, flags;
};

/* n bytes of the message follow. */
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

/* It may be written to memory that another processor looks at. */
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

/* Whether what f tells can be true of a message of which n bytes have come. All that accept eager messages ask this,
 * whether the last message is whole (msg/eager.h), and credit covers this one (rel/credit.h). */
static inline bool emx_eager_fits(const struct emx_f_eager *f, size_t n)
{
    bool am = f->flags & EMX_FF_AM;

    if (n > f->total_bytes || (n < f->total_bytes && !n))
        return false;
    if (f->am_header_bytes > f->total_bytes || f->am_header_bytes > (am ? ETHMX_AM_HEADER_MAX : 0))
        return false;
    return !am || f->bits < ETHMX_AM_HANDLERS;
}

/* A standard message in one frame. */
struct emx_eager_whole {
    const void *data;
    uint64_t bits;
    uint32_t len_bytes;
};

/* Whether an eager or compact frame, of which len_bytes have arrived, is such a one, as far as its header tells, which
 * may be unchecked. joined: what the sender has told before; the frame tells nothing else. It fits then, too. */
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

/* Whether a short frame, of which len_bytes have arrived, is whole. */
static inline bool emx_eager_is_short(const struct emx_short *h, uint32_t len_bytes)
{
    return len_bytes >= sizeof(*h) && len_bytes - sizeof(*h) >= h->body_bytes;
}

#endif
