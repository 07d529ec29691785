/* SPDX-License-Identifier: BSD-3-Clause
 *
 * TSO packets: what is sent is what is read, whole or cut at chunk boundaries. Split into frames, it is the same
 * chunks. Damaged and random headers are refused, or what comes of them is within bounds.
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

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)get16(p) << 16 | get16(p + 2);
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

/* If not 0, the data is of an eager message of so many bytes. */
static unsigned eager_bytes;

/* The head of a frame with a chunk of body_bytes. */
static struct emx_place_head head_of(bool checked, unsigned chunk_bytes, uint64_t chunk, unsigned body_bytes)
{
    const unsigned mark = checked ? EMX_PLACE_MARK_HEADER : EMX_PLACE_MARK_OFF;
    struct emx_place_head h = {.version = (uint8_t)(mark >> 8),
                               .type = mark & 0xff,
                               .body_bytes = (uint16_t)(sizeof(h) - EMX_PLACE_FRAME_BYTES + body_bytes),
                               .ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
                               .news = {13, 14, 15, 16, 17, 18, 19, 20},
                               .message = {21, 22, 23, 24, 25, 26},
                               .chunk_bytes = (uint16_t)chunk_bytes,
                               .chunk = chunk};

    if (eager_bytes) {
        h.type = EMX_PLACE_EAGER;
        h.seq = UINT32_MAX - 3 + (uint32_t)chunk; /* it wraps */
        h.total_low = (uint16_t)eager_bytes;
        h.total_high = (uint8_t)(eager_bytes >> 16);
        h.index = (uint8_t)chunk;
        h.joined = 0x2221;
        h.chunk = UINT64_C(0x0102030405060708);
    }

    if (checked)
        h.check = emx_crc32c_but(&h, sizeof(h) - EMX_PLACE_FRAME_BYTES);
    return h;
}

/* A frame with data_bytes of chunks, to which h is the head. */
static struct emx_txframe frame_of(const struct emx_place_head *h, unsigned data_bytes)
{
    static const struct emx_wire_addr there = {.b = {1}};
    static const uint8_t body[MOST];

    return (struct emx_txframe){.to = &there,
                                .head = h,
                                .head_bytes = sizeof(*h),
                                .body = body,
                                .body_bytes = (uint16_t)data_bytes,
                                .gso = true,
                                .apart = true,
                                .chunk_bytes = h->chunk_bytes,
                                .age_ns = 77};
}

/* Whether the interface segments packets. */
static bool segments;

