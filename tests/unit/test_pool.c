/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <string.h>

#include "base/pool.h"

static void gives_nothing_before_it_is_asked(void **state)
{
    struct unit_alloc u;
    struct emx_pool p;

    (void)state;
    unit_alloc_init(&u);
    emx_pool_init(&p, &u.alloc, 100, 8);
    assert_int_equal(u.calls, 0);
    assert_int_equal(p.memory_bytes, 0);
    emx_pool_fini(&p);
    assert_int_equal(u.live, 0);
}

static void objects_are_aligned_and_apart(void **state)
{
    static const size_t sizes[] = {0, 1, 8, 63, 64, 65, 200, 4096};

    (void)state;
    for (unsigned s = 0; s < ARRAY_LEN(sizes); s++) {
        struct emx_pool p;
        uint8_t *o[50];
        size_t bytes = sizes[s] ? sizes[s] : 1;

        emx_pool_init(&p, &emx_alloc_libc, sizes[s], 7);
        for (unsigned i = 0; i < 50; i++) {
            o[i] = emx_pool_get(&p);
            assert_non_null(o[i]);
            assert_int_equal((uintptr_t)o[i] % 64, 0);
            memset(o[i], (int)i, bytes);
        }
        assert_int_equal(p.in_use, 50);
        assert_true(p.memory_bytes >= 50 * bytes);
        for (unsigned i = 0; i < 50; i++)
            for (size_t j = 0; j < bytes; j++)
                assert_int_equal(o[i][j], i);
        emx_pool_fini(&p);
        assert_int_equal(p.memory_bytes, 0);
    }
}

static void the_last_one_back_is_the_next_one_out(void **state)
{
    struct emx_pool p;
    void *a, *b;

    (void)state;
    emx_pool_init(&p, &emx_alloc_libc, 64, 4);
    a = emx_pool_get(&p);
    b = emx_pool_get(&p);
    emx_pool_put(&p, b);
    emx_pool_put(&p, a);
    assert_int_equal(p.in_use, 0);
    assert_ptr_equal(emx_pool_get(&p), a);
    assert_ptr_equal(emx_pool_get(&p), b);
    emx_pool_fini(&p);
}

static void recycling_allocates_no_more(void **state)
{
    struct unit_alloc u;
    struct emx_pool p;

    (void)state;
    unit_alloc_init(&u);
    emx_pool_init(&p, &u.alloc, 64, 16);
    for (unsigned round = 0; round < 100; round++) {
        void *o[16];

        for (unsigned i = 0; i < 16; i++)
            o[i] = emx_pool_get(&p);
        for (unsigned i = 0; i < 16; i++)
            emx_pool_put(&p, o[i]);
    }
    assert_int_equal(u.calls, 1);
    emx_pool_fini(&p);
    assert_int_equal(u.live, 0);
}

static void out_of_memory_is_told_and_survived(void **state)
{
    struct unit_alloc u;
    struct emx_pool p;
    void *o[2];

    (void)state;
    unit_alloc_init(&u);
    u.fail_at = 2;
    emx_pool_init(&p, &u.alloc, 64, 2);
    o[0] = emx_pool_get(&p);
    o[1] = emx_pool_get(&p);
    assert_non_null(o[1]);
    assert_null(emx_pool_get(&p));
    assert_int_equal(emx_pool_grow(&p), -1);
    assert_int_equal(p.in_use, 2);
    emx_pool_put(&p, o[0]);
    assert_ptr_equal(emx_pool_get(&p), o[0]);
    u.fail_at = 0;
    assert_non_null(emx_pool_get(&p));
    emx_pool_fini(&p);
    assert_int_equal(u.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_nothing_before_it_is_asked),      cmocka_unit_test(objects_are_aligned_and_apart),
        cmocka_unit_test(the_last_one_back_is_the_next_one_out), cmocka_unit_test(recycling_allocates_no_more),
        cmocka_unit_test(out_of_memory_is_told_and_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
