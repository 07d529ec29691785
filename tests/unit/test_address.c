/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <string.h>

#include "core/format/address.h"
#include "wire/wire.h"

#define GUARD 0xa5

/* Of random types and lengths, up to six: an address that lacks eight of its parts is not told from a whole one. */
static void add_parts(struct emx_rng *rng, struct emx_address *a)
{
    uint8_t value[40];
    unsigned type = 0, count = (unsigned)emx_rng_below(rng, 7);

    for (unsigned i = 0; i < sizeof(value); i++)
        value[i] = (uint8_t)emx_rng_next(rng);
    while (count-- && (type += 1 + (unsigned)emx_rng_below(rng, 8)) <= EMX_WIRE_PART_TYPES) {
        unsigned len_bytes = (unsigned)emx_rng_below(rng, sizeof(value) + 1) >> emx_rng_below(rng, 4);

        if (!emx_address_add_part(a, type, value, len_bytes))
            return;
    }
}

static struct emx_ip v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
    const uint8_t bytes[] = {a, b, c, d};
    uint32_t ip;

    memcpy(&ip, bytes, sizeof(ip));
    return emx_ip_from_v4(ip);
}

static struct emx_wire_if random_if(struct emx_rng *rng, bool v6)
{
    struct emx_wire_if nif = {.frame_bytes = (uint16_t)emx_rng_next(rng)};

    for (unsigned i = 0; i < sizeof(nif.mac); i++)
        nif.mac[i] = (uint8_t)emx_rng_next(rng);
    nif.ip = emx_ip_from_v4((uint32_t)emx_rng_next(rng));
    nif.prefix_bits = (uint8_t)emx_rng_below(rng, 33);
    if (!v6 || emx_rng_below(rng, 2))
        return nif;
    for (unsigned i = 0; i < sizeof(nif.ip.b); i++)
        nif.ip.b[i] = (uint8_t)emx_rng_next(rng);
    nif.prefix_bits = emx_rng_below(rng, 2) ? 64 : (uint8_t)emx_rng_below(rng, 129);
    if (emx_rng_below(rng, 2))
        emx_ip_put_eui64(&nif.ip, nif.mac);
    return nif;
}

/* Whether an interface is told by its address, or by one that is made from its MAC. */
static bool same_ip(const struct emx_wire_if *told, const struct emx_wire_if *nif)
{
    if (emx_ip_equal(&told->ip, &nif->ip))
        return true;
    return emx_ip_is_v6(&nif->ip) && emx_wire_if_has_mac(told) && emx_ip_is_eui64(&told->ip, nif->mac) &&
           (!memcmp(&told->ip, &nif->ip, sizeof(nif->ip) / 2) || emx_ip_is_link_local6(&told->ip));
}

static struct emx_address sample(struct emx_rng *rng)
{
    struct emx_address a = {
        .id = (uint32_t)emx_rng_next(rng) | 1,
        .cookie = (uint32_t)emx_rng_next(rng),
        .host_id = emx_rng_next(rng) & EMX_ADDRESS_HOST_ID_MAX,
    };
    unsigned host_bytes = (unsigned)emx_rng_below(rng, EMX_ADDRESS_HOST);
    unsigned ifs = (unsigned)emx_rng_below(rng, EMX_WIRE_IFS + 1);
    bool v6 = emx_rng_below(rng, 2);

    for (unsigned i = 0; i < ifs; i++) {
        struct emx_wire_if nif = random_if(rng, v6);

        if (!emx_address_add_if(&a, &nif))
            break;
    }
    add_parts(rng, &a);
    a.auth = emx_rng_below(rng, 2);
    a.has_secret = a.auth && emx_rng_below(rng, 2);
    for (unsigned i = 0; a.has_secret && i < sizeof(a.secret); i++)
        a.secret[i] = (uint8_t)emx_rng_next(rng);
    for (unsigned i = 0; i < host_bytes; i++)
        a.host[i] = (char)('a' + emx_rng_below(rng, 26));
    return a;
}

