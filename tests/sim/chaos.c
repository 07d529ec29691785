/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random programs on random networks with random configurations: whatever a network does short of separating nodes for
 * longer than the peer timeout, every message arrives once, intact and in order.
 */
#include "base/keyed_hash.h"
#include "scenario.h"

static uint64_t below(struct emx_rng *r, uint64_t limit)
{
    return emx_rng_below(r, limit);
}

static bool percent(struct emx_rng *r, unsigned p)
{
    return below(r, 100) < p;
}

static void draw_config(struct emx_config *cfg, struct emx_rng *r)
{
    static const uint64_t eager[] = {0, 100, 1000, 4096, 32768, 32768, 100000};
    static const uint64_t window[] = {8, 16, 64, 128, 128, 1024};
    static const uint64_t unexpected[] = {65536, 65536, 200000, 1 << 20, 64 << 20};
    static const uint64_t share[] = {0, 1000, 65536, 65536, 1 << 20};

    cfg->p_eager_max = eager[below(r, 7)];
    cfg->p_window = window[below(r, 6)];
    cfg->p_pull_frames = 1 + below(r, 64);
    cfg->p_pull_window = 4096u << below(r, 12);
    cfg->p_unexpected_max = unexpected[below(r, 5)];
    cfg->p_unexpected_peer = share[below(r, 5)];
    cfg->p_ack_every = 1 + below(r, 40);
    cfg->p_ack_delay = below(r, 2) ? 100000 : below(r, 2000000);
    cfg->p_rto_min = percent(r, 70) ? 2 * SIM_MS : 100000 + below(r, 20 * SIM_MS);
    cfg->p_rto_max = 100 * SIM_MS + below(r, 400 * SIM_MS);
    cfg->p_checksum = below(r, 3);
    cfg->p_read_min = 1u << below(r, 18);
}

static void draw_frame_bytes(struct sim_world *w, struct emx_rng *r)
{
    static const uint32_t frame_bytes[] = {576, 1500, 1500, 1500, 4096, 9000};

    for (unsigned i = 0; i < w->wire_count; i++)
        w->frame_bytes[i] = frame_bytes[below(r, 6)];
}

static uint64_t draw_rate(struct sim_world *w, struct emx_rng *r)
{
    static const uint64_t mbps[] = {100, 1000, 10000, 100000};
    uint64_t rate_bps = mbps[below(r, 4)] * 1000000;
    size_t most = w->frame_bytes[0] > w->frame_bytes[1] ? w->frame_bytes[0] : w->frame_bytes[1];

    sim_world_rate(w, rate_bps, most * (2 + below(r, 60)), percent(r, 50) ? 0 : most * (30 + below(r, 500)));
    return rate_bps;
}

/* All that can happen to a frame but damage. */
static void draw_faults(struct sim_faults *x, struct emx_rng *r)
{
    static const unsigned loss_ppm[] = {0, 1000, 10000, 50000, 200000};

    *x = (struct sim_faults){.delay_ns = 1000 + below(r, percent(r, 20) ? 5 * SIM_MS : 50000)};
    if (percent(r, 40))
        x->jitter_ns = below(r, 100000);
    if (percent(r, 60))
        x->drop_ppm = loss_ppm[below(r, 5)];
    if (percent(r, 30)) {
        x->burst_ppm = below(r, 20000);
        x->burst_ns = 1 + below(r, percent(r, 50) ? 300000 : 30 * SIM_MS);
    }
    if (percent(r, 40))
        x->duplicate_ppm = below(r, 200000);
    if (percent(r, 40)) {
        x->reorder_ppm = below(r, 300000);
        x->reorder_ns = below(r, SIM_MS);
    }
    if (percent(r, 20)) {
        x->spike_ppm = below(r, 5000);
        x->spike_ns = below(r, 50 * SIM_MS);
    }
}

static void draw_links(struct sim_world *w, struct emx_rng *r)
{
    struct sim_faults x;
    bool alike = percent(r, 50), marks = emx_mix64(w->seed ^ 0xec2) % 4 == 0;

    draw_faults(&x, r);
    for (unsigned i = 0; i < w->node_count * w->node_count * w->wire_count; i++) {
        if (!alike)
            draw_faults(&x, r);
        x.mark_ppm = marks ? emx_mix64(w->seed ^ i) % 1000000 : 0;
        w->links[i].faults = x;
    }
}

static void draw_nodes(struct sim_world *w, struct emx_rng *r)
{
    for (unsigned i = 0; i < w->node_count; i++)
        if (percent(r, 40))
            w->nodes[i].poll_ns = below(r, 100000);
    if (percent(r, 30))
        w->resolve_ns = below(r, 5 * SIM_MS);
}

/* Some worlds have them, and in some of these they do not arrive as they should. */
static void draw_gso(struct sim_world *w, struct emx_rng *r)
{
    static const enum sim_gso gso[] = {SIM_GSO_JOINED, SIM_GSO_JOINED, SIM_GSO_CUT, SIM_GSO_LOST};
    uint32_t least = UINT32_MAX;

    if (percent(r, 50))
        return;
    for (unsigned i = 0; i < w->wire_count; i++)
        least = w->frame_bytes[i] < least ? w->frame_bytes[i] : least;
    w->gso_bytes = least - 28;
    w->gso = gso[below(r, 4)];
}

