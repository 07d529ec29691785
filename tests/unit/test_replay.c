/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replay: against a set of all numbers that were taken.
 */
#include "unit.h"

#include <string.h>

#include "core/rel/replay.h"

#define W EMX_REPLAY_WINDOW

static void by_table(void **state)
{
    static const struct {
        uint64_t number;
        bool taken;
    } step[] = {
        {0, false},
        {1, true},
        {1, false},
        {3, true},
        {2, true},
        {2, false},
        {W, true},
        {4, true},
        {W + 3, true},
        {3, false},
        {5, true},
        {W + 4, true},
        {4, false},
        {6, true},
        {100 * W, true},
        {W + 5, false},
        {99 * W, false},
        {99 * W + 1, true},
        {99 * W + 1, false},
        {100 * W, false},
        {100 * W - 1, true},
        {UINT64_MAX, true},
        {UINT64_MAX, false},
        {100 * W + 1, false},
        {UINT64_MAX - 1, true},
        {UINT64_MAX - W, false},
        {UINT64_MAX - W + 1, true},
    };
    struct emx_replay r = {0};

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(step); i++)
        if (emx_replay_take(&r, step[i].number) != step[i].taken)
            fail_msg("step %u", i);
}

/* Numbers about the highest so far, with leaps: near, far, beyond the window. */
static bool at_random(uint64_t seed)
{
    enum { MOST = 60000 };
    static bool taken[MOST];
    struct emx_rng rng = {seed};
    struct emx_replay r = {0};
    uint64_t last = 0, leap = 1 + emx_rng_below(&rng, 3 * W);

    memset(taken, 0, sizeof(taken));
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t back = emx_rng_below(&rng, emx_rng_below(&rng, 4) ? 100 : W + 100);
        uint64_t number = last + (emx_rng_below(&rng, 1000) ? 2 : emx_rng_below(&rng, leap));
        bool want;

        if (emx_rng_below(&rng, 2))
            number = number > back ? number - back : 1;
        if (number >= MOST)
            break;
        want = number && !taken[number] && (number > last || last - number < W);
        CHECK(emx_replay_take(&r, number) == want);
        taken[number] |= want;
        if (number > last)
            last = number;
    }
    return last > 1000;
}

static void against_a_model(void **state)
{
    (void)state;
    each_seed(200, at_random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_table), cmocka_unit_test(against_a_model)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
