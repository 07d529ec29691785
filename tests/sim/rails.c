/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rails: two wires to one peer, which carry the data of large messages at the same time. Each case measures the time
 * that messages take over the first wire alone, and then over both.
 */
#include "base/keyed_hash.h"
#include "scenario.h"

#define RATE_BPS      1000000000ull
#define MESSAGE_BYTES 4000000
#define MESSAGES      8
#define PORT_BYTES    262144
#define NEVER_NS      UINT64_MAX

/* How the second wire differs. */
struct shape {
    struct sim_faults faults;
    uint64_t rate_bps;
    uint64_t dies_ns; /* so long after the first message has begun */
    unsigned dead_wire;
    uint32_t gso_bytes;
    bool auth;
};

static void prepare(struct sim_case *c, const struct shape *x, unsigned rails)
{
    struct sim_faults near = {.delay_ns = 10000};
    struct sim_world *w = &c->world;

    sim_case_begin(c, 2, 2);
    w->cfg.p_rails = rails;
    w->gso_bytes = x->gso_bytes;
    w->auth = x->auth;
    sim_world_rate(w, RATE_BPS, 0, PORT_BYTES);
    sim_world_faults(w, &near);
    for (unsigned i = 0; i < 2; i++) {
        w->nodes[i].out[1].rate_bps = w->nodes[i].in[1].rate_bps = x->rate_bps;
        sim_world_link(w, i, !i, 1)->faults = x->faults;
    }
    sim_world_start(w);
    sim_connect(c, &w->nodes[0], &w->nodes[1]);
}

static void cut_wire(struct sim_world *w, const struct shape *x)
{
    if (!x->dies_ns)
        return;
    for (unsigned i = 0; i < 2; i++) {
        struct sim_faults *faults = &sim_world_link(w, i, !i, x->dead_wire)->faults;

        faults->cut[0].from_ns = w->now_ns + x->dies_ns;
        faults->cut[0].until_ns = NEVER_NS;
    }
}

/* Messages one after the other; returns the time that they took. */
static uint64_t transfer(struct sim_case *c, const struct shape *x)
{
    struct sim_world *w = &c->world;
    uint64_t from_ns = w->now_ns;

    cut_wire(w, x);
    for (unsigned i = 0; i < MESSAGES && !sim_failed(w); i++) {
        sim_messages(c, &w->nodes[0], &w->nodes[1], 1, MESSAGE_BYTES);
        sim_program_run(&c->program, w->now_ns + 20 * SIM_S);
    }
    if (!sim_failed(w))
        sim_model_check(&c->program);
    return w->now_ns - from_ns;
}

/* The time over both is at most so many hundredths of that over one. */
static void compare(struct sim_case *c, const struct shape *x, unsigned most_percent)
{
    struct shape alone = *x;
    uint64_t one_ns, two_ns, railed;

    alone.dies_ns = 0;
    prepare(c, &alone, 1);
    one_ns = transfer(c, &alone);
    railed = c->world.nodes[1].stats.bytes_railed;
    if (railed)
        sim_fail(&c->world, "rails are used although they are forbidden");
    sim_case_end(c);
    if (c->failure[0])
        return;
    prepare(c, x, 0);
    two_ns = transfer(c, x);
    if (100 * two_ns > most_percent * one_ns)
        sim_fail(&c->world, "over both wires it took %.3f ms, %.2f times as long as over one; %llu bytes by the second",
                 (double)two_ns / 1e6, (double)two_ns / (double)one_ns,
                 (unsigned long long)c->world.nodes[1].stats.bytes_railed);
    sim_case_end(c);
}

static struct shape alike(struct sim_case *c)
{
    return (struct shape){
        .faults = {.delay_ns = 10000}, .rate_bps = RATE_BPS, .gso_bytes = c->seed & 1 ? 1472 : 0, .dead_wire = 1};
}

static void both(struct sim_case *c)
{
    struct shape x = alike(c);
    const char *why;

    x.auth = c->seed & 2 && emx_keyed_hash_usable(&why);
    compare(c, &x, 55);
}

static void one_dies(struct sim_case *c)
{
    struct shape x = alike(c);

    x.dies_ns = 1000000 + c->seed * 3000000;
    compare(c, &x, 110);
}