/* The world of a seed, not started. Returns the rate. */
static uint64_t begin(struct sim_case *c, struct emx_rng *r)
{
    struct sim_world *w = &c->world;
    const char *why;
    uint64_t rate_bps;

    r->state = emx_mix64(c->seed ^ 0xc4a05);
    sim_case_begin(c, 2 + below(r, 4), 1 + below(r, 2));
    draw_config(&w->cfg, r);
    draw_frame_bytes(w, r);
    rate_bps = draw_rate(w, r);
    draw_links(w, r);
    draw_nodes(w, r);
    w->check_every = 1 + below(r, 20);
    w->brief = emx_mix64(c->seed ^ 0xb1e) % 4 == 0;
    w->auth = emx_mix64(c->seed ^ 0xa07) % 8 == 0 && emx_keyed_hash_usable(&why);
    c->program.remotes = emx_mix64(c->seed ^ 0x4e) % 4 == 0;
    c->program.untagged = emx_mix64(c->seed ^ 0x17a6) % 4 == 0;
    w->cfg.p_connect_timeout = 20 * SIM_S; /* losses may hit the handshake many times in a row */
    return rate_bps;
}

static void play(struct sim_case *c, struct emx_rng *r, uint64_t rate_bps, uint64_t slack_ns)
{
    struct sim_traffic *t;
    struct sim_mix mix;

    sim_mix_draw(&mix, r);
    mix.to_self = percent(r, 30);
    if (percent(r, 20)) {
        c->program.am_open_ns = c->world.now_ns + below(r, 20 * SIM_MS);
        c->program.in_order = false;
    }
    t = sim_traffic_start(&c->program, &mix, c->seed);
    sim_traffic_run(t, sim_limit(&c->world, 8 * sim_traffic_bytes(t), rate_bps, slack_ns));
    sim_traffic_free(t);
    sim_case_end(c);
}

static void chaos(struct sim_case *c)
{
    struct emx_rng r;
    uint64_t rate_bps = begin(c, &r);

    c->world.connected = emx_mix64(c->seed ^ 0xc0) % 4 == 0;
    c->world.reads = percent(&r, 20);
    c->world.read_fail_ppm = percent(&r, 50) ? 50000 : 0;
    c->world.read_slow_ns = percent(&r, 50) ? SIM_MS : 0;
    draw_gso(&c->world, &r);
    sim_world_start(&c->world);
    play(c, &r, rate_bps, 60 * SIM_S);
}

static void damage(struct sim_case *c, struct emx_rng *r, unsigned level)
{
    unsigned corrupt_ppm = below(r, 100000), truncate_ppm = below(r, 50000);
    struct sim_world *w = &c->world;

    w->cfg.p_checksum = level;
    for (unsigned i = 0; i < w->node_count * w->node_count * w->wire_count; i++) {
        w->links[i].faults.corrupt_ppm = corrupt_ppm;
        w->links[i].faults.truncate_ppm = truncate_ppm;
    }
}

static void corrupt_full(struct sim_case *c)
{
    struct emx_rng r;
    uint64_t rate_bps = begin(c, &r);

    damage(c, &r, EMX_CHECKSUM_FULL);
    sim_world_start(&c->world);
    play(c, &r, rate_bps, 120 * SIM_S);
}

/* Headers are covered, contents are not. */
static void corrupt_header(struct sim_case *c)
{
    struct emx_rng r;
    uint64_t rate_bps = begin(c, &r);

    damage(c, &r, EMX_CHECKSUM_HEADER);
    c->program.content = false;
    sim_world_start(&c->world);
    play(c, &r, rate_bps, 120 * SIM_S);
}

/* Nodes are cut off, stop or compute for less than the peer timeout, and go on. */
static void pauses(struct sim_case *c)
{
    struct emx_rng r;
    uint64_t rate_bps = begin(c, &r), from_ns;
    struct sim_world *w = &c->world;
    struct sim_node *n;

    w->cfg.p_peer_timeout = 30 * SIM_S;
    w->cfg.p_connect_timeout = 30 * SIM_S;
    sim_world_start(w);
    for (unsigned i = below(&r, SIM_CUTS + 1); i--;) {
        from_ns = w->now_ns + below(&r, 20 * SIM_MS);
        sim_world_cut(w, below(&r, 1ull << w->node_count), i, from_ns, from_ns + below(&r, 5 * SIM_S));
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        n = &w->nodes[i];
        if (percent(&r, 30))
            sim_node_pace(n, percent(&r, 50) ? SIM_STOPPED : SIM_COMPUTES, w->now_ns + 1 + below(&r, 6 * SIM_S));
    }
    play(c, &r, rate_bps, 120 * SIM_S);
}

const struct sim_scenario sim_chaos[] = {
    {"chaos", "random programs, networks and settings", chaos, 0, 50},
    {"corrupt-full", "the same with damaged frames and checksums over all: data is intact", corrupt_full, 0, 10},
    {"corrupt-header", "the same with checksums over headers: all but the data is right", corrupt_header, 0, 5},
    {"pauses", "the same with nodes cut off, stopped or computing for seconds", pauses, 0, 15},
    {0},
};
