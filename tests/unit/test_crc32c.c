/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <string.h>

#include "base/crc32c.h"

typedef uint32_t (*crc_fn)(uint32_t crc, const void *buf, size_t len_bytes);

static const crc_fn ways[] = {emx_crc32c, emx_crc32c_instruction, emx_crc32c_table};

/* One bit at a time, as the definition says. */
static uint32_t by_definition(uint32_t crc, const uint8_t *p, size_t len_bytes)
{
    crc = ~crc;
    for (size_t i = 0; i < len_bytes; i++) {
        crc ^= p[i];
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

/* RFC 3720, appendix B.4. */
static void gives_the_numbers_of_the_standard(void **state)
{
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    static const uint8_t read10[48] = {
        0x01, 0xc0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, 0x28, [40] = 0x02};

    (void)state;
    memset(ones, 0xff, sizeof(ones));
    for (unsigned i = 0; i < 32; i++) {
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    for (unsigned f = 0; f < ARRAY_LEN(ways); f++) {
        assert_int_equal(ways[f](0, zeros, 32), 0x8a9136aa);
        assert_int_equal(ways[f](0, ones, 32), 0x62a8ab43);
        assert_int_equal(ways[f](0, up, 32), 0x46dd794e);
        assert_int_equal(ways[f](0, down, 32), 0x113fdb5c);
        assert_int_equal(ways[f](0, read10, 48), 0xd9963a56);
        assert_int_equal(ways[f](0, "123456789", 9), 0xe3069283);
        assert_int_equal(ways[f](0, NULL, 0), 0);
    }
}

static void fill(uint8_t *p, size_t len_bytes, uint64_t seed)
{
    struct emx_rng rng = {seed};

    for (size_t i = 0; i < len_bytes; i++)
        p[i] = (uint8_t)emx_rng_next(&rng);
}

/* Around the lengths where the fast ways change their method: 192, 256 and 3072. */
static void all_ways_agree_at_every_length(void **state)
{
    static const size_t from[] = {0, 180, 760, 1400, 2040, 2100, 3060, 3440, 6130};
    uint8_t buf[6144 + 64];

    (void)state;
    fill(buf, sizeof(buf), 1);
    for (unsigned i = 0; i < ARRAY_LEN(from); i++)
        for (size_t len = from[i]; len < from[i] + 24 || len < 400; len++) {
            size_t at = len % 15;
            uint32_t want = by_definition((uint32_t)len, buf + at, len);

            for (unsigned w = 0; w < ARRAY_LEN(ways); w++)
                assert_int_equal(ways[w]((uint32_t)len, buf + at, len), want);
        }
}

static bool pieces(uint64_t seed)
{
    struct emx_rng rng = {seed};
    uint8_t buf[20000];
    size_t len = emx_rng_below(&rng, sizeof(buf)), at = 0;
    uint32_t whole, crc = 0;

    fill(buf, sizeof(buf), seed);
    whole = emx_crc32c_table(0, buf, len);
    for (unsigned w = 0; w < ARRAY_LEN(ways); w++)
        CHECK(ways[w](0, buf, len) == whole);
    while (at < len) {
        size_t part = 1 + emx_rng_below(&rng, len - at);

        crc = ways[emx_rng_below(&rng, ARRAY_LEN(ways))](crc, buf + at, part);
        at += part;
    }
    CHECK(crc == whole);
    return true;
}

static void goes_on_from_piece_to_piece(void **state)
{
    (void)state;
    each_seed(300, pieces);
}

static void leaves_out_what_a_frame_holds(void **state)
{
    uint8_t buf[32 + 400 + 15], blank[sizeof(buf)];

    (void)state;
    fill(buf, sizeof(buf), 1);
    memcpy(blank, buf, sizeof(buf));
    for (unsigned at = 0; at < 15; at++) {
        memset(blank + at + 28, 0, 4);
        for (size_t rest = 0; rest <= 400; rest++)
            assert_int_equal(emx_crc32c_but(buf + at, rest), by_definition(0, blank + at, 32 + rest));
        memcpy(blank + at + 28, buf + at + 28, 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_numbers_of_the_standard),
        cmocka_unit_test(all_ways_agree_at_every_length),
        cmocka_unit_test(goes_on_from_piece_to_piece),
        cmocka_unit_test(leaves_out_what_a_frame_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
