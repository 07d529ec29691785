/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Probing of GSO packets: how often they are tried, when they are trusted, and that every other try is without TSO
 * packets; also where a network drops one form and eager messages arrive in the other.
 */
#include "unit.h"

#include "core/rel/offload_probe.h"

#define GAP   32
#define TRUST 1024

/* Takes blocks until one goes in GSO packets. Returns how many did not. */
static unsigned blocks_until_try(struct emx_offload_probe *o)
{
    unsigned n = 0;

    while (!emx_offload_probe_take(o, true))
        assert_true(++n < 2000000);
    return n;
}

static void every_other_try_is_without_tso(void **state)
{
    struct emx_offload_probe o = {0};
    unsigned gap = GAP;

    (void)state;
    emx_offload_probe_init(&o);
    assert_true(emx_offload_probe_take(&o, true));
    assert_false(o.no_tso);
    for (unsigned i = 0; i < 12; i++) {
        assert_int_equal(blocks_until_try(&o), gap - 1);
        assert_int_equal(o.no_tso, i % 2 == 0);
        emx_offload_probe_block_lost(&o);
        gap *= 2;
    }
}

/* Once one has arrived, the blocks that follow have its form. */
static void form_that_arrives_stays(void **state)
{
    (void)state;
    for (unsigned tries = 0; tries < 4; tries++) {
        struct emx_offload_probe o = {0};
        bool no_tso;

        emx_offload_probe_init(&o);
        assert_true(emx_offload_probe_take(&o, true));
        for (unsigned i = 0; i < tries; i++)
            blocks_until_try(&o);
        no_tso = o.no_tso;
        for (uint32_t joined = 1; joined < 10; joined++) {
            emx_offload_probe_told(&o, joined);
            for (unsigned i = 0; i < TRUST; i++) {
                assert_true(emx_offload_probe_take(&o, true));
                assert_int_equal(o.no_tso, no_tso);
            }
        }
        assert_false(emx_offload_probe_take(&o, true));
        emx_offload_probe_told(&o, 9); /* nothing new */
        assert_int_equal(blocks_until_try(&o), GAP - 2);
        assert_int_not_equal(o.no_tso, no_tso);
    }
}

/* A short block is none to try with, but goes where GSO packets are trusted. */
static void short_blocks_are_no_tries(void **state)
{
    struct emx_offload_probe o = {0};

    (void)state;
    emx_offload_probe_init(&o);
    for (unsigned i = 0; i < 3 * GAP; i++)
        assert_false(emx_offload_probe_take(&o, false));
    assert_true(emx_offload_probe_take(&o, true));
    emx_offload_probe_told(&o, 1);
    assert_true(emx_offload_probe_take(&o, false));
}

/* A few lost ones end the trust. */
static void lost_blocks_end_the_trust(void **state)
{
    struct emx_offload_probe o = {0};
    unsigned lost = 0;

    (void)state;
    emx_offload_probe_init(&o);
    emx_offload_probe_told(&o, 1);
    while (emx_offload_probe_take(&o, true)) {
        emx_offload_probe_lost(&o);
        lost++;
    }
    assert_in_range(lost, 2, 10);
}

/* A network that drops TSO packets. Large messages and eager ones alternate, and the latter arrive. */
static void eager_messages_are_no_proof_of_tso(void **state)
{
    enum { ROUNDS = 1000, BLOCKS = 4, MOST_LOST = 40 };
    struct emx_offload_probe o = {0};
    uint32_t joined = 0;
    unsigned lost = 0, arrived = 0;

    (void)state;
    emx_offload_probe_init(&o);
    for (unsigned round = 0; round < ROUNDS; round++) {
        if (emx_offload_probe_take_eager(&o))
            emx_offload_probe_told(&o, ++joined);
        for (unsigned i = 0; i < BLOCKS; i++) {
            if (!emx_offload_probe_take(&o, true))
                continue;
            if (o.no_tso) {
                arrived++;
                emx_offload_probe_told(&o, ++joined);
            } else {
                lost++;
                emx_offload_probe_block_lost(&o);
            }
        }
    }
    assert_true(lost <= MOST_LOST);
    assert_true(arrived > ROUNDS * BLOCKS / 2);
}

/* A network that only loses some of them: TSO packets go on. */
static void some_losses_do_not_end_tso(void **state)
{
    enum { ROUNDS = 1000, BLOCKS = 4 };
    struct emx_offload_probe o = {0};
    struct emx_rng rng = {.state = 1};
    uint32_t joined = 0;

    (void)state;
    emx_offload_probe_init(&o);
    for (unsigned round = 0; round < ROUNDS; round++) {
        if (emx_offload_probe_take_eager(&o) && emx_rng_below(&rng, 4))
            emx_offload_probe_told(&o, ++joined);
        for (unsigned i = 0; i < BLOCKS; i++) {
            if (!emx_offload_probe_take(&o, true))
                continue;
            assert_false(o.no_tso);
            if (emx_rng_below(&rng, 4))
                joined++;
            else
                emx_offload_probe_block_lost(&o);
        }
        emx_offload_probe_told(&o, joined);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_other_try_is_without_tso),     cmocka_unit_test(form_that_arrives_stays),
        cmocka_unit_test(short_blocks_are_no_tries),          cmocka_unit_test(lost_blocks_end_the_trust),
        cmocka_unit_test(eager_messages_are_no_proof_of_tso), cmocka_unit_test(some_losses_do_not_end_tso),
    };

    return cmocka_run_group_tests_name("offload probe", tests, NULL, NULL);
}
