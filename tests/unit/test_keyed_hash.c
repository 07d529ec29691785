/* SPDX-License-Identifier: BSD-3-Clause
 *
 * keyed: the published test vectors, and that purposes and secrets part keys.
 */
#include "unit.h"

#include <string.h>

#include "base/keyed_hash.h"

/* Of the paper by Aumasson and Bernstein, appendix A. */
static void siphash_vector(void **state)
{
    uint8_t key[EMX_KEYED_HASH_BYTES], data[15];

    (void)state;
    for (unsigned i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)i;
    for (unsigned i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)i;
    assert_true(emx_keyed_hash(key, data, sizeof(data)) == UINT64_C(0xa129ca6149be45e5));
}

static void keys_differ(void **state)
{
    uint8_t a[EMX_KEYED_HASH_BYTES] = {1}, b[EMX_KEYED_HASH_BYTES] = {2}, key[4][32];

    (void)state;
    emx_keyed_hash_derive(a, "one", 3, key[0], 32);
    emx_keyed_hash_derive(a, "two", 3, key[1], 32);
    emx_keyed_hash_derive(b, "one", 3, key[2], 32);
    emx_keyed_hash_derive(a, "one", 3, key[3], 32);
    assert_memory_equal(key[0], key[3], 32);
    assert_memory_not_equal(key[0], key[1], 16);
    assert_memory_not_equal(key[0], key[2], 16);
    assert_memory_not_equal(key[0], key[0] + 16, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(siphash_vector), cmocka_unit_test(keys_differ)};
    const char *why;

    if (!emx_keyed_hash_usable(&why)) {
        printf("SKIP: %s\n", why);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
