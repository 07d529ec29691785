/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pieces: frames that have become too long for their route. Somebody lowers an MTU, here, at the peer or between, while
 * a job runs. New frames are made shorter from then on (connect.c finds out how long they may be), and large messages
 * are pulled in shorter chunks (pull.c). But the sequenced frames in the window were made before, and the peer waits
 * for their numbers. These are cut: the peer puts the pieces of a frame together and then handles it as if it had come
 * whole.
 *
 * One frame is cut at a time, and sent again as a whole. Each piece tells the number of its frame, and so those of a
 * later try fill the gaps that the earlier ones left, in any order: where frames get lost, 25 pieces seldom arrive all
 * at once. That is safe: a frame's bytes are the same each time but for what is stamped (acknowledgement, credit,
 * check), which lies at its beginning, in the first piece. The check of the frame decides in the end; one that fails is
 * put together from the start.
 *
 * The receiver has places for PLACES frames, none longer than sequenced frames are, which are there only while
 * something is in them. When more are wanted, the frame that is furthest ahead has to go. So the one that is to be
 * handled next keeps what it has, and the session moves on.
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

#define GSO_BYTES 28 /* what a frame in a GSO packet has before it, more than one of the own EtherType */
#define GRAIN     8  /* bytes: pieces begin and end at multiples of it; the last ends where the frame ends */
#define PLACES    4

struct emx_fragmenting {
    uint16_t len_bytes, sent_bytes; /* equal: nothing is being cut */
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
    s->fragment.out->sent_bytes = s->fragment.out->len_bytes; /* its pieces were too long, too */
    s->frame_bytes = frame_bytes;
    if (s->gso_bytes > frame_bytes - GSO_BYTES)
        s->gso_bytes = (uint16_t)(frame_bytes - GSO_BYTES);
    if (s->fast_room)
        s->e->up->resized(s);
    return true;
}

/* i: of the frame in its batch. The piece is copied: the next frame may be cut before the wire has taken this one. */
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
        c->sent_bytes = c->len_bytes; /* the frame is lost */
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

/* A tag does not count, and is left behind: the pieces have their own. */
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
        return false; /* none was ever so long */
    memcpy(c->frame, (const uint8_t *)f->head + tag_bytes, head_bytes);
    if (f->body_bytes)
        memcpy(c->frame + head_bytes, f->body, f->body_bytes);
    c->len_bytes = (uint16_t)len_bytes;
    c->sent_bytes = 0;
    return emx_fragment_output(s, f, scratch, i);
}

/* ---- In ---- */

/* How far a frame is from that which the session waits for. Those that came already are furthest. */
static uint32_t fragment_ahead(const struct emx_session *s, uint32_t number)
{
    return number - s->rx.next;
}

/* Where the place of a frame hangs; what hangs there is NULL if it has none. */
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

/* For a frame of this number. false: all places belong to frames that are needed sooner. */
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

/* A place for a frame that has none; NULL: no room or no memory. */
static struct emx_reassembly *fragment_begin(struct emx_session *s, const struct emx_f_fragment *t)
{
    struct emx_reassembly *j;

    if (!fragment_make_room(s, t->number) || !(j = emx_alloc_get(&s->e->alloc, sizeof(*j) + t->total_bytes)))
        return NULL;
    *j = (struct emx_reassembly){.next = s->fragment.in,
                                 .number = t->number,
                                 .total_bytes = t->total_bytes,
                                 .missing = (t->total_bytes + GRAIN - 1) / GRAIN};
    return s->fragment.in = j;
}

static struct emx_reassembly *fragment_place(struct emx_session *s, const struct emx_f_fragment *t)
{
    struct emx_reassembly **at = fragment_find(s, t->number), *j = *at;

    if (j && j->total_bytes == t->total_bytes)
        return j;
    if (j)
        fragment_give_up(s, at); /* one of the two is not true */
    return fragment_begin(s, t);
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

/* Others are short, and must not end the session from inside a piece. */
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
    j = fragment_place(s, t);
    if (!j)
        return EMX_DROP_MEMORY;
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
