/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "core/cc/pace.h"

#define MOST  (1 << 20)
#define CHUNK 1448

/* A way of WAY_NS, and a port of 10 Gbit/s before which all that was asked for waits in a queue, with what others have
 * in it. */
#define WAY_NS   20000
#define NS_OF(b) ((b)*8 / 10)

/* One round: all that may be asked for is, and what exceeds the queue is lost, as is a share of the rest. */
static uint64_t round_trip(struct emx_pace *p, uint64_t queue_bytes, uint64_t others_bytes, struct emx_rng *rng,
                           unsigned lost_ppm)
{
    static uint64_t way_ns;
    uint64_t asked_bytes = p->limit_bytes, lost_bytes = 0, first_ns = way_ns ? WAY_NS + NS_OF(others_bytes) : WAY_NS;

    for (uint64_t at = 0; at < asked_bytes; at += CHUNK) {
        if (at % (8 * CHUNK) == 0)
            emx_pace_answered(p, first_ns + (at > NS_OF(WAY_NS) ? NS_OF(at) - WAY_NS / 2 : 0), &way_ns);
        if (others_bytes + at + CHUNK <= queue_bytes && !emx_rng_chance(rng, lost_ppm)) {
            emx_pace_arrived(p, CHUNK, CHUNK, true);
        } else {
            emx_pace_lost(p, CHUNK, CHUNK);
            lost_bytes += CHUNK;
        }
    }
    return lost_bytes;
}

static void without_a_queue_it_grows_to_the_most(void **state)
{
    struct emx_rng rng = {1};
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    assert_int_equal(p.limit_bytes, MOST / 4);
    for (unsigned i = 0; i < 4; i++)
        round_trip(&p, UINT64_MAX, 0, &rng, 0);
    assert_int_equal(p.limit_bytes, MOST);
}

static void what_nobody_wants_makes_it_not_grow(void **state)
{
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    for (unsigned i = 0; i < 10000; i++)
        emx_pace_arrived(&p, CHUNK, CHUNK, false);
    assert_int_equal(p.limit_bytes, MOST / 4);
}

/* The first of each window finds no queue. */
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
            lost_bytes += round_trip(&p, queues[q], 0, &rng, 0);
        }
        assert_in_range(p.limit_bytes, queues[q] - 4 * CHUNK, queues[q] + 4 * CHUNK);
        assert_true(lost_bytes * 100 < 2 * asked_bytes);
    }
}

/* Others fill the queue, so each loss takes three tenths, once a window; between two it grows by a chunk a window. */
static void others_get_their_part(void **state)
{
    struct emx_rng rng = {1};
    struct emx_pace p;
    uint64_t before_bytes, cuts = 0;

    (void)state;
    emx_pace_init(&p, MOST);
    round_trip(&p, UINT64_MAX, 0, &rng, 0);
    for (unsigned i = 0; i < 100; i++)
        round_trip(&p, 400000, 200000, &rng, 0);
    for (unsigned i = 0; i < 300; i++) {
        before_bytes = p.limit_bytes;
        round_trip(&p, 400000, 200000, &rng, 0);
        if (p.limit_bytes < before_bytes) {
            cuts++;
            assert_in_range(p.limit_bytes, before_bytes * 7 / 10 - CHUNK, before_bytes * 7 / 10 + 2 * CHUNK);
        } else {
            assert_in_range(p.limit_bytes, before_bytes, before_bytes + CHUNK);
        }
    }
    assert_in_range(cuts, 2, 20);
}

static void loss_by_chance_leaves_enough(void **state)
{
    struct emx_rng rng = {1};
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    for (unsigned i = 0; i < 1000; i++)
        round_trip(&p, UINT64_MAX, 0, &rng, 10000);
    assert_in_range(p.limit_bytes, 100000, MOST);
}

/* Where a queue takes long, the limit falls to what a link has under way in the widest of clusters, and not below. */
static void a_slow_link_leaves_little(void **state)
{
    struct emx_pace p;
    uint64_t way_ns = 0, limit_bytes;

    (void)state;
    emx_pace_init(&p, MOST);
    for (unsigned i = 0; i < 100; i++) {
        limit_bytes = p.limit_bytes;
        for (unsigned k = 0; k < 8; k++)
            emx_pace_answered(&p, i ? 10000000 : WAY_NS, &way_ns);
        for (uint64_t at = 0; at < limit_bytes; at += CHUNK)
            emx_pace_arrived(&p, CHUNK, CHUNK, false);
        if (i)
            emx_pace_lost(&p, CHUNK, CHUNK);
    }
    assert_in_range(p.limit_bytes, 8192, 8192 + CHUNK);
    assert_int_equal(emx_pace_part(&p), p.limit_bytes / 8);
}

