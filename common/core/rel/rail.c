/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rails. If several routes of a session leave through cards of their own, each is a rail: number 0 is the session's
 * route, the others follow in the order of the routes. The session's route carries all frames. The others carry data of
 * large messages only, so that order, acknowledgements and credit stay as they are.
 *
 * Each side has its own rails. A pull says over which of the sender's rails the data is to come, so both need not
 * number the cards alike, and data says over which it has come. The receiver has a round trip and a count of what it
 * has requested for each rail of its peer, and a pace for each number, which all peers share: msg/pull_rail.c chooses.
 * Pulls are short and travel over the session's route.
 *
 * The receiver uses a rail after a full-sized frame has arrived over it. It asks for one (rail) when it pulls a
 * message, and again at increasing distances while no answer comes. A rail whose data does not arrive while that of
 * others does is set aside after EMX_RAIL_FAILURES time-outs, until a frame arrives over it again. Rail 0 needs no
 * such frame at first, and stays if there is no other.
 *
 * If the session moves to another route (connect.c), the rails keep their numbers, and another is the session's route.
 * If that leaves through a card without a number, it takes the place of the route that the session has left. Data that
 * is requested over a route that was left is sent over the one in use.
 *
 * Both sides need as many cards: two cards of the sender that lead to one of the receiver would only fill its queue.
 */
#include "core/rel/rail.h"

#include <string.h>

#include "base/min.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/rel/connect.h"
#include "core/rel/seal.h"
#include "core/rel/session.h"
#include "core/rel/tag.h"

#define TRY_NS     10000000    /* from the first try to the second; doubles */
#define TRY_MAX_NS 10000000000 /* at most */
#define SHORT_PART 2           /* a route is no rail if its frames are shorter than the session's by this factor */

/* ---- Life ---- */

/* Over connections devices move large messages, and a guess was not tried. */
static bool rail_is_possible(const struct emx_session *s, const struct emx_route *r)
{
    return !r->reliable && !r->connected && !r->guess && r->frame_bytes >= s->frame_bytes / SHORT_PART;
}

/* Lists the routes that are rails; returns how many. */
static unsigned rail_list(const struct emx_session *s, const struct emx_route *rail[EMX_RAILS_MAX])
{
    const struct emx_connect *c = s->connect;
    unsigned most = s->e->cfg->p_rails ? (unsigned)s->e->cfg->p_rails : EMX_RAILS_MAX, n = 1;

    rail[0] = emx_connect_route(s);
    if (!rail_is_possible(s, rail[0]))
        return 1;
    for (unsigned i = 0; i < c->count && n < most; i++) {
        bool other = rail_is_possible(s, &c->route[i]);

        for (unsigned j = 0; j < n; j++)
            other = other && c->route[i].card != rail[j]->card;
        if (other)
            rail[n++] = &c->route[i];
    }
    return n;
}

static void rail_take_route(struct emx_rail *k, const struct emx_route *r)
{
    struct emx_engine *e = k->rails->s->e;
    unsigned tag_bytes = emx_tag_bytes(e, r->link);

    k->to = r->to;
    k->link = r->link;
    k->card = r->card;
    k->left = !emx_route_carries(r);
    k->seal = (uint8_t)emx_tag_level(e, r->link, (unsigned)e->cfg->p_checksum);
    k->frame_bytes = (uint16_t)(r->frame_bytes - tag_bytes);
    k->gso_bytes = r->gso_bytes ? (uint16_t)(r->gso_bytes - tag_bytes) : 0;
    k->tso = r->tso;
}

static void rail_init(struct emx_rails *t, struct emx_rail *k, const struct emx_route *r)
{
    *k = (struct emx_rail){.rails = t, .pause_ns = TRY_NS};
    emx_list_init(&k->ready);
    emx_list_init(&k->requests);
    emx_rtt_init(&k->block_rtt, t->s->e->cfg);
    rail_take_route(k, r);
}

