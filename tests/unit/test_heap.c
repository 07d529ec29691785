/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "base/heap.h"

#define TIMERS 200

static bool is_heap(const struct emx_heap *h)
{
    for (unsigned i = 0; i < h->count; i++) {
        CHECK(h->slot[i]->slot == i + 1);
        CHECK(i == 0 || h->slot[(i - 1) / 2]->at_ns <= h->slot[i]->at_ns);
    }
    return true;
}

static bool earliest_is(const struct emx_heap *h, const struct emx_timer *t, unsigned count)
{
    const struct emx_timer *first = emx_heap_first(h);
    unsigned set = 0;

    for (unsigned i = 0; i < count; i++) {
        if (!emx_timer_is_set(&t[i]))
            continue;
        set++;
        CHECK(first && first->at_ns <= t[i].at_ns);
    }
    CHECK(set == h->count);
    CHECK(set > 0 || !first);
    return true;
}

static bool random_run(uint64_t seed)
{
    struct emx_rng rng = {seed};
    struct emx_timer t[TIMERS] = {{0}};
    struct emx_heap h;
    uint64_t span = 1 + emx_rng_below(&rng, 1000); /* a short one makes ties */
    uint64_t last = 0;

    emx_heap_init(&h, &emx_alloc_libc);
    CHECK(!emx_heap_reserve(&h, TIMERS));
    for (unsigned step = 0; step < 1000; step++) {
        struct emx_timer *any = &t[emx_rng_below(&rng, TIMERS)];

        if (emx_rng_chance(&rng, 600000))
            emx_heap_set(&h, any, emx_rng_below(&rng, span));
        else
            emx_heap_clear(&h, any);
        CHECK(is_heap(&h));
        CHECK(earliest_is(&h, t, TIMERS));
    }
    while (emx_heap_first(&h)) {
        struct emx_timer *first = emx_heap_first(&h);

        CHECK(first->at_ns >= last);
        last = first->at_ns;
        emx_heap_clear(&h, first);
        CHECK(!emx_timer_is_set(first));
    }
    emx_heap_fini(&h);
    return true;
}

static void keeps_order_under_random_use(void **state)
{
    (void)state;
    each_seed(100, random_run);
}

static void ties_fire_alike_in_each_run(void **state)
{
    unsigned order[2][TIMERS];

    (void)state;
    for (unsigned run = 0; run < 2; run++) {
        struct emx_timer t[TIMERS] = {{0}};
        struct emx_heap h;

        emx_heap_init(&h, &emx_alloc_libc);
        assert_int_equal(emx_heap_reserve(&h, TIMERS), 0);
        for (unsigned i = 0; i < TIMERS; i++)
            emx_heap_set(&h, &t[i], i % 3);
        for (unsigned i = 0; i < TIMERS; i++) {
            order[run][i] = (unsigned)(emx_heap_first(&h) - t);
            emx_heap_clear(&h, emx_heap_first(&h));
        }
        emx_heap_fini(&h);
    }
    assert_memory_equal(order[0], order[1], sizeof(order[0]));
}

static void clearing_what_is_not_set_does_nothing(void **state)
{
    struct emx_timer t = {0};
    struct emx_heap h;

    (void)state;
    emx_heap_init(&h, &emx_alloc_libc);
    emx_heap_clear(&h, &t);
    assert_null(emx_heap_first(&h));
    emx_heap_fini(&h);
}

static void a_timer_is_only_brought_forward(void **state)
{
    struct emx_timer t = {0};
    struct emx_heap h;

    (void)state;
    emx_heap_init(&h, &emx_alloc_libc);
    assert_int_equal(emx_heap_reserve(&h, 1), 0);
    emx_heap_bring_forward(&h, &t, 20);
    assert_int_equal(emx_heap_first(&h)->at_ns, 20);
    emx_heap_bring_forward(&h, &t, 30);
    assert_int_equal(emx_heap_first(&h)->at_ns, 20);
    emx_heap_bring_forward(&h, &t, 10);
    assert_int_equal(emx_heap_first(&h)->at_ns, 10);
    emx_heap_fini(&h);
}

static void a_failed_reserve_leaves_the_heap_as_it_was(void **state)
{
    struct unit_alloc u;
    struct emx_timer t[16] = {{0}};
    struct emx_heap h;

    (void)state;
    unit_alloc_init(&u);
    emx_heap_init(&h, &u.alloc);
    assert_int_equal(emx_heap_reserve(&h, 16), 0);
    for (unsigned i = 0; i < 16; i++)
        emx_heap_set(&h, &t[i], 100 - i);
    u.fail_at = u.calls + 1;
    assert_int_equal(emx_heap_reserve(&h, 1000), -1);
    assert_ptr_equal(emx_heap_first(&h), &t[15]);
    u.fail_at = 0;
    assert_int_equal(emx_heap_reserve(&h, 1000), 0);
    assert_ptr_equal(emx_heap_first(&h), &t[15]);
    assert_true(is_heap(&h));
    emx_heap_fini(&h);
    assert_int_equal(u.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order_under_random_use),
        cmocka_unit_test(ties_fire_alike_in_each_run),
        cmocka_unit_test(clearing_what_is_not_set_does_nothing),
        cmocka_unit_test(a_timer_is_only_brought_forward),
        cmocka_unit_test(a_failed_reserve_leaves_the_heap_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
