/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pool: objects of one size. The object freed last is reused first, because it is still in the cache. The pool grows in
 * chunks; memory is freed only by emx_pool_fini(). Not thread-safe.
 */
#ifndef EMX_BASE_POOL_H
#define EMX_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

struct emx_pool {
    const struct emx_alloc *alloc;
    void *free;          /* singly linked through the objects' first word */
    void *chunks;        /* singly linked through the chunks' first word */
    size_t object_bytes; /* rounded up to 64 */
    unsigned chunk_objects;
    uint64_t in_use;
    size_t memory_bytes;
};

/* chunk_objects: how many to allocate at a time (at least 1). Allocates nothing yet. */
void emx_pool_init(struct emx_pool *p, const struct emx_alloc *alloc, size_t object_bytes, unsigned chunk_objects);

/* Frees all chunks; objects still in use become invalid. */
void emx_pool_fini(struct emx_pool *p);

/* Adds a chunk. 0, or -1 when out of memory. */
int emx_pool_grow(struct emx_pool *p);

/* Makes sure that the next emx_pool_get() succeeds. 0, or -1 when out of memory. */
static inline int emx_pool_reserve(struct emx_pool *p)
{
    return p->free ? 0 : emx_pool_grow(p);
}

/* An object with undefined content, 64-byte aligned; NULL: out of memory. */
static inline void *emx_pool_get(struct emx_pool *p)
{
    void *o;

    if (!p->free && emx_pool_grow(p))
        return NULL;
    o = p->free;
    p->free = *(void **)o;
    p->in_use++;
    return o;
}

static inline void emx_pool_put(struct emx_pool *p, void *o)
{
    *(void **)o = p->free;
    p->free = o;
    p->in_use--;
}

#endif
