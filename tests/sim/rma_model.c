/* SPDX-License-Identifier: BSD-3-Clause */
#include "rma_model.h"

#include <stdlib.h>
#include <string.h>

#define GUARD_BYTES 64
#define GUARD       0xc3

static const size_t block_bytes[RMA_BLOCKS] = {64, 1500, 9000, 70000};

/* An operation whose callback has not run. */
struct call {
    struct rma_model *m;
    struct call *next, **at; /* of those that are open; at: what refers to it */
    enum emx_rma_kind kind;
    unsigned origin, target;
    struct sim_buffer *data;
    struct rma_block *block;
    size_t len_bytes;
    uint64_t number;
    bool remote, wrong, all;
    bool waited;                                    /* it has not ended in the call */
    int counter;                                    /* -1: none */
    uint64_t operand[RMA_CELLS], expect[RMA_CELLS]; /* expect: what fetches find */
};

size_t rma_block_room(unsigned block)
{
    return block_bytes[block];
}

/* ---- Places ---- */

static size_t part_bytes(void)
{
    size_t n = 8 * RMA_CELLS;

    for (unsigned i = 0; i < RMA_BLOCKS; i++)
        n += block_bytes[i];
    return n;
}

static uint64_t counter_offset(unsigned counter)
{
    return 8 * counter;
}

static uint64_t cell_offset(unsigned origin, unsigned cell)
{
    return 8 * RMA_COUNTERS + origin * part_bytes() + 8 * cell;
}

static uint64_t block_offset(unsigned origin, unsigned block)
{
    uint64_t at = cell_offset(origin, RMA_CELLS);

    for (unsigned i = 0; i < block; i++)
        at += block_bytes[i];
    return at;
}

/* ---- Life ---- */

static void *need(void *p)
{
    if (!p)
        abort();
    return p;
}

/* Whether a read is about this memory. */
static bool is_within(const struct emx_wire_read *r, const uint8_t *base, size_t len_bytes)
{
    uint64_t begin = (uintptr_t)base;

    return r->remote >= begin && r->len_bytes <= len_bytes && r->remote - begin <= len_bytes - r->len_bytes;
}

/* The data of puts that are open can be read, and regions; other addresses are those of messages, or of anything. */
static int read_memory(void *arg, struct sim_node *n, struct sim_node *from, const struct emx_wire_read *r)
{
    struct rma_model *m = arg;

    const struct rma_site *site = &m->site[from->index];
    bool found = site->base && is_within(r, site->base, site->len_bytes);

    for (const struct call *k = m->first; k && !found; k = k->next)
        found = k->data && k->origin == from->index && is_within(r, k->data->mem, k->data->mem_bytes);
    if (found) {
        memcpy(r->local, (const void *)(uintptr_t)r->remote, r->len_bytes);
        return ETHMX_OK;
    }
    return m->read_messages(m->read_arg, n, from, r);
}

/* A process that has mapped a region may use it, or not yet. */
static struct emx_view *view_memory(void *arg, struct sim_node *n, struct sim_node *owner, uint64_t key)
{
    struct rma_model *m = arg;
    struct rma_site *s = &m->site[owner->index];

    (void)n;
    if (!s->region || key != s->key || emx_rng_chance(&m->w->rng, 300000))
        return NULL;
    s->sharing.words |= s->view.wishes >= 4;
    s->words = s->sharing.words;
    m->mapped++;
    return &s->view;
}

