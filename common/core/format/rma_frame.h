/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The headers of frames of one-sided operations. frame.h has the others. docs/protocol.md explains them.
 */
#ifndef EMX_CORE_RMA_FRAME_H
#define EMX_CORE_RMA_FRAME_H

#include <assert.h>
#include <stdint.h>

#include "core/format/frame.h"

#define EMX_RMA_OPEN_MAX 128 /* operations of one endpoint without a reply at one target */

/* Flags of rma_atomic. */
#define EMX_RMA_FETCH 1u /* reply with what was there before */
#define EMX_RMA_SWAP  2u /* compare and swap; op has no meaning */

/* rma_put: the data follows; if it is less than len_bytes, the rest follows in further frames, of which the last is
 * replied to. rma_get: nothing follows. rma_atomic: the operand follows, of len_bytes (none for ETHMX_RMA_NO_OP), or
 * without EMX_RMA_FETCH a part of it as in rma_put, of complete elements; or the values to compare with and to set,
 * both of len_bytes. */
struct EMX_LAYOUT emx_f_rma {
    uint32_t id;        /* of the operation, returned in the reply */
    uint8_t op, type;   /* rma_atomic: enum ethmx_rma_op, ethmx_rma_type */
    uint16_t flags;     /* rma_atomic */
    uint64_t key;       /* of the region */
    uint64_t offset;    /* in the region */
    uint64_t len_bytes; /* from there on; of this frame and those that follow */
};
static_assert(sizeof(struct emx_f_rma) == 32, "one-sided operation");

/* A put that waits to be pulled, or to be read, as a message that an rts announces. */
struct EMX_LAYOUT emx_f_rma_put_rts {
    uint32_t id;
    uint32_t op; /* the origin's operation, for pull and fin */
    uint64_t key, offset, len_bytes;
    uint64_t remote; /* address of the data in the origin's process; 0: it cannot be read */
    uint16_t chunk_bytes;
    uint16_t reserved[3];
};
static_assert(sizeof(struct emx_f_rma_put_rts) == 48, "long put");

/* Reply to an rma_get whose data waits to be pulled, or to be read. */
struct EMX_LAYOUT emx_f_rma_get_rts {
    uint32_t id;
    uint32_t op; /* the target's operation, for pull and fin */
    uint16_t chunk_bytes;
    uint16_t reserved[3];
    uint64_t remote; /* address of the data in the target's process; 0: it cannot be read */
};
static_assert(sizeof(struct emx_f_rma_get_rts) == 24, "long get");

/* Reply to an rma_get or a fetching rma_atomic; the data follows. */
struct EMX_LAYOUT emx_f_rma_reply {
    uint32_t id;
    uint32_t reserved;
};
static_assert(sizeof(struct emx_f_rma_reply) == 8, "reply with data");

enum emx_rma_status {
    EMX_RMA_DONE,
    EMX_RMA_REFUSED, /* no such region, or outside of it */
    EMX_RMA_STATUS_COUNT
};

/* Reply to operations without data to return, and to those that have failed: count of them, with consecutive ids. */
struct EMX_LAYOUT emx_f_rma_done {
    uint32_t id;     /* of the first */
    uint32_t count;  /* 1 to EMX_RMA_OPEN_MAX */
    uint32_t status; /* enum emx_rma_status; of all */
    uint32_t reserved;
};
static_assert(sizeof(struct emx_f_rma_done) == 16, "reply without data");

#endif
