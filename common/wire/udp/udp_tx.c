/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The cost of a system call per frame limits the wire, so frames are joined if the kernel supports it. Consecutive
 * frames of one length to one destination in a batch (the last may be shorter) go to the kernel as one *GSO packet*
 * with UDP_SEGMENT. The network card, or the kernel just above it, splits it into datagrams. Only lengths that are
 * multiples of 4 are joined, so that the receiver finds each frame aligned. If the kernel or the interface refuses a
 * GSO packet, frames are sent one by one from then on. Frames to peers that get many leave by connected sockets
 * (udp_conn.c).
 */
#define _GNU_SOURCE
#include "wire/udp/udp_wire.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#define DATAGRAM_MAX (UINT16_MAX - EMX_GSO_IP_BYTES) /* also of a GSO packet */

static struct emx_udp_addr udp_tx_addr_of(const struct emx_wire_addr *to)
{
    struct emx_udp_addr a;

    memcpy(&a, to, sizeof(a));
    return a;
}

/* Writes the destination for the wire's socket. */
static socklen_t udp_tx_sockaddr_of(const struct emx_udp_wire *w, const struct emx_wire_addr *to,
                                    union emx_udp_sockaddr *sockaddr_p)
{
    struct emx_udp_addr a = udp_tx_addr_of(to);

    return emx_udp_sockaddr_of(&a, w->v6, sockaddr_p);
}

/* How many of the n frames at f can be sent as one GSO packet; 1: only the first. */
static unsigned udp_tx_joinable(const struct emx_udp_wire *w, const struct emx_txframe *f, unsigned n)
{
    return w->gso && n > 1 ? emx_gso_fit(f, n, DATAGRAM_MAX, false) : 1;
}

/* Prepares message m of count frames, with iovecs at iov. Returns the number of iovecs. */
static unsigned udp_tx_prepare_message(struct emx_udp_tx *tx, unsigned m, struct iovec *iov,
                                       const struct emx_txframe *f, unsigned count)
{
    struct msghdr *h = &tx->msg[m].msg_hdr;
    unsigned parts = emx_gso_iov(iov, f, count);

    tx->frames[m] = count;
    tx->to[m] = f->to;
    *h = (struct msghdr){.msg_iov = iov, .msg_iovlen = parts};
    if (count > 1) {
        h->msg_control = &tx->control[m];
        h->msg_controllen = sizeof(tx->control[m].space);
        emx_udp_socket_put_segment(CMSG_FIRSTHDR(h), emx_gso_frame_bytes(f));
    }
    return parts;
}

/* The connected socket for n frames to this destination, or -1. */
static int udp_tx_find_conn(struct emx_udp_wire *w, const struct emx_wire_addr *to, unsigned n)
{
    struct emx_udp_addr a = udp_tx_addr_of(to);

    return emx_udp_conn_for(&w->conns, &a, n);
}

static void udp_tx_close_conn(struct emx_udp_wire *w, const struct emx_wire_addr *to)
{
    struct emx_udp_addr a = udp_tx_addr_of(to);

    emx_udp_conn_failed(&w->conns, &a);
}

/* Sends one datagram. Returns 0 or an errno. */
static int udp_tx_send_datagram(struct emx_udp_wire *w, const struct emx_wire_addr *to, const void *data, unsigned len)
{
    union emx_udp_sockaddr sa;
    socklen_t sa_bytes;
    int conn = udp_tx_find_conn(w, to, 1);

    if (conn >= 0) {
        if (send(conn, data, len, MSG_DONTWAIT) >= 0)
            return 0;
        if (emx_backlog_full_error(errno))
            return errno;
    }
    sa_bytes = udp_tx_sockaddr_of(w, to, &sa);
    if (sendto(w->fd, data, len, MSG_DONTWAIT, &sa.any, sa_bytes) < 0)
        return errno;
    if (conn >= 0)
        udp_tx_close_conn(w, to);
    return 0;
}

/* Writes the destinations for the wire's socket. */
static void udp_tx_address_messages(struct emx_udp_wire *w, unsigned messages)
{
    for (unsigned m = 0; m < messages; m++) {
        struct msghdr *h = &w->tx->msg[m].msg_hdr;

        h->msg_name = &w->tx->sockaddr[m];
        h->msg_namelen = udp_tx_sockaddr_of(w, w->tx->to[m], &w->tx->sockaddr[m]);
    }
}

/* Passes the prepared messages to the kernel, by the connected socket or, if that is -1, by the wire's socket. Returns
 * how many it took; -1 and errno: none. */
static int udp_tx_send_messages_by(struct emx_udp_wire *w, int conn, unsigned messages)
{
    if (conn < 0)
        udp_tx_address_messages(w, messages);
    return sendmmsg(conn >= 0 ? conn : w->fd, w->tx->msg, messages, MSG_DONTWAIT);
}

static bool udp_tx_one_destination(const struct emx_udp_tx *tx, unsigned messages)
{
    for (unsigned m = 1; m < messages; m++)
        if (tx->to[m] != tx->to[0] && memcmp(tx->to[m], tx->to[0], sizeof(struct emx_udp_addr)))
            return false;
    return true;
}

