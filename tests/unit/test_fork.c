/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which kernels take registered memory away at a fork.
 */
#include "unit.h"

#include "mem/fork.h"

static void kernels_are_told_apart(void **state)
{
    static const struct {
        const char *release;
        bool takes;
    } row[] = {
        {"5.10.0-30-amd64", true},    {"5.11.22", true},  {"5.12.0-rc1", false}, {"5.14.0-427.el9.x86_64", false},
        {"4.18.0-553.el8", true},     {"6.1.0-9", false}, {"10.0", false},       {"3.10.0-1160.el7", true},
        {"of nobody's making", true}, {"", true},
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(row); i++)
        assert_int_equal(emx_fork_takes_pinned(row[i].release), row[i].takes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_told_apart),
    };

    return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
