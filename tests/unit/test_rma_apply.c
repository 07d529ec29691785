/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_apply: every type has the operations of its class and no others, and each does what it says, at any address.
 */
#include "unit.h"

#include <limits.h>
#include <string.h>

#include "core/rma/rma_apply.h"
#include "ethmx_rma.h"

#define BIT(op) (1u << ETHMX_RMA_##op)

static void sizes_and_operations(void **state)
{
    const unsigned any = BIT(REPLACE) | BIT(NO_OP), number = any | BIT(SUM) | BIT(PROD),
                   real = number | BIT(MIN) | BIT(MAX), location = any | BIT(MINLOC) | BIT(MAXLOC),
                   integer = real | BIT(LAND) | BIT(LOR) | BIT(LXOR) | BIT(BAND) | BIT(BOR) | BIT(BXOR);
    struct short_int {
        short value;
        int index;
    };
    const struct {
        unsigned type;
        size_t bytes;
        unsigned ops;
    } rows[] = {{ETHMX_RMA_INT8, 1, integer},
                {ETHMX_RMA_UINT16, 2, integer},
                {ETHMX_RMA_INT32, 4, integer},
                {ETHMX_RMA_UINT64, 8, integer},
                {ETHMX_RMA_FLOAT, sizeof(float), real},
                {ETHMX_RMA_DOUBLE, sizeof(double), real},
                {ETHMX_RMA_LONG_DOUBLE, sizeof(long double), real},
                {ETHMX_RMA_COMPLEX_FLOAT, 2 * sizeof(float), number},
                {ETHMX_RMA_COMPLEX_LONG_DOUBLE, 2 * sizeof(long double), number},
                {ETHMX_RMA_SHORT_INT, sizeof(struct short_int), location},
                {ETHMX_RMA_INT_INT, 2 * sizeof(int), location}};

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(emx_rma_type_bytes(rows[i].type), rows[i].bytes);
        assert_int_equal(emx_rma_is_integer(rows[i].type), rows[i].ops == integer);
        for (unsigned op = 0; op < ETHMX_RMA_OPS + 20; op++)
            assert_int_equal(emx_rma_fits(op, rows[i].type), op < ETHMX_RMA_OPS && rows[i].ops >> op & 1);
    }
    for (unsigned type = 0; type < ETHMX_RMA_TYPES; type++)
        assert_true(emx_rma_type_bytes(type) && emx_rma_fits(ETHMX_RMA_REPLACE, type));
    assert_int_equal(emx_rma_type_bytes(ETHMX_RMA_TYPES), 0);
    assert_false(emx_rma_is_integer(ETHMX_RMA_TYPES));
    assert_false(emx_rma_fits(ETHMX_RMA_REPLACE, ETHMX_RMA_TYPES));
}

/* Applies op to copies of a and b at odd addresses; the result is in *a. */
static void apply(unsigned op, unsigned type, void *a, const void *b)
{
    size_t bytes = emx_rma_type_bytes(type);
    uint8_t to[1 + 32], from[1 + 32];

    memcpy(to + 1, a, bytes);
    memcpy(from + 1, b, bytes);
    emx_rma_apply(op, type, to + 1, from + 1, bytes);
    memcpy(a, to + 1, bytes);
}

