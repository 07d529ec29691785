/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What every wire must do, run over each wire, between two hosts and inside one. run_wires makes the hosts. The verbs
 * wire runs between two RDMA devices in the guest (tests/guest).
 */
#define _GNU_SOURCE
#include "../unit/unit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chunks.h"
#include "mangled.h"
#include "wire/gso.h"
#include "wire/udp/udp_conn.h"
#include "wire/way.h"
#include "world.h"

#define ID_A     0x12345678u
#define ID_B     0x9abcdef0u
#define ID_OTHER 0x0badf00du

#define MANY (5 * EMX_WIRE_BATCH) /* frames that fit any ring of the default size */

/* Two ends of one wire; what each test works with. */
struct pair {
    const struct emx_wire_ops *ops;
    const struct host *host_a, *host_b;
    struct end a, b;
    unsigned fds;
    bool shaped;                  /* eth0 of host a is made slow */
    bool uncut;                   /* eth0 of host a cuts no GSO packets: the kernel does */
    bool v6;                      /* by IPv6 */
    bool scoped;                  /* by link-local addresses */
    bool gso;                     /* frames may go in GSO packets */
    enum emx_gso_sockets sockets; /* that carry these */
    bool udp;                     /* single frames go in UDP */
};

static unsigned open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static int setup(void **state)
{
    struct pair *p = *state;

    p->fds = open_fds();
    end_init(&p->a, p->host_a, p->ops, ID_A);
    end_init(&p->b, p->host_b, p->ops, ID_B);
    p->a.v6 = p->b.v6 = p->v6;
    p->a.scoped = p->b.scoped = p->scoped;
    p->a.gso = p->b.gso = p->gso;
    p->a.cfg.p_gso = p->b.cfg.p_gso = p->sockets;
    p->a.udp = p->b.udp = p->udp;
    if (p->udp)
        p->a.cfg.p_packet_frames = p->b.cfg.p_packet_frames = EMX_FRAMES_UDP;
    end_open(&p->a);
    end_open(&p->b);
    return 0;
}

/* Whether eth0 of host a takes GSO packets, as cards do that cut them. */
static void set_cutting(struct pair *p, bool on)
{
    p->uncut = !on;
    host_enter(p->host_a);
    assert_int_equal(system(on ? "ethtool -K eth0 tx-udp-segmentation on tso on"
                               : "ethtool -K eth0 tx-udp-segmentation off tso off"),
                     0);
}

/* Closing leaves nothing behind. */
static int teardown(void **state)
{
    struct pair *p = *state;

    if (p->shaped) {
        p->shaped = false;
        host_enter(p->host_a);
        assert_int_equal(system("tc qdisc del dev eth0 root"), 0);
    }
    if (p->uncut)
        set_cutting(p, true);
    if (p->a.w)
        end_close(&p->a);
    if (p->b.w)
        end_close(&p->b);
    assert_int_equal(open_fds(), p->fds);
    assert_int_equal(host_packet_sockets(&world_a), 0);
    assert_int_equal(host_packet_sockets(&world_b), 0);
    return 0;
}

static void every_size_arrives(void **state)
{
    struct pair *p = *state;
    uint32_t number = 1;

    for (unsigned len = FRAME_LEAST; len <= p->a.attr.frame_bytes; len++, number++) {
        frames_send(&p->a, &p->b, number, 1, &len);
        frames_expect(&p->b, number, 1);
    }
    assert_int_equal(p->a.stats.wire_tx_errors, 0);
    assert_int_equal(p->b.stats.wire_lost, 0);
}

/* Lengths of the frames of one batch, by its number: equal ones, with a short last, odd ones, mixed ones. */
static unsigned length_in_batch(const struct pair *p, unsigned batch, unsigned i, unsigned n)
{
    unsigned most = p->a.attr.frame_bytes;

    switch (batch % 6) {
    case 0:
        return most;
    case 1:
        return i == n - 1 ? FRAME_LEAST + batch : most;
    case 2:
        return 101;
    case 3:
        return FRAME_LEAST + (unsigned)(emx_mix64(batch * 64 + i) % (most - FRAME_LEAST + 1));
    case 4:
        return i < n / 2 ? 64 : 128;
    default:
        return 64 + 4 * (batch % 50);
    }
}

static void batches_arrive_in_order(void **state)
{
    struct pair *p = *state;
    uint32_t number = 1;

    for (unsigned batch = 0; batch < 600; batch++) {
        unsigned n = 1 + batch % EMX_WIRE_BATCH, len[EMX_WIRE_BATCH];

        for (unsigned i = 0; i < n; i++)
            len[i] = length_in_batch(p, batch, i, n);
        frames_send(&p->a, &p->b, number, n, len);
        frames_expect(&p->b, number, n);
        number += n;
    }
    assert_true(end_is_empty(&p->b));
    assert_int_equal(p->a.stats.wire_tx_errors, 0);
}

/* One batch to two ends, one of them on the sender's own host. */
static void batch_goes_to_several(void **state)
{
    static struct frame f[EMX_WIRE_BATCH];
    struct pair *p = *state;
    struct emx_txframe tx[EMX_WIRE_BATCH];
    struct end c;
    uint32_t number_b = 1000, number_c = 2000;

    end_init(&c, p->host_a, p->ops, ID_OTHER);
    c.v6 = p->v6;
    c.gso = p->gso;
    c.udp = p->udp;
    c.cfg.p_packet_frames = p->a.cfg.p_packet_frames;
    end_open(&c);
    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++) {
        bool to_c = i % 5 < 2;

        frame_make(&f[i], &p->a, to_c ? &c : &p->b, to_c ? number_c++ : number_b++, 400);
        tx[i] = f[i].tx;
    }
    end_tx(&p->a, tx, EMX_WIRE_BATCH);
    frames_expect(&p->b, 1000, number_b - 1000);
    frames_expect(&c, 2000, number_c - 2000);
    end_close(&c);
}

/* The way to the same end over the other interface. */
static struct emx_wire_addr other_way(const struct end *from, const struct end *to)
{
    struct emx_wire_addr a;
    struct emx_ip ip;

    if (from->ops == &emx_wire_udp) {
        assert_true(emx_ip_parse(&ip, to->v6 ? "fd89::2" : "10.89.0.2"));
        emx_udp_addr(&a, &ip, 0, to->port);
    } else if (from->ops == &emx_wire_xdp) {
        emx_xdp_addr(&a, netifs_find(&from->host->netifs, "eth1")->index, netifs_find(&to->host->netifs, "eth1")->mac,
                     NULL);
    } else {
        emx_packet_addr(&a, netifs_find(&from->host->netifs, "eth1")->index,
                        netifs_find(&to->host->netifs, "eth1")->mac, NULL);
    }
    return a;
}

/* One end receives from all interfaces; one batch leaves through several. */
static void interfaces_are_used_together(void **state)
{
    static struct frame f[EMX_WIRE_BATCH];
    struct pair *p = *state;
    struct emx_txframe tx[EMX_WIRE_BATCH];
    struct emx_rxframe rx[EMX_WIRE_BATCH];
    uint64_t seen = 0;
    unsigned n, l;

    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++) {
        frame_make(&f[i], &p->a, &p->b, i, 600);
        if (i % 3 == 0)
            f[i].to = other_way(&p->a, &p->b);
        tx[i] = f[i].tx;
    }
    p->ops->tx(p->a.w, tx, EMX_WIRE_BATCH);
    while (seen != UINT64_MAX >> (64 - EMX_WIRE_BATCH)) {
        n = end_wait(&p->b, rx, EMX_WIRE_BATCH);
        assert_true(n > 0);
        for (unsigned i = 0; i < n; i++)
            seen |= 1ull << frame_check(&rx[i], &l);
        p->ops->rx_return(p->b.w, rx, n);
    }
}

static void both_directions(void **state)
{
    struct pair *p = *state;
    unsigned len = 200;

    for (uint32_t number = 1; number <= 500; number++) {
        frames_send(&p->a, &p->b, number, 1, &len);
        frames_expect(&p->b, number, 1);
        frames_send(&p->b, &p->a, number, 1, &len);
        frames_expect(&p->a, number, 1);
    }
}

static void lent_frames_stay(void **state)
{
    struct emx_rxframe rx[EMX_WIRE_BATCH];
    struct pair *p = *state;
    unsigned len[EMX_WIRE_BATCH], n, l;

    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
        len[i] = 1000;
    frames_send(&p->a, &p->b, 1, EMX_WIRE_BATCH, len);
    n = end_wait(&p->b, rx, EMX_WIRE_BATCH);
    assert_true(n > 0);
    for (unsigned batch = 1; batch <= MANY / EMX_WIRE_BATCH; batch++)
        frames_send(&p->a, &p->b, 1 + batch * EMX_WIRE_BATCH, EMX_WIRE_BATCH, len);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(frame_check(&rx[i], &l), 1 + i);
    /* In any order. */
    for (unsigned i = n; i > 0; i--)
        p->ops->rx_return(p->b.w, &rx[i - 1], 1);
    frames_expect(&p->b, 1 + n, MANY + EMX_WIRE_BATCH - n);
}

/* rx() hands up no more than asked for, and the rest later. */
static void rx_keeps_the_rest(void **state)
{
    struct pair *p = *state;
    struct emx_rxframe rx;
    unsigned len[EMX_WIRE_BATCH], l;

    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
        len[i] = 300;
    frames_send(&p->a, &p->b, 1, EMX_WIRE_BATCH, len);
    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++) {
        assert_int_equal(end_wait(&p->b, &rx, 1), 1);
        assert_int_equal(frame_check(&rx, &l), 1 + i);
        p->ops->rx_return(p->b.w, &rx, 1);
    }
    assert_true(end_is_empty(&p->b));
}

/* Nothing is there, and the descriptor is silent. A wire with connections may have work first that is no frame. */
static void fall_asleep(struct end *e, struct pollfd *fd)
{
    unsigned tries = e->attr.connected ? 1000 : 1;
    bool asleep = false;

    while (!asleep && tries--) {
        assert_true(end_is_empty(e));
        asleep = end_arm(e) && poll(fd, 1, 0) == 0;
    }
    assert_true(asleep);
}

static void fd_tells(void **state)
{
    struct pair *p = *state;
    struct pollfd fd = {.fd = p->ops->fd(p->b.w, p->udp ? 2 : p->gso), .events = POLLIN};
    unsigned len = 100;

    frames_send(&p->a, &p->b, 0, 1, &len); /* a connection is made */
    frames_expect(&p->b, 0, 1);
    for (uint32_t number = 1; number <= 20; number++) {
        fall_asleep(&p->b, &fd);
        frames_send(&p->a, &p->b, number, 1, &len);
        assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
        frames_expect(&p->b, number, 1);
    }
}

/* A frame longer than the wire says is lost and counted; its neighbours are not. Inside a host the interface has room
 * for the headers of UDP as well. */