static void a_disturbance_is_soon_over(void **state)
{
    struct emx_rng rng = {1};
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    emx_pace_lost(&p, MOST, CHUNK);
    for (unsigned i = 0; i < 12; i++)
        round_trip(&p, UINT64_MAX, 0, &rng, 0);
    assert_int_equal(p.limit_bytes, MOST);
}

/* Once for all that was asked for in a window; then as with a queue, until marks have stayed away for long. */
static void marks_make_careful(void **state)
{
    struct emx_rng rng = {1};
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    assert_true(emx_pace_marked(&p, CHUNK));
    assert_int_equal(p.limit_bytes, MOST / 4 - MOST / 4 * 3 / 10);
    assert_false(emx_pace_marked(&p, CHUNK));
    assert_int_equal(p.limit_bytes, MOST / 4 - MOST / 4 * 3 / 10);
    for (uint64_t at = 0, window = p.limit_bytes; at < 2 * window + CHUNK; at += CHUNK)
        emx_pace_arrived(&p, CHUNK, CHUNK, true);
    assert_in_range(p.limit_bytes, MOST / 4 - MOST / 4 * 3 / 10 + CHUNK, MOST / 4 - MOST / 4 * 3 / 10 + 2 * CHUNK);
    for (unsigned i = 0; i < 3 * MOST / CHUNK; i++)
        round_trip(&p, UINT64_MAX, 0, &rng, 0);
    assert_int_equal(p.limit_bytes, MOST);
    for (unsigned i = 0; i < 1000; i++) {
        emx_pace_marked(&p, CHUNK);
        for (uint64_t at = 0, window = p.limit_bytes; at < window; at += CHUNK)
            emx_pace_arrived(&p, CHUNK, CHUNK, true);
    }
    assert_in_range(p.limit_bytes, 8192, 65536 + CHUNK);
}

/* Whatever the lengths: nobody divides by zero, and the limit keeps to its own. */
static void marks_keep_limits(void **state)
{
    static const uint64_t mosts[] = {0, 1, 4096, 65536, 65537, MOST, UINT64_C(1) << 30};
    static const uint64_t chunks[] = {0, 1, 1448, 65000};

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(mosts); i++)
        for (unsigned k = 0; k < ARRAY_LEN(chunks); k++) {
            struct emx_pace p;

            emx_pace_init(&p, mosts[i]);
            for (unsigned n = 0; n < 100; n++) {
                emx_pace_marked(&p, chunks[k]);
                emx_pace_lost(&p, chunks[k], chunks[k]);
                for (unsigned m = 0; m < 100; m++)
                    emx_pace_arrived(&p, chunks[k], chunks[k], true);
            }
            assert_true(p.limit_bytes <= mosts[i]);
            assert_true(p.limit_bytes >= (mosts[i] < 8192 ? mosts[i] : 8192));
        }
}

/* Request and response in one reading of the clock. */
static void a_response_at_once_takes_some_time(void **state)
{
    struct emx_pace p;
    uint64_t way_ns = 0;

    (void)state;
    emx_pace_init(&p, MOST);
    for (unsigned i = 0; i < 8; i++)
        emx_pace_answered(&p, 0, &way_ns);
    emx_pace_arrived(&p, MOST, CHUNK, true);
    assert_true(p.judged);
    assert_true(emx_pace_marked(&p, CHUNK));
    assert_int_equal(way_ns, 1);
    assert_in_range(p.limit_bytes, EMX_PACE_LEAST, MOST);
}

static void what_comes_twice_was_not_lost(void **state)
{
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    emx_pace_lost(&p, 100000, CHUNK);
    emx_pace_twice(&p, 100000);
    assert_int_equal(p.limit_bytes, MOST / 4);
}

/* A window of data whose responses take ns. */
static void window_in(struct emx_pace *p, uint64_t ns, uint64_t *way_ns)
{
    uint64_t limit_bytes = p->limit_bytes;

    for (unsigned k = 0; k < 8; k++)
        emx_pace_answered(p, ns, way_ns);
    for (uint64_t at = 0; at < limit_bytes; at += CHUNK)
        emx_pace_arrived(p, CHUNK, CHUNK, true);
}

/* A path that takes long is no queue. After a loss it may be one that others fill, until none has come for long. */
static void a_long_path_is_no_queue_until_a_loss(void **state)
{
    uint64_t way_ns = 0, limit_bytes;
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    for (unsigned i = 0; i < 2; i++)
        window_in(&p, 2000000, &way_ns);
    assert_int_equal(p.limit_bytes, MOST);
    emx_pace_lost(&p, CHUNK, CHUNK);
    limit_bytes = MOST - MOST * 3 / 10;
    assert_in_range(p.limit_bytes, limit_bytes, limit_bytes + 1);
    for (unsigned i = 0; i < 100; i++) {
        limit_bytes = p.limit_bytes;
        window_in(&p, 2000000, &way_ns);
        assert_in_range(p.limit_bytes, limit_bytes, limit_bytes + CHUNK);
    }
    for (unsigned i = 0; i < 1100; i++)
        window_in(&p, 2000000, &way_ns);
    assert_int_equal(p.shared_bytes, 0);
    p.limit_bytes = MOST / 4;
    for (unsigned i = 0; i < 9; i++)
        window_in(&p, 2000000, &way_ns);
    assert_int_equal(p.limit_bytes, MOST);
}

