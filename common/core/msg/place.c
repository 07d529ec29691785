/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Place: where the data of pulled messages is to go.
 *
 * A sender replies to a pull with the wanted chunks in order, and wires join frames that follow each other. So the
 * frames of a packet whose first one has chunk n most often have the chunks n, n+1, n+2 ... of one message, in equal
 * length; the message's last chunk, which may be shorter, ends the packet. Where a frame was lost on the way and the
 * kernel has joined those before and behind it, the chunks that follow lie too low: they are moved up, the last first,
 * so that none is overwritten before it has moved.
 *
 * Only a chunk that is missing has a place, so what is written there by a wrong guess, by a damaged or by a forged
 * frame is overwritten when the chunk arrives. A frame whose checksum covers its data, or which has a tag, has none.
 */
#include "core/msg/place.h"

#include <string.h>

#include "base/min.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/msg/data.h"
#include "core/msg/op.h"
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

/* The pull of the message that this frame is a part of; NULL: none whose data can be placed. */
static struct emx_rndv *place_find_rndv(struct emx_engine *e, const uint8_t *head)
{
    const struct emx_frame *h = (const void *)head;
    struct emx_peer *p;
    struct emx_op *op;

    if (!emx_place_is_marked(head) || h->dst_id != e->self.id || e->tagged_links)
        return NULL;
    p = emx_peer_find(e, h->src_id);
    op = p && p->session ? emx_op_by_id(e, place_data_head(head)->rop, p->session) : NULL;
    if (!op || op->where != EMX_OP_PULLING || op->rndv->reading || op->rndv->had)
        return NULL;
    return op->rndv->chunk_bytes == place_data_head(head)->chunk_bytes ? op->rndv : NULL;
}

/* Bytes of a chunk of the message. */
static uint32_t place_chunk_bytes(const struct emx_rndv *r, uint64_t chunk)
{
    return (uint32_t)emx_min(r->chunk_bytes, r->op->msg_bytes - chunk * r->chunk_bytes);
}

/* Where the chunk belongs; at NULL: it is not missing, or its memory is not contiguous, or too short for it. */
static struct emx_place place_of_chunk(struct emx_rndv *r, uint64_t chunk)
{
    uint64_t offset = chunk * r->chunk_bytes;
    struct emx_place to = {.at = NULL};

    if (chunk >= r->chunks || !emx_rndv_find_block(r, chunk))
        return to;
    to.len_bytes = place_chunk_bytes(r, chunk);
    if (offset + to.len_bytes <= r->op->data.len_bytes)
        to.at = (void *)(uintptr_t)emx_data_piece(&r->op->data, offset, to.len_bytes);
    return to;
}

void emx_place_plan(void *arg, const uint8_t *head, size_t head_bytes, size_t len_bytes, struct emx_placement *p)
{
    struct emx_rndv *r = head_bytes < EMX_RNDV_HEAD_BYTES ? NULL : place_find_rndv(arg, head);
    struct emx_place to;

    p->count = 0;
    if (!r)
        return;
    p->head_bytes = EMX_RNDV_HEAD_BYTES;
    p->message = r;
    p->first = place_data_head(head)->chunk;
    for (size_t left = len_bytes; p->count < EMX_WIRE_BATCH && left > EMX_RNDV_HEAD_BYTES;
         left -= EMX_RNDV_HEAD_BYTES + to.len_bytes) {
        to = place_of_chunk(r, p->first + p->count);
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

    return emx_place_is_marked(head) && f->rop == r->op->id && f->chunk_bytes == r->chunk_bytes &&
           h->body_bytes == sizeof(*f) + len_bytes;
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
        to[i] = place_of_chunk(r, chunk);
        if (!to[i].at || to[i].len_bytes != p->place[i].len_bytes)
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
