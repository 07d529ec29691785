/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GSO packets: what is built is taken apart again, whole, cut or damaged, without looking beyond the bytes given.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "wire/gso.h"

#define PART  1000
#define PARTS 20
#define LAST  300
#define BYTES ((PARTS - 1) * PART + LAST) /* of all frames */
#define IP    14                          /* where the IPv4 header begins */

static const struct emx_gso_way way = {.from_mac = {2, 0, 0, 0, 0, 1},
                                       .to_mac = {2, 0, 0, 0, 0, 2},
                                       .from_ip = {{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}}, /* 10.0.0.1 */
                                       .to_ip = {{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}},
                                       .from_port = 0x1234,
                                       .to_port = 0x5678};

static const struct emx_gso_way way6 = {.from_mac = {2, 0, 0, 0, 0, 1},
                                        .to_mac = {2, 0, 0, 0, 0, 2},
                                        .from_ip = {{0xfd, [15] = 1}},
                                        .to_ip = {{0xfd, [15] = 2}},
                                        .from_port = 0x1234,
                                        .to_port = 0x5678};

/* A packet as it arrives, IPv4 header first, in memory of just its length; each frame is full of its number. */
static uint8_t *make_packet(size_t len_bytes)
{
    static uint8_t all[EMX_GSO_HEAD_BYTES + BYTES];
    uint8_t *exact = malloc(len_bytes ? len_bytes : 1);

    assert_non_null(exact);
    emx_gso_head(all, &way, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        all[EMX_GSO_HEAD_BYTES + i] = (uint8_t)(1 + i / PART);
    memcpy(exact, all + IP, len_bytes);
    return exact;
}

/* Takes all frames out; returns how many, and checks that they are those sent, each whole. */
static unsigned take(struct emx_gso *s)
{
    const uint8_t *data;
    uint32_t len_bytes;
    unsigned n = 0;

    while ((data = emx_gso_next(s, &len_bytes))) {
        n++;
        assert_int_equal(len_bytes, n == PARTS ? LAST : PART);
        for (uint32_t i = 0; i < len_bytes; i++)
            assert_int_equal(data[i], n);
    }
    return n;
}

static void headers_are_as_they_should(void **state)
{
    static const uint8_t want[EMX_GSO_HEAD_BYTES] = {
        2,    0,    0,    0,    0,    2,    2,    0,    0,  0,  0,    1,    8,  0, /* Ethernet */
        0x45, 0,    0x4b, 0x80, 0,    0,    0x40, 0,    64, 17, 0xdb, 0x6a, 10, 0,
        0,    1,    10,   0,    0,    2,                /* IPv4, 19328 bytes */
        0x12, 0x34, 0x56, 0x78, 0x4b, 0x6c, 0x5f, 0x80, /* UDP, 19308 bytes */
    };
    uint8_t head[EMX_GSO_HEAD_BYTES];

    (void)state;
    memset(head, 0xEE, sizeof(head));
    emx_gso_head(head, &way, 19300);
    assert_memory_equal(head, want, sizeof(want));
}

static void headers_of_ipv6_are_as_they_should(void **state)
{
    static const uint8_t want[EMX_GSO_HEAD_MOST] = {
        2,    0,    0, 0, 0,    2,    2,  0,  0, 0, 0, 1,    0x86, 0xdd, /* Ethernet */
        0x6b, 0xa0, 0, 0, 0x4b, 0x6c, 17, 64,                            /* IPv6, 19308 bytes */
        0xfd, 0,    0, 0, 0,    0,    0,  0,  0, 0, 0, 0,    0,    0,    0,    1,    0xfd, 0,    0,    0, 0,
        0,    0,    0, 0, 0,    0,    0,  0,  0, 0, 2, 0x12, 0x34, 0x56, 0x78, 0x4b, 0x6c, 0x45, 0x82, /* UDP: fd00 + 1
                                                                                                          + fd00 + 2 +
                                                                                                          17 + 19308 */
    };
    struct emx_gso_way able = way6;
    uint8_t head[EMX_GSO_HEAD_MOST];

    (void)state;
    memset(head, 0xEE, sizeof(head));
    able.tos = 0xba;
    assert_int_equal(emx_gso_head(head, &able, 19300), sizeof(want));
    assert_memory_equal(head, want, sizeof(want));
}

/* Whole, cut anywhere, with any traffic class, and not with another next header. */
static void parts_come_out_of_ipv6(void **state)
{
    static uint8_t all[EMX_GSO_HEAD_MOST + BYTES];
    uint8_t *ip = all + IP;
    struct emx_gso s;

    (void)state;
    assert_int_equal(emx_gso_head(all, &way6, BYTES), EMX_GSO_HEAD_MOST);
    for (size_t i = 0; i < BYTES; i++)
        all[EMX_GSO_HEAD_MOST + i] = (uint8_t)(1 + i / PART);
    for (size_t len = 0; len <= EMX_GSO_IP6_BYTES + BYTES; len++) {
        uint8_t *exact = malloc(len + !len);
        unsigned whole = len < EMX_GSO_IP6_BYTES ? 0 : (unsigned)(len - EMX_GSO_IP6_BYTES) / PART;

        assert_non_null(exact);
        memcpy(exact, ip, len);
        if (len == EMX_GSO_IP6_BYTES + BYTES)
            whole = PARTS;
        assert_int_equal(emx_gso_open(&s, exact, len, PART), len >= EMX_GSO_IP6_BYTES);
        if (len >= EMX_GSO_IP6_BYTES) {
            assert_int_equal(s.lost, PARTS - whole);
            assert_int_equal(take(&s), whole);
        }
        free(exact);
    }
    for (unsigned tos = 0; tos < 256; tos++) {
        ip[0] = (uint8_t)(0x60 | tos >> 4);
        ip[1] = (uint8_t)(tos << 4 | 0xf);
        assert_true(emx_gso_open(&s, ip, EMX_GSO_IP6_BYTES + BYTES, PART));
        assert_int_equal(s.marked, tos % 4 == 3);
    }
    ip[6] = 44; /* a fragment */
    assert_false(emx_gso_open(&s, ip, EMX_GSO_IP6_BYTES + BYTES, PART));
    ip[6] = 17;
    ip[5]--; /* IPv6 says it is shorter than UDP says */
    assert_false(emx_gso_open(&s, ip, EMX_GSO_IP6_BYTES + BYTES, PART));
}

/* Such that may be marked, and such that is, whatever its class: the header's checksum fits both times (RFC 1071: the
 * sum over all of it is all ones). */
static void marks_are_seen(void **state)
{
    uint8_t packet[EMX_GSO_HEAD_BYTES + 40] = {0}, *ip = packet + IP;
    struct emx_gso_way able = way;
    struct emx_gso s;
    uint32_t sum = 0;

    (void)state;
    able.tos = 0xb8 | 2;
    emx_gso_head(packet, &able, 40);
    assert_int_equal(ip[1], 0xba);
    for (unsigned i = 0; i < 20; i += 2)
        sum += (uint32_t)ip[i] << 8 | ip[i + 1];
    assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
    for (unsigned tos = 0; tos < 256; tos++) {
        ip[1] = (uint8_t)tos;
        assert_true(emx_gso_open(&s, ip, EMX_GSO_IP_BYTES + 40, 0));
        assert_int_equal(s.marked, tos % 4 == 3);
    }
}

static void parts_come_out(void **state)
{
    struct emx_gso s;
    uint8_t *ip = make_packet(EMX_GSO_IP_BYTES + BYTES);

    (void)state;
    assert_true(emx_gso_open(&s, ip, EMX_GSO_IP_BYTES + BYTES, PART));
    assert_int_equal(s.parts, PARTS);
    assert_int_equal(s.lost, 0);
    assert_int_equal(take(&s), PARTS);
    free(ip);
}

/* Cut anywhere: the frames before the cut are whole, the others are counted. */
static void a_cut_costs_what_it_cuts(void **state)
{
    (void)state;
    for (size_t len = 0; len < EMX_GSO_IP_BYTES + BYTES; len++) {
        unsigned whole = len < EMX_GSO_IP_BYTES ? 0 : (unsigned)(len - EMX_GSO_IP_BYTES) / PART;
        struct emx_gso s;
        uint8_t *ip = make_packet(len);

        if (emx_gso_open(&s, ip, len, PART)) {
            assert_true(len >= EMX_GSO_IP_BYTES);
            assert_int_equal(s.parts, whole);
            assert_int_equal(s.lost, PARTS - whole);
            assert_int_equal(take(&s), whole);
        } else {
            assert_true(len < EMX_GSO_IP_BYTES);
        }
        free(ip);
    }
}

/* The parts' length is the kernel's word; whatever it is, no byte comes twice or from outside. */
static void any_part_length_is_survived(void **state)
{
    static const size_t lengths[] = {0, 1, 2, 7, 999, 1001, BYTES - 1, BYTES, BYTES + 1, 65535, 1000000};
    uint8_t *ip = make_packet(EMX_GSO_IP_BYTES + BYTES);

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
        const uint8_t *data, *at = ip + EMX_GSO_IP_BYTES;
        struct emx_gso s;
        uint32_t len_bytes;
        unsigned n = 0;

        assert_true(emx_gso_open(&s, ip, EMX_GSO_IP_BYTES + BYTES, lengths[i]));
        while ((data = emx_gso_next(&s, &len_bytes))) {
            assert_ptr_equal(data, at);
            at += len_bytes;
            n++;
        }
        assert_ptr_equal(at, ip + EMX_GSO_IP_BYTES + BYTES);
        assert_int_equal(n, s.parts);
        assert_int_equal(s.lost, 0);
    }
    free(ip);
}