/* Slow hosts respond to some requests later than to others. */
static void slow_responses_over_a_long_path_are_no_queue(void **state)
{
    uint64_t way_ns = 0;
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    window_in(&p, 2000000, &way_ns);
    window_in(&p, 9000000, &way_ns);
    assert_int_equal(p.limit_bytes, MOST);
    assert_int_equal(emx_pace_part(&p), MOST / 2);
    for (unsigned i = 0; i < 8; i++)
        window_in(&p, 9000000, &way_ns);
    assert_int_equal(p.limit_bytes, 4 * MOST);
    assert_int_equal(emx_pace_part(&p), 2 * MOST);
}

/* A path of 2 ms, until the limit no longer grows. */
static void grow_far(struct emx_pace *p, uint64_t *way_ns)
{
    emx_pace_init(p, MOST);
    for (unsigned i = 0; i < 20; i++)
        window_in(p, 2000000, way_ns);
    assert_int_equal(p->limit_bytes, 4 * MOST);
}

/* What a loss or a mark takes then is part of the usual maximum. */
static void a_loss_ends_the_larger_limit_of_a_far_sender(void **state)
{
    uint64_t way_ns = 0;
    struct emx_pace p;

    (void)state;
    grow_far(&p, &way_ns);
    emx_pace_lost(&p, CHUNK, CHUNK);
    assert_in_range(p.limit_bytes, MOST - MOST * 3 / 10, MOST - MOST * 3 / 10 + 1);
    grow_far(&p, &way_ns);
    emx_pace_marked(&p, CHUNK);
    assert_in_range(p.limit_bytes, MOST - MOST * 3 / 10, MOST - MOST * 3 / 10 + 1);
}

static void a_sender_that_is_near_has_the_usual_limit(void **state)
{
    uint64_t way_ns = 0;
    struct emx_pace p;

    (void)state;
    grow_far(&p, &way_ns);
    window_in(&p, 20000, &way_ns);
    assert_int_equal(p.limit_bytes, MOST);
}

/* Two that are far away share the usual limit. */
static void several_senders_have_the_usual_limit(void **state)
{
    uint64_t way_ns[2] = {0};
    struct emx_pace p;

    (void)state;
    grow_far(&p, &way_ns[0]);
    for (unsigned i = 0; i < 20; i++) {
        for (unsigned k = 0; k < 8; k++)
            emx_pace_answered(&p, 2000000, &way_ns[k / 4]);
        for (uint64_t at = 0, window = p.limit_bytes; at < window; at += CHUNK)
            emx_pace_arrived(&p, CHUNK, CHUNK, true);
        assert_int_equal(p.limit_bytes, MOST);
    }
    window_in(&p, 2000000, &way_ns[1]);
    assert_in_range(p.limit_bytes, MOST + 1, 4 * MOST);
}

/* With a long queue parts are short, but on a fast path not shorter than what arrives in half a millisecond. */
static void parts_are_no_shorter_than_a_burst(void **state)
{
    static const struct {
        uint64_t ns;
        unsigned parts;
    } way[] = {{600000, 2}, {2000000, 4}, {4000000, 8}, {40000000, 8}};

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(way); i++) {
        uint64_t way_ns = 0;
        struct emx_pace p;

        emx_pace_init(&p, MOST);
        window_in(&p, way[i].ns, &way_ns);
        emx_pace_lost(&p, CHUNK, CHUNK);
        assert_int_equal(emx_pace_part(&p), p.limit_bytes / way[i].parts);
    }
}

/* A loss makes careful that was none: then not. */
static void a_false_loss_over_a_long_path_is_forgotten(void **state)
{
    uint64_t way_ns = 0;
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    for (unsigned i = 0; i < 4; i++)
        window_in(&p, 2000000, &way_ns);
    emx_pace_lost(&p, CHUNK, CHUNK);
    emx_pace_lost(&p, CHUNK, CHUNK);
    assert_true(p.shared_bytes);
    assert_int_equal(emx_pace_spare(&p), p.limit_bytes / 4);
    emx_pace_not_lost(&p);
    assert_int_equal(p.limit_bytes, MOST);
    assert_int_equal(p.shared_bytes, 0);
    assert_int_equal(emx_pace_spare(&p), MOST / 4);
}

