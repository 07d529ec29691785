/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Heap: a binary min-heap of timers. Each timer is a member of the object that it belongs to, so the heap allocates
 * only its array of pointers. Setting, changing and clearing a timer cost O(log n), reading the earliest O(1). Timers
 * with equal times fire in an order that is the same in each run. Not thread-safe.
 */
#ifndef EMX_BASE_HEAP_H
#define EMX_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

struct emx_timer {
    uint64_t at_ns;
    unsigned slot; /* position + 1 in the heap; 0: not set */
    unsigned kind; /* the owner's: what the timer is in */
};

struct emx_heap {
    const struct emx_alloc *alloc;
    struct emx_timer **slot;
    unsigned count, room;
};

void emx_heap_init(struct emx_heap *h, const struct emx_alloc *alloc);
void emx_heap_fini(struct emx_heap *h);

/* Makes room for n timers in all, so that emx_heap_set() cannot fail with so many. 0, or -1: out of memory. */
int emx_heap_reserve(struct emx_heap *h, unsigned n);

/* Sets t (new or already set) to at_ns. Room must have been reserved. */
void emx_heap_set(struct emx_heap *h, struct emx_timer *t, uint64_t at_ns);
void emx_heap_clear(struct emx_heap *h, struct emx_timer *t);

static inline bool emx_timer_is_set(const struct emx_timer *t)
{
    return t->slot != 0;
}

/* Sets t to at_ns, unless it is set to that time or an earlier one. */
static inline void emx_heap_bring_forward(struct emx_heap *h, struct emx_timer *t, uint64_t at_ns)
{
    if (!emx_timer_is_set(t) || at_ns < t->at_ns)
        emx_heap_set(h, t, at_ns);
}

/* The earliest timer, or NULL. */
static inline struct emx_timer *emx_heap_first(const struct emx_heap *h)
{
    return h->count ? h->slot[0] : NULL;
}

#endif