static bool same(const struct emx_address *a, const struct emx_address *b)
{
    CHECK(a->id == b->id && a->cookie == b->cookie && a->host_id == b->host_id);
    CHECK(a->part_bytes == b->part_bytes && !memcmp(a->part, b->part, a->part_bytes));
    CHECK(a->if_count == b->if_count);
    for (unsigned i = 0; i < a->if_count; i++) {
        CHECK(emx_ip_equal(&a->ifs[i].ip, &b->ifs[i].ip) && a->ifs[i].prefix_bits == b->ifs[i].prefix_bits);
        CHECK(a->ifs[i].frame_bytes == b->ifs[i].frame_bytes);
        CHECK(!memcmp(a->ifs[i].mac, b->ifs[i].mac, 6));
    }
    CHECK(!strcmp(a->host, b->host));
    CHECK(a->auth == b->auth && a->has_secret == b->has_secret);
    CHECK(!memcmp(a->secret, b->secret, sizeof(a->secret)));
    return true;
}

static bool round_trip(uint64_t seed)
{
    struct emx_rng rng = {seed};
    struct emx_address a = sample(&rng), b;
    uint8_t buf[ETHMX_ADDRESS_MAX + 1];
    char err[128] = "";
    size_t len;

    memset(buf, GUARD, sizeof(buf));
    len = emx_address_encode(&a, buf);
    CHECK(len <= ETHMX_ADDRESS_MAX && buf[len] == GUARD);
    memset(&b, GUARD, sizeof(b));
    CHECK(emx_address_decode(&b, buf, len, err, sizeof(err)));
    CHECK(!err[0]);
    return same(&a, &b);
}

static void comes_back_as_it_was(void **state)
{
    (void)state;
    each_seed(2000, round_trip);
}

/* In whatever room there is, it is an address of the same endpoint with the first of its interfaces, and of each part
 * enough for a first hello; or, where a wire reaches interfaces by IP, without MACs and some parts. */
static bool fits_within(uint64_t seed)
{
    struct emx_rng rng = {seed};
    struct emx_address a = sample(&rng), b;
    uint8_t buf[ETHMX_ADDRESS_MAX + 1];
    size_t smallest = 0, before = 0;
    char err[128] = "";
    bool may_omit;

    for (unsigned type = 1; type <= EMX_WIRE_PART_TYPES; type++)
        a.min_bytes[type] = (uint8_t)emx_rng_below(&rng, 4);
    a.by_ip = seed % 2 ? (uint32_t)emx_rng_next(&rng) & ~UINT32_C(1) : 0;
    may_omit = a.by_ip || (a.if_count && emx_ip_is_v6(&a.ifs[0].ip));
    for (size_t room = 0; room <= ETHMX_ADDRESS_MAX; room++) {
        size_t len;

        memset(buf, GUARD, sizeof(buf));
        len = emx_address_encode_within(&a, room, buf);
        CHECK(len <= room && len >= before && buf[len] == GUARD);
        before = len;
        CHECK(len > 0 || !smallest);
        if (!len)
            continue;
        smallest = smallest ? smallest : room;
        CHECK(emx_address_decode(&b, buf, len, err, sizeof(err)));
        CHECK(b.id == a.id && b.cookie == a.cookie && b.host_id == a.host_id && !b.host[0]);
        CHECK(emx_address_parts_agree(&a, &b) && emx_address_parts_agree(&b, &a));
        for (unsigned type = 1; type <= EMX_WIRE_PART_TYPES; type++) {
            struct emx_wire_value full = emx_address_part(&a, type), told = emx_address_part(&b, type);

            CHECK(!full.b == !told.b || (may_omit && !told.b));
            CHECK(!told.b || told.len_bytes == full.len_bytes || told.len_bytes == a.min_bytes[type]);
        }
        CHECK(b.if_count <= a.if_count && (b.if_count > 0 || a.if_count == 0));
        for (unsigned i = 0; i < b.if_count; i++)
            CHECK(same_ip(&b.ifs[i], &a.ifs[i]) && (b.ifs[i].prefix_bits == a.ifs[i].prefix_bits ||
                                                    !emx_wire_if_has_mac(&b.ifs[i]) || emx_ip_is_v6(&b.ifs[i].ip)));
        CHECK(!b.if_count || a.by_ip || !memcmp(b.ifs[0].mac, a.ifs[0].mac, 6));
    }
    CHECK(smallest > 0);
    CHECK(b.auth == a.auth && b.has_secret == a.has_secret);
    CHECK(b.part_bytes == a.part_bytes && b.if_count == a.if_count && !memcmp(b.ifs, a.ifs, sizeof(a.ifs)));
    return true;
}

