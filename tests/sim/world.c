/* SPDX-License-Identifier: BSD-3-Clause */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

void sim_world_init(struct sim_world *w, uint64_t seed, unsigned nodes, unsigned wires)
{
    size_t links = (size_t)nodes * nodes * wires;

    memset(w, 0, sizeof(*w));
    sim_queue_init(&w->queue);
    w->now_ns = SIM_S; /* any origin will do; not 0, which hides mistakes */
    w->seed = seed;
    w->tso = seed & 1;
    w->rng.state = emx_mix64(seed + 1);
    emx_config_defaults(&w->cfg);
    w->cookie = emx_mix64(seed ^ 0xc00c1e);
    w->node_count = nodes;
    w->wire_count = wires;
    w->check_every = 1;
    for (unsigned i = 0; i < EMX_ENGINE_LINKS; i++)
        w->frame_bytes[i] = 1500;
    w->nodes = calloc(nodes, sizeof(*w->nodes));
    w->links = calloc(links, sizeof(*w->links));
    if (!w->nodes || !w->links)
        abort();
    for (size_t i = 0; i < links; i++) {
        w->links[i].world = w;
        w->links[i].src = i / wires / nodes;
        w->links[i].dst = i / wires % nodes;
        w->links[i].wire = i % wires;
        w->links[i].faults.delay_ns = 5000;
    }
    for (unsigned i = 0; i < nodes; i++)
        sim_node_init(&w->nodes[i], w, i);
}

void sim_world_fini(struct sim_world *w)
{
    struct sim_event ev;

    for (unsigned i = 0; i < w->node_count; i++)
        sim_node_fini(&w->nodes[i]);
    while (sim_queue_take(&w->queue, &ev)) {
        sim_link_forget(&ev);
        sim_device_drop(&ev);
    }
    sim_queue_fini(&w->queue);
    sim_device_fini(w);
    free(w->nodes);
    free(w->links);
}

struct sim_link *sim_world_link(struct sim_world *w, unsigned src, unsigned dst, unsigned wire)
{
    return &w->links[((size_t)src * w->node_count + dst) * w->wire_count + wire];
}

void sim_world_start(struct sim_world *w)
{
    for (unsigned i = 0; i < w->node_count; i++)
        sim_node_start(&w->nodes[i]);
}

void sim_world_faults(struct sim_world *w, const struct sim_faults *faults)
{
    for (size_t i = 0; i < (size_t)w->node_count * w->node_count * w->wire_count; i++)
        w->links[i].faults = *faults;
}

void sim_world_judge(struct sim_world *w, enum sim_verdict (*verdict)(void *, const struct sim_look *, uint64_t *),
                     void *arg)
{
    for (size_t i = 0; i < (size_t)w->node_count * w->node_count * w->wire_count; i++) {
        w->links[i].verdict = verdict;
        w->links[i].verdict_arg = arg;
    }
}

void sim_world_rate(struct sim_world *w, uint64_t rate_bps, size_t out_bytes, size_t in_bytes)
{
    for (unsigned i = 0; i < w->node_count; i++) {
        for (unsigned k = 0; k < w->wire_count; k++) {
            w->nodes[i].out[k] = (struct sim_port){.rate_bps = rate_bps, .limit_bytes = out_bytes};
            w->nodes[i].in[k] = (struct sim_port){.rate_bps = rate_bps, .limit_bytes = in_bytes};
        }
    }
}

void sim_world_cut(struct sim_world *w, uint64_t set, unsigned slot, uint64_t from_ns, uint64_t until_ns)
{
    for (size_t i = 0; i < (size_t)w->node_count * w->node_count * w->wire_count; i++) {
        struct sim_link *l = &w->links[i];

        if ((set >> l->src & 1) == (set >> l->dst & 1))
            continue;
        l->faults.cut[slot].from_ns = from_ns;
        l->faults.cut[slot].until_ns = until_ns;
    }
}

int sim_world_party(const struct sim_world *w, uint32_t id)
{
    for (unsigned i = 0; i < w->party_count; i++)
        if (w->party[i].id == id)
            return i;
    return -1;
}

/* ---- Time ---- */

/* The next event happens, if it is not later than limit_ns. */
static bool step(struct sim_world *w, uint64_t limit_ns)
{
    const struct sim_event *first = sim_queue_first(&w->queue);
    struct sim_event ev;

    if (!first || first->at_ns > limit_ns || !sim_queue_take(&w->queue, &ev))
        return false;
    w->now_ns = ev.at_ns;
    w->step++;
    ev.fn(ev.arg, ev.value);
    return true;
}

bool sim_world_run(struct sim_world *w, bool (*done)(void *arg), void *arg, uint64_t limit_ns, const char *what)
{
    while (!sim_failed(w) && !done(arg)) {
        if (step(w, limit_ns))
            continue;
        if (sim_queue_first(&w->queue))
            sim_fail(w, "stall: by %.3f ms not yet: %s", (limit_ns - SIM_S) / 1e6, what);
        else
            sim_fail(w, "deadlock: nothing is pending, but not yet: %s", what);
    }
    return !sim_failed(w);
}

bool sim_world_run_until(struct sim_world *w, uint64_t at_ns)
{
    while (!sim_failed(w) && step(w, at_ns))
        ;
    if (w->now_ns < at_ns)
        w->now_ns = at_ns;
    return !sim_failed(w);
}

/* ---- Telling ---- */

void sim_fail(struct sim_world *w, const char *fmt, ...)
{
    va_list ap;

    if (sim_failed(w))
        return;
    va_start(ap, fmt);
    vsnprintf(w->failure, sizeof(w->failure), fmt, ap);
    va_end(ap);
    sim_trace(w, "FAILED: %s", w->failure);
}

void sim_say(struct sim_world *w, const char *fmt, ...)
{
    va_list ap;

    printf("%14.6f ms  ", (w->now_ns - SIM_S) / 1e6);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
}
