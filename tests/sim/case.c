/* SPDX-License-Identifier: BSD-3-Clause */
#include "scenario.h"

#include <string.h>

void sim_case_begin(struct sim_case *c, unsigned nodes, unsigned wires)
{
    sim_world_init(&c->world, c->seed, nodes, wires);
    c->world.trace = c->trace;
    c->world.skew_bytes = c->skew_bytes;
    sim_program_init(&c->program, &c->world, c->seed);
}

void sim_case_end(struct sim_case *c)
{
    struct sim_world *w = &c->world;
    bool played = !sim_failed(w);

    for (unsigned i = 0; played && i < w->node_count; i++)
        sim_node_crash(&w->nodes[i]);
    sim_program_fini(&c->program);
    memcpy(c->failure, w->failure, sizeof(c->failure));
    c->failed_at_ns = w->now_ns;
    c->hash = w->hash;
    sim_world_fini(w);
}

uint64_t sim_limit(const struct sim_world *w, size_t bytes, uint64_t rate_bps, uint64_t slack_ns)
{
    uint64_t transfer_ns = rate_bps ? (uint64_t)bytes * 8 * SIM_S / rate_bps : 0;

    return w->now_ns + 4 * transfer_ns + slack_ns;
}

bool sim_connect(struct sim_case *c, struct sim_node *a, struct sim_node *b)
{
    sim_recv(&c->program, b, a->party, 0, SIM_FULL_MASK, 0, SIM_CONTIGUOUS);
    sim_send(&c->program, a, b->party, 0, 0, ETHMX_SEND_SYNC, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_node_pump(a);
    return sim_program_run(&c->program, c->world.now_ns + SIM_S);
}

static void messages(struct sim_case *c, struct sim_node *a, struct sim_node *b, unsigned count, size_t len_bytes,
                     bool each_shape)
{
    for (unsigned i = 0; i < count; i++) {
        sim_recv(&c->program, b, a->party, i, SIM_FULL_MASK, len_bytes, each_shape ? i : SIM_CONTIGUOUS);
        sim_send(&c->program, a, b->party, i, len_bytes, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    }
    sim_node_pump(b);
    sim_node_pump(a);
}

void sim_messages(struct sim_case *c, struct sim_node *a, struct sim_node *b, unsigned count, size_t len_bytes)
{
    messages(c, a, b, count, len_bytes, false);
}

void sim_messages_shaped(struct sim_case *c, struct sim_node *a, struct sim_node *b, size_t len_bytes)
{
    messages(c, a, b, SIM_SHAPES, len_bytes, true);
}

void sim_sender_dies(struct sim_case *c, size_t len_bytes)
{
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a = &w->nodes[0], *b = &w->nodes[1];

    sim_connect(c, a, b);
    p->doomed[a->party] = p->loses = true;
    sim_messages_shaped(c, a, b, len_bytes);
    sim_world_run_until(w, w->now_ns + 10000 + c->seed * 100000);
    sim_node_crash(a);
    sim_program_bury(p, a->party);
    sim_program_run(p, w->now_ns + 2 * w->cfg.p_peer_timeout);
    if (b->failed_peers != 1)
        sim_fail(w, "the receiver was not told");
}

void sim_receiver_was_away(struct sim_case *c, size_t len_bytes)
{
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a = &w->nodes[0], *b = &w->nodes[1];
    uint64_t timeout_ns = w->cfg.p_peer_timeout;
    uint64_t away_ns = timeout_ns / 4 + c->seed * timeout_ns / 16;

    sim_connect(c, a, b);
    p->doomed[a->party] = p->doomed[b->party] = p->loses = true;
    sim_messages(c, a, b, 3, len_bytes);
    sim_world_run_until(w, w->now_ns + c->seed * 100000);
    sim_node_pace(b, SIM_STOPPED, w->now_ns + away_ns);
    sim_program_run(p, w->now_ns + away_ns + 2 * b->cfg.p_peer_timeout);
}

uint64_t sim_bytes_read(const struct sim_world *w)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < w->node_count; i++)
        sum += w->nodes[i].stats.bytes_read;
    return sum;
}
