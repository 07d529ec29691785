/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <time.h>

#include "progress/clock.h"

#define MS 1000000ull

static uint64_t kernel_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 * MS + (uint64_t)ts.tv_nsec;
}

/* A clock whose counter advances ticks_per_us in a microsecond, anchored at ticks and ns 1 s. */
static struct emx_clock made_clock(void)
{
    return (struct emx_clock){
        .has_ticks = true, .anchor_ticks = 1000 * MS, .anchor_ns = 1000 * MS, .last_ns = 1000 * MS};
}

/* ---- The clock of this machine ---- */

static void never_goes_back(void **state)
{
    struct emx_clock c;
    uint64_t last = 0;

    (void)state;
    emx_clock_init(&c);
    for (unsigned i = 0; i < 300000; i++) {
        uint64_t now = emx_clock_now(&c);

        assert_true(now >= last);
        last = now;
    }
}

/* What it tells lies between two readings of the kernel's clock, give or take the error of the rate. */
static void follows_the_kernel(void **state)
{
    const struct timespec pause = {.tv_nsec = 15 * MS};
    struct emx_clock c;

    (void)state;
    emx_clock_init(&c);
    for (unsigned i = 0; i < 10; i++) {
        uint64_t before = kernel_ns(), now = emx_clock_now(&c), after = kernel_ns();

        assert_true(now + 5 * MS >= before);
        assert_true(now <= after + 5 * MS);
        nanosleep(&pause, NULL);
    }
    assert_int_equal(emx_clock_is_cheap(&c), c.has_ticks);
}

static void works_without_counter(void **state)
{
    struct emx_clock c = {0};
    uint64_t before = kernel_ns(), now = emx_clock_now(&c);

    (void)state;
    assert_true(before <= now);
    assert_true(now <= kernel_ns());
    assert_false(emx_clock_is_cheap(&c));
}

/* ---- Anchors ---- */

static void asks_the_kernel_until_the_rate_is_known(void **state)
{
    struct emx_clock c = made_clock();

    (void)state;
    assert_int_equal(emx_clock_anchor(&c, 1000 * MS + 3000, 1000 * MS + 1000), 1000 * MS + 1000);
    assert_false(emx_clock_is_cheap(&c));
    emx_clock_anchor(&c, 1027 * MS, 1009 * MS);
    assert_false(emx_clock_is_cheap(&c));
    emx_clock_anchor(&c, 1030 * MS, 1010 * MS);
    assert_true(emx_clock_is_cheap(&c));
}

static void counts_at_any_rate(void **state)
{
    static const uint64_t ticks_per_us[] = {100, 999, 1000, 2100, 3600, 10000};

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(ticks_per_us); i++) {
        struct emx_clock c = made_clock();
        uint64_t rate = ticks_per_us[i], ticks = 1000 * MS + rate * 20000;
        uint64_t span_us;

        emx_clock_anchor(&c, ticks, 1020 * MS);
        assert_true(emx_clock_is_cheap(&c));
        span_us = c.span_ticks / rate;
        assert_true(span_us <= 50000);
        assert_true(span_us >= 25000);
        for (uint64_t us = 0; us < span_us; us += 100) {
            uint64_t told = emx_clock_convert(&c, ticks + us * rate), due = 1020 * MS + us * 1000;

            assert_true(told <= due + 1);
            assert_true(told + 50 >= due);
        }
    }
}

/* Each step: the counter and the kernel's clock as they jump; afterwards the clock must be right again, or ask. */
static void survives_a_jumping_counter(void **state)
{
    static const struct {
        const char *what;
        uint64_t ticks, ns;
        bool cheap;
    } step[] = {
        {"first rate, 3 ticks a ns", 1060 * MS, 1020 * MS, true},
        {"on time", 1210 * MS, 1070 * MS, true},
        {"the counter was set back", 500 * MS, 1100 * MS, false},
        {"calibrating anew", 515 * MS, 1105 * MS, false},
        {"the rate is known again", 560 * MS, 1120 * MS, true},
        {"a year ahead", 1ull << 56, 1130 * MS, false},
        {"the counter stands", 1ull << 56, 1150 * MS, false},
        {"it runs again", (1ull << 56) + 60 * MS, 1170 * MS, true},
        {"resumed after an hour of both", (1ull << 56) + 60 * MS + 10800000 * MS, 3601170 * MS, true},
    };
    struct emx_clock c = made_clock();
    uint64_t last = 0;

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(step); i++) {
        uint64_t now = emx_clock_anchor(&c, step[i].ticks, step[i].ns);

        if (emx_clock_is_cheap(&c) != step[i].cheap || now != step[i].ns || now < last)
            fail_msg("after step \"%s\"", step[i].what);
        last = now;
    }
}

static void keeps_what_it_told(void **state)
{
    struct emx_clock c = made_clock();

    (void)state;
    c.last_ns = 1100 * MS;
    assert_int_equal(emx_clock_anchor(&c, 1060 * MS, 1020 * MS), 1100 * MS);
    assert_int_equal(emx_clock_anchor(&c, 1303 * MS, 1101 * MS), 1101 * MS);
}

/* ---- In a time of the caller's own ---- */

static uint64_t made_up_ns(void *arg)
{
    return *(uint64_t *)arg;
}

static void is_driven(void **state)
{
    uint64_t ns = 7;
    struct emx_clock c;

    (void)state;
    for (unsigned cheap = 0; cheap < 2; cheap++) {
        ns = 7;
        emx_clock_drive(&c, made_up_ns, &ns, cheap);
        assert_int_equal(c.last_ns, 7);
        assert_int_equal(emx_clock_is_cheap(&c), cheap);
        for (ns = 8; ns < 1000 * MS; ns *= 3)
            assert_int_equal(emx_clock_now(&c), ns);
        assert_int_equal(emx_clock_is_cheap(&c), cheap);
        assert_int_equal(c.last_ns, ns / 3);
        ns = 5;
        assert_true(emx_clock_now(&c) > 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_goes_back),       cmocka_unit_test(follows_the_kernel),
        cmocka_unit_test(works_without_counter), cmocka_unit_test(asks_the_kernel_until_the_rate_is_known),
        cmocka_unit_test(counts_at_any_rate),    cmocka_unit_test(survives_a_jumping_counter),
        cmocka_unit_test(keeps_what_it_told),    cmocka_unit_test(is_driven),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
