/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include <stdlib.h>
#include <string.h>

#include "wire/sim_place.h"
#include "world.h"

#define LATENCY_NS 2000
#define LATE_NS    200000  /* data of a write that has failed arrive within this time */
#define NOTICE_NS  1000000 /* a read or write over a connection that breaks ends within this time */
#define GONE       250000  /* ppm of writes whose data are on the way from the first moment on */
#define TRANSIENT  400000  /* ppm of memory that is not registered yet */

/* A piece of a node's memory that is lent. Where another may write, it stays here when it has been taken back: its key
 * is good for as long as the connection is, and whoever uses it then is found out. */
struct sim_lent {
    struct sim_lent *next;      /* in the world */
    struct sim_lent *next_held; /* of the same message */
    uint64_t key;
    unsigned party, to; /* node */
    uint64_t base, end;
    bool write, over;
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

/* The other's packets of connections before this one are not taken any more by node a. When a connection breaks it is
 * not so at once: what is on the way may still land, until the node has ended it itself, or has got another. */
static uint32_t *taken_from(struct sim_world *w, unsigned a, unsigned b)
{
    if (!w->ended)
        w->ended = calloc((size_t)w->node_count * w->node_count, sizeof(w->ended[0]));
    if (!w->ended)
        abort();
    return &w->ended[a * w->node_count + b];
}

void sim_world_break(struct sim_world *w, unsigned a, unsigned b)
{
    ++*epoch(w, a, b);
    sim_trace(w, "the connection of n%u and n%u breaks", a, b);
}

/* key: of the connection in question, or NULL: the one that there is. */
void sim_device_disconnect(struct sim_node *n, const struct emx_wire_addr *to, const uint64_t *key)
{
    struct sim_world *w = n->world;
    struct sim_place place;
    uint32_t *now_p, over;

    memcpy(&place, to, sizeof(place));
    now_p = epoch(w, n->index, place.node);
    over = (key ? (uint32_t)(*key >> 32) : *now_p) + 1;
    if (over > *now_p)
        *now_p = over;
    if (over > *taken_from(w, n->index, place.node))
        *taken_from(w, n->index, place.node) = over;
    sim_trace(w, "n%u ends its connection with n%u", n->index, place.node);
}

/* ---- Lending ---- */

static void take_back(struct sim_world *w, const struct sim_lent *l)
{
    struct sim_lent **at = &w->lent;

    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
}

static void conceal_one(struct sim_world *w, struct sim_lent *l)
{
    if (l->write) {
        l->over = true;
        return;
    }
    take_back(w, l);
    free(l);
}

/* What ends here or before. */
void sim_device_unexport(struct sim_node *n, void **held, const void *until)
{
    uint64_t end = until ? (uintptr_t)until : UINT64_MAX;
    struct sim_lent *rest = NULL, *next;

    for (struct sim_lent *l = *held; l; l = next) {
        next = l->next_held;
        if (l->end > end) {
            l->next_held = rest;
            rest = l;
            continue;
        }
        conceal_one(n->world, l);
    }
    *held = rest;
}

int sim_device_export(struct sim_node *n, struct emx_wire_export *m, void **held)
{
    struct sim_world *w = n->world;
    struct sim_place to;
    struct sim_lent *l;

    memcpy(&to, m->to, sizeof(to));
    if (emx_rng_chance(&w->rng, w->lend_fail_ppm))
        return m->write && emx_rng_chance(&w->rng, TRANSIENT) ? ETHMX_INPROGRESS : ETHMX_ERR_PARAM;
    m->kept = m->free_only && !w->lend_new && (w->lend_sure || !emx_rng_chance(&w->rng, TRANSIENT));
    if (m->free_only && !m->kept)
        return ETHMX_INPROGRESS;
    l = calloc(1, sizeof(*l));
    if (!l)
        abort();
    l->party = n->party;
    l->to = to.node;
    l->write = m->write;
    l->key = (uint64_t)*epoch(w, n->index, to.node) << 32 | (uint32_t)++w->lent_count;
    *taken_from(w, n->index, to.node) = *epoch(w, n->index, to.node);
    m->end = m->len_bytes - m->offset < w->lend_bytes ? m->len_bytes : m->offset + w->lend_bytes;
    m->key = l->key;
    l->base = (uintptr_t)m->base + m->offset;
    l->end = (uintptr_t)m->base + m->end;
    l->next = w->lent;
    w->lent = l;
    l->next_held = *held;
    *held = l;
    return ETHMX_OK;
}

bool sim_device_lends(const struct sim_world *w)
{
    const struct sim_lent *l = w->lent;

    while (l && l->over)
        l = l->next;
    return l;
}

/* ---- Reading ---- */

static const struct sim_lent *find(const struct sim_world *w, const struct sim_reading *r)
{
    const struct sim_lent *l = w->lent;

    while (l && (l->key != r->read.key || l->party != r->from_party))
        l = l->next;
    return l;
}

/* ---- Writing ---- */

/* The data of a write come to the other node, if they do. Not well: it has failed already, and they come late. */
static bool land(const struct sim_reading *r)
{
    struct sim_node *n = r->node, *to = r->from;
    struct sim_world *w = n->world;
    const struct sim_lent *l = find(w, r);

    if (!to->engine || to->party != r->from_party || *taken_from(w, to->index, n->index) > r->epoch)
        return false;
    if (!l || !l->write || l->base > r->read.remote || r->read.remote + r->read.len_bytes > l->end) {
        ++*epoch(w, n->index, to->index);
        return false;
    }
    if (l->over && !w->mad)
        sim_fail(w, "n%u's device writes to memory that n%u's program has back", n->index, to->index);
    else
        memmove((void *)(uintptr_t)r->read.remote, r->data ? r->data : r->read.local, r->read.len_bytes);
    return true;
}

static void landed_late(void *arg, uint64_t value)
{
    struct sim_reading *r = arg;

    (void)value;
    sim_trace(r->node->world, "n%u: %zu bytes to n%u come late", r->node->index, r->read.len_bytes, r->from->index);
    land(r);
    free(r->data);
    free(r);
}

static void *copy_of(const void *data, size_t len_bytes)
{
    void *copy = malloc(len_bytes);

    if (!copy)
        abort();
    return memcpy(copy, data, len_bytes);
}

/* The writer is gone. What its device had sent may be on the way for longer than anybody waits for the writer. */
static void come_late(struct sim_reading *r)
{
    struct sim_world *w = r->node->world;

    if (r->data)
        sim_queue_put(&w->queue, w->now_ns + emx_rng_below(&w->rng, 2 * w->cfg.p_peer_timeout), landed_late, r, 0);
    else
        free(r);
}

/* The connection has broken under a write: it fails, and its data are on the way still. */
static void fly_on(const struct sim_reading *r)
{
    struct sim_world *w = r->node->world;
    struct sim_reading *late = malloc(sizeof(*late));

    if (!late)
        abort();
    *late = *r;
    late->data = copy_of(r->data ? r->data : r->read.local, r->read.len_bytes);
    sim_queue_put(&w->queue, w->now_ns + emx_rng_below(&w->rng, LATE_NS), landed_late, late, 0);
}

static int write_to(const struct sim_reading *r)
{
    struct sim_world *w = r->node->world;

    if (r->epoch != *epoch(w, r->node->index, r->from->index)) {
        fly_on(r);
        return ETHMX_ERR_UNREACHABLE;
    }
    if (!land(r))
        return ETHMX_ERR_UNREACHABLE;
    return emx_rng_chance(&w->rng, w->read_fail_ppm) ? ETHMX_ERR_NO_MEMORY : ETHMX_OK;
}

/* ---- Both ---- */

/* The device of the other node answers, or does not. */
static int answer(const struct sim_reading *r)
{
    struct sim_node *n = r->node, *from = r->from;
    struct sim_world *w = n->world;
    const struct sim_lent *l = find(w, r);

    if (r->read.write)
        return write_to(r);
    if (!from->engine || from->party != r->from_party || r->epoch != *epoch(w, n->index, from->index))
        return ETHMX_ERR_UNREACHABLE;
    if (l && l->base <= r->read.remote && r->read.remote + r->read.len_bytes <= l->end)
        return w->read(w->read_arg, n, from, &r->read);
    ++*epoch(w, n->index, from->index); /* a device that is asked for what it must not give ends the connection */
    return ETHMX_ERR_UNREACHABLE;
}

static void no_more(const struct sim_reading *r)
{
    struct sim_reading **at = &r->node->flying;

    while (*at && *at != r)
        at = &(*at)->next_flying;
    if (*at)
        *at = r->next_flying;
}

bool sim_device_is_at(const struct sim_node *n, const struct emx_op *op)
{
    const struct sim_reading *r = n->flying;

    while (r && (r->read.cookie != op || r->party != n->party))
        r = r->next_flying;
    return r;
}

static void arrived(void *arg, uint64_t value)
{
    struct sim_reading *r = arg;
    struct sim_node *n = r->node;

    (void)value;
    if (!n->engine || n->party != r->party) {
        no_more(r);
        come_late(r);
        return;
    }
    if (!r->noticed && r->epoch != *epoch(n->world, n->index, r->from->index)) {
        r->noticed = true; /* it is, some time after the connection has broken */
        sim_queue_put(&n->world->queue, n->world->now_ns + emx_rng_below(&n->world->rng, NOTICE_NS), arrived, r, 0);
        return;
    }
    r->status = answer(r);
    free(r->data);
    r->data = NULL;
    sim_trace(n->world, "n%u: a %s of %zu bytes, n%u, ends: %d", n->index, r->read.write ? "write" : "read",
              r->read.len_bytes, r->from->index, r->status);
    sim_hash(n->world, r->read.len_bytes << 8 ^ (uint64_t)r->status);
    *n->ended_tail = r;
    n->ended_tail = &r->next;
    if (n->pace != SIM_STOPPED)
        sim_node_pump(n);
}

int sim_device_read(struct sim_node *n, struct sim_node *from, unsigned party, const struct emx_wire_read *r)
{
    struct sim_world *w = n->world;
    uint32_t now_epoch = *epoch(w, n->index, from->index);
    uint64_t takes_ns = w->read_bps ? (uint64_t)r->len_bytes * 8 * SIM_S / w->read_bps : 0;
    struct sim_reading *reading;

    if (r->local < r->message || (char *)r->local + r->len_bytes > (char *)r->message + r->message_bytes ||
        !r->len_bytes)
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
    if (r->write && emx_rng_chance(&w->rng, GONE)) /* the device has all of it: it comes though this node dies */
        reading->data = copy_of(r->local, r->len_bytes);
    reading->next_flying = n->flying;
    n->flying = reading;
    n->device_until_ns = (n->device_until_ns > w->now_ns ? n->device_until_ns : w->now_ns) + takes_ns;
    sim_queue_put(&w->queue, n->device_until_ns + LATENCY_NS, arrived, reading, 0);
    if (emx_rng_chance(&w->rng, w->sever_ppm))
        ++*epoch(w, n->index, from->index);
    return ETHMX_OK;
}

bool sim_device_ended(struct sim_node *n, struct emx_wire_read_end *end_p)
{
    struct sim_reading *r = n->ended;

    if (!r)
        return false;
    n->ended = r->next;
    if (!n->ended)
        n->ended_tail = &n->ended;
    no_more(r);
    *end_p = (struct emx_wire_read_end){
        .cookie = r->read.cookie, .remote = r->read.remote, .len_bytes = r->read.len_bytes, .status = r->status};
    free(r);
    return true;
}

void sim_device_drop(const struct sim_event *ev)
{
    const struct sim_reading *r = ev->arg;

    if (ev->fn == arrived || ev->fn == landed_late)
        free(r->data);
    if (ev->fn == arrived || ev->fn == landed_late)
        free(ev->arg);
}

void sim_device_forget(struct sim_node *n)
{
    struct sim_lent *next;
    struct sim_reading *r;

    n->device_until_ns = 0;
    while ((r = n->ended)) {
        n->ended = r->next;
        no_more(r);
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
    free(w->ended);
}
