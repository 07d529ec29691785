/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ethernet: the part of an address with and without a port for single frames, and when these go in UDP.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <string.h>

#include "wire/ethernet.h"

#define PORT      4321
#define GSO_PORT  5432
#define OUR_IP    "10.1.0.1"
#define THEIR_IP  "10.1.0.2"
#define OUR_IP6   "2001:db8::1"
#define THEIR_IP6 "2001:db8::2"

static struct emx_netif eth0 = {.name = "eth0", .index = 2, .mtu_bytes = 1500, .prefix_bits = 24, .has_mac = true};

static struct emx_ip ip_of(const char *text)
{
    struct emx_ip ip;

    assert_true(emx_ip_parse(&ip, text));
    return ip;
}

static void assert_ip(const struct emx_ip *ip, const char *expected)
{
    char text[EMX_IP_TEXT];

    assert_string_equal(emx_ip_text(ip, text), expected);
}

/* The ways to a peer that takes frames in UDP, as the search finds them. */
static struct emx_way_search ways(const struct emx_ethernet_ends *ends, const struct emx_netif *nif, const char *ip,
                                  unsigned mtu_bytes)
{
    static const uint8_t mac[6] = {2, 0, 0, 0, 0, 2};
    static struct emx_netifs here;
    static const struct emx_way_site site = {.netifs = &here};
    struct emx_way_search s = {.site = &site, .frame_bytes = 9000};
    const struct emx_ip to = ip ? ip_of(ip) : (struct emx_ip){{0}};

    here.count = 1;
    here.nif[0] = *nif;
    emx_ethernet_add(&s, ends, &here.nif[0], mac, &to, mtu_bytes, 1);
    return s;
}

static struct emx_ethernet_ends both(void)
{
    return (struct emx_ethernet_ends){.ours = {.frame_bytes = 9000, .gso_port = GSO_PORT, .udp_port = PORT},
                                      .theirs = {.frame_bytes = 9000, .gso_port = GSO_PORT, .udp_port = PORT},
                                      .by_udp = true};
}

static void part_may_end_early(void **state)
{
    const struct emx_ethernet_part written = {
        .frame_bytes = 1500, .ethertype = 0x88b5, .gso_port = GSO_PORT, .udp_port = PORT, .tso = true};
    uint8_t value[EMX_ETHERNET_PART_BYTES];
    struct emx_ethernet_part read = {0};

    (void)state;
    emx_ethernet_part_write(&written, value);
    for (unsigned len = 0; len <= sizeof(value); len++) {
        const struct emx_wire_value v = {.b = value, .len_bytes = len};

        assert_int_equal(emx_ethernet_part_read(&v, &read), !len || len >= EMX_ETHERNET_PART_LEAST);
        if (len < EMX_ETHERNET_PART_LEAST)
            continue;
        assert_int_equal(read.gso_port, GSO_PORT);
        assert_int_equal(read.ethertype, 0x88b5);
        assert_int_equal(read.udp_port, len >= EMX_ETHERNET_PART_LEAST + 2 ? PORT : 0);
        assert_int_equal(read.tso, len == sizeof(value));
    }
}

/* The second way is for networks that drop UDP. */
static void way_in_udp_comes_first(void **state)
{
    const struct emx_ethernet_ends ends = both();
    struct emx_way_search s = ways(&ends, &eth0, THEIR_IP, 1500);
    struct emx_offload_to to;

    (void)state;
    assert_int_equal(s.count, 2);
    assert_int_equal(emx_ethernet_udp_port(&s.way[0].to), PORT);
    assert_int_equal(s.way[0].frame_bytes, 1472);
    assert_int_equal(s.way[0].gso_bytes, 1472);
    to = emx_offload_to(&s.way[0].to);
    assert_ip(&to.to_ip, THEIR_IP);
    assert_ip(&to.from_ip, OUR_IP);
    assert_int_equal(to.to_port, GSO_PORT);
    assert_int_equal(emx_ethernet_udp_port(&s.way[1].to), 0);
    assert_int_equal(s.way[1].frame_bytes, 1500);
    assert_int_equal(s.way[1].gso_bytes, 1472);
    assert_true(s.way[1].score > s.way[0].score);
}

