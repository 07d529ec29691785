/* SPDX-License-Identifier: BSD-3-Clause */
#include "traffic.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_NS   100000       /* a probe that found nothing is tried again after this time, at most, doubling */
#define TICK_NS    (SIM_MS / 2) /* the closing of a history looks again after this time, doubling */
#define DOUBLE_MAX 6

enum action_kind { SEND, ACTIVE, RECV, CANCEL, PROBE_RECV, TAKE_RECV, TAKE_RELEASE };

struct action {
    enum action_kind kind;
    int party; /* to, or from */
    uint64_t bits, mask;
    size_t len_bytes, header_bytes;
    enum ethmx_send_mode mode;
    enum sim_shape shape;
    struct sim_traffic *traffic;
    struct sim_node *node;
};

struct actor {
    struct sim_traffic *traffic;
    struct sim_node *node;
    unsigned party;
    struct action *action;
    size_t count, room, next;
};

struct sim_traffic {
    struct sim_program *program;
    struct sim_world *world;
    struct sim_mix mix;
    struct emx_rng rng;
    struct actor actor[SIM_NODES_MAX];
    unsigned actor_count, busy_actors;
    size_t bytes;
    bool closing;
    bool by_probe; /* what is missing in the end is received by matched probes */
};

/* ---- Drawing ---- */

static uint64_t below(struct emx_rng *r, uint64_t limit)
{
    return limit ? emx_rng_below(r, limit) : 0;
}

static bool percent(struct emx_rng *r, unsigned p)
{
    return emx_rng_below(r, 100) < p;
}

void sim_mix_draw(struct sim_mix *mix, struct emx_rng *r)
{
    *mix = (struct sim_mix){.messages = 10 + below(r, 90),
                            .am_percent = percent(r, 40) ? below(r, 60) : 0,
                            .sync_percent = below(r, 50),
                            .large_percent = percent(r, 70) ? below(r, 30) : 0,
                            .large_bytes = 100000 + below(r, 400000),
                            .total_bytes = 1500000,
                            .wild_percent = below(r, 80),
                            .probe_percent = below(r, 50),
                            .cancel_percent = below(r, 40),
                            .short_percent = below(r, 20),
                            .chain_percent = below(r, 80),
                            .gap_ns = below(r, 300000),
                            .tags = 1 + below(r, 5)};
    if (percent(r, 5)) {
        mix->large_bytes = 3u << 20;
        mix->total_bytes = 4u << 20;
    }
}

static size_t near(struct emx_rng *r, size_t len_bytes)
{
    size_t d = below(r, 3);

    return len_bytes + d > 0 ? len_bytes + d - 1 : 0;
}

/* As many short as long ones by their number of digits. */
static size_t log_uniform(struct emx_rng *r, size_t max)
{
    unsigned bits = 1;

    while (bits < 40 && (size_t)1 << bits <= max)
        bits++;
    return below(r, ((size_t)1 << below(r, bits)) + 1) % (max + 1);
}

static size_t draw_large(struct sim_traffic *t)
{
    const struct emx_config *cfg = &t->world->cfg;
    size_t chunk = t->world->frame_bytes[0] - 48, block = chunk * cfg->p_pull_frames;
    size_t max = t->mix.large_bytes;
    struct emx_rng *r = &t->rng;

    switch (below(r, 5)) {
    case 0:
        return near(r, chunk * (1 + below(r, 70)));
    case 1:
        return near(r, block * (1 + below(r, max / block + 1)));
    case 2:
        return max - below(r, max / 4);
    default:
        return cfg->p_eager_max + log_uniform(r, max);
    }
}

static size_t draw_length(struct sim_traffic *t)
{
    static const size_t tiny[] = {0, 0, 1, 7, 8, 9, 63, 64, 65};
    const struct emx_config *cfg = &t->world->cfg;
    size_t frame = t->world->frame_bytes[0], len_bytes;
    struct emx_rng *r = &t->rng;

    if (t->bytes < t->mix.total_bytes && percent(r, t->mix.large_percent))
        len_bytes = draw_large(t);
    else
        switch (below(r, 7)) {
        case 0:
            len_bytes = near(r, frame - 56); /* longest in one eager frame */
            break;
        case 1:
            len_bytes = near(r, frame - 56 + (frame - 40) * below(r, 4)); /* in several */
            break;
        case 2:
            len_bytes = near(r, cfg->p_eager_max);
            break;
        case 3:
            len_bytes = log_uniform(r, cfg->p_eager_max);
            break;
        default:
            len_bytes = tiny[below(r, sizeof(tiny) / sizeof(*tiny))];
        }
    if (t->bytes >= t->mix.total_bytes)
        len_bytes %= 2000;
    t->bytes += len_bytes;
    return len_bytes;
}

