/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_atomic: the same results as rma_apply, for all types of a word and all operations; and none is lost when two
 * threads change a word.
 */
#include "unit.h"

#include <pthread.h>
#include <string.h>

#include "core/rma/rma_apply.h"
#include "core/rma/rma_atomic.h"
#include "ethmx_rma.h"

static void words(void **state)
{
    _Alignas(16) uint8_t mem[32];

    (void)state;
    for (unsigned type = 0; type < ETHMX_RMA_TYPES; type++) {
        bool can = emx_rma_is_integer(type) || type == ETHMX_RMA_FLOAT || type == ETHMX_RMA_DOUBLE;

        for (unsigned at = 0; at < 16; at++)
            assert_int_equal(emx_rma_is_word(type, mem + at), can && at % emx_rma_type_bytes(type) == 0);
    }
    assert_false(emx_rma_is_word(ETHMX_RMA_TYPES, mem));
}

static void as_apply(void **state)
{
    _Alignas(8) uint8_t to[32], expected[32];
    uint8_t from[32], old[32], before[32];

    (void)state;
    for (unsigned type = 0; type < ETHMX_RMA_TYPES; type++)
        for (unsigned op = 0; op < ETHMX_RMA_OPS; op++) {
            size_t n = 3 * emx_rma_type_bytes(type);

            if (!emx_rma_is_word(type, to) || !emx_rma_fits(op, type))
                continue;
            for (size_t i = 0; i < sizeof(to); i++) {
                to[i] = expected[i] = before[i] = (uint8_t)(7 * i + type);
                from[i] = (uint8_t)(11 * i + op);
            }
            emx_rma_apply(op, type, expected, from, n);
            emx_rma_apply_words(op, type, to, op == ETHMX_RMA_NO_OP ? NULL : from, old, n);
            assert_memory_equal(to, expected, sizeof(to));
            assert_memory_equal(old, before, n);
            emx_rma_apply(op, type, expected, from, n);
            emx_rma_apply_words(op, type, to, from, NULL, n);
            assert_memory_equal(to, expected, sizeof(to));
        }
}

static void swaps(void **state)
{
    _Alignas(8) uint8_t to[8];
    uint8_t old[8];
    const uint8_t same[8] = {1, 2, 3, 4, 5, 6, 7, 8}, other[8] = {8, 7, 6, 5, 4, 3, 2, 1};

    (void)state;
    for (size_t n = 1; n <= 8; n *= 2) {
        memcpy(to, same, sizeof(to));
        emx_rma_swap_word(to, other, same, old, n);
        assert_memory_equal(to, same, 8);
        assert_memory_equal(old, same, n);
        emx_rma_swap_word(to, same, other, old, n);
        assert_memory_equal(to, other, n);
        assert_memory_equal(to + n, same + n, 8 - n);
        assert_memory_equal(old, same, n);
    }
}

#define TIMES 100000

struct shared {
    uint64_t sum;
    double real;
    uint8_t byte;
};

static void *change(void *arg)
{
    const uint64_t one = 1;
    const double half = 0.5;
    const uint8_t flip = 3;
    struct shared *m = arg;

    for (unsigned i = 0; i < TIMES; i++) {
        emx_rma_apply_words(ETHMX_RMA_SUM, ETHMX_RMA_UINT64, &m->sum, &one, NULL, sizeof(one));
        emx_rma_apply_words(ETHMX_RMA_SUM, ETHMX_RMA_DOUBLE, &m->real, &half, NULL, sizeof(half));
        emx_rma_apply_words(ETHMX_RMA_SUM, ETHMX_RMA_UINT8, &m->byte, &flip, NULL, sizeof(flip));
    }
    return NULL;
}

static void two_threads(void **state)
{
    struct shared m = {0, 0, 0};
    pthread_t t;

    (void)state;
    assert_int_equal(pthread_create(&t, NULL, change, &m), 0);
    change(&m);
    pthread_join(t, NULL);
    assert_int_equal(m.sum, 2 * TIMES);
    assert_true(m.real == TIMES);
    assert_int_equal(m.byte, (uint8_t)(2 * TIMES * 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(as_apply),
        cmocka_unit_test(swaps),
        cmocka_unit_test(two_threads),
    };

    return cmocka_run_group_tests_name("rma_atomic", tests, NULL, NULL);
}
