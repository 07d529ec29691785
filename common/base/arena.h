/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Arena: many small objects of any length. An object costs its length, rounded up to 8 bytes, and nearly nothing more.
 * An object that was given back is reused for the next of the same length. emx_arena_fini() frees all objects at once.
 * Not thread-safe.
 */
#ifndef EMX_BASE_ARENA_H
#define EMX_BASE_ARENA_H

#include <stddef.h>

#include "base/alloc.h"

#define EMX_ARENA_LENGTHS 32 /* reused lengths: multiples of 8, up to 8 times this */

struct emx_arena {
    const struct emx_alloc *alloc;
    void *blocks;                   /* singly linked through the blocks' first word */
    void *given[EMX_ARENA_LENGTHS]; /* by length / 8 - 1, singly linked through the objects' first word */
    char *at;                       /* free space in the first of them */
    size_t left_bytes, block_bytes;
};

/* Allocates nothing yet. */
void emx_arena_init(struct emx_arena *a, const struct emx_alloc *alloc);
void emx_arena_fini(struct emx_arena *a);

/* An object with undefined content, 8-byte aligned; NULL: out of memory. */
void *emx_arena_get(struct emx_arena *a, size_t len_bytes);
/* Gives back an object of this length. One of more than 8 * EMX_ARENA_LENGTHS bytes is not reused. */
void emx_arena_put(struct emx_arena *a, void *object, size_t len_bytes);

#endif
