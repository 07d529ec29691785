/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fragments: frames that have become too long for their route, because an MTU was lowered here, at the peer or between
 * while a job runs. New frames are shorter from then on (connect.c finds the length), and large messages are pulled in
 * shorter chunks (pull.c). But sequenced frames in the window were made before, and the peer waits for their numbers.
 * These are fragmented. The peer reassembles the frame and then handles it like any other.
 *
 * One frame is fragmented at a time, and all of it is retransmitted if necessary. Each fragment has the number of its
 * frame. So fragments of a later try fill the gaps of earlier ones, in any order: if frames get lost, all fragments
 * seldom arrive in one try. This is safe: the bytes of a frame are the same in each try, except for acknowledgement,
 * credit and check, which are at its beginning, in the first fragment. Finally the check of the frame is verified. If
 * it fails, the reassembly starts again.
 *
 * The receiver has PLACES places, each for a sequenced frame of maximum length and allocated only while in use. If more
 * are needed, the frame that is furthest ahead is dropped. So the frame to be handled next keeps its fragments, and the
 * session makes progress.
 */
#include <string.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/peer.h"
#include "core/rel/fragment.h"
#include "core/rel/seal.h"
#include "core/rel/session.h"
#include "core/rel/tag.h"
#include "core/rel/txbuf.h"

#define GSO_BYTES 28 /* headers of a frame in a GSO packet, beyond those of the Ethernet wire */
#define GRAIN     8  /* bytes: fragments begin and end at multiples of it; the last ends where the frame ends */
#define PLACES    4

struct emx_fragmenting {
    uint16_t len_bytes, sent_bytes; /* equal: no frame is being fragmented */
    uint8_t frame[] __attribute__((aligned(8)));
};

/* A place. */
struct emx_reassembly {
    struct emx_reassembly *next;
    uint32_t number;
    uint16_t total_bytes;
    uint16_t missing;                             /* grains */
    uint64_t got[EMX_SEQ_FRAME_MAX / GRAIN / 64]; /* bit i: grain i */
    uint8_t frame[] __attribute__((aligned(8)));
};

static_assert(EMX_SEQ_FRAME_MAX % (GRAIN * 64) == 0, "a bit for each grain");

/* ---- Out ---- */

bool emx_fragment_narrow(struct emx_session *s, uint16_t frame_bytes)
{
    if (!s->fragment.out) {
        s->fragment.out = emx_alloc_get(&s->e->alloc, sizeof(*s->fragment.out) + s->e->seq_frame_bytes);
        if (!s->fragment.out)
            return false;
        *s->fragment.out = (struct emx_fragmenting){0};
    }
    s->fragment.out->sent_bytes = s->fragment.out->len_bytes; /* its fragments were too long, too */
    s->frame_bytes = frame_bytes;
    if (s->gso_bytes > frame_bytes - GSO_BYTES)
        s->gso_bytes = (uint16_t)(frame_bytes - GSO_BYTES);
    if (s->fast_room)
        s->e->up->resized(s);
    return true;
}

/* i: index of the frame in its batch. The fragment is copied, because the next frame may be fragmented before the wire
 * has taken this one. */
bool emx_fragment_output(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, unsigned i)
{
    struct emx_frame *h = (void *)scratch->b;
    struct emx_f_fragment *t = (void *)(h + 1);
    struct emx_fragmenting *c = s->fragment.out;
    size_t n = (s->frame_bytes - sizeof(*h) - sizeof(*t)) & ~(size_t)(GRAIN - 1);
    uint8_t *body;

    if (c->sent_bytes == c->len_bytes)
        return false;
    body = emx_engine_stage(s->e, i);
    if (!body) {
        c->sent_bytes = c->len_bytes; /* gives up the frame */
        return false;
    }
    if (n > (size_t)(c->len_bytes - c->sent_bytes))
        n = c->len_bytes - c->sent_bytes;
    memcpy(body, c->frame + c->sent_bytes, n);
    *t = (struct emx_f_fragment){.number = ((const struct emx_frame *)(const void *)c->frame)->seq,
                                 .offset = c->sent_bytes,
                                 .total_bytes = c->len_bytes};
    emx_engine_head(s->e, s->peer, h, EMX_F_fragment, sizeof(*t) + n);
    emx_engine_stamp(s, h);
    *f = (struct emx_txframe){
        .to = &s->to, .head_bytes = sizeof(*h) + sizeof(*t), .body = body, .body_bytes = (uint16_t)n};
    emx_engine_seal(s, h, f, s->seal);
    c->sent_bytes = (uint16_t)(c->sent_bytes + n);
    emx_count(s->e, fragments_sent);
    return true;
}

/* The tag is omitted, because fragments have their own. */
bool emx_fragment_fit(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, unsigned i)
{
    size_t tag_bytes = emx_tag_bytes(s->e, s->link);
    size_t head_bytes = f->head_bytes - tag_bytes, len_bytes = head_bytes + f->body_bytes;
    struct emx_fragmenting *c = s->fragment.out;

    if (len_bytes <= s->frame_bytes) {
        f->gso = f->gso && len_bytes <= s->gso_bytes;
        return true;
    }
    if (len_bytes > s->e->seq_frame_bytes)
        return false; /* longer than any sequenced frame */
    memcpy(c->frame, (const uint8_t *)f->head + tag_bytes, head_bytes);
    if (f->body_bytes)
        memcpy(c->frame + head_bytes, f->body, f->body_bytes);
    c->len_bytes = (uint16_t)len_bytes;
    c->sent_bytes = 0;
    return emx_fragment_output(s, f, scratch, i);
}