/* context 16 bits, number of the message 32 (half of the messages have none), tag 16. */
static uint64_t draw_bits(struct sim_traffic *t, unsigned number)
{
    uint64_t numbered = percent(&t->rng, 50) ? number + 1 : 0;
    uint64_t space = t->program->untagged && percent(&t->rng, 50) ? SIM_UNTAGGED : 0;

    return space | 7ull << 48 | numbered << 16 | below(&t->rng, t->mix.tags);
}

static uint64_t draw_mask(struct sim_traffic *t)
{
    static const uint64_t wild[] = {~0xffffffff0000ull, ~0xffffull, 0xffffull << 48, 0};

    return percent(&t->rng, t->mix.wild_percent) ? wild[below(&t->rng, 4)] | sim_space(t->program, SIM_UNTAGGED)
                                                 : SIM_FULL_MASK;
}

static struct action *add_action(struct sim_traffic *t, struct actor *a, enum action_kind kind)
{
    struct action *x;

    if (a->count == a->room) {
        a->room = a->room ? 2 * a->room : 32;
        a->action = realloc(a->action, a->room * sizeof(*a->action));
        if (!a->action)
            abort();
    }
    x = &a->action[a->count++];
    memset(x, 0, sizeof(*x));
    x->kind = kind;
    x->shape = below(&t->rng, SIM_SHAPES);
    x->traffic = t;
    x->node = a->node;
    return x;
}

/* A way to receive a message from src with these bits and length. */
static void add_receive(struct sim_traffic *t, struct actor *dst, const struct actor *src, uint64_t bits,
                        size_t len_bytes, enum action_kind kind)
{
    struct action *x = add_action(t, dst, kind);

    x->party = percent(&t->rng, t->mix.wild_percent) ? SIM_ANY : (int)src->party;
    x->bits = bits;
    x->mask = draw_mask(t);
    x->len_bytes = len_bytes;
    if (percent(&t->rng, t->mix.short_percent))
        x->len_bytes = below(&t->rng, len_bytes + 1);
    else if (percent(&t->rng, 30))
        x->len_bytes += below(&t->rng, 5000);
}

static enum action_kind draw_receive(struct sim_traffic *t)
{
    static const enum action_kind probes[] = {PROBE_RECV, TAKE_RECV, TAKE_RECV, TAKE_RELEASE};

    return percent(&t->rng, t->mix.probe_percent) ? probes[below(&t->rng, 4)] : RECV;
}

static void draw_active(struct sim_traffic *t, struct actor *src, const struct actor *dst)
{
    struct action *x = add_action(t, src, ACTIVE);

    x->party = dst->party;
    x->len_bytes = draw_length(t);
    x->bits = below(&t->rng, 4);
    x->header_bytes = percent(&t->rng, 30) ? below(&t->rng, 2) * 190 : log_uniform(&t->rng, 190);
}

static void draw_tagged(struct sim_traffic *t, struct actor *src, struct actor *dst, unsigned number)
{
    struct action *x = add_action(t, src, SEND);
    uint64_t bits = draw_bits(t, number);
    size_t len_bytes = draw_length(t);

    x->party = dst->party;
    x->bits = bits;
    x->len_bytes = len_bytes;
    x->mode = percent(&t->rng, t->mix.sync_percent) ? ETHMX_SEND_SYNC : ETHMX_SEND_STANDARD;
    add_receive(t, dst, src, bits, len_bytes, draw_receive(t));
    if (percent(&t->rng, t->mix.cancel_percent))
        add_receive(t, dst, src, bits, len_bytes, CANCEL);
}

static void draw_message(struct sim_traffic *t, unsigned number)
{
    struct actor *src = &t->actor[below(&t->rng, t->actor_count)], *dst = src;

    while (dst == src && (!t->mix.to_self || percent(&t->rng, 50)))
        dst = &t->actor[below(&t->rng, t->actor_count)];
    if (percent(&t->rng, t->mix.am_percent))
        draw_active(t, src, dst);
    else
        draw_tagged(t, src, dst, number);
}

static void shuffle(struct sim_traffic *t, struct actor *a)
{
    struct action x;
    size_t j;

    for (size_t i = a->count; i > 1; i--) {
        j = below(&t->rng, i);
        x = a->action[i - 1];
        a->action[i - 1] = a->action[j];
        a->action[j] = x;
    }
}

/* ---- Acting ---- */

static void act(struct action *x, uint64_t tries);

static uint64_t doubled(uint64_t ns, uint64_t tries)
{
    return ns << (tries < DOUBLE_MAX ? tries : DOUBLE_MAX);
}

