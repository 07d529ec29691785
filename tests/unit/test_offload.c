/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GSO packets beyond tests/conform: a ring that has fewer slots than frames that may be in use at once, data that is
 * received into its place, TSO packets that are announced, lost, foreign or mixed with others, and the choice of
 * sockets.
 *
 * Over the loopback of a network namespace of its own. Needs root, or a kernel that lets users make user namespaces;
 * skipped without, and where the kernel knows no GSO packets.
 */
#define _GNU_SOURCE
#include "network.h"
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/config.h"
#include "wire/gso_udp.h"
#include "wire/offload.h"
#include "wire/netif.h"
#include "wire/tso.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define WAIT_MS     20000
#define FRAME_BYTES 1000
#define HEAD_BYTES  48
#define CHUNK_BYTES (FRAME_BYTES - HEAD_BYTES)
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

/* A TSO packet of n chunks. Each byte of a chunk is its index, but the first is `number`. */
static void send_chunks(struct emx_offload *b, unsigned ifindex, unsigned number, unsigned n)
{
    static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
    static uint8_t data[EMX_WIRE_BATCH][CHUNK_BYTES];
    const struct emx_offload_way way = {.from = emx_ip_from_v4(htonl(OTHER)),
                                        .to = emx_ip_from_v4(htonl(THERE)),
                                        .port = emx_offload_port(b),
                                        .tso = true,
                                        .frame_bytes = FRAME_BYTES};
    const struct emx_place_head head = {.version = EMX_PLACE_MARK_OFF >> 8,
                                        .type = EMX_PLACE_MARK_OFF & 0xff,
                                        .body_bytes =
                                            (uint16_t)(sizeof(head) - EMX_PLACE_FRAME_BYTES + n * CHUNK_BYTES),
                                        .chunk_bytes = CHUNK_BYTES,
                                        .chunk = (uint64_t)number << 32};
    struct emx_wire_addr to;
    const struct emx_txframe f = {.to = &to,
                                  .head = &head,
                                  .head_bytes = sizeof(head),
                                  .body = data,
                                  .body_bytes = (uint16_t)(n * CHUNK_BYTES),
                                  .chunk_bytes = CHUNK_BYTES,
                                  .gso = true};

    emx_offload_addr(&to, ifindex, mac, &way, 0);
    for (unsigned i = 0; i < n; i++) {
        memset(data[i], (int)i, CHUNK_BYTES);
        data[i][0] = (uint8_t)number;
    }
    assert_int_equal(emx_offload_joinable(&f, 1), 1);
    assert_int_equal(emx_offload_send(b, mac, &f, 1), 0);
}

/* Such a packet: it is one frame. */
static void check_chunks(const struct emx_rxframe *f, unsigned number, unsigned n)
{
    const uint8_t *body = f->body ? f->body : f->data + HEAD_BYTES;
    struct emx_place_head h;

    assert_int_equal(f->len_bytes, HEAD_BYTES + n * CHUNK_BYTES);
    memcpy(&h, f->data, sizeof(h));
    assert_int_equal(h.chunk, (uint64_t)number << 32);
    for (unsigned i = 0; i < n; i++, body += CHUNK_BYTES) {
        assert_int_equal(body[0], (uint8_t)number);
        for (unsigned k = 1; k < CHUNK_BYTES; k++)
            assert_int_equal(body[k], (uint8_t)i);
    }
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

    while (!(got = emx_offload_rx(b, f, EMX_WIRE_BATCH, UINT64_MAX))) {
        struct pollfd p = {.fd = emx_offload_fd(b, 0), .events = POLLIN};

        if (!emx_offload_waits(b))
            assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    }
    assert_int_equal(got, n);
}

/* Receives n frames, as they come: each once, and in order. */
static void take(struct emx_offload *b, struct emx_rxframe f[EMX_WIRE_BATCH], uint32_t first, unsigned n)
{
    struct pollfd p = {.fd = emx_offload_fd(b, 0), .events = POLLIN};
    unsigned got = 0;

    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    while (got < n)
        got += emx_offload_rx(b, f + got, EMX_WIRE_BATCH - got, UINT64_MAX);
    assert_int_equal(got, n);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(number_of(&f[i]), first + i);
}

static struct emx_stats stats;

