/* SPDX-License-Identifier: BSD-3-Clause
 *
 * TSO packets: what is sent is what is read, whole or cut at chunk boundaries. Damaged and random headers are refused,
 * or what comes of them is within bounds.
 */
#include "unit.h"

#include <string.h>

#include "base/crc32c.h"
#include "wire/tso.h"

#define IP       14 /* where the IPv4 header begins */
#define TCP      (IP + 20)
#define SEQ_AT   (TCP + 4)
#define FLAGS_AT (TCP + 13)
#define PSH      8
#define MOST     65535

static const struct emx_gso_way way = {.from_mac = {2, 0, 0, 0, 0, 1},
                                       .to_mac = {2, 0, 0, 0, 0, 2},
                                       .from_ip = {{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}}, /* 10.0.0.1 */
                                       .to_ip = {{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}},
                                       .from_port = 0x1234,
                                       .to_port = 0x5678,
                                       .tos = 0xba};

static void put16(uint8_t *p, unsigned v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
    put16(p, v >> 16);
    put16(p + 2, v & 0xffff);
}

static unsigned get16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

static unsigned sum16(const uint8_t *p, unsigned len_bytes, unsigned sum)
{
    for (unsigned i = 0; i < len_bytes; i += 2)
        sum += get16(p + i);
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

static void ip_seal(uint8_t *ip)
{
    put16(ip + 10, 0);
    put16(ip + 10, ~sum16(ip, 20, 0) & 0xffff);
}

/* The head of a frame with a chunk of body_bytes. */
static struct emx_place_head head_of(bool checked, unsigned chunk_bytes, uint64_t chunk, unsigned body_bytes)
{
    const unsigned mark = checked ? EMX_PLACE_MARK_HEADER : EMX_PLACE_MARK_OFF;
    struct emx_place_head h = {.version = (uint8_t)(mark >> 8),
                               .type = mark & 0xff,
                               .body_bytes = (uint16_t)(sizeof(h) - EMX_PLACE_FRAME_BYTES + body_bytes),
                               .frame = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, [16] = 13, 14, 15, 16, 17, 18, 19, 20},
                               .message = {21, 22, 23, 24, 25, 26},
                               .chunk_bytes = (uint16_t)chunk_bytes,
                               .chunk = chunk};

    if (checked)
        h.check = emx_crc32c_but(&h, sizeof(h) - EMX_PLACE_FRAME_BYTES);
    return h;
}

/* Headers of a packet with data_bytes of chunks from number `chunk` on. */
static void packet_make(uint8_t head[EMX_TSO_HEAD_BYTES], bool checked, unsigned chunk_bytes, uint64_t chunk,
                        unsigned data_bytes)
{
    const struct emx_place_head first =
        head_of(checked, chunk_bytes, chunk, data_bytes < chunk_bytes ? data_bytes : chunk_bytes);

    memset(head, 0xEE, EMX_TSO_HEAD_BYTES);
    emx_tso_head(head, &way, &first, data_bytes);
}

/* Opens the headers in memory of just their length. */
static bool open_exact(struct emx_tso *t, const uint8_t head[EMX_TSO_HEAD_BYTES])
{
    uint8_t *ip = malloc(EMX_TSO_IP_BYTES);
    bool ok;

    assert_non_null(ip);
    memcpy(ip, head + IP, EMX_TSO_IP_BYTES);
    ok = emx_tso_open(t, ip);
    free(ip);
    return ok;
}

/* Frame i, the one with this chunk, comes out as it went in, but without a checksum. */
static bool frame_is(const struct emx_tso *t, unsigned i, unsigned chunk_bytes, uint64_t chunk, unsigned body_bytes)
{
    const struct emx_place_head want = head_of(false, chunk_bytes, chunk, body_bytes);
    uint8_t *got = malloc(sizeof(want));
    bool same;

    assert_non_null(got);
    emx_tso_frame_head(t, i, got);
    same = !memcmp(got, &want, sizeof(want));
    free(got);
    return same;
}

