/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/gso_rx.h"

#include <stdlib.h>
#include <string.h>

#include "base/min.h"

bool emx_gso_rx_init(struct emx_gso_rx *r, const struct emx_placer *placer, struct emx_stats *stats)
{
    *r = (struct emx_gso_rx){.placer = placer, .stats = stats};
    r->buffer = aligned_alloc(64, EMX_GSO_RX_BYTES);
    r->head = aligned_alloc(64, EMX_WIRE_BATCH * sizeof(*r->head));
    return r->buffer && r->head;
}

void emx_gso_rx_fini(struct emx_gso_rx *r)
{
    free(r->buffer);
    free(r->head);
    *r = (struct emx_gso_rx){0};
}

/* Bytes of a frame of the plan. */
static size_t gso_rx_planned_bytes(const struct emx_gso_rx *r, unsigned i)
{
    return (size_t)r->plan.head_bytes + r->plan.place[i].len_bytes;
}

/* Eager messages have places where the packet is one frame. Whether they are expected is not known. */
static bool gso_rx_is_eager(const void *frame, size_t head_bytes)
{
    return head_bytes >= sizeof(struct emx_place_head) &&
           ((const struct emx_place_head *)frame)->type == EMX_PLACE_EAGER;
}

unsigned emx_gso_rx_prepare(struct emx_gso_rx *r, const struct emx_gso_seen *seen)
{
    struct iovec *iov = r->iov + 1;
    size_t at = 0;

    r->plan.count = 0;
    if (seen && !gso_rx_is_eager(seen->frame, seen->head_bytes) && emx_gso_rx_places(r))
        r->placer->plan(r->placer->arg, seen->frame, seen->head_bytes, seen->len_bytes, &r->plan);
    for (unsigned i = 0; i < r->plan.count; i++) {
        *iov++ = (struct iovec){.iov_base = r->head[i], .iov_len = r->plan.head_bytes};
        *iov++ = (struct iovec){.iov_base = r->plan.place[i].at, .iov_len = r->plan.place[i].len_bytes};
        at += gso_rx_planned_bytes(r, i);
    }
    *iov++ = (struct iovec){.iov_base = r->buffer + at, .iov_len = EMX_GSO_RX_BYTES - at};
    return (unsigned)(iov - (r->iov + 1));
}

unsigned emx_gso_rx_prepare_data(struct emx_gso_rx *r, const void *first, unsigned head_bytes, size_t data_bytes)
{
    struct iovec *iov = r->iov + 1;
    size_t at = head_bytes;

    r->plan.count = 0;
    if (gso_rx_is_eager(first, head_bytes) ? emx_gso_rx_may_place(r) : emx_gso_rx_places(r))
        r->placer->plan(r->placer->arg, first, head_bytes, head_bytes + data_bytes, &r->plan);
    if (r->plan.count) {
        r->plan.count = 1;
        *iov++ = (struct iovec){.iov_base = r->plan.place[0].at, .iov_len = r->plan.place[0].len_bytes};
        at += r->plan.place[0].len_bytes;
    }
    *iov++ = (struct iovec){.iov_base = r->buffer + at, .iov_len = EMX_GSO_RX_BYTES - at};
    return (unsigned)(iov - (r->iov + 1));
}

uint8_t *emx_gso_rx_head(struct emx_gso_rx *r)
{
    return r->plan.count ? r->head[0] : r->buffer;
}

/* How many frames the kernel has cut where the plan does. */
static unsigned gso_rx_planned_well(const struct emx_gso_rx *r, size_t len_bytes, size_t part_bytes)
{
    unsigned n = 0;

    for (size_t left = len_bytes; n < r->plan.count; n++) {
        if (emx_min(left, part_bytes) != gso_rx_planned_bytes(r, n))
            break;
        left -= gso_rx_planned_bytes(r, n);
    }
    return n;
}

/* Copies len_bytes of the frames from number i on to where they would be without places. */
static void gso_rx_gather(struct emx_gso_rx *r, unsigned i, size_t len_bytes)
{
    size_t at = i * gso_rx_planned_bytes(r, 0);

    for (; i < r->plan.count && at < len_bytes; i++) {
        size_t head_bytes = emx_min(r->plan.head_bytes, len_bytes - at), body_bytes;

        memcpy(r->buffer + at, r->head[i], head_bytes);
        at += head_bytes;
        body_bytes = emx_min(r->plan.place[i].len_bytes, len_bytes - at);
        memcpy(r->buffer + at, r->plan.place[i].at, body_bytes);
        at += body_bytes;
        r->stats->bytes_copied += body_bytes;
    }
}

void emx_gso_rx_done(struct emx_gso_rx *r, size_t len_bytes, size_t part_bytes, bool marked)
{
    const void *first_place = r->plan.place[0].at;
    size_t done_bytes;
    unsigned n;

    r->next = r->placed = 0;
    r->missed = false;
    emx_gso_open_frames(&r->rest, r->buffer, len_bytes, part_bytes);
    r->rest.marked = marked;
    r->tso = r->counts = false;
    r->parts = r->rest.parts > 1 ? (uint8_t)emx_min(r->rest.parts, UINT8_MAX) : 0;
    if (!r->plan.count)
        return;
    n = gso_rx_planned_well(r, len_bytes, r->rest.part_bytes);
    if (n)
        r->placed = r->placer->settle(r->placer->arg, &r->plan, r->head[0], sizeof(r->head[0]), n);
    gso_rx_gather(r, r->placed, len_bytes);
    r->missed = !r->placed || r->plan.place[0].at != first_place;
    done_bytes = emx_min(r->placed * (size_t)r->rest.part_bytes, len_bytes);
    r->rest.at += done_bytes;
    r->rest.left_bytes -= (uint32_t)done_bytes;
}

void emx_gso_rx_failed(struct emx_gso_rx *r, bool fault)
{
    r->refused |= fault && r->plan.count;
    r->next = r->placed = 0;
    r->rest.left_bytes = 0;
}

void emx_gso_rx_lost(struct emx_gso_rx *r)
{
    emx_gso_rx_failed(r, false);
    r->parts = 0;
    r->missed = true;
    r->stats->wire_lost++;
}

/* The next frame whose data is in its place, or one of the others. */
static bool gso_rx_take(struct emx_gso_rx *r, struct emx_rxframe *f)
{
    unsigned i = r->next;

    *f = (struct emx_rxframe){.parts = r->parts, .marked = r->rest.marked, .tso = r->tso, .counts = r->counts};
    r->parts = 0;
    r->counts = false;
    if (i == r->placed) {
        f->data = emx_gso_next(&r->rest, &f->len_bytes);
        return f->data;
    }
    r->next++;
    f->data = r->head[i];
    f->len_bytes = (uint32_t)gso_rx_planned_bytes(r, i);
    f->body = r->plan.place[i].at;
    return true;
}

unsigned emx_gso_rx_next(struct emx_gso_rx *r, struct emx_rxframe *f, unsigned max, uint32_t cookie)
{
    unsigned n = 0;

    while (n < max && emx_gso_rx_is_open(r) && gso_rx_take(r, &f[n]))
        f[n++].cookie = cookie;
    return n;
}
