/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spans against a model that knows each address.
 */
#include "unit.h"

#include <string.h>

#include "mem/spans.h"

#define ADDRESSES 200
#define STEPS     2000

/* Spans neither overlap nor touch, and hold what the model holds. */
static bool agrees(const struct emx_spans *s, const bool *model)
{
    for (unsigned i = 0; i < s->count; i++) {
        CHECK(s->span[i].base < s->span[i].end);
        CHECK(!i || s->span[i - 1].end < s->span[i].base);
    }
    for (uintptr_t a = 0; a < ADDRESSES; a++) {
        const struct emx_span *found = emx_spans_find(s, a);

        CHECK(!found == !model[a]);
        CHECK(!found || (found->base <= a && a < found->end));
    }
    return true;
}

static bool one_seed(uint64_t seed)
{
    static struct emx_spans s;
    struct emx_rng rng = {seed};
    bool model[ADDRESSES] = {false};

    s.count = 0;
    for (unsigned i = 0; i < STEPS; i++) {
        uintptr_t base = emx_rng_below(&rng, ADDRESSES), end = base + 1 + emx_rng_below(&rng, 20);
        bool in = emx_rng_below(&rng, 2);

        end = end < ADDRESSES ? end : ADDRESSES;
        if (in)
            CHECK(emx_spans_add(&s, base, end));
        else
            CHECK(emx_spans_remove(&s, base, end));
        memset(model + base, in, end - base);
        CHECK(agrees(&s, model));
    }
    return true;
}

static void test_model(void **state)
{
    (void)state;
    each_seed(20, one_seed);
}

/* A full table refuses and stays as it is; what makes it smaller is possible. */
static void test_full(void **state)
{
    static struct emx_spans s;

    (void)state;
    for (uintptr_t i = 0; i < EMX_SPANS; i++)
        assert_true(emx_spans_add(&s, i * 10, i * 10 + 8));
    assert_false(emx_spans_add(&s, EMX_SPANS * 10, EMX_SPANS * 10 + 1));
    assert_false(emx_spans_remove(&s, 2, 3));
    assert_int_equal(s.count, EMX_SPANS);
    assert_non_null(emx_spans_find(&s, 2));
    assert_true(emx_spans_add(&s, 8, 10));
    assert_int_equal(s.count, EMX_SPANS - 1);
    assert_true(emx_spans_remove(&s, 0, UINTPTR_MAX));
    assert_int_equal(s.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_model), cmocka_unit_test(test_full)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