/* The header is 20 bytes longer. */
static void way_of_ipv6(void **state)
{
    struct emx_ethernet_ends ends = both();
    struct emx_netif only = eth0;
    struct emx_way_search s;
    struct emx_offload_to to;

    (void)state;
    ends.v6 = true;
    only.ip.s_addr = 0;
    only.ip6 = ip_of(OUR_IP6);
    s = ways(&ends, &only, THEIR_IP6, 1500);
    assert_int_equal(s.count, 2);
    assert_int_equal(emx_ethernet_udp_port(&s.way[0].to), PORT);
    assert_int_equal(s.way[0].frame_bytes, 1452);
    assert_int_equal(s.way[0].gso_bytes, 1452);
    assert_int_equal(s.way[0].more_bytes, 20);
    to = emx_offload_to(&s.way[0].to);
    assert_ip(&to.to_ip, THEIR_IP6);
    assert_ip(&to.from_ip, OUR_IP6);
    assert_int_equal(s.way[1].frame_bytes, 1500);
    assert_int_equal(s.way[1].gso_bytes, 1452);
    assert_int_equal(s.way[1].more_bytes, 0);
}

/* The peer told by IPv6, where IP packets are of IPv4; and the other way round. */
static void families_must_be_the_same(void **state)
{
    struct emx_ethernet_ends ends = both();
    struct emx_netif nif = eth0;
    struct emx_way_search s;

    (void)state;
    nif.ip6 = ip_of(OUR_IP6);
    s = ways(&ends, &nif, THEIR_IP6, 1500);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.way[0].gso_bytes, 0);
    assert_int_equal(emx_ethernet_udp_port(&s.way[0].to), 0);
    ends.v6 = true;
    s = ways(&ends, &nif, THEIR_IP, 1500);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.way[0].gso_bytes, 0);
}

/* The header is longer. */
static void way_of_tso_packets(void **state)
{
    struct emx_ethernet_ends ends = both();
    struct emx_netif able = eth0;
    struct emx_way_search s = ways(&ends, &eth0, THEIR_IP, 1500);

    (void)state;
    assert_false(emx_offload_to(&s.way[0].to).tso);
    ends.tso = true;
    s = ways(&ends, &eth0, THEIR_IP, 1500);
    assert_false(emx_offload_to(&s.way[0].to).segments);
    able.segments = true;
    s = ways(&ends, &able, THEIR_IP, 1500);
    assert_int_equal(s.count, 2);
    for (unsigned i = 0; i < s.count; i++) {
        assert_true(emx_offload_to(&s.way[i].to).tso);
        assert_true(emx_offload_to(&s.way[i].to).segments);
        assert_int_equal(s.way[i].gso_bytes, 1468);
    }
}

static void frames_in_udp_without_gso_packets(void **state)
{
    struct emx_ethernet_ends ends = both();
    struct emx_way_search s;
    struct emx_offload_to to;

    (void)state;
    ends.theirs.gso_port = 0;
    s = ways(&ends, &eth0, THEIR_IP, 1500);
    assert_int_equal(s.count, 2);
    assert_int_equal(emx_ethernet_udp_port(&s.way[0].to), PORT);
    assert_int_equal(s.way[0].gso_bytes, 0);
    to = emx_offload_to(&s.way[0].to);
    assert_ip(&to.to_ip, THEIR_IP);
    assert_int_equal(emx_offload_to(&s.way[0].to).gso_bytes, 0);
}

static void assert_ethertype(const struct emx_ethernet_ends *ends, const struct emx_netif *nif, const char *ip,
                             unsigned mtu_bytes)
{
    struct emx_way_search s = ways(ends, nif, ip, mtu_bytes);

    assert_int_equal(s.count, 1);
    assert_int_equal(emx_ethernet_udp_port(&s.way[0].to), 0);
    assert_int_equal(s.way[0].score, 1);
    assert_int_equal(s.way[0].frame_bytes, mtu_bytes);
}

static void both_ends_must_want_udp(void **state)
{
    struct emx_ethernet_ends ends = both();
    struct emx_netif bare = eth0;

    (void)state;
    bare.ip.s_addr = 0;
    assert_ethertype(&ends, &bare, THEIR_IP, 1500);
    assert_ethertype(&ends, &eth0, NULL, 1500);
    assert_ethertype(&ends, &eth0, THEIR_IP, EMX_WAY_FRAME_MIN);
    ends.theirs.udp_port = 0;
    assert_ethertype(&ends, &eth0, THEIR_IP, 1500);
    ends = both();
    ends.by_udp = false;
    assert_ethertype(&ends, &eth0, THEIR_IP, 1500);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(part_may_end_early),
        cmocka_unit_test(way_in_udp_comes_first),
        cmocka_unit_test(way_of_ipv6),
        cmocka_unit_test(families_must_be_the_same),
        cmocka_unit_test(way_of_tso_packets),
        cmocka_unit_test(frames_in_udp_without_gso_packets),
        cmocka_unit_test(both_ends_must_want_udp),
    };

    eth0.ip.s_addr = inet_addr(OUR_IP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
