/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The udp wire: one UDP socket, no privileges, any network that routes IPv4.
 *
 * A system call per frame is what limits it, so frames travel in bundles where the kernel can:
 *
 * Sending. Frames of one length to one destination that follow each other in a batch (the last may be shorter) go to
 * the kernel as one *GSO packet* with UDP_SEGMENT; the network card, or the kernel just above it, cuts it into
 * datagrams. Only lengths that are multiples of 4 are joined, so that the receiver finds each frame aligned.
 * When the kernel or the interface refuses GSO packets, the frames go one by one, from then on always.
 * What goes to peers that get many frames leaves by connected sockets, which is cheaper: see udp_conn.c.
 *
 * Receiving. With UDP_GRO the kernel may hand over several datagrams of one length as one buffer and tell the length;
 * rx() lends its parts as frames. One call of rx() makes one system call: recvmsg() while little arrives, for latency,
 * and recvmmsg() after a call that found something, for throughput.
 *
 * recv() is cheaper than recvmsg(), but does not tell what was joined. So while short datagrams come one at a time
 * (*calm*), nothing is to be joined: UDP_GRO is switched off, and recv() called. The first long datagram, or several in
 * a row, end that. Should a GSO packet come just then, the kernel takes it apart before it gets here.
 *
 * Datagrams may be marked by queues on the way (ECN, RFC 3168; ETHMX_ECN). The kernel tells the mark beside those that
 * recvmsg() brings, and never joins one that is marked with one that is not. What recv() brings counts as unmarked:
 * short datagrams that come one at a time fill no queue.
 *
 * Datagrams carry DF and are never fragmented: one that is too long for an interface is lost and counted, so that the
 * full-sized probe at connect tells the truth about the path.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "wire/backlog.h"
#include "wire/netif.h"
#include "wire/udp/udp.h"
#include "wire/udp/udp_conn.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define HEADERS_BYTES 28                                  /* IPv4 and UDP */
#define DATAGRAM_MAX  (UINT16_MAX - HEADERS_BYTES)        /* also of a GSO packet */
#define SEGMENTS_MAX  64                                  /* frames in a GSO packet: the limit of older kernels */
#define BUFFERS       8                                   /* received at once */
#define BUFFER_BYTES  (UINT16_MAX + 1 + 3 * SEGMENTS_MAX) /* parts may have to be moved apart to be aligned */
#define CALM_BYTES    1024                                /* longest datagram of calm traffic */
#define CALM_AFTER    256                                 /* such datagrams, each with nothing behind it */
#define CALM_RUN      3                                   /* looks in a row that find something: it is not calm */
#define COPY_BYTES    2048                                /* frames up to this length are put together before sending */

struct udp_addr {
    struct in_addr ip;
    in_port_t port; /* network order */
};
static_assert(sizeof(struct udp_addr) <= EMX_WIRE_ADDR_BYTES, "udp address");

/* What the kernel tells beside a datagram. */
union udp_control {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint32_t)) + CMSG_SPACE(sizeof(uint8_t))];
};

/* A received buffer: parts of part_bytes each, part_step apart, the last may be shorter. */
struct udp_buffer {
    uint8_t *data;
    unsigned len_bytes, part_bytes, part_step;
    unsigned lent_bytes; /* of len_bytes, how much has been handed up */
    unsigned lent_parts;
    bool marked; /* by a queue on the way */
};

/* Room for what the kernel is handed. A GSO packet takes one message and two pieces for each of its frames. */
struct udp_tx {
    struct sockaddr_in to[EMX_WIRE_BATCH];
    struct iovec iov[2 * EMX_WIRE_BATCH];
    struct mmsghdr msg[EMX_WIRE_BATCH];
    unsigned frames[EMX_WIRE_BATCH]; /* in each message */
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(uint16_t))];
    } control[EMX_WIRE_BATCH];
    uint8_t copy[COPY_BYTES];
};

struct udp_wire {
    struct emx_wire base;
    int fd;
    struct emx_stats *stats;
    unsigned frame_bytes;
    uint16_t port; /* host order */
    bool gso;