static void too_long_is_counted(void **state)
{
    struct pair *p = *state;
    unsigned headers_bytes = p->v6 ? EMX_IP6_UDP_BYTES : EMX_IP_UDP_BYTES;
    unsigned limit = p->a.attr.frame_bytes + (p->udp && p->host_a == p->host_b ? headers_bytes : 0);
    unsigned len[] = {500, limit + 1, 700, limit + 20000}, l;
    struct emx_rxframe rx;

    frames_send(&p->a, &p->b, 1, 4, len);
    assert_int_equal(p->a.stats.wire_tx_errors, 2);
    frames_expect(&p->b, 1, 1);
    assert_int_equal(end_wait(&p->b, &rx, 1), 1);
    assert_int_equal(frame_check(&rx, &l), 3);
    p->ops->rx_return(p->b.w, &rx, 1);
    assert_true(end_is_empty(&p->b));
}

/* Longer than the interface takes, shorter than the wire's limit: lost and counted; afterwards all is as before. */
static void too_long_for_interface_is_counted(void **state)
{
    struct pair *p = *state;
    unsigned len[EMX_WIRE_BATCH];

    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
        len[i] = p->a.attr.frame_bytes;
    host_set_mtu(p->host_a, 1280); /* the least of IPv6 */
    frames_send(&p->a, &p->b, 1, EMX_WIRE_BATCH, len);
    host_set_mtu(p->host_a, host_mtu(p->host_a));
    assert_int_equal(p->a.stats.wire_tx_errors, EMX_WIRE_BATCH);
    frames_send(&p->a, &p->b, 100, EMX_WIRE_BATCH, len);
    frames_expect(&p->b, 100, EMX_WIRE_BATCH);
    assert_int_equal(p->a.stats.wire_tx_errors, EMX_WIRE_BATCH);
}

/* Frames longer than the receiver can hold come whole or not at all. */
static void too_long_for_receiver_is_whole_or_lost(void **state)
{
    struct pair *p = *state;
    unsigned len = p->a.attr.frame_bytes, small = 300, l;
    struct emx_rxframe rx;

    end_close(&p->b);
    p->b.cfg.p_mtu = 600;
    end_open(&p->b);
    assert_true(p->b.attr.frame_bytes <= 600);
    frames_send(&p->a, &p->b, 1, 1, &len);
    frames_send(&p->a, &p->b, 2, 1, &small);
    assert_int_equal(end_wait(&p->b, &rx, 1), 1);
    if (frame_check(&rx, &l) == 1) {
        p->ops->rx_return(p->b.w, &rx, 1);
        frames_expect(&p->b, 2, 1);
    } else {
        end_sweep(&p->b);
        assert_int_equal(p->b.stats.wire_lost, 1);
        p->ops->rx_return(p->b.w, &rx, 1);
    }
}

/* Sends until one comes through. For after an interruption: links take a moment. */
static void wait_for_passage(struct end *from, struct end *to)
{
    struct pollfd fd = {.fd = to->ops->fd(to->w, from->udp ? 2 : from->gso), .events = POLLIN};
    unsigned len = 100, n, l;
    struct emx_rxframe rx;

    for (int waited = 0; waited < WAIT_MS; waited += 10) {
        if (from->ops->tx_room(from->w))
            frames_send(from, to, 7777, 1, &len);
        if (end_arm(to) && poll(&fd, 1, 10) <= 0)
            continue;
        while ((n = to->ops->rx(to->w, &rx, 1))) {
            bool through = frame_check(&rx, &l) == 7777;

            to->ops->rx_return(to->w, &rx, n);
            if (through)
                return;
        }
    }
    fail_msg("nothing comes through");
}

static void drain(struct end *e)
{
    while (!end_is_empty(e))
        ;
}

static void interface_down_and_up(void **state)
{
    struct pair *p = *state;
    unsigned len[EMX_WIRE_BATCH];

    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
        len[i] = 800;
    wait_for_passage(&p->a, &p->b);
    drain(&p->b);
    for (unsigned round = 1; round <= 3; round++) {
        uint64_t errors = p->a.stats.wire_tx_errors;

        host_set_up(p->host_a, false);
        frames_send(&p->a, &p->b, 1, EMX_WIRE_BATCH, len);
        assert_int_equal(p->a.stats.wire_tx_errors, errors + EMX_WIRE_BATCH);
        assert_true(p->ops->tx_room(p->a.w) > 0);
        assert_true(end_is_empty(&p->a));
        host_set_up(p->host_a, true);
        wait_for_passage(&p->a, &p->b);
        wait_for_passage(&p->b, &p->a);
        drain(&p->a);
        drain(&p->b);
    }
    frames_send(&p->a, &p->b, 50, EMX_WIRE_BATCH, len);
    frames_expect(&p->b, 50, EMX_WIRE_BATCH);
}

/* The other side is down: no carrier. The wire does not stay full for it. */
static void carrier_lost_and_found(void **state)
{
    struct pair *p = *state;
    unsigned len[EMX_WIRE_BATCH], tries = 0;

    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
        len[i] = 800;
    host_set_up(p->host_b, false);
    for (unsigned batch = 0; batch < 5; batch++) {
        while (p->ops->tx_room(p->a.w) < EMX_WIRE_BATCH)
            assert_true(tries++ < 100000);
        frames_send(&p->a, &p->b, 1, EMX_WIRE_BATCH, len);
    }
    host_set_up(p->host_b, true);
    wait_for_passage(&p->a, &p->b);
    wait_for_passage(&p->b, &p->a);
    drain(&p->a);
    drain(&p->b);
    frames_send(&p->a, &p->b, 50, EMX_WIRE_BATCH, len);
    frames_expect(&p->b, 50, EMX_WIRE_BATCH);
}

/* What a wire without connections has not brought yet, it has lost. One with connections counts what it does not take,
 * and brings all else. */
static unsigned receive_rest(struct pair *p, struct emx_rxframe *rx, unsigned open)
{
    if (!p->a.attr.connected)
        return p->ops->rx(p->b.w, rx, EMX_WIRE_BATCH);
    return open > p->a.stats.wire_tx_errors ? end_wait(&p->b, rx, EMX_WIRE_BATCH) : 0;
}

/* More than the receiver holds: what is lost is counted, what comes is intact, and it goes on. */
static void overflow_is_counted(void **state)
{
    struct pair *p = *state;
    struct emx_rxframe rx[EMX_WIRE_BATCH];
    unsigned len[EMX_WIRE_BATCH], sent = 0, received = 0, n, l;
    uint64_t lost;

    end_close(&p->b);
    p->b.cfg.p_ring = p->b.cfg.p_gso_buffer = 65536;
    end_open(&p->b);
    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
        len[i] = 200;
    for (; sent < 100 * EMX_WIRE_BATCH; sent += EMX_WIRE_BATCH)
        frames_send(&p->a, &p->b, sent, EMX_WIRE_BATCH, len);
    assert_true(end_wait(&p->b, rx, 1) == 1);
    p->ops->rx_return(p->b.w, rx, 1);
    received++;
    while ((n = receive_rest(p, rx, sent - received))) {
        for (unsigned i = 0; i < n; i++)
            assert_true(frame_check(&rx[i], &l) < sent);
        p->ops->rx_return(p->b.w, rx, n);
        received += n;
    }
    assert_true(received < sent);
    frames_send(&p->a, &p->b, sent, EMX_WIRE_BATCH, len);
    frames_expect(&p->b, sent, EMX_WIRE_BATCH);
    lost = p->a.stats.wire_tx_errors + p->b.stats.wire_lost;
    assert_true(lost > 0);
    assert_true(p->gso || lost <= sent - received);
    assert_true(!p->a.attr.connected || p->a.stats.wire_tx_errors == sent - received);
}

/* ---- Of the packet wire ---- */

/* An interface slower than its sender: the wire says that it is full, and nothing is lost. */
static void slow_interface_loses_nothing(void **state)
{
    struct pair *p = *state;
    unsigned len[EMX_WIRE_BATCH], full = 0, received = 0, n, l;
    struct pollfd fd = {.fd = p->ops->fd(p->b.w, p->udp ? 2 : 0), .events = POLLIN};
    struct emx_rxframe rx[EMX_WIRE_BATCH];

    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
        len[i] = 1400;
    end_close(&p->a);
    p->a.cfg.p_qdisc_bypass = false; /* shaping is the queueing discipline's */
    end_open(&p->a);
    host_enter(p->host_a);
    assert_int_equal(system("tc qdisc add dev eth0 root tbf rate 200mbit burst 12k limit 20k"), 0);
    p->shaped = true;
    for (unsigned batch = 0; batch < MANY / EMX_WIRE_BATCH; batch++) {
        while (p->ops->tx_room(p->a.w) < EMX_WIRE_BATCH)
            full++;
        frames_send(&p->a, &p->b, batch * EMX_WIRE_BATCH, EMX_WIRE_BATCH, len);
    }
    /* What still waits goes although the sender now only receives. */
    for (unsigned waited = 0; received < MANY; waited++) {
        assert_true(waited < WAIT_MS);
        assert_true(end_is_empty(&p->a));
        if (poll(&fd, 1, 1) <= 0)
            continue;
        n = p->ops->rx(p->b.w, rx, EMX_WIRE_BATCH);
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(frame_check(&rx[i], &l), received++);
        p->ops->rx_return(p->b.w, rx, n);
    }
    assert_true(full > 0);
    assert_int_equal(p->a.stats.wire_tx_errors, 0);
}

static void foreign_ids_are_filtered(void **state)
{
    struct pair *p = *state;
    struct end other = p->b;
    unsigned len[] = {300, 300, 300};

    other.id = ID_OTHER;
    frames_send(&p->a, &other, 1, 3, len);
    other.id = __builtin_bswap32(ID_B);
    frames_send(&p->a, &other, 1, 3, len);
    frames_send(&p->a, &p->b, 10, 1, len);
    frames_expect(&p->b, 10, 1);
    assert_true(end_is_empty(&p->b));
    assert_int_equal(p->b.stats.wire_lost, 0);
}

/* Another EtherType, or too short to have an id: not even looked at. */
static void runts_and_strangers_are_filtered(void **state)
{
    struct pair *p = *state;
    struct emx_wire_addr way = end_way(&p->a, &p->b);
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_halen = 6};
    uint8_t frame[100] = {0};
    uint32_t id = ID_B;
    unsigned len = 100;
    int fd;

    host_enter(p->host_a);
    fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    memcpy(&to.sll_ifindex, &way, sizeof(to.sll_ifindex));
    memcpy(frame, way.b + 4, 6);
    memcpy(frame + 12, (const uint8_t[]){0x88, p->ops == &emx_wire_xdp ? 0xb6 : 0xb5}, 2);
    memcpy(frame + 18, &id, sizeof(id));
    for (size_t runt = 14; runt < 22; runt++)
        assert_true(sendto(fd, frame, runt, 0, (struct sockaddr *)&to, sizeof(to)) == (ssize_t)runt);
    frame[13] = 0xb7;
    assert_true(sendto(fd, frame, sizeof(frame), 0, (struct sockaddr *)&to, sizeof(to)) > 0);
    close(fd);
    frames_send(&p->a, &p->b, 1, 1, &len);
    frames_expect(&p->b, 1, 1);
    assert_true(end_is_empty(&p->b));
}

