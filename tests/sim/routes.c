/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Routes: a wire that does not carry frames, or only short ones, or only one way, is passed over.
 */
#include <string.h>

#include "base/keyed_hash.h"
#include "scenario.h"

#define LOSSY_FRAMES    16
#define NARROWEST_BYTES 420 /* ethmx tries no frames of less than 400 bytes */

static void spoil(struct sim_world *w, unsigned wire, uint32_t max_bytes, bool one_way)
{
    for (unsigned src = 0; src < w->node_count; src++)
        for (unsigned dst = 0; dst < w->node_count; dst++) {
            struct sim_faults *x = &sim_world_link(w, src, dst, wire)->faults;

            if (one_way && src > dst)
                continue;
            x->max_bytes = max_bytes;
            x->drop_ppm = max_bytes ? 0 : 1000000;
        }
}

static void play_until(struct sim_case *c, void (*check)(struct sim_world *w))
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_world *w = &c->world;
    struct sim_traffic *t;
    struct sim_mix mix;

    sim_world_start(w);
    sim_mix_draw(&mix, &rng);
    t = sim_traffic_start(&c->program, &mix, c->seed);
    sim_traffic_run(t, w->now_ns + w->wire_count * w->cfg.p_connect_timeout + 10 * SIM_S);
    for (unsigned i = 0; i < w->node_count; i++)
        if (w->nodes[i].failed_peers)
            sim_fail(w, "n%u: %s", i, w->nodes[i].failed_text);
    if (check && !sim_failed(w))
        check(w);
    sim_traffic_free(t);
    sim_case_end(c);
}

static void play(struct sim_case *c)
{
    play_until(c, NULL);
}

static void black_hole(struct sim_case *c)
{
    sim_case_begin(c, 2 + c->seed % 2, 2);
    spoil(&c->world, 0, 0, false);
    play(c);
}

static void black_hole_one_way(struct sim_case *c)
{
    sim_case_begin(c, 2, 2);
    spoil(&c->world, 0, 0, true);
    play(c);
}

static void short_only(struct sim_case *c)
{
    sim_case_begin(c, 2, 2);
    c->world.frame_bytes[0] = c->seed & 1 ? 9000 : 1500;
    spoil(&c->world, 0, c->seed & 2 ? 600 : 1499, c->seed & 4);
    play(c);
}

static void last_of_three(struct sim_case *c)
{
    sim_case_begin(c, 2, 3);
    spoil(&c->world, 0, 0, false);
    spoil(&c->world, 1, 700, false);
    play(c);
}

/* Each node prefers another wire; both work. */
static void crossed(struct sim_case *c)
{
    struct sim_node *n;

    sim_case_begin(c, 2, 2);
    c->world.frame_bytes[1] = 4000;
    n = &c->world.nodes[1];
    n->wires[0] = 1;
    n->wires[1] = 0;
    play(c);
}

static void check_learned(struct sim_world *w)
{
    for (unsigned i = 0; i < 2; i++) {
        struct sim_node *n = &w->nodes[i], *other = &w->nodes[!i];
        struct ethmx_peer_info info;

        emx_peer_query(n->engine, sim_node_peer(n, other->party), &info);
        if (strcmp(info.state, "connected"))
            continue;
        if (info.host[0] != 'n' || strcmp(info.interface, "w0"))
            sim_fail(w, "n%u: connected to \"%s\" over \"%s\", not to n%u over w0", i, info.host, info.interface,
                     other->index);
    }
}

/* A launcher tells the nodes little of each other, and by that not the best route. They learn the rest from each
 * other's hellos, and use it. */
static void learned(struct sim_case *c)
{
    struct sim_world *w = &c->world;
    const char *why;

    sim_case_begin(c, 2, 1 + c->seed % 3);
    w->brief = true;
    w->auth = c->seed % 5 == 1 && emx_keyed_hash_usable(&why);
    w->gso_bytes = c->seed & 1 ? 1472 : 0;
    w->resolve_ns = c->seed & 2 ? 1000000 : 0;
    if (w->wire_count > 1)
        w->frame_bytes[1] = 4000;
    play_until(c, check_learned);
}

