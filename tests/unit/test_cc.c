/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cc, aimd and rtt: the window's and the time-out's reactions.
 */

#include "base/hash.h"
#include "core/cc/aimd.h"
#include "core/cc/cc.h"
#include "core/peer.h"
#include "core/rel/connect.h"
#include "core/rel/rtt.h"
#include "core/rel/session.h"
#include "unit.h"

static void begin(struct emx_cc *cc, uint32_t limit_frames)
{
    emx_cc_init(cc, &emx_cc_aimd, limit_frames);
}

static void acked(struct emx_cc *cc, uint32_t frames, bool limits, bool recovers)
{
    const struct emx_cc_event ev = {.frames = frames, .bytes = frames * 1000, .limits = limits, .recovers = recovers};

    emx_cc_aimd.acked(cc, &ev);
}

static void lost(struct emx_cc *cc)
{
    emx_cc_aimd.lost(cc, &(struct emx_cc_event){.frames = 1, .bytes = 1000});
}

static void timed_out(struct emx_cc *cc)
{
    emx_cc_aimd.timed_out(cc, &(struct emx_cc_event){.frames = 2, .bytes = 2000, .flew_frames = 2});
}

/* Nothing new is acknowledged; so many are in flight still, and round trips take so long. */
static void gather(struct emx_cc *cc, uint32_t flies_frames, uint64_t rtt_ns)
{
    emx_cc_aimd.acked(cc, &(struct emx_cc_event){.flies_frames = flies_frames, .rtt_ns = rtt_ns});
}

static void window_grows_and_shrinks(void **state)
{
    struct emx_cc cc;

    (void)state;
    begin(&cc, 128);
    assert_int_equal(cc.cwnd_frames, EMX_CC_START);
    acked(&cc, 10, true, false);
    assert_int_equal(cc.cwnd_frames, EMX_CC_START + 10); /* slow start */
    acked(&cc, 1000, true, false);
    assert_int_equal(cc.cwnd_frames, 128); /* the limit */
    lost(&cc);
    assert_int_equal(cc.cwnd_frames, 89);
    acked(&cc, 167, true, false);
    assert_int_equal(cc.cwnd_frames, 89); /* 0.53 more per window */
    acked(&cc, 1000, true, true);
    assert_int_equal(cc.cwnd_frames, 89); /* not while some are missing */
    acked(&cc, 1, true, false);
    assert_int_equal(cc.cwnd_frames, 90);
    for (int i = 0; i < 100; i++)
        lost(&cc);
    assert_int_equal(cc.cwnd_frames, EMX_AIMD_FLOOR);
}

static void what_has_slowed_does_not_double(void **state)
{
    struct emx_cc cc;

    (void)state;
    begin(&cc, 128);
    acked(&cc, 36, true, false);
    lost(&cc); /* below its limit, while it doubled */
    assert_int_equal(cc.cwnd_frames, 70);
    acked(&cc, 132, true, false);
    assert_int_equal(cc.cwnd_frames, 70);
    acked(&cc, 1, true, false);
    assert_int_equal(cc.cwnd_frames, 71);
}

static void timeouts_in_a_row_count_once(void **state)
{
    struct emx_cc cc;

    (void)state;
    begin(&cc, 128);
    timed_out(&cc);
    assert_int_equal(cc.cwnd_frames, 1);
    timed_out(&cc);
    timed_out(&cc);
    assert_int_equal(cc.threshold_frames, EMX_CC_START / 2);
    acked(&cc, 31, true, false);
    assert_int_equal(cc.cwnd_frames, 32);
}

static void frames_gather_where_the_way_is_long(void **state)
{
    struct emx_cc cc;

    (void)state;
    begin(&cc, 64);
    gather(&cc, 64, EMX_AIMD_LONG_NS);
    assert_int_equal(cc.flight_frames, 64);
    gather(&cc, 56, EMX_AIMD_LONG_NS + 1);
    assert_int_equal(cc.flight_frames, 64);
    gather(&cc, 57, EMX_AIMD_LONG_NS + 1);
    assert_int_equal(cc.flight_frames, 0);
    acked(&cc, 1, true, true);
    assert_int_equal(cc.flight_frames, 64);
    gather(&cc, 57, EMX_AIMD_LONG_NS + 1);
    lost(&cc); /* what was lost goes at once */
    assert_int_equal(cc.flight_frames, 44);
    timed_out(&cc);
    assert_int_equal(cc.flight_frames, 1);
    gather(&cc, 0, EMX_AIMD_LONG_NS + 1); /* nothing would come to end it */
    assert_int_equal(cc.flight_frames, 1);
}