/* ---- Of the xdp wire ---- */

/* Ends on one interface: each gets its own frames, whoever made the group leaves first, and what is left goes on. */
static void endpoints_share_an_interface(void **state)
{
    static struct frame f[EMX_WIRE_BATCH];
    struct pair *p = *state;
    struct emx_txframe tx[EMX_WIRE_BATCH];
    unsigned len[EMX_WIRE_BATCH];
    struct end c;

    end_init(&c, p->host_b, p->ops, ID_OTHER);
    end_open(&c);
    for (unsigned round = 0; round < 100; round++) {
        for (unsigned i = 0; i < EMX_WIRE_BATCH; i++) {
            frame_make(&f[i], &p->a, i % 2 ? &c : &p->b, 1000 * round + i / 2, 400 + i);
            tx[i] = f[i].tx;
        }
        p->ops->tx(p->a.w, tx, EMX_WIRE_BATCH);
        frames_expect(&p->b, 1000 * round, EMX_WIRE_BATCH / 2);
        frames_expect(&c, 1000 * round, EMX_WIRE_BATCH / 2);
        len[0] = 300;
        frames_send(&c, &p->a, round, 1, len);
        frames_expect(&p->a, round, 1);
    }
    end_close(&p->b);
    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
        len[i] = 1000;
    for (unsigned round = 0; round < 100; round++) {
        frames_send(&p->a, &c, round * EMX_WIRE_BATCH, EMX_WIRE_BATCH, len);
        frames_expect(&c, round * EMX_WIRE_BATCH, EMX_WIRE_BATCH);
    }
    end_open(&p->b);
    frames_send(&p->a, &p->b, 1, EMX_WIRE_BATCH, len);
    frames_expect(&p->b, 1, EMX_WIRE_BATCH);
    end_close(&c);
}

/* A child: opens an end, tells by the pipe, and never looks what it receives. It lets others join. */
static void live_deaf(const struct host *h, const struct emx_wire_ops *ops, uint32_t id, int tell_fd)
{
    char why[512], told;
    struct end e;

    end_init(&e, h, ops, id);
    told = end_try_open(&e, why, sizeof(why)) ? 'n' : 'y';
    if (told == 'n')
        fprintf(stderr, "%s\n", why);
    if (write(tell_fd, &told, 1) != 1)
        _exit(1);
    for (;;) { /* until killed */
        e.ops->sweep(e.w);
        usleep(100);
    }
}

/* Starts such a child on host b. Our end there, if open, lets it join. */
static pid_t child_with_end(struct pair *p, uint32_t id)
{
    char told = 0;
    int pipe_fd[2];
    pid_t pid;

    assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid)
        live_deaf(p->host_b, p->ops, id, pipe_fd[1]);
    close(pipe_fd[1]);
    while (poll(&(struct pollfd){.fd = pipe_fd[0], .events = POLLIN}, 1, 1) == 0)
        if (p->b.w)
            p->ops->sweep(p->b.w);
    assert_int_equal(read(pipe_fd[0], &told, 1), 1);
    close(pipe_fd[0]);
    assert_int_equal(told, 'y');
    return pid;
}

static void kill_child(pid_t pid)
{
    int status;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static bool has_program(const struct host *h)
{
    host_enter(h);
    return !system("ip link show eth0 | grep -q ' xdp'");
}

/* The process that brought program and memory is killed: nobody else is there, and all vanishes; others are there, and
 * all goes on. */
static void killed_owner_leaves_nothing(void **state)
{
    struct pair *p = *state;
    unsigned len = 500;
    pid_t pid;

    end_close(&p->b);
    assert_false(has_program(p->host_b));
    pid = child_with_end(p, ID_OTHER);
    assert_true(has_program(p->host_b));
    kill_child(pid);
    for (unsigned waited = 0; has_program(p->host_b); waited++) {
        assert_true(waited < WAIT_MS);
        usleep(1000);
    }
    pid = child_with_end(p, ID_OTHER);
    end_open(&p->b); /* lets itself be told by the child */
    kill_child(pid);
    assert_true(has_program(p->host_b));
    frames_send(&p->a, &p->b, 1, 1, &len);
    frames_expect(&p->b, 1, 1);
    frames_send(&p->b, &p->a, 1, 1, &len);
    frames_expect(&p->a, 1, 1);
}

/* Many are killed with all that their rings hold. In the end there is as much room to receive as before. */
static void killed_member_is_taken_back(void **state)
{
    struct pair *p = *state;
    struct end deaf = p->b;
    unsigned len[EMX_WIRE_BATCH];

    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
        len[i] = 200;
    deaf.id = ID_OTHER;
    end_close(&p->b);
    p->b.cfg.p_ring = 65536;
    end_open(&p->b);
    for (unsigned round = 0; round < 12; round++) {
        pid_t pid;

        deaf.id = ID_OTHER + round;
        pid = child_with_end(p, deaf.id);
        for (unsigned batch = 0; batch < 10; batch++)
            frames_send(&p->a, &deaf, batch * EMX_WIRE_BATCH, EMX_WIRE_BATCH, len);
        kill_child(pid);
        frames_send(&p->a, &p->b, 1, EMX_WIRE_BATCH, len);
        frames_expect(&p->b, 1, EMX_WIRE_BATCH);
    }
    assert_true(end_is_empty(&p->b));
    for (unsigned batch = 0; batch < 4; batch++)
        frames_send(&p->a, &p->b, batch * EMX_WIRE_BATCH, EMX_WIRE_BATCH, len);
    frames_expect(&p->b, 0, 4 * EMX_WIRE_BATCH);
    assert_int_equal(p->b.stats.wire_lost, 0);
}

/* Sends one frame through a queue of host a's eth0: it comes in on that queue of host b. Which queue is that of
 * processor 0 (XPS). false: it cannot be said. */
static bool send_by_queue(const struct pair *p, unsigned queue, uint32_t number)
{
    static struct frame f;
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_halen = 6, .sll_ifindex = (int)p->host_a->eth0_index};
    uint8_t bytes[14 + 300];
    char command[256];
    cpu_set_t first, all;
    int fd;

    host_enter(p->host_a);
    snprintf(command, sizeof(command),
             "unshare -m sh -c 'mount -t sysfs sysfs /sys && for q in 0 1 2 3 4 5; do "
             "echo $((%u == q)) >/sys/class/net/eth0/queues/tx-$q/xps_cpus; done' 2>/dev/null",
             queue);
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    if (system(command) || sched_getaffinity(0, sizeof(all), &all) || sched_setaffinity(0, sizeof(first), &first))
        return false;
    frame_make(&f, &p->a, &p->b, number, sizeof(bytes) - 14);
    memcpy(bytes, p->host_b->mac, 6);
    memcpy(bytes + 6, p->host_a->mac, 6);
    memcpy(bytes + 12, (const uint8_t[]){0x88, 0xb6}, 2);
    memcpy(bytes + 14, f.bytes, sizeof(bytes) - 14);
    fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(sendto(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&to, sizeof(to)), (int)sizeof(bytes));
    close(fd);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    return true;
}

enum { NATIVE = 1 }; /* ETHMX_XDP_MODE */

/* Several receive queues: all that have sockets are looked at; what comes in on others is the kernel's, and counted. */
static void all_queues_are_covered(void **state)
{
    struct pair *p = *state;

    end_close(&p->b);
    p->b.cfg.p_xdp_mode = NATIVE; /* veth tells the generic hook no queues */
    end_open(&p->b);
    for (unsigned queue = 0; queue < 4; queue++) {
        if (!send_by_queue(p, queue, 10 + queue))
            skip();
        frames_expect(&p->b, 10 + queue, 1);
    }
    end_sweep(&p->b);
    assert_int_equal(p->b.stats.xdp_passed, 0);
    for (unsigned queue = 4; queue < 6; queue++)
        assert_true(send_by_queue(p, queue, 20 + queue));
    for (unsigned waited = 0; p->b.stats.xdp_passed < 2; waited++) {
        assert_true(waited < WAIT_MS);
        end_sweep(&p->b);
        usleep(1000);
    }
    assert_true(end_is_empty(&p->b));
}

/* All that is not for an endpoint goes on to the kernel. */
static void others_pass_the_program(void **state)
{
    struct pair *p = *state;

    assert_true(has_program(p->host_a) && has_program(p->host_b));
    host_enter(p->host_a);
    assert_int_equal(system("ping -q -c 3 -i 0.01 -s 1400 10.88.0.2 >/dev/null"), 0);
}

/* What a process without CAP_NET_RAW is told. Runs in a child. */
static int open_without_privilege(const struct host *h)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}, {0}};
    char why[512] = "";
    struct end e;

    end_init(&e, h, &emx_wire_packet, ID_A);
    host_enter(h);
    if (syscall(SYS_capset, &head, data))
        return 1;
    struct emx_wire_params params = {.cfg = &e.cfg, .netifs = &h->netifs, .endpoint_id = e.id, .stats = &e.stats};

    if (e.ops->open(&e.w, &params, why, sizeof(why)) != ETHMX_ERR_NO_WIRE || e.w)
        return 2;
    if (!strstr(why, "CAP_NET_RAW") || !strstr(why, "ETHMX_WIRES=udp"))
        return 3;
    /* The udp wire needs nothing. */
    if (emx_wire_udp.open(&e.w, &params, why, sizeof(why)))
        return 4;
    emx_wire_udp.close(e.w);
    return 0;
}

/* Sends a socket through itself. */
static bool send_descriptor(int sock)
{
    union {
        struct cmsghdr c;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.c = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec iov = {.iov_base = "", .iov_len = 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

    memcpy(CMSG_DATA(&control.c), &sock, sizeof(sock));
    return sendmsg(sock, &m, MSG_DONTWAIT) == 1;
}

/* What a process is told that may join the xdp wire but not leave its sockets with the others, because its user has too
 * many descriptors under way in sockets. Runs in a child. */
static int open_with_crowded_safe(const struct host *h)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2];
    struct rlimit few = {.rlim_cur = 96, .rlim_max = 96};
    char why[512] = "";
    struct end e;
    int pair[2];

    end_init(&e, h, &emx_wire_xdp, ID_OTHER);
    host_enter(h);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return 1;
    for (unsigned i = 0; i < 2 * few.rlim_cur; i++)
        if (!send_descriptor(pair[0]))
            return 2;
    if (syscall(SYS_capget, &head, caps))
        return 3;
    caps[0].effective &= ~(1u << CAP_SYS_RESOURCE | 1u << CAP_SYS_ADMIN);
    if (setrlimit(RLIMIT_NOFILE, &few) || syscall(SYS_capset, &head, caps))
        return 4;
    struct emx_wire_params params = {.cfg = &e.cfg, .netifs = &h->netifs, .endpoint_id = e.id, .stats = &e.stats};

    if (e.ops->open(&e.w, &params, why, sizeof(why)) != ETHMX_ERR_NO_WIRE || e.w)
        return 5;
    if (!strstr(why, "ulimit -n"))
        fprintf(stderr, "%s\n", why);
    return strstr(why, "ulimit -n") ? 0 : 6;
}