    struct udp_buffer buffer[BUFFERS];
    unsigned filled, current; /* buffers in use, and the one that is being lent from */
    bool busy;                /* the last rx() found something */
    bool gro;                 /* the kernel can join datagrams */
    bool calm;                /* it does not, and recv() is called */
    unsigned lonely;          /* short datagrams that came alone, since the last that did not */
    unsigned run;             /* looks that found something, since the last that did not */
    uint32_t drops;           /* the kernel's count, as last seen */
    struct mmsghdr msg[BUFFERS];
    struct iovec iov[BUFFERS];
    union udp_control control[BUFFERS];

    struct udp_tx *tx;
    struct emx_udp_conns conns;
    struct emx_backlog backlog;
};

void emx_udp_addr(struct emx_wire_addr *a, struct in_addr ip, uint16_t port)
{
    struct udp_addr u;

    memset(&u, 0, sizeof(u)); /* destinations are compared byte by byte: what lies behind the last field too */
    u.ip = ip;
    u.port = htons(port);
    memset(a, 0, sizeof(*a));
    memcpy(a, &u, sizeof(u));
}

/* ---- Opening ---- */

static unsigned udp_longest_frame(const struct emx_wire_params *params)
{
    unsigned longest = 0;

    for (unsigned i = 0; i < params->netifs->count; i++) {
        const struct emx_netif *nif = &params->netifs->nif[i];

        if (nif->chosen && nif->ip.s_addr && nif->mtu_bytes > longest)
            longest = nif->mtu_bytes;
    }
    if (params->cfg->p_mtu && longest > params->cfg->p_mtu)
        longest = (unsigned)params->cfg->p_mtu;
    if (longest > UINT16_MAX)
        longest = UINT16_MAX;
    return longest > HEADERS_BYTES ? longest - HEADERS_BYTES : 0;
}

/* Reads "0", "20000" or "20000-20999". */
static bool parse_ports(const char *text, unsigned *first_p, unsigned *last_p)
{
    char *end;
    unsigned long first = strtoul(text, &end, 10), last = first;

    if (end == text || text[0] == '-')
        return false;
    if (*end == '-' && end[1] >= '0' && end[1] <= '9')
        last = strtoul(end + 1, &end, 10);
    if (*end || last > UINT16_MAX || first > last || (!first && last))
        return false;
    *first_p = (unsigned)first;
    *last_p = (unsigned)last;
    return true;
}

static int bind_port(struct udp_wire *w, const char *ports, char *why, size_t why_len_bytes)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t len = sizeof(any);
    unsigned first, last;
    int ret = -1;

    if (!parse_ports(ports, &first, &last)) {
        snprintf(why, why_len_bytes, "ETHMX_UDP_PORTS is \"%s\": give 0, a port, or a range such as 20000-20999",
                 ports);
        return ETHMX_ERR_PARAM;
    }
    for (unsigned port = first; port <= last && ret; port++) {
        any.sin_port = htons((uint16_t)port);
        ret = bind(w->fd, (const struct sockaddr *)&any, sizeof(any));
        if (ret && errno != EADDRINUSE)
            break;
    }
    if (ret || getsockname(w->fd, (struct sockaddr *)&any, &len)) {
        snprintf(why, why_len_bytes, "no UDP port of ETHMX_UDP_PORTS=%s can be had (%s): widen the range", ports,
                 strerror(errno));
        return ETHMX_ERR_NO_WIRE;
    }
    w->port = ntohs(any.sin_port);
    emx_udp_conns_init(&w->conns, w->fd, any.sin_port);
    return ETHMX_OK;
}

/* Sets one socket buffer, past the system's limit when privileged. Returns what it is now. */
static unsigned size_buffer(int fd, int force, int plain, uint64_t wanted)
{
    int bytes = wanted > INT32_MAX / 2 ? INT32_MAX / 2 : (int)wanted, got = 0;
    socklen_t len = sizeof(got);

    if (setsockopt(fd, SOL_SOCKET, force, &bytes, sizeof(bytes)))
        setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof(bytes));
    getsockopt(fd, SOL_SOCKET, plain, &got, &len);
    return (unsigned)got / 2; /* the kernel reports twice what was set, for its own overhead */
}

