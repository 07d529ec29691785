/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * foreign [OPTIONS] INTERFACE: send frames of random content, at most 1024 different ones, as a broken or hostile
 * station would
 *
 *   --to MAC            to whom (ff:ff:ff:ff:ff:ff)
 *   --ethertype X       0x88b5 unless given
 *   --count N           how many (1000)
 *   --rate N            how many a second; 0: as fast as it goes (0)
 *   --min BYTES --max BYTES   length of what follows the Ethernet header, at random between these (0, 1500)
 *   --head HEX          each frame begins with these bytes, so that it gets past a first check
 *   --seed N            the same number gives the same frames (1)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LEN_BODY_MAX 65536
#define N_POOL       1024 /* frames that differ */
#define NS_PER_S     1000000000ull

struct plan {
    const char *interface;
    uint8_t to[ETH_ALEN];
    uint16_t ethertype;
    unsigned long count, rate, min_bytes, max_bytes;
    uint64_t random;
    uint8_t head[LEN_BODY_MAX];
    size_t head_bytes;
};

struct frame {
    struct ethhdr eth;
    uint8_t body[LEN_BODY_MAX];
} __attribute__((packed));

/* xorshift64*: good enough, and the same everywhere */
static uint32_t next_random(struct plan *plan)
{
    plan->random ^= plan->random >> 12;
    plan->random ^= plan->random << 25;
    plan->random ^= plan->random >> 27;
    return (uint32_t)((plan->random * 0x2545f4914f6cdd1dull) >> 32);
}

/* ---- The command line ---- */

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: foreign [--to MAC] [--ethertype X] [--count N] [--rate N] [--min BYTES] [--max BYTES]\n"
                    "               [--head HEX] [--seed N] INTERFACE\n");
    exit(2);
}

static unsigned long parse_number(const char *s, unsigned long max)
{
    char *end;
    unsigned long n = strtoul(s, &end, 0);

    if (!*s || *end || n > max)
        usage();
    return n;
}

static void parse_mac(struct plan *plan, const char *s)
{
    uint8_t *m = plan->to;

    if (sscanf(s, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5]) != ETH_ALEN)
        usage();
}

static void parse_head(struct plan *plan, const char *s)
{
    int used = 0;

    for (; sscanf(s, "%2hhx%n", &plan->head[plan->head_bytes], &used) == 1 && used == 2; s += used)
        if (++plan->head_bytes == LEN_BODY_MAX)
            usage();
    if (*s)
        usage();
}

static void parse(struct plan *plan, int argc, char **argv)
{
    static const struct option options[] = {
        {"to", 1, 0, 't'},  {"ethertype", 1, 0, 'e'}, {"count", 1, 0, 'c'}, {"rate", 1, 0, 'r'}, {"min", 1, 0, 'm'},
        {"max", 1, 0, 'M'}, {"head", 1, 0, 'h'},      {"seed", 1, 0, 's'},  {0, 0, 0, 0},
    };
    int opt;

    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case 't':
            parse_mac(plan, optarg);
            break;
        case 'e':
            plan->ethertype = (uint16_t)parse_number(optarg, UINT16_MAX);
            break;
        case 'c':
            plan->count = parse_number(optarg, UINT32_MAX);
            break;
        case 'r':
            plan->rate = parse_number(optarg, UINT32_MAX);
            break;
        case 'm':
            plan->min_bytes = parse_number(optarg, LEN_BODY_MAX);
            break;
        case 'M':
            plan->max_bytes = parse_number(optarg, LEN_BODY_MAX);
            break;
        case 'h':
            parse_head(plan, optarg);
            break;
        case 's':
            plan->random += parse_number(optarg, UINT32_MAX);
            break;
        default:
            usage();
        }
    }
    if (optind + 1 != argc || plan->min_bytes > plan->max_bytes)
        usage();
    plan->interface = argv[optind];
}

/* ---- The frames ---- */

