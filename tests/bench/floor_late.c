/* SPDX-License-Identifier: BSD-3-Clause
 *
 * apps/late.c with bare sockets: what the kernel takes for its exchange, without any protocol. MPI only starts the two
 * ranks and tells each the other's addresses. Ten times a frame goes each way, and one rank comes 5 ms late; then each
 * sends a packet of --size bytes in the form of a TCP segment to 0.0.0.0. Its first bytes are announced in a ring, and
 * its data is read from a socket to its place. That is how the packet wire sends both.
 *
 * usage: floor_late INTERFACE [--size BYTES] [--iterations N]. Prints "exchange MICROSECONDS us", the median.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <mpi.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "apps/app.h"
#include "bare.h"
#include "bare_tso.h"
#include "bench.h"

enum {
    PHASES = 10,
    SMALL_SLOT = 2048,
    LARGE_SLOT = 65536,
    RING_BYTES = 1 << 20,
    LARGE_MOST = 65000,
};

static const double late_s = 5e-3;

static int interface;
static struct bare_end self, other;
static struct bare_ring small, announced;
static int small_fd, large_fd; /* for sending */
static int data_fd;            /* for receiving */

static void must(int ok, const char *what)
{
    if (!ok)
        perror(what);
    app_check(ok, "floor_late: the socket above cannot be used");
}

static int packet_socket(int option)
{
    int fd = bare_socket(option);

    must(fd >= 0, "packet socket");
    return fd;
}

static void packet_bind(int fd, int protocol)
{
    must(!bare_bind(fd, interface, protocol), "packet socket");
}

static void ring_open(struct bare_ring *r, int fd, unsigned slot_bytes, int protocol)
{
    must(!bare_ring_open(r, fd, interface, protocol, slot_bytes, RING_BYTES / slot_bytes), "receive ring");
}

/* The socket for data is bound after the ring that announces it. */
static void open_sockets(const char *name)
{
    int announcing_fd = packet_socket(PACKET_VNET_HDR);

    interface = (int)if_nametoindex(name);
    must(!bare_end_of(name, &self), "getifaddrs");
    ring_open(&small, packet_socket(PACKET_IGNORE_OUTGOING), SMALL_SLOT, BARE_ETHERTYPE);
    must(!bare_tso_filter(announcing_fd, sizeof(struct bare_tso_head) - sizeof(struct virtio_net_hdr)),
         "socket filter");
    ring_open(&announced, announcing_fd, LARGE_SLOT, ETH_P_IP);
    data_fd = packet_socket(PACKET_VNET_HDR);
    must(!bare_tso_filter(data_fd, UINT32_MAX), "socket filter");
    packet_bind(data_fd, ETH_P_IP);
    small_fd = packet_socket(PACKET_QDISC_BYPASS);
    packet_bind(small_fd, 0);
    large_fd = packet_socket(PACKET_VNET_HDR);
    packet_bind(large_fd, 0);
}

static const uint8_t *ring_await(const struct bare_ring *r)
{
    const uint8_t *packet;

    while (!(packet = bare_ring_look(r)))
        ;
    return packet;
}

static void swap_small(void)
{
    uint8_t frame[BARE_SMALL_BYTES];

    bare_small_frame(frame, &self, &other);
    must(send(small_fd, frame, sizeof(frame), 0) > 0, "send");
    ring_await(&small);
    bare_ring_give_back(&small);
}

static void swap_large(const char *out, char *in, long bytes)
{
    struct bare_tso_head head = bare_tso_head(&self, &other, (size_t)bytes), came;
    struct iovec iov[] = {{&head, sizeof(head)}, {(void *)out, (size_t)bytes}};
    struct iovec there[] = {{&came, sizeof(came)}, {in, (size_t)bytes}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2}, place = {.msg_iov = there, .msg_iovlen = 2};

    must(sendmsg(large_fd, &msg, 0) > 0, "sendmsg");
    ring_await(&announced);
    must(recvmsg(data_fd, &place, 0) == (ssize_t)sizeof(came) + bytes, "recvmsg");
    bare_ring_give_back(&announced);
}

static double exchange(const struct app *app, long i, const char *out, char *in)
{
    double begin;

    for (int phase = 0; phase < PHASES; phase++) {
        double end = MPI_Wtime() + (i % 2 == app->rank ? late_s : 0);

        while (MPI_Wtime() < end)
            ;
        swap_small();
    }
    begin = MPI_Wtime();
    swap_large(out, in, app->size);
    return (MPI_Wtime() - begin) * 1e6;
}

int main(int argc, char **argv)
{
    struct app app = {.size = 32 << 10, .iterations = 12, .work = 1};
    struct bare_run run;

    app_start(&app, argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv);
    app_check(argc > 1 && app.ranks == 2 && app.size <= LARGE_MOST, "usage: floor_late INTERFACE [--size BYTES] "
                                                                    "[--iterations N]; two ranks");
    open_sockets(argv[1]);
    run = bare_begin(&app, &self, &other);
    for (long i = 0; i < app.iterations; i++) {
        run.out[0] = (char)(app.rank + i);
        run.us[i] = exchange(&app, i, run.out, run.in);
        app_check(run.in[0] == (char)(!app.rank + i), "floor_late: another packet came");
    }
    MPI_Reduce(app.rank == 0 ? MPI_IN_PLACE : run.us, run.us, (int)app.iterations, MPI_DOUBLE, MPI_MAX, 0,
               MPI_COMM_WORLD);
    if (app.rank == 0)
        printf("exchange %.1f us\n", bench_median(run.us, (unsigned)app.iterations));
    return MPI_Finalize();
}
