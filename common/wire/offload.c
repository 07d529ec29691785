/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The system call for each frame, and its way through the kernel at both ends, limit the speed of large messages. The
 * kernel takes up to 64 KB at once if they look like a UDP packet to be segmented (GSO); it does not segment frames of
 * an EtherType of one's own. So data frames leave as GSO packets: Ethernet, IPv4 and UDP headers, then frames back to
 * back. The network card, or the kernel just above it, segments them at the frame boundaries.
 *
 * Sending. Packet sockets take GSO packets since Linux 6.2 (gso_packet.c), UDP sockets since 4.18 (gso_udp.c), more
 * slowly. Both send the same packets. The sender's port tells whether data of large messages is to be received into its
 * place or in the ring (gso_choice.c).
 *
 * Chunks of messages leave as TSO packets (tso.h) where both ends take them and the engine permits it: with less work
 * at both ends, and through cards that segment TCP only.
 *
 * Receiving. A packet socket has a ring of slots, and polling it makes no system call. UDP packets of eager messages
 * arrive in the ring, in slots of a whole packet, and their frames are used in place: the slot goes back when the last
 * of them is returned. Of the others, which have data of large messages or of eager messages in chunks, the ring gets
 * only the first bytes. They announce it: the packet itself comes to another socket, and from there its data goes to
 * its place in the program's memory (gso_rx.c): TSO packets to a packet socket, the others to a UDP socket. A ring for
 * these would circulate so much memory that no cache holds it. But where the pieces of TSO packets come one by one,
 * these have a ring of their own (tso_ring.h), which is opened when many have come so; not where a host has several
 * ranks. Kernels before 6.2 cannot put GSO packets into a ring: there it only announces, large and small.
 *
 * An announced packet comes some time later, or is dropped, and a full ring announces none. So the wait for a packet is
 * limited, and the sockets are asked now and then without an announcement. Where the packet is another one than was
 * announced, no announcement for its socket counts until that is empty. If none of the first packets comes to the UDP
 * socket, a packet filter on this host drops UDP: then all of them are received in the ring; as are those over
 * loopback, which IP does not accept from a packet socket.
 *
 * No frame is checked here: a damaged or foreign frame must not take the others of its packet with it, so the engine
 * checks each.
 *
 *     A slot:  0 status, lengths | 76 Ethernet header, before it the kernel's header on segments | 100 IPv4 and UDP
 *              headers | 128 the first frame ...
 *
 * The packets are of IPv4, or, if this host's chosen interfaces have IPv6 only, of IPv6: a packet socket receives one
 * protocol. Both ends must have the same. In slots of IPv6 the headers, and the first frame, begin later.
 *
 * The UDP socket holds the port, so that nobody else gets it and no "port unreachable" is sent. UDP_GRO on it lets
 * network cards and drivers reassemble what was segmented. It drops what comes in the ring, and the kernel counts each
 * such packet as an error (UdpInErrors).
 */
#define _GNU_SOURCE
#include "wire/offload.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/virtio_net.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/min.h"
#include "wire/gso_choice.h"
#include "wire/gso_packet.h"
#include "wire/gso_rx.h"
#include "wire/gso_udp.h"
#include "wire/netif.h"
#include "wire/qos.h"
#include "wire/ring.h"
#include "wire/tso_ring.h"
#include "wire/tso_socket.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define SHARED_BYTES   1048576              /* each of many ranks of a host has at least this, if it may have as much */
#define ANNOUNCE_BYTES EMX_PLACE_HEAD_BYTES /* of each packet, in the ring, with the headers before it */
#define ANNOUNCE_SLOT  256                  /* with what the kernel puts before it */
#define ANNOUNCE_RING  65536                /* bytes */
#define SLOT_BYTES     65536                /* of a ring for packets */
#define SLOTS_MIN      8                    /* fewer than rx() may return: see offload_slot_waits() */
#define RESERVE_BYTES  10                   /* so that the first frame begins at byte 128 */
#define RESERVE6_BYTES 22                   /* so that it begins at byte 160, if it is in a packet of IPv6 */
#define SHORTER_BYTES  32                   /* by which packets of IPv6 are shorter therefore */
#define LATE_POLLS     256                  /* so often an announced packet may not be there */
#define UNASKED_POLLS  256                  /* after so many without an announcement the socket is asked */
#define SHORT_COOKIE   0x40000000u          /* with EMX_OFFLOAD_COOKIE: a frame of that ring */
#define VANISHED_MOST  4                    /* announced packets that do not come, if none has come yet */
#define IFINDEX_MAX    0x3fffffff           /* the kernel counts interfaces from 1 on */
#define IP_PROTO_AT    9                    /* in the header of IPv4 */

