/* SPDX-License-Identifier: BSD-3-Clause */
#include "node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "node_ways.h"
#include "wire/sim_place.h"
#include "world.h"

#define HINTS_EVERY 8     /* asked for what it does not hint at, to see that this is true */
#define SWEEP_NS    50000 /* a wire that is dear to poll may be left alone for so long */
#define RESTLESS    10000 /* polls in a row that find nothing */

/* ---- Life ---- */

static void on_event(void *arg, emx_time now);

void sim_node_init(struct sim_node *n, struct sim_world *w, unsigned index)
{
    memset(n, 0, sizeof(*n));
    n->world = w;
    n->index = index;
    n->pace = SIM_GONE;
    for (unsigned i = 0; i < w->wire_count; i++)
        n->wires[i] = i;
    n->ended_tail = &n->ended;
    n->wake_ns = EMX_NEVER;
}

static unsigned new_party(struct sim_node *n)
{
    struct sim_world *w = n->world;
    unsigned party = w->party_count++;
    uint32_t id = emx_mix64(w->seed ^ emx_mix64(party + 7));

    if (party == SIM_PARTIES_MAX)
        abort();
    w->party[party] = (struct sim_party){.id = id ? id : 1, .node = n->index};
    return party;
}

static uint64_t read_clock(void *arg)
{
    return ((const struct sim_world *)arg)->now_ns;
}

uint64_t sim_node_now(struct sim_node *n)
{
    return emx_clock_now(&n->progress.clock);
}

/* How program, machine and wires look to progress is drawn by chance: nothing that is checked depends on it. */
static void start_progress(struct sim_node *n)
{
    struct sim_world *w = n->world;
    uint64_t chance = emx_mix64(w->seed ^ emx_mix64(n->party + 99));

    n->progress = (struct emx_progress){.stats = &n->stats,
                                        .on_event = on_event,
                                        .on_event_arg = n,
                                        .open_ops = chance & 1,
                                        .oversubscribed = chance & 2};
    emx_clock_drive(&n->progress.clock, read_clock, w, chance & 4);
    sim_node_open_wires(n, chance);
}

void sim_node_start(struct sim_node *n)
{
    struct sim_world *w = n->world;
    struct emx_engine_params p = {.cfg = &n->cfg, .stats = &n->stats, .alloc = &n->memory.alloc, .self = &n->self};

    n->party = new_party(n);
    n->cfg = w->cfg;
    if (w->lend_mixed)
        n->cfg.p_verbs_move = emx_mix64(w->seed + n->party) % 2 ? EMX_MOVE_WRITE : EMX_MOVE_READ;
    memset(n->peers, 0, sizeof(n->peers));
    memset(&n->stats, 0, sizeof(n->stats));
    sim_memory_init(&n->memory, w->skew_bytes);
    n->memory.fail_first = n->fail_first;
    n->memory.fail_end = n->fail_end;
    start_progress(n);
    sim_node_make_address(n);
    p.seed = emx_mix64(w->seed + n->party);
    p.guarded_links = n->progress.links.guarded;
    p.reliable_links = n->progress.links.reliable;
    if (emx_engine_create(&p, &n->engine) != ETHMX_OK) {
        sim_node_close_wires(n);
        if (!n->memory.failures)
            sim_fail(w, "n%u: no engine", n->index);
        else if (n->memory.live_blocks)
            sim_fail(w, "n%u: an engine that could not be made left memory behind", n->index);
        n->engine = NULL;
        return;
    }
    n->progress.engine = n->engine;
    emx_engine_placer(n->engine, &n->placer);
    n->pace = SIM_POLLS;
}

void sim_node_crash(struct sim_node *n)
{
    n->pace = SIM_GONE;
    n->busy_until_ns = 0;
    sim_node_close_wires(n);
    memset(n->resolving, 0, sizeof(n->resolving));
    if (!n->engine)
        return;
    sim_trace(n->world, "n%u is gone", n->index);
    sim_device_forget(n);
    emx_engine_destroy(n->engine);
    n->engine = NULL;
    if (n->memory.live_blocks)
        sim_fail(n->world, "n%u: the engine left %" PRIu64 " blocks, %zu bytes of memory behind", n->index,
                 n->memory.live_blocks, n->memory.live_bytes);
}

