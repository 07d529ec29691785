/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Failovers: the wire in use ends under a connected session, and another one reaches the peer.
 */
#include <string.h>

#include "core/rel/failover.h"
#include "scenario.h"

#define MOVE_NS SIM_S /* after the silence: probes, and what is to be sent again */

static uint64_t failovers(const struct sim_world *w)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < w->node_count; i++)
        n += w->nodes[i].stats.failovers;
    return n;
}

static void expect_failovers(struct sim_world *w, uint64_t least, uint64_t most)
{
    if (!sim_failed(w) && (failovers(w) < least || failovers(w) > most))
        sim_fail(w, "%llu connections moved, not %llu to %llu", (unsigned long long)failovers(w),
                 (unsigned long long)least, (unsigned long long)most);
}

static void expect_all_alive(struct sim_world *w)
{
    for (unsigned i = 0; i < w->node_count; i++)
        if (w->nodes[i].failed_peers)
            sim_fail(w, "n%u: %s", i, w->nodes[i].failed_text);
}

enum directions { BOTH, THERE, BACK, DIRECTIONS };

struct cut {
    struct sim_world *w;
    enum directions directions;
    unsigned wire;
};

static void set_cut(void *arg, uint64_t drop_ppm)
{
    const struct cut *x = arg;

    sim_trace(x->w, "wire %u loses %llu of 1000000 frames from now on", x->wire, (unsigned long long)drop_ppm);
    for (unsigned src = 0; src < x->w->node_count; src++)
        for (unsigned dst = 0; dst < x->w->node_count; dst++)
            if (x->directions == BOTH || (x->directions == THERE) == (src < dst))
                sim_world_link(x->w, src, dst, x->wire)->faults.drop_ppm = (uint32_t)drop_ppm;
}

static void draw_world(struct sim_world *w, struct emx_rng *rng)
{
    const struct sim_faults x = {.delay_ns = 5000, .drop_ppm = emx_rng_below(rng, 2) ? 0 : emx_rng_below(rng, 10000)};

    w->frame_bytes[0] = emx_rng_below(rng, 2) ? 1500 : 9000;
    w->frame_bytes[1] = emx_rng_below(rng, 2) ? 1500 : 9000;
    w->gso_bytes = emx_rng_below(rng, 2) ? 0 : 1472;
    sim_world_faults(w, &x);
    sim_world_rate(w, 10000000000ull, 65536, 0);
}

/* Two nodes that are connected by wire 0 of some. */
static void begin(struct sim_case *c, unsigned wires)
{
    struct sim_world *w = &c->world;

    sim_case_begin(c, 2, wires);
    sim_world_start(w);
    sim_connect(c, &w->nodes[0], &w->nodes[1]);
}

/* While messages of all kinds are under way, the wire in use ends, in both directions or in one. Everything arrives,
 * over the other wire. */
static void under_load(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct cut cut = {.w = &c->world, .directions = c->seed % DIRECTIONS};
    struct sim_world *w = &c->world;
    struct sim_traffic *t;
    struct sim_mix mix;

    sim_case_begin(c, 2 + c->seed % 2, 2);
    draw_world(w, &rng);
    w->auth = c->seed % 5 == 1;
    sim_world_start(w);
    sim_mix_draw(&mix, &rng);
    t = sim_traffic_start(&c->program, &mix, c->seed);
    sim_queue_put(&w->queue, w->now_ns + SIM_MS + emx_rng_below(&rng, 5 * SIM_MS), set_cut, &cut, 1000000);
    sim_traffic_run(t, w->now_ns + emx_failover_silence_ns(&w->cfg) + 30 * SIM_S);
    expect_all_alive(w);
    sim_traffic_free(t);
    sim_case_end(c);
}

/* One message, and how long it takes: the silence, and little more. */
static void one_message(struct sim_case *c)
{
    static const size_t length[] = {8, 20000, 3000000};
    struct cut cut = {.w = &c->world, .directions = c->seed % DIRECTIONS};
    size_t len_bytes = length[c->seed / DIRECTIONS % 3];
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, 2 + c->seed % 2);
    a = &w->nodes[0];
    b = &w->nodes[1];
    set_cut(&cut, 1000000);
    sim_recv(p, b, a->party, 1, SIM_FULL_MASK, len_bytes, SIM_CONTIGUOUS);
    sim_send(p, a, b->party, 1, len_bytes, ETHMX_SEND_SYNC, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_node_pump(a);
    if (sim_program_run(p, w->now_ns + 2 * emx_failover_silence_ns(&w->cfg) + MOVE_NS))
        sim_model_check(p);
    expect_all_alive(w);
    expect_failovers(w, 1, 2);
    sim_case_end(c);
}

