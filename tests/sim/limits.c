/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Limits: memory for what nobody receives, many senders to one receiver, receivers that do not look.
 */
#include <string.h>

#include "scenario.h"

#define RATE_BPS 10000000000ull

static void begin(struct sim_case *c, unsigned nodes, size_t switch_bytes)
{
    sim_case_begin(c, nodes, 1);
    sim_world_rate(&c->world, RATE_BPS, 65536, switch_bytes);
}

static void finish(struct sim_case *c, uint64_t limit_ns)
{
    if (sim_program_run(&c->program, limit_ns))
        sim_model_check(&c->program);
    sim_case_end(c);
}

/* Three nodes send far more than the fourth may keep. Nothing is lost: what does not fit waits at its sender. */
static void never_posts(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    const unsigned each = 120;
    struct sim_node *r;
    uint64_t held = 0;

    begin(c, 4, 0);
    w->cfg.p_unexpected_max = 65536 + emx_rng_below(&rng, 200000);
    w->cfg.p_unexpected_peer = emx_rng_below(&rng, 100000);
    sim_world_start(w);
    r = &w->nodes[3];
    for (unsigned i = 0; i < 3 * each && !sim_failed(w); i++) {
        struct sim_node *n = &w->nodes[i % 3];

        sim_send(p, n, r->party, i, emx_rng_below(&rng, 30000), emx_rng_below(&rng, 2),
                 emx_rng_below(&rng, SIM_SHAPES));
        sim_node_pump(n);
        sim_world_run_until(w, w->now_ns + emx_rng_below(&rng, 50000));
    }
    sim_world_run_until(w, w->now_ns + 5 * SIM_S);
    for (unsigned i = 0; i < 3; i++)
        held += w->nodes[i].stats.sent_held;
    if (!held && !sim_failed(w))
        sim_fail(w, "no sender was held although the receiver keeps only %llu bytes",
                 (unsigned long long)w->cfg.p_unexpected_max);
    if (r->stats.unexpected_now != 3 * each)
        sim_fail(w, "%llu of %u messages have arrived or been announced", (unsigned long long)r->stats.unexpected_now,
                 3 * each);
    for (unsigned i = 3 * each; i-- && !sim_failed(w);) {
        sim_recv(p, r, SIM_ANY, i, SIM_FULL_MASK, 30000, emx_rng_below(&rng, SIM_SHAPES));
        sim_node_pump(r);
    }
    finish(c, sim_limit(w, each * 3 * 30000, RATE_BPS, SIM_S));
}

