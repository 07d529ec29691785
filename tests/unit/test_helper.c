/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The helper thread's way in, taken by the test itself: the endpoints have no helper, or one that looks in much later.
 * What the thread does is seen in test_api and test_wait_policy. Over udp on loopback unless ETHMX_* variables say
 * otherwise.
 */
#include "unit.h"

#include "endpoint/helper.h"

static struct ethmx_ep *open_ep(bool threads, const char *heartbeat)
{
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION, .thread_multiple = threads};
    struct ethmx_config *cfg;
    struct ethmx_ep *ep;

    assert_int_equal(ethmx_config_create(&cfg), ETHMX_OK);
    assert_int_equal(ethmx_config_set(cfg, "heartbeat", heartbeat, "test"), ETHMX_OK);
    assert_int_equal(ethmx_ep_open(cfg, &opt, &ep), ETHMX_OK);
    ethmx_config_destroy(cfg);
    return ep;
}

/* A program may lie down after the helper has last looked for sleepers and before it gets the lock. What the helper
 * then took from the wires would not wake it. */
static void comes_in_only_to_who_is_away(struct ethmx_ep *ep)
{
    assert_true(emx_helper_enter(ep));
    emx_lock_return(&ep->lock);

    emx_lock_take(&ep->lock);
    assert_false(emx_helper_enter(ep));
    atomic_fetch_add(&ep->sleepers, 1);
    emx_lock_give(&ep->lock);
    assert_false(emx_helper_enter(ep));

    /* The lock is as it was: the sleeper comes back. */
    atomic_fetch_sub(&ep->sleepers, 1);
    emx_lock_take(&ep->lock);
    emx_lock_give(&ep->lock);
    assert_true(emx_helper_enter(ep));
    emx_lock_return(&ep->lock);
    ethmx_ep_close(ep);
}

static void not_to_sleepers_with_the_mutex(void **state)
{
    (void)state;
    comes_in_only_to_who_is_away(open_ep(true, "0"));
}

/* The thread is there, for without it the biased lock lets no helper in. */
static void not_to_sleepers_with_the_biased_lock(void **state)
{
    (void)state;
    comes_in_only_to_who_is_away(open_ep(false, "60s"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_to_sleepers_with_the_mutex),
        cmocka_unit_test(not_to_sleepers_with_the_biased_lock),
    };

    setenv("ETHMX_WIRES", "udp", 0);
    setenv("ETHMX_IF", "lo", 0);
    return cmocka_run_group_tests_name("beat", tests, NULL, NULL);
}
