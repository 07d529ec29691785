/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The helper thread's way in, taken by the test itself: the endpoints have no helper, or one that looks in much later.
 * What the thread does is seen in test_api and test_wait_policy. Over udp on loopback unless ETHMX_* variables say
 * otherwise.
 */
#include "unit.h"

#include <sched.h>
#include <string.h>

#include "endpoint/helper.h"
#include "ethmx_rma.h"

static struct ethmx_ep *open_ep(bool threads, const char *heartbeat)
{
    struct ethmx_ep_options opt = {
        .api_version = ETHMX_API_VERSION, .struct_bytes = sizeof(opt), .thread_multiple = threads};
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

static uint64_t counter(const struct ethmx_ep *ep, const char *name)
{
    for (unsigned i = 0; ethmx_counter(i); i++)
        if (!strcmp(ethmx_counter(i)->name, name))
            return ethmx_counter_read(ep, i);
    fail_msg("no counter %s", name);
    return 0;
}

/* The program makes no call: as long as memory is exposed, the thread takes over soon. */
static void comes_while_memory_is_exposed(bool threads, const char *heartbeat)
{
    struct ethmx_ep *ep = open_ep(threads, heartbeat);
    struct ethmx_region *region;
    uint64_t key;
    char mem[8];

    assert_int_equal(ethmx_rma_expose(ep, mem, sizeof(mem), &region, &key), ETHMX_OK);
    assert_non_null(ep->helper);
    while (!counter(ep, "helper_runs"))
        sched_yield(); /* a thread that does not come is a test that does not end */
    assert_int_equal(ethmx_rma_withdraw(ep, region), ETHMX_OK);
    assert_int_equal(atomic_load(&ep->regions), 0);
    ethmx_ep_close(ep);
}

static void serves_exposed_memory(void **state)
{
    (void)state;
    comes_while_memory_is_exposed(true, "0");
    comes_while_memory_is_exposed(false, "0");
    comes_while_memory_is_exposed(false, "60s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_to_sleepers_with_the_mutex),
        cmocka_unit_test(not_to_sleepers_with_the_biased_lock),
        cmocka_unit_test(serves_exposed_memory),
    };

    setenv("ETHMX_WIRES", "udp", 0);
    setenv("ETHMX_IF", "lo", 0);
    return cmocka_run_group_tests_name("beat", tests, NULL, NULL);
}
