/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Arithmetic of one-sided operations. The rows of the table are the types. Each has a class, which determines its
 * operations. Elements are loaded and stored by memcpy, because frames and regions align nothing.
 */
#include "core/rma/rma_apply.h"

#include <stdint.h>
#include <string.h>

#include "ethmx_rma.h"

#define BIT(op)  (1u << ETHMX_RMA_##op)
#define ANY      (BIT(REPLACE) | BIT(NO_OP))
#define NUMBER   (ANY | BIT(SUM) | BIT(PROD))
#define REAL     (NUMBER | BIT(MIN) | BIT(MAX))
#define INTEGER  (REAL | BIT(LAND) | BIT(LOR) | BIT(LXOR) | BIT(BAND) | BIT(BOR) | BIT(BXOR))
#define LOCATION (ANY | BIT(MINLOC) | BIT(MAXLOC))

/* X(type, C type of a number) */
#define INTEGERS(X)                                                                                                    \
    X(INT8, int8_t)                                                                                                    \
    X(UINT8, uint8_t)                                                                                                  \
    X(INT16, int16_t)                                                                                                  \
    X(UINT16, uint16_t)                                                                                                \
    X(INT32, int32_t)                                                                                                  \
    X(UINT32, uint32_t)                                                                                                \
    X(INT64, int64_t)                                                                                                  \
    X(UINT64, uint64_t)
#define REALS(X)                                                                                                       \
    X(FLOAT, float)                                                                                                    \
    X(DOUBLE, double)                                                                                                  \
    X(LONG_DOUBLE, long double)
#define COMPLEXES(X)                                                                                                   \
    X(COMPLEX_FLOAT, float)                                                                                            \
    X(COMPLEX_DOUBLE, double)                                                                                          \
    X(COMPLEX_LONG_DOUBLE, long double)
#define LOCATIONS(X)                                                                                                   \
    X(SHORT_INT, short)                                                                                                \
    X(INT_INT, int)                                                                                                    \
    X(LONG_INT, long)                                                                                                  \
    X(FLOAT_INT, float)                                                                                                \
    X(DOUBLE_INT, double)                                                                                              \
    X(LONG_DOUBLE_INT, long double)

/* Changes n elements. The operation is chosen once, as there may be a thousand elements of a byte. */
#define EACH(C, result)                                                                                                \
    for (size_t i = 0; i < n; i++) {                                                                                   \
        C a, b;                                                                                                        \
                                                                                                                       \
        memcpy(&a, to + i * sizeof(C), sizeof(C));                                                                     \
        memcpy(&b, from + i * sizeof(C), sizeof(C));                                                                   \
        a = (C)(result);                                                                                               \
        memcpy(to + i * sizeof(C), &a, sizeof(C));                                                                     \
    }

/* Sums and products wrap around: the arithmetic is that of uint64_t. */
#define INTEGER_OF(type, C)                                                                                            \
    static void apply_##type(unsigned op, char *to, const char *from, size_t n)                                        \
    {                                                                                                                  \
        switch (op) {                                                                                                  \
        case ETHMX_RMA_SUM:                                                                                            \
            EACH(C, (uint64_t)a + (uint64_t)b);                                                                        \
            break;                                                                                                     \
        case ETHMX_RMA_PROD:                                                                                           \
            EACH(C, (uint64_t)a *(uint64_t)b);                                                                         \
            break;                                                                                                     \
        case ETHMX_RMA_MIN:                                                                                            \
            EACH(C, b < a ? b : a);                                                                                    \
            break;                                                                                                     \
        case ETHMX_RMA_MAX:                                                                                            \
            EACH(C, b > a ? b : a);                                                                                    \
            break;                                                                                                     \
        case ETHMX_RMA_LAND:                                                                                           \
            EACH(C, a &&b);                                                                                            \
            break;                                                                                                     \
        case ETHMX_RMA_LOR:                                                                                            \
            EACH(C, a || b);                                                                                           \
            break;                                                                                                     \
        case ETHMX_RMA_LXOR:                                                                                           \
            EACH(C, !a != !b);                                                                                         \
            break;                                                                                                     \
        case ETHMX_RMA_BAND:                                                                                           \
            EACH(C, a &b);                                                                                             \
            break;                                                                                                     \
        case ETHMX_RMA_BOR:                                                                                            \
            EACH(C, a | b);                                                                                            \
            break;                                                                                                     \
        default:                                                                                                       \
            EACH(C, a ^ b);                                                                                            \
            break;                                                                                                     \
        }                                                                                                              \
    }
INTEGERS(INTEGER_OF)

