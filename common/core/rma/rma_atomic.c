/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sums of integers and replacement have instructions of their own. Everything else is computed from what was read, and
 * stored if nobody has changed it meanwhile.
 */
#include "core/rma/rma_atomic.h"

#include <stdint.h>
#include <string.h>

#include "core/rma/rma_apply.h"
#include "ethmx_rma.h"

bool emx_rma_is_word(unsigned type, const void *at)
{
    bool fits = emx_rma_is_integer(type) || type == ETHMX_RMA_FLOAT || type == ETHMX_RMA_DOUBLE;

    return fits && (uintptr_t)at % emx_rma_type_bytes(type) == 0;
}

/* Changes one word, and returns what was there before. */
#define CHANGE(bits)                                                                                                   \
    static uint##bits##_t atomic_change_##bits(unsigned op, unsigned type, uint##bits##_t *to, uint##bits##_t operand) \
    {                                                                                                                  \
        uint##bits##_t old, changed;                                                                                   \
                                                                                                                       \
        if (op == ETHMX_RMA_NO_OP)                                                                                     \
            return __atomic_load_n(to, __ATOMIC_SEQ_CST);                                                              \
        if (op == ETHMX_RMA_REPLACE)                                                                                   \
            return __atomic_exchange_n(to, operand, __ATOMIC_SEQ_CST);                                                 \
        if (op == ETHMX_RMA_SUM && emx_rma_is_integer(type))                                                           \
            return __atomic_fetch_add(to, operand, __ATOMIC_SEQ_CST);                                                  \
        old = __atomic_load_n(to, __ATOMIC_RELAXED);                                                                   \
        do {                                                                                                           \
            changed = old;                                                                                             \
            emx_rma_apply(op, type, &changed, &operand, sizeof(changed));                                              \
        } while (!__atomic_compare_exchange_n(to, &old, changed, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));           \
        return old;                                                                                                    \
    }                                                                                                                  \
                                                                                                                       \
    static void atomic_change_each_##bits(unsigned op, unsigned type, void *to, const char *from, char *old,           \
                                          size_t len_bytes)                                                            \
    {                                                                                                                  \
        uint##bits##_t *word = to;                                                                                     \
                                                                                                                       \
        for (size_t at = 0; at < len_bytes; at += sizeof(*word), word++) {                                             \
            uint##bits##_t operand = 0, before;                                                                        \
                                                                                                                       \
            if (op != ETHMX_RMA_NO_OP)                                                                                 \
                memcpy(&operand, from + at, sizeof(operand));                                                          \
            before = atomic_change_##bits(op, type, word, operand);                                                    \
            if (old)                                                                                                   \
                memcpy(old + at, &before, sizeof(before));                                                             \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void atomic_swap_##bits(void *to, const void *compare, const void *set, void *old)                          \
    {                                                                                                                  \
        uint##bits##_t before, after;                                                                                  \
                                                                                                                       \
        memcpy(&before, compare, sizeof(before));                                                                      \
        memcpy(&after, set, sizeof(after));                                                                            \
        (void)__atomic_compare_exchange_n((uint##bits##_t *)to, &before, after, false, __ATOMIC_SEQ_CST,               \
                                          __ATOMIC_SEQ_CST);                                                           \
        memcpy(old, &before, sizeof(before));                                                                          \
    }

CHANGE(8)
CHANGE(16)
CHANGE(32)
CHANGE(64)

void emx_rma_apply_words(unsigned op, unsigned type, void *to, const void *from, void *old, size_t len_bytes)
{
    switch (emx_rma_type_bytes(type)) {
    case 1:
        atomic_change_each_8(op, type, to, from, old, len_bytes);
        break;
    case 2:
        atomic_change_each_16(op, type, to, from, old, len_bytes);
        break;
    case 4:
        atomic_change_each_32(op, type, to, from, old, len_bytes);
        break;
    default:
        atomic_change_each_64(op, type, to, from, old, len_bytes);
        break;
    }
}

void emx_rma_swap_word(void *to, const void *compare, const void *set, void *old, size_t len_bytes)
{
    switch (len_bytes) {
    case 1:
        atomic_swap_8(to, compare, set, old);
        break;
    case 2:
        atomic_swap_16(to, compare, set, old);
        break;
    case 4:
        atomic_swap_32(to, compare, set, old);
        break;
    default:
        atomic_swap_64(to, compare, set, old);
        break;
    }
}