/* ---- In ---- */

/* Distance of a frame from the next expected one. Frames that have arrived already are furthest. */
static uint32_t fragment_ahead(const struct emx_session *s, uint32_t number)
{
    return number - s->rx.next;
}

/* The pointer to the place of a frame; *at is NULL if it has none. */
static struct emx_reassembly **fragment_find(struct emx_session *s, uint32_t number)
{
    struct emx_reassembly **at = &s->fragment.in;

    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

static void fragment_give_up(struct emx_session *s, struct emx_reassembly **at)
{
    struct emx_reassembly *j = *at;

    *at = j->next;
    emx_alloc_put(&s->e->alloc, j);
}

/* Makes room for a frame of this number. false: all places have frames that are needed sooner. */
static bool fragment_make_room(struct emx_session *s, uint32_t number)
{
    struct emx_reassembly **furthest = &s->fragment.in;
    unsigned count = 0;

    for (struct emx_reassembly **at = &s->fragment.in; *at; at = &(*at)->next, count++)
        if (fragment_ahead(s, (*at)->number) > fragment_ahead(s, (*furthest)->number))
            furthest = at;
    if (count < PLACES)
        return true;
    if (fragment_ahead(s, (*furthest)->number) < fragment_ahead(s, number))
        return false;
    fragment_give_up(s, furthest);
    return true;
}

/* Allocates a place for a frame. Room is no question of memory: over a reliable wire the frame would be handled again
 * at once, and never find any. */
static enum emx_drop fragment_begin(struct emx_session *s, const struct emx_f_fragment *t, struct emx_reassembly **j_p)
{
    struct emx_reassembly *j;

    if (!fragment_make_room(s, t->number))
        return EMX_DROP_WINDOW;
    if (!(j = emx_alloc_get(&s->e->alloc, sizeof(*j) + t->total_bytes)))
        return EMX_DROP_MEMORY;
    *j = (struct emx_reassembly){.next = s->fragment.in,
                                 .number = t->number,
                                 .total_bytes = t->total_bytes,
                                 .missing = (t->total_bytes + GRAIN - 1) / GRAIN};
    s->fragment.in = *j_p = j;
    return EMX_ACCEPTED;
}

static enum emx_drop fragment_place(struct emx_session *s, const struct emx_f_fragment *t, struct emx_reassembly **j_p)
{
    struct emx_reassembly **at = fragment_find(s, t->number);

    *j_p = *at;
    if (*at && (*at)->total_bytes == t->total_bytes)
        return EMX_ACCEPTED;
    if (*at)
        fragment_give_up(s, at); /* one of the two lengths is wrong */
    return fragment_begin(s, t, j_p);
}

static void fragment_put(struct emx_reassembly *j, const struct emx_f_fragment *t, size_t n)
{
    memcpy(j->frame + t->offset, t + 1, n);
    for (size_t i = t->offset / GRAIN; i * GRAIN < t->offset + n; i++) {
        uint64_t bit = UINT64_C(1) << i % 64;

        j->missing -= !(j->got[i / 64] & bit);
        j->got[i / 64] |= bit;
    }
}

/* Other frames are short, and must not end the session while a fragment is handled. */
static bool fragment_is_cuttable(const struct emx_frame *h)
{
    return h->type < EMX_F_COUNT && emx_frame_info[h->type].sequenced;
}

static enum emx_drop fragment_handle_whole(struct emx_session *s, const struct emx_reassembly *j, emx_time now)
{
    const struct emx_frame *h = (const void *)j->frame;

    if (h->src_id != s->peer->id || h->seq != j->number || !fragment_is_cuttable(h))
        return EMX_DROP_MALFORMED;
    return s->e->up->dispatch(s->e, j->frame, j->total_bytes, now);
}

static bool fragment_is_valid(const struct emx_f_fragment *t, size_t n)
{
    if (t->total_bytes < sizeof(struct emx_frame) || t->total_bytes > EMX_SEQ_FRAME_MAX)
        return false;
    if (!n || t->offset % GRAIN || t->offset > t->total_bytes || n > (size_t)t->total_bytes - t->offset)
        return false;
    return n % GRAIN == 0 || t->offset + n == t->total_bytes;
}

enum emx_drop emx_fragment_input(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_fragment *t = (const void *)(h + 1);
    size_t n = h->body_bytes - sizeof(*t);
    struct emx_reassembly *j;
    enum emx_drop why;

    if (!fragment_is_valid(t, n))
        return EMX_DROP_MALFORMED;
    why = fragment_place(s, t, &j);
    if (why != EMX_ACCEPTED)
        return why;
    fragment_put(j, t, n);
    if (j->missing)
        return EMX_ACCEPTED;
    *fragment_find(s, j->number) = j->next;
    why = fragment_handle_whole(s, j, now);
    emx_alloc_put(&s->e->alloc, j);
    return why;
}

void emx_fragment_fini(struct emx_session *s)
{
    while (s->fragment.in)
        fragment_give_up(s, &s->fragment.in);
    emx_alloc_put(&s->e->alloc, s->fragment.out);
    s->fragment.out = NULL;
}
