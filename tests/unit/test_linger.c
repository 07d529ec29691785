/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "endpoint/linger.h"

#define MS 1000000ull

/* Rests of so long, until the time is over. */
static unsigned rounds(emx_time linger_ns, emx_time rest_ns)
{
    emx_time now = 5 * MS, most_ns;
    struct emx_linger l = emx_linger_start(linger_ns, now);
    unsigned n = 0;

    for (; (most_ns = emx_linger_round(&l, now)); n++) {
        assert_true(most_ns <= 100 * MS);
        now += rest_ns ? rest_ns : most_ns;
    }
    return n;
}

static void takes_its_time_in_rounds(void **state)
{
    (void)state;
    assert_int_equal(rounds(2000 * MS, 0), 20);
    assert_int_equal(rounds(250 * MS, 0), 3);
    assert_int_equal(rounds(2000 * MS, 10 * MS), 200);
    assert_int_equal(rounds(0, 0), 0);
}

/* A host suspended for an hour, a rank without a core for seconds. */
static void time_in_which_nobody_looked_does_not_count(void **state)
{
    (void)state;
    assert_int_equal(rounds(2000 * MS, 3600 * 1000 * MS), 20);
    assert_int_equal(rounds(2000 * MS, 3000 * MS), 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_its_time_in_rounds),
        cmocka_unit_test(time_in_which_nobody_looked_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