static void is_cut_to_the_room(void **state)
{
    (void)state;
    each_seed(200, fits_within);
}

/* Copies to a block of exactly this length, so that the sanitizer sees a read beyond it. */
static bool decode(const uint8_t *buf, size_t len, struct emx_address *a_p)
{
    uint8_t *copy = malloc(len ? len : 1);
    char err[128] = "";
    struct emx_address before;
    bool ok;

    assert_non_null(copy);
    if (len)
        memcpy(copy, buf, len);
    memset(a_p, GUARD, sizeof(*a_p));
    before = *a_p;
    ok = emx_address_decode(a_p, copy, len, err, sizeof(err));
    free(copy);
    if (!ok)
        assert_memory_equal(a_p, &before, sizeof(before)); /* outputs on success only */
    assert_true(ok == !err[0]);
    return ok;
}

static bool cut_or_longer(uint64_t seed)
{
    struct emx_rng rng = {seed};
    struct emx_address a = sample(&rng), b;
    uint8_t buf[ETHMX_ADDRESS_MAX + 64] = {0};
    size_t len = emx_address_encode(&a, buf);

    for (size_t n = 0; n <= len + 32; n++)
        CHECK(decode(buf, n, &b) == (n == len));
    return true;
}

static void every_other_length_is_refused(void **state)
{
    (void)state;
    each_seed(50, cut_or_longer);
}

static bool sane(const struct emx_address *a)
{
    CHECK(a->id);
    CHECK(a->if_count <= EMX_WIRE_IFS);
    for (unsigned i = 0; i < a->if_count; i++)
        CHECK(a->ifs[i].prefix_bits <= emx_ip_prefix_max(&a->ifs[i].ip));
    CHECK(memchr(a->host, 0, sizeof(a->host)));
    for (const char *p = a->host; *p; p++)
        CHECK(*p > ' ' && *p < 0x7f);
    return true;
}

static bool garbage(uint64_t seed)
{
    struct emx_rng rng = {seed};
    struct emx_address a = sample(&rng), b;
    uint8_t buf[ETHMX_ADDRESS_MAX];
    size_t len = emx_address_encode(&a, buf);

    /* Wholly random, then a good one with some bytes changed. */
    for (unsigned i = 0; i < 20; i++) {
        uint8_t noise[ETHMX_ADDRESS_MAX];

        for (size_t j = 0; j < sizeof(noise); j++)
            noise[j] = (uint8_t)emx_rng_next(&rng);
        CHECK(!decode(noise, emx_rng_below(&rng, sizeof(noise) + 1), &b) || sane(&b));
    }
    for (unsigned i = 0; i < 20; i++) {
        buf[emx_rng_below(&rng, len)] = (uint8_t)emx_rng_next(&rng);
        if (decode(buf, len, &b))
            CHECK(sane(&b));
    }
    return true;
}

static void garbage_is_refused_or_harmless(void **state)
{
    (void)state;
    each_seed(500, garbage);
}

static void another_version_is_named(void **state)
{
    struct emx_rng rng = {1};
    struct emx_address a = sample(&rng), b;
    uint8_t buf[ETHMX_ADDRESS_MAX];
    char err[128];
    size_t len = emx_address_encode(&a, buf);

    (void)state;
    buf[2] = 77;
    assert_false(emx_address_decode(&b, buf, len, err, sizeof(err)));
    assert_non_null(strstr(err, "version 77"));
    assert_non_null(strstr(err, "version 9"));
    /* Even when all behind the version differs. */
    assert_false(emx_address_decode(&b, buf, 4, err, sizeof(err)));
    assert_non_null(strstr(err, "version 77"));
}

static void the_incarnation_is_never_0(void **state)
{
    struct emx_rng rng = {1};
    struct emx_address a = sample(&rng), b;
    uint8_t buf[ETHMX_ADDRESS_MAX];
    size_t len;

    (void)state;
    a.id = 0;
    len = emx_address_encode(&a, buf);
    assert_false(decode(buf, len, &b));
}

