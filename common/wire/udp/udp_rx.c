/* SPDX-License-Identifier: BSD-3-Clause
 *
 * With UDP_GRO the kernel may pass several datagrams of one length as one buffer, and report the length. rx() returns
 * its parts as frames. One call of rx() makes one system call: recvmsg() while little arrives, for latency, and
 * recvmmsg() after a call that found something, for throughput.
 *
 * recv() is cheaper than recvmsg(), but does not report whether datagrams were joined. So while short datagrams arrive
 * one at a time, UDP_GRO is disabled and recv() is called. The first long datagram, or several in a row, end that. If a
 * GSO packet arrives at that moment, the kernel splits it.
 *
 * While data of large messages is expected and datagrams arrive joined, each buffer is received by itself, with the
 * data in its place (gso_rx.c).
 *
 * Queues on the path may mark datagrams (ECN, RFC 3168; ETHMX_ECN). recvmsg() reports the mark, and the kernel never
 * joins a marked datagram with an unmarked one. Datagrams received by recv() count as unmarked: short ones that arrive
 * one at a time fill no queue.
 */
#define _GNU_SOURCE
#include "wire/udp/udp_wire.h"

#include <netinet/udp.h>
#include <string.h>

#include "wire/gso_udp.h"

#define SINGLE_BYTES 1024 /* longest datagram for recv() */
#define SINGLE_AFTER 256  /* so many in a row, each alone, before recv() is called */
#define BURST_POLLS  3    /* successful polls in a row that end that */

/* Moves the parts of a buffer so that each begins aligned. false: there is no room for that. */
static bool udp_rx_align_parts(struct emx_udp_buffer *b)
{
    unsigned count = (b->len_bytes + b->part_bytes - 1) / b->part_bytes;

    b->part_step = (b->part_bytes + 3) / 4 * 4;
    if (b->part_step == b->part_bytes)
        return true;
    if ((size_t)count * b->part_step > EMX_UDP_BUFFER_BYTES)
        return false;
    for (unsigned i = count - 1; i > 0; i--) {
        unsigned from = i * b->part_bytes, rest = b->len_bytes - from;

        memmove(b->data + (size_t)i * b->part_step, b->data + from, rest < b->part_bytes ? rest : b->part_bytes);
    }
    return true;
}

/* Accepts message i, just received into buffer i. */
static void udp_rx_take_buffer(struct emx_udp_wire *w, unsigned i, unsigned len_bytes)
{
    struct emx_udp_buffer *b = &w->buffer[i];

    b->len_bytes = len_bytes;
    b->lent_bytes = b->lent_parts = 0;
    b->part_bytes = emx_udp_socket_read_control(&w->msg[i].msg_hdr, w->stats, &w->drops, &b->marked);
    if (!b->part_bytes || b->part_bytes > len_bytes)
        b->part_bytes = len_bytes;
    if (len_bytes > SINGLE_BYTES)
        w->joined = b->part_bytes < len_bytes;
    if ((w->msg[i].msg_hdr.msg_flags & MSG_TRUNC) || (len_bytes && !udp_rx_align_parts(b))) {
        w->stats->wire_lost++;
        b->len_bytes = 0;
    }
}

static void udp_rx_prepare(struct emx_udp_wire *w, unsigned i)
{
    w->iov[i] = (struct iovec){.iov_base = w->buffer[i].data, .iov_len = UINT16_MAX + 1};
    w->msg[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &w->iov[i],
                                             .msg_iovlen = 1,
                                             .msg_control = &w->control[i],
                                             .msg_controllen = sizeof(w->control[i].space)}};
}

/* Receives several messages at once. */
static void udp_rx_fill_many(struct emx_udp_wire *w)
{
    int got;

    for (unsigned i = 0; i < EMX_UDP_BUFFERS; i++)
        udp_rx_prepare(w, i);
    got = recvmmsg(w->fd, w->msg, EMX_UDP_BUFFERS, MSG_DONTWAIT, NULL);
    for (int i = 0; i < got; i++)
        udp_rx_take_buffer(w, w->filled++, w->msg[i].msg_len);
}

static void udp_rx_fill_one(struct emx_udp_wire *w)
{
    ssize_t got;

    udp_rx_prepare(w, 0);
    got = recvmsg(w->fd, &w->msg[0].msg_hdr, MSG_DONTWAIT);
    if (got >= 0)
        udp_rx_take_buffer(w, w->filled++, (unsigned)got);
}