void sim_node_fini(struct sim_node *n)
{
    n->pace = SIM_GONE;
    sim_node_close_wires(n);
    sim_device_forget(n);
    if (n->engine)
        emx_engine_destroy(n->engine);
    n->engine = NULL;
}

/* ---- Peers ---- */

static struct emx_peer *find_peer(struct sim_node *n, unsigned party)
{
    struct sim_world *w = n->world;
    const struct sim_node *other = &w->nodes[w->party[party].node];
    struct emx_peer *peer = NULL;
    uint8_t addr[ETHMX_ADDRESS_MAX];
    char err[256] = "";
    size_t len_bytes = sim_node_address(other, w->party[party].id, addr);
    int rc;

    if (!len_bytes)
        return NULL;
    rc = emx_engine_peer(n->engine, addr, len_bytes, &peer, err, sizeof(err));
    if (rc == ETHMX_OK)
        return peer;
    if (rc != ETHMX_ERR_NO_MEMORY && !w->mad) /* a forged hello may have come first, with the number of that one */
        sim_fail(w, "n%u: the address of n%u is refused (%d): %s", n->index, other->index, rc, err);
    return NULL;
}

struct emx_peer *sim_node_peer(struct sim_node *n, unsigned party)
{
    if (!n->peers[party])
        n->peers[party] = find_peer(n, party);
    return n->peers[party];
}

unsigned sim_node_party(struct sim_node *n, const void *peer)
{
    struct emx_peer *p = (void *)(uintptr_t)peer;
    int party;

    if (p && emx_peer_user(p)) /* looked up before */
        return (uintptr_t)emx_peer_user(p) - 1;
    party = p ? sim_world_party(n->world, emx_peer_address(n->engine, p)->id) : -1;
    if (party < 0) {
        sim_fail(n->world, "n%u: the engine tells of a peer that nobody knows", n->index);
        return 0;
    }
    emx_peer_set_user(p, (void *)(uintptr_t)(party + 1));
    return party;
}

/* ---- Waking ---- */

void sim_node_works(struct sim_node *n, uint64_t ns)
{
    uint64_t now_ns = n->world->now_ns;

    n->busy_until_ns = (n->busy_until_ns > now_ns ? n->busy_until_ns : now_ns) + ns;
}

static void wake(void *arg, uint64_t at_ns);

static void wake_at(struct sim_node *n, uint64_t at_ns)
{
    if (at_ns >= n->wake_ns)
        return;
    n->wake_ns = at_ns;
    sim_queue_put(&n->world->queue, at_ns, wake, n, at_ns);
}

/* The event may be one that an earlier one has replaced. */
static void wake(void *arg, uint64_t at_ns)
{
    struct sim_node *n = arg;

    if (at_ns != n->wake_ns)
        return;
    n->wake_ns = EMX_NEVER;
    sim_node_pump(n);
}

static void resume(void *arg, uint64_t at_ns)
{
    struct sim_node *n = arg;

    if (n->pace == SIM_GONE || n->pace_until_ns != at_ns)
        return;
    n->pace = SIM_POLLS;
    sim_trace(n->world, "n%u polls again", n->index);
    sim_node_pump(n);
    if (n->program && n->program->resumed)
        n->program->resumed(n->program_arg, n);
}

static void beat(void *arg, uint64_t at_ns)
{
    struct sim_node *n = arg;

    if (n->pace != SIM_COMPUTES || n->pace_until_ns != at_ns)
        return;
    sim_node_pump(n);
    if (n->world->now_ns + n->cfg.p_heartbeat < at_ns)
        sim_queue_put(&n->world->queue, n->world->now_ns + n->cfg.p_heartbeat, beat, n, at_ns);
}

void sim_node_pace(struct sim_node *n, enum sim_pace pace, uint64_t until_ns)
{
    struct sim_world *w = n->world;

    if (n->pace == SIM_GONE)
        return;
    sim_trace(w, "n%u %s until %.3f ms", n->index, pace == SIM_STOPPED ? "is stopped" : "computes",
              (until_ns - SIM_S) / 1e6);
    n->pace = pace;
    n->pace_until_ns = until_ns;
    n->wake_ns = EMX_NEVER;
    sim_queue_put(&w->queue, until_ns, resume, n, until_ns);
    if (pace == SIM_COMPUTES && n->cfg.p_heartbeat)
        sim_queue_put(&w->queue, w->now_ns + n->cfg.p_heartbeat, beat, n, until_ns);
}

