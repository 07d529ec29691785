/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/pool.h"

#define ALIGN_BYTES 64 /* a cache line: neighbours in a chunk do not share one */

void emx_pool_init(struct emx_pool *p, const struct emx_alloc *alloc, size_t object_bytes, unsigned chunk_objects)
{
    *p = (struct emx_pool){
        .alloc = alloc,
        .object_bytes = (object_bytes ? object_bytes + ALIGN_BYTES - 1 : ALIGN_BYTES) & ~(size_t)(ALIGN_BYTES - 1),
        .chunk_objects = chunk_objects ? chunk_objects : 1,
    };
}

void emx_pool_fini(struct emx_pool *p)
{
    void *chunk = p->chunks;

    while (chunk) {
        void *next = *(void **)chunk;

        emx_alloc_put(p->alloc, chunk);
        chunk = next;
    }
    p->chunks = p->free = NULL;
    p->in_use = 0;
    p->memory_bytes = 0;
}

int emx_pool_grow(struct emx_pool *p)
{
    /* Room for the link between chunks and for moving the first object up to an aligned address. */
    size_t bytes = p->object_bytes * p->chunk_objects + sizeof(void *) + ALIGN_BYTES - 1;
    char *chunk = emx_alloc_get(p->alloc, bytes);
    char *first;

    if (!chunk)
        return -1;
    *(void **)(void *)chunk = p->chunks;
    p->chunks = chunk;
    p->memory_bytes += bytes;

    first = chunk + sizeof(void *);
    first += -(uintptr_t)first & (ALIGN_BYTES - 1);
    for (unsigned i = p->chunk_objects; i-- > 0;) { /* backwards: the lowest address comes out first */
        void *o = first + i * p->object_bytes;

        *(void **)o = p->free;
        p->free = o;
    }
    return 0;
}
