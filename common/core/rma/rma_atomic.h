/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Arithmetic of one-sided operations on memory that other processes change at the same time: by the processor's atomic
 * instructions, one element after the other.
 *
 * It has the elements that are a *word*: integers and real numbers of up to 8 bytes, aligned as long as they are. What
 * is a word depends on type and place alone. So all who change an element do it alike: words by the processor, in any
 * process that has mapped the memory; all others by the target's engine.
 */
#ifndef EMX_CORE_RMA_ATOMIC_H
#define EMX_CORE_RMA_ATOMIC_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "core/rma/rma_apply.h"

bool emx_rma_is_word(unsigned type, const void *at);

/* As emx_rma_apply(). old: NULL, or it gets what was there before, and does not overlap the others. */
void emx_rma_apply_words(unsigned op, unsigned type, void *to, const void *from, void *old, size_t len_bytes);
/* As emx_rma_swap(), of one word. */
void emx_rma_swap_word(void *to, const void *compare, const void *set, void *old, size_t len_bytes);

/* Both ways in one: words: by the processor's atomic instructions. */
static inline void emx_rma_change(unsigned op, unsigned type, void *to, const void *from, void *old, size_t len_bytes,
                                  bool words)
{
    if (words) {
        emx_rma_apply_words(op, type, to, from, old, len_bytes);
        return;
    }
    if (old)
        memcpy(old, to, len_bytes);
    emx_rma_apply(op, type, to, from, len_bytes);
}

static inline void emx_rma_exchange(void *to, const void *compare, const void *set, void *old, size_t len_bytes,
                                    bool words)
{
    if (words) {
        emx_rma_swap_word(to, compare, set, old, len_bytes);
        return;
    }
    memcpy(old, to, len_bytes);
    emx_rma_swap(to, compare, set, len_bytes);
}

#endif