bool emx_rails_open(struct emx_session *s)
{
    const struct emx_route *rail[EMX_RAILS_MAX];
    struct emx_rails *t;
    unsigned n;

    if (s->rails)
        return true;
    if (s->state != EMX_S_CONNECTED || s->connect->count < 2 || s->e->cfg->p_rails == 1)
        return false;
    n = rail_list(s, rail);
    if (n < 2 || !(t = emx_alloc_get(&s->e->alloc, sizeof(*t))))
        return false;
    *t = (struct emx_rails){.s = s, .count = n, .number = (uint32_t)emx_rng_next(&s->e->rng)};
    for (unsigned i = 0; i < n; i++)
        rail_init(t, &t->rail[i], rail[i]);
    t->rail[0].usable = true;
    s->rails = t;
    s->e->railed++;
    return true;
}

/* The rail through the same card as the route; if there is none, the one that the session has left. */
static unsigned rail_of_route(const struct emx_rails *t, const struct emx_route *r)
{
    for (unsigned i = 0; i < t->count; i++)
        if (t->rail[i].card == r->card)
            return i;
    return t->first;
}

/* The rail that was the session's route until now may have things to send by itself, over a link of its own. */
void emx_rails_moved(struct emx_session *s)
{
    const struct emx_route *r = emx_connect_route(s);
    struct emx_rails *t = s->rails;
    struct emx_rail *k;

    t->rail[t->first].left = true;
    t->first = rail_of_route(t, r);
    k = &t->rail[t->first];
    emx_list_del(&k->ready);
    rail_take_route(k, r);
    if (k->answer_due)
        emx_rail_ready(k);
}

void emx_rails_quiesce(struct emx_session *s)
{
    for (unsigned i = 0; s->rails && i < s->rails->count; i++)
        emx_list_del(&s->rails->rail[i].ready);
}

void emx_rails_close(struct emx_session *s)
{
    if (!s->rails)
        return;
    emx_rails_quiesce(s);
    emx_alloc_put(&s->e->alloc, s->rails);
    s->rails = NULL;
    s->e->railed--;
}

unsigned emx_rails_first(const struct emx_session *s)
{
    return s->rails ? s->rails->first : 0;
}

unsigned emx_rails_count(const struct emx_session *s)
{
    return s->rails ? s->rails->count : 1;
}

/* ---- Whether a rail carries frames ---- */

void emx_rails_ask(struct emx_session *s, emx_time now)
{
    struct emx_rails *t = s->rails;

    for (unsigned i = 0; i < t->count; i++) {
        struct emx_rail *k = &t->rail[i];

        if (k->usable || now < k->try_ns)
            continue;
        t->ask_due |= 1u << i;
        k->try_ns = now + k->pause_ns;
        k->pause_ns = emx_min(2 * k->pause_ns, TRY_MAX_NS);
        emx_session_ready(s);
    }
}

void emx_rail_heard(struct emx_rail *k, emx_time now)
{
    k->heard_ns = now;
    k->failures = 0;
    if (k->usable)
        return;
    k->usable = true;
    k->pause_ns = TRY_NS;
    emx_count(k->rails->s->e, rails_found);
}

/* If no other is left, rail 0 is used. */
void emx_rail_failed(struct emx_rail *k, emx_time now)
{
    struct emx_rails *t = k->rails;
    unsigned usable = 0;

    if (++k->failures < EMX_RAIL_FAILURES || !k->usable)
        return;
    for (unsigned i = 0; i < t->count; i++)
        usable += t->rail[i].usable;
    if (usable == 1)
        t->rail[0].usable = true;
    if (usable == 1 && k == t->rail)
        return;
    k->usable = false;
    k->try_ns = now + k->pause_ns;
    k->byte_ps = 0;
    emx_count(t->s->e, rails_failed);
}

void emx_rails_renew(struct emx_session *s, const struct emx_route *r)
{
    struct emx_rails *t = s->rails;

    for (unsigned i = 0; t && i < t->count; i++)
        if (t->rail[i].card == r->card && t->rail[i].link == r->link)
            t->rail[i].to = r->to;
}

/* A route says nothing of the direction from the peer: the peer may have numbered its rails otherwise. Where it was
 * wrong to set the rail aside, the next question finds it. */
static bool rail_review(struct emx_rail *k, const struct emx_route *r, emx_time now)
{
    k->left = !emx_route_carries(r);
    if (!k->left) {
        k->pause_ns = TRY_NS;
        k->try_ns = now;
        return false;
    }
    k->failures = EMX_RAIL_FAILURES - 1;
    emx_rail_failed(k, now);
    return true;
}