static int udp_open_socket(struct udp_wire *w, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    int df = IP_PMTUDISC_PROBE, on = 1, zero = 0, ret;
    unsigned rcvbuf;

    w->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (w->fd < 0 || setsockopt(w->fd, IPPROTO_IP, IP_MTU_DISCOVER, &df, sizeof(df)) ||
        setsockopt(w->fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on))) {
        snprintf(why, why_len_bytes, "the UDP socket cannot be set up: %s", strerror(errno));
        return ETHMX_ERR_NO_WIRE;
    }
    if (params->cfg->p_ecn) {
        int able = IPTOS_ECN_ECT0;

        setsockopt(w->fd, IPPROTO_IP, IP_TOS, &able, sizeof(able)); /* without it, or them: no marks */
        setsockopt(w->fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on));
    }
    w->gso = !setsockopt(w->fd, SOL_UDP, UDP_SEGMENT, &zero, sizeof(zero));
    w->gro = !setsockopt(w->fd, SOL_UDP, UDP_GRO, &on, sizeof(on));
    rcvbuf = size_buffer(w->fd, SO_RCVBUFFORCE, SO_RCVBUF, params->cfg->p_ring);
    size_buffer(w->fd, SO_SNDBUFFORCE, SO_SNDBUF, params->cfg->p_ring);
    ret = bind_port(w, params->cfg->p_udp_ports, why, why_len_bytes);
    if (ret)
        return ret;
    snprintf(why, why_len_bytes, "port %u, frames of up to %u bytes, GSO packets %s, receive buffer %u KiB%s", w->port,
             w->frame_bytes, w->gso ? w->gro ? "both ways" : "sent" : "not supported", rcvbuf / 1024,
             rcvbuf < params->cfg->p_ring ? " (net.core.rmem_max allows no more: raise it)" : "");
    return ETHMX_OK;
}

static bool udp_make_buffers(struct udp_wire *w)
{
    w->tx = malloc(sizeof(*w->tx));
    if (!w->tx || !emx_backlog_init(&w->backlog, w->frame_bytes))
        return false;
    for (unsigned i = 0; i < BUFFERS; i++) {
        w->buffer[i].data = aligned_alloc(64, (BUFFER_BYTES + 63) / 64 * 64);
        if (!w->buffer[i].data)
            return false;
    }
    return true;
}

static void udp_close(struct emx_wire *base)
{
    struct udp_wire *w = (struct udp_wire *)base;

    emx_udp_conns_fini(&w->conns);
    if (w->fd >= 0)
        close(w->fd);
    for (unsigned i = 0; i < BUFFERS; i++)
        free(w->buffer[i].data);
    emx_backlog_fini(&w->backlog);
    free(w->tx);
    free(w);
}

static int udp_open(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    unsigned frame_bytes = udp_longest_frame(params);
    struct udp_wire *w;
    int ret = ETHMX_ERR_NO_MEMORY;

    if (!frame_bytes) {
        snprintf(why, why_len_bytes,
                 "no interface chosen that has an IPv4 address: name one in ETHMX_IF (ethmx_info lists them; lo "
                 "reaches processes of this host)");
        return ETHMX_ERR_NO_WIRE;
    }
    snprintf(why, why_len_bytes, "out of memory");
    w = calloc(1, sizeof(*w));
    if (!w)
        return ret;
    w->base.ops = &emx_wire_udp;
    w->fd = -1;
    w->stats = params->stats;
    w->frame_bytes = frame_bytes;
    if (udp_make_buffers(w))
        ret = udp_open_socket(w, params, why, why_len_bytes);
    if (ret) {
        udp_close(&w->base);
        return ret;
    }
    *w_p = &w->base;
    return ETHMX_OK;
}

static void udp_query(const struct emx_wire *base, struct emx_wire_attr *attr_p)
{
    const struct udp_wire *w = (const struct udp_wire *)base;

    *attr_p = (struct emx_wire_attr){.frame_bytes = w->frame_bytes, .udp_port = w->port};
}

/* ---- Sending ---- */

static struct udp_addr addr_of(const struct emx_wire_addr *to)
{
    struct udp_addr a;

    memcpy(&a, to, sizeof(a));
    return a;
}

static struct sockaddr_in sockaddr_of(const struct emx_wire_addr *to)
{
    struct udp_addr a = addr_of(to);

    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = a.port, .sin_addr = a.ip};
}