/* Short packets are padded on Ethernet; the padding is no frame. */
static void padding_is_left_out(void **state)
{
    uint8_t packet[EMX_GSO_HEAD_BYTES + 40] = {0};
    struct emx_gso s;
    uint32_t len_bytes;

    (void)state;
    emx_gso_head(packet, &way, 12);
    assert_true(emx_gso_open(&s, packet + IP, EMX_GSO_IP_BYTES + 40, 0));
    assert_non_null(emx_gso_next(&s, &len_bytes));
    assert_int_equal(len_bytes, 12);
    assert_null(emx_gso_next(&s, &len_bytes));
}

static void other_packets_are_refused(void **state)
{
    static const struct {
        unsigned at;
        uint8_t value;
    } changes[] = {
        {0, 0x46},             /* IP options */
        {0, 0x65},             /* another version */
        {9, 6},                /* TCP */
        {6, 0x20},             /* the first fragment */
        {7, 1},     {6, 0x41}, /* a later one */
        {2, 0},                /* IPv4 says it is shorter than UDP says */
        {24, 0xff},            /* UDP says it is longer than IPv4 says */
    };
    size_t len = EMX_GSO_IP_BYTES + BYTES;
    struct emx_gso s;

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(changes); i++) {
        uint8_t *ip = make_packet(len);

        ip[changes[i].at] = changes[i].value;
        assert_false(emx_gso_open(&s, ip, len, PART));
        free(ip);
    }
    for (unsigned udp_bytes = 0; udp_bytes <= 8; udp_bytes++) { /* no data */
        uint8_t *ip = make_packet(len);

        ip[24] = 0;
        ip[25] = (uint8_t)udp_bytes;
        assert_false(emx_gso_open(&s, ip, len, PART));
        free(ip);
    }
}

