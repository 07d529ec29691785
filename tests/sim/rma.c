/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations: random programs on networks that lose, double and reorder frames, every subset of the first
 * frames lost, regions withdrawn under way, nodes that die, memory that runs out. Some map each other's regions.
 */
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "rma_model.h"

/* So long that losses do not look like a peer's end: frames are sent 40 times in it, of which any may be lost. */
#define TIMEOUT_NS (20 * SIM_S)
#define LIMIT_NS   (4 * TIMEOUT_NS) /* for what waits for a peer's end */

static void draw_settings(struct sim_case *c, struct emx_rng *rng)
{
    static const uint64_t eager_max[] = {0, 100, 3000, 65536};
    static const uint32_t frame_bytes[] = {256, 400, 1500, 9000};
    struct sim_world *w = &c->world;
    const char *why;

    w->cfg.p_peer_timeout = w->cfg.p_connect_timeout = TIMEOUT_NS;
    w->cfg.p_eager_max = eager_max[emx_rng_below(rng, 4)];
    w->cfg.p_window = 8u << emx_rng_below(rng, 5);
    w->cfg.p_pull_window = 16384u << emx_rng_below(rng, 8);
    w->frame_bytes[0] = frame_bytes[emx_rng_below(rng, 4)];
    w->reliable = w->reads = c->seed % 4 == 0;
    w->read_fail_ppm = emx_rng_below(rng, 4) ? 0 : 300000;
    w->read_slow_ns = emx_rng_below(rng, 2) ? 0 : emx_rng_below(rng, SIM_MS);
    w->brief = c->seed % 3 == 1;
    w->maps = c->seed % 5 == 2;
    w->auth = c->seed % 4 == 1 && emx_keyed_hash_usable(&why);
    sim_world_rate(w, 10000000000ull, 65536, 0);
}

static void draw_faults(struct sim_case *c, struct emx_rng *rng)
{
    struct sim_faults x = {.delay_ns = 2000,
                           .jitter_ns = emx_rng_below(rng, 20000),
                           .drop_ppm = emx_rng_below(rng, 200000),
                           .duplicate_ppm = emx_rng_below(rng, 100000),
                           .reorder_ppm = emx_rng_below(rng, 100000),
                           .reorder_ns = emx_rng_below(rng, SIM_MS)};

    if (!c->world.reliable && emx_rng_below(rng, 4))
        sim_world_faults(&c->world, &x);
}

static struct rma_model *begin(struct sim_case *c, struct emx_rng *rng, unsigned nodes)
{
    struct rma_model *m = calloc(1, sizeof(*m));

    if (!m)
        abort();
    rng->state = emx_mix64(c->seed);
    sim_case_begin(c, nodes, 1);
    draw_settings(c, rng);
    draw_faults(c, rng);
    sim_world_start(&c->world);
    rma_model_init(m, c);
    return m;
}

static void end(struct rma_model *m)
{
    struct sim_case *c = m->c;

    sim_case_end(c);
    rma_model_fini(m);
    free(m);
}

/* Now and then two-sided messages travel between the operations. */
static void talk(struct rma_model *m, struct emx_rng *rng, unsigned from, unsigned to)
{
    struct sim_program *p = &m->c->program;
    size_t len_bytes = emx_rng_below(rng, 30000);

    sim_recv(p, &m->w->nodes[to], (int)m->w->nodes[from].party, 1, SIM_FULL_MASK, len_bytes, SIM_CONTIGUOUS);
    sim_send(p, &m->w->nodes[from], m->w->nodes[to].party, 1, len_bytes, emx_rng_below(rng, 4) == 0, SIM_CONTIGUOUS);
    sim_node_pump(&m->w->nodes[to]);
}

