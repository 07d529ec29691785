/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Removals: nodes that remove each other and meet again at once, while frames of the session before are under way,
 * late, doubled or lost, the goodbye among them. Every message arrives once and in order.
 */
#include "base/keyed_hash.h"
#include "scenario.h"

#define TIMEOUT_NS (2 * SIM_S)

static void begin(struct sim_case *c, struct emx_rng *rng)
{
    struct sim_world *w = &c->world;
    struct sim_faults x = {.delay_ns = 2000,
                           .jitter_ns = emx_rng_below(rng, 20000),
                           .drop_ppm = emx_rng_below(rng, 200000),
                           .duplicate_ppm = emx_rng_below(rng, 100000),
                           .reorder_ppm = emx_rng_below(rng, 100000),
                           .reorder_ns = emx_rng_below(rng, 20 * SIM_MS)};
    const char *why;

    sim_case_begin(c, 2, 1);
    w->cfg.p_peer_timeout = TIMEOUT_NS;
    w->reliable = w->reads = c->seed % 4 == 0;
    w->brief = c->seed % 3 == 1;
    w->auth = c->seed % 4 == 1 && emx_keyed_hash_usable(&why);
    if (!w->reliable)
        sim_world_faults(w, &x);
    sim_world_rate(w, 10000000000ull, 65536, 0);
    sim_world_start(w);
}

/* As soon as nothing is open; the other end may be gone already. */
static bool remove_other(struct sim_case *c, struct sim_node *n, unsigned party)
{
    struct sim_world *w = &c->world;
    struct emx_peer *p = n->peers[party];
    int rc = ETHMX_ERR_BUSY;

    for (unsigned tries = 0; p && rc == ETHMX_ERR_BUSY && tries < 10000 && !sim_failed(w); tries++) {
        rc = emx_engine_remove(n->engine, p, false, w->now_ns);
        if (rc == ETHMX_ERR_BUSY)
            sim_world_run_until(w, w->now_ns + SIM_MS);
    }
    if (p && rc)
        sim_fail(w, "n%u: the peer is not removed (%d)", n->index, rc);
    n->peers[party] = NULL;
    sim_node_pump(n);
    return !sim_failed(w);
}

static void talk(struct sim_case *c, struct emx_rng *rng)
{
    static const size_t lengths[] = {0, 10, 1000, 5000, 30000, 200000};
    struct sim_world *w = &c->world;
    unsigned count = 1 + (unsigned)emx_rng_below(rng, 20);

    for (unsigned i = 0; i < count && !sim_failed(w); i++)
        for (unsigned n = 0; n < 2; n++) {
            struct sim_node *src = &w->nodes[n], *dst = &w->nodes[!n];
            size_t len_bytes = lengths[emx_rng_below(rng, 6)];

            sim_recv(&c->program, dst, emx_rng_below(rng, 2) ? SIM_ANY : (int)src->party, 1 + n, SIM_FULL_MASK, 200000,
                     emx_rng_below(rng, SIM_SHAPES));
            sim_send(&c->program, src, dst->party, 1 + n, len_bytes, emx_rng_below(rng, 4) == 0,
                     emx_rng_below(rng, SIM_SHAPES));
            sim_node_pump(dst);
            sim_node_pump(src);
        }
    sim_program_run(&c->program, w->now_ns + 20 * SIM_S);
}

static void removals(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_world *w = &c->world;

    begin(c, &rng);
    for (unsigned round = 0; round < 8 && !sim_failed(w); round++) {
        unsigned first = emx_rng_below(&rng, 2);

        talk(c, &rng);
        for (unsigned i = 0; i < 2 && !sim_failed(w); i++) {
            struct sim_node *n = &w->nodes[i ? !first : first];

            if (remove_other(c, n, w->nodes[!n->index].party))
                sim_world_run_until(w, w->now_ns + emx_rng_below(&rng, 5 * SIM_MS));
        }
    }
    if (!sim_failed(w))
        sim_model_check(&c->program);
    sim_case_end(c);
}

const struct sim_scenario sim_removals[] = {
    {"removals", "nodes that remove each other and meet again", removals, 0, 2},
    {0},
};