/* Who cannot be taken back when killed does not get in; the next one does, and finds the interface free. */
static void crowded_safe_is_told(void **state)
{
    struct pair *p = *state;
    unsigned len = 500;
    int status;
    pid_t pid;

    end_close(&p->b);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid)
        _exit(open_with_crowded_safe(p->host_b));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    end_open(&p->b);
    frames_send(&p->a, &p->b, 1, 1, &len);
    frames_expect(&p->b, 1, 1);
}

static void no_privilege_is_told(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (!pid)
        _exit(open_without_privilege(&world_a));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void no_interface_is_told(void **state)
{
    struct host bare = world_a;
    struct end e;
    char why[512] = "";

    (void)state;
    for (unsigned i = 0; i < bare.netifs.count; i++)
        bare.netifs.nif[i].chosen = false;
    for (unsigned i = 0; emx_wires[i]; i++) {
        if (emx_wires[i] == &emx_wire_shm || emx_wires[i]->opt_in) /* needs none; may not be built */
            continue;
        end_init(&e, &bare, emx_wires[i], ID_A);
        assert_int_equal(end_try_open(&e, why, sizeof(why)), ETHMX_ERR_NO_WIRE);
        assert_null(e.w);
        if (emx_wires[i] == &emx_wire_verbs) /* may lack a device first */
            assert_true(strlen(why) > 20);
        else
            assert_non_null(strstr(why, "ETHMX_IF"));
    }
}

/* A ring of the least size still holds a batch and more. */
static void least_ring_works(void **state)
{
    struct pair *p = *state;
    unsigned len[EMX_WIRE_BATCH];

    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
        len[i] = p->a.attr.frame_bytes;
    end_close(&p->b);
    p->b.cfg.p_ring = 65536;
    p->b.cfg.p_qdisc_bypass = false;
    end_open(&p->b);
    for (unsigned round = 0; round < 20; round++) {
        frames_send(&p->a, &p->b, round * EMX_WIRE_BATCH, EMX_WIRE_BATCH, len);
        frames_expect(&p->b, round * EMX_WIRE_BATCH, EMX_WIRE_BATCH);
        frames_send(&p->b, &p->a, round * EMX_WIRE_BATCH, EMX_WIRE_BATCH, len);
        frames_expect(&p->a, round * EMX_WIRE_BATCH, EMX_WIRE_BATCH);
    }
}

/* ---- GSO packets of the packet and xdp wires ---- */

static void equal_frames_are_joined(void **state)
{
    struct pair *p = *state;
    unsigned len[EMX_WIRE_BATCH], most = p->a.attr.frame_bytes / 4 * 4;

    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
        len[i] = i == EMX_WIRE_BATCH - 1 ? 777 : most;
    frames_send(&p->a, &p->b, 1, EMX_WIRE_BATCH, len);
    frames_expect(&p->b, 1, EMX_WIRE_BATCH);
    assert_true(p->a.stats.gso_packets_sent > 0);
    assert_true(p->a.stats.gso_packets_sent <= EMX_WIRE_BATCH * most / 60000 + 1);
    assert_int_equal(p->a.stats.gso_packets_sent, p->b.stats.gso_packets_received);
    assert_int_equal(p->a.stats.wire_tx_errors, 0);
}

/* A look at the next frame leaves it to rx() while a GSO packet waits: whoever took one frame after the other that way
 * would never come to it. */
static void look_passes_no_gso_packet_over(void **state)
{
    struct pair *p = *state;
    struct pollfd fd[2] = {{.fd = p->ops->fd(p->b.w, 0), .events = POLLIN},
                           {.fd = p->ops->fd(p->b.w, 1), .events = POLLIN}};
    struct emx_rxframe rx[2];
    struct emx_wire_peek look;
    unsigned len = 100;

    frames_send(&p->a, &p->b, 1, 1, &len);
    assert_int_equal(poll(&fd[1], 1, WAIT_MS), 1);
    p->a.gso = false;
    frames_send(&p->a, &p->b, 2, 1, &len);
    assert_int_equal(poll(&fd[0], 1, WAIT_MS), 1);
    look = p->ops->peek(p->b.w);
    assert_non_null(look.data);
    assert_int_equal(look.len_bytes, 0);
    for (unsigned i = 0; i < 2; i++) { /* each by itself */
        assert_int_equal(p->ops->rx(p->b.w, rx, 2), 1);
        p->ops->rx_return(p->b.w, rx, 1);
    }
    look = p->ops->peek(p->b.w);
    assert_null(look.data);
}

/* What comes while nobody looks is received in the order in which it came, single frames and GSO packets alike. */
static void both_kinds_come_in_order(void **state)
{
    struct pair *p = *state;
    struct pollfd fd[2] = {{.fd = p->ops->fd(p->b.w, 0), .events = POLLIN},
                           {.fd = p->ops->fd(p->b.w, 1), .events = POLLIN}};
    unsigned len = 100;

    for (uint32_t number = 1; number < 1000; number += 4) {
        for (unsigned i = 0; i < 4; i++) {
            p->a.gso = (number + i * i) % 3 == 0;
            frames_send(&p->a, &p->b, number + i, 1, &len);
            assert_int_equal(poll(&fd[p->a.gso], 1, WAIT_MS), 1);
        }
        frames_expect(&p->b, number, 4);
    }
}

/* An interface that cannot cut them: the kernel does, and nobody joins the parts again. */
static void gso_packets_cut_on_the_way_arrive(void **state)
{
    struct pair *p = *state;
    unsigned len[EMX_WIRE_BATCH];

    set_cutting(p, false);
    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
        len[i] = i < 24 ? p->a.attr.frame_bytes / 4 * 4 : 100;
    for (unsigned batch = 0; batch < 20; batch++) {
        frames_send(&p->a, &p->b, batch * EMX_WIRE_BATCH, EMX_WIRE_BATCH, len);
        frames_expect(&p->b, batch * EMX_WIRE_BATCH, EMX_WIRE_BATCH);
    }
    assert_true(p->a.stats.gso_packets_sent > 0);
    assert_int_equal(p->b.stats.gso_packets_received, 0);
    assert_int_equal(p->a.stats.wire_tx_errors, 0);
}

/* ---- TSO packets ---- */

/* Whole messages of any number of chunks, with a last one of any length, in one packet each. */
static void chunks_arrive_in_tso_packets(void **state)
{
    struct pair *p = *state;
    const struct chunks most = {.n = 44, .chunk_bytes = 1400, .last_bytes = 1400};
    uint64_t joined = 0, packets = 0;

    for (unsigned i = 0; i < 150; i++) {
        struct chunks c = most;

        c.first = 100 * i;
        c.checked = i % 2;
        c.n = 1 + i * 7 % most.n;
        c.last_bytes = i % 3 ? 1 + i * 9 : most.last_bytes;
        chunks_send(&c, &p->a, &p->b);
        chunks_expect(&c, &p->b);
        packets++;
        joined += c.n > 1;
    }
    assert_true(end_is_empty(&p->b));
    assert_int_equal(p->a.stats.tso_packets_sent, packets);
    assert_int_equal(p->b.stats.tso_packets_received, packets);
    assert_int_equal(p->b.stats.gso_packets_received, joined);
    assert_int_equal(p->b.stats.wire_lost, 0);
}

/* An interface that cannot cut them: the kernel does, and nobody joins the parts again. */
static void tso_packets_cut_on_the_way_arrive(void **state)
{
    struct pair *p = *state;
    uint64_t chunks = 0;

    set_cutting(p, false);
    for (unsigned i = 0; i < 40; i++) {
        const struct chunks c = {
            .first = 100 * i, .checked = i % 2, .n = 2 + i, .chunk_bytes = 1400, .last_bytes = 1 + i};

        chunks_send(&c, &p->a, &p->b);
        chunks_expect(&c, &p->b);
        chunks += c.n;
    }
    assert_true(end_is_empty(&p->b));
    assert_int_equal(p->a.stats.tso_packets_sent, 40);
    assert_int_equal(p->b.stats.tso_packets_received, chunks);
    assert_int_equal(p->b.stats.gso_packets_received, 0);
    assert_int_equal(p->b.stats.wire_lost, 0);
}

/* Any byte of the headers is another one: what comes are frames of their length, and only where no checksum tells. The
 * next packet comes whole. */
static void damaged_tso_packets_do_no_harm(void **state)
{
    static const uint8_t changes[] = {0x01, 0xff};
    struct chunks c = {.checked = true, .n = 4, .chunk_bytes = 100, .last_bytes = 77};
    struct pair *p = *state;

    for (unsigned at = 0; at < EMX_TSO_IP_BYTES; at++)
        for (unsigned i = 0; i < ARRAY_LEN(changes); i++) {
            c.damage = (struct chunks_damage){.at = at, .change = changes[i]};
            chunks_send_damaged(&c, &p->a, &p->b);
            c.first += CHUNKS_APART;
            chunks_send(&c, &p->a, &p->b);
            chunks_expect(&c, &p->b);
            c.first += CHUNKS_APART;
        }
    assert_true(end_is_empty(&p->b));
}

/* Ends after any byte of its headers, or within the data, of which they tell more: nothing of it comes. Then all goes
 * on. */
static void torn_tso_packets_do_no_harm(void **state)
{
    enum { DATA_BYTES = 377, STEP_BYTES = 13 };
    struct chunks c = {.checked = true, .n = 4, .chunk_bytes = 100, .last_bytes = 77};
    struct pair *p = *state;
    unsigned torn = 0;

    for (unsigned bytes = 14; bytes < EMX_TSO_HEAD_BYTES + DATA_BYTES;
         bytes += bytes < EMX_TSO_HEAD_BYTES ? 1 : STEP_BYTES) {
        c.damage = (struct chunks_damage){.sent_bytes = bytes};
        chunks_send_damaged(&c, &p->a, &p->b);
        torn += bytes >= EMX_TSO_HEAD_BYTES;
        if (bytes % 8 == 0) {
            chunks_send(&c, &p->a, &p->b);
            chunks_expect(&c, &p->b);
            c.first += CHUNKS_APART;
        }
    }
    c.damage = (struct chunks_damage){.sent_bytes = EMX_TSO_HEAD_BYTES + DATA_BYTES};
    chunks_send_damaged(&c, &p->a, &p->b);
    chunks_expect(&c, &p->b);
    assert_true(end_is_empty(&p->b));
    assert_true(p->b.stats.wire_lost >= torn);
}

/* ETHMX_GSO_BUFFER=0 at one end. */
static void gso_packets_switched_off_go_singly(void **state)
{
    struct pair *p = *state;
    unsigned len[EMX_WIRE_BATCH];

    end_close(&p->a);
    p->a.cfg.p_gso = EMX_GSO_OFF;
    end_open(&p->a);
    assert_int_equal(p->a.gso_port, 0);
    assert_int_equal(p->ops->fd(p->a.w, 1), -1);
    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
        len[i] = 1000;
    frames_send(&p->a, &p->b, 1, EMX_WIRE_BATCH, len);
    frames_expect(&p->b, 1, EMX_WIRE_BATCH);
    assert_int_equal(p->a.stats.gso_packets_sent, 0);
}

/* A socket that sends to the port of end b's GSO packets. */
static int stranger(const struct pair *p)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(p->b.gso_port)};
    int fd;

    host_enter(p->host_a);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, p->host_a == p->host_b ? "127.0.0.1" : p->host_b->ip, &to.sin_addr), 1);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Made by others, with frames for somebody else inside: each part comes, for the engine to judge. */
