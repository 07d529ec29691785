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
        t.rail[i].pause_ns = 1000;
        emx_rtt_init(&t.rail[i].block_rtt, &cfg);
        emx_pace_init(&e.rail[i].pace, 4 * BLOCK);
        e.rail[i].pace.limit_bytes = 4 * BLOCK;
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

/* All peers share the pace of the rails of one number. */
static void shares_the_pace(void **state)
{
    (void)state;
    e.pulling_bytes = 4 * BLOCK;
    e.rail[1].asked_bytes = 4 * BLOCK;
    assert_int_equal(emx_pull_choose(&s, BLOCK, 100 * BLOCK), 0);
    e.rail[1].asked_bytes = 3 * BLOCK;
    assert_int_equal(emx_pull_choose(&s, BLOCK, 100 * BLOCK), 1);
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

static void set_aside(unsigned rail)
{
    for (unsigned i = 0; i < EMX_RAIL_FAILURES; i++)
        emx_rail_failed(&t.rail[rail], 1000);
}

/* Rail 0 is set aside like another, but there must be one. */
static void first_rail_fails(void **state)
{
    (void)state;
    set_aside(0);
    assert_false(emx_pull_first_rail_works(&s));
    assert_int_equal(emx_pull_choose_again(&s, 0, false), 1);
    assert_int_equal(emx_pull_choose(&s, BLOCK, BLOCK), 1);
    set_aside(1);
    assert_true(emx_pull_first_rail_works(&s));
    assert_false(t.rail[1].usable);
    set_aside(0);
    assert_true(emx_pull_first_rail_works(&s));
    emx_rail_heard(&t.rail[1], 2000);
    assert_true(t.rail[1].usable);
    assert_int_equal(stats.rails_failed, 2);
    assert_int_equal(stats.rails_found, 1);
}

/* A block is late if a later request was answered over another rail, and its own is silent after this was seen. */
static void block_is_late(void **state)
{
    struct emx_block b = {.rail = 1, .asked_ns = 1000}, later = {.asked_ns = 2000};
    emx_time timeout_ns = t.rail[1].block_rtt.rto_ns, now = 1000 + timeout_ns;

    (void)state;
    assert_int_equal(emx_pull_rail_late_ns(&s, &b, 1500), now);
    now *= 10; /* this process was stopped, and frames of rail 0 are received first */
    assert_int_equal(emx_pull_rail_late_ns(&s, &b, now), now + timeout_ns);
    emx_pull_heard(&s, 0, now);
    emx_pull_replied(&s, &later, now);
    assert_int_equal(emx_pull_rail_late_ns(&s, &b, now), now + timeout_ns);
    s.pulling.data_ns = now + 1;
    assert_int_equal(emx_pull_rail_late_ns(&s, &b, now + timeout_ns), now + timeout_ns);
    emx_pull_heard(&s, 1, now + 1);
    assert_int_equal(emx_pull_rail_late_ns(&s, &b, now + timeout_ns), now + 1 + timeout_ns);
    now += 2 * timeout_ns;
    assert_int_equal(emx_pull_rail_late_ns(&s, &b, now), now + timeout_ns);
    assert_int_equal(emx_pull_rail_late_ns(&s, &b, now + timeout_ns), now + 2 * timeout_ns); /* all are silent */
}

/* The reply to a block that was requested again over another rail shows that its former one has failed. */
static void left_rail_has_failed(void **state)
{
    struct emx_block b = {.asked_ns = 9000, .left_rail = 2};

    (void)state;
    t.rail[1].left_ns = 5000;
    emx_pull_replied(&s, &b, 9500);
    emx_pull_replied(&s, &b, 9600);
    assert_int_equal(t.rail[1].failures, 1);
    b.left_rail = 2;
    emx_pull_heard(&s, 1, 6000);
    emx_pull_replied(&s, &b, 9700);
    assert_int_equal(t.rail[1].failures, 0);
    emx_pull_heard(&s, EMX_RAILS_MAX, 9800); /* of no rail that is known */
}

/* The rails keep their numbers when the session moves. */
static void session_moves(void **state)
{
    struct emx_connect c = {.count = 4};

    (void)state;
    s.connect = &c;
    for (unsigned i = 0; i < 2; i++) {
        emx_list_init(&t.rail[i].ready);
        t.rail[i].card = (uint8_t)i;
    }
    for (unsigned i = 0; i < 4; i++)
        c.route[i] = (struct emx_route){.card = (uint8_t)(i % 3), .link = (uint8_t)i, .frame_bytes = 1500};
    c.current = 1;
    emx_rails_moved(&s);
    assert_int_equal(emx_rails_first(&s), 1);
    c.current = 3; /* another wire, the first card */
    emx_rails_moved(&s);
    assert_int_equal(emx_rails_first(&s), 0);
    assert_int_equal(t.rail[0].link, 3);
    c.current = 2; /* a card that has no rail */
    emx_rails_moved(&s);
    assert_int_equal(emx_rails_first(&s), 0);
    assert_int_equal(t.rail[0].link, 2);
    assert_int_equal(emx_rails_count(&s), 2);
    assert_int_equal(emx_rails_frame_bytes(&s, 9000), t.rail[1].frame_bytes);
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
        cmocka_unit_test_setup(shares_the_pace, prepare),
        cmocka_unit_test_setup(slow_rail_does_not_hold_up, prepare),
        cmocka_unit_test_setup(unknown_rail_gets_one_block, prepare),
        cmocka_unit_test_setup(silent_rail_is_set_aside, prepare),
        cmocka_unit_test_setup(first_rail_fails, prepare),
        cmocka_unit_test_setup(block_is_late, prepare),
        cmocka_unit_test_setup(left_rail_has_failed, prepare),
        cmocka_unit_test_setup(session_moves, prepare),
        cmocka_unit_test_setup(measures, prepare),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
