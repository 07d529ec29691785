/* SPDX-License-Identifier: BSD-3-Clause
 *
 * frame: what is sealed passes, and each kind of damage is dropped for its own reason. eager_head: what is written is
 * read again, in each form.
 */
#include "unit.h"

#include <string.h>

#include "base/config.h"
#include "core/format/eager_head.h"
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

static const uint32_t dst_id = MY_ID, cookie = MY_COOKIE, src_id = 0x01020304, seq = 0xfffffff1, ack = 0xfffffff2;
static const struct emx_eager_envelope envelope = {
    .dst_id = &dst_id, .cookie = &cookie, .src_id = &src_id, .seq = &seq, .ack = &ack, .credit = 0xfffffff3};

static void assert_envelope(const struct emx_frame *h, unsigned type, size_t body_bytes)
{
    assert_int_equal(h->type, type);
    assert_int_equal(h->body_bytes, body_bytes);
    assert_int_equal(h->dst_id, dst_id);
    assert_int_equal(h->cookie, cookie);
    assert_int_equal(h->src_id, src_id);
    assert_int_equal(h->seq, seq);
    assert_int_equal(h->ack, ack);
    assert_int_equal(h->credit, envelope.credit);
    assert_int_equal(h->check, 0);
}

static void put(uint8_t *to, const struct emx_f_eager *f, size_t n)
{
    const struct emx_eager_told t = {.bits = f->bits,
                                     .total_bytes = f->total_bytes,
                                     .op = f->op,
                                     .joined = f->joined,
                                     .am_header_bytes = f->am_header_bytes,
                                     .flags = f->flags};

    emx_eager_put(to, &envelope, &t, n);
}

static void eager_heads_are_the_layouts(void **state)
{
    const struct emx_f_eager f = {.bits = UINT64_MAX - 1,
                                  .total_bytes = UINT32_MAX - 2,
                                  .op = UINT32_MAX - 3,
                                  .am_header_bytes = UINT16_MAX - 4,
                                  .flags = UINT16_MAX - 5,
                                  .joined = UINT32_MAX - 6};
    uint8_t to[EMX_EAGER_HEAD_BYTES];
    const struct emx_short *t = (const void *)to;

    (void)state;
    put(to, &f, 1000);
    assert_envelope((const void *)to, EMX_F_eager, sizeof(f) + 1000);
    assert_memory_equal(to + sizeof(struct emx_frame), &f, sizeof(f));
    emx_eager_put_compact(to, &envelope, 77, 9);
    assert_envelope((const void *)to, EMX_F_compact, sizeof(struct emx_f_compact) + 9);
    assert_int_equal(((const struct emx_f_compact *)(to + sizeof(struct emx_frame)))->bits, 77);
    emx_eager_put_short(to, &envelope, 78, 10);
    assert_int_equal(t->version, EMX_FRAME_V_SHORT);
    assert_int_equal(t->type, EMX_F_eager);
    assert_int_equal(t->body_bytes, 10);
    assert_true(t->dst_id == dst_id && t->cookie == cookie && t->src_id == src_id);
    assert_true(t->seq == seq && t->credit == envelope.credit && t->bits == 78);
    assert_true(emx_eager_is_short(t, sizeof(*t) + 10));
    assert_false(emx_eager_is_short(t, sizeof(*t) + 9));
    assert_false(emx_eager_is_short(t, sizeof(*t) - 1));
}

