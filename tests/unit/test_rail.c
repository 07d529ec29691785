/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <string.h>

#include "core/msg/pull_rail.h"
#include "core/rel/rail.h"

#define BLOCK 65536u

static struct emx_config cfg;
static struct emx_stats stats;
static struct emx_engine e;
static struct emx_session s;
static struct emx_rails t;

/* Two rails, over which a byte takes 8 ns: 1 Gbit/s each. */
static int prepare(void **state)
{
    (void)state;
    emx_config_defaults(&cfg);
    memset(&stats, 0, sizeof(stats));
    memset(&e, 0, sizeof(e));
    memset(&s, 0, sizeof(s));
    memset(&t, 0, sizeof(t));
    e.cfg = &cfg;
    e.stats = &stats;
    emx_pace_init(&e.pace, 4 * BLOCK);
    s.e = &e;
    s.rails = &t;
    t.s = &s;
    t.count = 2;
    for (unsigned i = 0; i < 2; i++) {
        t.rail[i].rails = &t;
        t.rail[i].usable = true;
        t.rail[i].byte_ps = 8000;
        emx_rtt_init(&t.rail[i].block_rtt, &cfg);
        emx_pace_init(&t.rail[i].pace, 4 * BLOCK);
        t.rail[i].pace.limit_bytes = 4 * BLOCK;
    }
    emx_rtt_init(&s.pulling.block_rtt, &cfg);
    return 0;
}

static void chooses_up_to_the_pace(void **state)
{
    (void)state;
    e.pulling_bytes = 4 * BLOCK;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(emx_pull_choose(&s, BLOCK, 100 * BLOCK), 1);
        emx_pull_asked(&s, 1, BLOCK);
    }
    assert_int_equal(emx_pull_choose(&s, BLOCK, 100 * BLOCK), 0);
    assert_int_equal(e.rail_bytes, 4 * BLOCK);
    emx_pull_asked(&s, 1, -(int64_t)BLOCK);
    assert_int_equal(emx_pull_choose(&s, BLOCK, 100 * BLOCK), 1);
    assert_int_equal(e.pulling_bytes, 4 * BLOCK);
}

/* What is left of the message arrives over rail 0 before a block over the slow one. */
static void slow_rail_does_not_hold_up(void **state)
{
    (void)state;
    t.rail[1].byte_ps = 80000;
    e.pulling_bytes = 4 * BLOCK;
    assert_int_equal(emx_pull_choose(&s, BLOCK, 7 * BLOCK), 1);
    assert_int_equal(emx_pull_choose(&s, BLOCK, 5 * BLOCK), 0);
    e.pulling_bytes = 0;
    assert_int_equal(emx_pull_choose(&s, BLOCK, 9 * BLOCK), 0);
}

static void unknown_rail_gets_one_block(void **state)
{
    (void)state;
    t.rail[1].byte_ps = 0;
    assert_int_equal(emx_pull_choose(&s, BLOCK, BLOCK), 1);
    emx_pull_asked(&s, 1, BLOCK);
    assert_int_equal(emx_pull_choose(&s, BLOCK, 100 * BLOCK), 0);
    t.rail[1].usable = false;
    emx_pull_asked(&s, 1, -(int64_t)BLOCK);
    assert_int_equal(emx_pull_choose(&s, BLOCK, 100 * BLOCK), 0);
}

static void silent_rail_is_set_aside(void **state)
{
    (void)state;
    for (unsigned i = 0; i + 1 < EMX_RAIL_FAILURES; i++) {
        emx_rail_failed(&t.rail[1], 1000);
        assert_true(t.rail[1].usable);
        assert_int_equal(emx_pull_choose_again(&s, 1, false), 0);
    }
    emx_rail_heard(&t.rail[1], 2000);
    assert_int_equal(emx_pull_choose_again(&s, 1, false), 1);
    assert_int_equal(emx_pull_choose_again(&s, 1, true), 0);
    for (unsigned i = 0; i < EMX_RAIL_FAILURES; i++)
        emx_rail_failed(&t.rail[1], 3000);
    assert_false(t.rail[1].usable);
    assert_true(t.rail[1].try_ns > 3000);
    assert_int_equal(stats.rails_failed, 1);
    assert_int_equal(emx_pull_choose_again(&s, 0, true), 0);
}

/* Rail 0 stays, because there must be one, but gets nothing new while it fails and another does not. */
static void first_rail_fails(void **state)
{
    (void)state;
    for (unsigned i = 0; i < EMX_RAIL_FAILURES; i++)
        emx_rail_failed(&t.rail[0], 1000);
    assert_true(t.rail[0].usable);
    assert_false(emx_pull_first_rail_works(&s));
    assert_int_equal(emx_pull_choose_again(&s, 0, false), 1);
    assert_int_equal(emx_pull_choose(&s, BLOCK, BLOCK), 1);
}

static void measures(void **state)
{
    const struct emx_block b = {.rail = 1, .ahead_bytes = 2 * BLOCK};

    (void)state;
    t.rail[1].byte_ps = 0;
    emx_pull_measured(&s, &b, 2 * BLOCK * 4);
    assert_int_equal(t.rail[1].byte_ps, 4000);
    assert_int_equal(t.rail[1].block_rtt.network_ns, 2 * BLOCK * 4);
    assert_int_equal(s.pulling.block_rtt.network_ns, 0);
    s.rails = NULL;
    emx_pull_measured(&s, &(struct emx_block){.ahead_bytes = BLOCK}, 1000);
    assert_int_equal(s.pulling.block_rtt.network_ns, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(chooses_up_to_the_pace, prepare),
        cmocka_unit_test_setup(slow_rail_does_not_hold_up, prepare),
        cmocka_unit_test_setup(unknown_rail_gets_one_block, prepare),
        cmocka_unit_test_setup(silent_rail_is_set_aside, prepare),
        cmocka_unit_test_setup(first_rail_fails, prepare),
        cmocka_unit_test_setup(measures, prepare),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