static void small_limit(void **state)
{
    struct emx_cc cc;

    (void)state;
    begin(&cc, 8);
    assert_int_equal(cc.cwnd_frames, 8);
}

static void marks_count_as_losses(void **state)
{
    struct emx_cc by_mark, by_loss;

    (void)state;
    begin(&by_mark, 128);
    begin(&by_loss, 128);
    emx_cc_aimd.marked(&by_mark, &(struct emx_cc_event){.frames = 5});
    lost(&by_loss);
    assert_int_equal(by_mark.cwnd_frames, by_loss.cwnd_frames);
    assert_int_equal(by_mark.threshold_frames, by_loss.threshold_frames);
}

/* What the send window relies upon, of each congestion control, whatever happens. */
static void each_keeps_its_promises(void **state)
{
    struct emx_rng rng = {1};

    (void)state;
    for (const struct emx_cc_ops *const *ops = emx_cc_table; *ops; ops++)
        for (unsigned round = 0; round < 200; round++) {
            uint32_t limit = 1 + (uint32_t)emx_rng_below(&rng, 512);
            struct emx_cc cc;

            emx_cc_init(&cc, *ops, limit);
            assert_int_equal(cc.cwnd_frames, limit < EMX_CC_START ? limit : EMX_CC_START);
            if (round % 2)
                emx_cc_first(&cc, EMX_CC_BURST);
            for (unsigned i = 0; i < 500; i++) {
                void (*const all[])(struct emx_cc *, const struct emx_cc_event *) = {(*ops)->lost, (*ops)->marked,
                                                                                     (*ops)->timed_out, (*ops)->acked};
                uint64_t which = emx_rng_below(&rng, 40);
                uint32_t flew = 1 + (uint32_t)emx_rng_below(&rng, cc.cwnd_frames);
                uint32_t frames = 1 + (uint32_t)emx_rng_below(&rng, flew);
                const struct emx_cc_event ev = {.now_ns = i * UINT64_C(100000),
                                                .rtt_ns = emx_rng_below(&rng, 1000000),
                                                .frames = frames,
                                                .bytes = frames * 1000,
                                                .flew_frames = flew,
                                                .flies_frames = flew - frames,
                                                .limits = emx_cc_limits(&cc, flew)};

                all[which < 3 ? which : 3](&cc, &ev);
                assert_true(cc.cwnd_frames >= 1 && cc.cwnd_frames <= limit);
                assert_true(cc.clean_frames <= EMX_CC_CLEAN + limit);
                assert_true(cc.flight_frames == cc.cwnd_frames || (!cc.flight_frames && ev.flies_frames));
            }
        }
}

static void rto_follows_the_round_trip(void **state)
{
    struct emx_config cfg;
    struct emx_rtt r;

    (void)state;
    emx_config_defaults(&cfg);
    cfg.p_rto_min = 1000;
    cfg.p_rto_max = 1000000000;
    cfg.p_ack_delay = 500;
    emx_rtt_init(&r, &cfg);
    assert_true(r.rto_ns >= 1000000); /* careful before the first sample */
    emx_rtt_sample(&r, 8000, cfg.p_ack_delay, &cfg);
    assert_int_equal(r.network_ns, 8000);
    assert_int_equal(r.rto_ns, 3 * 8000 + 500);
    for (int i = 0; i < 200; i++)
        emx_rtt_sample(&r, 20000, cfg.p_ack_delay, &cfg);
    assert_int_equal(r.network_ns, 20000);
    assert_int_equal(r.rto_ns, 3 * 20000 + 500);
}