/* Two hosts of one job may run builds of different days: the bytes are fixed. */
static void the_encoding_is_fixed(void **state)
{
    struct emx_address a = {
        .id = 0x04030201, .cookie = 0x14131211, .host_id = 0x262524232221, .if_count = 1, .host = "n1", .auth = true};
    static const uint8_t want[] = {
        'x',  'M',  9,    0x89, 0x01, 0x02, 0x03, 0x04, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24,
        0x25, 0x26, 0xd8, 10,   0,    0,    1,    2,    3,    4,    5,    6,    7,    0xdc, 0x05, /* interface */
        0x18,                                              /* part 3 without value */
        0x12, 0x52, 0x51,                                  /* part 2 of 2 bytes */
        0xff, 7,    1,    2,    3,    4,    5,    6,    7, /* part 31 of 7 bytes */
        0x02, 'n',  '1',
    };
    uint8_t buf[ETHMX_ADDRESS_MAX];

    (void)state;
    a.ifs[0].ip = v4(10, 0, 0, 1);
    memcpy(a.ifs[0].mac, "\x02\x03\x04\x05\x06\x07", 6);
    a.ifs[0].frame_bytes = 1500;
    a.ifs[0].prefix_bits = 24;
    assert_true(emx_address_add_part(&a, 3, NULL, 0));
    assert_true(emx_address_add_part(&a, 2, "\x52\x51", 2));
    assert_true(emx_address_add_part(&a, 31, "\1\2\3\4\5\6\7", 7));
    assert_int_equal(emx_address_encode(&a, buf), sizeof(want));
    assert_memory_equal(buf, want, sizeof(want));
}

/* Two or more interfaces at the end of which only the IP is told; any other form of them is refused. */
static void interfaces_by_ip_alone_are_short(void **state)
{
    struct emx_address a = {.id = 1, .if_count = 3}, b;
    static const uint8_t want[] = {24, 10, 0, 0, 1, 63, 10, 0, 1, 1, 10, 0, 2, 1};
    static const uint8_t longer[] = {24, 10, 0, 0, 1, 0, 10, 0, 1, 1, 0, 10, 0, 2, 1};
    static const uint8_t one[] = {24, 10, 0, 0, 1, 24, 10, 0, 1, 1, 63, 10, 0, 2, 1};
    const size_t fixed = 18;
    uint8_t buf[ETHMX_ADDRESS_MAX];

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        a.ifs[i].ip = v4(10, 0, (uint8_t)i, 1);
    a.ifs[0].prefix_bits = 24;
    assert_int_equal(emx_address_encode(&a, buf), fixed + sizeof(want));
    assert_memory_equal(buf + fixed, want, sizeof(want));
    assert_true(decode(buf, fixed + sizeof(want), &b));
    assert_true(b.if_count == 3 && !memcmp(b.ifs, a.ifs, sizeof(a.ifs)));
    assert_false(decode(buf, fixed + sizeof(want) - 1, &b));
    memcpy(buf + fixed, longer, sizeof(longer));
    assert_false(decode(buf, fixed + sizeof(longer), &b));
    memcpy(buf + fixed, one, sizeof(one));
    assert_false(decode(buf, fixed + sizeof(one), &b));
}

/* IPv6: with each form of the prefix, and shorter where the MAC address is half of it. */
static void ipv6_interfaces_are_short(void **state)
{
    static const struct {
        const char *ip;
        uint8_t prefix_bits, mac[6];
        uint16_t frame_bytes;
        uint8_t len_bytes, first;
    } cases[] = {
        {"2001:db8::3", 0, {0}, 0, 17, 33},
        {"2001:db8::3", 64, {0}, 0, 17, 34},
        {"2001:db8::3", 48, {0}, 0, 18, 35},
        {"2001:db8::3", 128, {2, 0, 0, 0, 0, 1}, 1500, 26, 35 | 64 | 128},
        {"2001:db8::ff:fe00:1", 0, {2, 0, 0, 0, 0, 1}, 0, 15, 36 | 64},
        {"2001:db8::ff:fe00:1", 64, {2, 0, 0, 0, 0, 1}, 9000, 17, 37 | 64 | 128},
        {"fe80::ff:fe00:1", 10, {2, 0, 0, 0, 0, 1}, 0, 16, 38 | 64},
    };
    const size_t fixed = 18;

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        struct emx_address a = {.id = 1}, b;
        struct emx_wire_if nif = {.prefix_bits = cases[i].prefix_bits, .frame_bytes = cases[i].frame_bytes};
        uint8_t buf[ETHMX_ADDRESS_MAX];
        size_t len;

        memcpy(nif.mac, cases[i].mac, sizeof(nif.mac));
        assert_true(emx_ip_parse(&nif.ip, cases[i].ip));
        assert_true(emx_address_add_if(&a, &nif));
        len = emx_address_encode(&a, buf);
        assert_int_equal(len, fixed + cases[i].len_bytes);
        assert_int_equal(buf[fixed], cases[i].first);
        assert_true(decode(buf, len, &b));
        assert_true(same(&a, &b));
        for (size_t cut = fixed; cut < len; cut++)
            assert_false(decode(buf, cut, &b));
    }
}

