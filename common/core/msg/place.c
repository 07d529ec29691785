/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Place: where the data of pulled messages is to go.
 *
 * A sender replies to a pull with the wanted chunks in order, and wires join frames that follow each other. So the
 * frames of a packet whose first one has chunk n most often have the chunks n, n+1, n+2 ... of one message, in equal
 * length; the message's last chunk, which may be shorter, ends the packet. Where a frame was lost on the way and the
 * kernel has joined those before and behind it, the chunks that follow lie too low: they are moved up, the last first,
 * so that none is overwritten before it has moved. A frame that has several chunks is the only one of its packet.
 *
 * Only a chunk that is missing has a place, so what is written there by a wrong guess, by a damaged or by a forged
 * frame is overwritten when the chunk arrives. A frame whose checksum covers its data, or which has a tag, has none.
 *
 * chunk.c has the places of eager messages. Such a plan has no message.
 */
#include "core/msg/place.h"

#include <string.h>

#include "base/min.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/msg/chunk.h"
#include "core/msg/data.h"
#include "core/msg/op.h"
#include "core/msg/push.h"
#include "core/msg/rndv.h"
#include "core/peer.h"
#include "core/session_impl.h"

static_assert(EMX_PLACE_MARK_OFF == (EMX_FRAME_V_OFF << 8 | EMX_F_data), "version and type");
static_assert(EMX_PLACE_MARK_HEADER == (EMX_FRAME_V_HEADER << 8 | EMX_F_data), "version and type");
static_assert(sizeof(struct emx_place_head) == EMX_RNDV_HEAD_BYTES, "head");
static_assert(EMX_PLACE_FRAME_BYTES == sizeof(struct emx_frame), "head");
static_assert(offsetof(struct emx_place_head, body_bytes) == offsetof(struct emx_frame, body_bytes), "head");
static_assert(offsetof(struct emx_place_head, check) == offsetof(struct emx_frame, check), "head");
static_assert(offsetof(struct emx_place_head, chunk_bytes) - EMX_PLACE_FRAME_BYTES ==
                  offsetof(struct emx_f_data, chunk_bytes),
              "head");
static_assert(offsetof(struct emx_place_head, chunk) - EMX_PLACE_FRAME_BYTES == offsetof(struct emx_f_data, chunk),
              "head");
static_assert(EMX_RNDV_HEAD_BYTES <= EMX_PLACE_HEAD_BYTES, "a wire stores heads apart");

bool emx_place_expects(const void *arg)
{
    const struct emx_engine *e = arg;

    return e->pulling_bytes || e->away_bytes || e->rail_bytes;
}

static const struct emx_f_data *place_data_head(const uint8_t *head)
{
    return (const void *)(head + sizeof(struct emx_frame));
}

/* The session whose data this is; NULL: of none, or it can have no place. */
static struct emx_session *place_find_session(struct emx_engine *e, const uint8_t *head, size_t head_bytes)
{
    const struct emx_frame *h = (const void *)head;
    struct emx_peer *p;

    if (head_bytes < EMX_RNDV_HEAD_BYTES || !emx_place_is_marked(head) || h->dst_id != e->self.id || e->tagged_links)
        return NULL;
    p = emx_peer_find(e, h->src_id);
    return p ? p->session : NULL;
}

bool emx_place_is_early(void *arg, const uint8_t *head, size_t head_bytes)
{
    struct emx_session *s;

    if (head_bytes < EMX_RNDV_HEAD_BYTES || !place_data_head(head)->pushed) /* as most: the peer need not be found */
        return false;
    s = place_find_session(arg, head, head_bytes);
    return s && emx_push_is_early(s, place_data_head(head));
}

/* The pull of the message that this frame is a part of; NULL: none whose data can be placed. */
static struct emx_rndv *place_find_rndv(struct emx_engine *e, const uint8_t *head, size_t head_bytes)
{
    struct emx_session *s = place_find_session(e, head, head_bytes);
    struct emx_rndv *r = s ? emx_rndv_of_data(s, place_data_head(head)) : NULL;

    return r && !r->reading && !r->had ? r : NULL;
}

/* Bytes of as many chunks of the message as len_bytes takes. */
static uint32_t place_bytes(const struct emx_rndv *r, uint64_t chunk, uint64_t len_bytes)
{
    return (uint32_t)emx_min(len_bytes, r->op->msg_bytes - chunk * r->chunk_bytes);
}

/* Where len_bytes of data belong, which begin with this chunk; at NULL: some of it is not missing, or its memory is not
 * contiguous, or too short for it, or the data does not end with a chunk. */
