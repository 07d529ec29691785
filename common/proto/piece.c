/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pieces: frames that have become too long for their route. Somebody lowers an MTU, here, at the peer or between, while
 * a job runs. New frames are made shorter from then on (connect.c finds out how long they may be). But some were made
 * before: those in the window, whose numbers the peer waits for, and the chunks of messages that were announced with
 * longer ones. These are cut: the peer puts the pieces of a frame together and then handles it as if it had come whole.
 *
 * One frame is cut at a time, and its pieces leave one after the other; so the receiver needs one place to put them
 * together, and takes them in order only. A piece that is missing or out of order costs its frame, which comes again as
 * any lost frame. The place is as long as the frame says, 64 KiB at most, and is there only where pieces came.
 */
#include "proto/impl.h"

#define SUPERFRAME_BYTES 28 /* what a frame in a superframe has before it, more than one of the own EtherType */

struct emx_cut {
    uint32_t number;
    uint32_t room_bytes;
    uint16_t len_bytes, sent_bytes; /* equal: nothing is being cut */
    uint8_t frame[];
};

struct emx_join {
    uint32_t number;
    uint32_t room_bytes;
    uint32_t total_bytes, got_bytes; /* 0 in all: none has begun */
    uint8_t frame[] __attribute__((aligned(8)));
};

/* ---- Out ---- */

bool emx_piece_narrow(struct emx_session *s, uint16_t frame_bytes)
{
    if (!s->cut) {
        s->cut = emx_alloc_get(&s->e->alloc, sizeof(*s->cut) + s->frame_bytes);
        if (!s->cut)
            return false;
        *s->cut = (struct emx_cut){.room_bytes = s->frame_bytes};
    }
    s->cut->sent_bytes = s->cut->len_bytes; /* its pieces were too long, too */
    s->frame_bytes = frame_bytes;
    if (s->bulk_bytes > frame_bytes - SUPERFRAME_BYTES)
        s->bulk_bytes = (uint16_t)(frame_bytes - SUPERFRAME_BYTES);
    if (s->quick_room)
        emx_quick_open(s);
    return true;
}

/* i: of the frame in its batch. The piece is copied: the next frame may be cut before the wire has taken this one. */
bool emx_piece_output(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, unsigned i)
{
    struct emx_frame *h = (void *)scratch->b;
    struct emx_f_piece *t = (void *)(h + 1);
    struct emx_cut *c = s->cut;
    size_t n = s->frame_bytes - sizeof(*h) - sizeof(*t);
    uint8_t *body;

    if (c->sent_bytes == c->len_bytes)
        return false;
    body = emx_engine_stage(s->e, i);
    if (!body) {
        c->sent_bytes = c->len_bytes; /* the frame is lost */
        return false;
    }
    if (n > (size_t)(c->len_bytes - c->sent_bytes))
        n = c->len_bytes - c->sent_bytes;
    memcpy(body, c->frame + c->sent_bytes, n);
    *t = (struct emx_f_piece){.number = c->number, .offset = c->sent_bytes, .total_bytes = c->len_bytes};
    emx_engine_head(s->e, s->peer, h, EMX_F_piece, sizeof(*t) + n);
    emx_engine_stamp(s, h);
    *f = (struct emx_txframe){
        .to = &s->to, .head_bytes = sizeof(*h) + sizeof(*t), .body = body, .body_bytes = (uint16_t)n};
    emx_engine_seal(s, h, f, s->seal);
    c->sent_bytes = (uint16_t)(c->sent_bytes + n);
    emx_count(s->e, pieces_sent);
    return true;
}

/* A tag does not count, and is left behind: the pieces have their own. */
bool emx_piece_fit(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, unsigned i)
{
    size_t tag_bytes = emx_tag_bytes(s->e, s->link);
    size_t head_bytes = f->head_bytes - tag_bytes, len_bytes = head_bytes + f->body_bytes;
    struct emx_cut *c = s->cut;

    if (len_bytes <= s->frame_bytes) {
        f->bulk = f->bulk && len_bytes <= s->bulk_bytes;
        return true;
    }
    if (len_bytes > c->room_bytes)
        return false; /* none was ever so long */
    memcpy(c->frame, (const uint8_t *)f->head + tag_bytes, head_bytes);
    if (f->body_bytes)
        memcpy(c->frame + head_bytes, f->body, f->body_bytes);
    c->number++;
    c->len_bytes = (uint16_t)len_bytes;
    c->sent_bytes = 0;
    return emx_piece_output(s, f, scratch, i);
}

/* ---- In ---- */

/* A place for a frame of so many bytes; NULL: no memory. */
static struct emx_join *begin(struct emx_session *s, const struct emx_f_piece *t)
{
    struct emx_join *j = s->join;

    if (!j || j->room_bytes < t->total_bytes) {
        emx_alloc_put(&s->e->alloc, j);
        s->join = j = emx_alloc_get(&s->e->alloc, sizeof(*j) + t->total_bytes);
        if (!j)
            return NULL;
        j->room_bytes = t->total_bytes;
    }
    j->number = t->number;
    j->total_bytes = t->total_bytes;
    j->got_bytes = 0;
    return j;
}

static bool is_next(const struct emx_join *j, const struct emx_f_piece *t)
{
    return j && j->number == t->number && j->total_bytes == t->total_bytes && j->got_bytes == t->offset;
}

/* Others are short, and must not end the session from inside a piece. */
static bool is_cuttable(const struct emx_frame *h)
{
    return h->type < EMX_F_COUNT && (emx_frame_info[h->type].sequenced || h->type == EMX_F_data);
}

static enum emx_drop handle_whole(struct emx_session *s, const struct emx_join *j, emx_time now)
{
    const struct emx_frame *h = (const void *)j->frame;

    if (h->src_id != s->peer->id || !is_cuttable(h))
        return EMX_DROP_MALFORMED;
    return emx_engine_dispatch(s->e, j->frame, j->total_bytes, now);
}

enum emx_drop emx_piece_input(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_piece *t = (const void *)(h + 1);
    size_t n = h->body_bytes - sizeof(*t);
    struct emx_join *j = s->join;

    if (!n || t->total_bytes < sizeof(*h) || t->offset > t->total_bytes || n > (size_t)t->total_bytes - t->offset)
        return EMX_DROP_MALFORMED;
    if (!t->offset) {
        if (!(j = begin(s, t)))
            return EMX_DROP_MEMORY;
    } else if (!is_next(j, t)) {
        return EMX_DROP_STALE;
    }
    memcpy(j->frame + t->offset, t + 1, n);
    j->got_bytes += (uint32_t)n;
    if (j->got_bytes < j->total_bytes)
        return EMX_ACCEPTED;
    j->got_bytes = 0; /* no piece that follows fits */
    return handle_whole(s, j, now);
}

void emx_piece_fini(struct emx_session *s)
{
    emx_alloc_put(&s->e->alloc, s->cut);
    emx_alloc_put(&s->e->alloc, s->join);
    s->cut = NULL;
    s->join = NULL;
}
