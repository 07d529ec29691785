/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Making the kernel send: with kernels that copy, and with drivers that send when they like, or not at all.
 */
#include "unit.h"

#include <errno.h>
#include <linux/if_xdp.h>

#include "wire/backlog.h"
#include "wire/xdp/xdp_kick.h"

/* A ring, and a kernel that takes `each` descriptors in a call, and then says err (0: all is well). */
static uint32_t producer, consumer, flags;
static unsigned calls, each, tries;
static int err;

static int wake(int fd)
{
    (void)fd;
    calls++;
    assert_true(calls < 1000); /* whoever is called so often is waited for */
    consumer += producer - consumer < each ? producer - consumer : each;
    errno = err;
    return err ? -1 : 0;
}

static unsigned kick(unsigned frames, unsigned taken, int error, bool *stuck_p)
{
    const struct emx_xdp_kick k = {
        .producer = &producer, .consumer = &consumer, .flags = &flags, .wake = wake, .fd = -1, .tries = &tries};

    producer = consumer + frames;
    calls = 0;
    each = taken;
    err = error;
    return emx_xdp_kick(&k, stuck_p);
}

static void begin(void)
{
    consumer = UINT32_MAX - 5; /* it goes round */
    flags = XDP_RING_NEED_WAKEUP;
    tries = 0;
}

static void copying_kernel_is_called_until_all_is_sent(void **state)
{
    bool stuck;

    (void)state;
    begin();
    assert_int_equal(kick(64, 16, 0, &stuck), 0);
    assert_true(!stuck && calls == 4 && consumer == producer);
    assert_int_equal(kick(3, 1, ENXIO, &stuck), 3); /* each of them is refused, and it goes on */
    assert_true(!stuck && consumer == producer);
    assert_int_equal(kick(0, 1, 0, &stuck), 0);
    assert_int_equal(calls, 0);
}

/* Zero copy: the call wakes, returns 0, and the ring is as it was; without a carrier it stays so. */
static void driver_is_woken_and_not_waited_for(void **state)
{
    bool stuck;

    (void)state;
    begin();
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(kick(64, 0, 0, &stuck), 0);
        assert_false(stuck);
        assert_int_equal(calls, 1);
    }
    flags = 0; /* it is at work */
    assert_int_equal(kick(64, 64, 0, &stuck), 0);
    assert_int_equal(calls, 0);
}

static void full_queue_is_tried_again_but_not_for_ever(void **state)
{
    unsigned rounds = 0;
    bool stuck;

    (void)state;
    begin();
    do {
        assert_int_equal(kick(8, 0, ENOBUFS, &stuck), 0);
        assert_int_equal(calls, 1);
    } while (!stuck && ++rounds <= EMX_BACKLOG_TRIES);
    assert_true(stuck);
    assert_int_equal(rounds, EMX_BACKLOG_TRIES);
    tries = 0;
    kick(8, 0, ENETDOWN, &stuck);
    assert_true(stuck);
}

/* What was not sent without a carrier is sent by a later call. */
static void stuck_ring_goes_on_later(void **state)
{
    bool stuck;

    (void)state;
    begin();
    kick(8, 0, EBUSY, &stuck);
    assert_true(stuck && calls == 1);
    assert_int_equal(kick(8, 3, 0, &stuck), 0);
    assert_true(!stuck && consumer == producer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copying_kernel_is_called_until_all_is_sent),
        cmocka_unit_test(driver_is_woken_and_not_waited_for),
        cmocka_unit_test(full_queue_is_tried_again_but_not_for_ever),
        cmocka_unit_test(stuck_ring_goes_on_later),
    };

    return cmocka_run_group_tests_name("xdp_kick", tests, NULL, NULL);
}
