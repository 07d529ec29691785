/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <string.h>

#include "core/format/pack.h"

#define MOST 256

/* data is like base but for some of its bytes, and of another length. */
static bool round_trip(uint64_t seed)
{
    struct emx_rng rng = {seed};
    uint8_t base[MOST], data[MOST], out[MOST], *packed = malloc(EMX_PACK_MAX(MOST));
    size_t base_bytes = (size_t)emx_rng_below(&rng, MOST + 1), len_bytes = 1 + (size_t)emx_rng_below(&rng, MOST);
    unsigned changed_ppm = (unsigned)emx_rng_below(&rng, 1000001);
    size_t packed_bytes;

    for (size_t i = 0; i < base_bytes; i++)
        base[i] = (uint8_t)emx_rng_next(&rng);
    for (size_t i = 0; i < len_bytes; i++)
        data[i] = i < base_bytes && !emx_rng_chance(&rng, changed_ppm) ? base[i] : (uint8_t)emx_rng_next(&rng);
    packed_bytes = emx_pack(base, base_bytes, data, len_bytes, packed);
    CHECK(packed_bytes >= 1 && packed_bytes <= EMX_PACK_MAX(len_bytes));
    CHECK(emx_unpack(base, base_bytes, packed, packed_bytes, out) == len_bytes);
    CHECK(!memcmp(out, data, len_bytes));
    free(packed);
    return true;
}

static void comes_back_as_it_was(void **state)
{
    (void)state;
    each_seed(20000, round_trip);
}

static void equal_bytes_cost_one(void **state)
{
    uint8_t data[MOST], packed[EMX_PACK_MAX(MOST)];

    (void)state;
    memset(data, 7, sizeof(data));
    assert_int_equal(emx_pack(data, MOST, data, MOST, packed), 1);
    assert_int_equal(emx_pack(data, MOST, data, 10, packed), 1);
}

static void a_difference_costs_itself_and_a_step(void **state)
{
    uint8_t base[100] = {0}, data[100] = {0}, packed[EMX_PACK_MAX(100)];

    (void)state;
    data[10] = data[11] = data[13] = 1;
    assert_int_equal(emx_pack(base, 100, data, 100, packed), 1 + 1 + 4);
    data[29] = 1;
    assert_int_equal(emx_pack(base, 100, data, 100, packed), 1 + 1 + 4 + 1 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back_as_it_was),
        cmocka_unit_test(equal_bytes_cost_one),
        cmocka_unit_test(a_difference_costs_itself_and_a_step),
    };

    return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