/* Over the loopback interface; why has what was found. NULL: there are no GSO packets. */
static struct emx_offload *open_over_loopback(struct emx_netifs *netifs, enum emx_gso_sockets sockets,
                                              uint64_t ring_bytes, unsigned local_ranks, const struct emx_placer *to,
                                              char why[512])
{
    struct emx_config cfg;
    const struct emx_wire_params params = {
        .cfg = &cfg, .netifs = netifs, .endpoint_id = 1, .local_ranks = local_ranks, .stats = &stats, .placer = to};

    stats = (struct emx_stats){0};
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
    struct emx_place_head h;

    (void)arg;
    p->count = 0;
    p->head_bytes = HEAD_BYTES;
    assert_in_range(head_bytes, HEAD_BYTES, EMX_PLACE_HEAD_BYTES);
    memcpy(&h, head, sizeof(h));
    if (h.chunk_bytes == CHUNK_BYTES) { /* a TSO packet */
        p->place[p->count++] = (struct emx_place){memory, (uint32_t)len_bytes - HEAD_BYTES};
        planned++;
        return;
    }
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

/* So many more calls say that a packet is early. */
static unsigned early_looks;

static bool is_early(void *arg, const uint8_t *head, size_t head_bytes)
{
    (void)arg;
    assert_true(emx_place_is_marked(head));
    assert_int_equal(head_bytes, HEAD_BYTES);
    return early_looks && early_looks--;
}

static const struct emx_placer placer = {
    .arg = &planned, .expects = expects, .is_early = is_early, .plan = plan, .settle = settle};

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
            assert_int_equal(emx_offload_rx(b, f, EMX_WIRE_BATCH, UINT64_MAX), 0);
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

/* ---- TSO packets ---- */

/* As a kernel before 6.2, which sends no GSO packets of UDP from packet sockets. */
static bool kernel_is_old;

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    const struct virtio_net_hdr *vnet = msg->msg_iov[0].iov_base;
    int domain = 0;
    socklen_t len = sizeof(domain);

    if (kernel_is_old && !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_PACKET &&
        vnet->gso_type == VIRTIO_NET_HDR_GSO_UDP_L4) {
        errno = EINVAL;
        return -1;
    }
    return syscall(SYS_sendmsg, fd, msg, flags);
}

/* With TSO packets; sends through *link_p: the link, or the loopback interface. */
static struct emx_offload *open_tso(bool by_lo, uint64_t ring_bytes, const struct emx_placer *to, unsigned *link_p)
{
    struct emx_netifs netifs;
    struct emx_offload *b;
    char why[512];

    if (!unit_own_network())
        skip();
    *link_p = own_link();
    b = open_over_loopback(&netifs, EMX_GSO_AUTO, ring_bytes, 0, to, why);
    assert_non_null(b);
    assert_non_null(strstr(why, " as TSO packets"));
    assert_true(emx_offload_takes_tso(b));
    if (by_lo)
        *link_p = netifs.loopback_index;
    return b;
}

/* Receives packet `number`, of n chunks, which is the next one. */
static void take_chunks(struct emx_offload *b, unsigned number, unsigned n, bool placed)
{
    struct emx_rxframe f[EMX_WIRE_BATCH];

    take_some(b, f, 1);
    check_chunks(f, number, n);
    assert_int_equal(f->parts, n == 1 ? 0 : n);
    assert_ptr_equal(f->body, placed ? memory : NULL);
    emx_offload_return(b, f->cookie);
}

/* Receives until nothing is left. Returns how many packets of n chunks came. Their numbers ascend. */
static unsigned take_what_came(struct emx_offload *b, unsigned n)
{
    struct emx_rxframe f[EMX_WIRE_BATCH];
    unsigned packets = 0, number, least = 0;

    while (emx_offload_waits(b)) {
        if (!emx_offload_rx(b, f, EMX_WIRE_BATCH, UINT64_MAX))
            continue;
        number = (unsigned)(((const struct emx_place_head *)f[0].data)->chunk >> 32);
        assert_true(number >= least);
        least = number + 1;
        check_chunks(f, number, n);
        emx_offload_return(b, f->cookie);
        packets++;
    }
    return packets;
}

