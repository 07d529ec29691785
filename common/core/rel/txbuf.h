/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Buffers of sequenced frames, in three lengths: most frames are short, and the longest ones stay on the host. A buffer
 * is in a list of its session from the creation of its frame until it is acknowledged.
 */
#ifndef EMX_CORE_TXBUF_H
#define EMX_CORE_TXBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/pool.h"
#include "core/format/frame.h"
#include "core/time.h"

#define EMX_SEQ_FRAME_MAX 9216 /* longest sequenced frame; data frames may be longer */

enum emx_txbuf_size {
    EMX_TXBUF_SMALL,
    EMX_TXBUF_BIG,  /* engine.seq_frame_bytes */
    EMX_TXBUF_NEAR, /* EMX_SEQ_FRAME_MAX */
    EMX_TXBUF_SIZES
};

/* A sequenced frame, kept until acknowledged. */
struct emx_txbuf {
    struct emx_list link; /* session.tx.control or session.tx.unacked */
    struct emx_list lent; /* in engine.lent while the frame ends in the program's memory: */
    const uint8_t *body;
    uint16_t body_bytes; /* included in len_bytes; 0: none */
    uint16_t frames;     /* 1; or a run of so many chunk frames (send_run.h), then */
    emx_time sent_ns;    /* 0: not yet */
    uint32_t seq;
    uint16_t len_bytes;
    uint16_t tries;
    bool early;   /* acknowledged before its turn */
    bool lost;    /* to be retransmitted */
    bool unready; /* an rts that waits for its key (rdma_get.c) */
    uint8_t size; /* enum emx_txbuf_size: its pool */
    bool gso;     /* may travel in a GSO packet when sent for the first time */
    bool slot;    /* the first frame of a message in a GSO packet */

    union {
        uint8_t tag[sizeof(struct emx_tag)] __attribute__((aligned(8))); /* room for a tag */
        uint8_t *copy; /* of a run, which has no tag: room for its data, to which body points when that is not lent */
    };
    uint8_t frame[] __attribute__((aligned(8)));
};

static_assert(offsetof(struct emx_txbuf, frame) - offsetof(struct emx_txbuf, tag) == sizeof(struct emx_tag),
              "the tag precedes the frame");

struct emx_txbufs {
    struct emx_pool pool[EMX_TXBUF_SIZES];
    struct emx_pool copies; /* of EMX_WIRE_JOIN_BYTES */
};

static inline struct emx_frame *emx_txbuf_frame(struct emx_txbuf *b)
{
    return (struct emx_frame *)b->frame;
}

/* Returns a buffer for a frame of that length. NULL: out of memory. */
static inline struct emx_txbuf *emx_txbuf_get(struct emx_txbufs *bufs, size_t len_bytes)
{
    unsigned size = EMX_TXBUF_SMALL;
    struct emx_txbuf *b;

    while (sizeof(*b) + len_bytes > bufs->pool[size].object_bytes)
        size++;
    b = (struct emx_txbuf *)emx_pool_get(&bufs->pool[size]);
    if (!b)
        return NULL;
    emx_list_init(&b->link);
    emx_list_init(&b->lent);
    b->body_bytes = 0;
    b->frames = 1;
    b->len_bytes = (uint16_t)len_bytes;
    b->tries = 0;
    b->early = b->lost = false;
    b->size = (uint8_t)size;
    b->gso = b->slot = b->unready = false;
    return b;
}

static inline void emx_txbuf_put(struct emx_txbufs *bufs, struct emx_txbuf *b)
{
    emx_list_del(&b->lent);
    if (b->frames > 1)
        emx_pool_put(&bufs->copies, b->copy);
    emx_pool_put(&bufs->pool[b->size], b);
}

/* The same for all in a list, by link. */
static inline void emx_txbuf_put_all(struct emx_txbufs *bufs, struct emx_list *list)
{
    struct emx_list *l;

    while ((l = emx_list_pop(list)))
        emx_txbuf_put(bufs, emx_list_entry(l, struct emx_txbuf, link));
}

#endif