static void foreign_gso_packets_are_taken_apart(void **state)
{
    static struct frame f;
    static uint8_t all[20 * 100];
    struct pair *p = *state;
    struct end other = p->b;
    int fd = stranger(p), part = 100;

    other.id = ID_OTHER;
    for (unsigned i = 0; i < 20; i++) {
        frame_make(&f, &p->a, i % 3 == 1 ? &other : &p->b, 1 + i, i < 19 ? 100 : 77);
        memcpy(all + i * 100, f.bytes, i < 19 ? 100 : 77);
    }
    assert_int_equal(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &part, sizeof(part)), 0);
    assert_true(send(fd, all, 19 * 100 + 77, 0) > 0);
    close(fd);
    frames_expect(&p->b, 1, 20);
    assert_true(end_is_empty(&p->b));
    assert_int_equal(p->b.stats.wire_lost, 0);
}

/* Nothing is answered; what is in them comes, for the engine to judge. */
static void strange_packets_to_the_port_do_no_harm(void **state)
{
    static const uint8_t junk[1000];
    struct pair *p = *state;
    struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_port = htons(9)};
    unsigned came = 0, l = 100;
    struct emx_rxframe rx;
    int fd = stranger(p);

    for (unsigned i = 0; i < 50; i++) /* an answer to one would be an error of the next */
        assert_true(send(fd, junk, i * 20, 0) == (ssize_t)(i * 20));
    assert_int_equal(inet_pton(AF_INET, p->host_a == p->host_b ? "127.0.0.1" : p->host_b->ip, &nobody.sin_addr), 1);
    assert_int_equal(connect(fd, (struct sockaddr *)&nobody, sizeof(nobody)), 0);
    send(fd, junk, 10, 0);
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLERR}, 1, WAIT_MS), 1); /* such an answer is seen */
    close(fd);
    frames_send(&p->a, &p->b, 1, 1, &l);
    for (bool ours = false; !ours; came++) { /* an empty one is not handed up */
        assert_int_equal(end_wait(&p->b, &rx, 1), 1);
        ours = frame_is_whole(&rx);
        p->ops->rx_return(p->b.w, &rx, 1);
    }
    assert_int_equal(came, 50);
    assert_true(end_is_empty(&p->b));
    assert_int_equal(p->b.stats.wire_lost, 0);
}

/* ---- Damaged GSO packets ---- */

#define FRAMES 10
#define ALL    ((1u << FRAMES) - 1)

/* Overwrites frame i: what it is damaged to, by how. */
static void damage(struct mangled *m, unsigned i, unsigned len_bytes, unsigned how)
{
    uint8_t *frame = m->frames + i * len_bytes;
    uint32_t foreign = ID_OTHER;

    if (how == 0) /* of another endpoint, and not as we know it */
        memcpy(frame + 4, &foreign, sizeof(foreign));
    memset(frame + (how == 0 ? 16 : 0), how == 1 ? 0x00 : 0xff, len_bytes - (how == 0 ? 16 : 0));
}

/* A frame of somebody else, or a damaged one, first, in the middle or last: its neighbours come. */
static void damaged_frames_cost_no_others(void **state)
{
    static const unsigned victims[] = {0, FRAMES / 2, FRAMES - 1};
    struct pair *p = *state;
    struct mangled m;

    for (unsigned cut_on_the_way = 0; cut_on_the_way < 2; cut_on_the_way++) {
        if (cut_on_the_way && p->host_a != p->host_b)
            set_cutting(p, false);
        for (unsigned how = 0; how < 3; how++)
            for (unsigned v = 0; v < ARRAY_LEN(victims); v++) {
                mangled_init(&m, &p->a, &p->b, 100 * how, FRAMES, 100);
                damage(&m, victims[v], 100, how);
                mangled_send(&m, &p->a, &p->b);
                mangled_expect(&p->b, 100 * how, ALL & ~(1u << victims[v]));
            }
    }
    assert_int_equal(p->b.stats.wire_lost, 0);
}

/* Ends after any byte, and its headers say so: each whole frame in it comes. */
static void short_gso_packets_bring_what_they_have(void **state)
{
    struct pair *p = *state;
    struct mangled m;

    for (unsigned bytes = 0; bytes <= 4 * 100; bytes++) {
        mangled_init(&m, &p->a, &p->b, bytes, 4, 100);
        m.told_bytes = m.sent_bytes = bytes;
        mangled_send(&m, &p->a, &p->b);
        mangled_expect(&p->b, bytes, (1u << bytes / 100) - 1);
    }
    assert_int_equal(p->b.stats.wire_lost, 0);
}

/* Ends after any byte, though its headers tell of more. The packet wire takes the whole frames in it and counts the
 * others, except that of less than two frames nobody tells where they end; the kernel's UDP drops the packet. Then all
 * goes on. */
static void torn_gso_packets_do_no_harm(void **state)
{
    struct pair *p = *state;
    bool by_udp = p->ops == &emx_wire_udp;
    uint64_t lost = 0;
    struct mangled m;

    mangled_init(&m, &p->a, &p->b, 1, 4, 100);
    for (unsigned bytes = 14; bytes <= EMX_GSO_HEAD_BYTES; bytes++)
        mangled_send_headers(&m, &p->a, &p->b, bytes);
    for (unsigned bytes = 1; bytes < 4 * 100; bytes++) {
        m.sent_bytes = bytes;
        mangled_send(&m, &p->a, &p->b);
        mangled_expect(&p->b, 1, by_udp || bytes <= 100 ? 0 : (1u << bytes / 100) - 1);
        if (bytes > 1) /* the socket filter needs two */
            lost += bytes <= 100 ? 1 : 4 - bytes / 100;
    }
    m.sent_bytes = m.told_bytes;
    mangled_send(&m, &p->a, &p->b);
    mangled_expect(&p->b, 1, 0xf);
    if (!by_udp)
        assert_true(p->b.stats.wire_lost >= lost);
}

/* Parts of another length than the frames have, or none told: a frame that begins where a part does, and ends in it,
 * comes; then all goes on. */
static void parts_unlike_frames_do_no_harm(void **state)
{
    struct pair *p = *state;
    struct mangled m;

    for (unsigned part = 0; part <= 210; part++) {
        uint32_t mask = 0;

        mangled_init(&m, &p->a, &p->b, 1000 + 100 * part, FRAMES, 100);
        m.part_bytes = part;
        if (part && part < m.told_bytes / EMX_GSO_PARTS + 1) /* more parts than the kernel sends */
            continue;
        for (unsigned at = 0; at < m.told_bytes; at += part ? part : m.told_bytes)
            if (at % 100 == 0 && (!part || part >= 100 || at + part >= m.told_bytes))
                mask |= 1u << at / 100;
        mangled_send(&m, &p->a, &p->b);
        mangled_expect(&p->b, 1000 + 100 * part, mask);
    }
    assert_int_equal(p->b.stats.wire_lost, 0);
}

/* ---- Of the udp wire ---- */

static void ports_follow_configuration(void **state)
{
    static const char *const malformed[] = {"",      "x",   "1-",           "-5",         "70000",
                                            "30-20", "0-5", "20000-20010x", "20000,20001"};
    struct end e[3];
    char why[512];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        end_init(&e[i], &world_a, &emx_wire_udp, ID_A + i);
        snprintf(e[i].cfg.p_udp_ports, sizeof(e[i].cfg.p_udp_ports), "20000-20001");
    }
    end_open(&e[0]);
    end_open(&e[1]);
    assert_int_equal(e[0].port, 20000);
    assert_int_equal(e[1].port, 20001);
    assert_int_equal(end_try_open(&e[2], why, sizeof(why)), ETHMX_ERR_NO_WIRE);
    assert_non_null(strstr(why, "ETHMX_UDP_PORTS=20000-20001"));
    end_close(&e[0]);
    end_open(&e[2]);
    assert_int_equal(e[2].port, 20000);
    end_close(&e[1]);
    end_close(&e[2]);
    for (unsigned i = 0; i < ARRAY_LEN(malformed); i++) {
        snprintf(e[0].cfg.p_udp_ports, sizeof(e[0].cfg.p_udp_ports), "%s", malformed[i]);
        assert_int_equal(end_try_open(&e[0], why, sizeof(why)), ETHMX_ERR_PARAM);
        assert_non_null(strstr(why, "ETHMX_UDP_PORTS"));
    }
}

/* GSO packets of others may have parts of any length; each is handed up aligned. */
static void odd_gso_packets_are_aligned(void **state)
{
    static struct frame f;
    static uint8_t all[20 * 101];
    struct pair *p = *state;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(p->b.port)};
    int fd, part = 101;

    host_enter(p->host_a);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, p->host_a == p->host_b ? "127.0.0.1" : p->host_b->ip, &to.sin_addr), 1);
    for (unsigned i = 0; i < 20; i++) {
        frame_make(&f, &p->a, &p->b, 1 + i, i < 19 ? 101 : 77);
        memcpy(all + i * 101, f.bytes, i < 19 ? 101 : 77);
    }
    assert_int_equal(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &part, sizeof(part)), 0);
    assert_true(sendto(fd, all, 19 * 101 + 77, 0, (struct sockaddr *)&to, sizeof(to)) > 0);
    close(fd);
    frames_expect(&p->b, 1, 20);
    assert_true(end_is_empty(&p->b));
}

/* Whether the kernel may join what comes in to this end. */
static bool joins(const struct end *e)
{
    int on = -1;
    socklen_t len = sizeof(on);

    assert_int_equal(getsockopt(e->ops->fd(e->w, 0), SOL_UDP, UDP_GRO, &on, &len), 0);
    return on;
}

/* While short frames come one at a time nothing is joined. A GSO packet, long frames and many frames end that; whole
 * they all are. */