static unsigned udp_length_of(const struct emx_txframe *f)
{
    return (unsigned)f->head_bytes + f->body_bytes;
}

/* How many of the n frames at f can go as one GSO packet; 1: none beside the first. */
static unsigned udp_joinable(const struct udp_wire *w, const struct emx_txframe *f, unsigned n)
{
    unsigned len = udp_length_of(f), total = len, count = 1;

    if (!w->gso || len % 4)
        return 1;
    while (count < n && count < SEGMENTS_MAX) {
        unsigned more = udp_length_of(&f[count]);

        if (more > len || total + more > DATAGRAM_MAX || memcmp(f[count].to, f->to, sizeof(*f->to)))
            break;
        total += more;
        count++;
        if (more < len)
            break;
    }
    return count;
}

/* Makes message m out of count frames, with pieces at iov. Returns how many pieces. */
static unsigned prepare_message(struct udp_tx *tx, unsigned m, struct iovec *iov, const struct emx_txframe *f,
                                unsigned count)
{
    struct msghdr *h = &tx->msg[m].msg_hdr;
    unsigned pieces = 0;

    for (unsigned i = 0; i < count; i++) {
        iov[pieces++] = (struct iovec){.iov_base = (void *)f[i].head, .iov_len = f[i].head_bytes};
        if (f[i].body_bytes)
            iov[pieces++] = (struct iovec){.iov_base = (void *)f[i].body, .iov_len = f[i].body_bytes};
    }
    tx->frames[m] = count;
    tx->to[m] = sockaddr_of(f->to);
    *h =
        (struct msghdr){.msg_name = &tx->to[m], .msg_namelen = sizeof(tx->to[m]), .msg_iov = iov, .msg_iovlen = pieces};
    if (count > 1) {
        uint16_t len = (uint16_t)udp_length_of(f);
        struct cmsghdr *c;

        h->msg_control = &tx->control[m];
        h->msg_controllen = sizeof(tx->control[m].space);
        c = CMSG_FIRSTHDR(h);
        c->cmsg_level = SOL_UDP;
        c->cmsg_type = UDP_SEGMENT;
        c->cmsg_len = CMSG_LEN(sizeof(len));
        memcpy(CMSG_DATA(c), &len, sizeof(len));
    }
    return pieces;
}

/* The connected socket for n frames to this destination, or -1. */
static int udp_find_conn(struct udp_wire *w, const struct emx_wire_addr *to, unsigned n)
{
    struct udp_addr a = addr_of(to);

    return emx_udp_conn_for(&w->conns, a.ip, a.port, n);
}

static void udp_close_conn(struct udp_wire *w, const struct emx_wire_addr *to)
{
    struct udp_addr a = addr_of(to);

    emx_udp_conn_failed(&w->conns, a.ip, a.port);
}

/* Sends one datagram. 0 or an errno. */
static int udp_send_datagram(struct udp_wire *w, const struct emx_wire_addr *to, const void *data, unsigned len)
{
    struct sockaddr_in sa = sockaddr_of(to);
    int conn = udp_find_conn(w, to, 1);

    if (conn >= 0) {
        if (send(conn, data, len, MSG_DONTWAIT) >= 0)
            return 0;
        if (emx_backlog_full_error(errno))
            return errno;
    }
    if (sendto(w->fd, data, len, MSG_DONTWAIT, (const struct sockaddr *)&sa, sizeof(sa)) < 0)
        return errno;
    if (conn >= 0)
        udp_close_conn(w, to);
    return 0;
}

/* Hands the messages that have been made to the kernel, by the connected socket or, if that is -1, by the wire's
 * socket. Returns how many it took; -1 and errno: none. */
static int udp_send_messages_by(struct udp_wire *w, int conn, unsigned messages)
{
    for (unsigned m = 0; m < messages; m++)
        w->tx->msg[m].msg_hdr.msg_namelen = conn >= 0 ? 0 : sizeof(w->tx->to[m]);
    return sendmmsg(conn >= 0 ? conn : w->fd, w->tx->msg, messages, MSG_DONTWAIT);
}

static bool one_destination(const struct udp_tx *tx, unsigned messages)
{
    for (unsigned m = 1; m < messages; m++)
        if (memcmp(&tx->to[m], &tx->to[0], sizeof(tx->to[0])))
            return false;
    return true;
}

