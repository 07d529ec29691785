/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Recalls: shares of unexpected memory that idle senders have, and busy ones need. Some send bursts that nobody waits
 * for, others are silent meanwhile and come back at any moment, also while they are asked for what they have.
 */
#include "base/keyed_hash.h"
#include "scenario.h"

#define SENDERS   6
#define LEN_BYTES 1000
#define BURST     80

static void draw(struct sim_case *c, struct emx_rng *rng)
{
    struct sim_world *w = &c->world;
    struct sim_faults x = {.delay_ns = 2000,
                           .jitter_ns = emx_rng_below(rng, 20000),
                           .drop_ppm = emx_rng_below(rng, 50000),
                           .duplicate_ppm = emx_rng_below(rng, 100000),
                           .reorder_ppm = emx_rng_below(rng, 100000),
                           .reorder_ns = emx_rng_below(rng, 300 * SIM_MS)};
    const char *why;

    w->reliable = c->seed % 4 == 0;
    w->auth = c->seed % 4 == 1 && emx_keyed_hash_usable(&why);
    w->check_every = 128;
    w->cfg.p_unexpected_max = 300000 + emx_rng_below(rng, 200000);
    w->cfg.p_unexpected_peer = 10000 + emx_rng_below(rng, 200000);
    w->cfg.p_window = 8u << emx_rng_below(rng, 5);
    if (!w->reliable)
        sim_world_faults(w, &x);
}

/* Messages that nobody waits for, received afterwards. */
static void burst(struct sim_case *c, unsigned senders, unsigned count, struct emx_rng *rng)
{
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *r = &w->nodes[SENDERS];

    for (unsigned i = 0; i < count && !sim_failed(w); i++)
        for (unsigned n = 0; n < SENDERS; n++) {
            if (!(senders >> n & 1))
                continue;
            sim_send(p, &w->nodes[n], r->party, i, LEN_BYTES, emx_rng_below(rng, 8) == 0, SIM_CONTIGUOUS);
            sim_node_pump(&w->nodes[n]);
            if (emx_rng_below(rng, 16) == 0)
                sim_world_run_until(w, w->now_ns + emx_rng_below(rng, SIM_MS));
        }
    for (unsigned i = 0; i < count && !sim_failed(w); i++)
        for (unsigned n = 0; n < SENDERS; n++)
            if (senders >> n & 1)
                sim_recv(p, r, w->nodes[n].party, i, SIM_FULL_MASK, LEN_BYTES, SIM_CONTIGUOUS);
    sim_node_pump(r);
    sim_program_run(p, w->now_ns + 20 * SIM_S);
}

static void expect_agreement(struct sim_world *w)
{
    for (unsigned i = 0; i < w->node_count && !sim_failed(w); i++)
        if (w->nodes[i].stats.drop_malformed)
            sim_fail(w, "n%u: more was sent than promised, or given back than there was", i);
}

static bool some_in_turn(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_world *w = &c->world;
    const unsigned last = 1u << (SENDERS - 1);
    uint64_t held = 0, held_before = 0;

    sim_case_begin(c, SENDERS + 1, 1);
    draw(c, &rng);
    sim_world_rate(w, 10000000000ull, 65536, 0);
    sim_world_start(w);
    for (unsigned round = 0; round < 10 && !sim_failed(w); round++) {
        burst(c, (unsigned)emx_rng_below(&rng, 2 * last), 1 + emx_rng_below(&rng, 2 * BURST), &rng);
        sim_world_run_until(w, w->now_ns + emx_rng_below(&rng, 400 * SIM_MS));
    }
    burst(c, last - 1, BURST, &rng); /* the others take what there is */
    sim_world_run_until(w, w->now_ns + SIM_S);
    for (unsigned round = 0; round < 12 && !sim_failed(w); round++) {
        held_before = held;
        held = w->nodes[SENDERS - 1].stats.sent_held;
        burst(c, last, BURST, &rng);
        held = w->nodes[SENDERS - 1].stats.sent_held - held;
        sim_world_run_until(w, w->now_ns + 150 * SIM_MS);
    }
    /* It hears of its limit only before it runs dry, so one round may be short of it; but that makes the share grow. */
    if (held && held_before && !sim_failed(w))
        sim_fail(w, "the only one who sends still waits for credit: %llu of %u messages, and %llu the time before",
                 (unsigned long long)held, BURST, (unsigned long long)held_before);
    expect_agreement(w);
    return !sim_failed(w);
}

static void in_turn(struct sim_case *c)
{
    if (some_in_turn(c))
        sim_model_check(&c->program);
    sim_case_end(c);
}

const struct sim_scenario sim_recalls[] = {
    {"recalls", "senders that are busy by turns share the unexpected memory", in_turn, 0, 1},
    {0},
};