static void calm_comes_and_goes(void **state)
{
    static const struct {
        unsigned frames, len_bytes;
    } ends_it[] = {{EMX_WIRE_BATCH, 1400}, {1, 1400}, {EMX_WIRE_BATCH, 64}, {EMX_WIRE_BATCH, 101}};
    struct pair *p = *state;
    uint32_t number = 1;

    for (unsigned k = 0; k < ARRAY_LEN(ends_it); k++) {
        unsigned len[EMX_WIRE_BATCH], tries = 0;

        for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
            len[i] = ends_it[k].len_bytes;
        while (joins(&p->b)) {
            unsigned shortest = FRAME_LEAST;

            assert_true(tries++ < 10000);
            frames_send(&p->a, &p->b, number, 1, &shortest);
            frames_expect(&p->b, number++, 1);
            assert_true(end_is_empty(&p->b));
        }
        for (unsigned again = 0; again < 3; again++) {
            frames_send(&p->a, &p->b, number, ends_it[k].frames, len);
            frames_expect(&p->b, number, ends_it[k].frames);
            number += ends_it[k].frames;
            assert_true(joins(&p->b));
        }
    }
    assert_int_equal(p->b.stats.wire_lost, 0);
}

/* Frames enough for a line from one end to another. */
static void make_line(struct end *from, struct end *to)
{
    unsigned fds = open_fds(), len = 100;

    host_enter(from->host);
    for (uint32_t i = 0; i < EMX_UDP_CONN_AFTER; i++) {
        frames_send(from, to, i, 1, &len);
        frames_expect(to, i, 1);
    }
    assert_int_equal(open_fds(), fds + 1);
}

/* Both ends have lines; what one sends by its own never comes to the other's. */
static void lines_go_both_ways(void **state)
{
    struct pair *p = *state;

    make_line(&p->a, &p->b);
    make_line(&p->b, &p->a);
    both_directions(state);
    batches_arrive_in_order(state);
}

/* The program is in another network when a line is due: there is none. */
static void lines_stay_in_their_network(void **state)
{
    struct pair *p = *state;
    unsigned fds = open_fds(), len = 100;

    host_enter(p->host_b);
    for (uint32_t i = 0; i < 2 * EMX_UDP_CONN_AFTER; i++) {
        frames_send(&p->a, &p->b, i, 1, &len);
        frames_expect(&p->b, i, 1);
    }
    assert_int_equal(open_fds(), fds);
}

static void lines_stand_faults(void **state)
{
    struct pair *p = *state;

    make_line(&p->a, &p->b);
    too_long_for_interface_is_counted(state);
    interface_down_and_up(state);
    carrier_lost_and_found(state);
}

/* The address that a line sends from goes: the wire finds another. */
static void lines_stand_a_new_address(void **state)
{
    struct pair *p = *state;
    unsigned len = 100;

    make_line(&p->a, &p->b);
    host_enter(p->host_a);
    assert_int_equal(system("ip addr add 10.88.0.9/16 dev eth0 && ip addr del 10.88.0.1/24 dev eth0"), 0);
    for (uint32_t i = 0; i < 3 * EMX_UDP_CONN_AFTER; i++) {
        frames_send(&p->a, &p->b, i, 1, &len);
        frames_expect(&p->b, i, 1);
    }
    assert_int_equal(p->a.stats.wire_tx_errors, 0);
    host_enter(p->host_a);
    assert_int_equal(system("ip addr add 10.88.0.1/24 dev eth0 && ip addr del 10.88.0.9/16 dev eth0"), 0);
}

/* GSO packets that the kernel refuses (here: because checksums are off) go singly. */
static void gso_packets_refused_go_singly(void **state)
{
    struct pair *p = *state;
    unsigned len[EMX_WIRE_BATCH];
    int on = 1;

    for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
        len[i] = 1000;
    assert_int_equal(setsockopt(p->ops->fd(p->a.w, 0), SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)), 0);
    for (unsigned batch = 0; batch < 10; batch++) {
        frames_send(&p->a, &p->b, batch * EMX_WIRE_BATCH, EMX_WIRE_BATCH, len);
        frames_expect(&p->b, batch * EMX_WIRE_BATCH, EMX_WIRE_BATCH);
    }
    assert_int_equal(p->a.stats.wire_tx_errors, 0);
}

/* A socket of host h, on a port of its own, that is told how packets to it are marked. */
static int open_observer(const struct host *h, bool v6, uint16_t *port_p)
{
    union emx_udp_sockaddr any;
    socklen_t len = emx_udp_sockaddr_of(&(const struct emx_udp_addr){.port = 0}, v6, &any);
    int on = 1, fd;

    host_enter(h);
    fd = socket(any.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)), 0);
    if (v6)
        assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(on)), 0);
    assert_int_equal(bind(fd, &any.any, len), 0);
    assert_int_equal(getsockname(fd, &any.any, &len), 0);
    *port_p = ntohs(v6 ? any.in6.sin6_port : any.in.sin_port);
    return fd;
}

/* The type of service or traffic class of the next packet. */
static unsigned observe(int fd)
{
    union {
        struct cmsghdr align;
        char space[64];
    } control;
    char data[2048];
    struct iovec iov = {.iov_base = data, .iov_len = sizeof(data)};
    struct msghdr h = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.space)};
    struct cmsghdr *c;

    assert_true(recvmsg(fd, &h, 0) > 0);
    c = CMSG_FIRSTHDR(&h);
    assert_non_null(c);
    if (c->cmsg_level == IPPROTO_IPV6) {
        int tclass;

        assert_int_equal(c->cmsg_type, IPV6_TCLASS);
        memcpy(&tclass, CMSG_DATA(c), sizeof(tclass));
        return (unsigned)tclass;
    }
    assert_int_equal(c->cmsg_type, IP_TOS);
    return *CMSG_DATA(c);
}

/* ETHMX_ECN, and ETHMX_TOS beside it; by connected sockets, too. */
static void datagrams_may_be_marked(void **state)
{
    struct pair *p = *state;
    unsigned lengths[] = {100, 1400};
    struct end to = p->b, deaf;
    int fd = open_observer(p->host_b, p->v6, &to.port);

    end_init(&deaf, p->host_a, p->ops, ID_OTHER);
    deaf.v6 = p->v6;
    deaf.cfg.p_ecn = false;
    deaf.cfg.p_tos = 0xb8;
    end_open(&deaf);
    for (unsigned i = 0; i < 2 * EMX_UDP_CONN_AFTER; i++) {
        const unsigned *len_bytes = &lengths[i % ARRAY_LEN(lengths)];

        frames_send(&p->a, &to, 1, 1, len_bytes);
        assert_int_equal(observe(fd), 2);
        frames_send(&deaf, &to, 1, 1, len_bytes);
        assert_int_equal(observe(fd), 0xb8);
    }
    end_close(&deaf);
    close(fd);
}

/* Sends a frame to end b by a socket of the test, whose packets have this traffic class. */
static void send_with_class(struct pair *p, uint32_t number, int tclass)
{
    static struct frame f;
    union emx_udp_sockaddr to;
    struct emx_udp_addr a;
    socklen_t len;
    int fd;

    frame_make(&f, &p->a, &p->b, number, 200);
    memcpy(&a, &f.to, sizeof(a));
    len = emx_udp_sockaddr_of(&a, true, &to);
    host_enter(p->host_a);
    fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tclass, sizeof(tclass)), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_TOS, &tclass, sizeof(tclass)), 0); /* of IPv4 by this socket */
    assert_int_equal(sendto(fd, f.bytes, 200, 0, &to.any, len), 200);
    close(fd);
}

/* Marks of IPv6, and of IPv4 that the same socket receives. */
static void marks_of_both_families_are_told(void **state)
{
    struct pair *p = *state;
    struct emx_rxframe rx[1];
    unsigned l;

    for (unsigned i = 0; i < 8; i++) {
        bool v4 = i >= 4;

        p->b.v6 = !v4;
        send_with_class(p, i, (int)i % 4);
        assert_int_equal(end_wait(&p->b, rx, 1), 1);
        assert_int_equal(frame_check(&rx[0], &l), i);
        assert_int_equal(rx[0].marked, i % 4 == 3);
        p->ops->rx_return(p->b.w, rx, 1);
    }
    p->b.v6 = true;
}

/* Of packets of many frames and of one. */
static void marks_are_told(void **state)
{
    struct pair *p = *state;
    struct emx_rxframe rx[MANGLED_FRAMES];
    struct mangled m;
    unsigned n, l;

    for (uint32_t round = 0; round < 20; round++) {
        unsigned count = round % 5 < 2 ? 1 : 2 + round % 10;

        mangled_init(&m, &p->a, &p->b, 1, count, 200);
        m.marked = round % 2;
        mangled_send(&m, &p->a, &p->b);
        for (unsigned got = 0; got < count; got += n) {
            n = end_wait(&p->b, rx, count - got);
            assert_true(n > 0);
            for (unsigned i = 0; i < n; i++) {
                frame_check(&rx[i], &l);
                assert_int_equal(rx[i].marked, m.marked);
            }
            p->ops->rx_return(p->b.w, rx, n);
        }
    }
}

/* An empty datagram, and a peer whose port is closed, disturb nothing. */
static void icmp_and_empty_are_ignored(void **state)
{
    struct pair *p = *state;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(p->b.port)};
    struct end gone = p->b;
    unsigned len = 100;
    int fd;

    gone.port = 9; /* nobody listens */
    for (uint32_t i = 0; i < 5; i++)
        frames_send(&p->a, &gone, i, 1, &len);
    host_enter(p->host_a);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, p->host_a == p->host_b ? "127.0.0.1" : p->host_b->ip, &to.sin_addr), 1);
    assert_int_equal(sendto(fd, "", 0, 0, (struct sockaddr *)&to, sizeof(to)), 0);
    close(fd);
    frames_send(&p->a, &p->b, 1, 1, &len);
    frames_expect(&p->b, 1, 1);
    frames_send(&p->b, &p->a, 2, 1, &len);
    frames_expect(&p->a, 2, 1);
    assert_int_equal(p->a.stats.wire_tx_errors, 0);
}

/* ---- Interfaces and routes, as the kernel tells them ---- */

static struct in_addr ip_of(const char *text)
{
    struct in_addr ip;

    assert_int_equal(inet_pton(AF_INET, text, &ip), 1);
    return ip;
}

static void interfaces_are_read(void **state)
{
    const struct emx_netif *eth0 = emx_netif_by_index(&world_a.netifs, world_a.eth0_index);
    struct emx_netifs n;
    char err[1024];

    (void)state;
    assert_non_null(eth0);
    assert_string_equal(eth0->kind, "veth");
    assert_true(eth0->chosen && eth0->up && eth0->has_mac && !eth0->loopback);
    assert_int_equal(eth0->rank, 0);
    assert_int_equal(eth0->ip.s_addr, ip_of("10.88.0.1").s_addr);
    assert_int_equal(eth0->prefix_bits, 24);
    assert_true(world_a.netifs.loopback_index > 0);
    assert_int_equal(host_read_netifs(&world_a, &n, "eth9", NULL, err, sizeof(err)), ETHMX_ERR_PARAM);
    assert_non_null(strstr(err, "eth0 (10.88.0.1/24)"));
    assert_int_equal(host_read_netifs(&world_a, &n, "10.88.0.0/16", NULL, err, sizeof(err)), ETHMX_OK);
    assert_true(emx_netif_by_index(&n, world_a.eth0_index)->chosen);
    host_set_up(&world_a, false);
    assert_int_equal(host_read_netifs(&world_a, &n, "eth0", NULL, err, sizeof(err)), ETHMX_ERR_PARAM);
    assert_int_equal(host_read_netifs(&world_a, &n, "", NULL, err, sizeof(err)), ETHMX_OK);
    assert_false(emx_netif_by_index(&n, world_a.eth0_index)->chosen);
    host_set_up(&world_a, true);
}