static_assert(sizeof(struct emx_offload_to) <= EMX_WIRE_ADDR_BYTES, "address of a wire with GSO packets");

/* A socket that receives announced packets. */
struct offload_source {
    unsigned late, unasked; /* polls */
    bool astray;            /* announcements and packets do not match */
    bool came;              /* it has received a packet */
    unsigned vanished;      /* announced packets that did not come */
};

enum offload_by { BY_UDP, BY_TSO, SOURCES };

struct emx_offload {
    struct emx_ring ring;
    bool busy; /* rx() has something to do even if nothing new is in the ring */
    int ring_fd;
    uint16_t *lent;     /* by slot: frames in use, plus 1 while frames are being taken from it */
    struct emx_gso now; /* a packet in a slot, whose frames are being taken */
    unsigned now_slot;
    bool now_open;
    uint8_t now_parts; /* of it, to be told with its first frame */

    struct emx_gso_udp udp;
    int tx_fd; /* sends packets, unless by_udp */
    struct emx_gso_choice choice;
    bool by_udp;         /* the UDP socket sends them, and receives all */
    bool v6;             /* they are of IPv6 */
    bool takes_tso;      /* TSO packets, too */
    uint32_t head_bytes; /* of their headers */
    unsigned loopback_index;
    bool ring_only;       /* the UDP socket receives none */
    struct emx_gso_rx rx; /* an announced packet, whose frames are being taken */
    struct offload_source source[SOURCES];
    int tso_rx_fd, tso_tx_fd;   /* -1: no TSO packets; the second may be tx_fd */
    struct emx_tso_ring shorts; /* their short pieces, if many come */

    struct emx_stats *stats;
    uint8_t tos; /* of the packets */
};

void emx_offload_addr(struct emx_wire_addr *a, unsigned ifindex, const uint8_t mac[6],
                      const struct emx_offload_way *way, uint16_t udp_port)
{
    struct emx_offload_to to;

    memset(&to, 0, sizeof(to)); /* destinations are compared byte by byte: what lies behind the last field too */
    to.ifindex = ifindex & IFINDEX_MAX;
    memcpy(to.mac, mac, ETH_ALEN);
    if (way) {
        to.gso_bytes = way->frame_bytes;
        to.from_ip = way->from;
        to.to_ip = way->to;
        to.to_port = way->port;
        to.tso = way->tso;
        to.segments = way->segments;
        to.udp_port = udp_port;
    }
    memset(a, 0, sizeof(*a));
    memcpy(a, &to, sizeof(to));
}

bool emx_offload_is_v6(const struct emx_netifs *netifs)
{
    bool v6 = false;

    for (unsigned i = 0; i < netifs->count; i++) {
        if (netifs->nif[i].chosen && netifs->nif[i].ip.s_addr)
            return false;
        v6 |= netifs->nif[i].chosen && !emx_ip_is_none(&netifs->nif[i].ip6);
    }
    return v6;
}

/* ---- Opening ---- */

