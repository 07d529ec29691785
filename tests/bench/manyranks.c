/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One frame is looked at by one rank: what that costs when many ranks are on a node. Sends frames over a pair of
 * virtual interfaces between two network namespaces to N packet sockets with rings, of which one is to get the frame,
 * and prints nanoseconds per frame, the median of some runs, by how the kernel finds it:
 *
 *     filter      each socket has an exact filter of its own and is asked for each frame
 *     fanout      the sockets are a fanout group, and a program picks the one
 *     foreign_ip  no socket wants it: an IPv4 packet of the host, seen by the sockets for superframes
 *
 * Over a virtual interface the receiver's part runs in the sender's call, so that the figure holds both ends; what
 * grows with N is the receiver's.
 *
 * usage: manyranks [FRAMES]    needs root. Prints: kind N ns
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { ETHERTYPE = 0x88b5, RANKS_MAX = 32, RUNS = 15, FRAME_BYTES = 100, SLOT_BYTES = 2048, SLOTS = 256 };

static int peer_netns, own_netns;
static int frames = 20000;

struct rank {
    int fd;
    uint8_t *ring;
    unsigned next;
};

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
    run("ip link set emx0 up && ip link set lo up");
}

/* ---- Receiving ---- */

static void attach(int fd, int option_level, int option, struct sock_filter *code, unsigned len)
{
    struct sock_fprog prog = {.len = (unsigned short)len, .filter = code};

    if (setsockopt(fd, option_level, option, &prog, sizeof(prog)))
        die("attach a program");
}

/* Frames for endpoint id only; as wire/packet.c does it. */
static void filter_id(int fd, uint32_t id)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ETH_HLEN + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, id, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };

    attach(fd, SOL_SOCKET, SO_ATTACH_FILTER, code, 4);
}

/* UDP to a port of our own; as wire/bulk.c does it. */
static void filter_udp(int fd)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ETH_HLEN),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x45, 0, 5),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ETH_HLEN + 9),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 17, 0, 3),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, ETH_HLEN + 22),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4444, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };

    attach(fd, SOL_SOCKET, SO_ATTACH_FILTER, code, 8);
}

/* The socket's index in the group is the frame's id. */
static void join_group(int fd)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    int group = (PACKET_FANOUT_CBPF << 16) | 7;

    if (setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &group, sizeof(group)))
        die("PACKET_FANOUT");
    attach(fd, SOL_PACKET, PACKET_FANOUT_DATA, code, 2);
}

static void open_rank(struct rank *r, const char *kind, uint32_t id)
{
    struct sockaddr_ll all = {.sll_family = AF_PACKET};
    struct tpacket_req req = {.tp_block_size = 65536,
                              .tp_frame_size = SLOT_BYTES,
                              .tp_block_nr = SLOTS * SLOT_BYTES / 65536,
                              .tp_frame_nr = SLOTS};
    int version = TPACKET_V2;

    r->next = 0;
    r->fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
    if (r->fd < 0 || setsockopt(r->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)))
        die("packet socket");
    if (!strcmp(kind, "filter"))
        filter_id(r->fd, id);
    else if (!strcmp(kind, "foreign_ip"))
        filter_udp(r->fd);
    if (setsockopt(r->fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)))
        die("ring");
    r->ring = mmap(NULL, SLOTS * SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (r->ring == MAP_FAILED)
        die("mmap");
    all.sll_protocol = htons(strcmp(kind, "foreign_ip") ? ETHERTYPE : ETH_P_IP);
    if (bind(r->fd, (const struct sockaddr *)&all, sizeof(all)))
        die("bind");
    if (!strcmp(kind, "fanout"))
        join_group(r->fd);
}

static unsigned take_all(struct rank *r)
{
    unsigned n = 0;

    for (;; n++) {
        struct tpacket2_hdr *h = (struct tpacket2_hdr *)(r->ring + (size_t)r->next * SLOT_BYTES);

        if (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
            return n;
        __atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        r->next = (r->next + 1) % SLOTS;
    }
}

/* ---- Sending ---- */

static void make_frame(uint8_t *f, const char *kind, uint32_t id)
{
    uint16_t type = htons(strcmp(kind, "foreign_ip") ? ETHERTYPE : ETH_P_IP);
    uint32_t id_net = htonl(id);

    memset(f, 0, FRAME_BYTES);
    memset(f, 0xff, ETH_ALEN);
    memcpy(f + 2 * ETH_ALEN, &type, 2);
    memcpy(f + ETH_HLEN + 4, &id_net, 4);
    if (!strcmp(kind, "foreign_ip")) { /* TCP to nobody; the kernel drops it for its checksum */
        f[ETH_HLEN] = 0x45;
        f[ETH_HLEN + 9] = 6;
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

static void measure(const char *kind, int ranks)
{
    struct rank r[RANKS_MAX];
    struct sockaddr_ll peer = {.sll_family = AF_PACKET};
    uint8_t frame[FRAME_BYTES];
    double ns[RUNS];
    int on = 1, fd;

    enter(peer_netns);
    for (int i = 0; i < ranks; i++)
        open_rank(&r[i], kind, (uint32_t)i);
    enter(own_netns);
    peer.sll_ifindex = (int)if_nametoindex("emx0");
    peer.sll_protocol = htons(ETHERTYPE);
    fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)))
        die("socket to send");
    make_frame(frame, kind, (uint32_t)ranks / 2);
    for (int i = 0; i < RUNS; i++)
        ns[i] = burst(fd, &peer, frame, strcmp(kind, "foreign_ip") && ranks ? &r[ranks / 2] : NULL);
    printf("%s %d %.0f\n", kind, ranks, bench_median(ns, RUNS));
    fflush(stdout);
    close(fd);
    for (int i = 0; i < ranks; i++) {
        munmap(r[i].ring, SLOTS * SLOT_BYTES);
        close(r[i].fd);
    }
}

int main(int argc, char **argv)
{
    static const int ranks[] = {0, 1, 2, 8, 16, 32};

    if (argc > 1)
        frames = atoi(argv[1]);
    make_network();
    for (unsigned i = 1; i < sizeof(ranks) / sizeof(ranks[0]); i++)
        measure("filter", ranks[i]);
    for (unsigned i = 1; i < sizeof(ranks) / sizeof(ranks[0]); i++)
        measure("fanout", ranks[i]);
    for (unsigned i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
        measure("foreign_ip", ranks[i]);
    return 0;
}