#define GIVES(C, type, op, a, b, result)                                                                               \
    do {                                                                                                               \
        C a_ = (a), b_ = (b);                                                                                          \
                                                                                                                       \
        apply(ETHMX_RMA_##op, ETHMX_RMA_##type, &a_, &b_);                                                             \
        assert_true(a_ == (C)(result));                                                                                \
    } while (0)

static void integers(void **state)
{
    (void)state;
    GIVES(int8_t, INT8, SUM, 100, 100, -56);
    GIVES(uint8_t, UINT8, SUM, 200, 100, 44);
    GIVES(uint16_t, UINT16, PROD, 65535, 65535, 1);
    GIVES(int64_t, INT64, SUM, INT64_MAX, 1, INT64_MIN);
    GIVES(int64_t, INT64, PROD, INT64_MIN, -1, INT64_MIN);
    GIVES(int32_t, INT32, MIN, -1, 1, -1);
    GIVES(uint32_t, UINT32, MIN, UINT32_MAX, 1, 1);
    GIVES(int32_t, INT32, MAX, -1, 1, 1);
    GIVES(uint64_t, UINT64, MAX, UINT64_MAX, 1, UINT64_MAX);
    GIVES(int32_t, INT32, LAND, 4, 2, 1);
    GIVES(int32_t, INT32, LAND, 4, 0, 0);
    GIVES(int32_t, INT32, LOR, 0, 8, 1);
    GIVES(int16_t, INT16, LXOR, 3, 5, 0);
    GIVES(int16_t, INT16, LXOR, 3, 0, 1);
    GIVES(uint8_t, UINT8, BAND, 0xf0, 0x3c, 0x30);
    GIVES(uint8_t, UINT8, BOR, 0xf0, 0x0c, 0xfc);
    GIVES(uint8_t, UINT8, BXOR, 0xff, 0x0f, 0xf0);
    GIVES(uint64_t, UINT64, REPLACE, 1, 2, 2);
    GIVES(uint64_t, UINT64, NO_OP, 1, 2, 1);
}

static void reals(void **state)
{
    float c[2] = {1, 2}, d[2] = {3, -1};

    (void)state;
    GIVES(float, FLOAT, SUM, 1.5f, 2, 3.5f);
    GIVES(double, DOUBLE, PROD, 1.5, -2, -3);
    GIVES(long double, LONG_DOUBLE, MIN, 1.5L, -2, -2);
    GIVES(double, DOUBLE, MAX, 1.5, -2, 1.5);
    apply(ETHMX_RMA_PROD, ETHMX_RMA_COMPLEX_FLOAT, c, d);
    assert_true(c[0] == 5 && c[1] == 5);
    apply(ETHMX_RMA_SUM, ETHMX_RMA_COMPLEX_FLOAT, c, d);
    assert_true(c[0] == 8 && c[1] == 4);
}

static void locations(void **state)
{
    struct double_int {
        double value;
        int index;
    } a = {2, 5}, less = {1, 9}, equal = {1, 3}, later = {1, 4};

    (void)state;
    apply(ETHMX_RMA_MINLOC, ETHMX_RMA_DOUBLE_INT, &a, &less);
    assert_true(a.value == 1 && a.index == 9);
    apply(ETHMX_RMA_MINLOC, ETHMX_RMA_DOUBLE_INT, &a, &equal);
    assert_true(a.value == 1 && a.index == 3);
    apply(ETHMX_RMA_MAXLOC, ETHMX_RMA_DOUBLE_INT, &a, &later);
    assert_true(a.value == 1 && a.index == 3);
    a.value = 7;
    apply(ETHMX_RMA_MINLOC, ETHMX_RMA_DOUBLE_INT, &later, &a);
    assert_true(later.value == 1 && later.index == 4);
    apply(ETHMX_RMA_MAXLOC, ETHMX_RMA_DOUBLE_INT, &later, &a);
    assert_true(later.value == 7 && later.index == 3);
}

static void several_elements(void **state)
{
    int32_t a[5] = {1, 2, 3, 4, 5}, b[5] = {10, 20, 30, 40, 50};

    (void)state;
    emx_rma_apply(ETHMX_RMA_SUM, ETHMX_RMA_INT32, a, b, 4 * sizeof(*a));
    assert_true(a[0] == 11 && a[3] == 44 && a[4] == 5);
    emx_rma_apply(ETHMX_RMA_NO_OP, ETHMX_RMA_INT32, a, NULL, sizeof(a));
    assert_int_equal(a[0], 11);
}

/* Of each type: the second and third element change as if they were alone, the one behind does not. */
static void elements_of_each_type(void **state)
{
    uint8_t a[4 * 32], b[4 * 32], alone[4 * 32];

    (void)state;
    for (unsigned type = 0; type < ETHMX_RMA_TYPES; type++)
        for (unsigned op = ETHMX_RMA_SUM; op < ETHMX_RMA_OPS; op++) {
            size_t bytes = emx_rma_type_bytes(type);

            if (!emx_rma_fits(op, type))
                continue;
            for (size_t i = 0; i < 4 * bytes; i++) {
                a[i] = alone[i] = (uint8_t)(i % bytes % 10 < 8 ? 7 * i + type : 0x40);
                b[i] = (uint8_t)(i % bytes % 10 < 8 ? 11 * i + op : 0x40);
            }
            for (size_t i = 0; i < 3; i++)
                emx_rma_apply(op, type, alone + i * bytes, b + i * bytes, bytes);
            emx_rma_apply(op, type, a, b, 3 * bytes);
            assert_memory_equal(a, alone, 4 * bytes);
        }
}

static void swaps(void **state)
{
    uint64_t a = 1, one = 1, two = 2;

    (void)state;
    emx_rma_swap(&a, &one, &two, sizeof(a));
    assert_int_equal(a, 2);
    emx_rma_swap(&a, &one, &one, sizeof(a));
    assert_int_equal(a, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_operations),
        cmocka_unit_test(integers),
        cmocka_unit_test(reals),
        cmocka_unit_test(locations),
        cmocka_unit_test(several_elements),
        cmocka_unit_test(elements_of_each_type),
        cmocka_unit_test(swaps),
    };

    return cmocka_run_group_tests_name("rma_apply", tests, NULL, NULL);
}