/* Receives one datagram that the kernel has not joined with others. */
static void udp_rx_fill_unjoined(struct emx_udp_wire *w)
{
    struct emx_udp_buffer *b = &w->buffer[0];
    ssize_t got = recv(w->fd, b->data, UINT16_MAX + 1, MSG_DONTWAIT);

    if (got < 0)
        return;
    *b = (struct emx_udp_buffer){.data = b->data, .len_bytes = (unsigned)got, .part_bytes = (unsigned)got};
    w->filled = 1;
}

static void udp_rx_set_unjoined(struct emx_udp_wire *w, bool unjoined)
{
    int joining = !unjoined;

    w->singles = 0;
    if (!setsockopt(w->fd, SOL_UDP, UDP_GRO, &joining, sizeof(joining)))
        w->unjoined = unjoined;
}

/* Decides from recent traffic whether datagrams are to be joined. A buffer that was joined before UDP_GRO was disabled,
 * and is received after an empty poll, would be returned as one frame. The engine repairs this as a loss. */
static void udp_rx_judge_traffic(struct emx_udp_wire *w)
{
    const struct emx_udp_buffer *b = &w->buffer[0];
    bool alone = w->filled == 1 && b->len_bytes <= SINGLE_BYTES && b->part_bytes == b->len_bytes;

    if (!w->filled) {
        w->run = 0;
        if (!w->unjoined && w->gro && w->singles >= SINGLE_AFTER)
            udp_rx_set_unjoined(w, true);
        return;
    }
    w->run++;
    if (alone && w->run < BURST_POLLS) {
        w->singles++;
        return;
    }
    w->singles = 0;
    if (w->unjoined)
        udp_rx_set_unjoined(w, false);
}

static void udp_rx_fill_place(struct emx_udp_wire *w)
{
    w->busy = emx_gso_udp_receive(w->fd, &w->place, NULL, &w->drops);
    if (w->busy && w->place.rest.part_bytes > SINGLE_BYTES)
        w->joined = w->place.parts > 1;
}

/* Receives into the buffers, or into one and the data's place; none of them is in use. */
static void udp_rx_fill(struct emx_udp_wire *w)
{
    w->filled = w->current = 0;
    if (w->joined && !w->unjoined && emx_gso_rx_places(&w->place)) {
        udp_rx_fill_place(w);
        return;
    }
    if (w->unjoined)
        udp_rx_fill_unjoined(w);
    else if (w->busy)
        udp_rx_fill_many(w);
    else
        udp_rx_fill_one(w);
    udp_rx_judge_traffic(w);
    w->busy = w->filled > 0; /* errors (an interface went down, a peer's port is closed) concern no received frame */
}

/* Returns the next part of the current buffer as a frame. */
static struct emx_rxframe udp_rx_next_part(struct emx_udp_buffer *b)
{
    unsigned rest = b->len_bytes - b->lent_bytes;
    struct emx_rxframe f = {.data = b->data + (size_t)b->lent_parts * b->part_step,
                            .len_bytes = rest < b->part_bytes ? rest : b->part_bytes,
                            .marked = b->marked};

    b->lent_parts++;
    b->lent_bytes += f.len_bytes;
    return f;
}

/* The buffer that has further parts, or NULL. */
static struct emx_udp_buffer *udp_rx_current(struct emx_udp_wire *w)
{
    while (w->current < w->filled && w->buffer[w->current].lent_bytes == w->buffer[w->current].len_bytes)
        w->current++;
    return w->current < w->filled ? &w->buffer[w->current] : NULL;
}

unsigned emx_udp_rx(struct emx_wire *base, struct emx_rxframe *f, unsigned max)
{
    struct emx_udp_wire *w = (struct emx_udp_wire *)base;
    struct emx_udp_buffer *b;
    unsigned n = 0;

    if (w->backlog.count)
        emx_udp_tx_budget(base);
    if (!udp_rx_current(w) && !emx_gso_rx_is_open(&w->place))
        udp_rx_fill(w);
    n = emx_gso_rx_next(&w->place, f, max, 0);
    while (n < max && (b = udp_rx_current(w)))
        f[n++] = udp_rx_next_part(b);
    return n;
}

/* The buffers are used again by the rx() that finds all parts taken. All of them are returned by then. */
void emx_udp_rx_return(struct emx_wire *base, const struct emx_rxframe *f, unsigned n)
{
    (void)base;
    (void)f;
    (void)n;
}
