/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/spans.h"

#include <stddef.h>
#include <string.h>

/* The first span that ends after addr. */
static unsigned spans_first_after(const struct emx_spans *s, uintptr_t addr)
{
    unsigned low = 0, high = s->count;

    while (low < high) {
        unsigned mid = (low + high) / 2;

        if (s->span[mid].end > addr)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

const struct emx_span *emx_spans_find(const struct emx_spans *s, uintptr_t addr)
{
    unsigned i = spans_first_after(s, addr);

    return i < s->count && s->span[i].base <= addr ? &s->span[i] : NULL;
}

/* Puts n spans (up to 2) in the place of those from first to before last. */
static bool spans_replace(struct emx_spans *s, unsigned first, unsigned last, const struct emx_span *with, unsigned n)
{
    if (s->count - (last - first) + n > EMX_SPANS)
        return false;
    memmove(&s->span[first + n], &s->span[last], (s->count - last) * sizeof(s->span[0]));
    if (n)
        memcpy(&s->span[first], with, n * sizeof(s->span[0]));
    s->count = s->count - (last - first) + n;
    return true;
}

bool emx_spans_add(struct emx_spans *s, uintptr_t base, uintptr_t end)
{
    struct emx_span whole = {base, end};
    unsigned first = spans_first_after(s, base ? base - 1 : 0), last = first; /* those that touch are of it, too */

    for (; last < s->count && s->span[last].base <= end; last++) {
        if (s->span[last].base < whole.base)
            whole.base = s->span[last].base;
        if (s->span[last].end > whole.end)
            whole.end = s->span[last].end;
    }
    return spans_replace(s, first, last, &whole, 1);
}

bool emx_spans_remove(struct emx_spans *s, uintptr_t base, uintptr_t end)
{
    unsigned first = spans_first_after(s, base), last = first, n = 0;
    struct emx_span rest[2];

    for (; last < s->count && s->span[last].base < end; last++) {
        if (s->span[last].base < base)
            rest[n++] = (struct emx_span){s->span[last].base, base};
        if (s->span[last].end > end)
            rest[n++] = (struct emx_span){end, s->span[last].end};
    }
    return spans_replace(s, first, last, rest, n);
}
