/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Attacks: with ETHMX_AUTH=on, somebody on the network sees every frame of a job, among random programs: alters some on
 * the way, sends others once more, and makes new ones from them. All of that is dropped and counted as what it is, and
 * the programs notice nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "rma_model.h"
#include "scenario.h"

#define INNER     sizeof(struct emx_tag)
#define LATER_NS  (2 * SIM_MS)
#define ONE_IN    16 /* frames of each kind */
#define FRAME_MAX 9216

struct attacker {
    struct sim_world *w;
    struct emx_rng rng;
    uint8_t copy[FRAME_MAX] __attribute__((aligned(8)));
    uint64_t forged, replayed; /* what must be counted */
    uint64_t writes;           /* forged from frames that write to exposed memory, and so with the right key */
};

static uint64_t later(struct attacker *x)
{
    return x->w->now_ns + 10000 + emx_rng_below(&x->rng, LATER_NS);
}

/* One bit: of what the receiver cannot tell from noise without the tag. (Others say "not for you".) */
static void alter(struct attacker *x, const struct sim_look *look)
{
    uint8_t *data = (void *)(uintptr_t)look->data;
    size_t at;

    do
        at = emx_rng_below(&x->rng, look->len_bytes);
    while ((at != 1 && at < offsetof(struct emx_tag, tag)) || at == INNER + offsetof(struct emx_frame, type) ||
           (at >= INNER + offsetof(struct emx_frame, cookie) && at < INNER + offsetof(struct emx_frame, seq)));
    data[at] ^= 1u << emx_rng_below(&x->rng, 8);
    x->forged++;
}

static void inject(struct attacker *x, unsigned dst, const uint8_t *data, size_t len_bytes)
{
    sim_link_inject(sim_world_link(x->w, (dst + 1) % x->w->node_count, dst, 0), data, len_bytes, later(x));
}

/* The frame in copy, as if it were another node's, or for another node. */
static unsigned readdress(struct attacker *x, const struct sim_look *look)
{
    struct sim_world *w = x->w;
    struct emx_tag *t = (void *)x->copy;
    struct emx_frame *h = (void *)(t + 1);
    unsigned dst = look->link->dst, other = emx_rng_below(&x->rng, w->node_count);

    if (emx_rng_below(&x->rng, 2)) {
        dst = look->link->src; /* back to its sender */
        h->src_id = h->dst_id;
    } else if (other != dst && other != look->link->src) {
        dst = other;
    } else {
        t->number++; /* the next of the same sender */
    }
    t->dst_id = h->dst_id = w->party[w->nodes[dst].party].id;
    return dst;
}

/* A frame made from one that was seen. */
static void forge(struct attacker *x, const struct sim_look *look)
{
    struct emx_frame *h = (void *)(x->copy + INNER);
    unsigned dst = look->link->dst;

    memcpy(x->copy, look->data, look->len_bytes);
    x->forged++;
    x->writes += look->head->type == EMX_F_rma_put || look->head->type == EMX_F_rma_atomic;
    switch (emx_rng_below(&x->rng, 4)) {
    case 0: /* without a tag */
        emx_frame_seal(h, look->len_bytes - INNER, NULL, 0, 1 + emx_rng_below(&x->rng, 2));
        inject(x, dst, x->copy + INNER, look->len_bytes - INNER);
        return;
    case 1: /* with any tag */
        ((struct emx_tag *)(void *)x->copy)->tag = emx_rng_next(&x->rng);
        ((struct emx_tag *)(void *)x->copy)->number += emx_rng_below(&x->rng, 10);
        break;
    case 2:
        dst = readdress(x, look);
        break;
    default: /* with other contents */
        x->copy[look->len_bytes - 1] ^= 1;
    }
    inject(x, dst, x->copy, look->len_bytes);
}

static enum sim_verdict attack(void *arg, const struct sim_look *look, uint64_t *delay_ns_p)
{
    struct attacker *x = arg;

    (void)delay_ns_p;
    switch (emx_rng_below(&x->rng, ONE_IN)) {
    case 0:
        alter(x, look);
        break;
    case 1:
        x->replayed++;
        inject(x, look->link->dst, look->data, look->len_bytes);
        break;
    case 2:
        forge(x, look);
        break;
    default:
        break;
    }
    return SIM_PASS;
}

/* Nothing is attacked any more, and what was injected arrives. Handshakes that nobody waits for may still go on. */
static void calm(struct sim_world *w)
{
    sim_world_judge(w, NULL, NULL);
    sim_world_run_until(w, w->now_ns + LATER_NS + SIM_MS);
}

static bool can_play(struct sim_case *c)
{
    const char *why;

    if (emx_keyed_hash_usable(&why))
        return true;
    if (c->seed == 1)
        sim_say(&c->world, "attacks are not played: %s", why);
    return false;
}

/* A frame for, or from, somebody who knows nobody of that name needs no tag to be dropped. */
static void compare(struct attacker *x)
{
    uint64_t forged = 0, replayed = 0;

    for (unsigned i = 0; i < x->w->node_count; i++) {
        const struct emx_stats *s = &x->w->nodes[i].stats;

        forged += s->drop_forged + s->drop_no_session;
        replayed += s->drop_replayed;
        if (x->w->nodes[i].failed_peers)
            sim_fail(x->w, "n%u: a peer failed: %s", i, x->w->nodes[i].failed_text);
    }
    if (forged != x->forged || replayed != x->replayed)
        sim_fail(x->w, "%llu forged and %llu replayed frames were dropped; there were %llu and %llu",
                 (unsigned long long)forged, (unsigned long long)replayed, (unsigned long long)x->forged,
                 (unsigned long long)x->replayed);
}

