/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Multi-receives: messages of one sender fill buffers one after the other, without gaps and in the order sent, also
 * when large ones become complete after later ones. Each buffer is given back once, when all in it is complete.
 */
#include <stdlib.h>
#include <string.h>

#include "core/msg/multi.h"
#include "scenario.h"

#define MESSAGES 300
#define LONGEST  60000
#define BUFFERS  4

struct multi_buffer {
    uint8_t *base;
    size_t len_bytes;
    struct emx_op *op;
    unsigned turn; /* of all that were posted */
    bool posted;
};

struct multi_got {
    unsigned turn;
    size_t offset, len_bytes;
    uint32_t first; /* of the message's content */
    bool whole;
};

struct multis {
    struct sim_case *c;
    struct emx_rng rng;
    struct multi_buffer buffer[BUFFERS];
    struct multi_got got[MESSAGES];
    size_t len_bytes[MESSAGES], min_bytes, buffer_bytes;
    uint8_t *data[MESSAGES];
    unsigned turns, got_count, sent_count;
    bool over; /* no buffer is posted again */
};

static uint8_t content(unsigned i, size_t at)
{
    return (uint8_t)emx_mix64(i * 1000003ull + at / 7);
}

static uint8_t kind(const struct multis *t)
{
    return emx_mix64(t->c->seed ^ 0x17a6) & 1 ? EMX_KIND_UNTAGGED : EMX_KIND_TAGGED;
}

static void sent(void *arg, const struct ethmx_result *result)
{
    struct multis *t = arg;

    t->sent_count++;
    if (result->status)
        sim_fail(&t->c->world, "a send ends with %d", result->status);
}

static void post(struct multis *t, struct multi_buffer *b);

static struct multi_buffer *buffer_of(struct multis *t, const struct emx_op *op)
{
    struct multi_buffer *b = emx_engine_multi_args(op)->arg;

    if (!b->posted)
        sim_fail(&t->c->world, "a buffer takes messages after it was given back");
    return b;
}

/* Which message that is, its place will say. */
static void take(struct multis *t, const struct multi_buffer *b, const uint8_t *base, const struct ethmx_result *r)
{
    struct multi_got *g = &t->got[t->got_count++];

    *g = (struct multi_got){.turn = b->turn, .offset = (size_t)(base - b->base), .len_bytes = r->len_bytes};
    if (r->status)
        sim_fail(&t->c->world, "a message ends with %d", r->status);
    for (unsigned i = 0; i < MESSAGES && !g->whole; i++) {
        g->whole = t->len_bytes[i] == r->len_bytes;
        for (size_t at = 0; at < r->len_bytes && g->whole; at++)
            g->whole = base[at] == content(i, at);
        g->first = i;
    }
    if (!g->whole)
        sim_fail(&t->c->world, "a message of %zu bytes is none that was sent", r->len_bytes);
}

static void done(void *arg, const struct ethmx_result *result)
{
    struct emx_op *op = arg;
    struct multis *t = emx_engine_multi_args(op)->owner;
    struct multi_buffer *b = buffer_of(t, op);
    struct emx_engine *e = t->c->world.nodes[1].engine;
    void *base;
    bool last = emx_engine_multi_deliver(e, op, &base);

    if (base && t->got_count < MESSAGES)
        take(t, b, base, result);
    else if (base)
        sim_fail(&t->c->world, "more messages come than were sent");
    else if (result->status != ETHMX_ERR_CANCELED || !t->over)
        sim_fail(&t->c->world, "a multi-receive ends with %d", result->status);
    if (!last)
        return;
    emx_engine_multi_over(e, op);
    b->posted = false;
    if (!t->over)
        post(t, b);
}

static void post(struct multis *t, struct multi_buffer *b)
{
    struct sim_node *n = &t->c->world.nodes[1];
    const struct emx_multi_args m = {.min_bytes = t->min_bytes, .arg = b, .owner = t};
    const struct emx_op_args a = {.bits = 1,
                                  .mask = t->c->seed & 2 ? SIM_FULL_MASK : 0xff,
                                  .data = {.base = b->base, .len_bytes = t->buffer_bytes},
                                  .kind = kind(t),
                                  .done = done};
    int rc;

    b->posted = true;
    b->turn = t->turns++;
    rc = emx_engine_recv_multi(n->engine, t->c->seed & 4 ? sim_node_peer(n, t->c->world.nodes[0].party) : NULL, &a, &m,
                               &b->op, sim_node_now(n));
    if (rc != ETHMX_INPROGRESS)
        sim_fail(&t->c->world, "a multi-receive returns %d", rc);
}

static void send(struct multis *t, unsigned i)
{
    struct sim_node *n = &t->c->world.nodes[0];
    const struct emx_op_args a = {.bits = 1,
                                  .kind = kind(t),
                                  .data = {.base = t->data[i], .len_bytes = t->len_bytes[i]},
                                  .mode = emx_rng_below(&t->rng, 4) ? ETHMX_SEND_STANDARD : ETHMX_SEND_SYNC,
                                  .done = sent,
                                  .arg = t};
    int rc = sim_node_send(n, sim_node_peer(n, t->c->world.nodes[1].party), &a);

    if (rc == ETHMX_OK)
        t->sent_count++;
    else if (rc != ETHMX_INPROGRESS)
        sim_fail(&t->c->world, "a send returns %d", rc);
    sim_node_pump(n);
}