unsigned emx_rails_review(struct emx_session *s, unsigned changed, emx_time now)
{
    struct emx_rails *t = s->rails;
    unsigned lost = 0;

    if (!t)
        return changed >> s->connect->current & !emx_route_carries(emx_connect_route(s));
    for (; changed; changed &= changed - 1) {
        const struct emx_route *r = &s->connect->route[__builtin_ctz(changed)];

        for (unsigned i = 0; i < t->count; i++)
            if (t->rail[i].card == r->card && t->rail[i].link == r->link && rail_review(&t->rail[i], r, now))
                lost |= 1u << i;
    }
    return lost;
}

/* ---- Frames ---- */

uint16_t emx_rails_frame_bytes(const struct emx_session *s, uint16_t most_bytes)
{
    for (unsigned i = 0; s->rails && i < s->rails->count; i++) {
        const struct emx_rail *k = &s->rails->rail[i];

        if (i == s->rails->first)
            continue;
        most_bytes = (uint16_t)emx_min(most_bytes, k->gso_bytes ? k->gso_bytes : k->frame_bytes);
    }
    return most_bytes;
}

void emx_rail_ready(struct emx_rail *k)
{
    struct emx_engine *e = k->rails->s->e;

    if (emx_list_linked(&k->ready))
        return;
    emx_list_append(&e->rails_ready[k->link], &k->ready);
    emx_engine_has_output(e, k->link);
}

static enum emx_drop rail_answered(struct emx_session *s, const struct emx_f_rail *f, emx_time now)
{
    struct emx_rails *t = s->rails;

    if (!t || f->rail >= t->count || f->number != t->number)
        return EMX_DROP_STALE;
    emx_rail_heard(&t->rail[f->rail], now);
    return EMX_ACCEPTED;
}

enum emx_drop emx_rail_input(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_rail *f = (const void *)(data + sizeof(struct emx_frame));
    struct emx_rail *k;

    if (f->answer)
        return rail_answered(s, f, now);
    if (!emx_rails_open(s) || f->rail >= s->rails->count)
        return EMX_DROP_STALE;
    k = &s->rails->rail[f->rail];
    k->answer_due = true;
    k->answer = f->number;
    emx_rail_ready(k);
    return EMX_ACCEPTED;
}

static void rail_build(struct emx_session *s, const struct emx_f_rail *content, size_t body_bytes,
                       struct emx_txframe *f, struct emx_scratch *scratch)
{
    struct emx_frame *h = (void *)scratch->b;

    memcpy(h + 1, content, sizeof(*content));
    emx_engine_head(s->e, s->peer, h, EMX_F_rail, sizeof(*content) + body_bytes);
    emx_engine_stamp(s, h);
    *f = (struct emx_txframe){.head_bytes = sizeof(*h) + sizeof(*content), .body_bytes = (uint16_t)body_bytes};
    if (body_bytes)
        f->body = s->e->hello_body + ETHMX_ADDRESS_MAX; /* zeros */
}

bool emx_rail_output_ask(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch)
{
    struct emx_rails *t = s->rails;
    unsigned i;

    if (!t->ask_due)
        return false;
    i = (unsigned)__builtin_ctz(t->ask_due);
    t->ask_due &= t->ask_due - 1;
    rail_build(s, &(struct emx_f_rail){.rail = (uint8_t)i, .number = t->number}, 0, f, scratch);
    f->to = &s->to;
    emx_engine_seal(s, (void *)scratch->b, f, s->seal);
    return true;
}

bool emx_rail_output_answer(struct emx_rail *k, struct emx_txframe *f, struct emx_scratch *scratch)
{
    const struct emx_f_rail content = {.rail = (uint8_t)(k - k->rails->rail), .answer = 1, .number = k->answer};
    const struct emx_session *s = k->rails->s;
    size_t bytes = k->gso_bytes ? k->gso_bytes : k->frame_bytes;

    if (!k->answer_due)
        return false;
    k->answer_due = false;
    if (content.rail == k->rails->first && s->frame_bytes < bytes)
        bytes = s->frame_bytes;
    bytes = emx_min(bytes, EMX_FRAME_MAX - ETHMX_ADDRESS_MAX) - sizeof(struct emx_frame) - sizeof(content);
    rail_build(k->rails->s, &content, bytes, f, scratch);
    f->to = &k->to;
    emx_engine_seal(k->rails->s, (void *)scratch->b, f, k->seal);
    return true;
}