/* The ring for announcements, and for small messages if packet sockets carry them. */
static int offload_open_slots(struct emx_offload *b, uint64_t ring_bytes)
{
    int on = 1, reserve = b->v6 ? RESERVE6_BYTES : RESERVE_BYTES;

    if (b->by_udp)
        return emx_ring_open(&b->ring, b->ring_fd, ANNOUNCE_RING, ANNOUNCE_SLOT, SLOTS_MIN);
    if (setsockopt(b->ring_fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) ||
        setsockopt(b->ring_fd, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof(reserve)))
        return -1;
    return emx_ring_open(&b->ring, b->ring_fd, ring_bytes, SLOT_BYTES, SLOTS_MIN);
}

/* Of each TSO packet, in the ring. */
static uint32_t offload_tso_bytes(const struct emx_offload *b)
{
    return b->takes_tso ? EMX_TSO_HEAD_BYTES : 0;
}

/* Decides what comes in the ring. -1 and errno. */
static int offload_filter_ring(const struct emx_offload *b)
{
    const uint32_t announce_bytes = b->head_bytes + ANNOUNCE_BYTES, tso_bytes = offload_tso_bytes(b);

    return emx_gso_packet_filter(b->ring_fd, b->v6, b->udp.port, b->ring_only ? 0 : b->loopback_index,
                                 b->ring_only ? UINT32_MAX : announce_bytes, b->by_udp ? announce_bytes : UINT32_MAX,
                                 tso_bytes, emx_tso_ring_is_open(&b->shorts) ? 0 : tso_bytes);
}

static int offload_open_ring(struct emx_offload *b, uint64_t ring_bytes)
{
    b->ring_fd = emx_ring_socket();
    if (b->ring_fd < 0 || offload_filter_ring(b) || offload_open_slots(b, ring_bytes))
        return -1;
    b->lent = calloc(b->ring.slot_count, sizeof(*b->lent));
    return b->lent ? emx_ring_bind(&b->ring, htons(b->v6 ? ETH_P_IPV6 : ETH_P_IP)) : -1;
}

/* The sockets of TSO packets. The one that receives is bound after the ring's: the kernel gives packets to the last
 * first, so a packet is there when it is announced. */
static int offload_open_tso(struct emx_offload *b, const struct emx_wire_params *params, uint64_t buffer_bytes)
{
    if (!b->takes_tso)
        return 0;
    b->tso_tx_fd = b->by_udp ? emx_tso_open_tx(params) : b->tx_fd;
    b->tso_rx_fd = emx_tso_open_rx(b->udp.port, buffer_bytes);
    emx_tso_ring_init(&b->shorts, params);
    return b->tso_tx_fd < 0 || b->tso_rx_fd < 0 ? -1 : 0;
}

/* Sets up GSO packets that one kind of socket sends. NULL: they do not work; why has the reason. */
static struct emx_offload *offload_open_by(const struct emx_wire_params *params, bool by_udp, char *why,
                                           size_t why_len_bytes)
{
    /* The ranks of a host share its pull window, so what comes to each is a part of it, and its buffers are the
     * same part. */
    uint64_t buffer_bytes = emx_part(params->cfg->p_gso_buffer, params->local_ranks, SHARED_BYTES);
    struct emx_offload *b = calloc(1, sizeof(*b));

    if (!b) {
        snprintf(why, why_len_bytes, "out of memory");
        return NULL;
    }
    b->ring_fd = b->udp.fd = b->tx_fd = b->tso_rx_fd = b->tso_tx_fd = b->shorts.fd = -1;
    b->stats = params->stats;
    b->tos = emx_qos_tos(params->cfg);
    b->by_udp = by_udp;
    b->v6 = emx_offload_is_v6(params->netifs);
    b->takes_tso = params->cfg->p_gso == EMX_GSO_AUTO && !b->v6;
    b->head_bytes = emx_gso_head_bytes(b->v6);
    b->loopback_index = params->netifs->loopback_index;
    if (emx_gso_rx_init(&b->rx, params->placer, params->stats) &&
        !emx_gso_udp_open(&b->udp, params, b->v6, by_udp, buffer_bytes) && !offload_open_ring(b, buffer_bytes) &&
        (by_udp || (b->tx_fd = emx_gso_packet_open(params, b->udp.port)) >= 0) &&
        !offload_open_tso(b, params, buffer_bytes))
        return b;
    snprintf(why, why_len_bytes, "%s", !by_udp && errno == EOPNOTSUPP ? "they need Linux 6.2" : strerror(errno));
    emx_offload_close(b);
    return NULL;
}

