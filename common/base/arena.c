/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/arena.h"

#define ALIGN_BYTES 8
#define FIRST_BYTES 512 /* a small job needs little; blocks double up to the most, which bounds what lies idle */
#define MOST_BYTES  4096

void emx_arena_init(struct emx_arena *a, const struct emx_alloc *alloc)
{
    *a = (struct emx_arena){.alloc = alloc, .block_bytes = FIRST_BYTES};
}

void emx_arena_fini(struct emx_arena *a)
{
    void *block = a->blocks;

    while (block) {
        void *next = *(void **)block;

        emx_alloc_put(a->alloc, block);
        block = next;
    }
    *a = (struct emx_arena){.alloc = a->alloc, .block_bytes = FIRST_BYTES};
}

/* What is left of the block before is lost. */
static int arena_grow(struct emx_arena *a, size_t len_bytes)
{
    size_t bytes = len_bytes + sizeof(void *) > a->block_bytes ? len_bytes + sizeof(void *) : a->block_bytes;
    char *block = emx_alloc_get(a->alloc, bytes);

    if (!block)
        return -1;
    *(void **)(void *)block = a->blocks;
    a->blocks = block;
    a->at = block + sizeof(void *);
    a->left_bytes = bytes - sizeof(void *);
    if (a->block_bytes < MOST_BYTES)
        a->block_bytes *= 2;
    return 0;
}

static size_t arena_round_up(size_t len_bytes)
{
    return (len_bytes + ALIGN_BYTES - 1) & ~(size_t)(ALIGN_BYTES - 1);
}

/* Where objects of this length are when they were given back, or NULL. */
static void **arena_given(struct emx_arena *a, size_t len_bytes)
{
    size_t i = len_bytes / ALIGN_BYTES - 1;

    return i < EMX_ARENA_LENGTHS ? &a->given[i] : NULL;
}

void emx_arena_put(struct emx_arena *a, void *object, size_t len_bytes)
{
    void **list = arena_given(a, arena_round_up(len_bytes));

    if (!list)
        return;
    *(void **)object = *list;
    *list = object;
}

void *emx_arena_get(struct emx_arena *a, size_t len_bytes)
{
    void *object, **list;

    len_bytes = arena_round_up(len_bytes);
    list = arena_given(a, len_bytes);
    if (list && (object = *list)) {
        *list = *(void **)object;
        return object;
    }
    if (len_bytes > a->left_bytes && arena_grow(a, len_bytes))
        return NULL;
    object = a->at;
    a->at += len_bytes;
    a->left_bytes -= len_bytes;
    return object;
}
