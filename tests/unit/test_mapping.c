/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The process's mappings: asked for and read from the text, which must say the same; and which of them are anonymous.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem/mapping.h"

static int fd;
static size_t page;

static int setup(void **state)
{
    char why[128];

    (void)state;
    page = (size_t)sysconf(_SC_PAGESIZE);
    fd = emx_mapping_open(why, sizeof(why));
    return fd < 0;
}

static struct emx_mapping look(const void *at)
{
    struct emx_mapping m, t;

    assert_true(emx_mapping_find(fd, (uintptr_t)at, &m));
    assert_true(emx_mapping_find_in_text(fd, (uintptr_t)at, &t));
    assert_int_equal(m.base, t.base);
    assert_int_equal(m.end, t.end);
    assert_int_equal(m.anonymous, t.anonymous);
    return m;
}

static char *map(size_t pages, int flags, int file)
{
    char *p = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, flags, file, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

static void test_bounds(void **state)
{
    char *p = map(5, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    struct emx_mapping m;

    (void)state;
    assert_int_equal(munmap(p, page), 0);
    assert_int_equal(mprotect(p + 3 * page, page, PROT_READ), 0);
    m = look(p + 2 * page - 1);
    assert_int_equal(m.base, p + page);
    assert_int_equal(m.end, p + 3 * page);
    m = look(p + 3 * page);
    assert_int_equal(m.base, p + 3 * page);
    assert_int_equal(m.end, p + 4 * page);
    assert_true(m.anonymous);
    assert_false(emx_mapping_find(fd, (uintptr_t)p, &m));
    assert_false(emx_mapping_find_in_text(fd, (uintptr_t)p, &m));
    assert_false(emx_mapping_find(fd, 0, &m));
    assert_int_equal(munmap(p + page, 4 * page), 0);
}

static void test_kinds(void **state)
{
    int file = memfd_create("ethmx", MFD_CLOEXEC), program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    static char zero[1];
    char local, *p;

    (void)state;
    assert_true(file >= 0 && program >= 0);
    assert_int_equal(ftruncate(file, (off_t)page), 0);
    assert_true(look(&local).anonymous);
    p = malloc(1);
    assert_true(look(p).anonymous);
    free(p);
    p = map(1, MAP_SHARED | MAP_ANONYMOUS, -1);
    assert_false(look(p).anonymous);
    munmap(p, page);
    p = map(1, MAP_SHARED, file);
    assert_false(look(p).anonymous);
    munmap(p, page);
    p = map(1, MAP_PRIVATE, file);
    *p = 1; /* its own copy now, and still of the file */
    assert_false(look(p).anonymous);
    munmap(p, page);
    p = map(1, MAP_PRIVATE, program);
    assert_false(look(p).anonymous);
    munmap(p, page);
    (void)look(zero); /* of the program's file or behind it: as it happens to lie */
    close(file);
    close(program);
}

static void test_huge(void **state)
{
    size_t bytes = (size_t)2 << 20;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    struct emx_mapping m;

    (void)state;
    if (p == MAP_FAILED) {
        print_message("left out: no huge page is free (vm.nr_hugepages)\n");
        return;
    }
    m = look(p);
    assert_true(m.anonymous);
    assert_int_equal(m.end - m.base, bytes);
    munmap(p, bytes);
}

/* So many mappings that the text comes in pieces. */
static void test_many(void **state)
{
    enum { MANY = 400 };
    char *p = map(2 * MANY, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(mprotect(p + 2 * i * page, page, PROT_READ), 0);
    for (unsigned i = 0; i < 2 * MANY - 1; i += 7) {
        struct emx_mapping m = look(p + i * page);

        assert_int_equal(m.base, p + i * page);
        assert_int_equal(m.end, p + (i + 1) * page);
    }
    munmap(p, 2 * MANY * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds), cmocka_unit_test(test_kinds),
                                       cmocka_unit_test(test_huge), cmocka_unit_test(test_many)};

    return cmocka_run_group_tests(tests, setup, NULL);
}