void rma_model_init(struct rma_model *m, struct sim_case *c)
{
    memset(m, 0, sizeof(*m));
    m->c = c;
    m->w = &c->world;
    m->rng.state = emx_mix64(c->seed ^ 0x0511de);
    m->read_messages = m->w->read;
    m->read_arg = m->w->read_arg;
    m->w->read = read_memory;
    m->w->read_arg = m;
    m->w->view = m->w->maps ? view_memory : NULL;
    m->w->view_arg = m;
    for (unsigned i = 0; i < m->w->node_count; i++) {
        struct rma_site *s = &m->site[i];
        size_t skew = emx_rng_below(&m->rng, 8);

        if (m->w->maps && i % 2 == 0) /* words are aligned there */
            skew = 0;

        s->len_bytes = 8 * RMA_COUNTERS + m->w->node_count * part_bytes();
        s->mem = need(malloc(s->len_bytes + 2 * GUARD_BYTES + 8));
        memset(s->mem, GUARD, s->len_bytes + 2 * GUARD_BYTES + 8);
        s->base = s->mem + GUARD_BYTES + skew;
        memset(s->base, 0, s->len_bytes);
        for (unsigned k = 0; k < RMA_COUNTERS; k++)
            s->seen[k] = need(calloc(1, RMA_ADDS_MAX));
        do {
            s->key = emx_rng_next(&m->rng) | (m->w->maps ? EMX_KEY_MAPPABLE : 0);
        } while (!s->key);
        if (m->w->nodes[i].engine &&
            emx_engine_expose(m->w->nodes[i].engine, s->base, s->len_bytes, s->key, EMX_RMA_MAY_BOTH, &s->region) &&
            !m->no_memory)
            s->region = NULL;
        if (m->w->maps && s->region)
            emx_engine_region_share(m->w->nodes[i].engine, s->region, &s->sharing);
        s->sharing.gate = &s->gate;
        s->view = (struct emx_view){.memory = s->base, .len_bytes = s->len_bytes, .words = &s->words, .gate = &s->gate};
        if (i == 2) /* somebody has died there */
            emx_gate_enter(&s->gate, 1);
    }
}

void rma_model_fini(struct rma_model *m)
{
    for (unsigned i = 0; i < m->w->node_count; i++) {
        free(m->site[i].mem);
        for (unsigned k = 0; k < RMA_COUNTERS; k++)
            free(m->site[i].seen[k]);
    }
}

/* ---- Results ---- */

static void check_block(struct call *k)
{
    struct rma_model *m = k->m;
    const struct rma_block *b = k->block;
    unsigned block = b - m->pair[k->origin][k->target].block;

    if (!sim_content_fits(b->ident, 0, m->site[k->target].base + block_offset(k->origin, block), b->len_bytes))
        sim_fail(m->w, "n%u: a put to n%u is complete, and its data is not there", k->origin, k->target);
}

/* The puts begun before it are complete. */
static void flushed(struct call *k)
{
    struct rma_model *m = k->m;

    for (unsigned t = 0; t < m->w->node_count; t++)
        for (unsigned i = 0; i < RMA_BLOCKS; i++) {
            struct rma_block *b = &m->pair[k->origin][t].block[i];
            struct call of_block = {.m = m, .origin = k->origin, .target = t, .block = b};

            if ((!k->all && t != k->target) || b->number > k->number || !b->dirty)
                continue;
            if (b->busy && k->waited)
                sim_fail(m->w, "n%u: a flush is complete before a put is", k->origin);
            b->dirty = false;
            if (!m->fails[t]) /* otherwise another flush may have told of it */
                check_block(&of_block);
        }
}

/* Of two fetches of one origin, that which was called later saw more. It may be told of first, if it needed no frames.
 */
static void saw_counter(struct call *k, uint64_t value)
{
    struct rma_model *m = k->m;
    uint8_t *seen = &m->site[k->target].seen[k->counter][value];
    struct rma_seen *last = &m->pair[k->origin][k->target].last_seen[k->counter];

    if (value >= m->site[k->target].added[k->counter] || *seen)
        sim_fail(m->w, "n%u: a counter of n%u was %llu, twice or too early", k->origin, k->target,
                 (unsigned long long)value);
    else if (last->number && (value > last->value) != (k->number > last->number))
        sim_fail(m->w, "n%u: a counter of n%u went back", k->origin, k->target);
    else
        *seen = 1;
    if (k->number > last->number)
        *last = (struct rma_seen){.number = k->number, .value = value};
}

static void check_fetched(struct call *k)
{
    uint64_t got[RMA_CELLS];

    if (sim_buffer_peek(k->data, got, k->len_bytes) != k->len_bytes)
        sim_fail(k->m->w, "n%u: the result of a fetch has another length", k->origin);
    else if (k->counter >= 0)
        saw_counter(k, got[0]);
    else if (memcmp(got, k->expect, k->len_bytes))
        sim_fail(k->m->w, "n%u: what was fetched from n%u is not what must have been there", k->origin, k->target);
}