static void attacks(struct sim_case *c)
{
    struct sim_world *w = &c->world;
    struct attacker x = {.w = w, .rng = {.state = emx_mix64(c->seed ^ 0xa77ac)}};
    struct sim_traffic *t;
    struct sim_mix mix;

    sim_case_begin(c, 2 + c->seed % 3, 1);
    if (can_play(c)) {
        w->auth = true;
        w->cfg.p_ring = 64 << 20;
        w->gso_bytes = c->seed & 4 ? 1472 : 0;
        sim_world_start(w);
        sim_world_judge(w, attack, &x);
        sim_mix_draw(&mix, &x.rng);
        t = sim_traffic_start(&c->program, &mix, c->seed);
        sim_traffic_run(t, sim_limit(w, 8 * sim_traffic_bytes(t), 1000000000, 60 * SIM_S));
        calm(w);
        compare(&x);
        sim_traffic_free(t);
    }
    sim_case_end(c);
}

/* One-sided operations: the attacker knows the keys of all regions, and no byte of them changes. */
static void attacks_rma(struct sim_case *c)
{
    struct sim_world *w = &c->world;
    struct attacker x = {.w = w, .rng = {.state = emx_mix64(c->seed ^ 0xa77ac)}};
    struct rma_model *m = calloc(1, sizeof(*m));
    unsigned nodes = 2 + c->seed % 3;

    if (!m)
        abort();
    sim_case_begin(c, nodes, 1);
    if (can_play(c)) {
        w->auth = true;
        sim_world_start(w);
        rma_model_init(m, c);
        sim_world_judge(w, attack, &x);
        for (unsigned i = 0; i < 300 && !sim_failed(w); i++) {
            rma_any(m, i % nodes, (i + 1) % nodes);
            sim_node_pump(&w->nodes[i % nodes]);
            sim_world_run_until(w, w->now_ns + emx_rng_below(&x.rng, 100000));
        }
        rma_finish(m, w->now_ns + 60 * SIM_S);
        calm(w);
        compare(&x);
        if (!sim_failed(w) && !x.writes)
            sim_fail(w, "no frame with a key was forged");
    }
    sim_case_end(c);
    if (m->w)
        rma_model_fini(m);
    free(m);
}

/* ---- A process that is gone and its successor ---- */

#define TAPE 400

struct tape {
    struct attacker x;
    struct {
        uint8_t *data;
        uint32_t len_bytes;
        unsigned dst;
    } frame[TAPE];
    unsigned frames;
};

static enum sim_verdict record(void *arg, const struct sim_look *look, uint64_t *delay_ns_p)
{
    struct tape *tape = arg;

    (void)delay_ns_p;
    if (tape->frames == TAPE)
        return SIM_PASS;
    tape->frame[tape->frames].data = malloc(look->len_bytes);
    if (!tape->frame[tape->frames].data)
        abort();
    memcpy(tape->frame[tape->frames].data, look->data, look->len_bytes);
    tape->frame[tape->frames].len_bytes = look->len_bytes;
    tape->frame[tape->frames++].dst = look->link->dst;
    return SIM_PASS;
}

static void exchange(struct sim_case *c, unsigned messages)
{
    struct sim_node *n = c->world.nodes;

    for (unsigned i = 0; i < messages; i++) {
        size_t bytes = i % 4 ? 100 : 100000;

        sim_recv(&c->program, &n[i % 2], n[!(i % 2)].party, i, SIM_FULL_MASK, bytes, SIM_CONTIGUOUS);
        sim_send(&c->program, &n[!(i % 2)], n[i % 2].party, i, bytes, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
        sim_node_pump(&n[i % 2]);
        sim_node_pump(&n[!(i % 2)]);
    }
    sim_program_run(&c->program, c->world.now_ns + 10 * SIM_S);
}

/* All that was said with the former processes is said once more, now with the ids of the new ones. */
static void play_tape(struct tape *tape)
{
    struct sim_world *w = tape->x.w;

    for (unsigned i = 0; i < tape->frames; i++) {
        struct emx_tag *t = (void *)tape->frame[i].data;
        struct emx_frame *h = (void *)(t + 1);
        unsigned dst = tape->frame[i].dst;

        t->dst_id = h->dst_id = w->party[w->nodes[dst].party].id;
        h->src_id = w->party[w->nodes[!dst].party].id;
        inject(&tape->x, dst, tape->frame[i].data, tape->frame[i].len_bytes);
        tape->x.forged++;
        free(tape->frame[i].data);
    }
}

static void incarnations(struct sim_case *c)
{
    struct sim_world *w = &c->world;
    struct tape tape = {.x = {.w = w, .rng = {.state = emx_mix64(c->seed)}}};

    sim_case_begin(c, 2, 1);
    if (can_play(c)) {
        w->auth = true;
        sim_world_start(w);
        sim_world_judge(w, record, &tape);
        exchange(c, 20);
        sim_world_judge(w, NULL, NULL);
        for (unsigned i = 0; i < 2; i++) {
            sim_node_crash(&w->nodes[i]);
            sim_program_bury(&c->program, w->nodes[i].party);
            sim_node_start(&w->nodes[i]);
        }
        exchange(c, 4);
        play_tape(&tape);
        exchange(c, 20);
        calm(w);
        compare(&tape.x);
    }
    sim_case_end(c);
}

const struct sim_scenario sim_attacks[] = {
    {"attacks", "with tags: frames altered, replayed and forged among random programs; all are dropped", attacks, 0,
     10},
    {"attacks-rma", "with tags: the same among one-sided operations, whose keys the attacker has", attacks_rma, 0, 2},
    {"attacks-incarnations", "with tags: what was said with former processes is said again", incarnations, 8, 0},
    {0},
};
