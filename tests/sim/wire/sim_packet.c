/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim_packet.h"

#include <stdlib.h>
#include <string.h>

#define ALONE_PPM 300000 /* of the chances to receive a packet that are not taken */
#define BLIND_PPM 100000 /* of the packets that nothing is known of before */
#define WRONG_PPM 100000 /* of the packets that are taken for another */

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

unsigned sim_packet_receive(struct sim_packet *p, const struct sim_frame *first, struct emx_rxframe *f, unsigned max)
{
    struct emx_gso_seen seen = {.frame = first->data, .head_bytes = first->len_bytes};
    unsigned n, places;

    if (!emx_gso_rx_places(&p->rx) || emx_rng_chance(&p->rng, ALONE_PPM))
        return 0;
    n = packet_frames(first, max, &seen.len_bytes);
    if (first->next && emx_rng_chance(&p->rng, WRONG_PPM)) {
        seen.frame = first->next->data;
        seen.head_bytes = first->next->len_bytes;
    }
    places = emx_gso_rx_prepare(&p->rx, emx_rng_chance(&p->rng, BLIND_PPM) ? NULL : &seen);
    packet_scatter(p->rx.iov + 1, places, first, n);
    emx_gso_rx_done(&p->rx, seen.len_bytes, first->len_bytes, first->marked);
    n = emx_gso_rx_next(&p->rx, f, n, 0);
    for (unsigned i = 0; i < n; i++, first = first->next) {
        f[i].parts = first->joined ? EMX_WIRE_BATCH : 0;
        p->placed += f[i].body != NULL;
    }
    return n;
}