/* The first wire carries no more data from the sender. Pulls still arrive, and the message goes on by the other. */
static void first_dies(struct sim_case *c)
{
    struct shape x = alike(c);
    struct sim_world *w = &c->world;
    uint64_t from_ns;

    prepare(c, &x, 0);
    sim_messages(c, &w->nodes[0], &w->nodes[1], 1, MESSAGE_BYTES);
    from_ns = w->now_ns;
    sim_world_link(w, 0, 1, 0)->faults.cut[0].from_ns = from_ns + 1000000 + c->seed * 1000000;
    sim_world_link(w, 0, 1, 0)->faults.cut[0].until_ns = from_ns + 200 * SIM_MS;
    sim_world_run_until(w, from_ns + 45 * SIM_MS);
    if (w->nodes[1].stats.bytes_received != MESSAGE_BYTES)
        sim_fail(w, "the message has not arrived");
    sim_program_run(&c->program, from_ns + 20 * SIM_S);
    if (!sim_failed(w))
        sim_model_check(&c->program);
    sim_case_end(c);
}

/* The first wire reports that it reaches the peer no more, to both nodes: the sessions move to the second. */
static void moves(struct sim_case *c)
{
    struct shape x = alike(c);
    struct sim_world *w = &c->world;

    prepare(c, &x, 0);
    sim_messages(c, &w->nodes[0], &w->nodes[1], 3, MESSAGE_BYTES);
    sim_world_run_until(w, w->now_ns + 5 * SIM_MS + c->seed * SIM_MS);
    for (unsigned i = 0; i < 2; i++) {
        sim_world_link(w, i, !i, 0)->faults.cut[0].from_ns = w->now_ns;
        sim_world_link(w, i, !i, 0)->faults.cut[0].until_ns = NEVER_NS;
        sim_node_lose(&w->nodes[i], &w->nodes[!i], 0);
    }
    sim_program_run(&c->program, w->now_ns + 20 * SIM_S);
    if (!sim_failed(w))
        sim_model_check(&c->program);
    sim_case_end(c);
}

/* The second wire dies while the sender is stopped: its messages do not count towards the window then. */
static void dies_away(struct sim_case *c)
{
    struct shape x = alike(c);
    struct sim_world *w = &c->world;

    prepare(c, &x, 0);
    sim_messages(c, &w->nodes[0], &w->nodes[1], 4, MESSAGE_BYTES);
    sim_world_run_until(w, w->now_ns + 5 * SIM_MS + c->seed * SIM_MS);
    x.dies_ns = 1;
    cut_wire(w, &x);
    sim_node_pace(&w->nodes[0], SIM_STOPPED, w->now_ns + 30 * SIM_MS);
    sim_program_run(&c->program, w->now_ns + 20 * SIM_S);
    if (!sim_failed(w))
        sim_model_check(&c->program);
    sim_case_end(c);
}

/* A node is told that the interface of a wire has ended, in the middle of messages. Nobody waits for a time-out of the
 * session: the messages go on over the other wire, and over both when the interface is back. */
static void told(struct sim_case *c)
{
    struct shape x = alike(c);
    struct sim_world *w = &c->world;
    const unsigned dead = c->seed & 1;
    struct sim_node *n;
    struct emx_interface i = {.card = (uint8_t)(dead + 1), .numbers = 1u << dead, .has_ip = true, .why = "it is down"};
    uint64_t railed;

    prepare(c, &x, 0);
    n = &w->nodes[c->seed >> 1 & 1];
    sim_messages(c, &w->nodes[0], &w->nodes[1], 8, MESSAGE_BYTES);
    sim_world_run_until(w, w->now_ns + 60 * SIM_MS + c->seed * SIM_MS);
    railed = w->nodes[1].stats.bytes_railed;
    for (unsigned k = 0; k < 2; k++) {
        sim_world_link(w, k, !k, dead)->faults.cut[0].from_ns = w->now_ns;
        sim_world_link(w, k, !k, dead)->faults.cut[0].until_ns = w->now_ns + 100 * SIM_MS;
    }
    emx_engine_interface(n->engine, &i, w->now_ns);
    sim_node_pump(n);
    sim_world_run_until(w, w->now_ns + 100 * SIM_MS);
    i.carries = true;
    i.why = NULL;
    emx_engine_interface(n->engine, &i, w->now_ns);
    sim_node_pump(n);
    if (!railed)
        sim_fail(w, "the second wire carries nothing");
    sim_program_run(&c->program, w->now_ns + 300 * SIM_MS);
    sim_messages(c, &w->nodes[0], &w->nodes[1], 8, MESSAGE_BYTES);
    railed = w->nodes[1].stats.bytes_railed;
    sim_program_run(&c->program, w->now_ns + 300 * SIM_MS);
    if (w->nodes[1].stats.bytes_railed - railed < MESSAGE_BYTES)
        sim_fail(w, "the wire that is back carries nothing");
    if (!sim_failed(w))
        sim_model_check(&c->program);
    sim_case_end(c);
}