struct emx_offload *emx_offload_open(const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    const enum emx_gso_sockets sockets = (enum emx_gso_sockets)params->cfg->p_gso;
    char packet_why[128] = "ETHMX_GSO", udp_why[128] = "ETHMX_GSO";
    struct emx_offload *b = NULL;
    const char *tso;

    if (sockets == EMX_GSO_OFF) {
        snprintf(why, why_len_bytes, "GSO packets off (ETHMX_GSO)");
        return NULL;
    }
    if (sockets != EMX_GSO_UDP)
        b = offload_open_by(params, false, packet_why, sizeof(packet_why));
    if (!b && sockets != EMX_GSO_PACKET)
        b = offload_open_by(params, true, udp_why, sizeof(udp_why));
    tso = b && b->takes_tso ? " as TSO packets" : "";
    if (!b)
        snprintf(why, why_len_bytes, "GSO packets off: packet sockets: %s; UDP sockets: %s", packet_why, udp_why);
    else if (b->by_udp)
        snprintf(why, why_len_bytes, "GSO packets through UDP sockets (port %u%s; packet sockets: %s)%s%s", b->udp.port,
                 b->v6 ? ", IPv6" : "", packet_why, *tso ? ", large messages" : "", tso);
    else
        snprintf(why, why_len_bytes, "%u GSO packets (port %u%s), %u KiB of large messages%s", b->ring.slot_count,
                 b->udp.port, b->v6 ? ", IPv6" : "", b->udp.buffer_bytes / 1024, tso);
    return b;
}

void emx_offload_close(struct emx_offload *b)
{
    if (!b)
        return;
    emx_tso_ring_close(&b->shorts);
    emx_ring_close(&b->ring);
    if (b->ring_fd >= 0)
        close(b->ring_fd);
    if (b->tx_fd >= 0)
        close(b->tx_fd);
    if (b->tso_tx_fd >= 0 && b->tso_tx_fd != b->tx_fd)
        close(b->tso_tx_fd);
    if (b->tso_rx_fd >= 0)
        close(b->tso_rx_fd);
    emx_gso_udp_close(&b->udp);
    emx_gso_rx_fini(&b->rx);
    free(b->lent);
    free(b);
}

uint16_t emx_offload_port(const struct emx_offload *b)
{
    return b->udp.port;
}

/* The ring announces packets of both forms. */
int emx_offload_fd(const struct emx_offload *b, unsigned i)
{
    if (i)
        return emx_tso_ring_fd(&b->shorts);
    return b->by_udp && !b->takes_tso ? b->udp.fd : b->ring_fd;
}

int emx_offload_fanout_fd(const struct emx_offload *b, enum emx_fanout_kind kind)
{
    return kind == EMX_FANOUT_TSO ? b->tso_rx_fd : b->ring_fd;
}

bool emx_offload_takes_tso(const struct emx_offload *b)
{
    return b->takes_tso;
}

/* ---- Sending ---- */

unsigned emx_offload_joinable(const struct emx_txframe *f, unsigned n)
{
    const struct emx_offload_to to = emx_offload_to(f->to);

    if (f->chunk_bytes)
        return 1;
    if (!f->gso || emx_gso_frame_bytes(f) > to.gso_bytes)
        return 0;
    return emx_gso_fit(f, n, emx_ip_is_v6(&to.to_ip) ? EMX_GSO_MAX - SHORTER_BYTES : EMX_GSO_MAX, true);
}

