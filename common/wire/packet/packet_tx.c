/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sending. A second socket sends, and receives nothing, so that sender and receiver do not share the kernel's counters.
 * If frames leave through one interface only, the socket is bound to it, because the kernel then looks up no interface
 * per frame. Short frames are copied together and sent by send() or sendto(), which is cheaper than sendmsg() with
 * three parts. Several frames are sent by sendmmsg(). Frames that the kernel has no space for wait in the backlog.
 *
 * Data frames of large messages travel as GSO packets (offload.c). Where those are not available, they are single
 * frames of the same EtherType.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "wire/ethernet.h"
#include "wire/tso.h"
#include "wire/packet/packet_impl.h"

static const uint8_t *packet_mac_of(const struct packet_wire *w, unsigned ifindex)
{
    static const uint8_t none[ETH_ALEN];

    for (unsigned i = 0; i < w->port_count; i++)
        if (w->port[i].ifindex == ifindex)
            return w->port[i].mac;
    return none;
}

/* Writes the headers of a frame in UDP. Returns their length. */
static unsigned packet_write_udp_head(const struct packet_wire *w, const struct emx_txframe *f,
                                      const struct emx_offload_to *a, uint8_t *head)
{
    struct emx_gso_way way = {.from_ip = a->from_ip,
                              .to_ip = a->to_ip,
                              .from_port = w->udp->port.port,
                              .to_port = a->udp_port,
                              .tos = w->tos};

    memcpy(way.from_mac, packet_mac_of(w, a->ifindex), ETH_ALEN);
    memcpy(way.to_mac, a->mac, ETH_ALEN);
    return emx_packet_udp_head(head, &way, emx_gso_frame_bytes(f));
}

static unsigned packet_write_ethernet_head(const struct packet_wire *w, const struct emx_offload_to *a, uint8_t *head)
{
    memcpy(head, a->mac, ETH_ALEN);
    memcpy(head + ETH_ALEN, packet_mac_of(w, a->ifindex), ETH_ALEN);
    memcpy(head + 2 * ETH_ALEN, &w->ethertype, sizeof(w->ethertype));
    return ETH_HLEN;
}

/* Writes the destination and the headers of frame f. Returns the length of these. */
static unsigned packet_address_frame(const struct packet_wire *w, const struct emx_txframe *f, struct sockaddr_ll *sll,
                                     uint8_t *head)
{
    const struct emx_offload_to a = emx_offload_to(f->to);

    *sll = (struct sockaddr_ll){.sll_family = AF_PACKET, .sll_protocol = w->ethertype, .sll_ifindex = (int)a.ifindex};
    if (!w->udp)
        return packet_write_ethernet_head(w, &a, head);
    if (a.udp_port) {
        sll->sll_protocol = htons(w->udp->v6 ? ETH_P_IPV6 : ETH_P_IP);
        return packet_write_udp_head(w, f, &a, head);
    }
    if (!w->udp->v6)
        return packet_write_ethernet_head(w, &a, head);
    memset(head, 0, EMX_PACKET_VNET_BYTES);
    return EMX_PACKET_VNET_BYTES + packet_write_ethernet_head(w, &a, head + EMX_PACKET_VNET_BYTES);
}

/* Prepares message i of the batch for frame f. */
static void packet_prepare_frame(struct packet_wire *w, unsigned i, const struct emx_txframe *f)
{
    struct packet_tx *tx = w->tx;
    struct iovec *iov = tx->iov[i];
    const unsigned before = packet_address_frame(w, f, &tx->to[i], tx->copy[i]), len_bytes = emx_gso_frame_bytes(f);
    unsigned parts = 1;

    if (len_bytes <= EMX_PACKET_COPY_BYTES) {
        memcpy(tx->copy[i] + before, f->head, f->head_bytes);
        if (f->body_bytes)
            memcpy(tx->copy[i] + before + f->head_bytes, f->body, f->body_bytes);
        iov[0] = (struct iovec){.iov_base = tx->copy[i], .iov_len = before + len_bytes};
    } else {
        iov[0] = (struct iovec){.iov_base = tx->copy[i], .iov_len = before};
        iov[parts++] = (struct iovec){.iov_base = (void *)f->head, .iov_len = f->head_bytes};
        if (f->body_bytes)
            iov[parts++] = (struct iovec){.iov_base = (void *)f->body, .iov_len = f->body_bytes};
    }
    tx->msg[i] = (struct mmsghdr){
        .msg_hdr = {.msg_name = &tx->to[i], .msg_namelen = sizeof(tx->to[i]), .msg_iov = iov, .msg_iovlen = parts}};
}

/* Sends one frame. If an interface was removed, the socket has lost its binding, even if the interface is back. */
static ssize_t packet_send_one(const struct packet_wire *w, const struct iovec *iov, const struct sockaddr_ll *to)
{
    if ((unsigned)to->sll_ifindex == w->bound_ifindex) {
        ssize_t sent = send(w->tx_fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT);

        if (sent >= 0 || errno != ENXIO)
            return sent;
    }
    return sendto(w->tx_fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT, (const struct sockaddr *)to, sizeof(*to));
}

