/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

/* A seed that failed on one machine must fail on every other. */
static void the_generator_is_equal_on_all_machines(void **state)
{
    static const uint64_t want[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                    4593380528125082431u, 16408922859458223821u};
    struct emx_rng rng = {1234567};

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(want); i++)
        assert_true(emx_rng_next(&rng) == want[i]);
}

static void chances_are_what_they_say(void **state)
{
    struct emx_rng rng = {1};
    unsigned hits = 0;

    (void)state;
    for (unsigned i = 0; i < 100000; i++) {
        assert_false(emx_rng_chance(&rng, 0));
        assert_true(emx_rng_chance(&rng, 1000000));
        assert_true(emx_rng_below(&rng, 7) < 7);
        hits += (unsigned)emx_rng_chance(&rng, 100000);
    }
    assert_in_range(hits, 9500, 10500);
}

/* Neighbouring tags must not crowd in neighbouring or equal buckets. */
static void mixing_spreads_each_bit(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        unsigned changed = 0;

        for (uint64_t x = 0; x < 1000; x++)
            changed += (unsigned)__builtin_popcountll(emx_mix64(x) ^ emx_mix64(x ^ 1ull << bit));
        assert_in_range(changed, 30000, 34000); /* half of 64, times 1000 */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_generator_is_equal_on_all_machines),
        cmocka_unit_test(chances_are_what_they_say),
        cmocka_unit_test(mixing_spreads_each_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