void sim_node_arrive(struct sim_node *n, struct sim_frame *f)
{
    struct sim_world *w = n->world;

    if (n->pace == SIM_GONE || (!w->reliable && n->ring_bytes + f->len_bytes > n->cfg.p_ring)) {
        n->ring_lost++;
        sim_frame_free(f);
        return;
    }
    sim_wire_arrive(n->wire[f->wire], f);
    if (n->pace != SIM_POLLS)
        return;
    if (n->poll_ns)
        wake_at(n, w->now_ns + emx_rng_below(&w->rng, n->poll_ns + 1));
    else
        sim_node_pump(n);
}

/* ---- Operations ---- */

int sim_node_send(struct sim_node *n, struct emx_peer *peer, const struct emx_op_args *a)
{
    if (emx_rng_chance(&n->world->rng, 300000))
        return emx_progress_send_long(&n->progress, peer, a);
    return emx_progress_send(&n->progress, peer, a);
}

/* ---- Pump: routes, completions, active messages ---- */

static void tell_routes(struct sim_node *n, struct emx_peer *peer)
{
    struct emx_route r[EMX_ROUTES_MAX];
    char why[512];
    unsigned count = sim_node_routes(n, peer, r, why, sizeof(why));

    emx_engine_routes(n->engine, peer, r, count, why, sim_node_now(n));
}

void sim_node_lose(struct sim_node *n, const struct sim_node *other, unsigned wire)
{
    struct sim_place place = {.node = other->index, .wire = wire, .party = other->party};
    struct emx_wire_addr to;

    if (!n->engine)
        return;
    memset(&to, 0, sizeof(to));
    memcpy(&to, &place, sizeof(place));
    sim_trace(n->world, "n%u: wire %u does not reach n%u any more", n->index, wire, other->index);
    sim_wire_lose(n->wire[wire], &to);
    if (n->pace != SIM_STOPPED)
        sim_node_pump(n);
}

static void resolved(void *arg, uint64_t slot)
{
    struct sim_node *n = arg;
    struct emx_peer *peer = n->resolving[slot];

    n->resolving[slot] = NULL;
    if (!peer || n->pace == SIM_GONE)
        return;
    tell_routes(n, peer);
    if (n->pace != SIM_STOPPED)
        sim_node_pump(n);
}

static void resolve(struct sim_node *n, struct emx_peer *peer)
{
    struct sim_world *w = n->world;
    unsigned slot = 0;

    while (slot < SIM_RESOLVING && n->resolving[slot])
        slot++;
    if (!w->resolve_ns || slot == SIM_RESOLVING) {
        tell_routes(n, peer);
        return;
    }
    n->resolving[slot] = peer;
    sim_queue_put(&w->queue, w->now_ns + emx_rng_below(&w->rng, w->resolve_ns), resolved, n, slot);
}

static void hear(struct sim_node *n, const struct emx_event *ev)
{
    static const char *const name[] = {
        "wants routes", "is connected", "lost a route", "notes", "failed", "is closed", "takes shorter frames only"};
    struct sim_world *w = n->world;
    unsigned party = sim_node_party(n, ev->peer);

    sim_trace(w, "n%u: peer n%u (party %u) %s %d %.*s", n->index, w->party[party].node, party, name[ev->type],
              ev->status, (int)sizeof(ev->text), ev->type == EMX_EVENT_ROUTES ? "" : ev->text);
    sim_hash(w, (uint64_t)party << 8 | ev->type);
    if (ev->type == EMX_EVENT_ROUTES)
        resolve(n, ev->peer);
    if (ev->type == EMX_EVENT_CLOSED)
        n->closed_peers++;
    if (ev->type == EMX_EVENT_FAILED) {
        n->failed_peers++;
        memcpy(n->failed_text, ev->text, sizeof(n->failed_text));
        if (!ev->text[0] || ev->status >= 0)
            sim_fail(w, "n%u: a peer failed with status %d and text '%s'", n->index, ev->status, ev->text);
    }
    if (n->program && n->program->event)
        n->program->event(n->program_arg, n, ev);
}

static bool take_events(struct sim_node *n)
{
    struct emx_event ev;
    bool any = false;

    while (n->engine && emx_engine_event(n->engine, &ev)) {
        any = true;
        if (!sim_failed(n->world))
            hear(n, &ev);
    }
    return any;
}