/* Chunks `from` to `to` of a packet of data_bytes, as a path that cuts it delivers them. */
static bool piece_arrives(const uint8_t whole[EMX_TSO_HEAD_BYTES], unsigned chunk_bytes, uint64_t first,
                          unsigned data_bytes, unsigned from, unsigned to)
{
    const unsigned begin = from * chunk_bytes, end = to * chunk_bytes < data_bytes ? to * chunk_bytes : data_bytes;
    uint8_t head[EMX_TSO_HEAD_BYTES];
    struct emx_tso t;

    memcpy(head, whole, sizeof(head));
    put16(head + IP + 2, EMX_TSO_IP_BYTES + end - begin);
    put16(head + IP + 4, from); /* the identification is another one in each segment */
    put32(head + SEQ_AT, begin);
    if (end < data_bytes)
        head[FLAGS_AT] &= (uint8_t)~PSH;
    ip_seal(head + IP);
    CHECK(open_exact(&t, head));
    CHECK(t.frames == to - from && t.data_bytes == end - begin && !t.marked);
    CHECK(emx_tso_frames_bytes(&t) == t.data_bytes + t.frames * sizeof(struct emx_place_head));
    CHECK(emx_tso_part_bytes(&t) == chunk_bytes + sizeof(struct emx_place_head));
    for (unsigned i = from; i < to; i++)
        CHECK(frame_is(&t, i - from, chunk_bytes, first + i, i + 1 < to ? chunk_bytes : end - i * chunk_bytes));
    return true;
}

static bool all_pieces_arrive(bool checked, unsigned chunk_bytes, uint64_t first, unsigned data_bytes)
{
    const unsigned frames = (data_bytes + chunk_bytes - 1) / chunk_bytes;
    uint8_t head[EMX_TSO_HEAD_BYTES];

    packet_make(head, checked, chunk_bytes, first, data_bytes);
    for (unsigned from = 0; from < frames; from++)
        for (unsigned to = from + 1; to <= frames; to++)
            CHECK(piece_arrives(head, chunk_bytes, first, data_bytes, from, to));
    return true;
}

static bool packet_of_seed_arrives(uint64_t seed)
{
    struct emx_rng r = {.state = seed};
    unsigned chunk_bytes = 8 + (unsigned)emx_rng_below(&r, seed % 2 ? 2000 : 9000), most = EMX_WIRE_BATCH, data_bytes;

    while (most * (chunk_bytes + sizeof(struct emx_place_head)) > EMX_GSO_MAX)
        most--;
    data_bytes = 1 + (unsigned)emx_rng_below(&r, most * chunk_bytes);
    if (emx_rng_below(&r, 4) == 0)
        data_bytes = (data_bytes + chunk_bytes - 1) / chunk_bytes * chunk_bytes;
    return all_pieces_arrive(seed / 2 % 2, chunk_bytes, emx_rng_next(&r), data_bytes);
}

/* Pieces cut at any boundaries, of packets of one frame, many, and with a shorter last one. */
static void what_is_sent_is_read(void **state)
{
    static const struct {
        unsigned chunk_bytes, data_bytes;
    } edges[] = {
        {8, 1},     {8, 8},         {8, 9},       {8, EMX_WIRE_BATCH * 8},
        {1408, 1},  {1408, 1408},   {1408, 1409}, {1408, 61952} /* 44 */,
        {65407, 1}, {65407, 65407},
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(edges); i++)
        for (unsigned checked = 0; checked < 2; checked++) {
            assert_true(all_pieces_arrive(checked, edges[i].chunk_bytes, 0, edges[i].data_bytes));
            assert_true(all_pieces_arrive(checked, edges[i].chunk_bytes, UINT64_C(1) << 40, edges[i].data_bytes));
        }
    each_seed(300, packet_of_seed_arrives);
}

static void headers_are_as_they_should(void **state)
{
    static const uint8_t want[EMX_TSO_HEAD_BYTES] = {
        2,    0,    0,    0,    0,    2,    2,    0,  0,  0,  0,    1,    8, 0, /* Ethernet */
        0x45, 0xba, 0x05, 0xd8, 0,    0,    0x40, 0,  64, 6,                    /* IPv4, 1496 bytes, */
        0x2a, 0x66, 10,   0,    0,    1,    0,    0,  0,  0,                    /* to nowhere */
        0x12, 0x34, 0x56, 0x78, 0,    0,    0,    0,  0,  0,  0,    0,          /* TCP; no checksum of the frame */
        0xf0, 0x18, 0xff, 0xff, 0x0f, 0xcb, 0,    0,                            /* 10.0 + 0.1 + 6 + 1476 */
        254,  40,   0xe1, 0,    1,    2,    3,    4,  5,  6,  7,    8,    9, 10, 11, 12, 13, 14, 15, 16,
        17,   18,   19,   20,   21,   22,   23,   24, 25, 26, 0x80, 0x05, 7, 0,  0,  0,  0,  0,  0,  0,
    };
    uint8_t head[EMX_TSO_HEAD_BYTES];

    (void)state;
    packet_make(head, false, 1408, 7, 1416);
    assert_memory_equal(head, want, sizeof(want));
}

