/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * holder INTERFACE MICROSECONDS: send each frame that arrives on the interface back on it, after a random time of 0.5
 * to 1.5 times the given one, so that frames overtake one another. The mark of a frame, which says where it belongs
 * (see fault.bpf.c), and its offload state go with it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_RCVMARK
#define SO_RCVMARK 75
#endif

#define N_HELD_MAX    4096
#define LEN_FRAME_MAX (sizeof(struct virtio_net_hdr) + 65536 + ETH_HLEN)
#define LEN_RCVBUF    (16 << 20)

struct held {
    int64_t release_ns;
    uint32_t mark;
    uint32_t len_bytes;
    uint8_t *frame; /* struct virtio_net_hdr, then the frame */
};

/* A binary heap: the frame to be released next is the first. */
static struct held heap[N_HELD_MAX];
static unsigned n_held;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int64_t random_delay_ns(int64_t mean_ns)
{
    uint32_t r = 0;

    if (getrandom(&r, sizeof(r), 0) != sizeof(r))
        return mean_ns;
    return mean_ns / 2 + (int64_t)((double)mean_ns * r / UINT32_MAX);
}

/* ---- The heap ---- */

static void swap_held(unsigned a, unsigned b)
{
    struct held h = heap[a];

    heap[a] = heap[b];
    heap[b] = h;
}

static void push_held(const struct held *h)
{
    unsigned i = n_held++;

    heap[i] = *h;
    for (; i > 0 && heap[i].release_ns < heap[(i - 1) / 2].release_ns; i = (i - 1) / 2)
        swap_held(i, (i - 1) / 2);
}

static unsigned earlier_child(unsigned i)
{
    unsigned left = 2 * i + 1;

    return left + 1 < n_held && heap[left + 1].release_ns < heap[left].release_ns ? left + 1 : left;
}

static struct held pop_held(void)
{
    struct held first = heap[0];

    heap[0] = heap[--n_held];
    for (unsigned i = 0, c; (c = earlier_child(i)) < n_held && heap[c].release_ns < heap[i].release_ns; i = c)
        swap_held(i, c);
    return first;
}

/* ---- The wire ---- */

static int open_wire(const char *interface)
{
    static const int one = 1, len_rcvbuf = LEN_RCVBUF;
    struct sockaddr_ll addr = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(ETH_P_ALL),
        .sll_ifindex = (int)if_nametoindex(interface),
    };
    int fd = socket(AF_PACKET, SOCK_RAW, 0);

    if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVMARK, &one, sizeof(one)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &len_rcvbuf, sizeof(len_rcvbuf)) < 0 ||
        bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return -1;
    return fd;
}

union mark_control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(uint32_t))];
};

static bool receive(int fd, int64_t mean_ns)
{
    static uint8_t frame[LEN_FRAME_MAX];
    union mark_control control;
    struct iovec iov = {frame, sizeof(frame)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    struct held h;

    if (n < 0)
        return errno == EINTR;
    if (!c || c->cmsg_type != SO_MARK)
        return true;
    h.release_ns = now_ns() + random_delay_ns(mean_ns);
    h.len_bytes = (uint32_t)n;
    memcpy(&h.mark, CMSG_DATA(c), sizeof(h.mark));
    h.frame = malloc(h.len_bytes);
    if (!h.frame)
        return true;
    memcpy(h.frame, frame, h.len_bytes);
    push_held(&h);
    return true;
}

static void release(int fd, const struct held *h)
{
    union mark_control control = {.head = {CMSG_LEN(sizeof(h->mark)), SOL_SOCKET, SO_MARK}};
    struct iovec iov = {h->frame, h->len_bytes};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

    memcpy(CMSG_DATA(&control.head), &h->mark, sizeof(h->mark));
    if (sendmsg(fd, &msg, 0) < 0)
        perror("holder: a frame is lost");
    free(h->frame);
}

static void wait_for_work(int fd)
{
    struct pollfd pfd = {.fd = fd, .events = n_held < N_HELD_MAX ? POLLIN : 0};
    int64_t ns = n_held ? heap[0].release_ns - now_ns() : 0;
    struct timespec t = {ns > 0 ? ns / 1000000000 : 0, ns > 0 ? ns % 1000000000 : 0};

    ppoll(&pfd, 1, n_held ? &t : NULL, NULL);
}

int main(int argc, char **argv)
{
    int64_t mean_ns;
    int fd;

    if (argc != 3) {
        fprintf(stderr, "usage: holder INTERFACE MICROSECONDS\n");
        return 2;
    }
    mean_ns = atoll(argv[2]) * 1000;
    fd = open_wire(argv[1]);
    if (fd < 0) {
        perror("holder");
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    close(STDOUT_FILENO);
    for (;;) {
        wait_for_work(fd);
        while (n_held < N_HELD_MAX && receive(fd, mean_ns))
            ;
        while (n_held && heap[0].release_ns <= now_ns()) {
            struct held h = pop_held();

            release(fd, &h);
        }
    }
}