/* A cut is undone if what seemed lost arrives; a cut for a mark is not. */
static void what_was_out_of_order_was_not_lost(void **state)
{
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    emx_pace_marked(&p, CHUNK);
    emx_pace_not_lost(&p);
    assert_int_equal(p.limit_bytes, MOST / 4 - MOST / 4 * 3 / 10);
    for (uint64_t at = 0, window = p.limit_bytes; at < window; at += CHUNK)
        emx_pace_arrived(&p, CHUNK, CHUNK, false);
    emx_pace_lost(&p, CHUNK, CHUNK);
    assert_true(p.limit_bytes < MOST / 4 / 2 + CHUNK);
    emx_pace_not_lost(&p);
    assert_int_equal(p.limit_bytes, MOST / 4 - MOST / 4 * 3 / 10);
    emx_pace_not_lost(&p);
    assert_int_equal(p.limit_bytes, MOST / 4 - MOST / 4 * 3 / 10);
    emx_pace_lost(&p, CHUNK, CHUNK); /* counts, because the cut is undone */
    assert_true(p.limit_bytes < MOST / 4 / 2 + CHUNK);
}

/* The step doubles on from what it was before, whether the window has ended meanwhile or not. */
static void what_was_out_of_order_takes_nothing_from_the_step(void **state)
{
    (void)state;
    for (unsigned windows = 0; windows < 2; windows++) {
        uint64_t way_ns = 0;
        struct emx_pace p;

        emx_pace_init(&p, MOST);
        emx_pace_lost(&p, CHUNK, CHUNK);
        for (unsigned i = 0; i < windows; i++)
            window_in(&p, WAY_NS, &way_ns);
        emx_pace_not_lost(&p);
        emx_pace_twice(&p, CHUNK);
        for (unsigned i = 0; i < 2; i++)
            window_in(&p, WAY_NS, &way_ns);
        assert_int_equal(p.limit_bytes, MOST);
    }
}

/* Of an earlier loss, which was one, nothing is given back. */
static void what_was_out_of_order_gives_back_only_its_own_step(void **state)
{
    uint64_t way_ns = 0, step_bytes;
    struct emx_pace p;

    (void)state;
    emx_pace_init(&p, MOST);
    emx_pace_lost(&p, CHUNK, CHUNK);
    for (unsigned i = 0; i < 2; i++)
        window_in(&p, WAY_NS, &way_ns);
    step_bytes = p.step_bytes;
    assert_true(step_bytes < MOST / 16);
    emx_pace_lost(&p, CHUNK, CHUNK);
    emx_pace_not_lost(&p);
    assert_int_equal(p.step_bytes, step_bytes);
}

static void limits_are_kept(void **state)
{
    static const uint64_t mosts[] = {0, 1, 4096, 65536, 65537, MOST};

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(mosts); i++) {
        struct emx_pace p;

        emx_pace_init(&p, mosts[i]);
        emx_pace_lost(&p, UINT64_MAX, CHUNK);
        assert_int_equal(p.limit_bytes, mosts[i] < 65536 ? mosts[i] : 65536);
        for (unsigned k = 0; k < 100000; k++)
            emx_pace_arrived(&p, 10000, 10000, true);
        emx_pace_twice(&p, UINT64_MAX);
        assert_int_equal(p.limit_bytes, mosts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_queue_it_grows_to_the_most),
        cmocka_unit_test(what_nobody_wants_makes_it_not_grow),
        cmocka_unit_test(a_queue_is_found),
        cmocka_unit_test(others_get_their_part),
        cmocka_unit_test(loss_by_chance_leaves_enough),
        cmocka_unit_test(a_slow_link_leaves_little),
        cmocka_unit_test(a_disturbance_is_soon_over),
        cmocka_unit_test(marks_make_careful),
        cmocka_unit_test(marks_keep_limits),
        cmocka_unit_test(a_response_at_once_takes_some_time),
        cmocka_unit_test(what_comes_twice_was_not_lost),
        cmocka_unit_test(a_long_path_is_no_queue_until_a_loss),
        cmocka_unit_test(slow_responses_over_a_long_path_are_no_queue),
        cmocka_unit_test(a_loss_ends_the_larger_limit_of_a_far_sender),
        cmocka_unit_test(a_sender_that_is_near_has_the_usual_limit),
        cmocka_unit_test(several_senders_have_the_usual_limit),
        cmocka_unit_test(parts_are_no_shorter_than_a_burst),
        cmocka_unit_test(a_false_loss_over_a_long_path_is_forgotten),
        cmocka_unit_test(what_was_out_of_order_was_not_lost),
        cmocka_unit_test(what_was_out_of_order_takes_nothing_from_the_step),
        cmocka_unit_test(what_was_out_of_order_gives_back_only_its_own_step),
        cmocka_unit_test(limits_are_kept),
    };

    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