/* The wire comes back before the peer is searched over others, or while it is: nothing moves. */
static void comes_back(struct sim_case *c)
{
    struct cut cut = {.w = &c->world, .directions = BOTH};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, 2);
    a = &w->nodes[0];
    b = &w->nodes[1];
    set_cut(&cut, 1000000);
    sim_queue_put(&w->queue, w->now_ns + emx_failover_silence_ns(&w->cfg) - SIM_S / 2 + c->seed * SIM_S / 20, set_cut,
                  &cut, 0);
    sim_messages(c, a, b, 3, 300000);
    if (sim_program_run(p, w->now_ns + emx_failover_silence_ns(&w->cfg) + 2 * SIM_S))
        sim_model_check(p);
    expect_all_alive(w);
    expect_failovers(w, 0, 0);
    sim_case_end(c);
}

/* A peer that is stopped is as silent as one whose wire has ended. It goes on by the same wire. */
static void stopped(struct sim_case *c)
{
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    uint64_t away_ns;
    struct sim_node *a, *b;

    begin(c, 2 + c->seed % 2);
    a = &w->nodes[0];
    b = &w->nodes[1];
    away_ns = emx_failover_silence_ns(&w->cfg) + c->seed * SIM_S;
    sim_messages(c, a, b, 3, c->seed & 1 ? 300000 : 8);
    sim_node_pace(b, SIM_STOPPED, w->now_ns + away_ns);
    if (sim_program_run(p, w->now_ns + away_ns + SIM_S))
        sim_model_check(p);
    expect_all_alive(w);
    expect_failovers(w, 0, 0);
    sim_case_end(c);
}

/* After the first wire the second ends, and the first is there again; and so on. */
static void again_and_again(struct sim_case *c)
{
    struct cut cut = {.w = &c->world, .directions = c->seed % DIRECTIONS};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, 2);
    a = &w->nodes[0];
    b = &w->nodes[1];
    for (unsigned turn = 0; turn < 4 && !sim_failed(w); turn++) {
        cut.wire = turn % 2;
        set_cut(&cut, 1000000);
        sim_messages(c, a, b, 2, 200000);
        sim_messages(c, b, a, 2, 2000);
        if (sim_program_run(p, w->now_ns + 2 * emx_failover_silence_ns(&w->cfg) + MOVE_NS))
            sim_model_check(p);
        set_cut(&cut, 0);
    }
    expect_all_alive(w);
    sim_case_end(c);
}

static void send_for(struct sim_case *c, uint64_t until_ns)
{
    struct sim_world *w = &c->world;

    while (w->now_ns < until_ns && !sim_failed(w)) {
        sim_messages(c, &w->nodes[0], &w->nodes[1], 1, 20000);
        sim_messages(c, &w->nodes[1], &w->nodes[0], 1, 100);
        sim_program_run(&c->program, w->now_ns + 2 * emx_failover_silence_ns(&w->cfg) + MOVE_NS);
        sim_world_run_until(w, w->now_ns + SIM_S / 2);
    }
}

static void expect_wire(struct sim_world *w, const char *name)
{
    for (unsigned i = 0; i < 2 && !sim_failed(w); i++) {
        struct ethmx_peer_info info;

        emx_peer_query(w->nodes[i].engine, sim_node_peer(&w->nodes[i], w->nodes[!i].party), &info);
        if (strcmp(info.interface, name))
            sim_fail(w, "n%u uses %s, not %s", i, info.interface, name);
    }
}

/* A job that goes on exchanging messages returns to the wire that has failed, when it works again. */
static void returns(struct sim_case *c)
{
    struct cut cut = {.w = &c->world, .directions = c->seed % DIRECTIONS};
    struct sim_world *w = &c->world;

    begin(c, 2 + c->seed % 2);
    set_cut(&cut, 1000000);
    send_for(c, w->now_ns + 20 * SIM_S);
    expect_failovers(w, 1, 2);
    if (cut.directions == BOTH)
        expect_wire(w, "w1");
    set_cut(&cut, 0);
    send_for(c, w->now_ns + 15 * SIM_S);
    expect_wire(w, "w0");
    sim_model_check(&c->program);
    expect_all_alive(w);
    sim_case_end(c);
}