/* Through the link and over loopback, with places and without, by packet sockets that know UDP and that do not. */
static void chunks_come_to_their_place(bool by_lo)
{
    enum { PACKETS = 20, FRAMES = 40 };

    for (unsigned places = 0; places < 2; places++) {
        unsigned link;
        struct emx_offload *b = open_tso(by_lo, 4 << 20, places ? &placer : NULL, &link);
        struct pollfd p = {.fd = emx_offload_fd(b, 0), .events = POLLIN};

        planned = 0;
        for (unsigned i = 0; i < PACKETS; i++)
            send_chunks(b, link, i, 1 + i * 2);
        for (unsigned i = 0; i < PACKETS; i++)
            take_chunks(b, i, 1 + i * 2, places);
        assert_false(emx_offload_waits(b));
        send_chunks(b, link, PACKETS, FRAMES);
        assert_int_equal(poll(&p, 1, WAIT_MS), 1); /* whoever sleeps is woken */
        take_chunks(b, PACKETS, FRAMES, places);
        assert_int_equal(emx_offload_rx(b, (struct emx_rxframe[1]){{0}}, 1, UINT64_MAX), 0);
        assert_int_equal(stats.tso_packets_sent, PACKETS + 1);
        assert_int_equal(stats.tso_packets_received, PACKETS + 1);
        assert_int_equal(stats.gso_packets_received, PACKETS); /* the first has one frame */
        assert_int_equal(stats.wire_lost, 0);
        assert_int_equal(planned, places ? PACKETS + 1 : 0);
        emx_offload_close(b);
    }
}

static void chunks_come_to_their_place_through_a_link(void **state)
{
    (void)state;
    chunks_come_to_their_place(false);
}

static void chunks_come_to_their_place_over_loopback(void **state)
{
    (void)state;
    chunks_come_to_their_place(true);
}

static void chunks_come_to_their_place_on_old_kernels(void **state)
{
    (void)state;
    kernel_is_old = true;
    chunks_come_to_their_place(false);
    chunks_come_to_their_place(true);
    kernel_is_old = false;
}

/* A packet whose receive is not there yet is left in its socket, and nobody sleeps meanwhile. */
static void early_chunks_wait(void **state)
{
    enum { FRAMES = 40, LOOKS = 3 };
    struct emx_rxframe f[EMX_WIRE_BATCH];
    unsigned link;
    struct emx_offload *b = open_tso(false, 4 << 20, &placer, &link);
    struct pollfd p = {.fd = emx_offload_fd(b, 0), .events = POLLIN};

    (void)state;
    early_looks = LOOKS;
    send_chunks(b, link, 0, FRAMES);
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    for (unsigned i = 1; i <= LOOKS; i++) {
        assert_int_equal(emx_offload_rx(b, f, EMX_WIRE_BATCH, UINT64_MAX), 0);
        assert_int_equal(early_looks, LOOKS - i);
        assert_true(emx_offload_waits(b));
    }
    take_chunks(b, 0, FRAMES, true);
    assert_false(emx_offload_waits(b));
    assert_int_equal(stats.tso_packets_received, 1);
    assert_int_equal(stats.wire_lost, 0);
    emx_offload_close(b);
}

/* A full ring announces no more packets; they come nevertheless, once each, when the socket is asked. */
static void packets_that_nothing_announced(void **state)
{
    enum { PACKETS = 600, FRAMES = 2, POLLS = 1000 };
    struct emx_rxframe f[EMX_WIRE_BATCH];
    unsigned link, got;
    struct emx_offload *b;

    (void)state;
    for (unsigned old = 0; old < 2; old++) {
        kernel_is_old = old;
        b = open_tso(false, 8 << 20, &placer, &link);
        for (unsigned i = 0; i < PACKETS; i++)
            send_chunks(b, link, i, FRAMES);
        for (unsigned i = 0; i < PACKETS; i++) {
            for (unsigned polls = got = 0; !got && polls < POLLS; polls++)
                got = emx_offload_rx(b, f, EMX_WIRE_BATCH, UINT64_MAX);
            assert_int_equal(got, 1);
            check_chunks(f, i, FRAMES);
            emx_offload_return(b, f->cookie);
        }
        assert_int_equal(take_what_came(b, FRAMES), 0);
        send_chunks(b, link, PACKETS, FRAMES);
        take_chunks(b, PACKETS, FRAMES, true);
        assert_int_equal(stats.tso_packets_received, PACKETS + 1);
        emx_offload_close(b);
    }
    kernel_is_old = false;
}

