/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GSO packets beyond tests/conform: a ring that has fewer slots than frames that may be in use at once, data that is
 * received into its place, and the choice of sockets.
 *
 * Over the loopback of a network namespace of its own. Needs root, or a kernel that lets users make user namespaces;
 * skipped without, and where the kernel knows no GSO packets.
 */
#define _GNU_SOURCE
#include "network.h"
#include "unit.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/config.h"
#include "wire/gso_udp.h"
#include "wire/offload.h"
#include "wire/netif.h"

#define WAIT_MS     20000
#define FRAME_BYTES 1000
#define HEAD_BYTES  48
#define THERE       0xc0000201 /* 192.0.2.1 */
#define OTHER       0xc0000202

/* A link to nobody else: what leaves by emx-a arrives at emx-b, which has the address THERE. Returns its index. */
static unsigned own_link(void)
{
    assert_int_equal(system("ip link add emx-a type veth peer name emx-b && ip addr add 192.0.2.1/24 dev emx-b && "
                            "ip link set emx-a up && ip link set emx-b address 02:00:00:00:00:01 up"),
                     0);
    return if_nametoindex("emx-a");
}

/* Frame `number` to our own port, in a packet of its own. */
static void send_alone(struct emx_offload *b, unsigned ifindex, uint32_t number)
{
    static const uint8_t no_mac[6];
    static uint8_t data[FRAME_BYTES];
    const struct emx_offload_way way = {.from = emx_ip_from_v4(htonl(INADDR_LOOPBACK)),
                                        .to = emx_ip_from_v4(htonl(INADDR_LOOPBACK)),
                                        .port = emx_offload_port(b),
                                        .frame_bytes = FRAME_BYTES};
    struct emx_wire_addr to;
    const struct emx_txframe f = {.to = &to, .head = data, .head_bytes = sizeof(data), .gso = true};

    emx_offload_addr(&to, ifindex, no_mac, &way, 0);
    memcpy(data, &number, sizeof(number));
    assert_int_equal(emx_offload_send(b, no_mac, &f, 1), 0);
}

/* A packet of n frames with data, each of which begins as those whose data has a place. */
static void send_data(struct emx_offload *b, unsigned ifindex, uint32_t to_ip, unsigned number, unsigned n)
{
    static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
    static uint8_t data[EMX_WIRE_BATCH][FRAME_BYTES];
    const struct emx_offload_way way = {.from =
                                            emx_ip_from_v4(htonl(to_ip == INADDR_LOOPBACK ? INADDR_LOOPBACK : OTHER)),
                                        .to = emx_ip_from_v4(htonl(to_ip)),
                                        .port = emx_offload_port(b),
                                        .frame_bytes = FRAME_BYTES};
    struct emx_txframe f[EMX_WIRE_BATCH];
    struct emx_wire_addr to;

    emx_offload_addr(&to, ifindex, mac, &way, 0);
    for (unsigned i = 0; i < n; i++) {
        data[i][0] = EMX_PLACE_MARK_HEADER >> 8;
        data[i][1] = EMX_PLACE_MARK_HEADER & 0xff;
        data[i][HEAD_BYTES] = (uint8_t)number;
        data[i][FRAME_BYTES - 1] = (uint8_t)i;
        f[i] = (struct emx_txframe){.to = &to, .head = data[i], .head_bytes = FRAME_BYTES, .gso = true};
    }
    assert_int_equal(emx_offload_send(b, mac, f, n), 0);
}

static uint32_t number_of(const struct emx_rxframe *f)
{
    uint32_t number;

    memcpy(&number, f->data, sizeof(number));
    return number;
}

/* Receives n frames in one call that receives anything. */
static void take_some(struct emx_offload *b, struct emx_rxframe f[EMX_WIRE_BATCH], unsigned n)
{
    unsigned got;

    while (!(got = emx_offload_rx(b, f, EMX_WIRE_BATCH))) {
        struct pollfd p = {.fd = emx_offload_fd(b), .events = POLLIN};

        if (!emx_offload_waits(b))
            assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    }
    assert_int_equal(got, n);
}

/* Receives n frames, as they come: each once, and in order. */
static void take(struct emx_offload *b, struct emx_rxframe f[EMX_WIRE_BATCH], uint32_t first, unsigned n)
{
    struct pollfd p = {.fd = emx_offload_fd(b), .events = POLLIN};
    unsigned got = 0;

    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    while (got < n)
        got += emx_offload_rx(b, f + got, EMX_WIRE_BATCH - got);
    assert_int_equal(got, n);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(number_of(&f[i]), first + i);
}