/* Passes n prepared messages to the kernel. Returns how many it took; if fewer than n, errno is set. */
static int packet_send_prepared(struct packet_wire *w, unsigned first, unsigned n)
{
    struct packet_tx *tx = w->tx;
    const struct iovec *iov = tx->iov[first];

    if (n > 1)
        return sendmmsg(w->tx_fd, &tx->msg[first], n, MSG_DONTWAIT);
    if (tx->msg[first].msg_hdr.msg_iovlen > 1)
        return sendmsg(w->tx_fd, &tx->msg[first].msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1;
    return packet_send_one(w, iov, &tx->to[first]) < 0 ? -1 : 1;
}

static int packet_send_kept(void *arg, const struct emx_wire_addr *to, const void *data, size_t len_bytes)
{
    struct packet_wire *w = arg;
    struct emx_txframe f = {.to = to, .head = data, .head_bytes = (uint16_t)len_bytes};

    packet_prepare_frame(w, 0, &f);
    return packet_send_prepared(w, 0, 1) < 0 ? errno : 0;
}

unsigned emx_packet_tx_room(struct emx_wire *base)
{
    struct packet_wire *w = (struct packet_wire *)base;

    if (w->backlog.count)
        w->stats->wire_tx_errors += emx_backlog_flush(&w->backlog, packet_send_kept, w);
    return w->backlog.count ? 0 : EMX_WIRE_BATCH;
}

/* Sends frames of valid length. */
static void packet_send_run(struct packet_wire *w, const struct emx_txframe *f, unsigned n)
{
    unsigned at = 0;

    for (unsigned i = 0; i < n; i++)
        packet_prepare_frame(w, i, &f[i]);
    while (at < n) {
        int taken;

        if (w->backlog.count) { /* from an earlier run of this batch: keep the order */
            w->stats->wire_tx_errors += emx_backlog_keep(&w->backlog, &f[at], n - at);
            return;
        }
        taken = packet_send_prepared(w, at, n - at);

        if (taken > 0) {
            emx_backlog_success(&w->backlog);
            at += (unsigned)taken;
        } else if (emx_backlog_full_error(errno)) {
            unsigned lost = emx_backlog_keep(&w->backlog, &f[at], n - at);

            w->stats->wire_tx_errors += lost;
            return;
        } else {
            w->stats->wire_tx_errors++; /* lost: interface down or removed, frame longer than its MTU, ... */
            at++;
        }
    }
}

/* How many of the n frames at f can be sent as one GSO packet. */
static unsigned packet_joinable(const struct packet_wire *w, const struct emx_txframe *f, unsigned n)
{
    return w->offload && !w->no_joining ? emx_offload_joinable(f, n) : 0;
}

static int packet_send_offload(struct packet_wire *w, const struct emx_txframe *f, unsigned n)
{
    int err = emx_offload_send(w->offload, packet_mac_of(w, emx_offload_to(f->to).ifindex), f, n);

    if (err)
        return err;
    emx_backlog_success(&w->backlog);
    w->stats->gso_packets_sent += n > 1 || emx_txframe_chunks(f) > 1;
    return 0;
}

static void packet_send_joined(struct packet_wire *w, const struct emx_txframe *f, unsigned n)
{
    uint64_t errors = w->stats->wire_tx_errors;
    int err = w->backlog.count ? EAGAIN : packet_send_offload(w, f, n);

    if (err && emx_backlog_full_error(err)) {
        w->stats->wire_tx_errors += emx_backlog_keep(&w->backlog, f, n);
    } else if (err) {
        packet_send_run(w, f, n);
        if (w->stats->wire_tx_errors == errors) /* the frames were valid: the kernel refuses GSO packets */
            w->no_joining = true;
    }
}

/* Sends a frame of several chunks. If that is not possible, its parts are sent, or wait. */
static void packet_send_chunks(struct packet_wire *w, const struct emx_txframe *f)
{
    int err = w->backlog.count ? EAGAIN : w->no_tso ? EINVAL : packet_send_offload(w, f, 1);
    uint64_t errors = w->stats->wire_tx_errors;
    struct emx_tso_split split;
    unsigned n;

    if (!err)
        return;
    n = emx_tso_split(&split, f);
    if (emx_backlog_full_error(err)) {
        w->stats->wire_tx_errors += emx_backlog_keep(&w->backlog, split.f, n);
        return;
    }
    emx_packet_tx(&w->base, split.f, n);
    if (w->stats->wire_tx_errors == errors)
        w->no_tso = true;
}

void emx_packet_tx(struct emx_wire *base, const struct emx_txframe *f, unsigned n)
{
    struct packet_wire *w = (struct packet_wire *)base;
    unsigned from = 0, i = 0, joined;

    while (i < n) {
        if (f[i].chunk_bytes) {
            packet_send_run(w, &f[from], i - from);
            packet_send_chunks(w, &f[i]);
            from = ++i;
        } else if (emx_gso_frame_bytes(&f[i]) > w->frame_bytes) {
            packet_send_run(w, &f[from], i - from);
            w->stats->wire_tx_errors++;
            from = ++i;
        } else if ((joined = packet_joinable(w, &f[i], n - i))) {
            packet_send_run(w, &f[from], i - from);
            packet_send_joined(w, &f[i], joined);
            from = i += joined;
        } else {
            i++;
        }
    }
    packet_send_run(w, &f[from], n - from);
}