static uint64_t offload_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Sends data that may have a place, to the place or to the ring. */
static int offload_send_data(struct emx_offload *b, unsigned ifindex, struct emx_gso_way *way,
                             const struct emx_txframe *f, unsigned n)
{
    unsigned len_bytes = n * emx_gso_frame_bytes(f);
    uint64_t from_ns;
    int ret;

    if (emx_gso_choice_is_ring(&b->choice))
        way->from_port |= EMX_GSO_RING_PORT;
    if (len_bytes < EMX_GSO_CHOICE_LEAST)
        return emx_gso_packet_send(b->tx_fd, ifindex, way, f, n);
    from_ns = offload_now_ns();
    ret = emx_gso_packet_send(b->tx_fd, ifindex, way, f, n);
    if (!ret)
        emx_gso_choice_sent(&b->choice, offload_now_ns() - from_ns, len_bytes);
    return ret;
}

static int offload_send_tso(struct emx_offload *b, unsigned ifindex, const struct emx_gso_way *way,
                            const struct emx_txframe *f)
{
    int err = emx_tso_send(b->tso_tx_fd, ifindex, way, f);

    b->stats->tso_packets_sent += !err;
    return err;
}

int emx_offload_send(struct emx_offload *b, const uint8_t from_mac[6], const struct emx_txframe *f, unsigned n)
{
    struct emx_offload_to to = emx_offload_to(f->to);
    struct emx_gso_way way = {.from_ip = to.from_ip,
                              .to_ip = to.to_ip,
                              .from_port = b->udp.port,
                              .to_port = to.to_port,
                              .tos = b->tos,
                              .segments = to.segments};

    memcpy(way.from_mac, from_mac, ETH_ALEN);
    memcpy(way.to_mac, to.mac, ETH_ALEN);
    if (f->chunk_bytes)
        return offload_send_tso(b, to.ifindex, &way, f);
    if (b->by_udp)
        return emx_gso_udp_send(&b->udp, to.ifindex, &way, f, n);
    if (emx_place_is_marked(f->head))
        return offload_send_data(b, to.ifindex, &way, f, n);
    return emx_gso_packet_send(b->tx_fd, to.ifindex, &way, f, n);
}

/* ---- Receiving: the ring ---- */

static void offload_put_slot(struct emx_offload *b, unsigned slot)
{
    if (!--b->lent[slot])
        emx_ring_give_back(&b->ring, slot);
}

/* Begins with the packet in a slot. false: it has no frames. */
static bool offload_open_slot(struct emx_offload *b, unsigned slot)
{
    const struct tpacket2_hdr *h = emx_ring_slot(&b->ring, slot);
    const uint8_t *mac = (const uint8_t *)h + h->tp_mac, *ip = (const uint8_t *)h + h->tp_net;
    struct virtio_net_hdr vnet;

    memcpy(&vnet, mac - sizeof(vnet), sizeof(vnet));
    if (vnet.gso_type != VIRTIO_NET_HDR_GSO_UDP_L4)
        vnet.gso_size = 0;
    if (ip - mac != ETH_HLEN || h->tp_snaplen < ETH_HLEN ||
        !emx_gso_open(&b->now, ip, h->tp_snaplen - ETH_HLEN, vnet.gso_size))
        return false;
    b->stats->wire_lost += b->now.lost;
    b->stats->gso_packets_received += b->now.parts > 1;
    b->lent[slot] = 1;
    b->now_slot = slot;
    b->now_open = true;
    b->now_parts = b->now.parts > 1 ? (uint8_t)emx_min(b->now.parts, UINT8_MAX) : 0;
    return true;
}

/* The next slot's status word, 0: there is nothing in it. A slot in use still looks full: in a ring with few slots all
 * may be in use, and then the next is the first of them again. */
