/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Allocator: a table of two functions through which the engine and the containers of this room allocate. Tests pass one
 * whose n-th allocation fails. An object is freed through the table that it came from. Thread safety is the table's:
 * emx_alloc_libc is thread-safe.
 */
#ifndef EMX_BASE_ALLOC_H
#define EMX_BASE_ALLOC_H

#include <stddef.h>
#include <stdlib.h>

struct emx_alloc {
    void *(*get)(void *arg, size_t len_bytes); /* NULL: out of memory */
    void (*put)(void *arg, void *ptr);         /* frees ptr, which may be NULL */
    void *arg;
};

/* malloc and free. */
extern const struct emx_alloc emx_alloc_libc;

static inline void *emx_alloc_get(const struct emx_alloc *a, size_t len_bytes)
{
    return a->get(a->arg, len_bytes);
}

static inline void emx_alloc_put(const struct emx_alloc *a, void *ptr)
{
    a->put(a->arg, ptr);
}

#endif
