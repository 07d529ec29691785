/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/heap.h"

#include <string.h>

void emx_heap_init(struct emx_heap *h, const struct emx_alloc *alloc)
{
    *h = (struct emx_heap){.alloc = alloc};
}

void emx_heap_fini(struct emx_heap *h)
{
    emx_alloc_put(h->alloc, h->slot);
    *h = (struct emx_heap){.alloc = h->alloc};
}

int emx_heap_reserve(struct emx_heap *h, unsigned n)
{
    struct emx_timer **slot;
    unsigned room = h->room ? h->room : 16;

    if (n <= h->room)
        return 0;
    while (room < n)
        room *= 2;
    slot = emx_alloc_get(h->alloc, room * sizeof(*slot));
    if (!slot)
        return -1;
    if (h->count)
        memcpy(slot, h->slot, h->count * sizeof(*slot));
    emx_alloc_put(h->alloc, h->slot);
    h->slot = slot;
    h->room = room;
    return 0;
}

static void heap_place(struct emx_heap *h, unsigned i, struct emx_timer *t)
{
    h->slot[i] = t;
    t->slot = i + 1;
}

/* Moves the timers above slot i that are later than t down, and puts t where it belongs. */
static void heap_sift_up(struct emx_heap *h, unsigned i, struct emx_timer *t)
{
    while (i > 0) {
        unsigned parent = (i - 1) / 2;

        if (h->slot[parent]->at_ns <= t->at_ns)
            break;
        heap_place(h, i, h->slot[parent]);
        i = parent;
    }
    heap_place(h, i, t);
}

/* Moves the timers below slot i that are earlier than t up, and puts t where it belongs. */
static void heap_sift_down(struct emx_heap *h, unsigned i, struct emx_timer *t)
{
    for (;;) {
        unsigned child = 2 * i + 1;

        if (child >= h->count)
            break;
        if (child + 1 < h->count && h->slot[child + 1]->at_ns < h->slot[child]->at_ns)
            child++;
        if (h->slot[child]->at_ns >= t->at_ns)
            break;
        heap_place(h, i, h->slot[child]);
        i = child;
    }
    heap_place(h, i, t);
}

/* Puts t, which is to stand in slot i or anywhere above or below it. */
static void heap_sift(struct emx_heap *h, unsigned i, struct emx_timer *t)
{
    if (i > 0 && h->slot[(i - 1) / 2]->at_ns > t->at_ns)
        heap_sift_up(h, i, t);
    else
        heap_sift_down(h, i, t);
}

void emx_heap_set(struct emx_heap *h, struct emx_timer *t, uint64_t at_ns)
{
    t->at_ns = at_ns;
    if (t->slot)
        heap_sift(h, t->slot - 1, t);
    else
        heap_sift_up(h, h->count++, t);
}

void emx_heap_clear(struct emx_heap *h, struct emx_timer *t)
{
    unsigned i = t->slot;
    struct emx_timer *last;

    if (!i)
        return;
    t->slot = 0;
    last = h->slot[--h->count];
    if (last != t)
        heap_sift(h, i - 1, last);
}