/* A full socket buffer loses packets that were announced. */
static void announced_packets_that_are_lost(void **state)
{
    enum { PACKETS = 10, FRAMES = 40 };
    const int small = 65536;
    unsigned link, came;
    struct emx_offload *b;

    (void)state;
    for (unsigned old = 0; old < 2; old++) {
        kernel_is_old = old;
        b = open_tso(false, 4 << 20, &placer, &link);
        assert_int_equal(
            setsockopt(emx_offload_fanout_fd(b, EMX_FANOUT_TSO), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
        for (unsigned i = 0; i < PACKETS; i++)
            send_chunks(b, link, i, FRAMES);
        came = take_what_came(b, FRAMES);
        assert_in_range(came, 1, PACKETS - 1);
        assert_int_equal(stats.tso_packets_received, came);
        assert_int_equal(stats.wire_lost, PACKETS - came);
        for (unsigned i = PACKETS; i < 2 * PACKETS; i++) {
            send_chunks(b, link, i, FRAMES);
            take_chunks(b, i, FRAMES, true);
        }
        emx_offload_close(b);
    }
    kernel_is_old = false;
}

/* Returns a frame, and receives the next one. */
static void take_one(struct emx_offload *b, struct emx_rxframe *f)
{
    emx_offload_return(b, f->cookie);
    while (!emx_offload_rx(b, f, 1, UINT64_MAX)) {
        struct pollfd p = {.fd = emx_offload_fd(b, 0), .events = POLLIN};

        if (!emx_offload_waits(b))
            assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    }
}

/* The three kinds of packets come in the order in which they were sent. */
static void kinds_of_packets_are_mixed(void **state)
{
    enum { ROUNDS = 10, FRAMES = 10 };
    struct emx_rxframe f = {.cookie = EMX_OFFLOAD_NO_SLOT};
    struct emx_netifs netifs;
    struct emx_offload *b;
    unsigned link, slots;

    (void)state;
    if (!unit_own_network())
        skip();
    emx_offload_close(open_ring(&netifs, 1, 0, &slots)); /* skipped on old kernels */
    b = open_tso(false, 4 << 20, &placer, &link);
    for (unsigned round = 0; round < ROUNDS; round++) {
        send_chunks(b, link, round, FRAMES);
        send_data(b, link, THERE, round, FRAMES);
        send_alone(b, netifs.loopback_index, round);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        take_one(b, &f);
        check_chunks(&f, round, FRAMES);
        assert_ptr_equal(f.body, memory);
        for (unsigned i = 0; i < FRAMES; i++) {
            take_one(b, &f);
            assert_ptr_equal(f.body, memory[i]);
            assert_int_equal(memory[i][0], round);
            assert_int_equal(memory[i][CHUNK_BYTES - 1], i);
        }
        take_one(b, &f);
        assert_int_equal(number_of(&f), round);
    }
    emx_offload_return(b, f.cookie);
    assert_int_equal(stats.tso_packets_received, ROUNDS);
    assert_int_equal(stats.gso_packets_received, 2 * ROUNDS);
    assert_int_equal(stats.wire_lost, 0);
    emx_offload_close(b);
}

/* So many short packets in a row open their ring. */
#define SHORT_RUN 64

static void send_shorts(struct emx_offload *b, unsigned link, unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++)
        send_chunks(b, link, i, 1);
}

/* Receives short packets one at a time, through the socket if they are placed, or in their ring. */
static void take_shorts(struct emx_offload *b, unsigned first, unsigned n, bool placed)
{
    struct emx_rxframe f = {.cookie = EMX_OFFLOAD_NO_SLOT};

    for (unsigned i = first; i < first + n; i++) {
        take_one(b, &f);
        check_chunks(&f, i, 1);
        assert_ptr_equal(f.body, placed ? memory : NULL);
        assert_int_equal(f.parts, 0);
        assert_true(f.tso);
    }
    emx_offload_return(b, f.cookie);
}

/* Where many pieces come alone, these have a ring: in order with longer ones, and whoever sleeps is woken. */
static void short_packets_come_in_their_ring(void **state)
{
    enum { MANY = 300, FRAMES = 10 };

    (void)state;
    for (unsigned old = 0; old < 2; old++) {
        unsigned link, at = 0;
        struct emx_offload *b;
        struct pollfd p = {.events = POLLIN};

        kernel_is_old = old;
        b = open_tso(false, 4 << 20, &placer, &link);
        for (; at < SHORT_RUN; at++) {
            assert_int_equal(emx_offload_fd(b, 1), -1);
            send_shorts(b, link, at, 1);
            take_shorts(b, at, 1, true);
        }
        p.fd = emx_offload_fd(b, 1);
        assert_true(p.fd >= 0);
        assert_int_equal(poll(&p, 1, 0), 0);
        for (unsigned round = 0; round < 3; round++, at += MANY + 2) {
            send_shorts(b, link, at, MANY);
            assert_int_equal(poll(&p, 1, WAIT_MS), 1);
            send_chunks(b, link, at + MANY, FRAMES);
            send_shorts(b, link, at + MANY + 1, 1);
            take_shorts(b, at, MANY, false);
            take_chunks(b, at + MANY, FRAMES, true);
            take_shorts(b, at + MANY + 1, 1, false);
        }
        assert_false(emx_offload_waits(b));
        assert_int_equal(stats.tso_packets_received, at);
        assert_int_equal(stats.wire_lost, 0);
        emx_offload_close(b);
    }
    kernel_is_old = false;
}

/* A short run that a longer packet ends does not open it; nor does a rank whose filters are locked, as in a fanout
 * group. */
static void short_packets_come_without_a_ring(void **state)
{
    const int on = 1;
    struct emx_offload *b;
    unsigned link, at = 0;

    (void)state;
    b = open_tso(false, 4 << 20, &placer, &link);
    for (unsigned i = 0; i < 4; i++, at += SHORT_RUN) {
        send_shorts(b, link, at, SHORT_RUN - 1);
        take_shorts(b, at, SHORT_RUN - 1, true);
        send_chunks(b, link, at + SHORT_RUN - 1, 2);
        take_chunks(b, at + SHORT_RUN - 1, 2, true);
    }
    assert_int_equal(emx_offload_fd(b, 1), -1);
    assert_int_equal(setsockopt(emx_offload_fanout_fd(b, EMX_FANOUT_TSO), SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof(on)),
                     0);
    for (unsigned i = 0; i < 3; i++, at += SHORT_RUN) {
        send_shorts(b, link, at, SHORT_RUN);
        take_shorts(b, at, SHORT_RUN, true);
    }
    assert_int_equal(emx_offload_fd(b, 1), -1);
    assert_int_equal(stats.wire_lost, 0);
    emx_offload_close(b);
}

/* Sends bytes as they are. */
static void send_raw(unsigned ifindex, const uint8_t *bytes, size_t len_bytes)
{
    const struct sockaddr_ll to = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = (int)ifindex};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(sendto(fd, bytes, len_bytes, 0, (const struct sockaddr *)&to, sizeof(to)), len_bytes);
    close(fd);
}