static void succeeded(struct call *k)
{
    const char *wrong = NULL;

    if (k->m->vague)
        return;
    if (k->wrong)
        sim_fail(k->m->w, "n%u: an operation that is wrong succeeded", k->origin);
    else if (k->kind == EMX_RMA_GET)
        wrong = sim_buffer_check(k->data, k->block->ident, k->len_bytes, true);
    else if (k->kind == EMX_RMA_FETCH_OP || k->kind == EMX_RMA_COMPARE_SWAP)
        check_fetched(k);
    else if (k->kind == EMX_RMA_FLUSH)
        flushed(k);
    if (k->kind == EMX_RMA_PUT && k->remote && !k->wrong) {
        k->block->dirty = false;
        check_block(k);
    }
    if (wrong)
        sim_fail(k->m->w, "n%u: get from n%u: %s", k->origin, k->target, wrong);
}

static void over(struct call *k, int status)
{
    struct rma_model *m = k->m;
    const char *wrong;

    if (k->block)
        k->block->busy = false;
    if (status == ETHMX_OK) {
        succeeded(k);
    } else {
        m->failed++;
        if (k->kind == EMX_RMA_PUT && !k->wrong)
            *k->block = (struct rma_block){0}; /* of any content */
        m->refused += status == ETHMX_ERR_ACCESS;
        if (!(k->wrong && status == ETHMX_ERR_ACCESS) && !m->fails[k->target] && !m->fails[k->origin])
            sim_fail(m->w, "n%u: operation %d with n%u failed: %s", k->origin, k->kind, k->target,
                     ethmx_strerror(status));
    }
    if (k->at) {
        *k->at = k->next;
        if (k->next)
            k->next->at = k->at;
    }
    wrong = k->data ? sim_buffer_over(k->data, &m->c->program.junk) : NULL;
    if (wrong)
        sim_fail(m->w, "%s", wrong);
    free(k);
}

static void done(void *arg, const struct ethmx_result *result)
{
    struct call *k = arg;

    k->m->open--;
    sim_trace(k->m->w, "n%u: operation %d with n%u ends: %d", k->origin, k->kind, k->target, result->status);
    sim_hash(k->m->w, (uint64_t)k->kind << 32 | (uint32_t)result->status);
    over(k, result->status);
}

/* ---- Calls ---- */

static struct call *new_call(struct rma_model *m, enum emx_rma_kind kind, unsigned origin, unsigned target)
{
    struct call *k = need(calloc(1, sizeof(*k)));

    *k = (struct call){.m = m, .kind = kind, .origin = origin, .target = target, .counter = -1, .number = ++m->number};
    return k;
}

/* Whether the call was accepted. */
static bool finish_call(struct call *k, int rc)
{
    struct rma_model *m = k->m;

    sim_trace(m->w, "n%u: operation %d with n%u: %d", k->origin, k->kind, k->target, rc);
    sim_hash(m->w, (uint64_t)k->kind << 32 | (uint32_t)rc);
    if (rc == ETHMX_INPROGRESS) {
        k->waited = true;
        k->next = m->first;
        k->at = &m->first;
        if (k->next)
            k->next->at = &k->next;
        m->first = k;
        m->open++;
        return true;
    }
    if (rc == ETHMX_ERR_NO_MEMORY && m->no_memory) {
        if (k->data)
            sim_buffer_over(k->data, &m->c->program.junk);
        if (k->block)
            k->block->busy = false;
        free(k);
        return false;
    }
    over(k, rc);
    return rc >= 0;
}

static int start(struct call *k, struct emx_rma_args *a)
{
    struct rma_model *m = k->m;
    struct sim_node *n = &m->w->nodes[k->origin];
    struct emx_peer *peer = n->engine ? sim_node_peer(n, m->w->nodes[k->target].party) : NULL;

    a->kind = k->kind;
    a->done = done;
    a->arg = k;
    if (!peer)
        return ETHMX_ERR_NO_MEMORY;
    return emx_progress_rma(&n->progress, peer, a, emx_rng_chance(&n->world->rng, 300000));
}