static int earlier(const void *a, const void *b)
{
    const struct multi_got *x = a, *y = b;

    if (x->turn != y->turn)
        return x->turn < y->turn ? -1 : 1;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->len_bytes < y->len_bytes ? -1 : x->len_bytes > y->len_bytes;
}

/* By their places, the messages have the order in which they were sent, and no gaps. Messages of no bytes have no
 * content and no length, so only the others are compared. */
static void check_places(struct multis *t)
{
    size_t at = 0;
    unsigned turn = UINT32_MAX, next = 0;

    qsort(t->got, t->got_count, sizeof(*t->got), earlier);
    for (unsigned i = 0; i < t->got_count && !sim_failed(&t->c->world); i++) {
        const struct multi_got *g = &t->got[i];

        at = g->turn == turn ? at : 0;
        if (g->offset != at)
            sim_fail(&t->c->world, "a message lies at %zu, the one before it ends at %zu", g->offset, at);
        if (turn != UINT32_MAX && g->turn != turn && g->turn != turn + 1)
            sim_fail(&t->c->world, "a buffer was left out");
        at += g->len_bytes;
        turn = g->turn;
        if (!g->len_bytes)
            continue;
        while (next < MESSAGES && !t->len_bytes[next])
            next++;
        if (g->len_bytes != t->len_bytes[next] || memcmp(t->data[next], t->data[g->first], g->len_bytes) != 0)
            sim_fail(&t->c->world, "message %u lies where message %u should", g->first, next);
        next++;
    }
}

static void begin(struct multis *t, struct sim_case *c)
{
    struct sim_world *w = &c->world;
    struct sim_faults x = {.delay_ns = 2000, .jitter_ns = 20000, .drop_ppm = 20000, .reorder_ppm = 20000};

    *t = (struct multis){.c = c, .rng = {.state = emx_mix64(c->seed)}};
    t->min_bytes = LONGEST;
    t->buffer_bytes = LONGEST + emx_rng_below(&t->rng, 5 * LONGEST);
    sim_case_begin(c, 2, 1);
    w->reliable = c->seed & 1;
    x.reorder_ns = 5 * SIM_MS;
    if (!w->reliable)
        sim_world_faults(w, &x);
    sim_world_rate(w, 10000000000ull, 65536, 0);
    sim_world_start(w);
    for (unsigned i = 0; i < BUFFERS; i++)
        t->buffer[i].base = malloc(t->buffer_bytes);
    for (unsigned i = 0; i < MESSAGES; i++) {
        t->len_bytes[i] = emx_rng_below(&t->rng, emx_rng_below(&t->rng, 5) ? 200 : LONGEST + 1);
        t->data[i] = malloc(t->len_bytes[i] + 1);
        for (size_t at = 0; at < t->len_bytes[i]; at++)
            t->data[i][at] = content(i, at);
    }
}

static void end(struct multis *t)
{
    for (unsigned i = 0; i < MESSAGES; i++)
        free(t->data[i]);
    sim_case_end(t->c);
    for (unsigned i = 0; i < BUFFERS; i++)
        free(t->buffer[i].base);
}

static void multis(struct sim_case *c)
{
    struct multis t;
    struct sim_world *w = &c->world;
    unsigned before;
    uint64_t limit_ns;

    begin(&t, c);
    before = emx_rng_below(&t.rng, MESSAGES); /* so many arrive before there is a buffer */
    for (unsigned i = 0; i < MESSAGES && !sim_failed(w); i++) {
        if (i == before)
            for (unsigned b = 0; b < BUFFERS; b++)
                post(&t, &t.buffer[b]);
        send(&t, i);
        sim_node_pump(&w->nodes[1]);
        if (!emx_rng_below(&t.rng, 4))
            sim_world_run_until(w, w->now_ns + emx_rng_below(&t.rng, SIM_MS));
    }
    for (limit_ns = w->now_ns + 20 * SIM_S; t.got_count < MESSAGES || t.sent_count < MESSAGES;) {
        if (sim_failed(w) || w->now_ns > limit_ns)
            break;
        sim_world_run_until(w, w->now_ns + SIM_MS);
    }
    t.over = true;
    for (unsigned b = 0; b < BUFFERS; b++)
        if (t.buffer[b].posted)
            emx_engine_cancel(w->nodes[1].engine, t.buffer[b].op);
    sim_node_pump(&w->nodes[1]);
    for (unsigned b = 0; b < BUFFERS && !sim_failed(w); b++)
        if (t.buffer[b].posted)
            sim_fail(w, "a multi-receive that was cancelled does not end");
    if (!sim_failed(w) && (t.got_count < MESSAGES || t.sent_count < MESSAGES))
        sim_fail(w, "%u of %u messages have come", t.got_count, MESSAGES);
    check_places(&t);
    end(&t);
}

const struct sim_scenario sim_multis[] = {
    {"multis", "buffers that take many messages", multis, 0, 2},
    {0},
};