/* RFC 1071: the sum over all of the IP header is all ones. The TCP field has the sum over the pseudo header. */
static void sums_are_right(void **state)
{
    uint8_t head[EMX_TSO_HEAD_BYTES];

    (void)state;
    for (unsigned tos = 0; tos < 256; tos++)
        for (unsigned data_bytes = 1; data_bytes < EMX_GSO_MAX; data_bytes += 997) {
            const unsigned tcp_bytes = EMX_TSO_TCP_BYTES + data_bytes;
            const uint8_t pseudo[12] = {10, 0, 0, 1, 0, 0, 0, 0, 0, 6, (uint8_t)(tcp_bytes >> 8), (uint8_t)tcp_bytes};
            const struct emx_place_head first = head_of(true, 8192, 5, data_bytes < 8192 ? data_bytes : 8192);
            struct emx_gso_way able = way;

            able.tos = (uint8_t)tos;
            emx_tso_head(head, &able, &first, data_bytes);
            assert_int_equal(sum16(head + IP, 20, 0), 0xffff);
            assert_int_equal(get16(head + TCP + 16), sum16(pseudo, sizeof(pseudo), 0));
        }
}

static void marks_are_seen(void **state)
{
    uint8_t head[EMX_TSO_HEAD_BYTES];
    struct emx_tso t;

    (void)state;
    packet_make(head, true, 1408, 3, 4000);
    for (unsigned tos = 0; tos < 256; tos++) {
        head[IP + 1] = (uint8_t)tos;
        ip_seal(head + IP);
        assert_true(open_exact(&t, head));
        assert_int_equal(t.marked, tos % 4 == 3);
    }
}

/* ---- Which frames go together ---- */

static struct emx_place_head heads[EMX_WIRE_BATCH + 2];

/* n frames of a message, from chunk 100 on. */
static void frames_make(struct emx_txframe *f, unsigned n, unsigned chunk_bytes)
{
    static const struct emx_wire_addr there = {.b = {1}};
    static const uint8_t body[1];

    for (unsigned i = 0; i < n; i++) {
        heads[i] = head_of(true, chunk_bytes, 100 + i, chunk_bytes);
        f[i] = (struct emx_txframe){.to = &there,
                                    .head = (const uint8_t *)&heads[i],
                                    .head_bytes = sizeof(heads[i]),
                                    .body = body,
                                    .body_bytes = (uint16_t)chunk_bytes,
                                    .gso = true,
                                    .tso = true};
    }
}

static void only_what_follows_goes_together(void **state)
{
    enum { N = 10 };
    static struct emx_txframe f[N];

    (void)state;
    for (unsigned at = 0; at < N; at++) {
        frames_make(f, N, 1408);
        assert_int_equal(emx_tso_fit(f, N), N);
        assert_int_equal(emx_tso_fit(f, at + 1), at + 1);
        f[at].tso = false;
        assert_int_equal(emx_tso_fit(f, N), at);
        frames_make(f, N, 1408);
        f[at].head_bytes--;
        assert_int_equal(emx_tso_fit(f, N), at);
        frames_make(f, N, 1408);
        f[at].body_bytes = 1409; /* longer than its message's chunks */
        assert_int_equal(emx_tso_fit(f, N), at);
        f[at].body_bytes = 0;
        assert_int_equal(emx_tso_fit(f, N), at);
        f[at].body_bytes = 1; /* a shorter one is the last */
        assert_int_equal(emx_tso_fit(f, N), at + 1);
    }
}

/* Any other difference in the heads. Those of body_bytes and the checksum follow from the others. */
static void other_heads_go_apart(void **state)
{
    enum { N = 4, AT = 2 };
    static struct emx_txframe f[N];
    uint8_t *head = (uint8_t *)&heads[AT];

    (void)state;
    for (unsigned byte = 0; byte < sizeof(heads[0]); byte++) {
        const bool follows =
            (byte >= offsetof(struct emx_place_head, body_bytes) && byte < offsetof(struct emx_place_head, frame)) ||
            (byte >= offsetof(struct emx_place_head, check) && byte < offsetof(struct emx_place_head, message));

        for (unsigned bit = 0; bit < 8; bit++) {
            frames_make(f, N, 1408);
            head[byte] ^= (uint8_t)(1u << bit);
            assert_int_equal(emx_tso_fit(f, N), follows ? N : AT);
        }
    }
    frames_make(f, N, 1408);
    heads[AT].chunk = UINT64_MAX;
    assert_int_equal(emx_tso_fit(f, N), AT);
    for (unsigned i = 0; i < N; i++)
        heads[i].chunk = 100; /* the same again */
    assert_int_equal(emx_tso_fit(f, N), 1);
}

