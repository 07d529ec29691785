/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether GSO packets of a form are used, from what the peer reports and what is lost. What happens to one form does
 * not concern the other.
 */
#include "unit.h"

#include "core/rel/offload_probe.h"

#define TRUST 1024
#define TSO   (1u << 16) /* one of TSO in a report; 1 is one of UDP */

static const enum emx_gso_form forms[] = {EMX_GSO_OF_UDP, EMX_GSO_OF_TSO};

/* Takes until it is allowed; returns how often that took. */
static unsigned tries(struct emx_offload_probe *o, enum emx_gso_form form)
{
    unsigned n = 1;

    while (!emx_offload_probe_take(o, form, true))
        n++;
    return n;
}

static void one_goes_first_then_few(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(forms); i++) {
        struct emx_offload_probe o = {0};

        emx_offload_probe_init(&o);
        assert_true(emx_offload_probe_trusts(&o, forms[i]));
        assert_false(emx_offload_probe_take(&o, forms[i], false));
        assert_int_equal(tries(&o, forms[i]), 1);
        for (unsigned gap = 32; gap < 32768; gap *= 2)
            assert_int_equal(tries(&o, forms[i]), gap);
        assert_int_equal(tries(&o, forms[i]), 32768);
        assert_int_equal(tries(&o, forms[i]), 32768);
        assert_int_equal(tries(&o, forms[!i]), 1);
        assert_int_equal(tries(&o, forms[!i]), 32);
    }
}

static void reports_are_of_one_form(void **state)
{
    struct emx_offload_probe o = {0};

    (void)state;
    emx_offload_probe_init(&o);
    assert_true(emx_offload_probe_take(&o, EMX_GSO_OF_UDP, true));
    assert_true(emx_offload_probe_take(&o, EMX_GSO_OF_TSO, true));
    emx_offload_probe_told(&o, TSO);
    for (unsigned i = 0; i < TRUST; i++)
        assert_true(emx_offload_probe_take(&o, EMX_GSO_OF_TSO, true));
    assert_false(emx_offload_probe_take(&o, EMX_GSO_OF_TSO, true));
    assert_int_equal(tries(&o, EMX_GSO_OF_UDP), 32);
    for (unsigned i = 1; i <= 3; i++) { /* of UDP alone, and twice the same */
        emx_offload_probe_told(&o, TSO + i);
        emx_offload_probe_told(&o, TSO + i);
        assert_true(emx_offload_probe_take(&o, EMX_GSO_OF_UDP, true));
    }
    assert_int_equal(tries(&o, EMX_GSO_OF_TSO), 31);
}

/* Old reports arrive late; the counts begin again at 0. */
static void counts_wrap(void **state)
{
    struct emx_offload_probe o = {0}, peer = {0};

    (void)state;
    emx_offload_probe_init(&o);
    for (unsigned i = 0; i < 70000; i++) {
        for (unsigned k = 0; k < ARRAY_LEN(forms); k++) {
            emx_offload_probe_arrived(&peer, forms[k]);
            while (emx_offload_probe_take(&o, forms[k], true) && emx_offload_probe_trusts(&o, forms[k]))
                ;
            emx_offload_probe_told(&o, peer.joined_rx);
            assert_true(emx_offload_probe_take(&o, forms[k], false));
            assert_int_equal(o.joined_told, peer.joined_rx);
        }
        emx_offload_probe_told(&o, peer.joined_rx - TSO - 1);
        assert_int_equal(o.joined_told, peer.joined_rx);
    }
}

/* Each lost one leaves a quarter, of its form. */
static void losses_end_trust(void **state)
{
    struct emx_offload_probe o = {0};
    unsigned blocks = 0;

    (void)state;
    emx_offload_probe_init(&o);
    emx_offload_probe_told(&o, TSO + 1);
    while (emx_offload_probe_take(&o, EMX_GSO_OF_TSO, true)) {
        emx_offload_probe_lost(&o, EMX_GSO_OF_TSO);
        blocks++;
    }
    assert_in_range(blocks, 4, 8);
    for (unsigned i = 0; i < TRUST; i++)
        assert_true(emx_offload_probe_take(&o, EMX_GSO_OF_UDP, true));
    assert_false(emx_offload_probe_trusts(&o, EMX_GSO_OF_UDP));
}

/* A report of 16 bits says the same as one of 32, as long as fewer than 128 packets lie between two. */
static void short_reports_say_the_same(void **state)
{
    struct emx_offload_probe theirs = {0}, o = {0};

    (void)state;
    emx_offload_probe_init(&o);
    for (unsigned i = 1; i < 2000; i++) {
        for (unsigned k = 0; k < 1 + i % 100; k++)
            emx_offload_probe_arrived(&theirs, EMX_GSO_OF_TSO);
        if (i % 3 == 0)
            emx_offload_probe_arrived(&theirs, EMX_GSO_OF_UDP);
        emx_offload_probe_told_briefly(&o, emx_offload_probe_brief(&theirs));
        assert_int_equal(o.joined_told, theirs.joined_rx);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_goes_first_then_few), cmocka_unit_test(short_reports_say_the_same),
        cmocka_unit_test(reports_are_of_one_form), cmocka_unit_test(counts_wrap),
        cmocka_unit_test(losses_end_trust),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