static void garbage_is_survived(void **state)
{
    struct emx_rng rng = {.state = 4711};

    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        size_t len = (size_t)emx_rng_below(&rng, 200), used = 0;
        uint8_t *ip = malloc(len + 1);
        struct emx_gso s;
        const uint8_t *data;
        uint32_t len_bytes;

        assert_non_null(ip);
        for (size_t i = 0; i < len; i++)
            ip[i] = (uint8_t)emx_rng_next(&rng);
        if (len >= 10 && round % 2) {
            ip[0] = 0x45;
            ip[9] = 17;
            ip[6] = ip[7] = 0;
        }
        if (emx_gso_open(&s, ip, len, (size_t)emx_rng_below(&rng, 100))) {
            while ((data = emx_gso_next(&s, &len_bytes))) {
                assert_true(data >= ip + EMX_GSO_IP_BYTES && data + len_bytes <= ip + len);
                used += len_bytes;
            }
            assert_true(used + EMX_GSO_IP_BYTES <= len);
        }
        free(ip);
    }
}

static void equal_frames_fit_together(void **state)
{
    const struct emx_wire_addr here = {.b = {1}}, there = {.b = {2}};
    struct emx_txframe f[EMX_GSO_PARTS + 1];

    (void)state;
    for (unsigned i = 0; i <= EMX_GSO_PARTS; i++)
        f[i] = (struct emx_txframe){.to = &here, .head_bytes = 40, .body_bytes = 60, .gso = true};
    assert_int_equal(emx_gso_fit(f, 1, EMX_GSO_MAX, true), 1);
    assert_int_equal(emx_gso_fit(f, EMX_GSO_PARTS + 1, EMX_GSO_MAX, true), EMX_GSO_PARTS);
    assert_int_equal(emx_gso_fit(f, 10, 499, true), 4);
    f[5].gso = false;
    assert_int_equal(emx_gso_fit(f, 10, EMX_GSO_MAX, true), 5);
    assert_int_equal(emx_gso_fit(f, 10, EMX_GSO_MAX, false), 10);
    f[4].body_bytes = 10; /* a shorter one is the last */
    assert_int_equal(emx_gso_fit(f, 10, EMX_GSO_MAX, true), 5);
    f[3].body_bytes = 64; /* a longer one comes in no more */
    assert_int_equal(emx_gso_fit(f, 10, EMX_GSO_MAX, true), 3);
    f[2].to = &there;
    assert_int_equal(emx_gso_fit(f, 10, EMX_GSO_MAX, true), 2);
    f[0].body_bytes = 61; /* the second would not lie aligned */
    assert_int_equal(emx_gso_fit(f, 10, EMX_GSO_MAX, true), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_are_as_they_should),
        cmocka_unit_test(headers_of_ipv6_are_as_they_should),
        cmocka_unit_test(parts_come_out_of_ipv6),
        cmocka_unit_test(marks_are_seen),
        cmocka_unit_test(parts_come_out),
        cmocka_unit_test(a_cut_costs_what_it_cuts),
        cmocka_unit_test(any_part_length_is_survived),
        cmocka_unit_test(padding_is_left_out),
        cmocka_unit_test(other_packets_are_refused),
        cmocka_unit_test(garbage_is_survived),
        cmocka_unit_test(equal_frames_fit_together),
    };

    return cmocka_run_group_tests_name("GSO packet", tests, NULL, NULL);
}