static uint32_t offload_slot_waits(const struct emx_offload *b)
{
    uint32_t status = emx_ring_peek(&b->ring);

    return status && !b->lent[b->ring.next] ? status : 0;
}

/* The ring was full: packets were lost, or announcements of packets. */
static void offload_ring_was_full(struct emx_offload *b)
{
    unsigned drops = emx_ring_drops(&b->ring);

    b->stats->wire_lost += b->by_udp ? 0 : drops;
    for (unsigned i = 0; i < SOURCES; i++)
        b->source[i].unasked = UNASKED_POLLS;
}

/* Whether a slot has the headers of a TSO packet. */
static bool offload_is_tso(const struct emx_offload *b, unsigned slot)
{
    const struct tpacket2_hdr *h = emx_ring_slot(&b->ring, slot);

    return b->takes_tso && ((const uint8_t *)h)[h->tp_mac + ETH_HLEN + IP_PROTO_AT] == IPPROTO_TCP;
}

/* As the filter decides. */
static bool offload_is_announcement(const struct emx_offload *b, unsigned slot)
{
    const struct tpacket2_hdr *h = emx_ring_slot(&b->ring, slot);
    const struct sockaddr_ll *from = (const void *)((const uint8_t *)h + TPACKET_ALIGN(sizeof(*h)));
    const uint8_t *frame = (const uint8_t *)h + h->tp_mac + b->head_bytes;
    unsigned from_port = frame[-7]; /* its lower half */

    if (b->by_udp || b->ring_only)
        return b->by_udp || offload_is_tso(b, slot);
    if (offload_is_tso(b, slot))
        return true;
    return (unsigned)from->sll_ifindex != b->loopback_index && !(from_port & EMX_GSO_RING_PORT) &&
           emx_place_is_marked(frame);
}

/* Begins with the next packet of the ring. false: there is none before the next announcement. */
static bool offload_take_slot(struct emx_offload *b)
{
    uint32_t status;
    unsigned slot;

    while ((status = offload_slot_waits(b)) && !offload_is_announcement(b, b->ring.next)) {
        if (status & TP_STATUS_LOSING)
            offload_ring_was_full(b);
        slot = emx_ring_take(&b->ring);
        if (offload_open_slot(b, slot))
            return true;
        b->stats->wire_lost++;
        emx_ring_give_back(&b->ring, slot);
    }
    return false;
}

static unsigned offload_take_frames(struct emx_offload *b, struct emx_rxframe *f, unsigned max)
{
    uint32_t len_bytes;
    const uint8_t *data;
    unsigned n = 0;

    while (n < max && (data = emx_gso_next(&b->now, &len_bytes))) {
        f[n++] = (struct emx_rxframe){.data = data,
                                      .len_bytes = len_bytes,
                                      .cookie = EMX_OFFLOAD_COOKIE | b->now_slot,
                                      .parts = b->now_parts,
                                      .marked = b->now.marked};
        b->now_parts = 0;
        b->lent[b->now_slot]++;
    }
    if (!b->now.left_bytes) {
        b->now_open = false;
        offload_put_slot(b, b->now_slot);
    }
    return n;
}

void emx_offload_return(struct emx_offload *b, uint32_t cookie)
{
    if (cookie == EMX_OFFLOAD_NO_SLOT)
        return;
    if (cookie & SHORT_COOKIE)
        emx_tso_ring_return(&b->shorts, cookie & ~(EMX_OFFLOAD_COOKIE | SHORT_COOKIE));
    else
        offload_put_slot(b, cookie & ~EMX_OFFLOAD_COOKIE);
}

/* ---- Receiving: announced packets ---- */

/* What an announcement tells of its packet. */
struct offload_seen {
    enum offload_by by;
    bool known; /* what follows, according to by */
    struct emx_gso_seen gso;
    struct emx_tso tso;
};

