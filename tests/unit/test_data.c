/* SPDX-License-Identifier: BSD-3-Clause
 *
 * data: the three shapes of a program's memory read and write alike, at every offset and length.
 */
#include "unit.h"

#include <string.h>

#include "core/msg/data.h"

#define LEN 61

static uint8_t flat[LEN], scattered[2 * LEN], called[LEN];
static struct ethmx_iov iov[5];

static void read_called(void *arg, size_t offset, void *buf, size_t len_bytes)
{
    memcpy(buf, (uint8_t *)arg + offset, len_bytes);
}

static void write_called(void *arg, size_t offset, void *buf, size_t len_bytes)
{
    memcpy((uint8_t *)arg + offset, buf, len_bytes);
}

/* LEN bytes in pieces of 7, 0, 20, 1 and 33, each with a gap behind. */
static void lay_out(void)
{
    static const size_t piece[] = {7, 0, 20, 1, 33};
    uint8_t *at = scattered;

    for (unsigned i = 0; i < ARRAY_LEN(piece); i++) {
        iov[i] = (struct ethmx_iov){.base = at, .len_bytes = piece[i]};
        at += piece[i] + 3;
    }
}

static struct ethmx_data shape(unsigned i, bool writing)
{
    const struct ethmx_data data[] = {
        {.len_bytes = LEN, .base = flat},
        {.len_bytes = LEN, .iov = iov, .iov_count = ARRAY_LEN(iov)},
        {.len_bytes = LEN, .copy = writing ? write_called : read_called, .copy_arg = called},
    };

    return data[i];
}

static void fill(const struct ethmx_data *d, uint8_t first)
{
    for (size_t i = 0; i < LEN; i++) {
        uint8_t b = (uint8_t)(first + i);

        emx_data_write(d, i, &b, 1);
    }
}

static void every_part(void **state)
{
    (void)state;
    lay_out();
    for (unsigned s = 0; s < 3; s++) {
        struct ethmx_data in = shape(s, true), out = shape(s, false);

        fill(&in, 100);
        for (size_t offset = 0; offset <= LEN; offset++)
            for (size_t n = 0; n <= LEN - offset; n++) {
                uint8_t got[LEN];

                emx_data_read(&out, offset, got, n);
                for (size_t i = 0; i < n; i++)
                    assert_int_equal(got[i], (uint8_t)(100 + offset + i));
            }
    }
}

static void write_in_parts(void **state)
{
    uint8_t want[LEN], got[LEN];

    (void)state;
    lay_out();
    for (size_t i = 0; i < LEN; i++)
        want[i] = (uint8_t)(7 * i);
    for (unsigned s = 0; s < 3; s++)
        for (size_t part = 1; part <= LEN; part++) {
            struct ethmx_data in = shape(s, true), out = shape(s, false);

            fill(&in, 0);
            for (size_t offset = 0; offset < LEN; offset += part)
                emx_data_write(&in, offset, want + offset, LEN - offset < part ? LEN - offset : part);
            emx_data_read(&out, 0, got, LEN);
            assert_memory_equal(got, want, LEN);
        }
}

static void beyond_the_end_is_left_out(void **state)
{
    uint8_t more[LEN + 20], got[LEN];

    (void)state;
    lay_out();
    memset(more, 0xab, sizeof(more));
    for (unsigned s = 0; s < 3; s++) {
        struct ethmx_data in = shape(s, true), out = shape(s, false);

        fill(&in, 1);
        emx_data_write(&in, LEN, more, 20);
        emx_data_write(&in, LEN + 5, more, 3);
        emx_data_write(&in, LEN - 2, more, 20);
        emx_data_read(&out, 0, got, LEN);
        for (size_t i = 0; i < LEN; i++)
            assert_int_equal(got[i], i < LEN - 2 ? (uint8_t)(1 + i) : 0xab);
    }
}

static void pieces(void **state)
{
    struct ethmx_data d = shape(1, false), f = shape(0, false), c = shape(2, false);

    (void)state;
    lay_out();
    assert_ptr_equal(emx_data_piece(&f, 5, 9), flat + 5);
    assert_null(emx_data_piece(&c, 0, 1));
    assert_ptr_equal(emx_data_piece(&d, 0, 7), iov[0].base);
    assert_null(emx_data_piece(&d, 0, 8));
    assert_ptr_equal(emx_data_piece(&d, 7, 20), iov[2].base);
    assert_ptr_equal(emx_data_piece(&d, 28, 33), iov[4].base);
    assert_null(emx_data_piece(&d, 28, 34));
}

static void copies(void **state)
{
    static uint8_t big[10000], copy[10000];
    struct ethmx_data from = {.len_bytes = sizeof(big), .copy = read_called, .copy_arg = big};
    struct ethmx_data to = {.len_bytes = sizeof(copy), .base = copy};

    (void)state;
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (uint8_t)(i * 31 >> 3);
    emx_data_copy(&to, &from, sizeof(big));
    assert_memory_equal(big, copy, sizeof(big));
}

/* Each length that has a way of its own, at each end of its range; nothing beside it is touched. */
static void short_copies(void **state)
{
    uint8_t from[64], to[64];

    (void)state;
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (uint8_t)(i + 1);
    for (size_t n = 0; n <= 40; n++) {
        memset(to, 0, sizeof(to));
        emx_copy(to + 3, from + 5, n);
        assert_memory_equal(to + 3, from + 5, n);
        for (size_t i = 0; i < sizeof(to); i++)
            assert_true((i >= 3 && i < 3 + n) || !to[i]);
    }
    emx_copy(NULL, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part), cmocka_unit_test(write_in_parts), cmocka_unit_test(beyond_the_end_is_left_out),
        cmocka_unit_test(pieces),     cmocka_unit_test(copies),         cmocka_unit_test(short_copies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