/* What the fast path takes, the general path would take, too. */
static void whole_messages_fit(void **state)
{
    static const struct {
        struct emx_f_eager f;
        size_t n;
        bool whole, fits;
    } row[] = {
        {{.total_bytes = 8, .joined = 5}, 8, true, true},
        {{.total_bytes = 0, .joined = 5}, 0, true, true},
        {{.total_bytes = 8, .joined = 6}, 8, false, true}, /* tells something new */
        {{.total_bytes = 8, .joined = 5, .flags = EMX_FF_SYNC}, 8, false, true},
        {{.total_bytes = 9, .joined = 5}, 8, false, true},
        {{.total_bytes = 9, .joined = 5}, 0, false, false},
        {{.total_bytes = 7, .joined = 5}, 8, false, false},
        {{.total_bytes = 8, .joined = 5, .am_header_bytes = 1}, 8, false, false},
        {{.total_bytes = 8, .joined = 5, .flags = EMX_FF_REMOTE, .am_header_bytes = 8}, 8, false, true},
        {{.total_bytes = 8, .joined = 5, .flags = EMX_FF_REMOTE, .am_header_bytes = 7}, 8, false, false},
        {{.total_bytes = 7, .joined = 5, .flags = EMX_FF_REMOTE, .am_header_bytes = 8}, 7, false, false},
        {{.total_bytes = 8, .joined = 5, .flags = EMX_FF_REMOTE | EMX_FF_SYNC, .am_header_bytes = 8}, 8, false, true},
        {{.total_bytes = 8, .joined = 5, .flags = EMX_FF_UNTAGGED}, 8, false, true},
        {{.total_bytes = 0, .joined = 5, .flags = EMX_FF_UNTAGGED}, 0, false, true},
        {{.total_bytes = 8, .joined = 5, .flags = EMX_FF_UNTAGGED, .am_header_bytes = 8}, 8, false, false},
        {{.total_bytes = 8, .joined = 5, .flags = EMX_FF_UNTAGGED | EMX_FF_REMOTE, .am_header_bytes = 8},
         8,
         false,
         true},
        {{.total_bytes = 8, .joined = 5, .flags = EMX_FF_UNTAGGED | EMX_FF_REMOTE, .am_header_bytes = 0},
         8,
         false,
         false},
        {{.total_bytes = 8, .joined = 5, .flags = EMX_FF_UNTAGGED | EMX_FF_AM}, 8, false, false},
        {{.total_bytes = 8, .joined = 5, .flags = EMX_FF_AM, .am_header_bytes = 8}, 8, false, true},
        {{.total_bytes = 8, .joined = 5, .flags = EMX_FF_AM, .am_header_bytes = 9}, 8, false, false},
        {{.total_bytes = 8, .joined = 5, .flags = EMX_FF_AM, .bits = ETHMX_AM_HANDLERS}, 8, false, false},
    };
    uint8_t to[EMX_EAGER_HEAD_BYTES + 8];
    struct emx_eager_whole m;
    uint16_t flags;

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(row); i++) {
        put(to, &row[i].f, row[i].n);
        assert_int_equal(emx_eager_is_whole((const void *)to, sizeof(to), 5, &m), row[i].whole);
        assert_int_equal(emx_eager_is_flagged((const void *)to, sizeof(to), 5, &m, &flags),
                         row[i].fits && row[i].f.flags && !(row[i].f.flags & ~(EMX_FF_REMOTE | EMX_FF_UNTAGGED)));
        assert_int_equal(emx_eager_fits(&row[i].f, row[i].n), row[i].fits);
        assert_false(emx_eager_is_whole((const void *)to, EMX_EAGER_HEAD_BYTES - 1, 5, &m));
        assert_false(emx_eager_is_flagged((const void *)to, EMX_EAGER_HEAD_BYTES - 1, 5, &m, &flags));
    }
    emx_eager_put_compact(to, &envelope, 77, 8);
    assert_true(emx_eager_is_whole((const void *)to, sizeof(to), 6, &m));
    assert_true(m.bits == 77 && m.len_bytes == 8 && m.data == to + EMX_COMPACT_HEAD_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sealed_passes),
        cmocka_unit_test(sealed_in_pieces),
        cmocka_unit_test(foreign_frames),
        cmocka_unit_test(every_truncation_is_short),
        cmocka_unit_test(unknown_types),
        cmocka_unit_test(body_shorter_than_its_header),
        cmocka_unit_test(flipped_bits),
        cmocka_unit_test(flipped_bits_of_bundles),
        cmocka_unit_test(eager_heads_are_the_layouts),
        cmocka_unit_test(whole_messages_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
