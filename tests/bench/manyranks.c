/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One frame is looked at by one rank: what that costs when many ranks are on a node. Sends frames over a pair of
 * virtual interfaces between two network namespaces, to N packet wires of which one is to get the frame, and prints
 * nanoseconds per frame, the median of some runs, by how the kernel finds it:
 *
 *     filter   each wire's socket has an exact filter of its own and is asked for each frame (ETHMX_FANOUT=no)
 *     fanout   the sockets are a fanout group, and a program picks the one (from two ranks on)
 *     foreign_filter, foreign_fanout   an IPv4 packet of the host that no wire wants, seen by the sockets for
 *              GSO packets
 *
 * Over a virtual interface the receiver's part runs in the sender's call, so that the figure holds both ends; what
 * grows with N is the receiver's.
 *
 * usage: manyranks [FRAMES]    needs root. Prints: kind N ns
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "bench.h"
#include "wire/netif.h"
#include "wire/packet/packet.h"

enum { ETHERTYPE = 0x88b5, RANKS_MAX = 32, RUNS = 15, FRAME_BYTES = 100 };

static int peer_netns, own_netns;
static int frames = 5000;

static struct rank {
    struct emx_wire *wire;
    struct emx_stats stats;
} rank[RANKS_MAX];

static void fail(const char *why)
{
    fprintf(stderr, "manyranks: %s\n", why);
    exit(1);
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void enter(int netns)
{
    if (setns(netns, CLONE_NEWNET))
        die("setns");
}

static int netns_now(void)
{
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/thread-self/ns/net");
    f = fopen(path, "r");
    if (!f)
        die(path);
    return dup(fileno(f));
}

static void run(const char *command)
{
    if (system(command))
        die(command);
}

/* Two namespaces that vanish with this process, and what joins them. */
static void make_network(void)
{
    char command[256];

    if (unshare(CLONE_NEWNET))
        die("unshare");
    peer_netns = netns_now();
    if (unshare(CLONE_NEWNET))
        die("unshare");
    own_netns = netns_now();
    snprintf(command, sizeof(command), "ip link add emx0 type veth peer name emx0 netns /proc/%d/fd/%d", getpid(),
             peer_netns);
    run(command);
    run("ip link set emx0 up");
    enter(peer_netns);
    run("ip link set emx0 up && ip link set lo up && ip addr add 10.77.0.2/24 dev emx0");
}

/* ---- Receiving ---- */

static void open_ranks(struct rank *r, unsigned n, bool fanout)
{
    static struct emx_config cfg;
    static struct emx_netifs netifs;
    char why[512];

    emx_config_defaults(&cfg);
    cfg.p_fanout = fanout;
    if (emx_netifs_read(&netifs, &cfg, NULL, why, sizeof(why)))
        fail(why);
    for (unsigned i = 0; i < n; i++) {
        const struct emx_wire_params params = {
            .cfg = &cfg, .netifs = &netifs, .endpoint_id = i + 1, .job_cookie = 1 + n, .stats = &r[i].stats};

        memset(&r[i], 0, sizeof(r[i]));
        if (emx_wire_packet.open(&r[i].wire, &params, why, sizeof(why)))
            fail(why);
    }
    while (fanout && n > 1 && r[0].stats.fanout_ranks < n)
        for (unsigned i = 0; i < n; i++)
            emx_wire_packet.sweep(r[i].wire);
}

static unsigned take_all(struct rank *r)
{
    struct emx_rxframe f[EMX_WIRE_BATCH];
    unsigned n, all = 0;

    while ((n = emx_wire_packet.rx(r->wire, f, EMX_WIRE_BATCH))) {
        emx_wire_packet.rx_return(r->wire, f, n);
        all += n;
    }
    return all;
}

/* ---- Sending ---- */

static void make_frame(uint8_t *f, bool foreign, uint32_t id)
{
    uint16_t type = htons(foreign ? ETH_P_IP : ETHERTYPE);

    memset(f, 0, FRAME_BYTES);
    memset(f, 0xff, ETH_ALEN);
    memcpy(f + 2 * ETH_ALEN, &type, 2);
    if (foreign) { /* TCP to nobody; the kernel drops it for its checksum */
        f[ETH_HLEN] = 0x45;
        f[ETH_HLEN + 9] = 6;
    } else {
        memcpy(f + ETH_HLEN + 4, &id, sizeof(id));
    }
}

static double now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* Nanoseconds a frame, one run. Frames that are for rank `to` must have come there. */
static double burst(int fd, const struct sockaddr_ll *peer, const uint8_t *frame, struct rank *to)
{
    unsigned got = 0;
    double start = now_ns();

    for (int i = 0; i < frames; i++) {
        if (sendto(fd, frame, FRAME_BYTES, 0, (const struct sockaddr *)peer, sizeof(*peer)) < 0 && errno != ENOBUFS)
            die("send");
        if (to && i % 64 == 63)
            got += take_all(to);
    }
    if (to && got < (unsigned)frames / 2) {
        fprintf(stderr, "manyranks: only %u of %d frames came\n", got, frames);
        exit(1);
    }
    return (now_ns() - start) / frames;
}

static void measure(const char *kind, unsigned ranks)
{
    bool fanout = strstr(kind, "fanout"), foreign = strstr(kind, "foreign");
    struct rank *to = ranks && !foreign ? &rank[ranks / 2] : NULL;
    struct sockaddr_ll peer = {.sll_family = AF_PACKET};
    uint8_t frame[FRAME_BYTES];
    double ns[RUNS];
    int on = 1, fd;

    enter(peer_netns);
    open_ranks(rank, ranks, fanout);
    enter(own_netns);
    peer.sll_ifindex = (int)if_nametoindex("emx0");
    peer.sll_protocol = htons(ETHERTYPE);
    fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)))
        die("socket to send");
    make_frame(frame, foreign, ranks / 2 + 1);
    for (int i = 0; i < RUNS; i++)
        ns[i] = burst(fd, &peer, frame, to);
    printf("%s %u %.0f\n", kind, ranks, bench_median(ns, RUNS));
    fflush(stdout);
    close(fd);
    for (unsigned i = 0; i < ranks; i++)
        emx_wire_packet.close(rank[i].wire);
}

/* By turns, so that a machine that changes its speed does so for all. */
int main(int argc, char **argv)
{
    static const unsigned ranks[] = {1, 2, 8, 16, 32};

    if (argc > 1)
        frames = atoi(argv[1]);
    make_network();
    measure("foreign_filter", 0);
    for (unsigned i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        measure("filter", ranks[i]);
        measure("fanout", ranks[i]);
        measure("foreign_filter", ranks[i]);
        measure("foreign_fanout", ranks[i]);
    }
    return 0;
}