/* Over the loopback interface; why has what was found. NULL: there are no GSO packets. */
static struct emx_offload *open_over_loopback(struct emx_netifs *netifs, enum emx_gso_sockets sockets,
                                              uint64_t ring_bytes, unsigned local_ranks, const struct emx_placer *to,
                                              char why[512])
{
    static struct emx_stats stats;
    struct emx_config cfg;
    const struct emx_wire_params params = {
        .cfg = &cfg, .netifs = netifs, .endpoint_id = 1, .local_ranks = local_ranks, .stats = &stats, .placer = to};

    emx_config_defaults(&cfg);
    strcpy(cfg.p_if, "lo");
    cfg.p_gso_buffer = ring_bytes;
    cfg.p_gso = sockets;
    assert_int_equal(emx_netifs_read(netifs, &cfg, NULL, why, 512), ETHMX_OK);
    return emx_offload_open(&params, why, 512);
}

/* *slots_p: of its ring. The test is skipped where packet sockets carry no GSO packets. */
static struct emx_offload *open_ring(struct emx_netifs *netifs, uint64_t ring_bytes, unsigned local_ranks,
                                     unsigned *slots_p)
{
    char why[512];
    struct emx_offload *b = open_over_loopback(netifs, EMX_GSO_PACKET, ring_bytes, local_ranks, NULL, why);

    if (!b && strstr(why, "Linux 6.2"))
        skip();
    assert_non_null(b);
    assert_int_equal(sscanf(why, "%u GSO packets", slots_p), 1);
    return b;
}

/* A placer that expects data, has places in `memory`, and takes all guesses for right. */
static uint8_t memory[EMX_WIRE_BATCH][FRAME_BYTES];
static unsigned planned;

static bool expects(const void *arg)
{
    (void)arg;
    return true;
}

static void plan(void *arg, const uint8_t *head, size_t head_bytes, size_t len_bytes, struct emx_placement *p)
{
    (void)arg, (void)head;
    p->count = 0;
    p->head_bytes = HEAD_BYTES;
    assert_in_range(head_bytes, HEAD_BYTES, EMX_PLACE_HEAD_BYTES);
    for (; len_bytes >= FRAME_BYTES; len_bytes -= FRAME_BYTES, p->count++)
        p->place[p->count] = (struct emx_place){memory[p->count], FRAME_BYTES - HEAD_BYTES};
    assert_int_equal(len_bytes, 0);
    planned += p->count;
}

static unsigned settle(void *arg, struct emx_placement *p, const uint8_t *head, size_t stride, unsigned n)
{
    (void)arg, (void)p, (void)head, (void)stride;
    return n;
}

static const struct emx_placer placer = {.arg = &planned, .expects = expects, .plan = plan, .settle = settle};

/* Packets of pulled data come one at a time, with the data in its place. */
static void data_comes_to_its_place(enum emx_gso_sockets sockets)
{
    enum { PACKETS = 20, FRAMES = 40 };
    struct emx_rxframe f[EMX_WIRE_BATCH];
    struct emx_netifs netifs;
    struct emx_offload *b;
    unsigned link;
    char why[512];

    if (!unit_own_network())
        skip();
    link = own_link();
    b = open_over_loopback(&netifs, sockets, 4 << 20, 0, &placer, why);
    if (!b && strstr(why, "Linux 6.2"))
        skip();
    assert_non_null(b);
    planned = 0;
    for (unsigned i = 0; i < PACKETS; i++)
        send_data(b, sockets == EMX_GSO_UDP ? netifs.loopback_index : link,
                  sockets == EMX_GSO_UDP ? INADDR_LOOPBACK : THERE, i, FRAMES);
    for (unsigned i = 0; i < PACKETS; i++) {
        take_some(b, f, FRAMES);
        for (unsigned k = 0; k < FRAMES; k++) {
            assert_int_equal(f[k].len_bytes, FRAME_BYTES);
            assert_int_equal(f[k].parts, k ? 0 : FRAMES);
            assert_ptr_equal(f[k].body, memory[k]);
            assert_int_equal(memory[k][0], i);
            assert_int_equal(memory[k][FRAME_BYTES - HEAD_BYTES - 1], k);
            emx_offload_return(b, f[k].cookie);
        }
    }
    assert_int_equal(planned, PACKETS * FRAMES);
    emx_offload_close(b);
}

static void data_comes_to_its_place_by_packet(void **state)
{
    (void)state;
    data_comes_to_its_place(EMX_GSO_PACKET);
}

static void data_comes_to_its_place_by_udp(void **state)
{
    (void)state;
    data_comes_to_its_place(EMX_GSO_UDP);
}

/* Where the kernel drops UDP packets to us, announced packets never come; soon all come in the ring. Here they are for
 * an address that the host does not have. */
