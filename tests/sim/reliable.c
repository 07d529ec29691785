/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reliable: routes that lose, double and reorder nothing. Nothing is acknowledged or sent again; credit, order and the
 * signs of life hold as ever; and a wire that breaks its promise does not go unnoticed.
 */
#include "scenario.h"

#define TIMEOUT_NS (2 * SIM_S)

/* frame_bytes 0: drawn by chance, too. */
static void begin_with(struct sim_case *c, unsigned nodes, struct emx_rng *rng, uint32_t frame_bytes)
{
    static const uint64_t unexpected[] = {65536, 200000, 64 << 20};
    struct sim_world *w = &c->world;

    sim_case_begin(c, nodes, 1);
    w->cfg.p_peer_timeout = TIMEOUT_NS;
    w->cfg.p_window = 8u << emx_rng_below(rng, 5);
    w->cfg.p_pull_window = 16384u << emx_rng_below(rng, 8);
    w->cfg.p_unexpected_max = unexpected[emx_rng_below(rng, 3)];
    w->cfg.p_read_min = 1u << emx_rng_below(rng, 18);
    w->reliable = true;
    w->reads = emx_rng_below(rng, 2);
    w->frame_bytes[0] = frame_bytes ? frame_bytes : 1000 + emx_rng_below(rng, 9000);
    sim_world_rate(w, 10000000000ull, 3 * w->frame_bytes[0], 0);
    sim_world_start(w);
}

static void begin(struct sim_case *c, unsigned nodes, struct emx_rng *rng)
{
    begin_with(c, nodes, rng, 0);
}

static void expect_no_repair(struct sim_world *w)
{
    for (unsigned i = 0; i < w->node_count && !sim_failed(w); i++) {
        const struct emx_stats *s = &w->nodes[i].stats;

        if (s->frames_resent || s->frames_held || s->drop_duplicate || s->peers_dead)
            sim_fail(w, "n%u: frames were sent again or held", i);
    }
}

static void among_programs(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_world *w = &c->world;
    struct sim_traffic *t;
    struct sim_mix mix;

    begin(c, 2 + c->seed % 4, &rng);
    sim_mix_draw(&mix, &rng);
    for (unsigned i = 0; i < w->node_count; i++)
        w->nodes[i].poll_ns = emx_rng_below(&rng, 100000);
    t = sim_traffic_start(&c->program, &mix, c->seed);
    sim_traffic_run(t, w->now_ns + 5 * SIM_S);
    expect_no_repair(w);
    sim_traffic_free(t);
    sim_case_end(c);
}

/* Many small messages, received at once: a frame that carries nothing goes back for credit only. */
static void few_acks(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, 2, &rng);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    for (unsigned i = 0; i < 1000; i++)
        sim_recv(p, b, a->party, i, SIM_FULL_MASK, 8, SIM_CONTIGUOUS);
    sim_node_pump(b);
    for (unsigned i = 0; i < 1000; i++) {
        sim_send(p, a, b->party, i, 8, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
        sim_node_pump(a);
        if (i % 64 == 0)
            sim_world_run_until(w, w->now_ns + SIM_MS);
    }
    if (sim_program_run(p, w->now_ns + SIM_S))
        sim_model_check(p);
    expect_no_repair(w);
    if (b->stats.acks_sent > 1000 * 136 / (2048 / 2))
        sim_fail(w, "%llu frames went back", (unsigned long long)b->stats.acks_sent);
    sim_case_end(c);
}

/* Announced active messages whose headers do not fit a frame: their frames leave in fragments. */
static void short_frames(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin_with(c, 2, &rng, EMX_FRAME_MIN);
    a = &w->nodes[0];
    b = &w->nodes[1];
    for (unsigned i = 0; i < 40; i++) {
        sim_am(p, a, b->party, 2, emx_rng_below(&rng, ETHMX_AM_HEADER_MAX + 1), emx_rng_below(&rng, 200000),
               SIM_CONTIGUOUS);
        if (i % 4 == c->seed % 4)
            sim_node_pump(a);
    }
    sim_node_pump(a);
    if (sim_program_run(p, w->now_ns + SIM_S))
        sim_model_check(p);
    expect_no_repair(w);
    sim_case_end(c);
}

static enum sim_verdict drop_one(void *arg, const struct sim_look *look, uint64_t *delay_ns_p)
{
    const uint64_t *nth = arg;

    (void)delay_ns_p;
    return look->head->type == EMX_F_eager && look->nth == *nth ? SIM_DROP : SIM_PASS;
}

/* The wire loses a frame. With another behind it the receiver notices at once; the sender learns of it as of a death.
 */
static void promise_broken(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;
    uint64_t nth = 1 + c->seed;

    begin(c, 2, &rng);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    sim_world_link(w, 0, 1, 0)->verdict = drop_one;
    sim_world_link(w, 0, 1, 0)->verdict_arg = &nth;
    p->doomed[a->party] = p->doomed[b->party] = p->loses = true;
    for (unsigned i = 0; i < 20; i++) {
        sim_recv(p, b, a->party, i, SIM_FULL_MASK, 8, SIM_CONTIGUOUS);
        sim_send(p, a, b->party, i, 8, i % 2, SIM_CONTIGUOUS);
    }
    sim_node_pump(b);
    sim_node_pump(a);
    sim_program_run(p, w->now_ns + 2 * TIMEOUT_NS);
    if (b->failed_peers != 1 || a->failed_peers > 1)
        sim_fail(w, "nobody noticed");
    sim_case_end(c);
}

const struct sim_scenario sim_reliable[] = {
    {"reliable", "random programs over routes that lose nothing", among_programs, 0, 10},
    {"reliable-acks", "nothing is acknowledged", few_acks, 8, 0},
    {"reliable-short", "frames too short for headers", short_frames, 40, 0},
    {"reliable-broken", "a route that should lose nothing loses a frame", promise_broken, 8, 0},
    {0},
};
