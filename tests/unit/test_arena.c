/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <string.h>

#include "base/arena.h"

static void objects_are_apart_and_aligned(void **state)
{
    enum { OBJECTS = 2000 };
    static uint8_t *o[OBJECTS];
    static size_t bytes[OBJECTS];
    struct emx_rng rng = {1};
    struct unit_alloc u;
    struct emx_arena a;

    (void)state;
    unit_alloc_init(&u);
    emx_arena_init(&a, &u.alloc);
    assert_int_equal(u.calls, 0);
    for (unsigned i = 0; i < OBJECTS; i++) {
        bytes[i] = 1 + (size_t)emx_rng_below(&rng, i % 100 ? 200 : 20000);
        o[i] = emx_arena_get(&a, bytes[i]);
        assert_non_null(o[i]);
        assert_int_equal((uintptr_t)o[i] % 8, 0);
        memset(o[i], (int)i, bytes[i]);
    }
    for (unsigned i = 0; i < OBJECTS; i++)
        for (size_t k = 0; k < bytes[i]; k++)
            assert_int_equal(o[i][k], (uint8_t)i);
    emx_arena_fini(&a);
    assert_int_equal(u.live, 0);
}

static void memory_may_be_short(void **state)
{
    struct unit_alloc u;
    struct emx_arena a;

    (void)state;
    unit_alloc_init(&u);
    emx_arena_init(&a, &u.alloc);
    assert_non_null(emx_arena_get(&a, 8));
    u.fail_at = u.calls + 1;
    assert_null(emx_arena_get(&a, 100000));
    assert_non_null(emx_arena_get(&a, 8)); /* there was room */
    u.fail_at = 0;
    assert_non_null(emx_arena_get(&a, 100000));
    emx_arena_fini(&a);
    assert_int_equal(u.live, 0);
}

/* The same objects again and again need no more memory; the very long are lost until the end. */
static void what_is_given_back_is_taken_again(void **state)
{
    enum { OBJECTS = 100 };
    void *o[OBJECTS], *longest;
    struct unit_alloc u;
    struct emx_arena a;
    unsigned calls = 0;

    (void)state;
    unit_alloc_init(&u);
    emx_arena_init(&a, &u.alloc);
    for (unsigned round = 0; round < 10; round++) {
        if (round == 1)
            calls = u.calls;
        for (unsigned i = 0; i < OBJECTS; i++) {
            assert_non_null(o[i] = emx_arena_get(&a, 1 + i * 2));
            memset(o[i], 255, 1 + i * 2);
        }
        for (unsigned i = 0; i < OBJECTS; i++)
            emx_arena_put(&a, o[i], 1 + i * 2);
    }
    assert_int_equal(u.calls, calls);
    longest = emx_arena_get(&a, 8 * EMX_ARENA_LENGTHS + 1);
    emx_arena_put(&a, longest, 8 * EMX_ARENA_LENGTHS + 1);
    assert_ptr_not_equal(emx_arena_get(&a, 8 * EMX_ARENA_LENGTHS + 1), longest);
    emx_arena_fini(&a);
    assert_int_equal(u.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_apart_and_aligned),
        cmocka_unit_test(memory_may_be_short),
        cmocka_unit_test(what_is_given_back_is_taken_again),
    };

    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
