/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Away: programs that compute, are stopped or dead, beside others that are not. What arrives is one thing, how soon the
 * others are served another: each scenario has a bound.
 */
#include "scenario.h"

#define RATE_BPS   10000000000ull
#define LONG_BYTES (4u << 20)
#define DELAY_NS   5000
#define AWAY_NS    (300 * SIM_MS)

static void begin(struct sim_case *c, unsigned nodes)
{
    struct sim_faults faults = {.delay_ns = DELAY_NS};

    sim_case_begin(c, nodes, 1);
    sim_world_rate(&c->world, RATE_BPS, 1 << 20, 1 << 20);
    sim_world_faults(&c->world, &faults);
    sim_world_start(&c->world);
    for (unsigned i = 1; i < nodes; i++)
        sim_connect(c, &c->world.nodes[i], &c->world.nodes[0]);
}

static struct sim_receive *announce(struct sim_case *c, unsigned from, uint64_t bits, size_t len_bytes)
{
    struct sim_node *a = &c->world.nodes[from], *r = &c->world.nodes[0];
    struct sim_receive *x = sim_recv(&c->program, r, a->party, bits, SIM_FULL_MASK, len_bytes, SIM_CONTIGUOUS);

    sim_node_pump(r);
    sim_send(&c->program, a, r->party, bits, len_bytes, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pump(a);
    return x;
}

static bool is_done(void *arg)
{
    return ((struct sim_receive *)arg)->state != SIM_OPEN;
}

/* How long the message takes. */
static uint64_t time_of(struct sim_case *c, unsigned from, uint64_t bits, size_t len_bytes)
{
    uint64_t begin_ns = c->world.now_ns;
    struct sim_receive *x = announce(c, from, bits, len_bytes);

    sim_world_run(&c->world, is_done, x, begin_ns + 10 * SIM_S, "the message");
    return c->world.now_ns - begin_ns;
}

static void finish(struct sim_case *c)
{
    if (sim_program_run(&c->program, c->world.now_ns + 10 * SIM_S))
        sim_model_check(&c->program);
    sim_case_end(c);
}

static void expect(struct sim_case *c, const char *what, uint64_t ns, uint64_t most_ns)
{
    if (!sim_failed(&c->world) && ns > most_ns)
        sim_fail(&c->world, "%s took %llu us, at most %llu us were allowed", what, (unsigned long long)ns / 1000,
                 (unsigned long long)most_ns / 1000);
}

static void stop(struct sim_case *c, struct sim_node *n)
{
    sim_node_pace(n, SIM_STOPPED, c->world.now_ns + AWAY_NS);
}

static void die(struct sim_case *c, struct sim_node *n)
{
    c->program.loses = c->program.doomed[n->party] = true;
    sim_node_crash(n);
    sim_program_bury(&c->program, n->party);
}

/* A large message beside those of senders that leave after they have announced theirs. */
static void beside_some(struct sim_case *c, void (*leave)(struct sim_case *c, struct sim_node *n), const char *what)
{
    const unsigned senders = 2 + (unsigned)c->seed % 6;
    struct sim_world *w = &c->world;
    uint64_t alone_ns, beside_ns;

    begin(c, senders + 1);
    alone_ns = time_of(c, 1, 1, LONG_BYTES);
    for (unsigned i = 2; i <= senders; i++) {
        announce(c, i, 2, LONG_BYTES);
        sim_world_run_until(w, w->now_ns + c->seed * 1000);
        leave(c, &w->nodes[i]);
    }
    beside_ns = time_of(c, 1, 3, LONG_BYTES);
    expect(c, what, beside_ns, alone_ns * 12 / 10 + 2 * DELAY_NS);
}

static void beside(struct sim_case *c)
{
    beside_some(c, stop, "a message beside senders that are away");
    finish(c);
}

/* Nobody knows yet that they are dead. */
static void beside_dead(struct sim_case *c)
{
    beside_some(c, die, "a message beside senders that are dead");
    if (c->world.nodes[0].failed_peers)
        sim_fail(&c->world, "peers were known to be dead already");
    sim_program_run(&c->program, c->world.now_ns + 2 * c->world.cfg.p_peer_timeout);
    sim_case_end(c);
}

/* More senders than the window has blocks for, all away, who come back at once: nothing is lost for it. */
static void come_back_at_once(struct sim_case *c)
{
    const unsigned senders = 36;
    struct sim_world *w = &c->world;

    begin(c, senders + 1);
    for (unsigned i = 1; i <= senders; i++) {
        announce(c, i, 2, LONG_BYTES / 8);
        sim_node_pace(&w->nodes[i], SIM_STOPPED, w->now_ns + 30 * SIM_MS);
    }
    if (sim_program_run(&c->program, w->now_ns + SIM_S))
        sim_model_check(&c->program);
    if (w->nodes[0].stats.pulls_resent > senders)
        sim_fail(w, "%llu blocks were asked for again", (unsigned long long)w->nodes[0].stats.pulls_resent);
    finish(c);
}

/* The peer is away for some milliseconds, again and again, with one message outstanding. What follows is as quick as
 * before: neither the time-outs nor the late acknowledgements have changed what is known of the network. */
static void after_pauses(struct sim_case *c)
{
    const uint64_t away_ns = (2 + c->seed) * SIM_MS;
    struct sim_world *w = &c->world;
    uint64_t before_ns, after_ns;

    begin(c, 2);
    for (unsigned i = 0; i < 20; i++)
        time_of(c, 1, 1, 8);
    before_ns = time_of(c, 1, 1, 32768);
    for (unsigned i = 0; i < 10; i++) {
        sim_node_pace(&w->nodes[0], SIM_STOPPED, w->now_ns + away_ns);
        time_of(c, 1, 1, 8);
        time_of(c, 1, 1, 8);
    }
    after_ns = time_of(c, 1, 1, 32768);
    expect(c, "32 KiB after the pauses", after_ns, before_ns * 13 / 10);
    finish(c);
}

/* The last frame of a message is lost, to a peer that has computed before: it is sent again as soon as to any. */
static void loses_after_pauses(struct sim_case *c)
{
    struct sim_world *w = &c->world;
    struct sim_link *l;
    uint64_t ns;

    begin(c, 2);
    l = sim_world_link(w, 1, 0, 0);
    for (unsigned i = 0; i < 10; i++) {
        sim_node_pace(&w->nodes[0], SIM_STOPPED, w->now_ns + 5 * SIM_MS);
        time_of(c, 1, 1, 8);
        time_of(c, 1, 1, 8);
    }
    l->faults.drop_mask = 1;
    l->faults.mask_first = l->number;
    ns = time_of(c, 1, 1, 8);
    expect(c, "a message whose frame was lost", ns, w->cfg.p_rto_min + 200000);
    finish(c);
}

/* Messages of 8 bytes, each a frame of its own, to a peer that is away for so long; until all have arrived. */
static void send_to_stopped(struct sim_case *c, unsigned count, uint64_t away_ns)
{
    struct sim_world *w = &c->world;
    struct sim_node *a = &w->nodes[1], *b = &w->nodes[0];

    sim_node_pace(b, SIM_STOPPED, w->now_ns + away_ns);
    for (unsigned i = 0; i < count; i++) {
        sim_recv(&c->program, b, a->party, i, SIM_FULL_MASK, 8, SIM_CONTIGUOUS);
        sim_send(&c->program, a, b->party, i, 8, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
        sim_node_pump(a);
    }
    if (sim_program_run(&c->program, w->now_ns + SIM_S))
        sim_model_check(&c->program);
    sim_world_run_until(w, w->now_ns + SIM_MS); /* what the peer tells has arrived */
    if (!a->stats.timeouts_undone)
        sim_fail(w, "the false time-out was not undone");
}

/* A window of messages to a peer that is away for long enough that all of it counts as lost. It was not: nothing but
 * probes is sent twice, and the congestion window is as before. */
static void false_alarm(struct sim_case *c)
{
    const unsigned count = 2 + (unsigned)c->seed * 3;
    const struct sim_node *a;

    begin(c, 2);
    a = &c->world.nodes[1];
    for (unsigned i = 0; i < 20; i++)
        time_of(c, 1, 1, 8);
    send_to_stopped(c, count, 100 * SIM_MS);
    if (a->stats.frames_resent > a->stats.resent_timeout)
        sim_fail(&c->world, "%llu frames were sent again after %llu time-outs",
                 (unsigned long long)a->stats.frames_resent, (unsigned long long)a->stats.resent_timeout);
    finish(c);
}

/* So few messages that all of them were sent again, to a peer that is away. Only the peer can tell that none was lost.
 * What follows is as quick as before. */
static void false_alarm_of_few(struct sim_case *c)
{
    const unsigned count = 2 + (unsigned)c->seed % 3;
    struct sim_world *w = &c->world;
    uint64_t before_ns;

    begin(c, 2);
    for (unsigned i = 0; i < 20; i++)
        time_of(c, 1, 1, 8);
    before_ns = time_of(c, 1, 1, 32768);
    sim_world_run_until(w, w->now_ns + SIM_MS); /* all is acknowledged */
    send_to_stopped(c, count, (20 + c->seed * 10) * SIM_MS);
    expect(c, "32 KiB after the false time-out", time_of(c, 1, 1, 32768), before_ns * 13 / 10);
    finish(c);
}

const struct sim_scenario sim_away[] = {
    {"away-beside", "a large message beside senders that are away", beside, 24, 0},
    {"away-dead", "a large message beside senders that have died", beside_dead, 12, 0},
    {"away-come-back", "many senders that were away come back at once", come_back_at_once, 1, 0},
    {"away-pauses", "32 KiB after pauses of the peer's program", after_pauses, 8, 0},
    {"away-lost", "a frame that is lost after pauses of the peer's program", loses_after_pauses, 1, 0},
    {"away-false-alarm", "a window that counts as lost and was not", false_alarm, 20, 0},
    {"away-false-alarm-few", "the same, and all of it was sent again", false_alarm_of_few, 12, 0},
    {0},
};
