/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Arena: many small objects of any length that live until all are freed at once. An object costs its length, rounded up
 * to 8 bytes and nearly nothing more. Not thread-safe.
 */
#ifndef EMX_BASE_ARENA_H
#define EMX_BASE_ARENA_H

#include <stddef.h>

#include "base/alloc.h"

struct emx_arena {
    const struct emx_alloc *alloc;
    void *blocks; /* singly linked through the blocks' first word */
    char *at;     /* free space in the first of them */
    size_t left_bytes, block_bytes;
};

/* Allocates nothing yet. */
void emx_arena_init(struct emx_arena *a, const struct emx_alloc *alloc);
void emx_arena_fini(struct emx_arena *a);

/* An object with undefined content, 8-byte aligned; NULL: out of memory. */
void *emx_arena_get(struct emx_arena *a, size_t len_bytes);

#endif