/* Passes the prepared messages to the kernel. Their first frame is f. */
static int udp_tx_send_messages(struct emx_udp_wire *w, const struct emx_txframe *f, unsigned messages)
{
    int conn = udp_tx_one_destination(w->tx, messages) ? udp_tx_find_conn(w, f->to, messages) : -1;
    int taken = udp_tx_send_messages_by(w, conn, messages);

    if (taken > 0 || conn < 0 || emx_backlog_full_error(errno))
        return taken;
    taken = udp_tx_send_messages_by(w, -1, messages);
    if (taken > 0)
        udp_tx_close_conn(w, f->to);
    return taken;
}

/* Sends one frame, without an iovec if possible. Returns 0 or an errno. */
static int udp_tx_send_one(struct emx_udp_wire *w, const struct emx_txframe *f)
{
    const void *data = f->head;
    unsigned len = emx_gso_frame_bytes(f);

    if (f->body_bytes && len > EMX_UDP_COPY_BYTES) {
        udp_tx_prepare_message(w->tx, 0, w->tx->iov, f, 1);
        return udp_tx_send_messages(w, f, 1) < 0 ? errno : 0;
    }
    if (f->body_bytes) {
        memcpy(w->tx->copy, f->head, f->head_bytes);
        memcpy(w->tx->copy + f->head_bytes, f->body, f->body_bytes);
        data = w->tx->copy;
    }
    return udp_tx_send_datagram(w, f->to, data, len);
}

static int udp_tx_send_queued(void *arg, const struct emx_wire_addr *to, const void *data, size_t len_bytes)
{
    struct emx_txframe f = {.to = to, .head = data, .head_bytes = (uint16_t)len_bytes};

    return udp_tx_send_one(arg, &f);
}

unsigned emx_udp_tx_budget(struct emx_wire *base)
{
    struct emx_udp_wire *w = (struct emx_udp_wire *)base;

    if (w->backlog.count)
        w->stats->wire_tx_errors += emx_backlog_flush(&w->backlog, udp_tx_send_queued, w);
    return w->backlog.count ? 0 : EMX_WIRE_BATCH;
}

/* Sends n frames one by one. Returns how many were taken, or kept for later. */
static unsigned udp_tx_send_singly(struct emx_udp_wire *w, const struct emx_txframe *f, unsigned n)
{
    unsigned taken = 0;

    for (unsigned i = 0; i < n; i++) {
        int err = w->backlog.count ? EAGAIN : udp_tx_send_one(w, &f[i]);

        if (!err) {
            emx_backlog_success(&w->backlog);
            taken++;
        } else if (emx_backlog_full_error(err)) {
            unsigned lost = emx_backlog_keep(&w->backlog, &f[i], n - i);

            w->stats->wire_tx_errors += lost;
            return taken + n - i - lost;
        } else {
            w->stats->wire_tx_errors++; /* lost: interface down, no route, longer than the MTU, ... */
        }
    }
    return taken;
}

/* The kernel refused the first message with errno err. Returns how many frames are handled. */
static unsigned udp_tx_handle_refusal(struct emx_udp_wire *w, const struct emx_txframe *f, unsigned n, unsigned joined,
                                      int err)
{
    if (emx_backlog_full_error(err)) {
        w->stats->wire_tx_errors += emx_backlog_keep(&w->backlog, f, n);
        return n;
    }
    if (joined == 1) {
        w->stats->wire_tx_errors++;
        return 1;
    }
    if (udp_tx_send_singly(w, f, joined) == joined)
        w->gso = false; /* the frames were valid: the kernel refuses GSO packets */
    return joined;
}

/* Prepares messages of n frames, joined where possible. Returns the number of messages. */
static unsigned udp_tx_prepare_batch(struct emx_udp_wire *w, const struct emx_txframe *f, unsigned n)
{
    struct iovec *iov = w->tx->iov;
    unsigned messages = 0;

    for (unsigned at = 0; at < n; at += w->tx->frames[messages++])
        iov += udp_tx_prepare_message(w->tx, messages, iov, &f[at], udp_tx_joinable(w, &f[at], n - at));
    return messages;
}

/* Sends frames of valid length. */
static void udp_tx_send_run(struct emx_udp_wire *w, const struct emx_txframe *f, unsigned n)
{
    while (n) {
        unsigned messages, done = 0;
        int taken;

        if (n == 1 || w->backlog.count) {
            udp_tx_send_singly(w, f, n);
            return;
        }
        messages = udp_tx_prepare_batch(w, f, n);
        taken = udp_tx_send_messages(w, f, messages);
        if (taken > 0)
            emx_backlog_success(&w->backlog);
        for (int m = 0; m < taken; m++)
            done += w->tx->frames[m];
        if (taken <= 0)
            done = udp_tx_handle_refusal(w, f, n, w->tx->frames[0], errno);
        f += done;
        n -= done;
    }
}

void emx_udp_tx(struct emx_wire *base, const struct emx_txframe *f, unsigned n)
{
    struct emx_udp_wire *w = (struct emx_udp_wire *)base;
    unsigned from = 0;

    for (unsigned i = 0; i < n; i++)
        if (emx_gso_frame_bytes(&f[i]) > w->frame_bytes) {
            udp_tx_send_run(w, &f[from], i - from);
            w->stats->wire_tx_errors++;
            from = i + 1;
        }
    udp_tx_send_run(w, &f[from], n - from);
}