/* The interface towards where the peers are comes first. */
static void keep_news(void *arg, const struct emx_netif_news *news)
{
    *(struct emx_netif_news *)arg = *news;
}

/* Until the kernel has told what is expected of eth0; other interfaces have no news. */
static void await_news(struct emx_netif_watch *w, struct emx_netif_news *news, const char *why)
{
    struct pollfd fd = {.fd = w->fd, .events = POLLIN};

    news->why[0] = '?';
    while (strcmp(news->why, why) != 0) {
        assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
        emx_netif_watch_read(w, keep_news, news);
        assert_true(!news->nif || !strcmp(news->nif->name, "eth0"));
    }
    assert_int_equal(news->carries && news->has_ip, !why[0]);
    assert_int_equal(w->netifs->nif[news->nif - w->netifs->nif].up, news->carries);
}

/* An interface that goes down, loses its carrier, and is back with another MTU; then gets another address. */
static void changes_of_interfaces_are_told(void **state)
{
    struct emx_netif_news news = {.nif = NULL};
    struct emx_netif_watch w;
    struct ethmx_config cfg;
    struct emx_netifs n;
    char err[512];

    (void)state;
    host_enter(&world_a);
    emx_netif_watch_open(&w);
    assert_int_equal(host_read_netifs(&world_a, &n, "eth0,eth1", NULL, err, sizeof(err)), ETHMX_OK);
    emx_config_defaults(&cfg);
    emx_netif_watch_start(&w, &n, &cfg);
    emx_netif_watch_read(&w, keep_news, &news);
    assert_null(news.nif);
    host_set_up(&world_a, false);
    host_enter(&world_a);
    await_news(&w, &news, "eth0 is down");
    host_set_mtu(&world_a, 1280);
    host_set_up(&world_a, true);
    await_news(&w, &news, "");
    assert_true(news.again);
    assert_int_equal(news.nif->mtu_bytes, 1280);
    host_set_up(&world_b, false);
    host_enter(&world_a);
    await_news(&w, &news, "eth0 has no carrier");
    host_set_up(&world_b, true);
    host_enter(&world_a);
    await_news(&w, &news, "");
    assert_false(news.moved);
    host_set_mtu(&world_a, host_mtu(&world_a));
    for (unsigned i = 0; i < 2; i++) {
        const char *const ip = i ? "10.88.0.1" : "10.88.0.77";

        host_set_ip(&world_a, ip);
        await_news(&w, &news, "");
        assert_true(news.moved && news.has_ip && !news.again);
        assert_int_equal(news.nif->ip.s_addr, ip_of(ip).s_addr);
        assert_int_equal(news.nif->prefix_bits, 24);
    }
    snprintf(cfg.p_if, sizeof(cfg.p_if), "10.88.0.0/24");
    host_set_ip(&world_a, "10.77.0.1");
    await_news(&w, &news, "eth0 has lost its address 10.88.0.1");
    assert_false(news.moved);
    host_set_ip(&world_a, "10.88.0.1");
    await_news(&w, &news, "");
    emx_netif_watch_close(&w);
}

static void interface_of_reach_is_first(void **state)
{
    static const struct {
        const char *reach, *first;
    } expect[] = {{NULL, "eth0"},        {"", "eth0"},          {"10.88.0.2", "eth0"}, {"10.89.0.2", "eth1"},
                  {"10.89.0.1", "eth1"}, {"localhost", "eth0"}, {"10.99.0.7", "eth0"}, {"no such name", "eth0"}};
    struct emx_netifs n;
    char err[1024];

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(expect); i++) {
        assert_int_equal(host_read_netifs(&world_a, &n, "", expect[i].reach, err, sizeof(err)), ETHMX_OK);
        assert_int_equal(netifs_find(&n, expect[i].first)->rank, 0);
        assert_true(netifs_find(&n, "eth0")->chosen && netifs_find(&n, "eth1")->chosen);
        assert_false(netifs_find(&n, "lo")->chosen);
    }
}

/* More interfaces than the table holds: those that matter are in it. */
static void many_interfaces_are_sifted(void **state)
{
    struct emx_netifs n;
    char err[4096];
    unsigned chosen = 0;

    (void)state;
    assert_int_equal(world_c.netifs.count, EMX_NETIF_MAX);
    assert_true(world_c.netifs.loopback_index > 0);
    assert_int_equal(host_read_netifs(&world_c, &n, "e35", NULL, err, sizeof(err)), ETHMX_OK);
    for (unsigned i = 0; i < n.count; i++)
        chosen += n.nif[i].chosen && !strcmp(n.nif[i].name, "e35");
    assert_int_equal(chosen, 1);
}

static unsigned route_to(const char *text, bool *on_link_p)
{
    struct emx_ip ip;

    assert_true(emx_ip_parse(&ip, text));
    return emx_netif_route(&ip, on_link_p);
}

static void routes_are_found(void **state)
{
    bool on_link = false;

    (void)state;
    host_enter(&world_a);
    assert_int_equal(route_to("10.88.0.2", &on_link), world_a.eth0_index);
    assert_true(on_link);
    assert_int_equal(route_to("10.99.0.1", &on_link), world_a.eth0_index);
    assert_false(on_link);
    assert_int_equal(route_to("10.88.0.1", &on_link), world_a.netifs.loopback_index);
    assert_true(on_link);
    assert_int_equal(route_to("203.0.113.1", &on_link), 0);
}

static void host_ids_tell_namespaces_apart(void **state)
{
    uint64_t a, b;

    (void)state;
    host_enter(&world_a);
    a = emx_host_id();
    host_enter(&world_b);
    b = emx_host_id();
    assert_true(a != b);
    host_enter(&world_a);
    assert_true(emx_host_id() == a);
}

static void wires_are_found_by_name(void **state)
{
    (void)state;
    for (unsigned i = 0; emx_wires[i]; i++)
        assert_ptr_equal(emx_wire_find(emx_wires[i]->name), emx_wires[i]);
    assert_null(emx_wire_find("carrier pigeon"));
}

/* What is full of frames loses none, keeps their order, and holds up nobody else. */
static void nothing_is_lost_when_full(void **state)
{
    struct pair *p = *state;
    unsigned len[EMX_WIRE_BATCH], few = 300;
    struct end c;

    end_init(&c, p->host_a, p->ops, ID_OTHER);
    end_open(&c);
    for (unsigned batch = 0; batch < 100; batch++) {
        for (unsigned i = 0; i < EMX_WIRE_BATCH; i++)
            len[i] = length_in_batch(p, batch, i, EMX_WIRE_BATCH);
        frames_send(&p->a, &p->b, batch * EMX_WIRE_BATCH, EMX_WIRE_BATCH, len);
        if (batch % 10)
            continue;
        frames_send(&p->a, &c, batch, 1, &few);
        frames_expect(&c, batch, 1);
    }
    assert_true(p->ops->unsent(p->a.w));
    for (unsigned i = 0; i < 100 * EMX_WIRE_BATCH;) {
        struct emx_rxframe rx[EMX_WIRE_BATCH];
        unsigned n, l;

        n = end_wait(&p->b, rx, 1 + i % EMX_WIRE_BATCH);
        assert_true(n > 0);
        for (unsigned j = 0; j < n; j++)
            assert_int_equal(frame_check(&rx[j], &l), i++);
        p->ops->rx_return(p->b.w, rx, n);
    }
    assert_true(end_is_empty(&p->b));
    assert_false(p->ops->unsent(p->a.w));
    assert_int_equal(p->a.stats.wire_tx_errors, 0);
    end_close(&c);
}

/* ---- The tables ---- */

/* GSO: GSO packets of the packet wire, XDP_GSO: of the xdp wire. The kernel's UDP takes no packets that were made by
 * hand from within the host: UDP_FAR is udp between hosts. */
enum { HOSTS = 1, INSIDE = 2, PACKET = 4, UDP = 8, GSO = 16, SHM = 32, XDP = 64, UDP_FAR = 128, XDP_GSO = 256 };
enum { DEVICES = 512, VERBS = 1024 };
enum { TORN = 2048 };  /* with packets that UDP sockets drop */
enum { UDP6 = 4096 };  /* udp by IPv6 */
enum { V4 = 8192 };    /* the addresses are of IPv4 */
enum { LINK = 16384 }; /* by link-local addresses, too */
enum { TSO = 32768 };  /* with TSO packets, which are only used where the kind of sockets is left open */
enum { ETHERNET = HOSTS | INSIDE | PACKET | UDP | XDP, RDMA = DEVICES | VERBS, EVERYWHERE = ETHERNET | SHM | RDMA };