static void offload_look_at_gso(const struct emx_offload *b, const struct tpacket2_hdr *h, struct emx_gso_seen *seen_p)
{
    *seen_p = (struct emx_gso_seen){.frame = (const uint8_t *)h + h->tp_mac + b->head_bytes};
    if (h->tp_snaplen > b->head_bytes) {
        seen_p->head_bytes = h->tp_snaplen - b->head_bytes;
        seen_p->len_bytes = h->tp_len - b->head_bytes;
    }
}

/* Looks at the next announcement. false: there is none. */
static bool offload_look_ahead(const struct emx_offload *b, struct offload_seen *seen_p)
{
    const struct tpacket2_hdr *h = emx_ring_slot(&b->ring, b->ring.next);

    if (!offload_slot_waits(b) || !offload_is_announcement(b, b->ring.next))
        return false;
    if (offload_is_tso(b, b->ring.next)) {
        seen_p->by = BY_TSO;
        seen_p->known = h->tp_snaplen >= EMX_TSO_HEAD_BYTES &&
                        emx_tso_open(&seen_p->tso, (const uint8_t *)h + h->tp_mac + ETH_HLEN);
    } else {
        seen_p->by = BY_UDP;
        seen_p->known = true;
        offload_look_at_gso(b, h, &seen_p->gso);
    }
    return true;
}

static void offload_drop_announcement(struct emx_offload *b, struct offload_source *s)
{
    if (offload_slot_waits(b) & TP_STATUS_LOSING)
        offload_ring_was_full(b);
    emx_ring_give_back(&b->ring, emx_ring_take(&b->ring));
    s->late = 0;
}

/* All packets that are no TSO packets are received in the ring from now on. */
static void offload_use_ring_only(struct emx_offload *b)
{
    b->ring_only = true;
    b->ring_only = !offload_filter_ring(b) && !emx_gso_udp_only_hold(&b->udp);
}

/* An announced packet has not come for too long. */
static void offload_vanished(struct emx_offload *b, enum offload_by by)
{
    struct offload_source *s = &b->source[by];

    offload_drop_announcement(b, s);
    if (b->by_udp && by == BY_UDP) /* the kernel counts it */
        return;
    b->stats->wire_lost++;
    if (by == BY_UDP && !s->came && ++s->vanished == VANISHED_MOST)
        offload_use_ring_only(b);
}

/* The socket is empty. */
static void offload_nothing_there(struct emx_offload *b, enum offload_by by, bool announced)
{
    struct offload_source *s = &b->source[by];

    s->unasked = 0;
    if (!announced)
        s->astray = false;
    else if (s->astray)
        offload_drop_announcement(b, s);
    else if (++s->late == LATE_POLLS)
        offload_vanished(b, by);
}

static bool offload_receive(struct emx_offload *b, enum offload_by by, const struct offload_seen *trusted)
{
    if (by == BY_TSO)
        return emx_tso_receive(b->tso_rx_fd, &b->rx, trusted ? &trusted->tso : NULL);
    return emx_gso_udp_receive(b->udp.fd, &b->rx, trusted ? &trusted->gso : NULL, &b->udp.drops);
}

/* From now on short pieces of TSO packets come in their ring; as long as it and the socket both get them, twice. */
static void offload_open_shorts(struct emx_offload *b)
{
    if (emx_tso_ring_open(&b->shorts, b->udp.port) && !offload_filter_ring(b) &&
        !emx_tso_attach_filter(b->tso_rx_fd, b->udp.port, UINT32_MAX, 0))
        return;
    emx_tso_ring_close(&b->shorts);
    offload_filter_ring(b);
}

