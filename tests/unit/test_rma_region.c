/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_region: regions are found by their keys, however many there are, and nothing is within them but their bytes.
 */
#include "unit.h"

#include <string.h>

#include "base/config.h"
#include "base/hash.h"
#include "core/engine.h"
#include "core/rma/rma.h"
#include "core/rma/rma_region.h"

#define REGIONS 1000

static struct emx_config cfg;
static struct emx_stats stats;
static struct unit_alloc memory;
static struct emx_engine *engine;
static uint8_t mem[REGIONS];

static int begin(void **state)
{
    const struct emx_address self = {.id = 1, .cookie = 2, .host_id = 3};
    const struct emx_engine_params p = {.cfg = &cfg, .stats = &stats, .alloc = &memory.alloc, .self = &self, .seed = 1};

    (void)state;
    memset(&stats, 0, sizeof(stats));
    unit_alloc_init(&memory);
    emx_config_defaults(&cfg);
    assert_int_equal(emx_engine_create(&p, &engine), ETHMX_OK);
    return 0;
}

static int end(void **state)
{
    (void)state;
    emx_engine_destroy(engine);
    assert_int_equal(memory.live, 0);
    return 0;
}

static uint64_t key_of(unsigned i)
{
    return emx_mix64(i + 1);
}

static struct emx_rma_region *expose(void *base, size_t len_bytes, uint64_t key)
{
    struct emx_rma_region *region;

    assert_int_equal(emx_engine_expose(engine, base, len_bytes, key, EMX_RMA_MAY_BOTH, &region), ETHMX_OK);
    return region;
}

static void many(void **state)
{
    static struct emx_rma_region *region[REGIONS];

    (void)state;
    assert_null(emx_rma_memory(engine, key_of(0), 0, 0, ETHMX_RMA_MAY_READ, NULL));
    for (unsigned i = 0; i < REGIONS; i++)
        region[i] = expose(mem + i, REGIONS - i, key_of(i));
    assert_int_equal(stats.rma_regions, REGIONS);
    for (unsigned i = 0; i < REGIONS; i += 2)
        assert_int_equal(emx_engine_withdraw(engine, region[i], 0), ETHMX_OK);
    for (unsigned i = 0; i < REGIONS; i++) {
        struct emx_rma_region *found = NULL;

        assert_ptr_equal(emx_rma_memory(engine, key_of(i), 0, 1, ETHMX_RMA_MAY_READ, &found), i % 2 ? mem + i : NULL);
        assert_ptr_equal(found, i % 2 ? region[i] : NULL);
    }
    assert_int_equal(stats.rma_regions, REGIONS / 2);
}

static void ranges(void **state)
{
    (void)state;
    expose(mem, 100, 7);
    assert_ptr_equal(emx_rma_memory(engine, 7, 0, 100, ETHMX_RMA_MAY_READ, NULL), mem);
    assert_ptr_equal(emx_rma_memory(engine, 7, 99, 1, ETHMX_RMA_MAY_READ, NULL), mem + 99);
    assert_ptr_equal(emx_rma_memory(engine, 7, 100, 0, ETHMX_RMA_MAY_READ, NULL), mem + 100);
    assert_null(emx_rma_memory(engine, 7, 99, 2, ETHMX_RMA_MAY_READ, NULL));
    assert_null(emx_rma_memory(engine, 7, 101, 0, ETHMX_RMA_MAY_READ, NULL));
    assert_null(emx_rma_memory(engine, 7, 0, 101, ETHMX_RMA_MAY_READ, NULL));
    assert_null(emx_rma_memory(engine, 7, UINT64_MAX, 1, ETHMX_RMA_MAY_READ, NULL));
    assert_null(emx_rma_memory(engine, 7, 1, UINT64_MAX, ETHMX_RMA_MAY_READ, NULL));
    assert_null(emx_rma_memory(engine, 8, 0, 1, ETHMX_RMA_MAY_READ, NULL));
}

static void access_is_limited(void **state)
{
    static const unsigned all[] = {0, ETHMX_RMA_MAY_READ, ETHMX_RMA_MAY_WRITE, EMX_RMA_MAY_BOTH};
    struct emx_rma_region *region;

    (void)state;
    for (unsigned may = 0; may < ARRAY_LEN(all); may++) {
        assert_int_equal(emx_engine_expose(engine, mem, 10, 7 + may, all[may], &region), ETHMX_OK);
        for (unsigned need = 0; need < ARRAY_LEN(all); need++)
            assert_int_equal(emx_rma_memory(engine, 7 + may, 0, 1, all[need], NULL) != NULL,
                             (all[may] & all[need]) == all[need]);
    }
}

static void of_no_bytes(void **state)
{
    (void)state;
    expose(NULL, 0, 7);
    assert_non_null(emx_rma_memory(engine, 7, 0, 0, ETHMX_RMA_MAY_READ, NULL));
    assert_null(emx_rma_memory(engine, 7, 0, 1, ETHMX_RMA_MAY_READ, NULL));
}

static void keys_that_are_none(void **state)
{
    struct emx_rma_region *region = NULL;

    (void)state;
    expose(mem, 100, 7);
    assert_int_equal(emx_engine_expose(engine, mem, 100, 7, EMX_RMA_MAY_BOTH, &region), ETHMX_ERR_PARAM);
    assert_int_equal(emx_engine_expose(engine, mem, 100, 0, EMX_RMA_MAY_BOTH, &region), ETHMX_ERR_PARAM);
    assert_null(region);
    assert_int_equal(stats.rma_regions, 1);
}

/* Without memory a region is not exposed, and others stay. Each number of allocations that succeed is tried. */
static void out_of_memory(void **state)
{
    struct emx_rma_region *region;
    unsigned exposed = 0, failed = 0;

    (void)state;
    for (unsigned i = 0; exposed < 40; i++) {
        memory.fail_at = i % 3 ? 0 : memory.calls + 1 + i % 2;
        if (emx_engine_expose(engine, mem, 10, key_of(exposed), EMX_RMA_MAY_BOTH, &region) == ETHMX_OK)
            exposed++;
        else
            failed++;
    }
    memory.fail_at = 0;
    assert_true(failed);
    for (unsigned i = 0; i < exposed; i++)
        assert_non_null(emx_rma_memory(engine, key_of(i), 0, 10, ETHMX_RMA_MAY_READ, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(many, begin, end),
        cmocka_unit_test_setup_teardown(ranges, begin, end),
        cmocka_unit_test_setup_teardown(of_no_bytes, begin, end),
        cmocka_unit_test_setup_teardown(access_is_limited, begin, end),
        cmocka_unit_test_setup_teardown(keys_that_are_none, begin, end),
        cmocka_unit_test_setup_teardown(out_of_memory, begin, end),
    };

    return cmocka_run_group_tests_name("rma_region", tests, NULL, NULL);
}
