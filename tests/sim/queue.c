/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue.h"

#include <stdlib.h>
#include <string.h>

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

void sim_queue_init(struct sim_queue *q)
{
    memset(q, 0, sizeof(*q));
}

void sim_queue_fini(struct sim_queue *q)
{
    free(q->heap);
    memset(q, 0, sizeof(*q));
}

void sim_queue_put(struct sim_queue *q, uint64_t at_ns, sim_event_fn fn, void *arg, uint64_t value)
{
    struct sim_event ev = {.at_ns = at_ns, .number = q->number++, .fn = fn, .arg = arg, .value = value};
    size_t i;

    if (q->count == q->room) {
        q->room = q->room ? 2 * q->room : 256;
        q->heap = realloc(q->heap, q->room * sizeof(*q->heap));
        if (!q->heap)
            abort();
    }
    for (i = q->count++; i && before(&ev, &q->heap[(i - 1) / 2]); i = (i - 1) / 2)
        q->heap[i] = q->heap[(i - 1) / 2];
    q->heap[i] = ev;
}

const struct sim_event *sim_queue_first(const struct sim_queue *q)
{
    return q->count ? q->heap : NULL;
}

bool sim_queue_take(struct sim_queue *q, struct sim_event *ev_p)
{
    struct sim_event last;
    size_t i, child;

    if (!q->count)
        return false;
    *ev_p = q->heap[0];
    last = q->heap[--q->count];
    for (i = 0; (child = 2 * i + 1) < q->count; i = child) {
        if (child + 1 < q->count && before(&q->heap[child + 1], &q->heap[child]))
            child++;
        if (!before(&q->heap[child], &last))
            break;
        q->heap[i] = q->heap[child];
    }
    q->heap[i] = last;
    return true;
}