int rma_put(struct rma_model *m, unsigned origin, unsigned target, unsigned block, size_t len_bytes,
            enum ethmx_rma_mode mode, enum sim_shape shape)
{
    struct call *k = new_call(m, EMX_RMA_PUT, origin, target);
    struct rma_block *b = &m->pair[origin][target].block[block], before = *b;
    struct emx_rma_args a = {.key = m->site[target].key, .offset = block_offset(origin, block), .mode = mode};
    int rc;

    k->data = sim_buffer_to_send(k->number << 8 | 1, len_bytes, shape, &m->rng);
    k->block = b;
    k->remote = mode == ETHMX_RMA_REMOTE;
    k->len_bytes = len_bytes;
    *b = (struct rma_block){
        .ident = k->number << 8 | 1, .len_bytes = len_bytes, .busy = true, .dirty = true, .number = k->number};
    a.data = k->data->data;
    rc = start(k, &a);
    if (!finish_call(k, rc))
        *b = before;
    return rc;
}

int rma_get(struct rma_model *m, unsigned origin, unsigned target, unsigned block, enum sim_shape shape)
{
    struct call *k = new_call(m, EMX_RMA_GET, origin, target);
    struct rma_block *b = &m->pair[origin][target].block[block];
    struct emx_rma_args a = {.key = m->site[target].key, .offset = block_offset(origin, block)};
    int rc;

    k->len_bytes = b->len_bytes;
    k->data = sim_buffer_to_receive(k->len_bytes, shape, &m->rng);
    k->block = b;
    b->busy = true;
    a.data = k->data->data;
    rc = start(k, &a);
    finish_call(k, rc);
    return rc;
}

int rma_count(struct rma_model *m, unsigned origin, unsigned target, unsigned counter, bool fetch)
{
    struct call *k = new_call(m, fetch ? EMX_RMA_FETCH_OP : EMX_RMA_ACCUMULATE, origin, target);
    struct emx_rma_args a = {.key = m->site[target].key,
                             .offset = counter_offset(counter),
                             .op = ETHMX_RMA_SUM,
                             .type = ETHMX_RMA_UINT64,
                             .operand = k->operand};
    uint64_t *added = &m->site[target].added[counter];
    int rc;

    k->operand[0] = 1;
    k->counter = (int)counter;
    k->len_bytes = 8;
    if (fetch) {
        k->data = sim_buffer_to_receive(8, SIM_CONTIGUOUS, &m->rng);
        a.data = k->data->data;
    } else {
        a.data = (struct ethmx_data){.base = k->operand, .len_bytes = 8};
    }
    ++*added;
    rc = start(k, &a);
    if (!finish_call(k, rc))
        --*added;
    return rc;
}

/* What an operation makes of 64 bits, independently of the engine's code. */
static uint64_t changed(unsigned op, uint64_t a, uint64_t b)
{
    switch (op) {
    case ETHMX_RMA_REPLACE:
        return b;
    case ETHMX_RMA_SUM:
        return a + b;
    case ETHMX_RMA_PROD:
        return a * b;
    case ETHMX_RMA_MAX:
        return a < b ? b : a;
    case ETHMX_RMA_BXOR:
        return a ^ b;
    default: /* NO_OP */
        return a;
    }
}

int rma_change(struct rma_model *m, unsigned origin, unsigned target, enum emx_rma_kind kind, unsigned op,
               unsigned first, unsigned count, enum sim_shape shape)
{
    struct call *k = new_call(m, kind, origin, target);
    uint64_t *cell = &m->pair[origin][target].cell[first], before[RMA_CELLS];
    struct emx_rma_args a = {.key = m->site[target].key,
                             .offset = cell_offset(origin, first),
                             .op = (enum ethmx_rma_op)op,
                             .type = ETHMX_RMA_UINT64,
                             .operand = op == ETHMX_RMA_NO_OP ? NULL : k->operand,
                             .compare = &k->operand[1],
                             .set = &k->operand[0],
                             .mode = emx_rng_below(&m->rng, 2) ? ETHMX_RMA_REMOTE : ETHMX_RMA_LOCAL};
    int rc;

    k->len_bytes = 8 * count;
    memcpy(before, cell, k->len_bytes);
    memcpy(k->expect, cell, k->len_bytes);
    for (unsigned i = 0; i < count; i++)
        k->operand[i] = emx_rng_next(&m->rng) >> emx_rng_below(&m->rng, 64);
    if (kind == EMX_RMA_COMPARE_SWAP) {
        k->operand[1] = emx_rng_below(&m->rng, 3) ? *cell : *cell + 1;
        *cell = k->operand[1] == *cell ? k->operand[0] : *cell;
    } else {
        for (unsigned i = 0; i < count; i++)
            cell[i] = changed(op, cell[i], k->operand[i]);
    }
    if (kind == EMX_RMA_ACCUMULATE) {
        a.data = (struct ethmx_data){.base = k->operand, .len_bytes = k->len_bytes};
    } else {
        k->data = sim_buffer_to_receive(k->len_bytes, shape, &m->rng);
        a.data = k->data->data;
    }
    rc = start(k, &a);
    if (!finish_call(k, rc))
        memcpy(cell, before, 8 * count);
    return rc;
}

