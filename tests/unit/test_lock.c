/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lock under stress: what it guards is plain data whose parts must always agree. The thread sanitizer sees the same
 * run.
 */
#include "unit.h"

#include <pthread.h>
#include <sched.h>

#include "endpoint/lock.h"

struct guarded {
    struct emx_lock lock;
    uint64_t a, b;      /* equal whenever nobody is inside */
    uint64_t by_helper; /* of a */
    unsigned broken;
    _Atomic bool stop;
};

#define PROGRAM_ROUNDS 400000
#define HELPER_ROUNDS  2000

static void step(struct guarded *g)
{
    uint64_t a = g->a;

    if (a != g->b)
        g->broken++;
    g->a = a + 1;
    atomic_signal_fence(memory_order_seq_cst);
    g->b = g->b + 1;
}

/* Uses the lock as the helper thread does, until it has been inside HELPER_ROUNDS times. */
static void *helper(void *arg)
{
    struct guarded *g = arg;

    while (g->by_helper < HELPER_ROUNDS) {
        if (!emx_lock_try(&g->lock)) {
            sched_yield();
            continue;
        }
        step(g);
        g->by_helper++;
        if (g->by_helper % 64 == 0)
            sched_yield(); /* keep it for long: the program must sleep on it */
        emx_lock_return(&g->lock);
    }
    return NULL;
}

static uint64_t run_program(struct guarded *g, uint64_t rounds)
{
    for (uint64_t i = 0; i < rounds; i++) {
        emx_lock_take(&g->lock);
        step(g);
        emx_lock_give(&g->lock);
    }
    return rounds;
}

static void check(struct guarded *g, uint64_t total)
{
    assert_int_equal(g->broken, 0);
    assert_int_equal(g->a, total);
    assert_int_equal(g->b, total);
}

static void program_and_helper(bool threads)
{
    struct guarded g = {0};
    uint64_t rounds = 0;
    pthread_t t;

    emx_lock_init(&g.lock, threads, true);
    assert_false(threads && g.lock.biased);
    assert_int_equal(pthread_create(&t, NULL, helper, &g), 0);
    rounds += run_program(&g, PROGRAM_ROUNDS);
    assert_int_equal(pthread_join(t, NULL), 0);
    check(&g, rounds + HELPER_ROUNDS);
}

static void biased_lock_keeps_the_helper_out(void **state)
{
    (void)state;
    program_and_helper(false);
}

static void mutex_keeps_the_helper_out(void **state)
{
    (void)state;
    program_and_helper(true);
}

/* A program that comes back while the helper is inside sleeps until it leaves. */
static void *hold_until_wanted(void *arg)
{
    struct guarded *g = arg;

    while (!emx_lock_try(&g->lock))
        sched_yield();
    atomic_store(&g->stop, true);
    while (!emx_lock_wanted(&g->lock))
        sched_yield();
    step(g);
    emx_lock_return(&g->lock);
    return NULL;
}

static void program_waits_for_helper(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        struct guarded g = {0};
        pthread_t t;

        emx_lock_init(&g.lock, i % 2, true);
        assert_int_equal(pthread_create(&t, NULL, hold_until_wanted, &g), 0);
        while (!atomic_load(&g.stop))
            sched_yield();
        run_program(&g, 1);
        assert_int_equal(pthread_join(t, NULL), 0);
        check(&g, 2);
    }
}

static void helper_gives_up_at_once(void **state)
{
    struct emx_lock l;

    (void)state;
    for (unsigned threads = 0; threads < 2; threads++) {
        emx_lock_init(&l, threads, true);
        emx_lock_take(&l);
        assert_false(emx_lock_try(&l));
        emx_lock_give(&l);
        assert_true(emx_lock_try(&l));
        assert_false(emx_lock_wanted(&l));
        emx_lock_return(&l);
        emx_lock_take(&l);
        emx_lock_give(&l);
    }
}

static void *program_thread(void *arg)
{
    run_program(arg, PROGRAM_ROUNDS / 4);
    return NULL;
}

static void many_threads(void **state)
{
    struct guarded g = {0};
    pthread_t t[4], h;

    (void)state;
    emx_lock_init(&g.lock, true, true);
    for (unsigned i = 0; i < ARRAY_LEN(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, program_thread, &g), 0);
    assert_int_equal(pthread_create(&h, NULL, helper, &g), 0);
    for (unsigned i = 0; i < ARRAY_LEN(t); i++)
        assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_int_equal(pthread_join(h, NULL), 0);
    check(&g, PROGRAM_ROUNDS + HELPER_ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(helper_gives_up_at_once),
        cmocka_unit_test(program_waits_for_helper),
        cmocka_unit_test(biased_lock_keeps_the_helper_out),
        cmocka_unit_test(mutex_keeps_the_helper_out),
        cmocka_unit_test(many_threads),
    };

    return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
