/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the kernel takes for a frame from one rank to the other, without any protocol: the floor under each wire's
 * latency. Prints lines "latency BYTES MICROSECONDS": half round trips. Ranks 0 and 1 on two hosts; the first argument
 * is the interface that joins them. MPI only starts the two and tells each the other's address. The wires:
 *
 *     packet   AF_PACKET: send(), and a receive ring that is polled
 *     udp      a socket each: send() and recv() without waiting
 *     xdp      AF_XDP, copy mode, the program in the driver
 *     generic  the same, the program in the network stack
 *
 * With wavefront:WIRE the ranks are a pipeline, as in apps/wavefront.c: sweeps of 12 planes, for each of which a rank
 * takes a frame, computes as long as that program does, and sends a frame. Prints "wavefront BYTES MICROSECONDS": of a
 * plane. With rate:WIRE rank 0 sends 64 frames, and rank 1 sends one back when it has them, as in mpibench's "rate".
 * Prints "rate BYTES FRAMES": a second. Neither is for AF_XDP: it takes all that comes to the interface, and MPI has to
 * start the ranks together over that.
 *
 * usage: floor INTERFACE [--seconds S] [wavefront:|rate:]WIRE BYTES...
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <mpi.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/app.h"
#include "bare.h"
#include "bench.h"

#if HAVE_XDP
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <xdp/libxdp.h>
#include <xdp/xsk.h>
#endif

enum { RUNS = 9, ETHERTYPE = 0x88b6, HEADER = 14, SLOT = 2048, SLOTS = 1024, BYTES_MAX = 1400, LAST = HEADER };

enum taken { NOTHING, FRAME, LAST_FRAME };

/* take: what there was of the other rank; it is given back to the kernel. */
struct wire {
    const char *name;
    void (*open)(const char *interface);
    void (*send)(const void *frame, size_t len);
    enum taken (*take)(void);
    void (*close)(void);
    bool takes_all; /* that comes to the interface, frames of MPI too, until it is closed */
};

#define PATIENCE_S 5.0  /* without any frame */
#define RESEND_S   0.02 /* the other is not ready yet, or the frame was lost */

static int rank, fd;
static const char *interface;