#define CHANGED_BYTES (EMX_TSO_HEAD_BYTES + 4 * 300)

/* A packet to our port in the form of a TSO packet, of 4 chunks, with a byte that is changed, and shortened. */
static void send_changed(const struct emx_offload *b, unsigned ifindex, unsigned at, uint8_t value, size_t len_bytes)
{
    static uint8_t packet[CHANGED_BYTES];
    const struct emx_gso_way way = {.from_mac = {2, 0, 0, 0, 0, 3},
                                    .to_mac = {2, 0, 0, 0, 0, 1},
                                    .from_ip = emx_ip_from_v4(htonl(OTHER)),
                                    .from_port = 9,
                                    .to_port = emx_offload_port(b)};
    const struct emx_place_head head = {
        .version = EMX_PLACE_MARK_OFF >> 8, .type = EMX_PLACE_MARK_OFF & 0xff, .chunk_bytes = CHUNK_BYTES};
    const struct emx_txframe f = {
        .head = &head, .head_bytes = sizeof(head), .body_bytes = 4 * CHUNK_BYTES, .chunk_bytes = CHUNK_BYTES};

    emx_tso_head(packet, &way, &f);
    packet[at] = value;
    send_raw(ifindex, packet, len_bytes);
}

/* Damaged packets that come in that ring are counted, and harm nothing. */
static void damaged_short_packets_are_lost(void **state)
{
    static const struct {
        unsigned at;
        uint8_t value;
        unsigned len_bytes;
    } changes[] = {{14, 0x45, 60},
                   {14, 0x45, EMX_TSO_HEAD_BYTES},
                   {14, 0x45, CHANGED_BYTES - 1},
                   {46, 0x50, CHANGED_BYTES},
                   {56, 0xC3, CHANGED_BYTES},
                   {56, EMX_PLACE_MARK_HEADER >> 8, CHANGED_BYTES},
                   {41, 1, CHANGED_BYTES}};
    struct emx_rxframe f[1];
    struct emx_offload *b;
    unsigned link;

    (void)state;
    b = open_tso(false, 4 << 20, &placer, &link);
    send_shorts(b, link, 0, SHORT_RUN);
    take_shorts(b, 0, SHORT_RUN, true);
    for (unsigned i = 0; i < ARRAY_LEN(changes); i++) {
        send_changed(b, link, changes[i].at, changes[i].value, changes[i].len_bytes);
        assert_true(emx_offload_waits(b));
        while (emx_offload_waits(b))
            assert_int_equal(emx_offload_rx(b, f, 1, UINT64_MAX), 0);
        assert_int_equal(stats.wire_lost, i + 1);
        send_shorts(b, link, i, 1);
        take_shorts(b, i, 1, false);
    }
    emx_offload_close(b);
}

