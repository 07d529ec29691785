/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Segments: two mappings are the same memory; what is not this segment is refused; who has mapped one sees its end.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem/segment.h"

#define KEY 77

static void both_see_the_same(void **state)
{
    struct emx_segment *g = emx_segment_new(10000, true);
    struct emx_segment_map m;

    (void)state;
    assert_non_null(g);
    assert_true(g->fd >= 0 && !g->sharing.words);
    assert_int_equal((uintptr_t)g->memory % 4096, 0);
    for (size_t i = 0; i < 10000; i++)
        assert_int_equal(g->memory[i], 0);
    emx_segment_name(g, KEY);
    assert_int_equal(emx_segment_map(&m, g->fd, KEY, 10000), 0);
    assert_ptr_not_equal(m.view.memory, g->memory);
    assert_int_equal(m.view.len_bytes, 10000);
    g->memory[9999] = 5;
    m.view.memory[0] = 6;
    assert_int_equal(m.view.memory[9999], 5);
    assert_int_equal(g->memory[0], 6);
    assert_false(emx_segment_ended(&m));
    emx_segment_free(g);
    assert_true(emx_segment_ended(&m));
    m.view.memory[1] = 7; /* the memory is there as long as the map */
    emx_segment_unmap(&m);
    emx_segment_unmap(&m);
}

static void words_are_granted(void **state)
{
    struct emx_segment *g = emx_segment_new(5000, true);
    struct emx_segment_map m;

    (void)state;
    emx_segment_name(g, KEY);
    assert_int_equal(emx_segment_map(&m, g->fd, KEY, 5000), 0);
    assert_int_equal(*m.view.words, 0);
    emx_segment_grant(g);
    assert_int_equal(*m.view.words, 1);
    assert_true(g->sharing.words);
    assert_true(emx_gate_enter(m.view.gate, m.view.slot));
    assert_false(emx_gate_close(g->sharing.gate));
    emx_gate_leave(m.view.gate, m.view.slot);
    assert_true(emx_gate_close(g->sharing.gate));
    assert_false(emx_gate_enter(m.view.gate, m.view.slot));
    emx_segment_unmap(&m);
    emx_segment_free(g);
}

static void others_are_refused(void **state)
{
    struct emx_segment *g = emx_segment_new(5000, true);
    struct emx_segment_map m;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    (void)state;
    assert_non_null(g);
    assert_int_equal(emx_segment_map(&m, g->fd, KEY, 5000), EPROTO); /* it has no key */
    emx_segment_name(g, KEY);
    assert_int_equal(emx_segment_map(&m, g->fd, KEY + 1, 5000), EPROTO);
    assert_int_equal(emx_segment_map(&m, g->fd, KEY, 50000), EPROTO);
    assert_int_equal(emx_segment_map(&m, g->fd, KEY, UINT64_MAX), EPROTO);
    assert_int_equal(emx_segment_map(&m, -1, KEY, 5000), EPROTO);
    assert_null(m.head);
    assert_true(fd >= 0 && !ftruncate(fd, 3 * 4096));
    assert_int_equal(emx_segment_map(&m, fd, 0, 2 * 4096), EPROTO); /* it can shrink */
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    assert_int_equal(emx_segment_map(&m, fd, 0, 2 * 4096), 0);
    emx_segment_unmap(&m);
    close(fd);
    emx_segment_free(g);
}

static void alone(void **state)
{
    struct emx_segment *g = emx_segment_new(0, false);

    (void)state;
    assert_non_null(g);
    assert_true(g->fd < 0);
    emx_segment_free(g);
    assert_null(emx_segment_new(SIZE_MAX, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_see_the_same),
        cmocka_unit_test(words_are_granted),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(alone),
    };

    return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