static void slow(struct sim_case *c)
{
    struct shape x = alike(c);

    x.rate_bps /= 10;
    compare(c, &x, 102);
}

static void far(struct sim_case *c)
{
    struct shape x = alike(c);

    x.faults.delay_ns = 500000;
    compare(c, &x, 70);
}

static void lossy(struct sim_case *c)
{
    struct shape x = alike(c);

    x.faults.drop_ppm = 50000;
    compare(c, &x, 105);
}

static void reorders(struct sim_case *c)
{
    struct shape x = alike(c);

    x.faults.reorder_ppm = 50000;
    x.faults.reorder_ns = 200000;
    compare(c, &x, 80);
}

/* A second wire that carries nothing is never used, and one that carries short frames only neither. */
static void useless(struct sim_case *c)
{
    struct shape x = alike(c);

    if (c->seed & 2)
        x.faults.max_bytes = 1000;
    else
        x.faults.drop_ppm = 1000000;
    compare(c, &x, 101);
}

/* A peer is removed, or dies, while its messages are under way over both wires. */
static void removed(struct sim_case *c)
{
    struct shape x = alike(c);
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b, *gone;

    prepare(c, &x, 0);
    a = &w->nodes[0];
    b = &w->nodes[1];
    gone = c->seed & 4 ? b : a;
    p->doomed[a->party] = p->doomed[b->party] = p->loses = true;
    sim_messages(c, a, b, 4, MESSAGE_BYTES);
    sim_world_run_until(w, w->now_ns + 20 * SIM_MS + c->seed * 1000000);
    sim_node_crash(gone);
    sim_program_bury(p, gone->party);
    sim_program_run(p, w->now_ns + 2 * w->cfg.p_peer_timeout);
    sim_case_end(c);
}

/* Traffic of all kinds over two wires with faults. */
static void mixed(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    const struct sim_faults faults = {.delay_ns = 5000,
                                      .drop_ppm = emx_rng_below(&rng, 20000),
                                      .duplicate_ppm = emx_rng_below(&rng, 20000),
                                      .reorder_ppm = emx_rng_below(&rng, 50000),
                                      .reorder_ns = 100000};
    struct sim_world *w = &c->world;
    struct sim_traffic *t;
    struct sim_mix mix;

    sim_case_begin(c, 2 + c->seed % 2, 2 + c->seed % 3);
    sim_world_rate(w, 10 * RATE_BPS, 65536, 65536);
    w->cfg.p_pull_window = 65536;
    w->gso_bytes = c->seed & 4 ? 1472 : 0;
    sim_world_faults(w, &faults);
    if (c->seed & 8) {
        w->nodes[0].fail_first = 20 + emx_rng_below(&rng, 100);
        w->nodes[0].fail_end = w->nodes[0].fail_first + 1 + emx_rng_below(&rng, 10);
        c->program.no_memory = true;
    }
    sim_world_start(w);
    if (!w->nodes[0].engine) {
        sim_case_end(c);
        return;
    }
    sim_mix_draw(&mix, &rng);
    t = sim_traffic_start(&c->program, &mix, c->seed);
    sim_traffic_run(t, w->now_ns + 30 * SIM_S);
    sim_traffic_free(t);
    sim_case_end(c);
}

const struct sim_scenario sim_rails[] = {
    {"rails-both", "two wires alike carry twice as much", both, 4, 0},
    {"rails-one-dies", "the second wire dies under a message", one_dies, 20, 0},
    {"rails-first-dies", "the first wire carries no more data in the middle of a message", first_dies, 16, 0},
    {"rails-moves", "the sessions leave the first wire in the middle of messages", moves, 20, 0},
    {"rails-dies-away", "the second wire dies while the sender is stopped", dies_away, 40, 0},
    {"rails-told", "a node is told that an interface ends, and is back", told, 16, 0},
    {"rails-slow", "the second wire is ten times slower", slow, 2, 0},
    {"rails-far", "the second wire has a longer way", far, 2, 0},
    {"rails-lossy", "the second wire loses 5% of the frames", lossy, 2, 0},
    {"rails-reorders", "the second wire reorders", reorders, 2, 0},
    {"rails-useless", "the second wire carries nothing, or short frames only", useless, 4, 0},
    {"rails-removed", "a node dies while its messages are under way over two wires", removed, 16, 0},
    {"rails-mixed", "traffic of all kinds, faults and lack of memory", mixed, 0, 5},
    {0},
};