static struct emx_place place_of(struct emx_rndv *r, uint64_t chunk, uint32_t len_bytes)
{
    uint64_t offset = chunk * r->chunk_bytes, end = chunk + emx_rndv_chunks(len_bytes, r->chunk_bytes);
    struct emx_place to = {.at = NULL, .len_bytes = len_bytes};
    struct emx_block *b;

    if (!emx_rndv_has_chunks(r, chunk, len_bytes) || offset + len_bytes > r->op->data.len_bytes)
        return to;
    while (chunk < end) {
        unsigned n = emx_rndv_missing(r, chunk, &b);

        if (!n)
            return to;
        chunk += n;
    }
    to.at = (void *)(uintptr_t)emx_data_piece(&r->op->data, offset, len_bytes);
    return to;
}

/* Bytes of the data of a frame with this head, if it is the first of a packet. */
static uint32_t place_first_bytes(const struct emx_rndv *r, const uint8_t *head)
{
    const struct emx_frame *h = (const void *)head;
    unsigned body_bytes = h->body_bytes;

    if (body_bytes > sizeof(struct emx_f_data) + r->chunk_bytes)
        return body_bytes - (unsigned)sizeof(struct emx_f_data);
    return r->chunk_bytes;
}

void emx_place_plan(void *arg, const uint8_t *head, size_t head_bytes, size_t len_bytes, struct emx_placement *p)
{
    struct emx_rndv *r = place_find_rndv(arg, head, head_bytes);
    uint32_t first_bytes;
    struct emx_place to;

    p->count = 0;
    if (head_bytes >= EMX_RNDV_HEAD_BYTES && head[1] == EMX_F_chunk)
        emx_chunk_plan(arg, head, len_bytes, p);
    if (!r)
        return;
    p->head_bytes = EMX_RNDV_HEAD_BYTES;
    p->message = r;
    p->first = place_data_head(head)->chunk;
    first_bytes = place_first_bytes(r, head);
    for (size_t left = len_bytes; p->count < EMX_WIRE_BATCH && left > EMX_RNDV_HEAD_BYTES;
         left -= EMX_RNDV_HEAD_BYTES + to.len_bytes) {
        uint64_t chunk = p->first + p->count;

        if (chunk >= r->chunks || (p->count && first_bytes > r->chunk_bytes))
            return;
        to = place_of(r, chunk, place_bytes(r, chunk, first_bytes));
        if (!to.at || left < EMX_RNDV_HEAD_BYTES + to.len_bytes)
            return;
        p->place[p->count++] = to;
    }
}

/* Whether a frame has data of this length of the message. */
static bool place_is_of(const struct emx_rndv *r, const uint8_t *head, uint32_t len_bytes)
{
    const struct emx_frame *h = (const void *)head;
    const struct emx_f_data *f = place_data_head(head);

    return emx_place_is_marked(head) && f->rop == (f->pushed ? r->sender_op : r->op->id) &&
           f->chunk_bytes == r->chunk_bytes && h->body_bytes == sizeof(*f) + len_bytes;
}

/* Finds the true places of frames from `from` on. false: of some there is none, or they are not in order. */
static bool place_find_true(const struct emx_placement *p, const uint8_t *head, size_t stride, unsigned from,
                            unsigned n, struct emx_place *to)
{
    struct emx_rndv *r = p->message;
    uint64_t least = p->first + from;

    for (unsigned i = from; i < n; i++) {
        const uint8_t *h = head + i * stride;
        uint64_t chunk = place_data_head(h)->chunk;

        if (!place_is_of(r, h, p->place[i].len_bytes) || chunk < least)
            return false;
        to[i] = place_of(r, chunk, p->place[i].len_bytes);
        if (!to[i].at)
            return false;
        least = chunk + 1;
    }
    return true;
}

unsigned emx_place_settle(void *arg, struct emx_placement *p, const uint8_t *head, size_t stride, unsigned n)
{
    struct emx_place to[EMX_WIRE_BATCH];
    struct emx_engine *e = arg;
    unsigned right = 0;

    if (!p->message)
        return emx_chunk_is_planned(e, p, head);
    while (right < n && place_is_of(p->message, head + right * stride, p->place[right].len_bytes) &&
           place_data_head(head + right * stride)->chunk == p->first + right)
        right++;
    if (right == n || !place_find_true(p, head, stride, right, n, to))
        return right;
    for (unsigned i = n; i-- > right;) {
        memmove(to[i].at, p->place[i].at, to[i].len_bytes);
        emx_add(e, bytes_copied, to[i].len_bytes);
        p->place[i] = to[i];
    }
    return n;
}