static const struct {
    const char *name;
    CMUnitTestFunction fn;
    unsigned where; /* between hosts, inside one, between RDMA devices; over which wire */
} cases[] = {
#define CASE(fn, where)                                                                                                \
    {                                                                                                                  \
#fn, fn, where                                                                                                 \
    }
    CASE(every_size_arrives, LINK | EVERYWHERE | GSO | XDP_GSO),
    CASE(batches_arrive_in_order, LINK | EVERYWHERE | GSO | XDP_GSO),
    CASE(batch_goes_to_several, HOSTS | INSIDE | PACKET | UDP | SHM | GSO | RDMA),
    CASE(interfaces_are_used_together, HOSTS | PACKET | UDP | XDP),
    CASE(both_directions, LINK | EVERYWHERE | GSO | XDP_GSO),
    CASE(lent_frames_stay, EVERYWHERE | GSO | XDP_GSO),
    CASE(rx_keeps_the_rest, EVERYWHERE | GSO | XDP_GSO),
    CASE(fd_tells, EVERYWHERE | GSO | XDP_GSO),
    CASE(too_long_is_counted, EVERYWHERE),
    CASE(too_long_for_interface_is_counted, HOSTS | PACKET | UDP),
    CASE(too_long_for_receiver_is_whole_or_lost, ETHERNET),
    CASE(interface_down_and_up, HOSTS | PACKET | UDP | XDP | GSO | XDP_GSO),
    CASE(carrier_lost_and_found, HOSTS | PACKET | UDP | XDP | GSO | XDP_GSO),
    CASE(overflow_is_counted, ETHERNET | GSO | XDP_GSO | RDMA),
    CASE(nothing_is_lost_when_full, INSIDE | SHM),
    CASE(foreign_ids_are_filtered, HOSTS | INSIDE | PACKET | XDP),
    CASE(runts_and_strangers_are_filtered, HOSTS | INSIDE | PACKET | XDP),
    CASE(endpoints_share_an_interface, HOSTS | XDP),
    CASE(killed_owner_leaves_nothing, HOSTS | XDP),
    CASE(killed_member_is_taken_back, HOSTS | XDP),
    CASE(crowded_safe_is_told, HOSTS | XDP),
    CASE(others_pass_the_program, HOSTS | XDP),
    CASE(all_queues_are_covered, HOSTS | XDP),
    CASE(slow_interface_loses_nothing, HOSTS | PACKET),
    CASE(least_ring_works, HOSTS | INSIDE | PACKET | XDP),
    CASE(equal_frames_are_joined, HOSTS | INSIDE | GSO | XDP_GSO),
    CASE(look_passes_no_gso_packet_over, HOSTS | INSIDE | GSO),
    CASE(both_kinds_come_in_order, HOSTS | INSIDE | GSO),
    CASE(gso_packets_cut_on_the_way_arrive, HOSTS | GSO | XDP_GSO),
    CASE(chunks_arrive_in_tso_packets, V4 | TSO | HOSTS | INSIDE | GSO | XDP_GSO),
    CASE(tso_packets_cut_on_the_way_arrive, V4 | TSO | HOSTS | GSO | XDP_GSO),
    CASE(damaged_tso_packets_do_no_harm, V4 | TSO | HOSTS | INSIDE | GSO | XDP_GSO),
    CASE(torn_tso_packets_do_no_harm, V4 | TSO | HOSTS | INSIDE | GSO | XDP_GSO),
    CASE(gso_packets_switched_off_go_singly, HOSTS | INSIDE | GSO | XDP_GSO),
    CASE(foreign_gso_packets_are_taken_apart, V4 | HOSTS | INSIDE | GSO | XDP_GSO),
    CASE(strange_packets_to_the_port_do_no_harm, V4 | HOSTS | INSIDE | GSO | XDP_GSO),
    CASE(damaged_frames_cost_no_others, V4 | HOSTS | INSIDE | GSO | XDP_GSO | UDP_FAR),
    CASE(short_gso_packets_bring_what_they_have, V4 | HOSTS | INSIDE | GSO | XDP_GSO | UDP_FAR),
    CASE(torn_gso_packets_do_no_harm, V4 | TORN | HOSTS | INSIDE | GSO | XDP_GSO | UDP_FAR),
    CASE(parts_unlike_frames_do_no_harm, V4 | HOSTS | INSIDE | GSO | XDP_GSO | UDP_FAR),
    CASE(odd_gso_packets_are_aligned, HOSTS | INSIDE | UDP),
    CASE(calm_comes_and_goes, HOSTS | INSIDE | UDP),
    CASE(lines_go_both_ways, LINK | HOSTS | INSIDE | UDP),
    CASE(lines_stay_in_their_network, HOSTS | UDP),
    CASE(lines_stand_faults, HOSTS | UDP),
    CASE(lines_stand_a_new_address, HOSTS | UDP | V4),
    CASE(gso_packets_refused_go_singly, HOSTS | INSIDE | UDP),
    CASE(icmp_and_empty_are_ignored, HOSTS | INSIDE | UDP),
    CASE(datagrams_may_be_marked, HOSTS | INSIDE | UDP),
    CASE(marks_of_both_families_are_told, HOSTS | INSIDE | UDP6),
    CASE(marks_are_told, V4 | HOSTS | INSIDE | GSO | XDP_GSO | UDP_FAR),
};

static const struct CMUnitTest others[] = {
    cmocka_unit_test(routes_are_found),
    cmocka_unit_test(interface_of_reach_is_first),
    cmocka_unit_test(changes_of_interfaces_are_told),
    cmocka_unit_test(interfaces_are_read),
    cmocka_unit_test(many_interfaces_are_sifted),
    cmocka_unit_test(host_ids_tell_namespaces_apart),
    cmocka_unit_test(wires_are_found_by_name),
    cmocka_unit_test(no_interface_is_told),
    cmocka_unit_test(no_privilege_is_told),
    cmocka_unit_test(ports_follow_configuration),
};

static struct pair pairs[24];

#define TESTS_MAX (ARRAY_LEN(pairs) * ARRAY_LEN(cases) + ARRAY_LEN(others))

static struct CMUnitTest tests[TESTS_MAX];
static char names[TESTS_MAX][96];

/* Every wire, and where it runs. */
static const struct row {
    const struct emx_wire_ops *ops;
    unsigned hosts, inside, devices; /* its cases on each path; 0: it does not run there */
} rows[] = {
    {&emx_wire_shm, .inside = SHM},
    {&emx_wire_verbs, .devices = VERBS},
    {&emx_wire_xdp, .hosts = XDP},
    {&emx_wire_packet, .hosts = PACKET, .inside = PACKET},
    {&emx_wire_udp, .hosts = UDP | UDP_FAR, .inside = UDP},
};

static const struct row *row_of(const struct emx_wire_ops *ops)
{
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].ops == ops)
            return &rows[i];
    fail_msg("%s: no row says where it runs", ops->name);
    return NULL;
}

static unsigned cases_of(const struct emx_wire_ops *ops, unsigned path)
{
    const struct row *r = row_of(ops);

    return path == HOSTS ? r->hosts : path == INSIDE ? r->inside : r->devices;
}

static unsigned add_cases(unsigned count, struct pair *p, unsigned wire, unsigned path)
{
    const char *name = path == HOSTS ? "veth" : path == INSIDE ? "lo" : "device";

    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        if (!(cases[i].where & wire) || !(cases[i].where & path))
            continue;
        if (cases[i].where & (TORN | TSO) && p->sockets == EMX_GSO_UDP)
            continue;
        if (cases[i].where & V4 && p->v6)
            continue;
        snprintf(names[count], sizeof(names[count]), "%s %s%s%s%s%s: %s", p->ops->name, name,
                 p->scoped ? " link-local"
                 : p->v6   ? " ipv6"
                           : "",
                 p->gso ? " gso" : "", p->sockets == EMX_GSO_UDP ? " by udp" : "", p->udp ? " in udp" : "",
                 cases[i].name);
        tests[count] = (struct CMUnitTest){names[count], cases[i].fn, setup, teardown, p};
        count++;
    }
    return count;
}

static struct pair *add_pair(const struct emx_wire_ops *ops, unsigned path)
{
    static unsigned count;
    struct pair *p = &pairs[count++];

    assert_true(count <= ARRAY_LEN(pairs));
    p->ops = ops;
    p->host_a = &world_a;
    p->host_b = path == INSIDE ? &world_a : &world_b;
    return p;
}

/* The wire opens on this host. It says what it found. */
static bool opens(const struct emx_wire_ops *ops, const struct host *h)
{
    char why[512] = "";
    struct end e;
    int ret;

    end_init(&e, h, ops, ID_A);
    ret = end_try_open(&e, why, sizeof(why));
    printf("%s %s: %s\n", ret ? "SKIP wire" : "wire", ops->name, why);
    if (!ret)
        end_close(&e);
    return !ret;
}

/* The xdp wire needs a library and rights that not every place has; devices open their files for good. */
static bool is_there(const struct emx_wire_ops *ops, unsigned path)
{
    if (path == DEVICES)
        return opens(ops, &world_a) && opens(ops, &world_b);
    return ops != &emx_wire_xdp || opens(ops, &world_a);
}

static unsigned add_path(unsigned count, unsigned path)
{
    for (unsigned w = 0; emx_wires[w]; w++)
        if (cases_of(emx_wires[w], path) && is_there(emx_wires[w], path))
            count = add_cases(count, add_pair(emx_wires[w], path), cases_of(emx_wires[w], path), path);
    return count;
}

static unsigned add_gso(unsigned count, const struct emx_wire_ops *ops, enum emx_gso_sockets sockets, unsigned wire,
                        unsigned path, bool v6)
{
    struct pair *p = add_pair(ops, path);

    p->gso = true;
    p->sockets = sockets;
    p->v6 = v6;
    return add_cases(count, p, wire, path);
}

static unsigned add_udp(unsigned count, unsigned path, bool v6)
{
    struct pair *p = add_pair(&emx_wire_packet, path);

    p->udp = true;
    p->v6 = v6;
    return add_cases(count, p, cases_of(&emx_wire_packet, path), path);
}

/* By addresses of IPv6 alone. */
static unsigned add_v6(unsigned count, unsigned path)
{
    struct pair *p;

    if (emx_ip_is_none(&netifs_find(&world_a.netifs6, "eth0")->ip6)) {
        printf("SKIP ipv6: the kernel has none\n");
        return count;
    }
    p = add_pair(&emx_wire_udp, path);
    p->v6 = true;
    count = add_cases(count, p, UDP | UDP6, path);
    count = add_gso(count, &emx_wire_packet, EMX_GSO_AUTO, GSO, path, true);
    count = add_udp(count, path, true);
    return count;
}

/* First: an interface that goes down forgets its link-local addresses, and its routes. */
static unsigned add_link_local(unsigned count)
{
    struct pair *p;

    if (emx_ip_is_none(&netifs_find(&world_a.netifs6, "eth0")->ip6))
        return count;
    p = add_pair(&emx_wire_udp, HOSTS);
    p->v6 = p->scoped = true;
    return add_cases(count, p, LINK, HOSTS);
}

/* Between network namespaces, and inside one. */
static unsigned add_namespaces(unsigned count)
{
    count = add_link_local(count);
    for (unsigned i = 0; i < ARRAY_LEN(others); i++) /* routes first: an interface that goes down forgets them */
        tests[count++] = others[i];
    for (unsigned path = HOSTS; path <= INSIDE; path++) {
        count = add_path(count, path);
        count = add_v6(count, path);
        count = add_gso(count, &emx_wire_packet, EMX_GSO_AUTO, GSO, path, false);
        if (path == HOSTS) /* inside a host the kernel routes no packets that tests craft for UDP sockets */
            count = add_gso(count, &emx_wire_packet, EMX_GSO_UDP, GSO, path, false);
        count = add_udp(count, path, false);
        if (path == HOSTS && is_there(&emx_wire_xdp, path))
            count = add_gso(count, &emx_wire_xdp, EMX_GSO_AUTO, XDP_GSO, path, false);
    }
    return count;
}

int main(int argc, char **argv)
{
    unsigned count = 0;

    if (getenv("EMX_TESTS"))
        cmocka_set_test_filter(getenv("EMX_TESTS"));
    if (argc == 4) {
        world_init(argv + 1);
        count = add_namespaces(count);
    } else if (argc == 3) {
        world_init_interfaces(argv + 1);
        count = add_path(count, DEVICES);
        if (!count)
            return 1;
    } else {
        fprintf(stderr,
                "usage: %s NAMESPACE_A NAMESPACE_B NAMESPACE_C (run_wires makes them)\n"
                "       %s INTERFACE INTERFACE (with RDMA devices; tests/guest)\n",
                argv[0], argv[0]);
        return 2;
    }
    return _cmocka_run_group_tests("wires", tests, count, NULL, NULL);
}
