/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GSO packets beyond tests/conform: a ring that has fewer slots than frames that may be in use at once, and the choice
 * of sockets.
 *
 * Over the loopback of a network namespace of its own. Needs root, or a kernel that lets users make user namespaces;
 * skipped without, and where the kernel knows no GSO packets.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/config.h"
#include "wire/gso_udp.h"
#include "wire/offload.h"
#include "wire/netif.h"

#define WAIT_MS     20000
#define FRAME_BYTES 1000

static bool own_network(void)
{
    struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd, ret;

    if (unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET))
        return false;
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ret = ioctl(fd, SIOCSIFFLAGS, &ifr);
    close(fd);
    return !ret;
}

/* Frame `number` to our own port, in a packet of its own. */
static void send_alone(struct emx_offload *b, unsigned ifindex, uint32_t number)
{
    static const uint8_t no_mac[6];
    static uint8_t data[FRAME_BYTES];
    const struct emx_offload_way way = {.from.s_addr = htonl(INADDR_LOOPBACK),
                                        .to.s_addr = htonl(INADDR_LOOPBACK),
                                        .port = emx_offload_port(b),
                                        .frame_bytes = FRAME_BYTES};
    struct emx_wire_addr to;
    const struct emx_txframe f = {.to = &to, .head = data, .head_bytes = sizeof(data), .gso = true};

    emx_offload_addr(&to, ifindex, no_mac, &way);
    memcpy(data, &number, sizeof(number));
    assert_int_equal(emx_offload_send(b, no_mac, &f, 1), 0);
}

static uint32_t number_of(const struct emx_rxframe *f)
{
    uint32_t number;

    memcpy(&number, f->data, sizeof(number));
    return number;
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
                                              uint64_t ring_bytes, unsigned local_ranks, char why[512])
{
    static struct emx_stats stats;
    struct emx_config cfg;
    const struct emx_wire_params params = {
        .cfg = &cfg, .netifs = netifs, .endpoint_id = 1, .local_ranks = local_ranks, .stats = &stats};

    emx_config_defaults(&cfg);
    strcpy(cfg.p_if, "lo");
    cfg.p_gso_ring = ring_bytes;
    cfg.p_gso = sockets;
    assert_int_equal(emx_netifs_read(netifs, &cfg, NULL, why, 512), ETHMX_OK);
    return emx_offload_open(&params, why, 512);
}

/* *slots_p: of its ring. The test is skipped where packet sockets carry no GSO packets. */
static struct emx_offload *open_ring(struct emx_netifs *netifs, uint64_t ring_bytes, unsigned local_ranks,
                                     unsigned *slots_p)
{
    char why[512];
    struct emx_offload *b = open_over_loopback(netifs, EMX_GSO_PACKET, ring_bytes, local_ranks, why);

    if (!b && strstr(why, "Linux 6.2"))
        skip();
    assert_non_null(b);
    assert_int_equal(sscanf(why, "%u GSO packets", slots_p), 1);
    return b;
}

/* UDP sockets: frames that are in use keep their buffers, and what waits comes when buffers are free again. */
static void used_buffers_stay(void **state)
{
    enum { ROUNDS = 3, SENT = 2 * EMX_GSO_UDP_BUFFERS };
    struct emx_rxframe f[EMX_WIRE_BATCH];
    struct emx_netifs netifs;
    struct emx_offload *b;
    char why[512];

    (void)state;
    if (!own_network())
        skip();
    b = open_over_loopback(&netifs, EMX_GSO_UDP, 4 << 20, 0, why);
    assert_non_null(b);
    for (uint32_t number = 0; number < ROUNDS * SENT; number += SENT) {
        for (unsigned i = 0; i < SENT; i++)
            send_alone(b, netifs.loopback_index, number + i);
        for (unsigned half = 0; half < 2; half++) {
            take(b, f, number + half * EMX_GSO_UDP_BUFFERS, EMX_GSO_UDP_BUFFERS);
            assert_int_equal(emx_offload_rx(b, f + EMX_GSO_UDP_BUFFERS, EMX_WIRE_BATCH - EMX_GSO_UDP_BUFFERS), 0);
            for (unsigned i = 0; i < EMX_GSO_UDP_BUFFERS; i++)
                assert_int_equal(number_of(&f[i]), number + half * EMX_GSO_UDP_BUFFERS + i);
            for (unsigned i = EMX_GSO_UDP_BUFFERS; i-- > 0;)
                emx_offload_return(b, f[i].cookie);
        }
    }
    emx_offload_close(b);
}

/* ETHMX_GSO=off, and what is told. */
static void sockets_are_chosen(void **state)
{
    struct emx_netifs netifs;
    char why[512];

    (void)state;
    if (!own_network())
        skip();
    assert_null(open_over_loopback(&netifs, EMX_GSO_OFF, 4 << 20, 0, why));
    assert_string_equal(why, "GSO packets off (ETHMX_GSO)");
    emx_offload_close(open_over_loopback(&netifs, EMX_GSO_UDP, 4 << 20, 0, why));
    assert_non_null(strstr(why, "GSO packets through UDP sockets (port "));
}

static void full_ring_is_lent_once(void **state)
{
    struct emx_rxframe f[EMX_WIRE_BATCH];
    struct emx_netifs netifs;
    struct emx_offload *b;
    unsigned slots;

    (void)state;
    if (!own_network())
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
    if (!own_network())
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
        cmocka_unit_test(used_buffers_stay),
        cmocka_unit_test(sockets_are_chosen),
    };

    return cmocka_run_group_tests_name("gso", tests, NULL, NULL);
}
