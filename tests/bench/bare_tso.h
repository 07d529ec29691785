/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the programs that measure bare TSO packets share: packets in the form of TCP segments to 0.0.0.0, through packet
 * sockets with PACKET_VNET_HDR, as the packet wire sends them.
 */
#ifndef EMX_TESTS_BENCH_BARE_TSO_H
#define EMX_TESTS_BENCH_BARE_TSO_H

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "apps/app.h"

enum {
    BARE_SMALL_BYTES = 60,
    BARE_ETHERTYPE = 0x88b6,
    BARE_TSO_PORT = 40000,
    BARE_TSO_PART = 1416,
    BARE_TSO_LINEAR = 32000, /* as emx_tso_send() */
    BARE_TSO_OPTION_BYTES = 40
};

struct bare_end {
    uint8_t mac[6];
    struct in_addr ip;
};

struct bare_tso_head {
    struct virtio_net_hdr vnet;
    struct ether_header ether;
    struct iphdr ip;
    struct tcphdr tcp;
    uint8_t option[BARE_TSO_OPTION_BYTES];
} __attribute__((packed));

/* The addresses of an interface of this host. 0, or -1 and errno. */
static inline int bare_end_of(const char *name, struct bare_end *e_p)
{
    struct bare_end e = {.ip.s_addr = 0};
    struct ifaddrs *all;

    if (getifaddrs(&all))
        return -1;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!i->ifa_addr || strcmp(i->ifa_name, name) != 0)
            continue;
        if (i->ifa_addr->sa_family == AF_INET)
            e.ip = ((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr;
        else if (i->ifa_addr->sa_family == AF_PACKET)
            memcpy(e.mac, ((struct sockaddr_ll *)(void *)i->ifa_addr)->sll_addr, sizeof(e.mac));
    }
    freeifaddrs(all);
    *e_p = e;
    return 0;
}

/* A short frame without data. */
static inline void bare_small_frame(uint8_t frame[BARE_SMALL_BYTES], const struct bare_end *self,
                                    const struct bare_end *other)
{
    memset(frame, 0, BARE_SMALL_BYTES);
    memcpy(frame, other->mac, sizeof(other->mac));
    memcpy(frame + 6, self->mac, sizeof(self->mac));
    frame[12] = BARE_ETHERTYPE >> 8;
    frame[13] = BARE_ETHERTYPE & 0xff;
}

/* What an exchange of messages needs: of app.size bytes, and a time for each of app.iterations. */
struct bare_run {
    char *out, *in;
    double *us;
};

/* Tells the other rank, of two, the own addresses, and waits for it. What is sent was written before: the kernel maps
 * memory that was only read to one page of zeros, which never leaves the cache. */
static inline struct bare_run bare_begin(const struct app *app, const struct bare_end *self, struct bare_end *other)
{
    struct bare_run run = {.out = app_alloc((size_t)app->size),
                           .in = app_alloc((size_t)app->size),
                           .us = app_alloc(sizeof(*run.us) * (size_t)app->iterations)};

    memset(run.out, 1, (size_t)app->size);
    MPI_Sendrecv(self, sizeof(*self), MPI_BYTE, !app->rank, APP_TAG, other, sizeof(*other), MPI_BYTE, !app->rank,
                 APP_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    return run;
}

/* Passes so many bytes of the packets to 0.0.0.0 and the port, and no others. 0, or -1 and errno. */
static inline int bare_tso_filter(int fd, uint32_t bytes)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 30), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 36), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, BARE_TSO_PORT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, bytes),       BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

/* The sum of the Internet checksum as it stands in memory; words of any length and byte order give the same (RFC 1071).
 */
static inline uint16_t bare_sum16(const void *p, size_t bytes)
{
    const uint8_t *at = p;
    uint64_t sum = 0;
    uint32_t word;

    for (; bytes >= sizeof(word); at += sizeof(word), bytes -= sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        sum += word;
    }
    word = 0;
    memcpy(&word, at, bytes);
    sum += word;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

/* Of the pseudo header of TCP, for so many bytes of its header and data. */
static inline uint16_t bare_pseudo_sum16(uint32_t from_ip, size_t tcp_bytes)
{
    const struct {
        uint32_t from, to;
        uint16_t protocol, len;
    } pseudo = {from_ip, 0, htons(IPPROTO_TCP), htons((uint16_t)tcp_bytes)};

    return bare_sum16(&pseudo, sizeof(pseudo));
}

static inline uint16_t bare_tso_sum16(const struct bare_tso_head *h, const void *data, size_t bytes)
{
    const size_t tcp_bytes = sizeof(h->tcp) + sizeof(h->option);
    const uint16_t sums[] = {bare_pseudo_sum16(h->ip.saddr, tcp_bytes + bytes), bare_sum16(&h->tcp, tcp_bytes),
                             bare_sum16(data, bytes)};

    return bare_sum16(sums, sizeof(sums));
}

/* Whether the data arrived unchanged. The sum is only taken where neither the card nor the kernel checked it. */
static inline bool bare_tso_is_sound(const struct bare_tso_head *h, const void *data, size_t bytes)
{
    return h->vnet.flags & (VIRTIO_NET_HDR_F_NEEDS_CSUM | VIRTIO_NET_HDR_F_DATA_VALID) ||
           bare_tso_sum16(h, data, bytes) == 0xffff;
}

/* The headers of a packet with so many bytes of data, more than BARE_TSO_PART. */
static inline struct bare_tso_head bare_tso_head(const struct bare_end *self, const struct bare_end *other,
                                                 size_t bytes)
{
    const size_t ip_at = offsetof(struct bare_tso_head, ip) - offsetof(struct bare_tso_head, ether);
    const uint16_t tcp_bytes = (uint16_t)(sizeof(struct tcphdr) + BARE_TSO_OPTION_BYTES + bytes);
    struct bare_tso_head h = {
        .vnet = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                 .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
                 .gso_size = BARE_TSO_PART,
                 .hdr_len = (uint16_t)(bytes < BARE_TSO_LINEAR ? bytes : BARE_TSO_LINEAR),
                 .csum_start = (uint16_t)(ip_at + sizeof(h.ip)),
                 .csum_offset = offsetof(struct tcphdr, check)},
        .ether.ether_type = htons(ETH_P_IP),
        .ip = {.version = 4,
               .ihl = 5,
               .tot_len = htons((uint16_t)(sizeof(h.ip) + tcp_bytes)),
               .frag_off = htons(0x4000),
               .ttl = 64,
               .protocol = IPPROTO_TCP,
               .saddr = self->ip.s_addr},
        .tcp = {.source = htons(BARE_TSO_PORT), .dest = htons(BARE_TSO_PORT), .doff = 15, .ack = 1, .psh = 1},
        .option = {254, BARE_TSO_OPTION_BYTES}};

    memcpy(h.ether.ether_dhost, other->mac, sizeof(other->mac));
    memcpy(h.ether.ether_shost, self->mac, sizeof(self->mac));
    h.ip.check = (uint16_t)~bare_sum16(&h.ip, sizeof(h.ip));
    h.tcp.check = bare_pseudo_sum16(self->ip.s_addr, tcp_bytes);
    return h;
}

#endif