static void step(struct rma_model *m, struct emx_rng *rng, unsigned flood)
{
    struct sim_world *w = m->w;
    unsigned origin = (unsigned)emx_rng_below(rng, w->node_count), target = (unsigned)emx_rng_below(rng, w->node_count);
    unsigned count = 1 + (unsigned)emx_rng_below(rng, flood);

    for (unsigned i = 0; i < count && !sim_failed(w); i++)
        rma_any(m, origin, target);
    if (emx_rng_below(rng, 10) == 0 && origin != target)
        talk(m, rng, origin, target);
    if (emx_rng_below(rng, 40) == 0 && w->nodes[target].pace == SIM_POLLS)
        sim_node_pace(&w->nodes[target], emx_rng_below(rng, 2) ? SIM_COMPUTES : SIM_STOPPED,
                      w->now_ns + 1 + emx_rng_below(rng, 50 * SIM_MS));
    if (w->nodes[origin].pace == SIM_POLLS)
        sim_node_pump(&w->nodes[origin]);
    if (emx_rng_below(rng, 3) == 0)
        sim_world_run_until(w, w->now_ns + emx_rng_below(rng, 300000));
}

static void random_programs(struct sim_case *c)
{
    struct emx_rng rng;
    struct rma_model *m = begin(c, &rng, 2 + c->seed % (RMA_NODES - 1));
    unsigned steps = 10 + (unsigned)emx_rng_below(&rng, 150), flood = emx_rng_below(&rng, 8) ? 4 : 400;

    if (flood > 4)
        steps = 5;
    for (unsigned i = 0; i < steps && !sim_failed(m->w); i++)
        step(m, &rng, flood);
    rma_finish(m, m->w->now_ns + LIMIT_NS);
    if (!sim_failed(m->w))
        sim_program_run(&c->program, m->w->now_ns + LIMIT_NS);
    end(m);
}

/* ---- Every mask ---- */

#define MASK_BITS 12
#define CASES     (4u << MASK_BITS) /* masks, two directions, cold and warm */

static struct rma_model *begin_masked(struct sim_case *c)
{
    struct rma_model *m = calloc(1, sizeof(*m));
    struct sim_link *l;

    if (!m)
        abort();
    sim_case_begin(c, 2, 1);
    c->world.cfg.p_eager_max = 4000;
    sim_world_start(&c->world);
    rma_model_init(m, c);
    if (c->seed >> (MASK_BITS + 1))
        sim_connect(c, &c->world.nodes[0], &c->world.nodes[1]);
    l = sim_world_link(&c->world, c->seed >> MASK_BITS & 1, !(c->seed >> MASK_BITS & 1), 0);
    l->faults.drop_mask = c->seed & ((1u << MASK_BITS) - 1);
    l->faults.mask_first = l->number;
    return m;
}

static void end_masked(struct rma_model *m)
{
    sim_node_pump(&m->w->nodes[0]);
    rma_finish(m, m->w->now_ns + 10 * SIM_S);
    end(m);
}

/* Each result depends on all that was done before it. */
static void masked_atomics(struct sim_case *c)
{
    struct rma_model *m = begin_masked(c);

    rma_change(m, 0, 1, EMX_RMA_FETCH_OP, ETHMX_RMA_SUM, 0, 1, SIM_CONTIGUOUS);
    rma_change(m, 0, 1, EMX_RMA_ACCUMULATE, ETHMX_RMA_PROD, 0, 2, SIM_CONTIGUOUS);
    rma_change(m, 0, 1, EMX_RMA_ACCUMULATE, ETHMX_RMA_SUM, 0, 200, SIM_CONTIGUOUS); /* in two frames */
    rma_change(m, 0, 1, EMX_RMA_COMPARE_SWAP, 0, 0, 1, SIM_CONTIGUOUS);
    rma_count(m, 0, 1, 0, true);
    rma_count(m, 0, 1, 0, true);
    rma_change(m, 0, 1, EMX_RMA_FETCH_OP, ETHMX_RMA_NO_OP, 0, 2, SIM_CONTIGUOUS);
    end_masked(m);
}

