/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sized structures: programs that are older and newer than the library, and those that do not set struct_bytes.
 */
#include "unit.h"

#include <string.h>

#include "ethmx.h"

#include "endpoint/sized.h"

struct first {
    unsigned struct_bytes, a;
};

struct second {
    unsigned struct_bytes, a, b;
};

#define LEAST emx_sized_end(struct first, a)

static void an_older_programs_structure_is_filled_up(void **state)
{
    const struct first theirs = {.struct_bytes = sizeof(theirs), .a = 1};
    struct second own = {.b = 3};

    (void)state;
    assert_int_equal(emx_sized_in(&own, sizeof(own), LEAST, &theirs, theirs.struct_bytes, "second"), ETHMX_OK);
    assert_int_equal(own.a, 1);
    assert_int_equal(own.b, 0);
}

static void a_newer_programs_field_is_refused_if_it_is_set(void **state)
{
    struct second theirs = {.struct_bytes = sizeof(theirs), .a = 1};
    struct first own;

    (void)state;
    assert_int_equal(emx_sized_in(&own, sizeof(own), LEAST, &theirs, theirs.struct_bytes, "first"), ETHMX_OK);
    assert_int_equal(own.a, 1);
    theirs.b = 1;
    assert_int_equal(emx_sized_in(&own, sizeof(own), LEAST, &theirs, theirs.struct_bytes, "first"), ETHMX_ERR_VERSION);
    assert_non_null(strstr(ethmx_error_text(), "struct first"));
}

static void struct_bytes_must_be_set(void **state)
{
    const struct first theirs = {.a = 1};
    struct first own = {.a = 2};

    (void)state;
    assert_int_equal(emx_sized_in(&own, sizeof(own), LEAST, &theirs, theirs.struct_bytes, "first"), ETHMX_ERR_PARAM);
    assert_non_null(strstr(ethmx_error_text(), "sizeof(struct first)"));
    assert_int_equal(own.a, 2);
    assert_int_equal(emx_sized_check(LEAST - 1, LEAST, "first"), ETHMX_ERR_PARAM);
    assert_int_equal(emx_sized_check(LEAST, LEAST, "first"), ETHMX_OK);
}

/* Nothing is written beyond the program's structure, and nothing of it is left as it was. */
static void results_fit_the_programs_structure(void **state)
{
    const struct second own = {.struct_bytes = sizeof(own), .a = 1, .b = 2};
    struct {
        struct first theirs;
        unsigned after;
    } older = {.after = 7};
    struct {
        struct second theirs;
        unsigned more;
    } newer = {.more = 7};

    (void)state;
    emx_sized_out(&older.theirs, sizeof(older.theirs), &own, sizeof(own));
    assert_int_equal(older.theirs.a, 1);
    assert_int_equal(older.after, 7);
    emx_sized_out(&newer, sizeof(newer), &own, sizeof(own));
    assert_int_equal(newer.theirs.b, 2);
    assert_int_equal(newer.more, 0);
}

/* As a program uses them. */
static void the_interface_checks_them(void **state)
{
    const struct ethmx_ep_options unsized = {.api_version = ETHMX_API_VERSION};
    const struct ethmx_memory_case page = {
        .struct_bytes = sizeof(page), .registrar = "pin", .len_bytes = 4096, .threads = 1, .rounds = 1};
    const struct ethmx_memory_case unsized_page = {.registrar = "pin", .len_bytes = 4096, .threads = 1, .rounds = 1};
    struct ethmx_memory_cost cost = {.struct_bytes = sizeof(cost)}, unsized_cost = {.copy_ns = 5};
    struct ethmx_ep *ep;

    (void)state;
    assert_int_equal(ethmx_ep_open(NULL, &unsized, &ep), ETHMX_ERR_PARAM);
    assert_non_null(strstr(ethmx_error_text(), "sizeof(struct ethmx_ep_options)"));
    assert_int_equal(ethmx_memory_measure(&unsized_page, &cost), ETHMX_ERR_PARAM);
    assert_int_equal(ethmx_memory_measure(&page, &unsized_cost), ETHMX_ERR_PARAM);
    assert_int_equal(unsized_cost.copy_ns, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_programs_structure_is_filled_up),
        cmocka_unit_test(a_newer_programs_field_is_refused_if_it_is_set),
        cmocka_unit_test(struct_bytes_must_be_set),
        cmocka_unit_test(results_fit_the_programs_structure),
        cmocka_unit_test(the_interface_checks_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
