/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tags: with ETHMX_AUTH=on each frame proves that it was made by a process of the job, for this receiver, and is not a
 * replay.
 *
 * Keys. Each endpoint draws a secret when it is opened, and its address has it. Outsiders cannot see the launcher's
 * exchange of addresses, but they can see hellos, so the address in a hello omits the secret. A key belongs to a pair
 * and a direction: it is derived from the receiver's secret and both ids. So a process that did not get an address from
 * the launcher cannot send to it, and the receiver needs no knowledge of the sender to check its first frame. A process
 * that gets a hello from an unknown one (MPI_Comm_accept) does not know its secret. It derives the key from its own
 * secret, which the other must have to have sent the hello. Ids and secrets are new for each endpoint, so no recorded
 * frame of a former endpoint fits a key again.
 *
 * Numbers. Frames of a session are numbered as they leave, including retransmissions and frames without a sequence
 * number, and the tag covers the number. The receiver accepts none twice (replay.h). It must accept strong reordering,
 * because frames in GSO packets wait in a separate ring.
 *
 * The tag is SipHash-2-4 of number and first bytes, with one key, xor SipHash-2-4 of the rest with another (Wegman and
 * Carter: the first is different for each frame, and hides the second). So data in another place need not be gathered,
 * and a short frame needs only the first. The tag covers the bytes, regardless of the type.
 *
 * Links to which the kernel admits only processes of the same user (guarded) carry no tags, because such a process can
 * read the secret from memory anyway.
 */
#include <string.h>

#include "base/keyed_hash.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/peer.h"
#include "core/rel/replay.h"
#include "core/rel/session.h"
#include "core/rel/tag.h"

#define FIRST_BYTES                                                                                                    \
    sizeof(((struct emx_scratch *)0)->b) /* covered by the first key; more than all that precedes data */

static_assert(EMX_ADDRESS_SECRET == EMX_KEYED_HASH_BYTES, "secret");

/* ---- Keys ---- */

static void tag_derive(const uint8_t *secret, enum emx_tag_key whose, uint32_t from, uint32_t to,
                       struct emx_tag_keys *k)
{
    const struct EMX_LAYOUT {
        char purpose[9];
        uint8_t whose;
        uint32_t from, to;
    } what = {{'e', 't', 'h', 'm', 'x', ' ', 't', 'a', 'g'}, (uint8_t)whose, from, to};

    emx_keyed_hash_derive(secret, &what, sizeof(what), k, sizeof(*k));
}

bool emx_tag_open(struct emx_session *s)
{
    struct emx_engine *e = s->e;
    const struct emx_address *a;

    if (!e->tagged_links)
        return true;
    s->tags = emx_alloc_get(&e->alloc, sizeof(*s->tags));
    if (!s->tags)
        return false;
    memset(s->tags, 0, sizeof(*s->tags));
    s->tags->sent = (uint64_t)e->removals << 40; /* after those of an earlier session */
    a = emx_peer_address(e, s->peer);
    if (a->has_secret) {
        s->tags->whose = EMX_TAG_OF_RECEIVER;
        tag_derive(a->secret, EMX_TAG_OF_RECEIVER, e->self.id, a->id, &s->tags->out);
    } else {
        s->tags->whose = EMX_TAG_OF_SENDER;
        tag_derive(e->self.secret, EMX_TAG_OF_SENDER, e->self.id, a->id, &s->tags->out);
    }
    return true;
}

/* Finds the keys of a frame from this id, whose peer may be unknown. false: there are none. */
static bool tag_find_keys(struct emx_engine *e, const struct emx_peer *p, uint32_t from, unsigned whose,
                          struct emx_tag_keys *k)
{
    const uint8_t *secret = e->self.secret;

    if (whose >= EMX_TAG_KEYS)
        return false;
    if (whose == EMX_TAG_OF_SENDER) {
        if (!p || !emx_peer_address(e, p)->has_secret)
            return false;
        secret = e->decoded.secret;
    }
    tag_derive(secret, whose, from, e->self.id, k);
    return true;
}

/* The same, stored in the session if there is one. */
static const struct emx_tag_keys *tag_keys_of(struct emx_engine *e, const struct emx_peer *p, const struct emx_tag *t,
                                              uint32_t from, struct emx_tag_keys *made)
{
    struct emx_tags *g = p && p->session ? p->session->tags : NULL;

    if (!g || t->key >= EMX_TAG_KEYS)
        return tag_find_keys(e, p, from, t->key, made) ? made : NULL;
    if (!g->have[t->key])
        g->have[t->key] = tag_find_keys(e, p, from, t->key, &g->in[t->key]);
    return g->have[t->key] ? &g->in[t->key] : NULL;
}

/* ---- Tags ---- */

/* Computes the tag of the number, the first bytes that follow t, and the rest of the frame. */
static uint64_t tag_compute(const struct emx_tag_keys *k, const struct emx_tag *t, size_t first_bytes, const void *rest,
                            size_t rest_bytes)
{
    uint64_t tag = emx_keyed_hash(k->first, &t->number, sizeof(t->number) + first_bytes);

    return rest_bytes ? tag ^ emx_keyed_hash(k->rest, rest, rest_bytes) : tag;
}