/* Of sixteen answers fifteen waited for a peer that computes. */
static void computing_is_no_round_trip(void **state)
{
    struct emx_config cfg;
    struct emx_rtt r;

    (void)state;
    emx_config_defaults(&cfg);
    emx_rtt_init(&r, &cfg);
    for (unsigned i = 0; i < 200; i++) {
        emx_rtt_sample(&r, i % 16 ? 5000000 : 10000, cfg.p_ack_delay, &cfg);
        assert_int_equal(r.network_ns, 10000);
        assert_int_equal(r.rto_ns, cfg.p_rto_min);
    }
}

static void window_grows_only_where_it_limits(void **state)
{
    struct emx_cc cc;

    (void)state;
    begin(&cc, 128);
    assert_false(emx_cc_limits(&cc, EMX_CC_START / 2 - 1));
    assert_true(emx_cc_limits(&cc, EMX_CC_START / 2)); /* slow start doubles what flies */
    lost(&cc);
    assert_false(emx_cc_limits(&cc, cc.cwnd_frames - 1));
    assert_true(emx_cc_limits(&cc, cc.cwnd_frames));
    acked(&cc, 1000, false, false);
    assert_int_equal(cc.cwnd_frames, cc.threshold_frames);
}

/* A thousand peers that are sent to for the first time. */
static void first_burst_is_bounded(void **state)
{
    uint32_t left = EMX_CC_BURST, sum = 0;
    struct emx_cc cc;

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        begin(&cc, 128);
        left -= emx_cc_first(&cc, left);
        assert_true(cc.cwnd_frames >= EMX_CC_ALONE && (i || cc.cwnd_frames == EMX_CC_START));
        sum += cc.cwnd_frames;
    }
    assert_true(sum <= EMX_CC_BURST + 1000 * EMX_CC_ALONE);
    emx_cc_met(&cc);
    assert_int_equal(cc.cwnd_frames, EMX_CC_START);
}

static void rto_stays_in_its_limits(void **state)
{
    struct emx_config cfg;
    struct emx_rtt r;

    (void)state;
    emx_config_defaults(&cfg);
    emx_rtt_init(&r, &cfg);
    emx_rtt_sample(&r, 1000, cfg.p_ack_delay, &cfg);
    assert_int_equal(r.rto_ns, cfg.p_rto_min);
    assert_int_equal(emx_rtt_backed_off(&r, 1, &cfg), 2 * cfg.p_rto_min);
    for (unsigned n = 0; n < 100; n++)
        assert_in_range(emx_rtt_backed_off(&r, n, &cfg), cfg.p_rto_min, cfg.p_rto_max);
    for (int i = 0; i < 50; i++)
        emx_rtt_sample(&r, UINT64_C(10000000000), cfg.p_ack_delay, &cfg);
    assert_int_equal(r.rto_ns, cfg.p_rto_max);
    assert_int_equal(emx_rtt_backed_off(&r, 3, &cfg), cfg.p_rto_max);
}

/* What a peer costs while nothing is under way. Growing these is a decision. */
static void idle_peers_are_small(void **state)
{
    (void)state;
    assert_true(sizeof(struct emx_peer) <= 112);
    assert_true(sizeof(struct emx_peer) + sizeof(struct emx_session) + sizeof(struct emx_connect) + ETHMX_ADDRESS_MAX <=
                2176);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window_grows_and_shrinks),
        cmocka_unit_test(what_has_slowed_does_not_double),
        cmocka_unit_test(timeouts_in_a_row_count_once),
        cmocka_unit_test(frames_gather_where_the_way_is_long),
        cmocka_unit_test(small_limit),
        cmocka_unit_test(marks_count_as_losses),
        cmocka_unit_test(each_keeps_its_promises),
        cmocka_unit_test(rto_follows_the_round_trip),
        cmocka_unit_test(computing_is_no_round_trip),
        cmocka_unit_test(window_grows_only_where_it_limits),
        cmocka_unit_test(first_burst_is_bounded),
        cmocka_unit_test(rto_stays_in_its_limits),
        cmocka_unit_test(idle_peers_are_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
