/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames in UDP: what the receiver takes, with the mark, and what it leaves; the headers; the port that is held.
 *
 * Over the loopback of a network namespace of its own. Needs root, or a kernel that lets users make user namespaces;
 * skipped without.
 */
#define _GNU_SOURCE
#include "network.h"
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/config.h"
#include "wire/netif.h"
#include "wire/packet/packet_udp.h"

#define WAIT_MS          20000
#define ID               0x01020304u
#define FRAME_BYTES      1472
#define PART_OF_A_PACKET 0x20 /* MF */

static struct emx_stats stats;
static bool has_network;

struct ends {
    struct emx_packet_udp u;
    int tx_fd;
    struct sockaddr_ll lo;
};

/* v6: the only chosen interface has IPv6 alone. */
static int setup_family(void **state, bool v6)
{
    static struct ends e;
    struct emx_config cfg;
    struct emx_netifs netifs = {.count = 1, .nif = {{.chosen = true, .ip6 = {{[0] = 0xfd, [15] = (uint8_t)v6}}}}};
    const struct emx_wire_params params = {.cfg = &cfg, .netifs = &netifs, .endpoint_id = ID, .stats = &stats};
    int on = 1;

    *state = NULL;
    if (!has_network)
        return 0;
    memset(&stats, 0, sizeof(stats));
    emx_config_defaults(&cfg);
    netifs.nif[0].ip.s_addr = v6 ? 0 : htonl(INADDR_LOOPBACK);
    assert_int_equal(emx_packet_udp_open(&e.u, &params, FRAME_BYTES), 0);
    e.lo = (struct sockaddr_ll){.sll_family = AF_PACKET,
                                .sll_ifindex = (int)if_nametoindex("lo"),
                                .sll_protocol = htons(v6 ? ETH_P_IPV6 : ETH_P_IP)};
    e.tx_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    assert_true(e.tx_fd >= 0);
    assert_true(!v6 || !setsockopt(e.tx_fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)));
    *state = &e;
    return 0;
}

static int setup(void **state)
{
    return setup_family(state, false);
}

static int setup6(void **state)
{
    return setup_family(state, true);
}

static int teardown(void **state)
{
    struct ends *e = *state;

    if (!e)
        return 0;
    close(e->tx_fd);
    emx_packet_udp_close(&e->u);
    return 0;
}

static struct emx_gso_way way_to(const struct ends *e, uint8_t tos)
{
    const struct emx_ip here = e->u.v6 ? (struct emx_ip){{[15] = 1}} : emx_ip_from_v4(htonl(INADDR_LOOPBACK));

    return (struct emx_gso_way){
        .from_ip = here, .to_ip = here, .from_port = 4000, .to_port = e->u.port.port, .tos = tos};
}

/* A frame of len_bytes for `id`, after its headers; flags: of the IPv4 header. */
static void send_frame(const struct ends *e, const struct emx_gso_way *way, uint32_t id, size_t len_bytes,
                       uint8_t flags)
{
    uint8_t packet[EMX_PACKET_UDP_HEAD + FRAME_BYTES + 100] = {0};
    unsigned head_bytes = emx_packet_udp_head(packet, way, len_bytes);

    if (flags)
        packet[ETH_HLEN + 6] |= flags;
    memcpy(packet + head_bytes + 4, &id, sizeof(id));
    packet[head_bytes + len_bytes - 1] = 0x5a;
    assert_int_equal(
        sendto(e->tx_fd, packet, head_bytes + len_bytes, 0, (const struct sockaddr *)&e->lo, sizeof(e->lo)),
        (int)(head_bytes + len_bytes));
}

static struct emx_rxframe take_one(struct ends *e)
{
    struct pollfd p = {.fd = e->u.rx_fd, .events = POLLIN};
    struct emx_rxframe f[2];

    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    assert_int_equal(emx_packet_udp_rx(&e->u, f, 2, UINT64_MAX), 1);
    return f[0];
}