static void masked_puts(struct sim_case *c)
{
    struct rma_model *m = begin_masked(c);

    rma_put(m, 0, 1, 0, 64, ETHMX_RMA_LOCAL, SIM_CONTIGUOUS);
    rma_put(m, 0, 1, 1, 1400, ETHMX_RMA_REMOTE, SIM_CONTIGUOUS);
    rma_put(m, 0, 1, 2, 3900, ETHMX_RMA_LOCAL, SIM_CONTIGUOUS);
    rma_wrong(m, 0, 1, EMX_RMA_PUT);
    rma_flush(m, 0, 1);
    sim_node_pump(&m->w->nodes[0]);
    if (rma_wait(m, m->w->now_ns + 10 * SIM_S))
        rma_get(m, 0, 1, 1, SIM_CONTIGUOUS);
    end_masked(m);
}

static void masked_long(struct sim_case *c)
{
    struct rma_model *m = begin_masked(c);

    rma_put(m, 0, 1, 3, 20000, ETHMX_RMA_LOCAL, SIM_CONTIGUOUS);
    rma_flush(m, 0, 1);
    sim_node_pump(&m->w->nodes[0]);
    if (rma_wait(m, m->w->now_ns + 10 * SIM_S))
        rma_get(m, 0, 1, 3, SIM_CONTIGUOUS);
    end_masked(m);
}

/* ---- Regions withdrawn under way ---- */

static int withdraw(struct rma_model *m, unsigned node)
{
    struct sim_node *n = &m->w->nodes[node];
    int rc;

    while ((rc = emx_engine_withdraw(n->engine, m->site[node].region, sim_node_now(n))) == ETHMX_ERR_BUSY &&
           !sim_failed(m->w))
        sim_world_run_until(m->w, m->w->now_ns + 1000);
    m->site[node].region = NULL;
    sim_node_pump(n);
    return rc;
}

/* Operations succeed or are refused; from the withdrawal on nothing is written or read. */
static void withdrawals(struct sim_case *c)
{
    struct emx_rng rng;
    struct rma_model *m = begin(c, &rng, 2);
    struct rma_site *s = &m->site[1];
    uint8_t *left = malloc(s->len_bytes);

    if (!left)
        abort();
    m->fails[0] = m->fails[1] = true;
    if (c->seed % 2) { /* the target lets a long get be pulled meanwhile */
        rma_put(m, 0, 1, 3, 70000, ETHMX_RMA_REMOTE, SIM_CONTIGUOUS);
        sim_node_pump(&m->w->nodes[0]);
        if (rma_wait(m, m->w->now_ns + LIMIT_NS))
            rma_get(m, 0, 1, 3, SIM_CONTIGUOUS);
    }
    for (unsigned i = 0; i < 60 && !sim_failed(m->w); i++)
        rma_any(m, 0, 1);
    if (!m->pair[0][1].block[3].busy && !m->pair[0][1].block[3].dirty)
        rma_put(m, 0, 1, 3, 70000, ETHMX_RMA_REMOTE, SIM_CONTIGUOUS);
    sim_node_pump(&m->w->nodes[0]);
    sim_world_run_until(m->w, m->w->now_ns + emx_rng_below(&rng, emx_rng_below(&rng, 2) ? 300000 : 3 * SIM_MS));
    if (!sim_failed(m->w) && withdraw(m, 1))
        sim_fail(m->w, "the region is not withdrawn");
    memcpy(left, s->base, s->len_bytes);
    for (unsigned i = 0; i < 20 && !sim_failed(m->w); i++)
        rma_any(m, 0, 1);
    rma_flush(m, 0, -1);
    sim_node_pump(&m->w->nodes[0]);
    if (rma_wait(m, m->w->now_ns + LIMIT_NS) && !m->refused)
        sim_fail(m->w, "nothing was refused after the withdrawal");
    if (!sim_failed(m->w) && memcmp(left, s->base, s->len_bytes))
        sim_fail(m->w, "a region was written after its withdrawal");
    free(left);
    end(m);
}

/* A long put between processes of one host is read from the origin's memory, a long get from the target's. The target
 * withdraws its region before, during and after that; reads may take long, and write until they end. */