/* What is no data frame of a message, or is tagged, is sent otherwise. */
static void other_frames_do_not_go(void **state)
{
    static struct emx_txframe f[2];

    (void)state;
    frames_make(f, 2, 1408);
    heads[0].version = 0xC3;
    assert_int_equal(emx_tso_fit(f, 2), 0);
    frames_make(f, 2, 1408);
    heads[0].type++;
    assert_int_equal(emx_tso_fit(f, 2), 0);
    frames_make(f, 2, 1408);
    f[0].head_bytes += 16;
    assert_int_equal(emx_tso_fit(f, 2), 0);
}

/* What goes together is received, whatever the chunks' length: no packet is longer than a packet can be. */
static void what_fits_is_taken(void **state)
{
    static struct emx_txframe f[EMX_WIRE_BATCH + 2];
    uint8_t head[EMX_TSO_HEAD_BYTES];
    struct emx_tso t;

    (void)state;
    for (unsigned chunk_bytes = 8; chunk_bytes <= EMX_GSO_MAX - sizeof(heads[0]);
         chunk_bytes += chunk_bytes < 2000 ? 4 : 444) {
        unsigned n;

        frames_make(f, EMX_WIRE_BATCH + 2, chunk_bytes);
        n = emx_tso_fit(f, emx_gso_fit(f, EMX_WIRE_BATCH + 2, EMX_GSO_MAX, true));
        assert_in_range(n, 1, EMX_WIRE_BATCH);
        assert_true(EMX_TSO_IP_BYTES + n * chunk_bytes <= MOST);
        emx_tso_head(head, &way, f[0].head, n * chunk_bytes);
        assert_true(open_exact(&t, head));
        assert_int_equal(t.frames, n);
        for (unsigned i = 0; i < n; i++)
            assert_true(frame_is(&t, i, chunk_bytes, 100 + i, chunk_bytes));
        n = emx_tso_fit(f, EMX_WIRE_BATCH); /* without the other limits */
        assert_true(EMX_TSO_IP_BYTES + n * chunk_bytes <= MOST);
    }
    frames_make(f, 1, 65455); /* the longest packet there is, and one that would be longer */
    assert_int_equal(emx_tso_fit(f, 1), 1);
    frames_make(f, 1, 65456);
    assert_int_equal(emx_tso_fit(f, 1), 0);
}

/* ---- Damage ---- */

/* What was opened is within what a receiver has room for, and writes heads of nothing else. */
static bool is_within_bounds(const struct emx_tso *t)
{
    struct emx_place_head h;
    uint32_t data_bytes = 0;

    CHECK(t->frames >= 1 && t->frames <= EMX_WIRE_BATCH);
    CHECK(t->data_bytes >= 1 && t->data_bytes <= MOST - EMX_TSO_IP_BYTES && emx_tso_frames_bytes(t) <= MOST);
    for (unsigned i = 0; i < t->frames; i++) {
        unsigned body_bytes;

        emx_tso_frame_head(t, i, &h);
        body_bytes = h.body_bytes + EMX_PLACE_FRAME_BYTES - (unsigned)sizeof(h);
        CHECK(body_bytes >= 1 && body_bytes <= h.chunk_bytes);
        CHECK(i + 1 == t->frames || body_bytes == h.chunk_bytes);
        CHECK(h.chunk == t->first.chunk + i && emx_place_is_marked((const uint8_t *)&h));
        data_bytes += body_bytes;
    }
    CHECK(data_bytes == t->data_bytes);
    return true;
}

/* Bytes that packets of other forms have. */
static void other_packets_are_refused(void **state)
{
    static const struct {
        unsigned at;
        uint8_t value;
    } changes[] = {
        {0, 0x46},  {0, 0x65},             /* IP options, another version */
        {6, 0x20},  {6, 0x41},  {7, 1},    /* fragments */
        {9, 17},                           /* UDP */
        {16, 10},   {19, 1},               /* to an address */
        {32, 0x50}, {32, 0xe0}, {32, 0x0}, /* TCP without options, with fewer */
        {40, 2},    {41, 10},              /* other options */
        {42, 0xC3}, {42, 0},               /* another version */
    };
    uint8_t head[EMX_TSO_HEAD_BYTES];
    struct emx_tso t;

    (void)state;
    for (unsigned checked = 0; checked < 2; checked++)
        for (unsigned i = 0; i < ARRAY_LEN(changes); i++) {
            packet_make(head, checked, 1408, 3, 4000);
            assert_true(open_exact(&t, head));
            head[IP + changes[i].at] = changes[i].value;
            ip_seal(head + IP);
            assert_false(open_exact(&t, head));
        }
}