/* ---- A route becomes narrower ---- */

struct narrowing {
    struct sim_world *w;
    bool one_way;
};

static void narrow_links(void *arg, uint64_t max_bytes)
{
    const struct narrowing *x = arg;
    struct sim_world *w = x->w;

    sim_trace(w, "frames of more than %u bytes are lost from now on", (unsigned)max_bytes);
    for (unsigned src = 0; src < w->node_count; src++)
        for (unsigned dst = 0; dst < w->node_count; dst++)
            if (!x->one_way || src < dst)
                sim_world_link(w, src, dst, 0)->faults.max_bytes = (uint32_t)max_bytes;
}

static void draw_narrow_world(struct sim_world *w, struct emx_rng *rng)
{
    const struct sim_faults x = {.delay_ns = 5000,
                                 .drop_ppm = emx_rng_below(rng, 2) ? 0 : emx_rng_below(rng, 30000),
                                 .reorder_ppm = emx_rng_below(rng, 2) ? 0 : emx_rng_below(rng, 50000),
                                 .reorder_ns = 100000};

    w->frame_bytes[0] = emx_rng_below(rng, 3) ? 1500 : 9000;
    w->gso_bytes = emx_rng_below(rng, 2) ? 0 : w->frame_bytes[0] - 28;
    w->gso = SIM_GSO_JOINED;
    sim_world_faults(w, &x);
    sim_world_rate(w, 10000000000ull, 65536, 0);
}

/* While messages of all kinds are under way, an MTU is lowered, in both directions or in one: nobody is told, frames of
 * the old length vanish. The job goes on with shorter ones, and what was made before arrives as well, with tags too.
 * Some seeds lower it a second time. */
static void narrower(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct narrowing x = {.w = &c->world, .one_way = c->seed % 3 == 0};
    struct sim_world *w = &c->world;
    struct sim_traffic *t;
    struct sim_mix mix;
    const char *why;

    sim_case_begin(c, 2 + c->seed % 2, 1);
    draw_narrow_world(w, &rng);
    w->auth = c->seed % 5 == 1 && emx_keyed_hash_usable(&why);
    sim_world_start(w);
    sim_mix_draw(&mix, &rng);
    t = sim_traffic_start(&c->program, &mix, c->seed);
    sim_queue_put(&w->queue, w->now_ns + SIM_MS + emx_rng_below(&rng, 5 * SIM_MS), narrow_links, &x,
                  1000 + emx_rng_below(&rng, 499));
    if (c->seed % 4 == 0)
        sim_queue_put(&w->queue, w->now_ns + emx_rng_below(&rng, SIM_S), narrow_links, &x,
                      NARROWEST_BYTES + emx_rng_below(&rng, 500));
    sim_traffic_run(t, w->now_ns + 30 * SIM_S);
    for (unsigned i = 0; i < w->node_count; i++)
        if (w->nodes[i].failed_peers)
            sim_fail(w, "n%u: %s", i, w->nodes[i].failed_text);
    sim_traffic_free(t);
    sim_case_end(c);
}

/* Where frames get lost and overtake each other besides. What is under way must not have to arrive whole at once:
 * frames of 8 KB that were made before leave in 25 pieces, and chunks that were announced as long are pulled in shorter
 * ones. */