/* The same; the first frame of the messages is f. */
static int udp_send_messages(struct udp_wire *w, const struct emx_txframe *f, unsigned messages)
{
    int conn = one_destination(w->tx, messages) ? udp_find_conn(w, f->to, messages) : -1;
    int taken = udp_send_messages_by(w, conn, messages);

    if (taken > 0 || conn < 0 || emx_backlog_full_error(errno))
        return taken;
    taken = udp_send_messages_by(w, -1, messages);
    if (taken > 0)
        udp_close_conn(w, f->to);
    return taken;
}

/* One frame, at best without gathering. 0 or an errno. */
static int udp_send_one(struct udp_wire *w, const struct emx_txframe *f)
{
    const void *data = f->head;
    unsigned len = udp_length_of(f);

    if (f->body_bytes && len > COPY_BYTES) {
        prepare_message(w->tx, 0, w->tx->iov, f, 1);
        return udp_send_messages(w, f, 1) < 0 ? errno : 0;
    }
    if (f->body_bytes) {
        memcpy(w->tx->copy, f->head, f->head_bytes);
        memcpy(w->tx->copy + f->head_bytes, f->body, f->body_bytes);
        data = w->tx->copy;
    }
    return udp_send_datagram(w, f->to, data, len);
}

static int udp_send_kept(void *arg, const struct emx_wire_addr *to, const void *data, size_t len_bytes)
{
    struct emx_txframe f = {.to = to, .head = data, .head_bytes = (uint16_t)len_bytes};

    return udp_send_one(arg, &f);
}

static unsigned udp_tx_room(struct emx_wire *base)
{
    struct udp_wire *w = (struct udp_wire *)base;

    if (w->backlog.count)
        w->stats->wire_tx_errors += emx_backlog_flush(&w->backlog, udp_send_kept, w);
    return w->backlog.count ? 0 : EMX_WIRE_BATCH;
}

/* n frames one by one. Returns how many were taken, or kept for later. */
static unsigned udp_send_singly(struct udp_wire *w, const struct emx_txframe *f, unsigned n)
{
    unsigned taken = 0;

    for (unsigned i = 0; i < n; i++) {
        int err = w->backlog.count ? EAGAIN : udp_send_one(w, &f[i]);

        if (!err) {
            emx_backlog_success(&w->backlog);
            taken++;
        } else if (emx_backlog_full_error(err)) {
            unsigned lost = emx_backlog_keep(&w->backlog, &f[i], n - i);

            w->stats->wire_tx_errors += lost;
            return taken + n - i - lost;
        } else {
            w->stats->wire_tx_errors++; /* interface down, no route, longer than the MTU, ...: lost */
        }
    }
    return taken;
}

/* The first message was refused with errno err. Returns how many frames are dealt with. */
static unsigned handle_refusal(struct udp_wire *w, const struct emx_txframe *f, unsigned n, unsigned joined, int err)
{
    if (emx_backlog_full_error(err)) {
        w->stats->wire_tx_errors += emx_backlog_keep(&w->backlog, f, n);
        return n;
    }
    if (joined == 1) {
        w->stats->wire_tx_errors++;
        return 1;
    }
    if (udp_send_singly(w, f, joined) == joined)
        w->gso = false; /* it was not the frames, it was the joining */
    return joined;
}

/* Makes messages of n frames, joined where possible. Returns how many messages. */
static unsigned prepare_batch(struct udp_wire *w, const struct emx_txframe *f, unsigned n)
{
    struct iovec *iov = w->tx->iov;
    unsigned messages = 0;

    for (unsigned at = 0; at < n; at += w->tx->frames[messages++])
        iov += prepare_message(w->tx, messages, iov, &f[at], udp_joinable(w, &f[at], n - at));
    return messages;
}