static void dropped_packets_come_in_the_ring(void **state)
{
    enum { DROPPED = 4, FRAMES = 40, ELSEWHERE = 0xc6336401 };
    struct emx_rxframe f[EMX_WIRE_BATCH];
    struct emx_netifs netifs;
    struct emx_offload *b;
    unsigned slots, link;

    (void)state;
    if (!unit_own_network())
        skip();
    link = own_link();
    b = open_ring(&netifs, 4 << 20, 0, &slots);
    for (unsigned i = 0; i < DROPPED; i++) {
        send_data(b, link, ELSEWHERE, i, FRAMES);
        while (emx_offload_waits(b))
            assert_int_equal(emx_offload_rx(b, f, EMX_WIRE_BATCH), 0);
    }
    for (unsigned i = 0; i < 2 * slots; i++) {
        send_data(b, link, i % 2 ? ELSEWHERE : THERE, i, FRAMES);
        take_some(b, f, FRAMES);
        for (unsigned k = 0; k < FRAMES; k++) {
            assert_null(f[k].body);
            assert_int_equal(f[k].data[FRAME_BYTES - 1], k);
            emx_offload_return(b, f[k].cookie);
        }
    }
    emx_offload_close(b);
}

/* UDP sockets: a packet is not overwritten by the next one before its frames have been returned. */
static void udp_packets_come_one_by_one(void **state)
{
    enum { SENT = 20 };
    struct emx_rxframe f[EMX_WIRE_BATCH];
    struct emx_netifs netifs;
    struct emx_offload *b;
    char why[512];

    (void)state;
    if (!unit_own_network())
        skip();
    b = open_over_loopback(&netifs, EMX_GSO_UDP, 4 << 20, 0, NULL, why);
    assert_non_null(b);
    for (unsigned i = 0; i < SENT; i++)
        send_alone(b, netifs.loopback_index, i);
    for (unsigned i = 0; i < SENT; i++) {
        take_some(b, f, 1);
        assert_int_equal(number_of(&f[0]), i);
        emx_offload_return(b, f[0].cookie);
    }
    emx_offload_close(b);
}

/* ETHMX_GSO=off, and what is told. */
static void sockets_are_chosen(void **state)
{
    struct emx_netifs netifs;
    char why[512];

    (void)state;
    if (!unit_own_network())
        skip();
    assert_null(open_over_loopback(&netifs, EMX_GSO_OFF, 4 << 20, 0, NULL, why));
    assert_string_equal(why, "GSO packets off (ETHMX_GSO)");
    emx_offload_close(open_over_loopback(&netifs, EMX_GSO_UDP, 4 << 20, 0, NULL, why));
    assert_non_null(strstr(why, "GSO packets through UDP sockets (port "));
    assert_null(strstr(why, "TSO"));
    emx_offload_close(open_over_loopback(&netifs, EMX_GSO_AUTO, 4 << 20, 0, NULL, why));
    assert_non_null(strstr(why, "large messages as TSO packets"));
}

static void full_ring_is_lent_once(void **state)
{
    struct emx_rxframe f[EMX_WIRE_BATCH];
    struct emx_netifs netifs;
    struct emx_offload *b;
    unsigned slots;

    (void)state;
    if (!unit_own_network())
        skip();
    b = open_ring(&netifs, 1, 0, &slots);
    assert_in_range(slots, 2, EMX_WIRE_BATCH - 1);
    for (uint32_t number = 0; number < 3 * slots; number += slots) {
        for (unsigned i = 0; i < slots; i++)
            send_alone(b, netifs.loopback_index, number + i);
        take(b, f, number, slots);
        assert_false(emx_offload_waits(b));
        assert_int_equal(emx_offload_rx(b, f + slots, EMX_WIRE_BATCH - slots), 0);
        for (unsigned i = slots; i-- > 0;)
            emx_offload_return(b, f[i].cookie);
        assert_false(emx_offload_waits(b));
    }
    emx_offload_close(b);
}

static unsigned ring_slots(uint64_t ring_bytes, unsigned local_ranks)
{
    struct emx_netifs netifs;
    unsigned slots;

    emx_offload_close(open_ring(&netifs, ring_bytes, local_ranks, &slots));
    return slots;
}

/* The ranks of a host share the ring; each has at least 1 MiB, or all of a ring that is smaller. */
static void ranks_share_the_ring(void **state)
{
    (void)state;
    if (!unit_own_network())
        skip();
    assert_int_equal(ring_slots(4 << 20, 0), 64);
    assert_int_equal(ring_slots(4 << 20, 1), 64);
    assert_int_equal(ring_slots(4 << 20, 2), 32);
    assert_int_equal(ring_slots(4 << 20, 64), 16);
    assert_int_equal(ring_slots(1 << 19, 64), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_ring_is_lent_once),
        cmocka_unit_test(ranks_share_the_ring),
        cmocka_unit_test(data_comes_to_its_place_by_packet),
        cmocka_unit_test(data_comes_to_its_place_by_udp),
        cmocka_unit_test(dropped_packets_come_in_the_ring),
        cmocka_unit_test(udp_packets_come_one_by_one),
        cmocka_unit_test(sockets_are_chosen),
    };

    return cmocka_run_group_tests_name("gso", tests, NULL, NULL);
}
