/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attacker [OPTIONS] PORT: see the frames that go out of a port of the switch to its node, and send others after them
 *
 *   --ethertype X    whose frames (0x88b5)
 *   --do LIST        what to do, a comma list (replay,alter,forge):
 *     replay           the frame once more: at once, and once more after some hundred others
 *     alter            the frame with one bit of it flipped
 *     forge            one made from it: without a tag, with another number, with another tag, or a goodbye
 *     bye              a goodbye made from it
 *
 * It goes on until it is told to end, and then says how many frames of each kind it has sent. It knows no secret. What
 * it knows of frames is in docs/protocol.md.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_MAX  9216
#define HEAD_BYTES 32
#define TAG_BYTES  24
#define TAGGED     0x78
#define PLAIN      0xe1 /* a frame without a checksum: an attacker makes it fit anyway */
#define BYE        6
#define LATER      512 /* frames */

enum { REPLAY, ALTER, FORGE, GOODBYE, KINDS };
static const char *const kind_name[KINDS] = {"replay", "alter", "forge", "bye"};

struct frame {
    struct ethhdr eth;
    uint8_t body[FRAME_MAX];
} __attribute__((packed));

struct record {
    struct frame frame;
    size_t len_bytes; /* of all; 0: none */
};

static uint16_t ethertype = 0x88b5;
static bool wanted[KINDS];
static unsigned long sent[KINDS];
static struct record tape[LATER];
static volatile sig_atomic_t told_to_end;
static uint64_t random_state = 0x9e3779b97f4a7c15ull;

static uint32_t next_random(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)((random_state * 0x2545f4914f6cdd1dull) >> 32);
}

static void end(int sig)
{
    (void)sig;
    told_to_end = 1;
}

/* ---- The command line ---- */

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: attacker [--ethertype X] [--do replay,alter,forge,bye] PORT\n");
    exit(2);
}

static void parse_kinds(char *list)
{
    for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
        int kind = 0;

        while (kind < KINDS && strcmp(word, kind_name[kind]))
            kind++;
        if (kind == KINDS)
            usage();
        wanted[kind] = true;
    }
}

static const char *parse(int argc, char **argv)
{
    static const struct option options[] = {{"ethertype", 1, 0, 'e'}, {"do", 1, 0, 'd'}, {0, 0, 0, 0}};
    char all[] = "replay,alter,forge";
    int opt;

    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (opt == 'e')
            ethertype = (uint16_t)strtoul(optarg, NULL, 0);
        else if (opt == 'd')
            parse_kinds(optarg);
        else
            usage();
    }
    if (optind + 1 != argc)
        usage();
    if (!wanted[REPLAY] && !wanted[ALTER] && !wanted[FORGE] && !wanted[GOODBYE])
        parse_kinds(all);
    return argv[optind];
}

/* ---- Frames ---- */

static int open_port(const char *port)
{
    struct sockaddr_ll addr = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(port)};
    int fd = socket(AF_PACKET, SOCK_RAW, 0), bytes = 8 << 20;

    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
    return fd;
}

/* One that goes to the node and is ethmx's. */
static bool see(int fd, struct record *r)
{
    struct sockaddr_ll from;
    socklen_t from_bytes = sizeof(from);
    ssize_t n = recvfrom(fd, &r->frame, sizeof(r->frame), 0, (struct sockaddr *)&from, &from_bytes);

    if (n < (ssize_t)(sizeof(r->frame.eth) + HEAD_BYTES + TAG_BYTES) || from.sll_pkttype != PACKET_OUTGOING)
        return false;
    if (r->frame.eth.h_proto != htons(ethertype))
        return false;
    r->len_bytes = (size_t)n;
    return true;
}

static void put(int fd, const struct record *r, int kind)
{
    if (send(fd, &r->frame, r->len_bytes, 0) >= 0)
        sent[kind]++;
}

static void replay(int fd, const struct record *r)
{
    static unsigned at;

    put(fd, r, REPLAY);
    if (tape[at].len_bytes)
        put(fd, &tape[at], REPLAY);
    tape[at] = *r;
    at = (at + 1) % LATER;
}

/* Not of the receiver's id: that would be a frame for somebody else. */
static void alter(int fd, struct record r)
{
    size_t body_bytes = r.len_bytes - sizeof(r.frame.eth);

    r.frame.body[8 + next_random() % (body_bytes - 8)] ^= (uint8_t)(1u << next_random() % 8);
    put(fd, &r, ALTER);
}

/* The frame without its tag, if it has one, and without a checksum. */
static void untag(struct record *r)
{
    size_t tag_bytes = r->frame.body[0] == TAGGED ? TAG_BYTES : 0;

    memmove(r->frame.body, r->frame.body + tag_bytes, sizeof(r->frame.body) - tag_bytes);
    r->len_bytes -= tag_bytes;
    r->frame.body[0] = PLAIN;
    memset(r->frame.body + 28, 0, 4);
}

static void goodbye(int fd, struct record r, int kind)
{
    untag(&r);
    r.frame.body[1] = BYE;
    memset(r.frame.body + 2, 0, 2);
    memset(r.frame.body + 16, 0, 4);
    r.len_bytes = sizeof(r.frame.eth) + HEAD_BYTES;
    put(fd, &r, kind);
}

static void forge(int fd, struct record r)
{
    switch (next_random() % 4) {
    case 0:
        untag(&r);
        break;
    case 1: /* the next number */
        r.frame.body[16]++;
        break;
    case 2:
        for (unsigned i = 8; i < 16; i++)
            r.frame.body[i] = (uint8_t)next_random();
        break;
    default:
        goodbye(fd, r, FORGE);
        return;
    }
    put(fd, &r, FORGE);
}

static void attack(int fd, const struct record *r)
{
    if (wanted[REPLAY])
        replay(fd, r);
    if (wanted[ALTER])
        alter(fd, *r);
    if (wanted[FORGE])
        forge(fd, *r);
    if (wanted[GOODBYE])
        goodbye(fd, *r, GOODBYE);
}

int main(int argc, char **argv)
{
    const char *port = parse(argc, argv);
    const struct sigaction on_term = {.sa_handler = end};
    struct record r;
    int fd = open_port(port);

    if (fd < 0) {
        perror(port);
        return 1;
    }
    sigaction(SIGTERM, &on_term, NULL);
    sigaction(SIGINT, &on_term, NULL);
    while (!told_to_end)
        if (see(fd, &r))
            attack(fd, &r);
    for (int kind = 0; kind < KINDS; kind++)
        printf("%s %lu\n", kind_name[kind], sent[kind]);
    return 0;
}