static void die(const char *what)
{
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The last byte of a frame's source address is the sender's rank. */
static enum taken what_is(const uint8_t *frame)
{
    if (frame[12] != ETHERTYPE >> 8 || frame[13] != (ETHERTYPE & 0xff) || frame[11] != !rank)
        return NOTHING;
    return frame[LAST] ? LAST_FRAME : FRAME;
}

/* ---- AF_PACKET ---- */

static struct bare_ring ring;

static void packet_open(const char *name)
{
    fd = bare_socket(PACKET_QDISC_BYPASS);
    if (fd < 0 || bare_ring_open(&ring, fd, (int)if_nametoindex(name), ETHERTYPE, SLOT, SLOTS))
        die("packet socket");
}

static void socket_send(const void *frame, size_t len)
{
    if (send(fd, frame, len, MSG_DONTWAIT) < 0)
        die("send");
}

static enum taken packet_take(void)
{
    const uint8_t *frame = bare_ring_look(&ring);
    enum taken what;

    if (!frame)
        return NOTHING;
    what = what_is(frame);
    bare_ring_give_back(&ring);
    return what;
}

static void packet_close(void)
{
    bare_ring_close(&ring);
}

/* ---- UDP ---- */

static struct sockaddr_in own_address(const char *name)
{
    struct sockaddr_in found = {.sin_family = AF_UNSPEC};
    struct ifaddrs *all;

    if (getifaddrs(&all))
        die("getifaddrs");
    for (struct ifaddrs *i = all; i; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && !strcmp(i->ifa_name, name))
            memcpy(&found, i->ifa_addr, sizeof(found));
    freeifaddrs(all);
    return found;
}

static void udp_open(const char *name)
{
    struct sockaddr_in a = own_address(name), other;
    socklen_t len = sizeof(a);

    fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || getsockname(fd, (struct sockaddr *)&a, &len))
        die("UDP socket");
    MPI_Sendrecv(&a, sizeof(a), MPI_BYTE, !rank, 0, &other, sizeof(other), MPI_BYTE, !rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (connect(fd, (struct sockaddr *)&other, sizeof(other)))
        die("connect");
}

static enum taken udp_take(void)
{
    uint8_t frame[SLOT];

    return recv(fd, frame, sizeof(frame), MSG_DONTWAIT) > 0 ? what_is(frame) : NOTHING;
}

static void udp_close(void)
{
    close(fd);
}

/* ---- AF_XDP ---- */

#if HAVE_XDP
static uint8_t *area; /* half of its slots are for receiving */
static struct xsk_umem *umem;
static struct xsk_socket *xsk;
static struct xsk_ring_prod fill, tx;
static struct xsk_ring_cons completed, rx;
static unsigned sent;

static int no_words(enum libbpf_print_level level, const char *format, va_list args)
{
    (void)level, (void)format, (void)args;
    return 0;
}

static int no_xdp_words(enum libxdp_print_level level, const char *format, va_list args)
{
    (void)level, (void)format, (void)args;
    return 0;
}

static void fill_put(uint64_t address)
{
    uint32_t at = 0;

    if (xsk_ring_prod__reserve(&fill, 1, &at) != 1)
        die("fill ring");
    *xsk_ring_prod__fill_addr(&fill, at) = address;
    xsk_ring_prod__submit(&fill, 1);
}

static void xdp_open_as(const char *name, uint32_t xdp_flags)
{
    const struct xsk_umem_config memory = {.fill_size = SLOTS, .comp_size = SLOTS, .frame_size = SLOT};
    const struct xsk_socket_config queues = {
        .rx_size = SLOTS, .tx_size = SLOTS, .xdp_flags = xdp_flags, .bind_flags = XDP_COPY};

    libbpf_set_print(no_words);
    libxdp_set_print(no_xdp_words);
    area = mmap(NULL, (size_t)SLOT * SLOTS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (area == MAP_FAILED || xsk_umem__create(&umem, area, (uint64_t)SLOT * SLOTS, &fill, &completed, &memory) ||
        xsk_socket__create(&xsk, name, 0, umem, &rx, &tx, &queues))
        die("AF_XDP socket");
    for (unsigned i = 0; i < SLOTS / 2; i++)
        fill_put((uint64_t)i * SLOT);
    fd = xsk_socket__fd(xsk);
}

static void xdp_open(const char *name)
{
    xdp_open_as(name, XDP_FLAGS_DRV_MODE);
}

static void generic_open(const char *name)
{
    xdp_open_as(name, XDP_FLAGS_SKB_MODE);
}

static void xdp_send(const void *frame, size_t len)
{
    uint64_t address = (uint64_t)(SLOTS / 2 + sent++ % (SLOTS / 2)) * SLOT;
    struct xdp_desc *d;
    uint32_t at = 0;
    unsigned n;

    if (xsk_ring_prod__reserve(&tx, 1, &at) != 1)
        die("send ring");
    d = xsk_ring_prod__tx_desc(&tx, at);
    *d = (struct xdp_desc){.addr = address, .len = (uint32_t)len};
    memcpy(area + address, frame, len);
    xsk_ring_prod__submit(&tx, 1);
    sendto(fd, NULL, 0, MSG_DONTWAIT, NULL, 0);
    n = xsk_ring_cons__peek(&completed, SLOTS, &at);
    xsk_ring_cons__release(&completed, n);
}

static enum taken xdp_take(void)
{
    const struct xdp_desc *d;
    uint32_t at;
    enum taken what;

    if (!xsk_ring_cons__peek(&rx, 1, &at))
        return NOTHING;
    d = xsk_ring_cons__rx_desc(&rx, at);
    what = what_is(area + d->addr);
    fill_put(d->addr & ~(uint64_t)(SLOT - 1));
    xsk_ring_cons__release(&rx, 1);
    return what;
}

static void xdp_close(void)
{
    xsk_socket__delete(xsk);
    xsk_umem__delete(umem);
    munmap(area, (size_t)SLOT * SLOTS);
}
#endif

static const struct wire wires[] = {
    {"packet", packet_open, socket_send, packet_take, packet_close, false},
    {"udp", udp_open, socket_send, udp_take, udp_close, false},
#if HAVE_XDP
    {"xdp", xdp_open, xdp_send, xdp_take, xdp_close, true},
    {"generic", generic_open, xdp_send, xdp_take, xdp_close, true},
#endif
};

/* ---- The measurement ---- */

/* NOTHING: none came in time. */
static enum taken await(const struct wire *w, double seconds)
{
    double start = MPI_Wtime();
    enum taken what = NOTHING;

    for (unsigned i = 1; !(what = w->take()); i++)
        if (!(i % 1024) && MPI_Wtime() - start > seconds)
            break;
    return what;
}

static double round_trips(const struct wire *w, const uint8_t *frame, int bytes, int rounds)
{
    double start = MPI_Wtime();

    for (int i = 0; i < rounds; i++) {
        double since = MPI_Wtime();

        do {
            if (MPI_Wtime() - since > PATIENCE_S)
                die("no answer");
            w->send(frame, (size_t)bytes);
        } while (!await(w, RESEND_S));
    }
    return MPI_Wtime() - start;
}

static double ask(const struct wire *w, uint8_t *frame, int bytes, double seconds)
{
    double us[RUNS];
    int rounds;

    round_trips(w, frame, bytes, 1);
    rounds = (int)(seconds / RUNS / (round_trips(w, frame, bytes, 100) / 100)) + 10;
    for (int i = 0; i < RUNS; i++)
        us[i] = round_trips(w, frame, bytes, rounds) * 1e6 / rounds / 2;
    frame[LAST] = 1;
    w->send(frame, (size_t)bytes);
    return bench_median(us, RUNS);
}

/* Until the last one, or until none comes any more. */
static void answer(const struct wire *w, const uint8_t *frame, int bytes)
{
    while (await(w, PATIENCE_S) == FRAME)
        w->send(frame, (size_t)bytes);
}

/* ---- The pipeline ---- */

enum { PLANES = 12, VALUES = 24, PASSES = 46 }; /* computing as apps/wavefront.c does with an edge of 200 bytes */

/* A link of the virtual cluster loses nothing. */
static void take_one(const struct wire *w)
{
    if (!await(w, PATIENCE_S))
        die("a frame was lost");
}

static void sweep(const struct wire *w, const uint8_t *frame, int bytes, bool first)
{
    static double values[VALUES];

    for (int plane = 0; plane < PLANES; plane++) {
        if (!first)
            take_one(w);
        app_work(values, VALUES, PASSES);
        if (first)
            w->send(frame, (size_t)bytes);
    }
}

static void wavefront(const struct wire *w, const uint8_t *frame, int bytes, double seconds)
{
    double us[RUNS], start;
    int sweeps = (int)(seconds / RUNS / (2 * PLANES * 4e-6)) + 10;

    for (int i = 0; i < RUNS; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        for (int n = 0; n < sweeps; n++) {
            sweep(w, frame, bytes, rank == 0);
            sweep(w, frame, bytes, rank != 0);
        }
        us[i] = (MPI_Wtime() - start) * 1e6 / sweeps / (2 * PLANES);
    }
    if (rank == 0)
        printf("wavefront %d %.3f\n", bytes, bench_median(us, RUNS));
}

/* ---- Many frames one after the other ---- */

enum { WINDOW = 64 };

static void windows(const struct wire *w, const uint8_t *frame, int bytes, int count)
{
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < WINDOW; k++)
            if (rank == 0)
                w->send(frame, (size_t)bytes);
            else
                take_one(w);
        if (rank != 0)
            w->send(frame, (size_t)bytes);
        else
            take_one(w);
    }
}

