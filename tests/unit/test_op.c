/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations' numbers: how long it takes until one comes again. And what a new operation starts with.
 */

#include <string.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/msg/op.h"
#include "unit.h"

#define SLOTS       255 /* of a table that was not needed to be larger: without slot 0 */
#define GENERATIONS 1024

static struct emx_config cfg;
static struct emx_stats stats;
static struct unit_alloc memory;

static struct emx_engine *begin(void)
{
    static const struct emx_address self = {.id = 1, .cookie = 2};
    const struct emx_engine_params p = {.cfg = &cfg, .stats = &stats, .alloc = &memory.alloc, .self = &self, .seed = 1};
    struct emx_engine *e = NULL;

    unit_alloc_init(&memory);
    emx_config_defaults(&cfg);
    assert_int_equal(emx_engine_create(&p, &e), ETHMX_OK);
    return e;
}

static void end(struct emx_engine *e)
{
    emx_engine_destroy(e);
    assert_int_equal(memory.live, 0);
}

/* A frame that is late by fewer operations than this meets none of them. */
static void a_number_comes_again_late(void **state)
{
    const struct emx_op_args none = {.bits = 0};
    struct emx_engine *e = begin();
    struct emx_op *op = emx_op_new(e, &none, 0);
    uint32_t first;
    unsigned n = 1;

    (void)state;
    assert_true(emx_op_take_id(e, op));
    first = op->id;
    for (emx_op_drop_id(e, op); n < 2 * SLOTS * GENERATIONS; n++) {
        assert_true(emx_op_take_id(e, op));
        if (op->id == first)
            break;
        emx_op_drop_id(e, op);
    }
    assert_int_equal(n, SLOTS * GENERATIONS);
    emx_op_recycle(e, op);
    end(e);
}

/* More at once than the table had room for: all are different, and all are found. */
static void numbers_are_different(void **state)
{
    static struct emx_op *op[1000];
    const struct emx_op_args none = {.bits = 0};
    struct emx_engine *e = begin();

    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < ARRAY_LEN(op); i++) {
            op[i] = emx_op_new(e, &none, 0);
            assert_true(op[i] && emx_op_take_id(e, op[i]) && op[i]->id);
        }
        for (unsigned i = 0; i < ARRAY_LEN(op); i++)
            for (unsigned k = 0; k < i; k++)
                assert_true(op[i]->id != op[k]->id);
        for (unsigned i = 0; i < ARRAY_LEN(op); i++)
            emx_op_drop_id(e, op[i]), emx_op_recycle(e, op[i]);
    }
    end(e);
}

/* The memory of a former operation says nothing about the next one in it. */
static void a_new_one_knows_nothing_of_the_last(void **state)
{
    const struct emx_op_args none = {.bits = 0};
    struct emx_engine *e = begin();
    struct emx_op *op = emx_op_new(e, &none, 0), *next;

    (void)state;
    op->asked = op->matched = op->eager = op->sync = op->is_am = op->is_send = true;
    op->reading = 1;
    emx_op_recycle(e, op);
    next = emx_op_new(e, &none, 0);
    assert_ptr_equal(next, op);
    assert_false(next->asked || next->matched || next->eager || next->sync || next->is_am || next->is_send);
    assert_int_equal(next->reading, 0);
    emx_op_recycle(e, next);
    end(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_number_comes_again_late),
                                       cmocka_unit_test(numbers_are_different),
                                       cmocka_unit_test(a_new_one_knows_nothing_of_the_last)};

    return cmocka_run_group_tests_name("op", tests, NULL, NULL);
}