/* Moves data behind the header up to the end of the first key's range. */
static void tag_gather(struct emx_frame *h, struct emx_txframe *f)
{
    size_t n = FIRST_BYTES - f->head_bytes;

    if (n > f->body_bytes)
        n = f->body_bytes;
    memcpy((uint8_t *)h + f->head_bytes, f->body, n);
    f->head_bytes += (uint16_t)n;
    f->body_bytes -= (uint16_t)n;
    f->body = f->body_bytes ? (const uint8_t *)f->body + n : NULL;
}

void emx_tag_put(struct emx_session *s, struct emx_frame *h, struct emx_txframe *f)
{
    struct emx_tag *t = (struct emx_tag *)(void *)h - 1;
    const void *rest = f->body;
    size_t first_bytes, rest_bytes;

    emx_frame_seal(h, f->head_bytes, NULL, 0, EMX_CHECKSUM_OFF);
    if (f->body_bytes) {
        tag_gather(h, f);
        first_bytes = f->head_bytes;
        rest = f->body;
        rest_bytes = f->body_bytes;
    } else {
        first_bytes = f->head_bytes < FIRST_BYTES ? f->head_bytes : FIRST_BYTES;
        rest = (const uint8_t *)h + first_bytes;
        rest_bytes = f->head_bytes - first_bytes;
    }
    *t = (struct emx_tag){.version = EMX_FRAME_V_TAGGED,
                          .key = s->tags->whose,
                          .frame_bytes = (uint16_t)(sizeof(*h) + h->body_bytes),
                          .dst_id = h->dst_id,
                          .number = ++s->tags->sent};
    t->tag = tag_compute(&s->tags->out, t, first_bytes, rest, rest_bytes);
    f->head = t;
    f->head_bytes += sizeof(*t);
}

/* A frame without a tag: returns the reason for which it would be dropped anyway, or the missing tag. */
static enum emx_drop tag_untagged(const struct emx_engine *e, const uint8_t *data, uint32_t len_bytes)
{
    enum emx_drop why = emx_frame_check(data, len_bytes, e->self.id, e->self.cookie);

    return why == EMX_ACCEPTED ? EMX_DROP_FORGED : why;
}

/* Detects foreign frames without hashing. */
static enum emx_drop tag_is_valid(const struct emx_engine *e, const uint8_t *data, uint32_t len_bytes)
{
    const struct emx_tag *t = (const void *)data;
    const struct emx_frame *h = (const void *)(t + 1);

    if (len_bytes < sizeof(*t) + sizeof(*h))
        return EMX_DROP_SHORT;
    if (t->dst_id != e->self.id)
        return EMX_DROP_NOT_MINE;
    if (t->frame_bytes < sizeof(*h) || t->frame_bytes > len_bytes - sizeof(*t))
        return EMX_DROP_SHORT;
    return h->cookie == e->self.cookie ? EMX_ACCEPTED : EMX_DROP_COOKIE;
}

/* Without a session only a hello is accepted. */
static bool tag_is_expected(const struct emx_session *s, const struct emx_frame *h)
{
    if (s && emx_session_over(s))
        return false;
    return h->type == EMX_F_hello || (s && s->state != EMX_S_ROUTES);
}

enum emx_drop emx_tag_check(struct emx_engine *e, const uint8_t *data, uint32_t len_bytes)
{
    const struct emx_tag *t = (const void *)data;
    const struct emx_frame *h = (const void *)(t + 1);
    const struct emx_tag_keys *k;
    struct emx_tag_keys made;
    struct emx_session *s;
    struct emx_peer *p;
    size_t first_bytes;
    enum emx_drop why;

    if (!len_bytes || t->version != EMX_FRAME_V_TAGGED)
        return tag_untagged(e, data, len_bytes);
    why = tag_is_valid(e, data, len_bytes);
    if (why != EMX_ACCEPTED)
        return why;
    p = emx_peer_find(e, h->src_id);
    s = p ? p->session : NULL;
    if (!tag_is_expected(s, h))
        return EMX_DROP_NO_SESSION;
    k = tag_keys_of(e, p, t, h->src_id, &made);
    first_bytes = t->frame_bytes < FIRST_BYTES ? t->frame_bytes : FIRST_BYTES;
    if (!k || tag_compute(k, t, first_bytes, (const uint8_t *)h + first_bytes, t->frame_bytes - first_bytes) != t->tag)
        return EMX_DROP_FORGED;
    return !s || emx_replay_take(&s->tags->seen, t->number) ? EMX_ACCEPTED : EMX_DROP_REPLAYED;
}

void emx_tag_greeted(struct emx_engine *e, const uint8_t *data)
{
    const struct emx_tag *t = (const void *)data;
    const struct emx_frame *h = (const void *)(t + 1);
    struct emx_peer *p = emx_peer_find(e, h->src_id);

    if (p && p->session && p->session->tags)
        emx_replay_take(&p->session->tags->seen, t->number);
}