int rma_flush(struct rma_model *m, unsigned origin, int target)
{
    struct call *k = new_call(m, EMX_RMA_FLUSH, origin, target < 0 ? origin : (unsigned)target);
    struct sim_node *n = &m->w->nodes[origin];
    struct emx_peer *peer = target >= 0 ? sim_node_peer(n, m->w->nodes[target].party) : NULL;
    int rc;

    k->all = target < 0;
    if (target >= 0 && !peer)
        rc = ETHMX_ERR_NO_MEMORY;
    else
        rc = emx_engine_rma_flush(n->engine, peer, done, k, sim_node_now(n));
    finish_call(k, rc);
    return rc;
}

int rma_wrong(struct rma_model *m, unsigned origin, unsigned target, enum emx_rma_kind kind)
{
    struct call *k = new_call(m, kind, origin, target);
    const struct rma_site *s = &m->site[target];
    struct emx_rma_args a = {.key = s->key,
                             .op = ETHMX_RMA_REPLACE,
                             .type = ETHMX_RMA_UINT64,
                             .operand = k->operand,
                             .compare = &k->operand[1],
                             .set = &k->operand[0],
                             .mode = ETHMX_RMA_REMOTE};
    bool atomic = kind != EMX_RMA_PUT && kind != EMX_RMA_GET;
    int rc;

    k->wrong = true;
    k->len_bytes = atomic ? 8 : 1 + emx_rng_below(&m->rng, 40000);
    if (kind == EMX_RMA_PUT)
        k->data = sim_buffer_to_send(k->number << 8 | 1, k->len_bytes, SIM_CONTIGUOUS, &m->rng);
    else if (kind != EMX_RMA_ACCUMULATE)
        k->data = sim_buffer_to_receive(k->len_bytes, SIM_CONTIGUOUS, &m->rng);
    a.data = k->data ? k->data->data : (struct ethmx_data){.base = k->operand, .len_bytes = 8};
    switch (emx_rng_below(&m->rng, 3)) {
    case 0:
        a.key ^= UINT64_C(1) << emx_rng_below(&m->rng, 64);
        break;
    case 1: /* the last byte is outside */
        a.offset = s->len_bytes - k->len_bytes + 1;
        break;
    default: /* the end wraps around */
        a.offset = UINT64_MAX - emx_rng_below(&m->rng, 2 * k->len_bytes);
        break;
    }
    rc = start(k, &a);
    finish_call(k, rc);
    return rc;
}

/* ---- Programs ---- */

static unsigned below(struct rma_model *m, unsigned limit)
{
    return (unsigned)emx_rng_below(&m->rng, limit);
}

static void any_block(struct rma_model *m, unsigned origin, unsigned target)
{
    unsigned block = below(m, RMA_BLOCKS);
    const struct rma_block *b = &m->pair[origin][target].block[block];
    bool put = !b->ident || below(m, 2);
    enum sim_shape shape = (enum sim_shape)below(m, SIM_SHAPES);

    if (b->busy || b->dirty)
        return;
    if (put)
        rma_put(m, origin, target, block, emx_rng_below(&m->rng, block_bytes[block] + 1),
                below(m, 2) ? ETHMX_RMA_REMOTE : ETHMX_RMA_LOCAL, shape);
    else
        rma_get(m, origin, target, block, shape);
}

