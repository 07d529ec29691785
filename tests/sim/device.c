/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include <stdlib.h>
#include <string.h>

#include "place.h"
#include "world.h"

#define LATENCY_NS 2000
#define TRANSIENT  400000 /* ppm of memory that is not registered yet */

/* A piece of a node's memory that is lent. */
struct sim_lent {
    struct sim_lent *next;      /* in the world */
    struct sim_lent *next_held; /* of the same message */
    uint64_t key;
    unsigned party;
    uint64_t base, end;
};

/* ---- Connections ---- */

/* Counts those that there were between two nodes. */
static uint32_t *epoch(struct sim_world *w, unsigned a, unsigned b)
{
    if (!w->epoch)
        w->epoch = calloc((size_t)w->node_count * w->node_count, sizeof(w->epoch[0]));
    if (!w->epoch)
        abort();
    return &w->epoch[a < b ? a * w->node_count + b : b * w->node_count + a];
}

void sim_world_break(struct sim_world *w, unsigned a, unsigned b)
{
    ++*epoch(w, a, b);
    sim_trace(w, "the connection of n%u and n%u breaks", a, b);
}

static void sever(struct sim_node *n, const struct emx_wire_addr *to)
{
    struct sim_place place;

    memcpy(&place, to, sizeof(place));
    ++*epoch(n->world, n->index, place.node);
    sim_trace(n->world, "n%u ends its connection with n%u", n->index, place.node);
}

/* ---- Lending ---- */

static void take_back(struct sim_world *w, const struct sim_lent *l)
{
    struct sim_lent **at = &w->lent;

    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
}

/* What ends here or before. */
static void conceal(struct sim_world *w, void **held, uint64_t end)
{
    struct sim_lent *rest = NULL, *next;

    for (struct sim_lent *l = *held; l; l = next) {
        next = l->next_held;
        if (l->end > end) {
            l->next_held = rest;
            rest = l;
            continue;
        }
        take_back(w, l);
        free(l);
    }
    *held = rest;
}

static int expose(struct sim_node *n, struct emx_lending *m)
{
    struct sim_world *w = n->world;
    struct sim_place to;
    struct sim_lent *l;

    memcpy(&to, m->to, sizeof(to));
    if (emx_rng_chance(&w->rng, w->lend_fail_ppm))
        return ETHMX_ERR_PARAM;
    m->kept = m->what == EMX_LEND_FOUND && !w->lend_new && !emx_rng_chance(&w->rng, TRANSIENT);
    if (m->what == EMX_LEND_FOUND && !m->kept)
        return ETHMX_INPROGRESS;
    l = calloc(1, sizeof(*l));
    if (!l)
        abort();
    l->party = n->party;
    l->key = (uint64_t)*epoch(w, n->index, to.node) << 32 | (uint32_t)++w->lent_count;
    m->end = m->len_bytes - m->offset < w->lend_bytes ? m->len_bytes : m->offset + w->lend_bytes;
    m->key = l->key;
    l->base = (uintptr_t)m->base + m->offset;
    l->end = (uintptr_t)m->base + m->end;
    l->next = w->lent;
    w->lent = l;
    l->next_held = *m->held;
    *m->held = l;
    return ETHMX_OK;
}

static int do_memory(struct sim_node *n, struct emx_lending *m)
{
    if (m->what == EMX_LEND_SEVER || m->sever)
        sever(n, m->to);
    if (m->what == EMX_LEND_BACK)
        conceal(n->world, m->held, UINT64_MAX);
    if (m->what != EMX_LEND_FOUND && m->what != EMX_LEND)
        return ETHMX_OK;
    conceal(n->world, m->held, (uintptr_t)m->base + m->done_bytes);
    return expose(n, m);
}

bool sim_device_memory(struct sim_node *n, unsigned wire)
{
    bool any = false;
    struct emx_lending m;

    while (!sim_failed(n->world) && emx_engine_wants_lending(n->engine, wire)) {
        if (!emx_engine_lending(n->engine, wire, &m)) {
            sim_fail(n->world, "n%u: the engine had work with memory, and then did not", n->index);
            break;
        }
        any = true;
        emx_engine_lending_done(n->engine, &m, do_memory(n, &m));
    }
    return any;
}

/* ---- Reading ---- */

