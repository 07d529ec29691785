/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "core/cc/reo_window.h"

static void a_gap_is_a_loss_at_first(void **state)
{
    struct emx_reo_window o = {0};

    (void)state;
    assert_int_equal(emx_reo_window_ns(&o, 40000, 1000000), 0);
    for (unsigned i = 0; i < 100; i++)
        emx_reo_window_was_loss(&o);
    assert_int_equal(emx_reo_window_ns(&o, 40000, 1000000), 0);
}

static void data_out_of_order_makes_it_wait(void **state)
{
    struct emx_reo_window o = {0};

    (void)state;
    for (unsigned i = 1; i <= 8; i++) {
        emx_reo_window_was_order(&o);
        assert_int_equal(emx_reo_window_ns(&o, 40000, 1000000), i * 10000);
    }
    for (unsigned i = 0; i < 100000; i++)
        emx_reo_window_was_order(&o);
    assert_int_equal(emx_reo_window_ns(&o, 40000, 1000000), 1000000);
    assert_int_equal(emx_reo_window_ns(&o, 40000, EMX_NEVER), 255 * 10000);
}

/* Of some losses in a row each takes longer to find; then the path is in order again. */
static void losses_end_it(void **state)
{
    struct emx_reo_window o = {0};

    (void)state;
    emx_reo_window_was_order(&o);
    for (unsigned i = 0; i < 15; i++)
        emx_reo_window_was_loss(&o);
    emx_reo_window_was_order(&o);
    assert_int_equal(emx_reo_window_ns(&o, 40000, 1000000), 20000);
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(emx_reo_window_ns(&o, 40000, 1000000), 20000);
        emx_reo_window_was_loss(&o);
    }
    assert_int_equal(emx_reo_window_ns(&o, 40000, 1000000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_is_a_loss_at_first),
        cmocka_unit_test(data_out_of_order_makes_it_wait),
        cmocka_unit_test(losses_end_it),
    };

    return cmocka_run_group_tests_name("reo_window", tests, NULL, NULL);
}