static void on_event(void *arg, emx_time now)
{
    (void)now;
    take_events(arg);
}

static void tell(struct sim_node *n, struct emx_op *op)
{
    struct ethmx_result result = {0};
    ethmx_done_fn done;
    void *arg;

    if (sim_device_is_at(n, op))
        sim_fail(n->world, "n%u: an operation completes while the device is at its memory", n->index);
    emx_op_result(op, &done, &arg, &result);
    n->world->step++;
    if (done)
        done(arg, &result);
    emx_engine_op_free(n->engine, op);
}

static bool take_completions(struct sim_node *n)
{
    struct emx_op *op;
    bool any = false;

    while (!sim_failed(n->world) && (op = emx_engine_completed(n->engine))) {
        any = true;
        tell(n, op);
    }
    return any;
}

static bool take_ams(struct sim_node *n)
{
    struct emx_unexpected *msg;
    struct ethmx_am am;
    unsigned id;
    bool any = false;

    while (!sim_failed(n->world) && n->program && n->program->am) {
        memset(&am, 0, sizeof(am));
        msg = emx_engine_am(n->engine, &am, &id);
        if (!msg)
            break;
        any = true;
        n->world->step++;
        n->program->am(n->program_arg, n, msg, &am, id);
    }
    return any;
}

/* ---- Pump ---- */

/* What the engine does not hint at it does not have. */
static void check_hints(struct sim_node *n)
{
    const struct emx_engine_ready *ready = emx_engine_ready(n->engine);
    struct emx_export m;
    struct emx_txframe f;
    struct emx_read r;

    for (unsigned i = 0; i < n->world->wire_count; i++) {
        if (!emx_engine_wants_output(n->engine, i) && emx_engine_output(n->engine, i, &f, 1, sim_node_now(n)))
            sim_fail(n->world, "n%u: the engine had frames for wire %u without wanting output", n->index, i);
        if (!emx_engine_wants_read(n->engine, i) && emx_engine_read(n->engine, i, &r))
            sim_fail(n->world, "n%u: the engine reads without having said so", n->index);
        if (!emx_engine_wants_export(n->engine, i) && emx_engine_export(n->engine, i, &m))
            sim_fail(n->world, "n%u: the engine had work with memory without having said so", n->index);
    }
    if (!(ready->pending & EMX_RESULT_EVENT) && take_events(n))
        sim_fail(n->world, "n%u: the engine had events and said that it has none", n->index);
}

/* As deliver() of endpoint/deliver.c. */
static bool deliver(struct sim_node *n)
{
    bool news = emx_engine_has_results(n->engine), any;

    n->progress.delivering = true;
    any = take_completions(n);
    any |= take_ams(n);
    n->progress.delivering = false;
    if (any && !news)
        sim_fail(n->world, "n%u: the engine had news and said that it has none", n->index);
    return any;
}

/* A call of ethmx_progress(), or the helper's. Now and then the program calls ethmx_wait(), which looks at all wires.
 * Returns whether anything was found. */
static bool poll_once(struct sim_node *n)
{
    bool polls = n->pace == SIM_POLLS;
    bool waits = !polls || n->progress.stuck || !emx_rng_below(&n->world->rng, 16);
    struct emx_op *quick = NULL;
    bool any = emx_progress_round(&n->progress, waits, waits ? NULL : &quick);

    if (quick && !sim_failed(n->world)) {
        n->progress.delivering = true;
        tell(n, quick);
        n->progress.delivering = false;
    }
    if (polls && !sim_failed(n->world))
        any |= deliver(n);
    return any;
}

static bool is_busy(const struct sim_node *n)
{
    return n->busy_until_ns > n->world->now_ns;
}

/* Links whose wires take their time to read. */
static unsigned reading(const struct sim_node *n)
{
    unsigned mask = 0;

    for (unsigned i = 0; i < n->world->wire_count; i++)
        mask |= (unsigned)n->wire[i]->reads << n->wire[i]->link;
    return mask;
}

/* Whether the next round has something to do, come frames or not. */
static bool wants_more(const struct sim_node *n)
{
    const struct emx_engine_ready *ready = emx_engine_ready(n->engine);

    return (ready->reads & ~reading(n)) || ready->memory || ready->pending & EMX_RESULT_EVENT ||
           !emx_progress_looked_around(&n->progress);
}