/* Sends frames that are not too long. */
static void udp_send_run(struct udp_wire *w, const struct emx_txframe *f, unsigned n)
{
    while (n) {
        unsigned messages, done = 0;
        int taken;

        if (n == 1 || w->backlog.count) {
            udp_send_singly(w, f, n);
            return;
        }
        messages = prepare_batch(w, f, n);
        taken = udp_send_messages(w, f, messages);
        if (taken > 0)
            emx_backlog_success(&w->backlog);
        for (int m = 0; m < taken; m++)
            done += w->tx->frames[m];
        if (taken <= 0)
            done = handle_refusal(w, f, n, w->tx->frames[0], errno);
        f += done;
        n -= done;
    }
}

static void udp_tx(struct emx_wire *base, const struct emx_txframe *f, unsigned n)
{
    struct udp_wire *w = (struct udp_wire *)base;
    unsigned from = 0;

    for (unsigned i = 0; i < n; i++)
        if (udp_length_of(&f[i]) > w->frame_bytes) {
            udp_send_run(w, &f[from], i - from);
            w->stats->wire_tx_errors++;
            from = i + 1;
        }
    udp_send_run(w, &f[from], n - from);
}

/* ---- Receiving ---- */

/* Reads what the kernel tells beside a message: the length of the parts, whether they are marked, and how many
 * datagrams it dropped. */
static unsigned read_control(struct udp_wire *w, struct msghdr *h, bool *marked_p)
{
    unsigned part_bytes = 0;

    *marked_p = false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
        if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
            int bytes;

            memcpy(&bytes, CMSG_DATA(c), sizeof(bytes));
            part_bytes = bytes > 0 ? (unsigned)bytes : 0;
        } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
            uint32_t drops;

            memcpy(&drops, CMSG_DATA(c), sizeof(drops));
            w->stats->wire_lost += drops - w->drops;
            w->drops = drops;
        } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
            *marked_p = IPTOS_ECN(*CMSG_DATA(c)) == IPTOS_ECN_CE;
        }
    }
    return part_bytes;
}

/* Moves the parts of a buffer apart so that each begins aligned. false: there is no room for that. */
static bool align_parts(struct udp_buffer *b)
{
    unsigned count = (b->len_bytes + b->part_bytes - 1) / b->part_bytes;

    b->part_step = (b->part_bytes + 3) / 4 * 4;
    if (b->part_step == b->part_bytes)
        return true;
    if ((size_t)count * b->part_step > BUFFER_BYTES)
        return false;
    for (unsigned i = count - 1; i > 0; i--) {
        unsigned from = i * b->part_bytes, rest = b->len_bytes - from;

        memmove(b->data + (size_t)i * b->part_step, b->data + from, rest < b->part_bytes ? rest : b->part_bytes);
    }
    return true;
}

/* Takes over message i, just received into buffer i. */
static void take_buffer(struct udp_wire *w, unsigned i, unsigned len_bytes)
{
    struct udp_buffer *b = &w->buffer[i];

    b->len_bytes = len_bytes;
    b->lent_bytes = b->lent_parts = 0;
    b->part_bytes = read_control(w, &w->msg[i].msg_hdr, &b->marked);
    if (!b->part_bytes || b->part_bytes > len_bytes)
        b->part_bytes = len_bytes;
    if ((w->msg[i].msg_hdr.msg_flags & MSG_TRUNC) || (len_bytes && !align_parts(b))) {
        w->stats->wire_lost++;
        b->len_bytes = 0;
    }
}

static void prepare_receive(struct udp_wire *w, unsigned i)
{
    w->iov[i] = (struct iovec){.iov_base = w->buffer[i].data, .iov_len = UINT16_MAX + 1};
    w->msg[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &w->iov[i],
                                             .msg_iovlen = 1,
                                             .msg_control = &w->control[i],
                                             .msg_controllen = sizeof(w->control[i].space)}};
}

/* Several messages at once. */
static void fill_many(struct udp_wire *w)
{
    int got;

    for (unsigned i = 0; i < BUFFERS; i++)
        prepare_receive(w, i);
    got = recvmmsg(w->fd, w->msg, BUFFERS, MSG_DONTWAIT, NULL);
    for (int i = 0; i < got; i++)
        take_buffer(w, w->filled++, w->msg[i].msg_len);
}

static void fill_one(struct udp_wire *w)
{
    ssize_t got;

    prepare_receive(w, 0);
    got = recvmsg(w->fd, &w->msg[0].msg_hdr, MSG_DONTWAIT);
    if (got >= 0)
        take_buffer(w, w->filled++, (unsigned)got);
}