#define REAL_OF(type, C)                                                                                               \
    static void apply_##type(unsigned op, char *to, const char *from, size_t n)                                        \
    {                                                                                                                  \
        switch (op) {                                                                                                  \
        case ETHMX_RMA_SUM:                                                                                            \
            EACH(C, a + b);                                                                                            \
            break;                                                                                                     \
        case ETHMX_RMA_PROD:                                                                                           \
            EACH(C, a *b);                                                                                             \
            break;                                                                                                     \
        case ETHMX_RMA_MIN:                                                                                            \
            EACH(C, b < a ? b : a);                                                                                    \
            break;                                                                                                     \
        default:                                                                                                       \
            EACH(C, b > a ? b : a);                                                                                    \
            break;                                                                                                     \
        }                                                                                                              \
    }
REALS(REAL_OF)

/* Written out: the compiler's own product of complex numbers calls a function. */
#define COMPLEX_OF(type, C)                                                                                            \
    static void apply_##type(unsigned op, char *to, const char *from, size_t n)                                        \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++, to += 2 * sizeof(C), from += 2 * sizeof(C)) {                                   \
            C a[2], b[2], c[2];                                                                                        \
                                                                                                                       \
            memcpy(a, to, sizeof(a));                                                                                  \
            memcpy(b, from, sizeof(b));                                                                                \
            memcpy(c, to, sizeof(c));                                                                                  \
            if (op == ETHMX_RMA_SUM) {                                                                                 \
                c[0] = a[0] + b[0];                                                                                    \
                c[1] = a[1] + b[1];                                                                                    \
            } else {                                                                                                   \
                c[0] = a[0] * b[0] - a[1] * b[1];                                                                      \
                c[1] = a[0] * b[1] + a[1] * b[0];                                                                      \
            }                                                                                                          \
            memcpy(to, c, sizeof(c));                                                                                  \
        }                                                                                                              \
    }
COMPLEXES(COMPLEX_OF)

#define LOCATION_OF(type, C)                                                                                           \
    struct located_##type {                                                                                            \
        C value;                                                                                                       \
        int index;                                                                                                     \
    };                                                                                                                 \
    static void apply_##type(unsigned op, char *to, const char *from, size_t n)                                        \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++, to += sizeof(struct located_##type), from += sizeof(struct located_##type)) {   \
            struct located_##type a, b;                                                                                \
                                                                                                                       \
            memcpy(&a, to, sizeof(a));                                                                                 \
            memcpy(&b, from, sizeof(b));                                                                               \
            if (op == ETHMX_RMA_MINLOC ? b.value < a.value : b.value > a.value)                                        \
                memcpy(to, &b, sizeof(b));                                                                             \
            else if (b.value == a.value && b.index < a.index)                                                          \
                memcpy(to, &b, sizeof(b));                                                                             \
        }                                                                                                              \
    }
LOCATIONS(LOCATION_OF)

struct apply_row {
    uint8_t bytes;
    uint16_t ops; /* mask */
    void (*fn)(unsigned op, char *to, const char *from, size_t n);
};

#define INTEGER_ROW(type, C)  [ETHMX_RMA_##type] = {sizeof(C), INTEGER, apply_##type},
#define REAL_ROW(type, C)     [ETHMX_RMA_##type] = {sizeof(C), REAL, apply_##type},
#define COMPLEX_ROW(type, C)  [ETHMX_RMA_##type] = {2 * sizeof(C), NUMBER, apply_##type},
#define LOCATION_ROW(type, C) [ETHMX_RMA_##type] = {sizeof(struct located_##type), LOCATION, apply_##type},

static const struct apply_row apply_rows[ETHMX_RMA_TYPES] = {INTEGERS(INTEGER_ROW) REALS(REAL_ROW)
                                                                 COMPLEXES(COMPLEX_ROW) LOCATIONS(LOCATION_ROW)};

size_t emx_rma_type_bytes(unsigned type)
{
    return type < ETHMX_RMA_TYPES ? apply_rows[type].bytes : 0;
}

bool emx_rma_is_integer(unsigned type)
{
    return type < ETHMX_RMA_TYPES && apply_rows[type].ops == INTEGER;
}

bool emx_rma_fits(unsigned op, unsigned type)
{
    return type < ETHMX_RMA_TYPES && op < ETHMX_RMA_OPS && apply_rows[type].ops >> op & 1;
}

void emx_rma_apply(unsigned op, unsigned type, void *to, const void *from, size_t len_bytes)
{
    const struct apply_row *row = &apply_rows[type];

    if (op == ETHMX_RMA_NO_OP)
        return;
    if (op == ETHMX_RMA_REPLACE) {
        memmove(to, from, len_bytes); /* in one process they may overlap */
        return;
    }
    row->fn(op, to, from, len_bytes / row->bytes);
}

void emx_rma_swap(void *to, const void *compare, const void *set, size_t len_bytes)
{
    if (!memcmp(to, compare, len_bytes))
        memcpy(to, set, len_bytes);
}
