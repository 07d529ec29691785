/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     A slot:  0 status, lengths, sender's interface | 66 Ethernet header | 80 IPv4 | 100 TCP | 160 data
 *
 * The head of the frame is written before the data, over the TCP header.
 */
#define _GNU_SOURCE
#include "wire/tso_ring.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/min.h"
#include "wire/tso_socket.h"

#define SLOT_BYTES (66 + EMX_TSO_SHORT_BYTES)
#define RUN        64                   /* so many short packets in a row */
#define SLOTS_MIN  (2 * EMX_WIRE_BATCH) /* a batch in use by rx(), and a batch that the kernel can fill */

#ifndef TP_STATUS_CSUM_VALID
#define TP_STATUS_CSUM_VALID (1 << 7)
#endif

void emx_tso_ring_init(struct emx_tso_ring *t, const struct emx_wire_params *params)
{
    *t = (struct emx_tso_ring){.ring_bytes = params->cfg->p_ring,
                               .fd = params->local_ranks > 1 ? -1 : emx_ring_socket(),
                               .stats = params->stats};
}

bool emx_tso_ring_is_wanted(struct emx_tso_ring *t, const struct emx_tso *came)
{
    if (came->head.type != EMX_PLACE_DATA)
        return false;
    t->run = EMX_TSO_HEAD_BYTES + came->data_bytes <= EMX_TSO_SHORT_BYTES ? t->run + 1 : 0;
    return t->run >= RUN && t->fd >= 0 && !emx_tso_ring_is_open(t);
}

bool emx_tso_ring_open(struct emx_tso_ring *t, uint16_t port)
{
    return !emx_tso_attach_filter(t->fd, port, 0, UINT32_MAX) &&
           !emx_ring_open(&t->ring, t->fd, t->ring_bytes, SLOT_BYTES, SLOTS_MIN) &&
           !emx_ring_bind(&t->ring, htons(ETH_P_IP));
}

void emx_tso_ring_close(struct emx_tso_ring *t)
{
    emx_ring_close(&t->ring);
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
}

/* Whether the data is as it was sent. */
static bool tso_ring_is_whole(uint32_t status, const uint8_t *ip, const struct emx_tso *t)
{
    const struct iovec data = {.iov_base = (void *)(ip + EMX_TSO_IP_BYTES), .iov_len = t->data_bytes};

    return !t->checked || status & (TP_STATUS_CSUM_VALID | TP_STATUS_CSUMNOTREADY) ||
           emx_tso_sum_fits(ip, &data, 1, t->data_bytes);
}

/* Makes a frame of the packet in a slot. false: it is no such packet, or damaged. */
static bool tso_ring_open_slot(struct tpacket2_hdr *h, uint32_t status, struct emx_rxframe *f_p)
{
    uint8_t *mac = (uint8_t *)h + h->tp_mac, *ip = mac + ETH_HLEN, *head;
    struct emx_tso t;

    if (h->tp_snaplen < h->tp_len || h->tp_snaplen < EMX_TSO_HEAD_BYTES || !emx_tso_open(&t, ip) ||
        t.data_bytes > h->tp_snaplen - EMX_TSO_HEAD_BYTES || !tso_ring_is_whole(status, ip, &t))
        return false;
    head = ip + EMX_TSO_IP_BYTES - sizeof(t.head);
    memcpy(head, &t.head, sizeof(t.head));
    *f_p = (struct emx_rxframe){.data = head,
                                .len_bytes = (uint32_t)sizeof(t.head) + t.data_bytes,
                                .parts = t.chunks > 1 ? (uint8_t)emx_min_u(t.chunks, UINT8_MAX) : 0,
                                .marked = t.marked,
                                .tso = true,
                                .counts = t.counts};
    return true;
}

unsigned emx_tso_ring_rx(struct emx_tso_ring *t, struct emx_rxframe *f, unsigned max, uint64_t until_ns,
                         uint32_t cookie_bits)
{
    struct emx_ring *r = &t->ring;
    unsigned n = 0, slot;
    uint32_t status;

    while (n < max && (status = emx_ring_peek(r)) && !emx_ring_is_later(r, until_ns)) {
        if (status & TP_STATUS_LOSING)
            t->stats->wire_lost += emx_ring_drops(r);
        slot = emx_ring_take(r);
        if (tso_ring_open_slot(emx_ring_slot(r, slot), status, &f[n])) {
            t->stats->tso_packets_received++;
            f[n++].cookie = cookie_bits | slot;
        } else {
            t->stats->wire_lost++;
            emx_ring_give_back(r, slot);
        }
    }
    return n;
}