/* Polls until nothing is left to do in this moment, or the processor is at work, or waits for memory. */
static void poll_to_rest(struct sim_node *n)
{
    struct sim_world *w = n->world;
    unsigned idle = 0;
    bool any;

    do {
        any = poll_once(n);
        if (any)
            sim_node_check(n, ++n->checks % w->check_every == 0);
        idle = any ? 0 : idle + 1;
        if (idle > RESTLESS)
            sim_fail(w, "n%u: there is something to do, which nobody does", n->index);
    } while (!sim_failed(w) && !is_busy(n) && !n->progress.stuck && (any || wants_more(n)));
    sim_node_check(n, ++n->checks % w->check_every == 0);
}

static bool waits_for_sweep(const struct sim_node *n)
{
    for (unsigned i = 0; i < n->world->wire_count; i++)
        if (n->wire[i]->ring || n->wire[i]->lost_count)
            return true;
    return false;
}

static uint64_t room_at(const struct sim_node *n)
{
    uint64_t at_ns = EMX_NEVER, t;

    for (unsigned i = 0; i < n->world->wire_count; i++) {
        t = sim_port_room_at(&n->out[i], n->world->now_ns, sim_wire_bytes(n->world->frame_bytes[i]));
        if (t > n->world->now_ns && t < at_ns)
            at_ns = t;
    }
    return at_ns;
}

/* When what goes on by itself is to be looked at again. */
static void set_alarms(struct sim_node *n)
{
    struct sim_world *w = n->world;

    if (n->progress.stuck)
        wake_at(n, w->now_ns + SIM_MS);
    if (n->progress.full)
        wake_at(n, room_at(n));
    if (waits_for_sweep(n))
        wake_at(n, w->now_ns + SWEEP_NS);
    for (unsigned i = 0; i < w->wire_count; i++)
        if (n->wire[i]->reads)
            wake_at(n, n->wire[i]->read_until_ns);
}

static void check_rest(struct sim_node *n)
{
    struct sim_world *w = n->world;
    uint64_t deadline = emx_engine_deadline(n->engine);

    if (!n->progress.full && deadline <= w->now_ns)
        sim_fail(w, "n%u: contract: output is drained, but the deadline is %" PRIu64 " ns in the past", n->index,
                 w->now_ns - deadline);
    if (n->pace == SIM_POLLS && n->program && emx_engine_has_results(n->engine))
        sim_fail(w, "n%u: all was taken, but the engine says that it has news", n->index);
    if (n->checks % HINTS_EVERY == 0)
        check_hints(n);
}

static void rest(struct sim_node *n)
{
    struct sim_world *w = n->world;
    uint64_t deadline;

    if (is_busy(n)) {
        wake_at(n, n->busy_until_ns);
        return;
    }
    if (!n->progress.stuck)
        check_rest(n);
    if (n->pace != SIM_POLLS)
        return;
    set_alarms(n);
    deadline = emx_engine_deadline(n->engine);
    if (deadline > w->now_ns && deadline != EMX_NEVER)
        wake_at(n, deadline);
}

void sim_node_pump(struct sim_node *n)
{
    struct sim_world *w = n->world;

    if (n->pumping || n->pace == SIM_GONE || n->pace == SIM_STOPPED || sim_failed(w))
        return;
    n->pumping = true;
    if (!is_busy(n))
        poll_to_rest(n);
    if (!sim_failed(w))
        rest(n);
    n->pumping = false;
}

void sim_node_check(struct sim_node *n, bool thorough)
{
    struct sim_world *w = n->world;
    const char *wrong;

    if (!n->engine || sim_failed(w))
        return;
    if (n->stats.unexpected_bytes > n->cfg.p_unexpected_max)
        sim_fail(w, "n%u: %" PRIu64 " bytes of unexpected messages, the bound is %" PRIu64, n->index,
                 n->stats.unexpected_bytes, n->cfg.p_unexpected_max);
    if (n->stats.unexpected_promised > n->cfg.p_unexpected_max)
        sim_fail(w, "n%u: %" PRIu64 " bytes of unexpected memory promised, the bound is %" PRIu64, n->index,
                 n->stats.unexpected_promised, n->cfg.p_unexpected_max);
    if (!thorough)
        return;
    wrong = emx_engine_check(n->engine);
    if (wrong)
        sim_fail(w, "n%u: the engine is inconsistent: %s", n->index, wrong);
}