/* 32 nodes send to one at once, through a switch that can keep a fraction of it. */
static void incast(struct sim_case *c)
{
    static const size_t switch_bytes[] = {0, 256 << 10, 128 << 10, 1 << 20};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    const unsigned senders = 32;
    const size_t len_bytes = 512 << 10;

    begin(c, senders + 1, switch_bytes[c->seed % 4]);
    w->check_every = 64;
    sim_world_start(w);
    for (unsigned i = 0; i < senders; i++) {
        sim_recv(p, &w->nodes[senders], w->nodes[i].party, i, SIM_FULL_MASK, len_bytes, SIM_CONTIGUOUS);
        sim_send(p, &w->nodes[i], w->nodes[senders].party, i, len_bytes, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    }
    for (unsigned i = 0; i <= senders; i++)
        sim_node_pump(&w->nodes[i]);
    finish(c, sim_limit(w, senders * len_bytes, RATE_BPS, SIM_S));
}

static void stream(struct sim_case *c, unsigned count, size_t len_bytes)
{
    struct sim_world *w = &c->world;

    for (unsigned i = 0; i < count; i++) {
        sim_recv(&c->program, &w->nodes[1], w->nodes[0].party, i, SIM_FULL_MASK, len_bytes, SIM_CONTIGUOUS);
        sim_send(&c->program, &w->nodes[0], w->nodes[1].party, i, len_bytes, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    }
    sim_node_pump(&w->nodes[1]);
    sim_node_pump(&w->nodes[0]);
}

/* The receiver is stopped for 5 s in the middle of it; its ring overflows. */
static void stopped(struct sim_case *c)
{
    static const size_t lengths[] = {100, 5000, 30000, 100000};
    struct sim_world *w = &c->world;
    size_t len_bytes = lengths[c->seed % 4];

    begin(c, 2, 0);
    w->cfg.p_ring = 65536;
    sim_world_start(w);
    stream(c, 200, len_bytes);
    sim_world_run_until(w, w->now_ns + 200000 + c->seed * 13000);
    sim_node_pace(&w->nodes[1], SIM_STOPPED, w->now_ns + 5 * SIM_S);
    finish(c, sim_limit(w, 200 * len_bytes, RATE_BPS, 7 * SIM_S));
}

/* The receiver computes for longer than the peer timeout; its heartbeat keeps the peers alive. */
static void computes(struct sim_case *c)
{
    struct sim_world *w = &c->world;

    begin(c, 2, 0);
    w->cfg.p_peer_timeout = 2 * SIM_S;
    sim_world_start(w);
    stream(c, 50, c->seed & 1 ? 200000 : 2000);
    sim_world_run_until(w, w->now_ns + 100000 + c->seed * 17000);
    sim_node_pace(&w->nodes[1], SIM_COMPUTES, w->now_ns + 20 * SIM_S);
    finish(c, sim_limit(w, 50 * 200000, RATE_BPS, 23 * SIM_S));
}

/* A receive from a peer that computes for long, and then sends. */
static void waits(struct sim_case *c)
{
    struct sim_world *w = &c->world;

    begin(c, 2, 0);
    w->cfg.p_peer_timeout = 2 * SIM_S;
    sim_world_start(w);
    if (c->seed & 1)
        sim_connect(c, &w->nodes[0], &w->nodes[1]);
    sim_recv(&c->program, &w->nodes[1], w->nodes[0].party, 1, SIM_FULL_MASK, 100, SIM_CONTIGUOUS);
    sim_node_pump(&w->nodes[1]);
    if (c->seed & 2)
        sim_node_pace(&w->nodes[0], SIM_COMPUTES, w->now_ns + 19 * SIM_S);
    sim_world_run_until(w, w->now_ns + 20 * SIM_S);
    sim_send(&c->program, &w->nodes[0], w->nodes[1].party, 1, 100, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pump(&w->nodes[0]);
    finish(c, w->now_ns + SIM_S);
}

/* The same work again and again: memory does not grow. */
static void soak(struct sim_case *c)
{
    struct sim_world *w = &c->world;
    size_t after_four = 0, now;

    begin(c, 3, 0);
    sim_world_start(w);
    for (unsigned round = 0; round < 12 && !sim_failed(w); round++) {
        for (unsigned i = 0; i < 60; i++) {
            struct sim_node *a = &w->nodes[i % 3], *b = &w->nodes[(i + 1 + i / 30) % 3];

            sim_send(&c->program, a, b->party, i, i * 997, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
            sim_node_pump(a);
        }
        sim_world_run_until(w, w->now_ns + 10 * SIM_MS);
        for (unsigned i = 0; i < 60; i++) {
            struct sim_node *b = &w->nodes[(i + 1 + i / 30) % 3];

            sim_recv(&c->program, b, SIM_ANY, i, SIM_FULL_MASK, i * 997, SIM_CONTIGUOUS);
            sim_node_pump(b);
        }
        sim_program_run(&c->program, w->now_ns + SIM_S);
        now = 0;
        for (unsigned i = 0; i < 3 && !sim_failed(w); i++) {
            now += emx_engine_memory(w->nodes[i].engine);
            if (w->nodes[i].stats.unexpected_bytes)
                sim_fail(w, "n%u: unexpected memory is left", i);
        }
        if (round == 3) /* by then the windows are open */
            after_four = now;
        else if (round > 3 && now > after_four)
            sim_fail(w, "after round %u the engines hold %zu bytes, after the fourth it was %zu", round, now,
                     after_four);
    }
    finish(c, w->now_ns + SIM_S);
}

/* Streams messages of len_bytes from node 0 to node 1 to the end; returns how many of them were pulled. */
static uint64_t pulled(struct sim_case *c, unsigned count, size_t len_bytes)
{
    struct sim_world *w = &c->world;
    uint64_t before = w->nodes[0].stats.sent_large;

    stream(c, count, len_bytes);
    sim_program_run(&c->program, w->now_ns + 10 * SIM_S);
    return w->nodes[0].stats.sent_large - before;
}

/* A long eager message is pulled at first, and when frames were lost. */
static void long_eager(struct sim_case *c)
{
    const size_t len_bytes = 40000 + c->seed * 2048;
    struct sim_world *w = &c->world;
    struct sim_link *l;

    begin(c, 2, 0);
    w->cfg.p_unexpected_peer = 1 << 20;
    sim_world_start(w);
    l = sim_world_link(w, 0, 1, 0);
    if (sim_connect(c, &w->nodes[0], &w->nodes[1]) && pulled(c, 1, len_bytes) != 1)
        sim_fail(w, "a message of %zu bytes was not pulled at first", len_bytes);
    if (!sim_failed(w) && pulled(c, 200, 1000))
        sim_fail(w, "short messages were pulled");
    if (!sim_failed(w) && pulled(c, 1, len_bytes))
        sim_fail(w, "a message of %zu bytes was pulled although nothing was lost", len_bytes);
    for (unsigned i = 0; i < 4 && !sim_failed(w); i++) {
        l->faults.drop_mask = 1 << 3;
        l->faults.mask_first = l->number;
        if (pulled(c, 1, 30000))
            sim_fail(w, "a message of 30000 bytes was pulled");
    }
    if (!sim_failed(w) && pulled(c, 1, len_bytes) != 1)
        sim_fail(w, "a message of %zu bytes was not pulled although frames were lost", len_bytes);
    finish(c, w->now_ns + SIM_S);
}

#define BLOCK_CHUNKS 8
#define LATE_NS      (3 * SIM_S)

/* Of the first data frames the last of the first block comes late, and that of the second does not. */
static enum sim_verdict hold_last(void *arg, const struct sim_look *look, uint64_t *delay_ns_p)
{
    (void)arg;
    if (look->head->type != EMX_F_data)
        return SIM_PASS;
    *delay_ns_p = LATE_NS;
    if (look->nth == BLOCK_CHUNKS - 1)
        return SIM_DELAY;
    return look->nth == 2 * BLOCK_CHUNKS - 1 ? SIM_DROP : SIM_PASS;
}

/* The time-out of a block is over while the receiver's card takes no frames, and its data come before it can ask again.
 * The other block is asked for again all the same. */
static void mute(struct sim_case *c)
{
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, 2, 0);
    w->cfg.p_eager_max = 0;
    w->cfg.p_pull_frames = BLOCK_CHUNKS;
    w->cfg.p_peer_timeout = 60 * SIM_S;
    sim_world_start(w);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    sim_world_run_until(w, w->now_ns + SIM_MS);
    sim_world_link(w, 0, 1, 0)->verdict = hold_last;
    memset(sim_world_link(w, 0, 1, 0)->of_type, 0, sizeof(sim_world_link(w, 0, 1, 0)->of_type));
    sim_recv(&c->program, b, a->party, 1, SIM_FULL_MASK, 2 * BLOCK_CHUNKS * 1400, SIM_CONTIGUOUS);
    sim_send(&c->program, a, b->party, 1, 2 * BLOCK_CHUNKS * 1400, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_node_pump(a);
    sim_world_run_until(w, w->now_ns + 100000 + c->seed * 1000);
    b->out[0].busy_until_ns = w->now_ns + LATE_NS + SIM_S;
    finish(c, w->now_ns + 30 * SIM_S);
}

const struct sim_scenario sim_limits[] = {
    {"long-eager", "messages beyond 32 KiB are pulled while frames get lost", long_eager, 10, 0},
    {"never-posts", "more than the unexpected memory: senders are held, nothing is lost", never_posts, 60, 0},
    {"incast", "32 senders of 512 KiB to one receiver", incast, 4, 0},
    {"stopped", "a receiver stopped for 5 s in a stream", stopped, 40, 0},
    {"computes", "a receiver with nothing but a heartbeat for 20 s, peer timeout 2 s", computes, 40, 0},
    {"mute", "a receiver's card takes no frames when it should ask for data again", mute, 8, 0},
    {"waits", "a receive that waits for 20 s, peer timeout 2 s", waits, 4, 0},
    {"soak", "the same work twelve times: memory does not grow", soak, 1, 0},
    {0},
};
