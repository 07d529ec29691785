/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Deaths: nodes that are cut off for good, crash, come back as another, cannot be reached, or take their leave. What
 * is open with them ends with an error in bounded time; what is open among the others goes on.
 */
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

#define TIMEOUT_NS (2 * SIM_S) /* peer timeout of these worlds */

static void begin(struct sim_case *c, unsigned nodes)
{
    sim_case_begin(c, nodes, 1);
    c->world.cfg.p_peer_timeout = TIMEOUT_NS;
    c->world.reliable = c->world.reads = c->seed % 3 == 0;
    sim_world_rate(&c->world, 10000000000ull, 65536, 0);
    sim_world_start(&c->world);
}

/* Operations of each kind, both ways, that cannot all complete at once. */
static void open_both_ways(struct sim_case *c, struct sim_node *a, struct sim_node *b)
{
    static const size_t lengths[] = {10, 5000, 30000, 100000, 800000};
    struct sim_program *p = &c->program;

    for (unsigned way = 0; way < 2; way++) {
        struct sim_node *src = way ? b : a, *dst = way ? a : b;

        for (unsigned i = 0; i < 10; i++)
            sim_send(p, src, dst->party, i, lengths[i % 5], i / 5, i % SIM_SHAPES);
        for (unsigned i = 0; i < 12; i++)
            sim_recv(p, dst, src->party, i % 2 ? i : 100 + i, SIM_FULL_MASK, 1000000, i % SIM_SHAPES);
    }
    sim_node_pump(a);
    sim_node_pump(b);
}

static void expect_failed(struct sim_case *c, struct sim_node *n, uint64_t peers)
{
    if (n->failed_peers != peers)
        sim_fail(&c->world, "n%u was told of %llu failed peers, not of %llu", n->index,
                 (unsigned long long)n->failed_peers, (unsigned long long)peers);
}

/* Two nodes lose each other in the middle of it: both learn of it. */
static void cut_for_good(struct sim_case *c)
{
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, 2);
    a = &w->nodes[0];
    b = &w->nodes[1];
    if (!sim_connect(c, a, b)) {
        sim_case_end(c);
        return;
    }
    c->program.doomed[a->party] = c->program.doomed[b->party] = true;
    c->program.loses = true;
    sim_world_cut(w, 1, 0, w->now_ns + c->seed * 3000, EMX_NEVER);
    open_both_ways(c, a, b);
    sim_program_run(&c->program, w->now_ns + 2 * TIMEOUT_NS);
    expect_failed(c, a, 1);
    expect_failed(c, b, 1);
    if (!c->program.failed)
        sim_fail(w, "no operation failed");
    sim_case_end(c);
}

static void draw_lossy(struct sim_world *w, struct emx_rng *rng)
{
    struct sim_faults x = {.delay_ns = 5000,
                           .drop_ppm = emx_rng_below(rng, 30000),
                           .reorder_ppm = emx_rng_below(rng, 100000),
                           .reorder_ns = SIM_MS};

    if (w->reliable)
        return;
    sim_world_faults(w, &x);
}

/* Both are stopped in the middle of it, as by a batch system that suspends a job, for longer than a silent peer is
 * thought alive, and go on one after the other. Nobody has died. Some are stopped while they connect. */
static void both_stopped(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_world *w = &c->world;
    struct sim_traffic *t;
    struct sim_mix mix;
    uint64_t away_ns = (1 + emx_rng_below(&rng, 4)) * TIMEOUT_NS;
    bool connected = c->seed % 4;

    begin(c, 2);
    if (connected)
        sim_connect(c, &w->nodes[0], &w->nodes[1]);
    draw_lossy(w, &rng);
    sim_mix_draw(&mix, &rng);
    t = sim_traffic_start(&c->program, &mix, c->seed);
    sim_world_run_until(w, w->now_ns + emx_rng_below(&rng, connected ? 5 * SIM_MS : SIM_MS / 10));
    for (unsigned i = 0; i < 2; i++)
        sim_node_pace(&w->nodes[i], SIM_STOPPED, w->now_ns + away_ns + i * SIM_MS);
    sim_traffic_run(t, w->now_ns + 8 * TIMEOUT_NS);
    expect_failed(c, &w->nodes[0], 0);
    expect_failed(c, &w->nodes[1], 0);
    sim_traffic_free(t);
    sim_case_end(c);
}

