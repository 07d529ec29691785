/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "proto/pace.h"

#define MOST  (1 << 20)
#define CHUNK 1448

/* One round: all that may be asked for is, and what exceeds the queue is lost, as is a share of the rest. */
static uint64_t round_trip(struct emx_pace *p, uint64_t queue_bytes, struct emx_rng *rng, unsigned lost_ppm)
{
    uint64_t asked_bytes = p->limit_bytes, lost_bytes = 0;

    for (uint64_t at = 0; at < asked_bytes; at += CHUNK) {
        if (at + CHUNK <= queue_bytes && !emx_rng_chance(rng, lost_ppm)) {
            emx_pace_arrived(p, CHUNK);
        } else {
            emx_pace_lost(p, CHUNK);
            lost_bytes += CHUNK;
        }
    }
    return lost_bytes;
}

static void without_loss_it_grows_to_the_most(void **state)
{
    struct emx_rng rng = {1};
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    assert_int_equal(p.limit_bytes, MOST / 4);
    for (unsigned i = 0; i < 3; i++)
        round_trip(&p, UINT64_MAX, &rng, 0);
    assert_int_equal(p.limit_bytes, MOST);
}

static void a_queue_is_found(void **state)
{
    static const uint64_t queues[] = {128 << 10, 300000, 512 << 10};

    (void)state;
    for (unsigned q = 0; q < ARRAY_LEN(queues); q++) {
        struct emx_rng rng = {1};
        struct emx_pace p;
        uint64_t lost_bytes = 0, asked_bytes = 0;

        emx_pace_init(&p, MOST);
        for (unsigned i = 0; i < 1000; i++) {
            asked_bytes += p.limit_bytes;
            lost_bytes += round_trip(&p, queues[q], &rng, 0);
        }
        assert_in_range(p.limit_bytes, queues[q] - 4 * CHUNK, queues[q] + 4 * CHUNK);
        assert_true(lost_bytes * 100 < 2 * asked_bytes);
    }
}

static void loss_by_chance_leaves_enough(void **state)
{
    struct emx_rng rng = {1};
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    for (unsigned i = 0; i < 1000; i++)
        round_trip(&p, UINT64_MAX, &rng, 10000);
    assert_in_range(p.limit_bytes, 100000, MOST);
}

static void a_disturbance_is_soon_over(void **state)
{
    struct emx_rng rng = {1};
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    emx_pace_lost(&p, MOST);
    for (unsigned i = 0; i < 10; i++)
        round_trip(&p, UINT64_MAX, &rng, 0);
    assert_int_equal(p.limit_bytes, MOST);
}

static void what_comes_twice_was_not_lost(void **state)
{
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    emx_pace_lost(&p, 100000);
    emx_pace_twice(&p, 100000);
    assert_int_equal(p.limit_bytes, MOST / 4);
}

static void limits_are_kept(void **state)
{
    static const uint64_t mosts[] = {0, 1, 4096, 65536, 65537, MOST};

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(mosts); i++) {
        struct emx_pace p;

        emx_pace_init(&p, mosts[i]);
        emx_pace_lost(&p, UINT64_MAX);
        assert_int_equal(p.limit_bytes, mosts[i] < 65536 ? mosts[i] : 65536);
        for (unsigned k = 0; k < 100000; k++)
            emx_pace_arrived(&p, 10000);
        emx_pace_twice(&p, UINT64_MAX);
        assert_int_equal(p.limit_bytes, mosts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_loss_it_grows_to_the_most), cmocka_unit_test(a_queue_is_found),
        cmocka_unit_test(loss_by_chance_leaves_enough),      cmocka_unit_test(a_disturbance_is_soon_over),
        cmocka_unit_test(what_comes_twice_was_not_lost),     cmocka_unit_test(limits_are_kept),
    };

    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
