/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What packet sockets take for a large message, without any protocol: the floor under the packet wire, which sends it
 * the same way. Prints "latency BYTES MICROSECONDS": half a round trip. MPI only starts the two ranks and tells each
 * the other's addresses.
 *
 * The data leaves in packets in the form of TCP segments to 0.0.0.0, and is received to its place. The receiver checks
 * the sums that neither the card nor the kernel has checked. A small frame announces the data, and one says that the
 * receiver is ready, as for every large message of MPI. The receiver sends a small frame back for every few packets, so
 * that no more than WINDOW (an even number) are under way. Nothing is sent again: if the queues of cards hold less,
 * there is no figure.
 *
 * usage: floor_large INTERFACE WINDOW [--size BYTES] [--iterations N]
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <mpi.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "apps/app.h"
#include "bare.h"
#include "bare_tso.h"
#include "bench.h"

enum {
    PACKET_BYTES = 43 * BARE_TSO_PART,
    BUFFER_BYTES = 16 << 20,
};

#define PATIENCE_S 2.0
#define SPIN_S     50e-6

static int interface;
static size_t window; /* packets; acknowledged by halves */
static struct bare_end self, other;
static int tx_fd, data_fd, small_fd;

static void must(bool ok, const char *what)
{
    if (!ok)
        perror(what);
    app_check(ok, "floor_large: the socket above cannot be used");
}

static int packet_socket(int option, int protocol)
{
    int fd = bare_socket(option), bytes = BUFFER_BYTES;

    must(fd >= 0, "packet socket");
    must(protocol != ETH_P_IP || !bare_tso_filter(fd, UINT32_MAX), "socket filter");
    must(!setsockopt(fd, SOL_SOCKET, protocol ? SO_RCVBUFFORCE : SO_SNDBUFFORCE, &bytes, sizeof(bytes)), "buffer");
    must(!bare_bind(fd, interface, protocol), "packet socket");
    return fd;
}

static void open_sockets(const char *name)
{
    interface = (int)if_nametoindex(name);
    must(!bare_end_of(name, &self), "getifaddrs");
    data_fd = packet_socket(PACKET_VNET_HDR, ETH_P_IP);
    small_fd = packet_socket(PACKET_IGNORE_OUTGOING, BARE_ETHERTYPE);
    tx_fd = packet_socket(PACKET_VNET_HDR, 0);
}

/* Receives a packet as a rank in a virtual machine does: polls for a while, and then sleeps. */
static size_t await(int fd, struct msghdr *msg)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    double begin = MPI_Wtime(), waited;
    ssize_t got;

    while ((got = recvmsg(fd, msg, MSG_DONTWAIT)) < 0) {
        must(errno == EAGAIN, "recvmsg");
        waited = MPI_Wtime() - begin;
        app_check(waited < PATIENCE_S, "floor_large: a packet was lost");
        if (waited > SPIN_S)
            poll(&p, 1, 1);
    }
    return (size_t)got;
}

static void send_small(void)
{
    uint8_t frame[sizeof(struct virtio_net_hdr) + BARE_SMALL_BYTES] = {0};

    bare_small_frame(frame + sizeof(struct virtio_net_hdr), &self, &other);
    must(send(tx_fd, frame, sizeof(frame), 0) > 0, "send");
}

static void await_small(void)
{
    uint8_t frame[BARE_SMALL_BYTES];
    struct iovec iov = {frame, sizeof(frame)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    await(small_fd, &msg);
}

static void send_message(const char *from, size_t bytes)
{
    send_small();
    await_small();
    for (size_t at = 0, i = 0; at < bytes; at += PACKET_BYTES, i++) {
        size_t n = bytes - at < PACKET_BYTES ? bytes - at : PACKET_BYTES;
        struct bare_tso_head head = bare_tso_head(&self, &other, n);
        struct iovec iov[] = {{&head, sizeof(head)}, {(void *)(from + at), n}};
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

        if (i >= window && i % (window / 2) == 0)
            await_small();
        must(sendmsg(tx_fd, &msg, 0) > 0, "sendmsg");
    }
}

/* How many acknowledgements the sender of a message waits for. */
static size_t acknowledgements(size_t bytes)
{
    size_t packets = (bytes + PACKET_BYTES - 1) / PACKET_BYTES;

    return packets > window ? (packets - 1 - window) / (window / 2) + 1 : 0;
}

static void receive_message(char *to, size_t bytes)
{
    size_t acks = 0;

    await_small();
    send_small();
    for (size_t got = 0; got < bytes;) {
        struct bare_tso_head head;
        struct iovec iov[] = {{&head, sizeof(head)}, {to + got, bytes - got}};
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
        size_t n = await(data_fd, &msg);

        app_check(n > sizeof(head), "floor_large: another packet came");
        app_check(bare_tso_is_sound(&head, to + got, n - sizeof(head)), "floor_large: a checksum is wrong");
        got += n - sizeof(head);
        for (; acks < acknowledgements(bytes) && got >= (acks + 1) * (window / 2) * PACKET_BYTES; acks++)
            send_small();
    }
}

static double exchange(int rank, const char *out, char *in, size_t bytes)
{
    double begin = MPI_Wtime();

    if (rank == 0)
        send_message(out, bytes);
    receive_message(in, bytes);
    if (rank == 1)
        send_message(out, bytes);
    return (MPI_Wtime() - begin) / 2 * 1e6;
}

int main(int argc, char **argv)
{
    struct app app = {.size = 4 << 20, .iterations = 20, .work = 1};
    struct bare_run run;

    app_start(&app, argc > 2 ? argc - 2 : argc, argc > 2 ? argv + 2 : argv);
    window = argc > 2 ? (size_t)atoi(argv[2]) : 0;
    app_check(window >= 2 && app.ranks == 2 && app.size > BARE_TSO_PART,
              "usage: floor_large INTERFACE WINDOW [--size BYTES] [--iterations N]; two ranks");
    open_sockets(argv[1]);
    run = bare_begin(&app, &self, &other);
    for (long i = 0; i < app.iterations; i++)
        run.us[i] = exchange(app.rank, run.out, run.in, (size_t)app.size);
    if (app.rank == 0)
        printf("latency %ld %.1f\n", app.size, bench_median(run.us, (unsigned)app.iterations));
    return MPI_Finalize();
}
