/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Marks of congestion: they make senders slower before a queue overflows; wrong and forged ones make them slower, too,
 * but neither stop nor hurry them. (How streams share a link whose switch marks is in sharing.c.)
 */
#include "scenario.h"

#define RATE_BPS    10000000000ull
#define FRAME_BYTES 1538 /* on Ethernet */
#define COUNT       400
#define LEN_BYTES   8000

/* What a window is never smaller than, each in a round trip of 25 us, in bits a second. */
#define LEAST_BPS 1000000000ull

struct totals {
    uint64_t marked, heeded, resent, lost;
};

static struct totals totals(const struct sim_world *w)
{
    struct totals t = {0};

    for (unsigned i = 0; i < w->node_count; i++) {
        t.marked += w->nodes[i].stats.frames_ce;
        t.heeded += w->nodes[i].stats.ce_responses;
        t.resent += w->nodes[i].stats.frames_resent;
        t.lost += w->nodes[i].in[0].lost;
    }
    return t;
}

static void expect(struct sim_world *w, bool right, const struct totals *t, const char *what)
{
    if (!right)
        sim_fail(w, "%s: %llu frames marked, heeded %llu times; %llu frames lost, %llu sent again", what,
                 (unsigned long long)t->marked, (unsigned long long)t->heeded, (unsigned long long)t->lost,
                 (unsigned long long)t->resent);
}

/* Several senders at one port, whose queue holds the windows that they begin with, but not those that they grow to:
 * without marks frames are lost, with them none is. */
static void spare_losses(struct sim_case *c)
{
    const unsigned senders = 2 + (unsigned)(c->seed / 2 % 3);
    const struct sim_faults faults = {.delay_ns = 5000 + c->seed * 100};
    struct sim_world *w = &c->world;
    bool marks = c->seed % 2;
    struct totals t;

    sim_case_begin(c, senders + 1, 1);
    sim_world_rate(w, RATE_BPS, 65536, senders * 80 * FRAME_BYTES);
    w->nodes[senders].in[0].mark_bytes = marks ? senders * 16 * FRAME_BYTES : 0;
    sim_world_faults(w, &faults);
    w->cfg.p_unexpected_peer = senders * COUNT * LEN_BYTES; /* none waits for a receiver who paces it */
    sim_world_start(w);
    for (unsigned i = 0; i < senders; i++)
        sim_messages(c, &w->nodes[i], &w->nodes[senders], COUNT, LEN_BYTES);
    if (sim_program_run(&c->program, sim_limit(w, senders * COUNT * LEN_BYTES, RATE_BPS, 200 * SIM_MS)))
        sim_model_check(&c->program);
    t = totals(w);
    if (marks)
        expect(w, t.marked && t.heeded && !t.lost && !t.resent, &t, "a switch that marks");
    else
        expect(w, !t.marked && !t.heeded && t.lost && t.resent, &t, "a switch that does not mark");
    sim_case_end(c);
}

static void messages_both_ways(struct sim_case *c, size_t len_bytes, unsigned count)
{
    struct sim_world *w = &c->world;
    uint64_t acks = 0, frames = 0;

    sim_messages(c, &w->nodes[0], &w->nodes[1], count, len_bytes);
    if (c->seed & 1)
        sim_messages(c, &w->nodes[1], &w->nodes[0], count, len_bytes);
    if (sim_program_run(&c->program, sim_limit(w, count * len_bytes, LEAST_BPS, 100 * SIM_MS)))
        sim_model_check(&c->program);
    for (unsigned i = 0; i < 2; i++) {
        acks += w->nodes[i].stats.acks_sent;
        frames += w->nodes[i].stats.frames_sent;
    }
    if (2 * acks > frames)
        sim_fail(w, "%llu of %llu frames are acknowledgements", (unsigned long long)acks, (unsigned long long)frames);
}

static void begin(struct sim_case *c, unsigned mark_ppm)
{
    const struct sim_faults faults = {.delay_ns = 10000, .mark_ppm = mark_ppm};

    sim_case_begin(c, 2, 1);
    sim_world_rate(&c->world, RATE_BPS, 65536, 0);
    sim_world_faults(&c->world, &faults);
    sim_world_start(&c->world);
}

/* Something on the way marks all, or somebody does. */
static void mark_all(struct sim_case *c)
{
    static const size_t lengths[] = {100, 3000, LEN_BYTES, 40000, 500000};
    struct totals t;

    begin(c, 1000000);
    messages_both_ways(c, lengths[c->seed / 2 % 5], 40);
    t = totals(&c->world);
    expect(&c->world, t.marked && t.heeded && !t.resent, &t, "a way that marks all");
    sim_case_end(c);
}

/* Acknowledgements tell any number, with a checksum that fits. */
static enum sim_verdict forge(void *arg, const struct sim_look *look, uint64_t *delay_ns_p)
{
    struct emx_frame *h = (void *)(uintptr_t)look->data;
    struct emx_rng *rng = arg;

    (void)delay_ns_p;
    if (h->type == EMX_F_ack) {
        ((struct emx_f_ack *)(h + 1))->marked = (uint32_t)emx_rng_next(rng) >> emx_rng_below(rng, 33) % 32;
        emx_frame_seal(h, look->len_bytes, NULL, 0, EMX_CHECKSUM_HEADER);
    }
    return SIM_PASS;
}

static void forged(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct totals t;

    begin(c, 0);
    for (unsigned i = 0; i < 2; i++) {
        sim_world_link(&c->world, i, !i, 0)->verdict = forge;
        sim_world_link(&c->world, i, !i, 0)->verdict_arg = &rng;
    }
    messages_both_ways(c, LEN_BYTES, 400);
    t = totals(&c->world);
    expect(&c->world, !t.marked && t.heeded && !t.resent, &t, "acknowledgements that lie");
    sim_case_end(c);
}

const struct sim_scenario sim_marks[] = {
    {"marks", "a switch marks frames before its queue is full: none is lost", spare_losses, 30, 0},
    {"marks-all", "all frames come marked: slow, but it goes on", mark_all, 20, 0},
    {"marks-forged", "acknowledgements tell of marks that there were not: slow, but it goes on", forged, 20, 0},
    {0},
};