static const struct sim_lent *find(const struct sim_world *w, const struct sim_reading *r)
{
    const struct sim_lent *l = w->lent;

    while (l && (l->key != r->read.key || l->party != r->from_party))
        l = l->next;
    return l;
}

/* The device of the other node answers, or does not. */
static int answer(const struct sim_reading *r)
{
    struct sim_node *n = r->node, *from = r->from;
    struct sim_world *w = n->world;
    const struct sim_lent *l = find(w, r);

    if (!from->engine || from->party != r->from_party || r->epoch != *epoch(w, n->index, from->index))
        return ETHMX_ERR_UNREACHABLE;
    if (l && l->base <= r->read.remote && r->read.remote + r->read.len_bytes <= l->end)
        return w->read(w->read_arg, n, from, &r->read);
    ++*epoch(w, n->index, from->index); /* a device that is asked for what it must not give ends the connection */
    return ETHMX_ERR_UNREACHABLE;
}

static void arrived(void *arg, uint64_t value)
{
    struct sim_reading *r = arg;
    struct sim_node *n = r->node;

    (void)value;
    if (!n->engine || n->party != r->party) {
        free(r);
        return;
    }
    r->status = answer(r);
    sim_trace(n->world, "n%u: a read of %zu bytes from n%u ends: %d", n->index, r->read.len_bytes, r->from->index,
              r->status);
    sim_hash(n->world, r->read.len_bytes << 8 ^ (uint64_t)r->status);
    *n->ended_tail = r;
    n->ended_tail = &r->next;
    if (n->pace != SIM_STOPPED)
        sim_node_pump(n);
}

int sim_device_read(struct sim_node *n, struct sim_node *from, unsigned party, const struct emx_read *r)
{
    struct sim_world *w = n->world;
    uint32_t now_epoch = *epoch(w, n->index, from->index);
    uint64_t takes_ns = w->read_bps ? (uint64_t)r->len_bytes * 8 * SIM_S / w->read_bps : 0;
    struct sim_reading *reading;

    if (r->local < r->whole || (char *)r->local + r->len_bytes > (char *)r->whole + r->whole_bytes || !r->len_bytes)
        sim_fail(w, "n%u: a read of what is no part of the message", n->index);
    if ((uint32_t)(r->key >> 32) != now_epoch)
        return ETHMX_INPROGRESS;
    if (emx_rng_chance(&w->rng, w->read_fail_ppm))
        return ETHMX_ERR_PARAM;
    reading = calloc(1, sizeof(*reading));
    if (!reading)
        abort();
    *reading = (struct sim_reading){
        .node = n, .from = from, .party = n->party, .from_party = party, .epoch = now_epoch, .read = *r};
    n->device_until_ns = (n->device_until_ns > w->now_ns ? n->device_until_ns : w->now_ns) + takes_ns;
    sim_queue_put(&w->queue, n->device_until_ns + LATENCY_NS, arrived, reading, 0);
    if (emx_rng_chance(&w->rng, w->sever_ppm))
        ++*epoch(w, n->index, from->index);
    return ETHMX_OK;
}

bool sim_device_ended(struct sim_node *n)
{
    struct sim_reading *r;
    bool any = n->ended;

    while ((r = n->ended)) {
        n->ended = r->next;
        if (!n->ended)
            n->ended_tail = &n->ended;
        emx_engine_read_ended(n->engine, r->read.op, r->read.len_bytes, r->status, n->world->now_ns);
        free(r);
    }
    return any;
}

void sim_device_drop(const struct sim_event *ev)
{
    if (ev->fn == arrived)
        free(ev->arg);
}

void sim_device_forget(struct sim_node *n)
{
    struct sim_lent *next;
    struct sim_reading *r;

    n->device_until_ns = 0;
    while ((r = n->ended)) {
        n->ended = r->next;
        free(r);
    }
    n->ended_tail = &n->ended;
    for (struct sim_lent *l = n->world->lent; l; l = next) {
        next = l->next;
        if (l->party != n->party)
            continue;
        take_back(n->world, l);
        free(l);
    }
}

void sim_device_fini(struct sim_world *w)
{
    struct sim_lent *l;

    while ((l = w->lent)) {
        w->lent = l->next;
        free(l);
    }
    free(w->epoch);
}