/* The rings have more slots than a window has frames: nothing is lost. */
static void rate(const struct wire *w, const uint8_t *frame, int bytes, double seconds)
{
    double per_second[RUNS], start;
    int count = (int)(seconds / RUNS / (WINDOW * 2e-6)) + 10;

    for (int i = 0; i < RUNS; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        windows(w, frame, bytes, count);
        per_second[i] = (double)count * WINDOW / (MPI_Wtime() - start);
    }
    if (rank == 0)
        printf("rate %d %.0f\n", bytes, bench_median(per_second, RUNS));
}

static void latency(const struct wire *w, const uint8_t *frame, int bytes, double seconds)
{
    uint8_t last[BYTES_MAX];

    memcpy(last, frame, sizeof(last));
    if (rank == 0)
        printf("latency %d %.3f\n", bytes, ask(w, last, bytes, seconds));
    else
        answer(w, frame, bytes);
}

static const struct shape {
    const char *prefix;
    void (*run)(const struct wire *w, const uint8_t *frame, int bytes, double seconds);
} shapes[] = {{"wavefront:", wavefront}, {"rate:", rate}, {"", latency}};

static const struct shape *shape;

static const void *find(const char *name)
{
    const struct shape *asked = shapes;

    while (strncmp(name, asked->prefix, strlen(asked->prefix)) != 0)
        asked++;
    name += strlen(asked->prefix);
    for (unsigned i = 0; i < sizeof(wires) / sizeof(wires[0]); i++)
        if (!strcmp(wires[i].name, name) && !(asked->prefix[0] && wires[i].takes_all)) {
            shape = asked;
            return &wires[i];
        }
    return NULL;
}

static void measure(const void *kind, int bytes, double seconds)
{
    uint8_t frame[BYTES_MAX] = {0xff, 0xff, 0xff, 0xff, 0xff,          0xff,           2,
                                0,    0,    0,    0,    (uint8_t)rank, ETHERTYPE >> 8, ETHERTYPE & 0xff};
    const struct wire *w = kind;

    bytes = bytes <= LAST ? LAST + 1 : bytes;
    MPI_Barrier(MPI_COMM_WORLD);
    w->open(interface);
    shape->run(w, frame, bytes, seconds);
    w->close();
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    struct bench_args args = {.seconds = 0.1, .size_max = BYTES_MAX, .find = find, .measure = measure};
    int size, rc;

    bench_stay_on_core("OMPI_COMM_WORLD_RANK");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    interface = argc > 1 ? argv[1] : NULL;
    rc = size == 2 && interface ? bench_run(&args, argc - 1, argv + 1) : -1;
    if (rc && rank == 0)
        fprintf(stderr, "usage: floor INTERFACE [--seconds S] WIRE BYTES...; two ranks; wires: packet, udp%s\n",
                HAVE_XDP ? ", xdp, generic" : "");
    MPI_Finalize();
    return rc ? 2 : 0;
}