static void narrower_lossy(struct sim_case *c)
{
    const struct sim_faults faults = {
        .delay_ns = 5000, .drop_ppm = 25000, .reorder_ppm = 50000, .reorder_ns = 100000, .max_bytes = 437};
    struct narrowing x = {.w = &c->world};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;
    const char *why;

    sim_case_begin(c, 2, 1);
    w->frame_bytes[0] = 9000;
    w->auth = c->seed & 1 && emx_keyed_hash_usable(&why);
    sim_world_start(w);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    sim_world_faults(w, &faults);
    narrow_links(&x, 437);
    for (unsigned i = 0; i < LOSSY_FRAMES; i++)
        sim_recv(p, b, a->party, i, SIM_FULL_MASK, 8000, c->seed % SIM_SHAPES);
    sim_recv(p, b, a->party, LOSSY_FRAMES, SIM_FULL_MASK, 3000000, c->seed % SIM_SHAPES);
    sim_send(p, a, b->party, LOSSY_FRAMES, 3000000, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    for (unsigned i = 0; i < LOSSY_FRAMES; i++)
        sim_send(p, a, b->party, i, 8000, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_node_pump(a);
    if (sim_program_run(p, w->now_ns + 4 * SIM_S))
        sim_model_check(p);
    if (a->stats.frames_resent > 4 * LOSSY_FRAMES)
        sim_fail(w, "%llu frames were sent again", (unsigned long long)a->stats.frames_resent);
    if (!a->stats.fragments_sent || !b->stats.messages_shortened)
        sim_fail(w, "no frame was cut, or no message went on in shorter chunks");
    sim_case_end(c);
}

/* Active messages with the longest header, over a route whose frames do not take it and an announcement. */
static void long_header(struct sim_case *c)
{
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    sim_case_begin(c, 2, 1);
    w->frame_bytes[0] = 256 + 16 * (unsigned)c->seed;
    w->cfg.p_eager_max = 1000;
    sim_world_start(w);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    for (unsigned i = 0; i < 4; i++)
        sim_am(p, a, b->party, 2 * i, ETHMX_AM_HEADER_MAX, i % 2 ? 300000 : 100, SIM_CONTIGUOUS);
    sim_node_pump(a);
    if (sim_program_run(p, w->now_ns + SIM_S))
        sim_model_check(p);
    sim_case_end(c);
}

/* As far as ethmx goes along, also from only little more. A tag counts as part of the frame, and so does its header. */
static void narrowest(struct sim_case *c)
{
    struct narrowing x = {.w = &c->world, .one_way = c->seed & 1};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;
    const char *why;

    sim_case_begin(c, 2, 1);
    w->auth = c->seed & 2 && emx_keyed_hash_usable(&why);
    if (c->seed & 8)
        w->frame_bytes[0] = 440;
    sim_world_start(w);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    narrow_links(&x, 400);
    sim_recv(p, b, a->party, 1, SIM_FULL_MASK, 300000, SIM_CONTIGUOUS);
    sim_send(p, a, b->party, 1, c->seed & 4 ? 340 : 300000, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_node_pump(a);
    if (sim_program_run(p, w->now_ns + 30 * SIM_S))
        sim_model_check(p);
    sim_case_end(c);
}

/* So far that ethmx gives up: it says so, and nobody hangs. */
static void too_narrow(struct sim_case *c)
{
    struct narrowing x = {.w = &c->world, .one_way = c->seed & 1};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    sim_case_begin(c, 2, 1);
    w->cfg.p_peer_timeout = 2 * SIM_S;
    sim_world_start(w);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    narrow_links(&x, 300);
    p->doomed[a->party] = p->doomed[b->party] = p->loses = true;
    sim_recv(p, b, a->party, 1, SIM_FULL_MASK, 300000, SIM_CONTIGUOUS);
    sim_send(p, a, b->party, 1, c->seed & 2 ? 5000 : 300000, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_node_pump(a);
    sim_program_run(p, w->now_ns + 30 * SIM_S);
    if (!sim_failed(w) && !strstr(a->failed_text, "MTU"))
        sim_fail(w, "n0 was told '%s'", a->failed_text);
    sim_case_end(c);
}

/* A wire with connections has no MTU: when long ones do not come for a while, as devices behave that lose a part of
 * them and send again and again, it is not that they are too long, and no other lengths are tried. */
static void connected(struct sim_case *c)
{
    struct narrowing x = {.w = &c->world, .one_way = c->seed & 1};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct ethmx_peer_info before, after;
    struct sim_node *a, *b;

    sim_case_begin(c, 2, 1);
    w->connected = true;
    sim_world_start(w);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    emx_peer_query(a->engine, sim_node_peer(a, b->party), &before);
    narrow_links(&x, 400);
    sim_queue_put(&w->queue, w->now_ns + 10 * SIM_S, narrow_links, &x, w->frame_bytes[0]);
    sim_recv(p, b, a->party, 1, SIM_FULL_MASK, c->seed & 2 ? 5000 : 300000, SIM_CONTIGUOUS);
    sim_send(p, a, b->party, 1, c->seed & 2 ? 5000 : 300000, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_node_pump(a);
    if (sim_program_run(p, w->now_ns + 30 * SIM_S))
        sim_model_check(p);
    emx_peer_query(a->engine, sim_node_peer(a, b->party), &after);
    if (after.frame_bytes != before.frame_bytes)
        sim_fail(w, "frames of %u bytes are sent now, not of %u", after.frame_bytes, before.frame_bytes);
    sim_case_end(c);
}

/* An MTU of 1500 carries shorter frames by IPv6, so these are tried first. */
static void longer_header(struct sim_case *c)
{
    struct sim_world *w = &c->world;
    struct ethmx_peer_info info;

    sim_case_begin(c, 2, 1);
    w->cfg.p_connect_timeout = SIM_S / 2;
    w->more_bytes = 20;
    w->frame_bytes[0] = c->seed & 1 ? 9000 : 1472;
    sim_world_start(w);
    spoil(w, 0, 1452, false);
    sim_connect(c, &w->nodes[0], &w->nodes[1]);
    emx_peer_query(w->nodes[0].engine, sim_node_peer(&w->nodes[0], w->nodes[1].party), &info);
    if (info.frame_bytes != 1452)
        sim_fail(w, "frames of %u bytes are sent, not of 1452", info.frame_bytes);
    sim_case_end(c);
}

/* Several ways over one wire, of which one leads to the peer, and each node knows nothing of the other's. Replies take
 * the ways in turn, so that the handshakes do not wait for each other. A guess is short: the time-out does not pass. */
static void guesses(struct sim_case *c)
{
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    sim_case_begin(c, 2, 1);
    w->guesses = 2 + c->seed % 4;
    w->brief = c->seed & 1;
    w->resolve_ns = c->seed & 2 ? SIM_MS : 0;
    sim_world_start(w);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_recv(p, b, a->party, 1, SIM_FULL_MASK, 300000, SIM_CONTIGUOUS);
    sim_send(p, a, b->party, 1, 300000, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_node_pump(a);
    if (sim_program_run(p, w->now_ns + w->cfg.p_connect_timeout))
        sim_model_check(p);
    sim_case_end(c);
}

const struct sim_scenario sim_routes[] = {
    {"longer-header", "an MTU of 1500 on the path, and the headers of IPv6", longer_header, 4, 0},
    {"guesses", "several ways over a wire, one leads to the peer, each node tries its own", guesses, 60, 0},
    {"black-hole", "the first wire carries nothing: the second is used", black_hole, 20, 0},
    {"black-hole-one-way", "the first wire carries nothing one way", black_hole_one_way, 20, 0},
    {"short-only", "the first wire carries short frames only", short_only, 40, 0},
    {"last-of-three", "only the third wire works", last_of_three, 10, 0},
    {"narrower", "an MTU is lowered under way: it goes on with shorter frames", narrower, 0, 5},
    {"narrower-lossy", "and frames get lost besides: what is under way arrives soon all the same", narrower_lossy, 20,
     0},
    {"long-header", "active messages with the longest header over a narrow route", long_header, 25, 0},
    {"narrowest", "to the shortest frames there are, with tags and without", narrowest, 16, 0},
    {"too-narrow", "so far that there is nothing to go on with: an error", too_narrow, 4, 0},
    {"connected", "a wire with connections loses the long ones for a while", connected, 4, 0},
    {"learned", "a launcher tells little, hellos the rest", learned, 60, 0},
    {"crossed", "two nodes prefer different wires", crossed, 20, 0},
    {0},
};