static int open_wire(const struct plan *plan, uint8_t own_mac[ETH_ALEN])
{
    struct ifreq ifr = {0};
    struct sockaddr_ll addr = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(plan->interface)};
    int fd = socket(AF_PACKET, SOCK_RAW, 0);

    snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", plan->interface);
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || ioctl(fd, SIOCGIFHWADDR, &ifr) < 0)
        return -1;
    memcpy(own_mac, ifr.ifr_hwaddr.sa_data, ETH_ALEN);
    return fd;
}

static size_t fill_body(struct plan *plan, uint8_t *body)
{
    size_t len_bytes = plan->min_bytes + next_random(plan) % (plan->max_bytes - plan->min_bytes + 1);

    for (size_t i = 0; i < len_bytes; i++)
        body[i] = i < plan->head_bytes ? plan->head[i] : (uint8_t)next_random(plan);
    return len_bytes;
}

/* To draw a frame takes as long as to send it, so these are sent again and again. */
struct pool {
    struct mmsghdr message[N_POOL];
    struct iovec data[N_POOL];
    unsigned count;
};

static bool fill_pool(struct pool *pool, struct plan *plan, const struct ethhdr *head)
{
    pool->count = plan->count < N_POOL ? (unsigned)plan->count : N_POOL;
    for (unsigned i = 0; i < pool->count; i++) {
        struct frame *f = malloc(sizeof(f->eth) + plan->max_bytes);

        if (!f)
            return false;
        f->eth = *head;
        pool->data[i] = (struct iovec){f, sizeof(f->eth) + fill_body(plan, f->body)};
        pool->message[i].msg_hdr = (struct msghdr){.msg_iov = &pool->data[i], .msg_iovlen = 1};
    }
    return true;
}

static uint64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* How many may have been sent by now; waits until that is more than n. */
static unsigned long due(const struct plan *plan, uint64_t start_ns, unsigned long n)
{
    uint64_t turn_ns, now_ns;

    if (!plan->rate)
        return plan->count;
    turn_ns = start_ns + n * NS_PER_S / plan->rate;
    now_ns = clock_ns();
    if (now_ns < turn_ns) { /* a sleep until a time that has passed gives the processor away, too */
        struct timespec t = {(time_t)(turn_ns / NS_PER_S), (long)(turn_ns % NS_PER_S)};

        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        return n + 1;
    }
    return (now_ns - start_ns) * plan->rate / NS_PER_S + 1;
}

/* Some of the pool, from the n-th frame on: how many were sent; -1: an error. A full queue is waited for; a frame too
 * long for the interface is an error of the caller. */
static int send_some(int fd, struct pool *pool, unsigned long n, unsigned long most)
{
    unsigned at = (unsigned)(n % pool->count), left = pool->count - at;
    int sent;

    do
        sent = sendmmsg(fd, pool->message + at, most < left ? (unsigned)most : left, 0);
    while (sent < 0 && (errno == ENOBUFS || errno == EINTR));
    return sent;
}

int main(int argc, char **argv)
{
    static struct plan plan = {
        .to = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
        .ethertype = 0x88b5,
        .count = 1000,
        .max_bytes = 1500,
        .random = 0x9e3779b97f4a7c15ull,
    };
    static struct pool pool;
    struct ethhdr head;
    uint64_t start_ns;
    int fd;

    parse(&plan, argc, argv);
    fd = open_wire(&plan, head.h_source);
    if (fd < 0) {
        perror(plan.interface);
        return 1;
    }
    memcpy(head.h_dest, plan.to, ETH_ALEN);
    head.h_proto = htons(plan.ethertype);
    if (!fill_pool(&pool, &plan, &head)) {
        perror("memory");
        return 1;
    }
    start_ns = clock_ns();
    for (unsigned long n = 0; n < plan.count;) {
        unsigned long to = due(&plan, start_ns, n);
        int sent = send_some(fd, &pool, n, (to < plan.count ? to : plan.count) - n);

        if (sent < 0) {
            perror(plan.interface);
            return 1;
        }
        n += (unsigned)sent;
    }
    printf("%lu frames sent\n", plan.count);
    return 0;
}