/* Forms that are not the shortest, prefixes that do not exist, and IPv4 in the place of IPv6. */
static void ipv6_interfaces_are_checked(void **state)
{
    static const struct {
        uint8_t b[26];
        unsigned len_bytes;
        bool good;
    } cases[] = {
        {{33, 0x20, 1, [16] = 3}, 17, true},
        {{33, [16] = 0}, 17, false},                       /* no address */
        {{33, [11] = 0xff, 0xff, 10, 0, 0, 1}, 17, false}, /* IPv4 */
        {{35, 65, 0x20, 1, [17] = 3}, 18, true},
        {{35, 64, 0x20, 1, [17] = 3}, 18, false},  /* has a shorter form */
        {{35, 0, 0x20, 1, [17] = 3}, 18, false},   /* has a shorter form */
        {{35, 129, 0x20, 1, [17] = 3}, 18, false}, /* no prefix */
        {{36 | 64, 0x20, 1, [9] = 2, 0, 0, 0, 0, 1}, 15, true},
        {{36, 0x20, 1, [8] = 0}, 9, false},                                             /* no MAC */
        {{36 | 64, 0x20, 1, [14] = 0}, 15, false},                                      /* a MAC that is none */
        {{33 | 64, 0x20, 1, [12] = 0xff, 0xfe, [16] = 1, 2, 0, 0, 0, 0, 1}, 23, false}, /* the MAC makes half of it */
        {{39, 0x20, 1, [16] = 3}, 17, false},                                           /* no form */
        {{62, 0x20, 1, [16] = 3}, 17, false},                                           /* no form */
    };
    const size_t fixed = 18;

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        struct emx_address a = {.id = 1, .if_count = 1}, b;
        uint8_t buf[ETHMX_ADDRESS_MAX];

        emx_address_encode(&a, buf);
        memcpy(buf + fixed, cases[i].b, cases[i].len_bytes);
        assert_int_equal(decode(buf, fixed + cases[i].len_bytes, &b), cases[i].good);
    }
}

/* The interfaces of an address take no more room than six with IPv4. */
static void ipv6_interfaces_have_bounds(void **state)
{
    struct emx_wire_if nif = {.prefix_bits = 48, .mac = {2}, .frame_bytes = 1500};
    struct emx_address a = {.id = 1}, b;
    uint8_t buf[ETHMX_ADDRESS_MAX];

    (void)state;
    assert_true(emx_ip_parse(&nif.ip, "2001:db8::3"));
    for (unsigned i = 0; i < 3; i++)
        assert_true(emx_address_add_if(&a, &nif));
    assert_false(emx_address_add_if(&a, &nif));
    assert_int_equal(a.if_count, 3);
    assert_true(decode(buf, emx_address_encode(&a, buf), &b));
    assert_true(same(&a, &b));
    a.ifs[a.if_count++] = nif;
    assert_false(decode(buf, emx_address_encode(&a, buf), &b));
}

static void networks_are_counted_up_to_the_first_that_is_there_twice(void **state)
{
    static const struct {
        uint8_t ip[6][4];
        uint8_t prefix_bits[6], ifs, networks;
    } cases[] = {
        {{{0}}, {0}, 0, 0},
        {{{10, 0, 0, 1}}, {24}, 1, 1},
        {{{10, 0, 0, 1}, {10, 0, 1, 1}, {10, 0, 0, 2}, {10, 0, 3, 1}}, {24, 24, 24, 24}, 4, 2},
        {{{10, 0, 0, 1}, {10, 0, 0, 17}}, {28, 28}, 2, 2},
        {{{10, 0, 0, 1}, {10, 0, 0, 14}}, {28, 28}, 2, 1},
        {{{10, 0, 0, 1}, {10, 0, 0, 2}}, {32, 32}, 2, 2},
        {{{10, 0, 0, 1}, {10, 0, 0, 2}}, {16, 24}, 2, 2},
        {{{10, 0, 0, 1}, {0, 0, 0, 0}}, {24, 0}, 2, 1},
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        struct emx_address a = {.id = 1, .if_count = cases[i].ifs};

        for (unsigned k = 0; k < a.if_count; k++) {
            a.ifs[k].ip = v4(cases[i].ip[k][0], cases[i].ip[k][1], cases[i].ip[k][2], cases[i].ip[k][3]);
            a.ifs[k].prefix_bits = cases[i].prefix_bits[k];
        }
        assert_int_equal(emx_address_networks(&a), cases[i].networks);
    }
}

