/* SPDX-License-Identifier: BSD-3-Clause
 *
 * frame: what is sealed passes, and each kind of damage is dropped for its own reason.
 */
#include "unit.h"

#include <string.h>

#include "base/config.h"
#include "core/format/frame.h"

#define MY_ID     0x11223344u
#define MY_COOKIE 0x55667788u

struct sample {
    struct emx_frame h;
    struct emx_f_eager t;
    uint8_t payload[40];
} EMX_LAYOUT;

static struct sample make(unsigned level)
{
    struct sample f = {.h = {.type = EMX_F_eager,
                             .body_bytes = sizeof(f.t) + sizeof(f.payload),
                             .dst_id = MY_ID,
                             .cookie = MY_COOKIE,
                             .src_id = 9,
                             .seq = 77}};

    for (unsigned i = 0; i < sizeof(f.payload); i++)
        f.payload[i] = (uint8_t)i;
    emx_frame_seal(&f, sizeof(f), NULL, 0, level);
    return f;
}

static enum emx_drop check(const struct sample *f, uint32_t len_bytes)
{
    return emx_frame_check((const uint8_t *)f, len_bytes, MY_ID, MY_COOKIE);
}

static void sealed_passes(void **state)
{
    (void)state;
    for (unsigned level = EMX_CHECKSUM_OFF; level <= EMX_CHECKSUM_FULL; level++) {
        struct sample f = make(level);
        uint8_t padded[sizeof(f) + 30] = {0};

        assert_int_equal(check(&f, sizeof(f)), EMX_ACCEPTED);
        memcpy(padded, &f, sizeof(f)); /* Ethernet pads short frames */
        assert_int_equal(emx_frame_check(padded, sizeof(padded), MY_ID, MY_COOKIE), EMX_ACCEPTED);
    }
}

static void sealed_in_pieces(void **state)
{
    (void)state;
    for (unsigned level = EMX_CHECKSUM_OFF; level <= EMX_CHECKSUM_FULL; level++) {
        struct sample whole = make(level), pieces = whole;

        emx_frame_seal(&pieces, sizeof(pieces.h) + sizeof(pieces.t), whole.payload, sizeof(whole.payload), level);
        assert_memory_equal(&whole, &pieces, sizeof(whole));
    }
}

static void every_truncation_is_short(void **state)
{
    struct sample f = make(EMX_CHECKSUM_FULL);

    (void)state;
    for (uint32_t len = 0; len < sizeof(f); len++)
        assert_int_equal(check(&f, len), EMX_DROP_SHORT);
}

static void foreign_frames(void **state)
{
    struct sample f = make(EMX_CHECKSUM_HEADER);

    (void)state;
    assert_int_equal(emx_frame_check((const uint8_t *)&f, sizeof(f), MY_ID + 1, MY_COOKIE), EMX_DROP_NOT_MINE);
    assert_int_equal(emx_frame_check((const uint8_t *)&f, sizeof(f), MY_ID, MY_COOKIE + 1), EMX_DROP_COOKIE);
    f.h.version = 0x45;
    assert_int_equal(check(&f, sizeof(f)), EMX_DROP_VERSION);
}

static void unknown_types(void **state)
{
    (void)state;
    for (unsigned type = 0; type < 256; type++) {
        struct sample f = make(EMX_CHECKSUM_HEADER);
        bool known = type < EMX_F_COUNT && emx_frame_info[type].name;

        f.h.type = (uint8_t)type;
        emx_frame_seal(&f, sizeof(f), NULL, 0, EMX_CHECKSUM_HEADER);
        assert_int_equal(check(&f, sizeof(f)), known ? EMX_ACCEPTED : EMX_DROP_TYPE);
    }
}

static void body_shorter_than_its_header(void **state)
{
    (void)state;
    for (unsigned type = 1; type < EMX_F_COUNT; type++) {
        struct sample f = make(EMX_CHECKSUM_OFF);
        unsigned head = emx_frame_info[type].head_bytes;

        if (!emx_frame_info[type].name || !head)
            continue;
        f.h.type = (uint8_t)type;
        f.h.body_bytes = (uint16_t)(head - 1);
        assert_int_equal(check(&f, sizeof(f)), EMX_DROP_MALFORMED);
        f.h.body_bytes = (uint16_t)head;
        assert_int_equal(check(&f, sizeof(f)), EMX_ACCEPTED);
    }
}

/* No single flipped bit of what is covered passes; nor does one of what precedes the check. */
static void flipped_bits(void **state)
{
    (void)state;
    for (unsigned level = EMX_CHECKSUM_HEADER; level <= EMX_CHECKSUM_FULL; level++) {
        size_t covered =
            level == EMX_CHECKSUM_FULL ? sizeof(struct sample) : sizeof(struct emx_frame) + sizeof(struct emx_f_eager);

        for (size_t bit = 0; bit < covered * 8; bit++) {
            struct sample f = make(level);

            ((uint8_t *)&f)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            assert_int_not_equal(check(&f, sizeof(f)), EMX_ACCEPTED);
        }
    }
}

/* The envelopes in a bundle are headers: "header" covers them. */
static void flipped_bits_of_bundles(void **state)
{
    (void)state;
    for (size_t bit = 0; bit < sizeof(struct sample) * 8; bit++) {
        struct sample f = make(EMX_CHECKSUM_HEADER);

        f.h.type = EMX_F_coalesced;
        emx_frame_seal(&f, sizeof(f), NULL, 0, EMX_CHECKSUM_HEADER);
        assert_int_equal(check(&f, sizeof(f)), EMX_ACCEPTED);
        ((uint8_t *)&f)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_int_not_equal(check(&f, sizeof(f)), EMX_ACCEPTED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sealed_passes),  cmocka_unit_test(sealed_in_pieces),
        cmocka_unit_test(foreign_frames), cmocka_unit_test(every_truncation_is_short),
        cmocka_unit_test(unknown_types),  cmocka_unit_test(body_shorter_than_its_header),
        cmocka_unit_test(flipped_bits),   cmocka_unit_test(flipped_bits_of_bundles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