/* One waits for a message from a node that is gone, or was never there. */
static void lonely_receive(struct sim_case *c)
{
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, 2);
    a = &w->nodes[0];
    b = &w->nodes[1];
    if (c->seed & 1)
        sim_connect(c, a, b);
    sim_node_crash(b);
    sim_program_bury(&c->program, b->party);
    sim_recv(&c->program, a, b->party, 1, SIM_FULL_MASK, 100, SIM_CONTIGUOUS);
    sim_node_pump(a);
    sim_program_run(&c->program, w->now_ns + 2 * (TIMEOUT_NS + w->cfg.p_connect_timeout));
    expect_failed(c, a, 1);
    if (sim_send(&c->program, a, b->party, 1, 8, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS))
        sim_fail(w, "a send to a dead peer was accepted");
    sim_case_end(c);
}

static enum sim_verdict first_alone(void *arg, const struct sim_look *look, uint64_t *delay_ns_p)
{
    (void)arg, (void)delay_ns_p;
    return look->head->type == EMX_F_more ? SIM_DROP : SIM_PASS;
}

/* A node sends the first frame of a message and is gone. Who has matched it asks the dead nothing and has nothing
 * posted any more, and yet must learn of it. Seed bit 0: the receive comes after the frame, bit 1: the send is
 * synchronous. */