static void reads(struct sim_case *c)
{
    struct rma_model *m = calloc(1, sizeof(*m));
    struct sim_world *w = &c->world;
    struct rma_site *s;
    uint8_t *left;

    if (!m)
        abort();
    sim_case_begin(c, 2, 1);
    w->cfg.p_eager_max = 65536;
    w->reliable = w->reads = true;
    w->read_slow_ns = c->seed % 2 * 100000;
    sim_world_start(w);
    rma_model_init(m, c);
    s = &m->site[1];
    left = malloc(s->len_bytes);
    if (!left)
        abort();
    rma_put(m, 0, 1, 3, 70000, ETHMX_RMA_REMOTE, SIM_CONTIGUOUS);
    sim_node_pump(&w->nodes[0]);
    if (rma_wait(m, w->now_ns + SIM_S) && w->nodes[1].stats.bytes_read != 70000)
        sim_fail(w, "a long put was not read");
    rma_get(m, 0, 1, 3, SIM_CONTIGUOUS);
    sim_node_pump(&w->nodes[0]);
    if (rma_wait(m, w->now_ns + SIM_S) && w->nodes[0].stats.bytes_read != 70000)
        sim_fail(w, "a long get was not read");
    m->fails[1] = true;
    if (c->seed / 2 % 2)
        rma_get(m, 0, 1, 3, SIM_CONTIGUOUS);
    else
        rma_put(m, 0, 1, 3, 70000, ETHMX_RMA_REMOTE, SIM_CONTIGUOUS);
    sim_node_pump(&w->nodes[0]);
    sim_world_run_until(w, w->now_ns + c->seed / 4 * 4000);
    if (!sim_failed(w) && withdraw(m, 1))
        sim_fail(w, "the region is not withdrawn");
    memcpy(left, s->base, s->len_bytes);
    if (rma_wait(m, w->now_ns + SIM_S))
        sim_world_run_until(w, w->now_ns + SIM_MS); /* whatever still writes shows */
    if (!sim_failed(w) && memcmp(left, s->base, s->len_bytes))
        sim_fail(w, "a region was written after its withdrawal");
    free(left);
    end(m);
}

/* Three nodes use regions that some map, and some not, while others' operations are under way. Whatever waits for
 * nothing is done there without frames. */
static void maps(struct sim_case *c)
{
    struct rma_model *m = calloc(1, sizeof(*m));
    struct sim_world *w = &c->world;
    uint64_t direct = 0;

    if (!m)
        abort();
    sim_case_begin(c, 3, 1);
    w->maps = true;
    w->reliable = c->seed % 2;
    sim_world_start(w);
    rma_model_init(m, c);
    for (unsigned i = 0; i < 200 && !sim_failed(w); i++) {
        rma_any(m, i % 3, (i + 1 + i / 3 % 2) % 3);
        sim_node_pump(&w->nodes[i % 3]);
        if (emx_rng_below(&m->rng, 3) == 0)
            rma_wait(m, w->now_ns + SIM_S);
    }
    rma_finish(m, w->now_ns + 10 * SIM_S);
    for (unsigned i = 0; i < 3; i++)
        direct += w->nodes[i].stats.rma_direct;
    if (!sim_failed(w) && (!direct || direct > m->mapped))
        sim_fail(w, "%llu operations without frames", (unsigned long long)direct);
    end(m);
}

/* ---- Nodes that die ---- */

static void deaths(struct sim_case *c)
{
    struct emx_rng rng;
    struct rma_model *m = begin(c, &rng, 3);
    struct sim_world *w = m->w;

    m->fails[1] = true;
    c->program.doomed[w->nodes[1].party] = c->program.loses = true;
    for (unsigned i = 0; i < 300 && !sim_failed(w); i++)
        rma_any(m, i % 2 ? 2 : 0, emx_rng_below(&rng, 4) ? 1 : 2);
    rma_flush(m, 0, 1);
    m->fails[0] = m->fails[2] = true; /* flushes of all tell of it */
    rma_flush(m, 0, -1);
    rma_flush(m, 2, 1);
    sim_node_pump(&w->nodes[0]);
    sim_node_pump(&w->nodes[2]);
    sim_world_run_until(w, w->now_ns + emx_rng_below(&rng, 2 * SIM_MS));
    sim_node_crash(&w->nodes[1]);
    sim_program_bury(&c->program, w->nodes[1].party);
    rma_wait(m, w->now_ns + LIMIT_NS);
    end(m);
}