/* No data; chunks that are too short; more frames, or longer ones, than a packet has; offsets within chunks. */
static void wrong_lengths_are_refused(void **state)
{
    uint8_t head[EMX_TSO_HEAD_BYTES];
    struct emx_tso t;

    (void)state;
    for (unsigned ip_bytes = 0; ip_bytes <= EMX_TSO_IP_BYTES; ip_bytes++) {
        packet_make(head, false, 1408, 3, 4000);
        put16(head + IP + 2, ip_bytes);
        ip_seal(head + IP);
        assert_false(open_exact(&t, head));
    }
    for (unsigned chunk_bytes = 0; chunk_bytes < 8; chunk_bytes++) {
        packet_make(head, false, chunk_bytes, 3, 8);
        assert_false(open_exact(&t, head));
    }
    packet_make(head, false, 8, 3, EMX_WIRE_BATCH * 8 + 1);
    assert_false(open_exact(&t, head));
    packet_make(head, false, 1024, 3, EMX_WIRE_BATCH * 1024 - EMX_TSO_IP_BYTES); /* no room for the frames' heads */
    assert_false(open_exact(&t, head));
    for (unsigned offset = 1; offset < 5000; offset++) {
        packet_make(head, false, 1408, 3, 1408);
        put32(head + SEQ_AT, offset);
        assert_int_equal(open_exact(&t, head), offset % 1408 == 0);
    }
    put32(head + SEQ_AT, 1408 * 1000); /* no packet is so long */
    assert_false(open_exact(&t, head));
}

/* With a checksum no other frame comes out, except for what only the checksums of IP and TCP protect: length, offset.
 */
static void damage_is_seen_or_harmless(void **state)
{
    uint8_t head[EMX_TSO_HEAD_BYTES];
    struct emx_tso t;

    (void)state;
    for (unsigned checked = 0; checked < 2; checked++)
        for (unsigned byte = IP; byte < EMX_TSO_HEAD_BYTES; byte++)
            for (unsigned change = 1; change < 256; change++) {
                packet_make(head, checked, 1408, 3, 4000);
                head[byte] ^= (uint8_t)change;
                if (!open_exact(&t, head))
                    continue;
                assert_true(is_within_bounds(&t));
                if (checked && byte != IP + 2 && byte != IP + 3 && (byte < SEQ_AT || byte >= SEQ_AT + 4)) {
                    assert_int_equal(t.data_bytes, 4000);
                    assert_true(frame_is(&t, 0, 1408, 3, 1408));
                }
            }
}

/* Random bytes. Those of every other round have the form of a packet, without a checksum. */
static bool garbage_of_seed(uint64_t seed)
{
    struct emx_rng rng = {.state = seed};
    uint8_t head[EMX_TSO_HEAD_BYTES];
    struct emx_tso t;

    packet_make(head, false, 1408, 3, 4000);
    for (unsigned i = 0; i < sizeof(head); i++)
        if (seed % 2 || (i >= IP + 1 && i < IP + 6) || (i >= TCP && i < TCP + 8) || i >= TCP + 23)
            head[i] = (uint8_t)emx_rng_next(&rng);
    if (seed % 4 == 0)
        put32(head + SEQ_AT, 0);
    ip_seal(head + IP);
    if (seed % 2)
        CHECK(!open_exact(&t, head));
    else if (open_exact(&t, head))
        CHECK(is_within_bounds(&t));
    return true;
}

static void garbage_is_survived(void **state)
{
    (void)state;
    each_seed(100000, garbage_of_seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_is_read),
        cmocka_unit_test(headers_are_as_they_should),
        cmocka_unit_test(sums_are_right),
        cmocka_unit_test(marks_are_seen),
        cmocka_unit_test(only_what_follows_goes_together),
        cmocka_unit_test(other_heads_go_apart),
        cmocka_unit_test(other_frames_do_not_go),
        cmocka_unit_test(what_fits_is_taken),
        cmocka_unit_test(other_packets_are_refused),
        cmocka_unit_test(wrong_lengths_are_refused),
        cmocka_unit_test(damage_is_seen_or_harmless),
        cmocka_unit_test(garbage_is_survived),
    };

    return cmocka_run_group_tests_name("TSO packet", tests, NULL, NULL);
}