/* Connections to the port, and packets that are damaged: nothing comes of them, and what follows is not harmed. */
static void foreign_packets_are_ignored(void **state)
{
    enum { FRAMES = 20, ALL = CHANGED_BYTES };
    static const struct {
        unsigned at;
        uint8_t value;
        unsigned len_bytes;
        bool lost; /* it is taken for a TSO packet that is damaged */
    } changes[] = {
        {14, 0x45, 60, true},   {14, 0x45, EMX_TSO_HEAD_BYTES, true},
        {14, 0x45, 500, true},  {14, 0x45, ALL - 1, true},
        {46, 0x50, ALL, true},  {54, 2, ALL, true},
        {56, 0xC3, ALL, true},  {56, EMX_PLACE_MARK_HEADER >> 8, ALL, true},
        {41, 1, ALL, true},     {33, 1, ALL, false},
        {14, 0x46, ALL, false}, {20, 0x20, ALL, false},
        {23, 99, ALL, false},
    };
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct emx_rxframe f[EMX_WIRE_BATCH];
    struct emx_offload *b;
    unsigned link, lost = 0;
    int fd;

    (void)state;
    b = open_tso(false, 4 << 20, &placer, &link);
    port.sin_port = htons(emx_offload_port(b));
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&port, sizeof(port)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    assert_false(emx_offload_waits(b));
    for (unsigned i = 0; i < ARRAY_LEN(changes); i++) {
        send_changed(b, link, changes[i].at, changes[i].value, changes[i].len_bytes);
        assert_int_equal(emx_offload_waits(b), changes[i].lost);
        while (emx_offload_waits(b))
            assert_int_equal(emx_offload_rx(b, f, EMX_WIRE_BATCH, UINT64_MAX), 0);
        lost += changes[i].lost;
        assert_int_equal(stats.wire_lost, lost);
        send_chunks(b, link, i, FRAMES);
        take_chunks(b, i, FRAMES, true);
    }
    emx_offload_close(b);
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
        assert_int_equal(emx_offload_rx(b, f + slots, EMX_WIRE_BATCH - slots, UINT64_MAX), 0);
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
        cmocka_unit_test(chunks_come_to_their_place_through_a_link),
        cmocka_unit_test(chunks_come_to_their_place_over_loopback),
        cmocka_unit_test(chunks_come_to_their_place_on_old_kernels),
        cmocka_unit_test(early_chunks_wait),
        cmocka_unit_test(packets_that_nothing_announced),
        cmocka_unit_test(announced_packets_that_are_lost),
        cmocka_unit_test(kinds_of_packets_are_mixed),
        cmocka_unit_test(short_packets_come_in_their_ring),
        cmocka_unit_test(short_packets_come_without_a_ring),
        cmocka_unit_test(damaged_short_packets_are_lost),
        cmocka_unit_test(foreign_packets_are_ignored),
    };

    return cmocka_run_group_tests_name("gso", tests, NULL, NULL);
}