static bool may_act(struct sim_node *n, sim_event_fn again, void *arg, uint64_t value)
{
    if (n->pace == SIM_POLLS)
        return true;
    if (n->pace != SIM_GONE)
        sim_queue_put(&n->world->queue, n->pace_until_ns + 1, again, arg, value);
    return false;
}

static void act_again(void *arg, uint64_t value)
{
    struct action *x = arg;

    if (x->traffic->closing || !may_act(x->node, act_again, x, value))
        return;
    act(x, value);
    sim_node_pump(x->node);
}

static void cancel_now(void *arg, uint64_t value)
{
    struct sim_receive *r = arg;

    if (r->state != SIM_OPEN || !may_act(r->node, cancel_now, r, value))
        return;
    sim_cancel(r);
    sim_node_pump(r->node);
}

/* Until the message that is looked for has come, or nobody looks for it any more. */
static bool look(struct sim_program *p, struct action *x)
{
    if (x->kind == PROBE_RECV)
        return sim_probe_recv(p, x->node, x->party, x->bits, x->mask, x->shape);
    if (x->kind == TAKE_RECV)
        return sim_take_recv(p, x->node, x->party, x->bits, x->mask, x->shape);
    return sim_take_release(p, x->node, x->party, x->bits, x->mask);
}

static void act(struct action *x, uint64_t tries)
{
    struct sim_traffic *t = x->traffic;
    struct sim_program *p = t->program;
    struct sim_world *w = t->world;
    struct sim_receive *r;

    if (x->kind == SEND) {
        sim_send(p, x->node, x->party, x->bits, x->len_bytes, x->mode, x->shape);
    } else if (x->kind == ACTIVE) {
        sim_am(p, x->node, x->party, x->bits, x->header_bytes, x->len_bytes, x->shape);
    } else if (x->kind == RECV || x->kind == CANCEL) {
        r = sim_recv(p, x->node, x->party, x->bits, x->mask, x->len_bytes, x->shape);
        if (r && x->kind == CANCEL)
            sim_queue_put(&w->queue, w->now_ns + below(&t->rng, SIM_MS), cancel_now, r, 0);
    } else if (!look(p, x)) {
        sim_queue_put(&w->queue, w->now_ns + 1 + below(&t->rng, doubled(RETRY_NS, tries)), act_again, x, tries + 1);
    }
}

static void close_history(struct sim_traffic *t);

static bool act_next(struct actor *a)
{
    if (a->next == a->count)
        return false;
    act(&a->action[a->next++], 0);
    if (a->next == a->count && --a->traffic->busy_actors == 0)
        close_history(a->traffic);
    return true;
}

static void step(void *arg, uint64_t value)
{
    struct actor *a = arg;
    struct sim_world *w = a->traffic->world;

    if (a->next == a->count || !may_act(a->node, step, a, value))
        return;
    act_next(a);
    sim_node_pump(a->node);
    sim_queue_put(&w->queue, w->now_ns + below(&a->traffic->rng, a->traffic->mix.gap_ns + 1), step, a, value);
}

void sim_traffic_bury(struct sim_traffic *t, unsigned party)
{
    for (unsigned i = 0; i < t->actor_count; i++) {
        struct actor *a = &t->actor[i];

        if (a->party != party || a->next == a->count)
            continue;
        a->next = a->count;
        if (--t->busy_actors == 0)
            close_history(t);
    }
}

static void chain(void *arg, struct sim_node *n)
{
    struct sim_traffic *t = arg;

    for (unsigned i = 0; i < t->actor_count; i++)
        if (t->actor[i].node == n && t->actor[i].party == n->party && percent(&t->rng, t->mix.chain_percent))
            act_next(&t->actor[i]);
}

/* ---- Closing ---- */

static void cancel_posted(struct sim_program *p, unsigned party)
{
    for (size_t i = 0; i < p->receive_count; i++)
        if (p->receive[i]->party == party)
            sim_cancel(p->receive[i]);
}

static size_t longest(const struct sim_program *p, unsigned party)
{
    size_t max = 0;

    for (size_t i = 0; i < p->message_count; i++)
        if (p->message[i]->dst == party && !p->message[i]->receive && p->message[i]->len_bytes > max)
            max = p->message[i]->len_bytes;
    return max;
}

/* Takes back one receive that was posted for a message that will not come. */
static void cancel_one(struct sim_program *p, unsigned party, uint64_t space)
{
    for (size_t i = p->receive_count; i--;) {
        struct sim_receive *r = p->receive[i];

        if (r->party != party || r->state != SIM_OPEN || r->mask & ~SIM_UNTAGGED || r->canceling || !r->op)
            continue;
        if (sim_space(p, r->bits) != space)
            continue;
        r->bound = false;
        sim_cancel(r);
        return;
    }
}