/* A wire that comes and goes is left again and again, and tried less and less often. */
static void flaps(struct sim_case *c)
{
    struct cut cut = {.w = &c->world, .directions = c->seed % DIRECTIONS};
    struct sim_world *w = &c->world;

    begin(c, 2);
    for (unsigned i = 0; i < 40 && !sim_failed(w); i++) {
        set_cut(&cut, i % 2 ? 0 : 1000000);
        send_for(c, w->now_ns + 7 * SIM_S + c->seed * SIM_S);
    }
    sim_model_check(&c->program);
    expect_failovers(w, 2, 24);
    expect_all_alive(w);
    sim_case_end(c);
}

/* The interface of wire 0 at this node carries frames, or not: the wire ends, and the kernel says so. */
static void set_interface(struct cut *cut, struct sim_node *n, bool carries)
{
    const struct emx_interface i = {
        .card = 1, .numbers = 1, .carries = carries, .has_ip = true, .why = carries ? NULL : "w0 is down"};

    set_cut(cut, carries ? 0 : 1000000);
    emx_engine_interface(n->engine, &i, cut->w->now_ns);
    sim_node_pump(n);
}

/* One node is told that an interface ends, and tells the other: both go on over the other wire long before silence
 * would show it, and return when the interface is back. */
static void interface_ends(struct sim_case *c)
{
    struct cut cut = {.w = &c->world, .directions = BOTH};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, 2);
    a = &w->nodes[c->seed & 1];
    b = &w->nodes[!(c->seed & 1)];
    for (unsigned turn = 0; turn < 3 && !sim_failed(w); turn++) {
        sim_messages(c, a, b, 3, c->seed & 2 ? 3000000 : 8);
        sim_messages(c, b, a, 3, c->seed & 4 ? 3000000 : 8);
        sim_world_run_until(w, w->now_ns + c->seed / 8 * SIM_MS / 4);
        set_interface(&cut, a, false);
        if (sim_program_run(p, w->now_ns + emx_failover_silence_ns(&w->cfg) / 2))
            sim_model_check(p);
        sim_world_run_until(w, w->now_ns + 100 * SIM_MS);
        expect_wire(w, "w1");
        set_interface(&cut, a, true);
        sim_world_run_until(w, w->now_ns + emx_failover_silence_ns(&w->cfg) / 2);
        expect_wire(w, "w0");
    }
    expect_failovers(w, 6, 6);
    expect_all_alive(w);
    sim_case_end(c);
}

/* The interface of wire 0 at this node gets another address: what the other has known leads nowhere any more. */
static void move_interface(struct sim_node *n)
{
    n->home++;
    n->self.ifs[0].mac[4] = n->home;
    emx_engine_moved(n->engine, &n->self, n->world->now_ns);
    sim_node_pump(n);
}

/* At once, or after an interval in which it is down. The other node is told, and both use the wire again, be it the
 * only one or not; frames of what it is told get lost, too. */
static void interface_moves(struct sim_case *c)
{
    struct cut cut = {.w = &c->world, .directions = BOTH};
    const struct sim_faults sound = {.delay_ns = 5000};
    const struct sim_faults lossy = {.delay_ns = 5000, .drop_ppm = c->seed & 16 ? 100000 : 0};
    const unsigned wires = 1 + (c->seed >> 1 & 1);
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, wires);
    a = &w->nodes[c->seed & 1];
    b = &w->nodes[!(c->seed & 1)];
    for (unsigned turn = 0; turn < 3 && !sim_failed(w); turn++) {
        sim_messages(c, a, b, 3, c->seed & 4 ? 500000 : 8);
        sim_messages(c, b, a, 3, c->seed & 4 ? 8 : 500000);
        if (c->seed & 8 && wires > 1) {
            set_interface(&cut, a, false);
            sim_world_run_until(w, w->now_ns + 100 * SIM_MS);
            expect_wire(w, "w1");
            set_interface(&cut, a, true);
        }
        sim_world_faults(w, &lossy);
        move_interface(a);
        sim_world_run_until(w, w->now_ns + 200 * SIM_MS);
        sim_world_faults(w, &sound);
        if (sim_program_run(&c->program, w->now_ns + 2 * SIM_S))
            sim_model_check(&c->program);
        sim_world_run_until(w, w->now_ns + 2 * SIM_S);
        expect_wire(w, "w0");
    }
    expect_all_alive(w);
    sim_case_end(c);
}