/* A peer is removed while operations with it are open: each ends, and none leaves anything behind. */
static void removals(struct sim_case *c)
{
    struct emx_rng rng;
    struct rma_model *m = begin(c, &rng, 2);
    struct sim_world *w = m->w;
    struct sim_node *n;

    m->fails[0] = m->fails[1] = m->vague = true;
    for (unsigned round = 0; round < 6 && !sim_failed(w); round++) {
        for (unsigned i = 0; i < 100 && !sim_failed(w); i++)
            rma_any(m, i % 2, !(i % 2));
        rma_flush(m, 0, 1);
        rma_flush(m, 1, -1);
        sim_node_pump(&w->nodes[0]);
        sim_node_pump(&w->nodes[1]);
        sim_world_run_until(w, w->now_ns + emx_rng_below(&rng, SIM_MS));
        for (unsigned i = 0; i < 2 && !sim_failed(w); i++) {
            n = &w->nodes[(round + i) % 2];
            if (n->peers[w->nodes[!n->index].party])
                emx_engine_remove(n->engine, n->peers[w->nodes[!n->index].party], true, sim_node_now(n));
            n->peers[w->nodes[!n->index].party] = NULL;
            sim_node_pump(n);
            sim_world_run_until(w, w->now_ns + emx_rng_below(&rng, 2 * SIM_MS));
        }
        rma_wait(m, w->now_ns + LIMIT_NS);
    }
    end(m);
}

/* ---- Memory ---- */

static void out_of_memory(struct sim_case *c)
{
    struct rma_model *m = calloc(1, sizeof(*m));
    struct emx_rng rng = {.state = emx_mix64(c->seed / 4 / 150)};
    struct sim_world *w = &c->world;
    struct sim_node *n;

    if (!m)
        abort();
    sim_case_begin(c, 2, 1);
    n = &w->nodes[c->seed % 2];
    n->fail_first = 1 + c->seed / 4 % 150;
    n->fail_end = n->fail_first + (c->seed / 2 % 2 ? 1 : 10);
    w->reliable = c->seed / 4 / 150 % 2;
    w->cfg.p_eager_max = 3000;
    sim_world_start(w);
    if (n->engine) {
        rma_model_init(m, c);
        m->no_memory = true;
        m->fails[0] = m->fails[1] = !m->site[0].region || !m->site[1].region;
        for (unsigned i = 0; i < 100 && !sim_failed(w); i++) {
            rma_any(m, i % 2, !(i % 2));
            sim_node_pump(&w->nodes[i % 2]);
            if (i % 8 == 7)
                sim_world_run_until(w, w->now_ns + emx_rng_below(&rng, 100000));
        }
        rma_wait(m, w->now_ns + 20 * SIM_S);
    }
    sim_case_end(c);
    if (m->w)
        rma_model_fini(m);
    free(m);
}

const struct sim_scenario sim_rma[] = {
    {"rma", "random one-sided programs, with losses", random_programs, 0, 15},
    {"rma-mask-atomics", "every subset of the first 12 frames lost: atomics", masked_atomics, CASES, 0},
    {"rma-mask-puts", "the same, puts and a get", masked_puts, CASES, 0},
    {"rma-mask-long", "the same, a long put and a long get", masked_long, CASES, 0},
    {"rma-withdrawals", "a region is withdrawn while it is used", withdrawals, 0, 5},
    {"rma-reads", "long puts and gets are read from the other process's memory", reads, 200, 0},
    {"rma-maps", "some map the regions of others, and need no frames", maps, 0, 3},
    {"rma-deaths", "a node dies that others use", deaths, 0, 3},
    {"rma-removals", "a peer is removed while it is used", removals, 0, 3},
    {"rma-memory", "the n-th allocation fails", out_of_memory, 4 * 150 * 4, 0},
    {0},
};
