/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gate: the owner's plain changes and the visitors' atomic ones never meet, so none is lost.
 */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/gate.h"

static struct emx_gate gate;

static int begin(void **state)
{
    (void)state;
    memset(&gate, 0, sizeof(gate));
    return 0;
}

static void visitors_keep_the_owner_out(void **state)
{
    (void)state;
    for (unsigned slot = 0; slot < 2 * EMX_GATE_SLOTS; slot++) {
        assert_true(emx_gate_enter(&gate, slot));
        assert_true(emx_gate_enter(&gate, slot));
        assert_false(emx_gate_close(&gate));
        emx_gate_leave(&gate, slot);
        assert_false(emx_gate_close(&gate));
        assert_true(emx_gate_enter(&gate, slot + 1)); /* it is open again */
        emx_gate_leave(&gate, slot);
        emx_gate_leave(&gate, slot + 1);
        assert_true(emx_gate_close(&gate));
        emx_gate_open(&gate);
    }
}

static void the_owner_keeps_visitors_out(void **state)
{
    (void)state;
    assert_true(emx_gate_close(&gate));
    for (unsigned slot = 0; slot < EMX_GATE_SLOTS; slot++)
        assert_false(emx_gate_enter(&gate, slot));
    emx_gate_open(&gate);
    for (unsigned slot = 0; slot < EMX_GATE_SLOTS; slot++)
        assert_true(emx_gate_enter(&gate, slot));
}

#define VISITORS 3
#define TIMES    200000
#define WORDS    16

static uint64_t words[WORDS];
static unsigned slots[VISITORS] = {0, 5, 5};

static void add_by_instructions(void)
{
    for (unsigned i = 0; i < WORDS; i++)
        __atomic_fetch_add(&words[i], 1, __ATOMIC_RELAXED);
}

static void *visit(void *arg)
{
    unsigned slot = *(const unsigned *)arg;

    for (unsigned n = 0; n < TIMES; n++) {
        while (!emx_gate_enter(&gate, slot))
            sched_yield();
        add_by_instructions();
        emx_gate_leave(&gate, slot);
    }
    return NULL;
}

static void own(void)
{
    if (emx_gate_close(&gate))
        for (unsigned i = 0; i < WORDS; i++)
            words[i]++;
    else
        add_by_instructions();
    emx_gate_open(&gate);
}

static void nothing_is_lost(void **state)
{
    pthread_t t[VISITORS];

    (void)state;
    memset(words, 0, sizeof(words));
    for (unsigned i = 0; i < VISITORS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, visit, &slots[i]), 0);
    for (unsigned n = 0; n < TIMES; n++)
        own();
    for (unsigned i = 0; i < VISITORS; i++)
        pthread_join(t[i], NULL);
    for (unsigned i = 0; i < WORDS; i++)
        assert_int_equal(words[i], (VISITORS + 1) * TIMES);
    assert_true(emx_gate_close(&gate));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(visitors_keep_the_owner_out, begin),
        cmocka_unit_test_setup(the_owner_keeps_visitors_out, begin),
        cmocka_unit_test_setup(nothing_is_lost, begin),
    };

    return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
