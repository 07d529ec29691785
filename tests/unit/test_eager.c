/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which messages are sent eagerly, by their length and the state of the window.
 */
#include "unit.h"

#include "core/engine_impl.h"
#include "core/msg/eager.h"
#include "core/rel/offload_probe.h"
#include "core/rel/session.h"

enum { MTU = 1472, WINDOW = 128 };

static struct emx_config cfg;
static struct emx_engine engine;
static struct emx_connect connecting;
static struct emx_session session;
static uint8_t buf[1 << 20];

/* A session over a route with TSO packets, nothing in flight, that has lost nothing. */
static struct emx_session *begin(void)
{
    struct emx_session *s = &session;

    emx_config_defaults(&cfg);
    engine = (struct emx_engine){.cfg = &cfg, .seq_frame_bytes = UINT16_MAX};
    connecting = (struct emx_connect){.route[0].tso = true};
    *s = (struct emx_session){.e = &engine, .connect = &connecting, .frame_bytes = MTU, .gso_bytes = MTU};
    emx_offload_probe_init(&s->offload);
    s->tx.peer_window = WINDOW;
    s->tx.cc = (struct emx_cc){.cwnd_frames = 64,
                               .flight_frames = 64,
                               .threshold_frames = WINDOW,
                               .limit_frames = WINDOW,
                               .clean_frames = EMX_CC_CLEAN};
    return s;
}

static bool suits(struct emx_session *s, size_t len_bytes)
{
    const struct ethmx_data data = {.len_bytes = len_bytes, .base = buf};

    return emx_eager_suits(s, &data, len_bytes);
}

static void up_to_the_parameter(void **state)
{
    struct emx_session *s = begin();

    (void)state;
    assert_true(suits(s, 0));
    assert_true(suits(s, cfg.p_eager_max));
    assert_false(suits(s, cfg.p_eager_max + 1));
}

/* A gap takes what was known of the path. Short messages need not know. */
static void long_ones_not_while_frames_get_lost(void **state)
{
    struct emx_session *s = begin();

    (void)state;
    s->tx.cc.clean_frames = EMX_CC_CLEAN - 1;
    assert_true(suits(s, 32768));
    assert_false(suits(s, 32769));
    s->reliable = true;
    assert_true(suits(s, cfg.p_eager_max));
}

/* After a loss the window is the congestion window, and three quarters of it at most are for one message. */
static void long_ones_take_a_part_of_the_window(void **state)
{
    struct emx_session *s = begin();
    size_t len_bytes = cfg.p_eager_max;

    (void)state;
    s->tx.cc.cwnd_frames = s->tx.cc.threshold_frames = 60;
    while (emx_eager_frames(s, len_bytes) > 45) {
        assert_false(suits(s, len_bytes));
        len_bytes -= 1000;
    }
    assert_true(suits(s, len_bytes));
}

/* What could be pulled in TSO packets is eager only if no part of it waits for acknowledgements. */
static void very_long_ones_only_if_they_leave_at_once(void **state)
{
    struct emx_session *s = begin();
    unsigned frames = emx_eager_frames(s, cfg.p_eager_max);

    (void)state;
    s->tx.in_flight = WINDOW - frames;
    assert_true(suits(s, cfg.p_eager_max));
    s->tx.in_flight++;
    assert_false(suits(s, cfg.p_eager_max));
    assert_true(suits(s, 90112));
    connecting.route[0].tso = false;
    assert_true(suits(s, cfg.p_eager_max));
}

/* The peer's window counts frames that have arrived early, too, and lost ones leave first. */
static void the_peers_window_and_losses_count(void **state)
{
    struct emx_session *s = begin();
    unsigned frames = emx_eager_frames(s, cfg.p_eager_max);

    (void)state;
    s->tx.next = s->tx.acked + WINDOW - frames;
    assert_true(suits(s, cfg.p_eager_max));
    s->tx.next++;
    assert_false(suits(s, cfg.p_eager_max));
    s->tx.next = s->tx.acked;
    s->tx.lost = 1;
    assert_false(suits(s, cfg.p_eager_max));
}

/* Only pulled data travels over several cards. */
static void very_long_ones_are_pulled_over_rails(void **state)
{
    struct emx_session *s = begin();

    (void)state;
    s->rails = (void *)buf;
    assert_false(suits(s, cfg.p_eager_max));
    assert_true(suits(s, 90112));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(up_to_the_parameter),
        cmocka_unit_test(long_ones_not_while_frames_get_lost),
        cmocka_unit_test(long_ones_take_a_part_of_the_window),
        cmocka_unit_test(very_long_ones_only_if_they_leave_at_once),
        cmocka_unit_test(the_peers_window_and_losses_count),
        cmocka_unit_test(very_long_ones_are_pulled_over_rails),
    };

    return cmocka_run_group_tests_name("eager", tests, NULL, NULL);
}
