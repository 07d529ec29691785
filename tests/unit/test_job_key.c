/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The key of a job's run: what Slurm says of the run changes it, and nothing else does.
 */
#include "unit.h"

#include "endpoint/job_key.h"

#include <string.h>

struct key {
    uint8_t bytes[16];
};

static const struct key launchers = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

/* cluster, restart: NULL for a variable that is not set. */
static struct key of_run(struct key key, const char *cluster, const char *restart)
{
    unsetenv("SLURM_CLUSTER_NAME");
    unsetenv("SLURM_RESTART_COUNT");
    if (cluster)
        setenv("SLURM_CLUSTER_NAME", cluster, 1);
    if (restart)
        setenv("SLURM_RESTART_COUNT", restart, 1);
    emx_job_key_of_run(key.bytes);
    return key;
}

static bool same(struct key a, struct key b)
{
    return !memcmp(&a, &b, sizeof(a));
}

static void test_without_slurm(void **state)
{
    (void)state;
    assert_true(same(of_run(launchers, NULL, NULL), launchers));
}

static void test_each_run_has_its_own(void **state)
{
    struct key first = of_run(launchers, "c", NULL);

    (void)state;
    assert_false(same(first, launchers));
    assert_true(same(first, of_run(launchers, "c", NULL)));
    assert_false(same(first, of_run(launchers, "c", "1")));
    assert_false(same(of_run(launchers, "c", "1"), of_run(launchers, "c", "2")));
    assert_false(same(of_run(launchers, "c", "1"), of_run(launchers, "c1", NULL)));
    assert_false(same(of_run(launchers, "c", NULL), of_run(launchers, NULL, "c")));
    assert_false(same(of_run(launchers, "c", NULL), of_run(launchers, "d", NULL)));
}

static void test_keys_stay_apart(void **state)
{
    struct key other = launchers;

    (void)state;
    other.bytes[15]++;
    assert_false(same(of_run(launchers, "c", "1"), of_run(other, "c", "1")));
}

static void test_none_stays_none(void **state)
{
    static const struct key none;

    (void)state;
    assert_true(same(of_run(none, "c", "1"), none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_slurm),
        cmocka_unit_test(test_each_run_has_its_own),
        cmocka_unit_test(test_keys_stay_apart),
        cmocka_unit_test(test_none_stays_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