/* Receives with wildcards as many messages as are missing: no more, no fewer. */
static void receive_missing(struct actor *a, uint64_t space)
{
    struct sim_traffic *t = a->traffic;
    struct sim_program *p = t->program;
    uint64_t mask = sim_space(p, SIM_UNTAGGED);
    struct sim_receive *r;
    long missing;

    while ((missing = sim_missing(p, a->party, space)) > 0 && !sim_failed(t->world)) {
        if (t->by_probe) {
            if (!sim_take_recv(p, a->node, SIM_ANY, space, mask, below(&t->rng, SIM_SHAPES)))
                return;
        } else {
            r = sim_recv(p, a->node, SIM_ANY, space, mask, longest(p, a->party), below(&t->rng, SIM_SHAPES));
            if (!r)
                return;
            r->bound = true;
        }
    }
    if (missing < 0)
        cancel_one(p, a->party, space);
}

static bool all_received(struct sim_traffic *t)
{
    for (unsigned i = 0; i < t->actor_count; i++)
        if (t->actor[i].node->party == t->actor[i].party && t->actor[i].node->pace != SIM_GONE &&
            (sim_missing(t->program, t->actor[i].party, 0) || sim_missing(t->program, t->actor[i].party, SIM_UNTAGGED)))
            return false;
    return true;
}

static void close_actor(void *arg, uint64_t value)
{
    struct actor *a = arg;
    struct sim_traffic *t = a->traffic;
    struct sim_program *p = t->program;

    if (a->node->party != a->party || !may_act(a->node, close_actor, a, value))
        return;
    if (value == 0)
        cancel_posted(p, a->party);
    receive_missing(a, 0);
    receive_missing(a, SIM_UNTAGGED);
    sim_node_pump(a->node);
    p->busy = !all_received(t);
    if (p->open || p->busy)
        sim_queue_put(&t->world->queue, t->world->now_ns + doubled(TICK_NS, value), close_actor, a, value + 1);
}

static void close_history(struct sim_traffic *t)
{
    t->closing = true;
    for (unsigned i = 0; i < t->actor_count; i++)
        sim_queue_put(&t->world->queue, t->world->now_ns + below(&t->rng, SIM_MS), close_actor, &t->actor[i], 0);
}

/* ---- All of it ---- */

static void add_actors(struct sim_traffic *t)
{
    for (unsigned i = 0; i < t->world->node_count; i++) {
        struct sim_node *n = &t->world->nodes[i];

        if (n->pace != SIM_GONE)
            t->actor[t->actor_count++] = (struct actor){.traffic = t, .node = n, .party = n->party};
    }
}

struct sim_traffic *sim_traffic_start(struct sim_program *p, const struct sim_mix *mix, uint64_t seed)
{
    struct sim_traffic *t = calloc(1, sizeof(*t));

    if (!t)
        abort();
    t->program = p;
    t->world = p->world;
    t->mix = *mix;
    t->rng.state = emx_mix64(seed ^ 0x7aff1c);
    t->by_probe = percent(&t->rng, 30);
    add_actors(t);
    for (unsigned i = 0; i < mix->messages; i++)
        draw_message(t, i);
    p->busy = true;
    p->then = chain;
    p->then_arg = t;
    for (unsigned i = 0; i < t->actor_count; i++) {
        struct actor *a = &t->actor[i];

        shuffle(t, a);
        t->busy_actors += a->count > 0;
        sim_queue_put(&t->world->queue, t->world->now_ns + below(&t->rng, mix->gap_ns + 1), step, a, 0);
    }
    return t;
}

void sim_traffic_free(struct sim_traffic *t)
{
    for (unsigned i = 0; i < t->actor_count; i++)
        free(t->actor[i].action);
    t->program->then = NULL;
    free(t);
}

size_t sim_traffic_bytes(const struct sim_traffic *t)
{
    return t->bytes;
}

static void check_empty(struct sim_world *w)
{
    for (unsigned i = 0; i < w->node_count; i++) {
        struct sim_node *n = &w->nodes[i];

        if (!n->engine)
            continue;
        if (n->stats.unexpected_bytes || n->stats.unexpected_now || n->stats.posted_now)
            sim_fail(w, "n%u: all is done, but %llu unexpected messages, %llu bytes, and %llu receives are left", i,
                     (unsigned long long)n->stats.unexpected_now, (unsigned long long)n->stats.unexpected_bytes,
                     (unsigned long long)n->stats.posted_now);
        sim_node_check(n, true);
    }
}

bool sim_traffic_run(struct sim_traffic *t, uint64_t limit_ns)
{
    if (!sim_program_run(t->program, limit_ns))
        return false;
    sim_model_check(t->program);
    if (!t->program->loses)
        check_empty(t->world);
    return !sim_failed(t->world);
}
