/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim_packet.h"

#include "wire/tso.h"

#include <stdlib.h>
#include <string.h>

#define ALONE_PPM 300000 /* of the chances to receive a packet that are not taken */
#define BLIND_PPM 100000 /* of the packets that nothing is known of before */
#define WRONG_PPM 100000 /* of the packets that are taken for another */
#define ETH_BYTES 14

void sim_packet_init(struct sim_packet *p, const struct emx_placer *placer, struct emx_stats *stats, uint64_t seed)
{
    *p = (struct sim_packet){.rng.state = seed};
    if (!emx_gso_rx_init(&p->rx, placer, stats))
        abort();
}

void sim_packet_fini(struct sim_packet *p)
{
    emx_gso_rx_fini(&p->rx);
}

/* How many frames from first on make a packet: of one length, but the last may be shorter. */
static unsigned packet_frames(const struct sim_frame *first, unsigned max, size_t *len_bytes_p)
{
    unsigned n = 0;

    *len_bytes_p = 0;
    for (const struct sim_frame *f = first; f && n < max; f = f->next) {
        if (f->len_bytes > first->len_bytes || f->marked != first->marked ||
            *len_bytes_p + f->len_bytes > EMX_WIRE_JOIN_BYTES)
            break;
        *len_bytes_p += f->len_bytes;
        n++;
        if (f->len_bytes < first->len_bytes)
            break;
    }
    return n;
}

/* As recvmsg() does. */
static void packet_scatter(const struct iovec *iov, unsigned places, const struct sim_frame *first, unsigned n)
{
    size_t at = 0;

    for (; n; n--, first = first->next)
        for (size_t done = 0; done < first->len_bytes;) {
            size_t len_bytes = first->len_bytes - done;

            if (len_bytes > iov->iov_len - at)
                len_bytes = iov->iov_len - at;
            memcpy((uint8_t *)iov->iov_base + at, first->data + done, len_bytes);
            done += len_bytes;
            at += len_bytes;
            if (at == iov->iov_len && places > 1) {
                places--;
                iov++;
                at = 0;
            }
        }
}

/* Whether next is the i-th frame behind h in a TSO packet: of consecutive chunks of a message. */
static bool packet_continues(const struct emx_place_head *h, const struct emx_place_head *next, unsigned i)
{
    struct emx_place_head want = *h;

    if (h->type == EMX_PLACE_EAGER) {
        want.seq += i;
        want.index = (uint8_t)(h->index + i);
    } else {
        want.chunk += i;
    }
    want.body_bytes = next->body_bytes;
    want.check = next->check;
    return !memcmp(next, &want, sizeof(want));
}

/* How many of n frames are a TSO packet. */
static unsigned packet_chunks(const struct sim_frame *first, unsigned n)
{
    unsigned count = 1;

    for (const struct sim_frame *f = first->next; count < n; f = f->next, count++)
        if (!f->tso || !packet_continues((const void *)first->data, (const void *)f->data, count))
            break;
    return count;
}

/* The data of n frames, one after the other. */
static size_t packet_gather(uint8_t *to, const struct sim_frame *f, unsigned n)
{
    size_t len_bytes = 0;

    for (; n; n--, f = f->next) {
        memcpy(to + len_bytes, f->data + sizeof(struct emx_place_head), f->len_bytes - sizeof(struct emx_place_head));
        len_bytes += f->len_bytes - sizeof(struct emx_place_head);
    }
    return len_bytes;
}

/* Receives n frames as the packet wire does a TSO packet: as one. */
static unsigned packet_receive_tso(struct sim_packet *p, const struct sim_frame *first, unsigned n,
                                   struct emx_rxframe *f)
{
    static uint8_t data[EMX_WIRE_JOIN_BYTES], head[EMX_TSO_HEAD_BYTES];
    const struct emx_gso_way way = {.from_port = 1};
    const struct emx_txframe sent = {.head = first->data,
                                     .head_bytes = sizeof(struct emx_place_head),
                                     .body = data,
                                     .body_bytes = (uint16_t)packet_gather(data, first, n),
                                     .chunk_bytes =
                                         ((const struct emx_place_head *)(const void *)first->data)->chunk_bytes};
    size_t left = sent.body_bytes;
    const uint8_t *from = data;
    struct emx_tso t;
    unsigned places;

    emx_tso_head(head, &way, &sent);
    if (!emx_tso_open(&t, head + ETH_BYTES))
        return 0;
    places = emx_gso_rx_prepare_data(&p->rx, &t.head, sizeof(t.head), t.data_bytes);
    for (const struct iovec *iov = p->rx.iov + 1; places && left; places--, iov++) {
        size_t len_bytes = left < iov->iov_len ? left : iov->iov_len;

        memcpy(iov->iov_base, from, len_bytes);
        from += len_bytes;
        left -= len_bytes;
    }
    memcpy(emx_gso_rx_head(&p->rx), &t.head, sizeof(t.head));
    emx_gso_rx_done(&p->rx, sizeof(t.head) + t.data_bytes, 0, first->marked);
    return emx_gso_rx_next(&p->rx, f, 1, 0);
}

/* Receives n frames as packets of other forms. */
static unsigned packet_receive_gso(struct sim_packet *p, const struct sim_frame *first, unsigned n, size_t len_bytes,
                                   struct emx_rxframe *f)
{
    struct emx_gso_seen seen = {.frame = first->data, .head_bytes = first->len_bytes, .len_bytes = len_bytes};
    unsigned places;

    if (first->next && emx_rng_chance(&p->rng, WRONG_PPM)) {
        seen.frame = first->next->data;
        seen.head_bytes = first->next->len_bytes;
    }
    places = emx_gso_rx_prepare(&p->rx, emx_rng_chance(&p->rng, BLIND_PPM) ? NULL : &seen);
    packet_scatter(p->rx.iov + 1, places, first, n);
    emx_gso_rx_done(&p->rx, seen.len_bytes, first->len_bytes, first->marked);
    return emx_gso_rx_next(&p->rx, f, n, 0);
}

unsigned sim_packet_receive(struct sim_packet *p, const struct sim_frame *first, struct emx_rxframe *f, unsigned max,
                            unsigned *given_p)
{
    unsigned n = 0, taken = 0;
    size_t len_bytes;

    if (first->tso) {
        taken = first->joined ? packet_chunks(first, packet_frames(first, EMX_WIRE_BATCH, &len_bytes)) : 1;
        n = packet_receive_tso(p, first, taken, f);
    } else if (emx_gso_rx_places(&p->rx) && !emx_rng_chance(&p->rng, ALONE_PPM)) {
        n = packet_frames(first, max, &len_bytes);
        n = taken = packet_receive_gso(p, first, n, len_bytes, f);
    }
    for (unsigned i = 0; i < n; i++, first = first->next) {
        f[i].parts = first->joined ? EMX_WIRE_BATCH : 0;
        f[i].tso = first->tso;
        f[i].counts = first->counts;
        p->placed += f[i].body != NULL;
    }
    *given_p = n;
    return n ? taken : 0;
}
