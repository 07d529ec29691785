/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spans: a set of addresses as sorted spans that neither overlap nor touch. Of fixed size, because it changes where no
 * memory may be allocated. Not thread-safe.
 */
#ifndef EMX_MEM_SPANS_H
#define EMX_MEM_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_SPANS 1024

struct emx_span {
    uintptr_t base, end;
};

struct emx_spans {
    unsigned count;
    struct emx_span span[EMX_SPANS];
};

/* The span that contains addr, or NULL. Valid until the next change. */
const struct emx_span *emx_spans_find(const struct emx_spans *s, uintptr_t addr);

/* Adds or removes [base, end). false: too many spans; nothing was changed. */
bool emx_spans_add(struct emx_spans *s, uintptr_t base, uintptr_t end);
bool emx_spans_remove(struct emx_spans *s, uintptr_t base, uintptr_t end);

#endif