static void half_a_message(struct sim_case *c)
{
    enum ethmx_send_mode mode = c->seed & 2 ? ETHMX_SEND_SYNC : ETHMX_SEND_STANDARD;
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    bool late = c->seed & 1;
    struct sim_node *a, *b;

    sim_case_begin(c, 2, 1);
    w->cfg.p_peer_timeout = TIMEOUT_NS;
    sim_world_start(w);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    sim_world_link(w, 0, 1, 0)->verdict = first_alone;
    if (!late)
        sim_recv(p, b, a->party, 1, SIM_FULL_MASK, 5000, SIM_CONTIGUOUS);
    sim_send(p, a, b->party, 1, 5000, mode, SIM_CONTIGUOUS);
    sim_node_pump(a);
    sim_world_run_until(w, w->now_ns + SIM_MS);
    sim_node_crash(a);
    sim_program_bury(p, a->party);
    if (late)
        sim_recv(p, b, a->party, 1, SIM_FULL_MASK, 5000, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_program_run(p, w->now_ns + 2 * TIMEOUT_NS);
    expect_failed(c, b, 1);
    sim_case_end(c);
}

static enum sim_verdict no_hello(void *arg, const struct sim_look *look, uint64_t *delay_ns_p)
{
    const struct emx_f_hello *t = (const void *)(look->head + 1);
    const bool *small_too = arg;

    (void)delay_ns_p;
    return look->head->type == EMX_F_hello && (*small_too || t->probe & 1) ? SIM_DROP : SIM_PASS;
}

/* A node connects, sends a message and is gone before the receiver has replies to its own hellos: to the full-sized one
 * (seed bit 0), or to any. It was reached, so it is dead; it is not unreachable. Seed bit 1: frames are never lost. */
static void gone_while_connecting(struct sim_case *c)
{
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    bool small_too = !(c->seed & 1);
    struct sim_receive *r;
    struct sim_node *a, *b;

    sim_case_begin(c, 2, 1);
    w->cfg.p_peer_timeout = TIMEOUT_NS;
    w->reliable = c->seed & 2;
    sim_world_start(w);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_world_link(w, 1, 0, 0)->verdict = no_hello;
    sim_world_link(w, 1, 0, 0)->verdict_arg = &small_too;
    r = sim_recv(p, b, a->party, 1, SIM_FULL_MASK, 10, SIM_CONTIGUOUS);
    sim_send(p, a, b->party, 1, 10, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pump(a);
    sim_world_run_until(w, w->now_ns + 10 * SIM_MS);
    if (r->state != SIM_DONE || r->status)
        sim_fail(w, "the message did not arrive");
    sim_recv(p, b, a->party, 2, SIM_FULL_MASK, 10, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_node_crash(a);
    sim_program_bury(p, a->party);
    sim_program_run(p, w->now_ns + TIMEOUT_NS + w->cfg.p_connect_timeout);
    expect_failed(c, b, 1);
    if (!strstr(b->failed_text, "has not answered"))
        sim_fail(w, "the error is '%s'", b->failed_text);
    sim_case_end(c);
}

/* ---- Crash among others, and return ---- */

struct grave {
    struct sim_case *c;
    struct sim_traffic *t;
    struct sim_node *n;
};

static void crash(void *arg, uint64_t value)
{
    struct grave *g = arg;

    (void)value;
    sim_node_crash(g->n);
    sim_program_bury(&g->c->program, g->n->party);
    sim_traffic_bury(g->t, g->n->party);
}

/* Random programs; one node crashes in the middle, or just after. The caller frees g->t in the end. */
static void crash_among(struct sim_case *c, struct emx_rng *rng, struct grave *g)
{
    struct sim_world *w = &c->world;
    uint64_t at_ns = w->now_ns + emx_rng_below(rng, 30 * SIM_MS);
    struct sim_mix mix;

    g->c = c;
    g->n = &w->nodes[emx_rng_below(rng, w->node_count)];
    sim_mix_draw(&mix, rng);
    c->program.loses = true;
    g->t = sim_traffic_start(&c->program, &mix, c->seed);
    sim_queue_put(&w->queue, at_ns, crash, g, 0);
    sim_traffic_run(g->t, w->now_ns + 2 * (TIMEOUT_NS + w->cfg.p_connect_timeout) + SIM_S);
    sim_world_run_until(w, at_ns);
}

static void crash_scenario(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct grave g;

    begin(c, 3 + c->seed % 3);
    draw_lossy(&c->world, &rng);
    crash_among(c, &rng, &g);
    sim_traffic_free(g.t);
    sim_case_end(c);
}

#define TAPE_FRAMES 400

/* Frames seen on the links, to be heard again. */
struct tape {
    unsigned count;
    struct {
        unsigned src, dst;
        uint32_t len_bytes;
        uint8_t *data;
    } frame[TAPE_FRAMES];
    uint64_t seen;
};

static enum sim_verdict on_tape(void *arg, const struct sim_look *look, uint64_t *delay_ns_p)
{
    struct tape *t = arg;
    unsigned i = t->count < TAPE_FRAMES ? t->count++ : emx_mix64(t->seen) % TAPE_FRAMES;

    (void)delay_ns_p;
    t->seen++;
    free(t->frame[i].data);
    t->frame[i].src = look->link->src;
    t->frame[i].dst = look->link->dst;
    t->frame[i].len_bytes = look->len_bytes;
    t->frame[i].data = malloc(look->len_bytes);
    if (!t->frame[i].data)
        abort();
    memcpy(t->frame[i].data, look->data, look->len_bytes);
    return SIM_PASS;
}

/* Returns how many of the frames go to node dst. */
static uint64_t play_tape(struct sim_world *w, struct tape *t, uint64_t within_ns, struct emx_rng *rng, unsigned dst)
{
    uint64_t to_dst = 0;

    for (unsigned i = 0; i < t->count; i++)
        for (unsigned n = emx_rng_below(rng, 3); n; n--, to_dst += t->frame[i].dst == dst)
            sim_link_inject(sim_world_link(w, t->frame[i].src, t->frame[i].dst, 0), t->frame[i].data,
                            t->frame[i].len_bytes, w->now_ns + emx_rng_below(rng, within_ns));
    return to_dst;
}

static void listen(struct sim_world *w, struct tape *t)
{
    sim_world_judge(w, t ? on_tape : NULL, t);
}

static void erase(struct tape *t)
{
    for (unsigned i = 0; i < t->count; i++)
        free(t->frame[i].data);
    free(t);
}

/* The node that crashed starts again at the same place. Frames of its former life come late, in both directions. */
static void restart(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct tape *tape = calloc(1, sizeof(*tape));
    struct sim_world *w = &c->world;
    struct sim_traffic *t;
    struct grave g;
    struct sim_mix mix;
    unsigned parties;
    uint64_t failed, played_ns, late;

    if (!tape)
        abort();
    begin(c, 2 + c->seed % 3);
    draw_lossy(w, &rng);
    listen(w, tape);
    crash_among(c, &rng, &g);
    listen(w, NULL);
    if (!sim_failed(w)) {
        sim_node_start(g.n);
        parties = w->party_count;
        failed = g.n->failed_peers;
        played_ns = w->now_ns + 20 * SIM_MS;
        late = play_tape(w, tape, 20 * SIM_MS, &rng, g.n->index);
        sim_mix_draw(&mix, &rng);
        t = sim_traffic_start(&c->program, &mix, c->seed + 1);
        sim_traffic_run(t, w->now_ns + 10 * SIM_S);
        sim_world_run_until(w, played_ns);
        sim_traffic_free(t);
        if (w->party_count != parties || g.n->failed_peers != failed)
            sim_fail(w, "the node that came back was told of a failed peer");
        if (g.n->stats.drop_not_mine < late)
            sim_fail(w, "%llu frames for the former engine came, %llu were counted", (unsigned long long)late,
                     (unsigned long long)g.n->stats.drop_not_mine);
    }
    sim_traffic_free(g.t);
    erase(tape);
    sim_case_end(c);
}

/* ---- Unreachable ---- */

/* again: the error shall say that all ways were tried more than once. */
static void play_unreachable(struct sim_case *c, uint64_t within_ns, bool again)
{
    struct sim_world *w = &c->world;
    struct sim_node *a = &w->nodes[0], *b = &w->nodes[1];

    c->program.doomed[a->party] = c->program.doomed[b->party] = true;
    c->program.loses = true;
    open_both_ways(c, a, b);
    sim_program_run(&c->program, w->now_ns + within_ns);
    expect_failed(c, a, 1);
    expect_failed(c, b, 1);
    if ((strstr(a->failed_text, "again and again") != NULL) != again)
        sim_fail(w, "the error is '%s'", a->failed_text);
    sim_case_end(c);
}

/* Nothing arrives at all; nothing from n0 to n1; no long frames; nothing at all, with time for several turns. */
static void no_answer(struct sim_case *c)
{
    struct sim_world *w = &c->world;
    unsigned kind = (unsigned)c->seed / 3;
    struct sim_faults *x;

    sim_case_begin(c, 2, 1 + c->seed % 3);
    if (kind != 3)
        w->cfg.p_peer_timeout = TIMEOUT_NS;
    sim_world_start(w);
    for (unsigned i = 0; i < 4 * w->wire_count; i++) {
        x = &w->links[i].faults;
        x->drop_ppm = kind == 0 || kind == 3 || (kind == 1 && w->links[i].src == 0) ? 1000000 : 0;
        x->max_bytes = kind == 2 ? 300 : 0;
    }
    play_unreachable(c, (w->wire_count + 1) * w->cfg.p_connect_timeout + w->cfg.p_peer_timeout, kind == 3);
}

/* One is stopped, or gets no processor, before it has answered for the first time. */
static void answers_late(struct sim_case *c)
{
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;
    uint64_t heals_ns;

    sim_case_begin(c, 2, 1 + c->seed % 2);
    sim_world_start(w);
    a = &w->nodes[0], b = &w->nodes[1];
    heals_ns = w->now_ns + w->cfg.p_peer_timeout / 2 + c->seed * w->cfg.p_connect_timeout;
    sim_world_cut(w, 1, 0, w->now_ns, heals_ns);
    sim_messages(c, a, b, 3, 20000);
    sim_program_run(&c->program, heals_ns + (w->wire_count + 1) * w->cfg.p_connect_timeout);
    sim_case_end(c);
}

static void no_route(struct sim_case *c)
{
    begin(c, 2);
    c->world.nodes[0].cut_off = c->world.nodes[1].cut_off = true;
    c->world.resolve_ns = c->seed & 1 ? SIM_MS : 0;
    play_unreachable(c, 10 * SIM_MS, false);
}

/* ---- Leave ---- */

static enum sim_verdict no_byes(void *arg, const struct sim_look *look, uint64_t *delay_ns_p)
{
    (void)arg, (void)delay_ns_p;
    return look->head->type == EMX_F_close ? SIM_DROP : SIM_PASS;
}

/* No way of sending is open any more: what comes after a goodbye is lost. */
static void check_closed(struct sim_node *n, size_t len_bytes)
{
    static const uint8_t data[20000];
    const struct emx_op_args a = {.data = {.base = (void *)(uintptr_t)data, .len_bytes = len_bytes}};
    struct emx_reservation placing;
    unsigned link;

    for (unsigned i = 0; i < SIM_PARTIES_MAX; i++) {
        struct emx_peer *peer = n->peers[i];

        if (peer &&
            (emx_engine_fast(peer, &a, &link) || emx_engine_reserve_begin(n->engine, peer, &a, &placing, &link) ||
             emx_engine_send(n->engine, peer, &a, sim_node_now(n)) != ETHMX_ERR_CLOSED))
            sim_fail(n->world, "a message of %zu bytes is taken after the goodbye", len_bytes);
    }
}

static void leave(struct sim_node *n)
{
    emx_engine_close(n->engine, sim_node_now(n));
    check_closed(n, 8);
    check_closed(n, 20000);
    sim_node_pump(n);
    sim_node_crash(n);
}

/* One that has announced a large message is not drained before the peer has got it, or has died. */
static void closing_waits(struct sim_case *c)
{
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, 2);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    sim_send(p, a, b->party, 1, 4 << 20, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pump(a);
    sim_world_run_until(w, w->now_ns + SIM_MS);
    if (emx_engine_drained(a->engine))
        sim_fail(w, "drained before the message was asked for");
    sim_recv(p, b, a->party, 1, SIM_FULL_MASK, 4 << 20, SIM_CONTIGUOUS);
    sim_node_pump(b);
    for (unsigned i = 0; p->open && i < 1000 && !sim_failed(w); i++) {
        sim_world_run_until(w, w->now_ns + 10000 + c->seed * 1000);
        if (p->open > 1 && emx_engine_drained(a->engine))
            sim_fail(w, "drained while the message is pulled");
    }
    if (sim_program_run(p, w->now_ns + SIM_S))
        sim_model_check(p);
    if (!sim_failed(w) && !emx_engine_drained(a->engine))
        sim_fail(w, "not drained although all has arrived");
    sim_case_end(c);
}

/* Some traffic, then one node leaves; seed bit 0: its goodbyes are lost, bit 1: something is open, bit 2: nothing was
 * ever said between some. */
static void goodbye(struct sim_case *c)
{
    bool lost = c->seed & 1, open = c->seed & 2;
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *n;

    begin(c, 3);
    n = w->nodes;
    sim_connect(c, &n[0], &n[1]);
    if (c->seed & 4)
        sim_connect(c, &n[1], &n[2]);
    if (lost)
        sim_world_judge(w, no_byes, NULL);
    for (unsigned i = 0; i < 20 && !sim_failed(w); i++) {
        sim_send(p, &n[i & 1], n[!(i & 1)].party, i, i * 5000, i & 1, SIM_CONTIGUOUS);
        sim_recv(p, &n[!(i & 1)], n[i & 1].party, i, SIM_FULL_MASK, i * 5000, SIM_CONTIGUOUS);
        sim_node_pump(&n[0]);
        sim_node_pump(&n[1]);
    }
    sim_program_run(p, w->now_ns + SIM_S);
    p->doomed[n[0].party] = p->loses = true;
    if (open)
        sim_recv(p, &n[1], n[0].party, 77, SIM_FULL_MASK, 10, SIM_CONTIGUOUS);
    sim_node_pump(&n[1]);
    if (!sim_failed(w))
        leave(&n[0]);
    sim_program_bury(p, n[0].party);
    sim_program_run(p, w->now_ns + (lost ? 2 * TIMEOUT_NS : 10 * SIM_MS));
    sim_world_run_until(w, w->now_ns + 10 * SIM_MS);
    expect_failed(c, &n[1], open);
    if (n[1].closed_peers != (!lost && !open))
        sim_fail(w, "n1 was told of %llu peers that closed", (unsigned long long)n[1].closed_peers);
    expect_failed(c, &n[2], 0);
    sim_send(p, &n[1], n[0].party, 1, 8, ETHMX_SEND_SYNC, SIM_CONTIGUOUS);
    sim_node_pump(&n[1]);
    sim_program_run(p, w->now_ns + 2 * TIMEOUT_NS);
    if (!sim_failed(w))
        leave(&n[1]);
    sim_case_end(c);
}

/* ---- Leave at once ---- */

/* Loses what the seed says, but no goodbye. */
static enum sim_verdict lose_others(void *arg, const struct sim_look *look, uint64_t *delay_ns_p)
{
    struct emx_rng *rng = arg;

    (void)delay_ns_p;
    return look->head->type != EMX_F_close && !emx_rng_below(rng, 8) ? SIM_DROP : SIM_PASS;
}

static bool nothing_open(void *arg)
{
    const struct sim_program *p = arg;

    return !p->open;
}

/* One sends, the other leaves as soon as it has received all: its own handshake may not be finished, and it has not
 * acknowledged anything yet. Its goodbye does, so the sender is drained at once. */
static void leave_at_once(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)}, losses = {.state = c->seed};
    struct sim_faults x = {.delay_ns = 5000, .jitter_ns = emx_rng_below(&rng, 200000)};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *from, *to;

    begin(c, 2);
    from = &w->nodes[0];
    to = &w->nodes[1];
    from->poll_ns = emx_rng_below(&rng, 100000);
    to->poll_ns = emx_rng_below(&rng, 100000);
    sim_world_faults(w, &x);
    if (!w->reliable)
        sim_world_judge(w, lose_others, &losses);
    for (unsigned i = 1 + emx_rng_below(&rng, 10); i--;) {
        sim_recv(p, to, from->party, i, SIM_FULL_MASK, 3000, SIM_CONTIGUOUS);
        sim_send(p, from, to->party, i, emx_rng_below(&rng, 3000), ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    }
    sim_node_pump(from);
    sim_world_run(w, nothing_open, p, w->now_ns + w->cfg.p_connect_timeout, "all is received");
    if (!sim_failed(w))
        leave(to);
    sim_program_bury(p, to->party);
    sim_program_run(p, w->now_ns + SIM_MS);
    expect_failed(c, from, 0);
    sim_case_end(c);
}

/* All leave as soon as they are drained, in any order, with losses: nobody hangs, nobody fails. */
static void all_leave(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_world *w = &c->world;
    struct sim_traffic *t;
    struct sim_mix mix;

    begin(c, 2 + c->seed % 4);
    draw_lossy(w, &rng);
    sim_mix_draw(&mix, &rng);
    t = sim_traffic_start(&c->program, &mix, c->seed);
    sim_traffic_run(t, w->now_ns + 20 * SIM_S);
    for (unsigned i = 0; i < w->node_count && !sim_failed(w); i++) {
        leave(&w->nodes[i]);
        sim_program_bury(&c->program, w->nodes[i].party);
        sim_world_run_until(w, w->now_ns + emx_rng_below(&rng, SIM_S));
        for (unsigned k = i + 1; k < w->node_count; k++)
            expect_failed(c, &w->nodes[k], 0);
    }
    sim_traffic_free(t);
    sim_case_end(c);
}

const struct sim_scenario sim_deaths[] = {
    {"cut-for-good", "two nodes are cut off from each other: both fail what is open", cut_for_good, 200, 0},
    {"both-stopped", "both are stopped for longer than the time-out: nobody is thought dead", both_stopped, 300, 0},
    {"lonely-receive", "a receive from a node that is gone", lonely_receive, 2, 0},
    {"half-a-message", "the sender is gone after the first frame of several", half_a_message, 4, 0},
    {"gone-while-connecting", "a peer connects, sends a message and is gone before its receiver is connected",
     gone_while_connecting, 4, 0},
    {"crash", "one node of several crashes: the others go on", crash_scenario, 0, 5},
    {"restart", "it comes back, and so do frames of its former life", restart, 0, 5},
    {"no-answer", "no wire reaches: an error in bounded time", no_answer, 12, 0},
    {"answers-late", "one answers after three time-outs of the handshake or more: it is waited for", answers_late, 3,
     0},
    {"no-route", "there is no wire: an error at once", no_route, 2, 0},
    {"closing-waits", "what was announced is delivered before an engine is drained", closing_waits, 10, 0},
    {"goodbye", "one leaves; goodbyes arrive or not, something is open or not", goodbye, 8, 0},
    {"leave-at-once", "who has received all leaves before it has acknowledged it", leave_at_once, 0, 3},
    {"all-leave", "all leave after random programs", all_leave, 0, 3},
    {0},
};