static void frames_arrive_whole_and_aligned(void **state)
{
    static const size_t lengths[] = {9, 64, 65, 1000, FRAME_BYTES};
    struct ends *e = *state;

    if (!e)
        skip();
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        const struct emx_gso_way way = way_to(e, 0);
        struct emx_rxframe f;

        send_frame(e, &way, ID, lengths[i], 0);
        f = take_one(e);
        assert_int_equal(f.len_bytes, lengths[i]);
        assert_int_equal(f.data[lengths[i] - 1], 0x5a);
        assert_int_equal((uintptr_t)f.data % 16, 0);
        assert_false(f.marked);
        assert_true(f.cookie & EMX_PACKET_UDP_COOKIE);
        emx_packet_udp_return(&e->u, f.cookie);
    }
}

/* More frames than the ring has slots: each slot is used again. */
static void slots_are_used_again(void **state)
{
    struct ends *e = *state;
    struct emx_gso_way way;

    if (!e)
        skip();
    way = way_to(e, 0);
    for (unsigned i = 0; i < 2 * e->u.ring.slot_count + 1; i++) {
        send_frame(e, &way, ID, 64, 0);
        emx_packet_udp_return(&e->u, take_one(e).cookie);
    }
    assert_int_equal(stats.wire_lost, 0);
}

static void congestion_mark_is_reported(void **state)
{
    static const uint8_t tos[] = {IPTOS_ECN_NOT_ECT, IPTOS_ECN_ECT0, IPTOS_ECN_CE, 0xb8 | IPTOS_ECN_CE};
    struct ends *e = *state;

    if (!e)
        skip();
    for (unsigned i = 0; i < sizeof(tos); i++) {
        const struct emx_gso_way way = way_to(e, tos[i]);
        struct emx_rxframe f;

        send_frame(e, &way, ID, 64, 0);
        f = take_one(e);
        assert_int_equal(f.marked, IPTOS_ECN(tos[i]) == IPTOS_ECN_CE);
        emx_packet_udp_return(&e->u, f.cookie);
    }
}

/* What comes before a valid frame is not seen: another port, a fragment. What is for another endpoint, or too long, is
 * counted. */
static void others_packets_are_left(void **state)
{
    struct ends *e = *state;
    struct emx_gso_way way, elsewhere;

    if (!e)
        skip();
    way = elsewhere = way_to(e, 0);
    elsewhere.to_port ^= 1;
    send_frame(e, &elsewhere, ID, 64, 0);
    if (!e->u.v6)
        send_frame(e, &way, ID, 64, PART_OF_A_PACKET);
    send_frame(e, &way, ID + 1, 64, 0);
    send_frame(e, &way, ID, 4, 0);
    send_frame(e, &way, ID, FRAME_BYTES + 100, 0);
    send_frame(e, &way, ID, 77, 0);
    assert_int_equal(take_one(e).len_bytes, 77);
    assert_int_equal(stats.drop_not_mine, 2);
    assert_int_equal(stats.wire_lost, 1);
}

static void headers_have_ports_tos_and_no_udp_checksum(void **state)
{
    const struct emx_gso_way way = {.from_ip = emx_ip_from_v4(htonl(0x0a000001)),
                                    .to_ip = emx_ip_from_v4(htonl(0x0a000002)),
                                    .from_port = 0x1234,
                                    .to_port = 0x5678,
                                    .tos = 0xba};
    uint8_t head[EMX_PACKET_UDP_HEAD];
    const uint8_t *ip = head + ETH_HLEN, *udp = ip + 20;
    unsigned sum = 0;

    (void)state;
    emx_packet_udp_head(head, &way, 100);
    assert_int_equal(ip[0], 0x45);
    assert_int_equal(ip[1], 0xba);
    assert_int_equal(ip[2] << 8 | ip[3], 128);
    for (unsigned i = 0; i < 20; i += 2)
        sum += (unsigned)(ip[i] << 8 | ip[i + 1]);
    assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
    assert_int_equal(udp[0] << 8 | udp[1], 0x1234);
    assert_int_equal(udp[2] << 8 | udp[3], 0x5678);
    assert_int_equal(udp[4] << 8 | udp[5], 108);
    assert_int_equal(udp[6] << 8 | udp[7], 0);
}

