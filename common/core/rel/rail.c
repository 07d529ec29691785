/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rails. If several routes of a session leave through cards of their own, each is a rail: number 0 is the session's
 * route, the others follow in the order of the routes. Rail 0 carries all frames. The others carry data of large
 * messages only, so that order, acknowledgements and credit stay as they are.
 *
 * Each side has its own rails. A pull says over which of the sender's rails the data is to come (pull_rail), so both
 * need not number the cards alike. The receiver has a pace, a round trip and a count of what it has requested for each
 * rail of its peer: msg/pull_rail.c chooses. Pulls are short and travel over the session's route.
 *
 * The receiver uses a rail after a full-sized frame has arrived over it. It asks for one (rail) when it pulls a
 * message, and again at increasing distances while no answer comes. A rail whose data does not arrive while that of
 * others does is set aside after EMX_RAIL_FAILURES time-outs, until such a frame arrives again.
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

static void rail_init(struct emx_rails *t, struct emx_rail *k, const struct emx_route *r)
{
    struct emx_engine *e = t->s->e;
    unsigned tag_bytes = emx_tag_bytes(e, r->link);

    memset(k, 0, sizeof(*k));
    k->rails = t;
    emx_list_init(&k->ready);
    emx_list_init(&k->requests);
    k->to = r->to;
    k->link = r->link;
    k->seal = (uint8_t)emx_tag_level(e, r->link, (unsigned)e->cfg->p_checksum);
    k->frame_bytes = (uint16_t)(r->frame_bytes - tag_bytes);
    k->gso_bytes = r->gso_bytes ? (uint16_t)(r->gso_bytes - tag_bytes) : 0;
    k->pause_ns = TRY_NS;
    emx_rtt_init(&k->block_rtt, e->cfg);
    emx_pace_init(&k->pace, emx_part(e->cfg->p_pull_window, e->local_ranks, EMX_PACE_LEAST));
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

/* ---- Whether a rail carries frames ---- */

void emx_rails_ask(struct emx_session *s, emx_time now)
{
    struct emx_rails *t = s->rails;

    for (unsigned i = 1; i < t->count; i++) {
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
    k->pause_ns = TRY_NS;
}

void emx_rail_failed(struct emx_rail *k, emx_time now)
{
    if (++k->failures < EMX_RAIL_FAILURES || !k->usable)
        return;
    k->usable = k == k->rails->rail; /* there must be one */
    k->try_ns = now + k->pause_ns;
    k->byte_ps = 0;
    emx_count(k->rails->s->e, rails_failed);
}

/* ---- Frames ---- */

uint16_t emx_rails_frame_bytes(const struct emx_session *s, uint16_t most_bytes)
{
    for (unsigned i = 1; s->rails && i < s->rails->count; i++) {
        const struct emx_rail *k = &s->rails->rail[i];

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

    if (!t || !f->rail || f->rail >= t->count || f->number != t->number)
        return EMX_DROP_STALE;
    if (!t->rail[f->rail].usable)
        emx_count(s->e, rails_found);
    t->rail[f->rail].usable = true;
    t->rail[f->rail].failures = 0;
    t->rail[f->rail].heard_ns = now;
    return EMX_ACCEPTED;
}

enum emx_drop emx_rail_input(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_rail *f = (const void *)(data + sizeof(struct emx_frame));
    struct emx_rail *k;

    if (f->answer)
        return rail_answered(s, f, now);
    if (!emx_rails_open(s) || !f->rail || f->rail >= s->rails->count)
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
    size_t bytes = k->gso_bytes ? k->gso_bytes : k->frame_bytes;

    if (!k->answer_due)
        return false;
    k->answer_due = false;
    bytes = emx_min(bytes, EMX_FRAME_MAX - ETHMX_ADDRESS_MAX) - sizeof(struct emx_frame) - sizeof(content);
    rail_build(k->rails->s, &content, bytes, f, scratch);
    f->to = &k->to;
    emx_engine_seal(k->rails->s, (void *)scratch->b, f, k->seal);
    return true;
}