/* What has not been joined. */
static void fill_calmly(struct udp_wire *w)
{
    struct udp_buffer *b = &w->buffer[0];
    ssize_t got = recv(w->fd, b->data, UINT16_MAX + 1, MSG_DONTWAIT);

    if (got < 0)
        return;
    *b = (struct udp_buffer){.data = b->data, .len_bytes = (unsigned)got, .part_bytes = (unsigned)got};
    w->filled = 1;
}

static void set_calm(struct udp_wire *w, bool calm)
{
    int joining = !calm;

    w->lonely = 0;
    if (!setsockopt(w->fd, SOL_UDP, UDP_GRO, &joining, sizeof(joining)))
        w->calm = calm;
}

/* Judges by what came whether it is calm. What the kernel had joined before it was told not to, and that comes after
 * the look that found nothing, would be handed up as one frame: a loss that is mended, and next to impossible. */
static void judge_traffic(struct udp_wire *w)
{
    const struct udp_buffer *b = &w->buffer[0];
    bool alone = w->filled == 1 && b->len_bytes <= CALM_BYTES && b->part_bytes == b->len_bytes;

    if (!w->filled) {
        w->run = 0;
        if (!w->calm && w->gro && w->lonely >= CALM_AFTER)
            set_calm(w, true);
        return;
    }
    w->run++;
    if (alone && w->run < CALM_RUN) {
        w->lonely++;
        return;
    }
    w->lonely = 0;
    if (w->calm)
        set_calm(w, false);
}

/* Receives into the buffers; none of them is lent. */
static void fill_buffers(struct udp_wire *w)
{
    w->filled = w->current = 0;
    if (w->calm)
        fill_calmly(w);
    else if (w->busy)
        fill_many(w);
    else
        fill_one(w);
    judge_traffic(w);
    w->busy = w->filled > 0; /* errors (an interface went down, a peer's port is closed) concern no frame of ours */
}

/* Lends the next part of the current buffer. */
static struct emx_rxframe lend_part(struct udp_buffer *b)
{
    unsigned rest = b->len_bytes - b->lent_bytes;
    struct emx_rxframe f = {.data = b->data + (size_t)b->lent_parts * b->part_step,
                            .len_bytes = rest < b->part_bytes ? rest : b->part_bytes,
                            .marked = b->marked};

    b->lent_parts++;
    b->lent_bytes += f.len_bytes;
    return f;
}

/* The buffer that has parts to lend, or NULL. */
static struct udp_buffer *current_buffer(struct udp_wire *w)
{
    while (w->current < w->filled && w->buffer[w->current].lent_bytes == w->buffer[w->current].len_bytes)
        w->current++;
    return w->current < w->filled ? &w->buffer[w->current] : NULL;
}

static unsigned udp_rx(struct emx_wire *base, struct emx_rxframe *f, unsigned max)
{
    struct udp_wire *w = (struct udp_wire *)base;
    struct udp_buffer *b;
    unsigned n = 0;

    if (w->backlog.count)
        udp_tx_room(base);
    if (!current_buffer(w))
        fill_buffers(w);
    while (n < max && (b = current_buffer(w)))
        f[n++] = lend_part(b);
    return n;
}

/* Buffers are used again by the rx() that finds all of their parts lent, and by then returned. */
static void udp_rx_return(struct emx_wire *base, const struct emx_rxframe *f, unsigned n)
{
    (void)base;
    (void)f;
    (void)n;
}

static void udp_sweep(struct emx_wire *base)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    emx_udp_conns_sweep(&((struct udp_wire *)base)->conns, now.tv_sec);
}

static int udp_fd(struct emx_wire *base, unsigned i)
{
    return i ? -1 : ((struct udp_wire *)base)->fd;
}

const struct emx_wire_ops emx_wire_udp = {
    .name = "udp",
    .help = "UDP over IPv4; needs no privileges and passes routers",
    .open = udp_open,
    .close = udp_close,
    .query = udp_query,
    .tx_room = udp_tx_room,
    .tx = udp_tx,
    .rx = udp_rx,
    .rx_return = udp_rx_return,
    .fd = udp_fd,
    .sweep = udp_sweep,
};