static unsigned sum_of(const uint8_t *p, unsigned len_bytes, unsigned sum)
{
    for (unsigned i = 0; i < len_bytes; i += 2)
        sum += (unsigned)(p[i] << 8 | p[i + 1]);
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

/* The kernel adds the sum over UDP's header and data, of which the field is a part. */
static void headers_of_ipv6_leave_the_udp_checksum_to_the_kernel(void **state)
{
    const struct emx_gso_way way = {.from_ip = {{0xfd, [15] = 1}},
                                    .to_ip = {{0xfd, [15] = 2}},
                                    .from_port = 0x1234,
                                    .to_port = 0x5678,
                                    .tos = 0xba};
    uint8_t head[EMX_PACKET_UDP_HEAD];
    const uint8_t *ip = head + EMX_PACKET_VNET_BYTES + ETH_HLEN, *udp = ip + 40;

    (void)state;
    assert_int_equal(emx_packet_udp_head(head, &way, 100), EMX_PACKET_UDP_HEAD);
    assert_int_equal(head[0], 1);                            /* the checksum is to be completed */
    assert_int_equal(head[1], 0);                            /* no GSO */
    assert_int_equal(head[6] | head[7] << 8, ETH_HLEN + 40); /* from here on */
    assert_int_equal(head[8] | head[9] << 8, 6);             /* and written here */
    assert_int_equal(ip[-2] << 8 | ip[-1], 0x86dd);
    assert_int_equal(ip[0] << 8 | ip[1], 0x6ba0);
    assert_int_equal(ip[4] << 8 | ip[5], 108);
    assert_int_equal(ip[6], 17);
    assert_int_equal(udp[0] << 8 | udp[1], 0x1234);
    assert_int_equal(udp[2] << 8 | udp[3], 0x5678);
    assert_int_equal(udp[4] << 8 | udp[5], 108);
    assert_int_equal(udp[6] << 8 | udp[7], sum_of(ip + 8, 32, 17 + 108));
}

/* The error of a UDP socket that has sent to the port: ECONNREFUSED is the answer to ICMP port unreachable. */
static int answer_of(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;
    char byte = 0;

    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(send(fd, &byte, 1, 0), 1);
    err = recv(fd, &byte, 1, 0) < 0 ? errno : 0;
    close(fd);
    return err;
}

/* A port of IPv6 is held for IPv4, too. */
static void check_held_port(bool v6)
{
    struct emx_udp_port p;
    uint16_t port;
    char byte;

    assert_int_equal(emx_udp_port_open(&p, v6), 0);
    port = p.port;
    assert_int_not_equal(port, 0);
    assert_int_equal(answer_of(port), EAGAIN);
    assert_int_equal(recv(p.fd, &byte, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
    emx_udp_port_close(&p);
    assert_int_equal(p.fd, -1);
    assert_int_equal(answer_of(port), ECONNREFUSED);
}

static void held_port_is_not_unreachable(void **state)
{
    (void)state;
    if (!has_network)
        skip();
    check_held_port(false);
    check_held_port(true);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frames_arrive_whole_and_aligned, setup, teardown),
        cmocka_unit_test_setup_teardown(slots_are_used_again, setup, teardown),
        cmocka_unit_test_setup_teardown(congestion_mark_is_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(others_packets_are_left, setup, teardown),
        cmocka_unit_test_setup_teardown(frames_arrive_whole_and_aligned, setup6, teardown),
        cmocka_unit_test_setup_teardown(slots_are_used_again, setup6, teardown),
        cmocka_unit_test_setup_teardown(congestion_mark_is_reported, setup6, teardown),
        cmocka_unit_test_setup_teardown(others_packets_are_left, setup6, teardown),
        cmocka_unit_test(headers_of_ipv6_leave_the_udp_checksum_to_the_kernel),
        cmocka_unit_test(headers_have_ports_tos_and_no_udp_checksum),
        cmocka_unit_test(held_port_is_not_unreachable),
    };

    has_network = unit_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