/* Headers of a packet with data_bytes of chunks from number `chunk` on. */
static void packet_make(uint8_t head[EMX_TSO_HEAD_BYTES], bool checked, unsigned chunk_bytes, uint64_t chunk,
                        unsigned data_bytes)
{
    const struct emx_place_head h = head_of(checked, chunk_bytes, chunk, data_bytes);
    const struct emx_txframe f = frame_of(&h, data_bytes);
    struct emx_gso_way able = way;

    able.segments = segments;
    memset(head, 0xEE, EMX_TSO_HEAD_BYTES);
    emx_tso_head(head, &able, &f);
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

/* The head of all chunks comes out as it went in, but without a checksum. */
static bool head_is(const struct emx_tso *t, unsigned chunk_bytes, uint64_t chunk, unsigned data_bytes)
{
    const struct emx_place_head want = head_of(false, chunk_bytes, chunk, data_bytes);

    return !memcmp(&t->head, &want, sizeof(want));
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
    put32(head + SEQ_AT, get32(whole + SEQ_AT) + begin);
    if (end < data_bytes)
        head[FLAGS_AT] &= (uint8_t)~PSH;
    ip_seal(head + IP);
    CHECK(open_exact(&t, head));
    CHECK(t.chunks == to - from && t.data_bytes == end - begin && !t.marked);
    CHECK(t.counts == (segments && !get32(head + SEQ_AT)));
    CHECK(head_is(&t, chunk_bytes, first + from, end - begin));
    return true;
}

static bool all_pieces_arrive(bool checked, unsigned chunk_bytes, uint64_t first, unsigned data_bytes)
{
    const unsigned chunks = (data_bytes + chunk_bytes - 1) / chunk_bytes;
    uint8_t head[EMX_TSO_HEAD_BYTES];

    packet_make(head, checked, chunk_bytes, first, data_bytes);
    for (unsigned from = 0; from < chunks; from++)
        for (unsigned to = from + 1; to <= chunks; to++)
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
    segments = seed / 4 % 2;
    return all_pieces_arrive(seed / 2 % 2, chunk_bytes, emx_rng_next(&r), data_bytes);
}

/* Pieces cut at any boundaries, of packets of one chunk, many, and with a shorter last one. */
static void what_is_sent_is_read(void **state)
{
    static const struct {
        unsigned chunk_bytes, data_bytes;
    } edges[] = {
        {8, 1},     {8, 8},         {8, 9},         {8, EMX_WIRE_BATCH * 8},
        {1408, 1},  {1408, 1408},   {1408, 1409},   {1408, 61952} /* 44 */,
        {65407, 1}, {65407, 65407}, {65455, 65455}, {1408, 65455} /* the longest packet */,
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(edges); i++)
        for (unsigned checked = 0; checked < 2; checked++) {
            assert_true(all_pieces_arrive(checked, edges[i].chunk_bytes, 0, edges[i].data_bytes));
            assert_true(all_pieces_arrive(checked, edges[i].chunk_bytes, UINT64_C(1) << 40, edges[i].data_bytes));
        }
    each_seed(300, packet_of_seed_arrives);
    segments = false;
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

static void eager_headers_are_as_they_should(void **state)
{
    static const uint8_t want[EMX_TSO_HEAD_BYTES - TCP] = {
        0x12, 0x34, 0x56, 0x78, 0,    0,    0x0b, 0,    0,    0, 0,    0, /* TCP; chunk 2 */
        0xf0, 0x18, 0x22, 0x21, 0x0f, 0xcb, 0,    0,                      /* joined */
        253,  40,   0xe1, 1,    1,    2,    3,    4,    5,    6, 7,    8,    9, 10, 11, 12, 13, 14, 15, 16,
        17,   18,   19,   20,   0xfc, 0xff, 0xff, 0xff, 0x02, 0, 0x80, 0x05, 8, 7,  6,  5,  4,  3,  2,  1,
    };
    uint8_t head[EMX_TSO_HEAD_BYTES];

    (void)state;
    eager_bytes = 0x10002;
    packet_make(head, false, 1408, 2, 1416);
    assert_memory_equal(head + TCP, want, sizeof(want));
    eager_bytes = 0;
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
            const struct emx_place_head h = head_of(true, 8192, 5, data_bytes);
            const struct emx_txframe f = frame_of(&h, data_bytes);
            struct emx_gso_way able = way;

            able.tos = (uint8_t)tos;
            emx_tso_head(head, &able, &f);
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

/* ---- Frames that are sent another way ---- */

/* Frame i of the split is whole's chunk i, and nothing else of whole has changed. */
static bool part_is(const struct emx_tso_split *s, unsigned i, const struct emx_txframe *whole, bool checked)
{
    const struct emx_place_head *h = whole->head;
    const unsigned begin = i * h->chunk_bytes;
    const unsigned left = whole->body_bytes - begin, n = left < h->chunk_bytes ? left : h->chunk_bytes;
    const uint64_t first = eager_bytes ? h->index : h->chunk;
    const struct emx_place_head want = head_of(checked, h->chunk_bytes, first + i, n);
    const struct emx_txframe *f = &s->f[i];

    CHECK(f->head_bytes == sizeof(want) && !memcmp(f->head, &want, sizeof(want)));
    CHECK(f->body == (const uint8_t *)whole->body + begin && f->body_bytes == n);
    CHECK(f->to == whole->to && f->gso == whole->gso && f->age_ns == whole->age_ns);
    CHECK(f->chunk_bytes == 0 && f->apart == (whole->apart && i == 0));
    return true;
}

static bool split_is_right(bool checked, unsigned chunk_bytes, uint64_t chunk, unsigned data_bytes)
{
    const struct emx_place_head h = head_of(checked, chunk_bytes, chunk, data_bytes);
    const unsigned chunks = (data_bytes + chunk_bytes - 1) / chunk_bytes;
    struct emx_txframe f = frame_of(&h, data_bytes);
    struct emx_tso_split *s = malloc(sizeof(*s));
    bool right = true;

    assert_non_null(s);
    for (unsigned apart = 0; apart < 2; apart++) {
        memset(s, 0xEE, sizeof(*s));
        f.apart = apart;
        right &= emx_txframe_chunks(&f) == chunks && emx_tso_split(s, &f) == chunks;
        for (unsigned i = 0; right && i < chunks; i++)
            right = part_is(s, i, &f, checked);
    }
    free(s);
    return right;
}

/* Frames of one chunk, of as many as there may be, with a shorter last one, and with numbers that wrap. */
static void chunks_become_frames(void **state)
{
    static const struct {
        unsigned chunk_bytes, data_bytes;
    } edges[] = {
        {8, 1},         {8, 8},       {8, 9},       {8, EMX_WIRE_BATCH * 8}, {8, EMX_WIRE_BATCH * 8 - 7}, {1408, 1},
        {1408, 1407},   {1408, 1408}, {1408, 1409}, {1408, 61952} /* 44 */,  {8936, 62552} /* 7 */,       {65407, 1},
        {65407, 65407},
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(edges); i++)
        for (unsigned checked = 0; checked < 2; checked++) {
            assert_true(split_is_right(checked, edges[i].chunk_bytes, 0, edges[i].data_bytes));
            assert_true(split_is_right(checked, edges[i].chunk_bytes, UINT64_MAX - 2, edges[i].data_bytes));
        }
}

/* The same of eager messages, which may continue in the next packet. */
static void eager_messages_are_read(void **state)
{
    static const struct {
        unsigned chunk_bytes, first, data_bytes, behind_bytes;
    } edges[] = {
        {8, 0, 1, 0},
        {8, 0, 8, 0},
        {8, 0, 8, 1},
        {8, 3, 200, 0},
        {8, 192, EMX_WIRE_BATCH * 8, 0},
        {1408, 0, 1408, 1},
        {1408, 0, 61952, 0},
        {1408, 0, 42240, 9999},
        {1408, 44, 1, 0},
        {1408, 44, 42241, 0},
        {8936, 7, 62552, 100},
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(edges); i++)
        for (unsigned checked = 0; checked < 2; checked++) {
            eager_bytes = edges[i].first * edges[i].chunk_bytes + edges[i].data_bytes + edges[i].behind_bytes;
            assert_true(all_pieces_arrive(checked, edges[i].chunk_bytes, edges[i].first, edges[i].data_bytes));
            assert_true(split_is_right(checked, edges[i].chunk_bytes, edges[i].first, edges[i].data_bytes));
        }
    eager_bytes = 0;
}

/* Data that begins behind the message's end, or ends there; more chunks than there may be. */
static void eager_pieces_out_of_bounds_are_refused(void **state)
{
    uint8_t head[EMX_TSO_HEAD_BYTES];
    struct emx_tso t;

    (void)state;
    eager_bytes = 10 * 1408;
    packet_make(head, true, 1408, 8, 2 * 1408);
    assert_true(open_exact(&t, head));
    put32(head + SEQ_AT, 9 * 1408);
    assert_false(open_exact(&t, head));
    put32(head + SEQ_AT, 10 * 1408);
    assert_false(open_exact(&t, head));
    eager_bytes = 300 * 8;
    packet_make(head, true, 8, 255, 8);
    assert_true(open_exact(&t, head));
    put32(head + SEQ_AT, 256 * 8);
    assert_false(open_exact(&t, head));
    eager_bytes = 0;
}

/* A frame that is no TSO packet is one. */
static void other_frames_are_one(void **state)
{
    const struct emx_place_head h = head_of(true, 1408, 3, 1408);
    struct emx_txframe f = frame_of(&h, 1408);

    (void)state;
    f.chunk_bytes = 0;
    assert_int_equal(emx_txframe_chunks(&f), 1);
    f.body_bytes = 0;
    assert_int_equal(emx_txframe_chunks(&f), 1);
}

/* ---- Damage ---- */

/* What was opened is a frame without a checksum, as long as a receiver has room for. */
static bool is_within_bounds(const struct emx_tso *t)
{
    const unsigned chunk_bytes = t->head.chunk_bytes;

    CHECK(t->data_bytes >= 1 && t->data_bytes <= MOST - EMX_TSO_IP_BYTES);
    CHECK(t->head.body_bytes == sizeof(t->head) - EMX_PLACE_FRAME_BYTES + t->data_bytes);
    CHECK(chunk_bytes >= 8 && t->chunks == (t->data_bytes + chunk_bytes - 1) / chunk_bytes);
    CHECK(t->head.version == EMX_PLACE_MARK_OFF >> 8);
    CHECK(t->head.type == EMX_PLACE_DATA || t->head.type == EMX_PLACE_EAGER);
    CHECK(!t->head.check);
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
        {43, 1},                           /* a length where there is none */
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

/* No data; chunks that are too short; offsets within chunks, or beyond the end of any packet. */
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
                    assert_true(head_is(&t, 1408, 3, 4000));
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

/* The TCP checksum covers all, wherever the data is cut. */
static void checksum_covers_all(void **state)
{
    enum { CHUNK = 104, LAST = 33, DATA = 2 * CHUNK + LAST };
    static uint8_t packet[EMX_TSO_HEAD_BYTES + DATA + 1];
    const struct emx_place_head head = head_of(true, CHUNK, 7, CHUNK);
    const struct emx_txframe f = {
        .head = &head, .head_bytes = sizeof(head), .body_bytes = DATA, .chunk_bytes = CHUNK, .gso = true};
    uint8_t *data = packet + EMX_TSO_HEAD_BYTES;

    (void)state;
    for (unsigned i = 0; i < DATA; i++)
        data[i] = (uint8_t)(7 * i + 1);
    emx_tso_head(packet, &way, &f);
    put16(packet + TCP + 16, ~sum16(packet + TCP, EMX_TSO_TCP_BYTES + DATA + 1, 0) & 0xffff);
    for (unsigned cut = 0; cut <= DATA; cut++) {
        const struct iovec iov[] = {{data, cut}, {data + cut, DATA + 1 - cut}};

        assert_true(emx_tso_sum_fits(packet + IP, iov, 2, DATA));
    }
    for (unsigned at = TCP; at < EMX_TSO_HEAD_BYTES + DATA; at++) {
        const struct iovec iov = {data, DATA};

        packet[at] ^= 1;
        assert_false(emx_tso_sum_fits(packet + IP, &iov, 1, DATA));
        packet[at] ^= 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_is_read),
        cmocka_unit_test(headers_are_as_they_should),
        cmocka_unit_test(sums_are_right),
        cmocka_unit_test(checksum_covers_all),
        cmocka_unit_test(marks_are_seen),
        cmocka_unit_test(chunks_become_frames),
        cmocka_unit_test(other_frames_are_one),
        cmocka_unit_test(eager_messages_are_read),
        cmocka_unit_test(eager_pieces_out_of_bounds_are_refused),
        cmocka_unit_test(eager_headers_are_as_they_should),
        cmocka_unit_test(other_packets_are_refused),
        cmocka_unit_test(wrong_lengths_are_refused),
        cmocka_unit_test(damage_is_seen_or_harmless),
        cmocka_unit_test(garbage_is_survived),
    };

    return cmocka_run_group_tests_name("TSO packet", tests, NULL, NULL);
}