static void any_change(struct rma_model *m, unsigned origin, unsigned target)
{
    static const uint8_t ops[] = {ETHMX_RMA_REPLACE, ETHMX_RMA_SUM,  ETHMX_RMA_PROD,
                                  ETHMX_RMA_MAX,     ETHMX_RMA_BXOR, ETHMX_RMA_NO_OP};
    static const enum emx_rma_kind kinds[] = {EMX_RMA_ACCUMULATE, EMX_RMA_FETCH_OP, EMX_RMA_COMPARE_SWAP};
    enum emx_rma_kind kind = kinds[below(m, 3)];
    unsigned most = below(m, 4) ? 3 : kind == EMX_RMA_ACCUMULATE ? RMA_CELLS - 2 : ETHMX_RMA_ATOMIC_MAX / 8;
    unsigned count = kind == EMX_RMA_COMPARE_SWAP ? 1 : 1 + below(m, most);

    rma_change(m, origin, target, kind, ops[below(m, sizeof(ops))], below(m, below(m, 2) ? 3 : RMA_CELLS - count + 1),
               count, (enum sim_shape)below(m, SIM_SHAPES));
}

void rma_any(struct rma_model *m, unsigned origin, unsigned target)
{
    static const enum emx_rma_kind kinds[] = {EMX_RMA_PUT, EMX_RMA_GET, EMX_RMA_ACCUMULATE, EMX_RMA_FETCH_OP,
                                              EMX_RMA_COMPARE_SWAP};

    switch (below(m, 16)) {
    case 0:
        rma_flush(m, origin, below(m, 3) ? (int)target : -1);
        break;
    case 1:
        rma_wrong(m, origin, target, kinds[below(m, 5)]);
        break;
    case 2:
    case 3:
        if (m->site[target].added[0] + 1 < RMA_ADDS_MAX)
            rma_count(m, origin, target, below(m, RMA_COUNTERS), below(m, 2));
        break;
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
        any_change(m, origin, target);
        break;
    default:
        any_block(m, origin, target);
        break;
    }
}

/* ---- The end ---- */

static bool is_over(void *arg)
{
    return !((struct rma_model *)arg)->open;
}

bool rma_wait(struct rma_model *m, uint64_t limit_ns)
{
    return sim_world_run(m->w, is_over, m, limit_ns, "callbacks of one-sided operations");
}

static void check_pair(struct rma_model *m, unsigned origin, unsigned target)
{
    const struct rma_pair *p = &m->pair[origin][target];
    const uint8_t *base = m->site[target].base;

    if (memcmp(base + cell_offset(origin, 0), p->cell, sizeof(p->cell)))
        sim_fail(m->w, "the cells of n%u at n%u are not what was made of them", origin, target);
    for (unsigned i = 0; i < RMA_BLOCKS; i++) {
        const struct rma_block *b = &p->block[i];

        if (b->ident && !sim_content_fits(b->ident, 0, base + block_offset(origin, i), b->len_bytes))
            sim_fail(m->w, "the block %u of n%u at n%u is not what was put there", i, origin, target);
    }
}

static void check_site(struct rma_model *m, unsigned target)
{
    const struct rma_site *s = &m->site[target];

    for (const uint8_t *p = s->mem; p < s->mem + s->len_bytes + 2 * GUARD_BYTES + 8; p++)
        if ((p < s->base || p >= s->base + s->len_bytes) && *p != GUARD)
            sim_fail(m->w, "n%u: memory beside a region was written", target);
    for (unsigned k = 0; k < RMA_COUNTERS; k++) {
        uint64_t value;

        memcpy(&value, s->base + counter_offset(k), 8);
        if (value != s->added[k])
            sim_fail(m->w, "n%u: 1 was added %llu times to a counter, which is %llu", target,
                     (unsigned long long)s->added[k], (unsigned long long)value);
    }
}

void rma_finish(struct rma_model *m, uint64_t limit_ns)
{
    for (unsigned i = 0; i < m->w->node_count && !sim_failed(m->w); i++) {
        rma_flush(m, i, -1);
        sim_node_pump(&m->w->nodes[i]);
    }
    if (!rma_wait(m, limit_ns))
        return;
    for (unsigned t = 0; t < m->w->node_count; t++) {
        check_site(m, t);
        for (unsigned o = 0; o < m->w->node_count; o++)
            check_pair(m, o, t);
    }
}
