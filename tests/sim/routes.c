/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Routes: a wire that does not carry frames, or only short ones, or only one way, is passed over.
 */
#include "scenario.h"

static void spoil(struct sim_world *w, unsigned wire, uint32_t max_bytes, bool one_way)
{
    for (unsigned src = 0; src < w->node_count; src++)
        for (unsigned dst = 0; dst < w->node_count; dst++) {
            struct sim_faults *x = &sim_world_link(w, src, dst, wire)->faults;

            if (one_way && src > dst)
                continue;
            x->max_bytes = max_bytes;
            x->drop_ppm = max_bytes ? 0 : 1000000;
        }
}

static void play(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_world *w = &c->world;
    struct sim_traffic *t;
    struct sim_mix mix;

    sim_world_start(w);
    sim_mix_draw(&mix, &rng);
    t = sim_traffic_start(&c->program, &mix, c->seed);
    sim_traffic_run(t, w->now_ns + w->wire_count * w->cfg.p_connect_timeout + 10 * SIM_S);
    for (unsigned i = 0; i < w->node_count; i++)
        if (w->nodes[i].failed_peers)
            sim_fail(w, "n%u: %s", i, w->nodes[i].failed_text);
    sim_traffic_free(t);
    sim_case_end(c);
}

static void black_hole(struct sim_case *c)
{
    sim_case_begin(c, 2 + c->seed % 2, 2);
    spoil(&c->world, 0, 0, false);
    play(c);
}

static void black_hole_one_way(struct sim_case *c)
{
    sim_case_begin(c, 2, 2);
    spoil(&c->world, 0, 0, true);
    play(c);
}

static void short_only(struct sim_case *c)
{
    sim_case_begin(c, 2, 2);
    c->world.frame_bytes[0] = c->seed & 1 ? 9000 : 1500;
    spoil(&c->world, 0, c->seed & 2 ? 600 : 1499, c->seed & 4);
    play(c);
}

static void last_of_three(struct sim_case *c)
{
    sim_case_begin(c, 2, 3);
    spoil(&c->world, 0, 0, false);
    spoil(&c->world, 1, 700, false);
    play(c);
}

/* Each node prefers another wire; both work. */
static void crossed(struct sim_case *c)
{
    struct sim_node *n;

    sim_case_begin(c, 2, 2);
    c->world.frame_bytes[1] = 4000;
    n = &c->world.nodes[1];
    n->wires[0] = 1;
    n->wires[1] = 0;
    play(c);
}

const struct sim_scenario sim_routes[] = {
    {"black-hole", "the first wire carries nothing: the second is used", black_hole, 20, 0},
    {"black-hole-one-way", "the first wire carries nothing one way", black_hole_one_way, 20, 0},
    {"short-only", "the first wire carries short frames only", short_only, 40, 0},
    {"last-of-three", "only the third wire works", last_of_three, 10, 0},
    {"crossed", "two nodes prefer different wires", crossed, 20, 0},
    {0},
};