/* Receives the next packet from a socket, if it is there; announced NULL: nothing says so. */
static void offload_take_from(struct emx_offload *b, enum offload_by by, const struct offload_seen *announced)
{
    struct offload_source *s = &b->source[by];
    const struct offload_seen *trusted = announced && announced->known && !s->astray ? announced : NULL;

    if (!offload_receive(b, by, trusted)) {
        offload_nothing_there(b, by, announced);
        return;
    }
    s->came = true;
    b->stats->gso_packets_received += b->rx.parts > 1;
    b->stats->tso_packets_received += by == BY_TSO;
    s->astray |= !announced || (trusted && b->rx.missed);
    s->unasked = s->astray ? UNASKED_POLLS : 0;
    if (!announced)
        return;
    offload_drop_announcement(b, s);
    if (by == BY_TSO && announced->known && emx_tso_ring_is_wanted(&b->shorts, &announced->tso))
        offload_open_shorts(b);
}

/* Whether the packet should stay in its socket for now. */
static bool offload_is_early(const struct emx_offload *b, const struct offload_seen *seen)
{
    const struct emx_placer *placer = b->rx.placer;

    return seen->by == BY_TSO && seen->known && emx_gso_rx_may_place(&b->rx) &&
           placer->is_early(placer->arg, (const uint8_t *)&seen->tso.head, sizeof(seen->tso.head));
}

/* Receives the next announced packet; without an announcement, asks the sockets now and then. */
static void offload_take_announced(struct emx_offload *b)
{
    struct offload_seen seen;

    if (offload_look_ahead(b, &seen)) {
        if (!offload_is_early(b, &seen))
            offload_take_from(b, seen.by, &seen);
        return;
    }
    for (unsigned by = 0; by < SOURCES; by++)
        if ((by == BY_UDP || b->takes_tso) && !emx_gso_rx_is_open(&b->rx) && ++b->source[by].unasked >= UNASKED_POLLS)
            offload_take_from(b, (enum offload_by)by, NULL);
}

static bool offload_is_astray(const struct emx_offload *b)
{
    return b->source[BY_UDP].astray || b->source[BY_TSO].astray;
}

bool emx_offload_waits(const struct emx_offload *b)
{
    return b->busy || offload_slot_waits(b) || emx_tso_ring_since_ns(&b->shorts) != UINT64_MAX;
}

/* When the next packet came that lies in the ring, or is announced there. */
static uint64_t offload_slot_since_ns(const struct emx_offload *b)
{
    return offload_slot_waits(b) ? emx_ring_time_ns(&b->ring) : UINT64_MAX;
}

uint64_t emx_offload_since_ns(const struct emx_offload *b)
{
    if (b->now_open || emx_gso_rx_is_open(&b->rx))
        return 0;
    return emx_min(offload_slot_since_ns(b), emx_tso_ring_since_ns(&b->shorts));
}

/* Takes short pieces that came before the next packet of the other ring. */
static unsigned offload_take_shorts(struct emx_offload *b, struct emx_rxframe *f, unsigned max, uint64_t until_ns)
{
    if (!emx_tso_ring_is_open(&b->shorts) || b->now_open || emx_gso_rx_is_open(&b->rx))
        return 0;
    return emx_tso_ring_rx(&b->shorts, f, max, emx_min(until_ns, offload_slot_since_ns(b)),
                           EMX_OFFLOAD_COOKIE | SHORT_COOKIE);
}

unsigned emx_offload_rx(struct emx_offload *b, struct emx_rxframe *f, unsigned max, uint64_t until_ns)
{
    unsigned n;

    if (!max)
        return 0;
    n = offload_take_shorts(b, f, max, until_ns);
    if (n)
        return n;
    if (!emx_gso_rx_is_open(&b->rx))
        offload_take_announced(b);
    n = emx_gso_rx_next(&b->rx, f, max, EMX_OFFLOAD_NO_SLOT);
    while (n < max && (b->now_open || ((!n || !emx_ring_is_later(&b->ring, until_ns)) && offload_take_slot(b))))
        n += offload_take_frames(b, f + n, max - n);
    b->busy = b->now_open || offload_is_astray(b) || emx_gso_rx_is_open(&b->rx);
    return n;
}