/* The address changes while hellos are sent; both are told after the handshake. */
static void interface_moves_early(struct sim_case *c)
{
    struct sim_world *w = &c->world;

    sim_case_begin(c, 2, 1 + (c->seed & 1));
    sim_world_start(w);
    for (unsigned i = 0; i < 2; i++)
        sim_messages(c, &w->nodes[i], &w->nodes[!i], 3, c->seed & 2 ? 300000 : 8);
    sim_world_run_until(w, w->now_ns + c->seed * SIM_MS / 400);
    move_interface(&w->nodes[c->seed & 1]);
    if (sim_program_run(&c->program, w->now_ns + 2 * w->cfg.p_connect_timeout + 2 * SIM_S))
        sim_model_check(&c->program);
    expect_all_alive(w);
    sim_case_end(c);
}

/* The interface ends while hellos are sent over it: the next wire is tried at once. */
static void interface_ends_early(struct sim_case *c)
{
    struct cut cut = {.w = &c->world, .directions = BOTH};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;

    sim_case_begin(c, 2, 2);
    sim_world_start(w);
    set_cut(&cut, 1000000);
    for (unsigned i = 0; i < 2; i++)
        sim_messages(c, &w->nodes[i], &w->nodes[!i], 3, c->seed & 1 ? 300000 : 8);
    sim_world_run_until(w, w->now_ns + c->seed * SIM_MS);
    for (unsigned i = 0; i < 2; i++)
        set_interface(&cut, &w->nodes[i], false);
    if (sim_program_run(p, w->now_ns + w->cfg.p_connect_timeout / 2))
        sim_model_check(p);
    expect_all_alive(w);
    sim_case_end(c);
}

/* All wires end: the peer is dead as without others. */
static void none_left(struct sim_case *c)
{
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, 2 + c->seed % 2);
    a = &w->nodes[0];
    b = &w->nodes[1];
    p->doomed[a->party] = p->doomed[b->party] = p->loses = true;
    for (unsigned wire = 0; wire < w->wire_count; wire++)
        set_cut(&(struct cut){.w = w, .directions = BOTH, .wire = wire}, 1000000);
    sim_messages(c, a, b, 3, 300000);
    sim_program_run(p, w->now_ns + w->cfg.p_peer_timeout + w->cfg.p_peer_timeout / 2);
    if (!sim_failed(w) && (a->failed_peers != 1 || b->failed_peers != 1))
        sim_fail(w, "%llu and %llu peers are dead, not 1 each", (unsigned long long)a->failed_peers,
                 (unsigned long long)b->failed_peers);
    expect_failovers(w, 0, 0);
    sim_case_end(c);
}

const struct sim_scenario sim_failovers[] = {
    {"failover", "the wire in use ends under load: another takes over", under_load, 0, 5},
    {"failover-one", "and a message takes little longer than the silence", one_message, 36, 0},
    {"failover-back", "the wire comes back in time: nothing moves", comes_back, 12, 0},
    {"failover-stopped", "a peer that is stopped keeps its wire", stopped, 20, 0},
    {"failover-again", "wires end in turn", again_and_again, 12, 0},
    {"failover-return", "the wire works again: it is used again", returns, 12, 0},
    {"failover-flaps", "the wire comes and goes", flaps, 8, 0},
    {"failover-told", "a node is told that an interface ends: both move at once, and return", interface_ends, 32, 0},
    {"failover-moved", "an interface gets another address: it is used again", interface_moves, 64, 0},
    {"failover-moved-early", "the same during the handshake", interface_moves_early, 40, 0},
    {"failover-early", "an interface ends during the handshake: the next wire is tried", interface_ends_early, 20, 0},
    {"failover-none", "all wires end: the peer is dead", none_left, 4, 0},
    {0},
};