/* What a later build tells, of wires that we do not know, is kept but for what is no address. */
static void parts_are_bounded(void **state)
{
    static const struct {
        const char *what;
        uint8_t counts, part[16];
        unsigned len_bytes;
        bool good;
    } cases[] = {
        {"nothing", 0, {0}, 0, true},
        {"one part", 1, {9 << 3 | 1, 77}, 2, true},
        {"a value that is cut", 1, {9 << 3 | 2, 77}, 2, false},
        {"a length that is cut", 1, {9 << 3 | 7}, 1, false},
        {"a long length of a short value", 1, {9 << 3 | 7, 1, 77}, 3, false},
        {"a long value that is cut", 1, {9 << 3 | 7, 200, 77}, 3, false},
        {"two parts of one type", 2, {9 << 3, 9 << 3}, 2, false},
        {"two host names", 2, {1, 'a', 1, 'b'}, 4, false},
        {"a host name of no bytes", 1, {0}, 1, false},
        {"the host name first", 2, {1, 'a', 9 << 3}, 3, true},
        {"fewer parts than were counted", 2, {9 << 3}, 1, false},
        {"more parts than were counted", 1, {9 << 3, 10 << 3}, 2, false},
    };
    struct emx_address a = {.id = 1}, b;
    uint8_t buf[ETHMX_ADDRESS_MAX];

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        size_t len = emx_address_encode(&a, buf);

        buf[3] = (uint8_t)(cases[i].counts << 5);
        memcpy(buf + len, cases[i].part, cases[i].len_bytes);
        if (decode(buf, len + cases[i].len_bytes, &b) != cases[i].good)
            fail_msg("%s: %s", cases[i].what, cases[i].good ? "refused" : "accepted");
    }
}

static void a_part_is_found_by_its_type(void **state)
{
    struct emx_address a = {.id = 1}, b = {.id = 1};
    static const uint8_t much[EMX_ADDRESS_PART_BYTES] = {5};

    (void)state;
    assert_null(emx_address_part(&a, 4).b);
    assert_true(emx_address_add_part(&a, 4, NULL, 0));
    assert_true(emx_address_add_part(&a, 7, "seven", 5));
    assert_non_null(emx_address_part(&a, 4).b);
    assert_int_equal(emx_address_part(&a, 4).len_bytes, 0);
    assert_memory_equal(emx_address_part(&a, 7).b, "seven", 5);
    assert_false(emx_address_add_part(&a, 8, much, sizeof(much)));
    assert_null(emx_address_part(&a, 8).b);
    assert_true(emx_address_parts_agree(&a, &b) && emx_address_parts_agree(&b, &a));
    assert_true(emx_address_add_part(&b, 7, "Seven", 5));
    assert_false(emx_address_parts_agree(&a, &b) || emx_address_parts_agree(&b, &a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back_as_it_was),
        cmocka_unit_test(is_cut_to_the_room),
        cmocka_unit_test(every_other_length_is_refused),
        cmocka_unit_test(garbage_is_refused_or_harmless),
        cmocka_unit_test(another_version_is_named),
        cmocka_unit_test(the_incarnation_is_never_0),
        cmocka_unit_test(the_encoding_is_fixed),
        cmocka_unit_test(parts_are_bounded),
        cmocka_unit_test(a_part_is_found_by_its_type),
        cmocka_unit_test(interfaces_by_ip_alone_are_short),
        cmocka_unit_test(ipv6_interfaces_are_short),
        cmocka_unit_test(ipv6_interfaces_are_checked),
        cmocka_unit_test(ipv6_interfaces_have_bounds),
        cmocka_unit_test(networks_are_counted_up_to_the_first_that_is_there_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
