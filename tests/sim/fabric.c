/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct fabric_frame {
    struct fabric_frame *next; /* in the ring of the receiver */
    unsigned dst;
    uint32_t len_bytes;
    bool marked;
    uint8_t data[];
};

static void fail(struct fabric *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct fabric *f, const char *fmt, ...)
{
    va_list ap;

    if (f->failure[0])
        return;
    va_start(ap, fmt);
    vsnprintf(f->failure, sizeof(f->failure), fmt, ap);
    va_end(ap);
}

static struct fabric_node *node_of(const struct fabric *f, unsigned endpoint)
{
    return &f->node[endpoint / f->per_node];
}

static const struct emx_wire_ops wire_ops;

#define PART 31 /* of addresses: the index, two bytes */

/* ---- Life ---- */

static struct emx_address address(const struct fabric *f, unsigned index)
{
    unsigned node = index / f->per_node;
    struct emx_address a = {.id = (uint32_t)emx_mix64(index + 1) | 1,
                            .cookie = 0xc00c1e,
                            .host_id = emx_mix64(node + 1000000) & EMX_ADDRESS_HOST_ID_MAX,
                            .if_count = 1};
    uint64_t mac = emx_mix64(node + 2000000);
    uint8_t value[2];

    memcpy(a.ifs[0].mac, &mac, 6);
    a.ifs[0].ip = emx_ip_from_v4(10 + (node >> 8 << 16) + (node << 24));
    a.ifs[0].prefix_bits = 16;
    a.ifs[0].frame_bytes = f->frame_bytes;
    emx_wire_value_put_u16(value, (uint16_t)index); /* routes are made from it */
    emx_address_add_part(&a, PART, value, sizeof(value));
    snprintf(a.host, sizeof(a.host), "node%04u", node);
    return a;
}

static uint64_t clock_read(void *arg)
{
    return ((const struct fabric *)arg)->now_ns;
}

static void take_events(void *arg, emx_time now);

static void start(struct fabric *f, unsigned index, uint64_t seed)
{
    struct fabric_endpoint *ep = &f->endpoint[index];
    struct emx_address self = address(f, index);
    struct emx_engine_params p = {.cfg = &f->cfg,
                                  .stats = &ep->stats,
                                  .alloc = &emx_alloc_libc,
                                  .self = &self,
                                  .seed = emx_mix64(seed + index),
                                  .local_ranks = f->per_node};

    ep->fabric = f;
    ep->index = index;
    ep->ring_tail = &ep->ring;
    ep->wake_ns = EMX_NEVER;
    emx_list_init(&ep->waiting);
    if (emx_engine_create(&p, &ep->engine) != ETHMX_OK)
        abort();
    ep->wire = (struct fabric_wire){.wire = {.ops = &wire_ops}, .ep = ep};
    ep->progress = (struct emx_progress){
        .engine = ep->engine, .stats = &ep->stats, .on_event = take_events, .on_event_arg = ep, .open_ops = 1};
    emx_clock_drive(&ep->progress.clock, clock_read, f, true);
    emx_links_add(&ep->progress.links, &wire_ops, &ep->wire.wire);
}

void fabric_init(struct fabric *f, const struct fabric_shape *shape, uint64_t seed)
{
    unsigned nodes = (shape->endpoints + shape->per_node - 1) / shape->per_node;

    memset(f, 0, sizeof(*f));
    sim_queue_init(&f->queue);
    f->now_ns = 1000000000;
    f->rng.state = seed;
    emx_config_defaults(&f->cfg);
    f->endpoints = shape->endpoints;
    f->per_node = shape->per_node;
    f->delay_ns = shape->delay_ns;
    f->frame_bytes = shape->frame_bytes;
    f->endpoint = calloc(shape->endpoints, sizeof(*f->endpoint));
    f->node = calloc(nodes, sizeof(*f->node));
    if (!f->endpoint || !f->node)
        abort();
    for (unsigned i = 0; i < nodes; i++) {
        emx_list_init(&f->node[i].waiting);
        f->node[i].card = (struct sim_port){.rate_bps = shape->card_bps ? shape->card_bps : shape->rate_bps,
                                            .limit_bytes = shape->card_bytes};
        f->node[i].port = (struct sim_port){
            .rate_bps = shape->rate_bps, .limit_bytes = shape->port_bytes, .mark_bytes = shape->mark_bytes};
    }
    for (unsigned i = 0; i < shape->endpoints; i++)
        start(f, i, seed);
}

void fabric_fini(struct fabric *f)
{
    struct sim_event ev;

    for (unsigned i = 0; i < f->endpoints; i++)
        emx_engine_destroy(f->endpoint[i].engine);
    while (sim_queue_take(&f->queue, &ev))
        if (ev.arg == f)
            free((void *)(uintptr_t)ev.value); /* a frame under way */
    sim_queue_fini(&f->queue);
    free(f->endpoint);
    free(f->node);
}

struct emx_peer *fabric_peer(struct fabric *f, unsigned index, unsigned other)
{
    struct emx_address a = address(f, other);
    struct emx_peer *peer;
    uint8_t buf[ETHMX_ADDRESS_MAX];
    char err[256];

    if (emx_engine_peer(f->endpoint[index].engine, buf, emx_address_encode(&a, buf), &peer, err, sizeof(err)))
        abort();
    return peer;
}

/* ---- Frames under way ---- */

static void deliver(void *arg, uint64_t value)
{
    struct fabric *f = arg;
    struct fabric_frame *frame = (void *)(uintptr_t)value;
    struct fabric_endpoint *ep = &f->endpoint[frame->dst];

    frame->next = NULL;
    *ep->ring_tail = frame;
    ep->ring_tail = &frame->next;
    fabric_pump(ep);
}

static bool is_lost(struct fabric *f, const struct sim_port *p, size_t bytes)
{
    return !sim_port_has_room(p, f->now_ns, bytes) || emx_rng_chance(&f->rng, f->lost_ppm);
}

/* When a frame that leaves at at_ns is at the other end of half the way: what is in between is not quite regular.
 * Frames keep their order. */
static uint64_t half_way(struct fabric *f, uint64_t at_ns, uint64_t *last_ns)
{
    at_ns += f->delay_ns / 2;
    if (f->jitter_ns)
        at_ns += emx_rng_below(&f->rng, f->jitter_ns);
    if (at_ns < *last_ns)
        at_ns = *last_ns;
    *last_ns = at_ns;
    return at_ns;
}

static void enter_switch(void *arg, uint64_t value)
{
    struct fabric *f = arg;
    struct fabric_frame *frame = (void *)(uintptr_t)value;
    struct sim_port *p = &node_of(f, frame->dst)->port;
    size_t bytes = sim_wire_bytes(frame->len_bytes);

    f->frames++;
    if (is_lost(f, p, bytes)) {
        p->lost++;
        free(frame);
        return;
    }
    frame->marked = sim_port_marks(p, f->now_ns, bytes);
    sim_queue_put(&f->queue, half_way(f, sim_port_pass(p, f->now_ns, bytes), &f->endpoint[frame->dst].last_ns), deliver,
                  f, value);
}

static void send_frame(struct fabric_endpoint *ep, const struct emx_txframe *tx)
{
    struct fabric *f = ep->fabric;
    uint32_t len_bytes = (uint32_t)tx->head_bytes + tx->body_bytes;
    struct fabric_frame *frame = malloc(sizeof(*frame) + len_bytes);
    struct fabric_node *node = node_of(f, ep->index);
    uint64_t value = (uintptr_t)frame;

    if (!frame)
        abort();
    frame->len_bytes = len_bytes;
    frame->marked = false;
    memcpy(&frame->dst, tx->to, sizeof(frame->dst));
    memcpy(frame->data, tx->head, tx->head_bytes);
    if (tx->body_bytes)
        memcpy(frame->data + tx->head_bytes, tx->body, tx->body_bytes);
    if (node_of(f, frame->dst) == node)
        sim_queue_put(&f->queue, f->now_ns, deliver, f, value);
    else
        sim_queue_put(&f->queue,
                      half_way(f, sim_port_pass(&node->card, f->now_ns, sim_wire_bytes(len_bytes)), &node->last_ns),
                      enter_switch, f, value);
}

/* ---- The wire of an endpoint ---- */

static struct fabric_endpoint *endpoint_of(const struct emx_wire *w)
{
    return ((const struct fabric_wire *)w)->ep;
}

static void wire_query(const struct emx_wire *w, struct emx_wire_attr *attr_p)
{
    *attr_p = (struct emx_wire_attr){.frame_bytes = endpoint_of(w)->fabric->frame_bytes, .cheap_poll = true};
}

/* Whether another endpoint of the node has waited for longer. */
static bool is_behind(const struct fabric_endpoint *ep)
{
    const struct emx_list *first = emx_list_first(&node_of(ep->fabric, ep->index)->waiting);

    return first && first != &ep->waiting;
}

/* How many frames the card takes now. */
static unsigned wire_tx_room(struct emx_wire *w)
{
    const struct fabric_endpoint *ep = endpoint_of(w);
    const struct fabric *f = ep->fabric;
    const struct sim_port *card = &node_of(f, ep->index)->card;
    size_t full = sim_wire_bytes(f->frame_bytes);
    unsigned room = 0;

    if (is_behind(ep))
        return 0;

    while (room < EMX_WIRE_BATCH && sim_port_has_room(card, f->now_ns, (room + 1) * full))
        room++;
    return room;
}

static void wire_tx(struct emx_wire *w, const struct emx_txframe *f, unsigned n)
{
    emx_list_del(&endpoint_of(w)->waiting); /* it has had its turn */
    for (unsigned i = 0; i < n; i++)
        send_frame(endpoint_of(w), &f[i]);
}

static void drop_first(struct fabric_endpoint *ep)
{
    struct fabric_frame *frame = ep->ring;

    ep->ring = frame->next;
    if (!ep->ring)
        ep->ring_tail = &ep->ring;
    free(frame);
}

/* Frames stay in the ring while they are lent. */
static unsigned wire_rx(struct emx_wire *w, struct emx_rxframe *f, unsigned max)
{
    unsigned n = 0;

    for (const struct fabric_frame *x = endpoint_of(w)->ring; x && n < max; x = x->next)
        f[n++] = (struct emx_rxframe){.data = x->data, .len_bytes = x->len_bytes, .marked = x->marked};
    return n;
}

static void wire_rx_return(struct emx_wire *w, const struct emx_rxframe *f, unsigned n)
{
    (void)f;
    while (n--)
        drop_first(endpoint_of(w));
}

static struct emx_wire_peek wire_peek(struct emx_wire *w)
{
    const struct fabric_frame *first = endpoint_of(w)->ring;

    if (!first)
        return (struct emx_wire_peek){.data = NULL};
    return first->marked ? emx_wire_peek_rx()
                         : (struct emx_wire_peek){.data = first->data, .len_bytes = first->len_bytes};
}

static void wire_consume(struct emx_wire *w)
{
    drop_first(endpoint_of(w));
}

static const struct emx_wire_ops wire_ops = {.name = "fabric",
                                             .query = wire_query,
                                             .tx_room = wire_tx_room,
                                             .tx = wire_tx,
                                             .rx = wire_rx,
                                             .rx_return = wire_rx_return,
                                             .peek = wire_peek,
                                             .consume = wire_consume};

/* ---- Frames of others ---- */

struct foreign {
    struct fabric *fabric;
    unsigned to;
    size_t bytes;
    void (*passed)(void *arg, enum fabric_fate fate, uint64_t arrives_ns);
    void *arg;
};

static void foreign_enters(void *arg, uint64_t unused)
{
    struct foreign *x = arg;
    struct fabric *f = x->fabric;
    struct sim_port *p = &node_of(f, x->to)->port;
    enum fabric_fate fate = FABRIC_PASSED;
    uint64_t through_ns;

    (void)unused;
    f->frames++;
    if (is_lost(f, p, x->bytes)) {
        fate = FABRIC_LOST;
        p->lost++;
        through_ns = p->busy_until_ns > f->now_ns ? p->busy_until_ns : f->now_ns;
    } else {
        if (sim_port_marks(p, f->now_ns, x->bytes))
            fate = FABRIC_MARKED;
        through_ns = sim_port_pass(p, f->now_ns, x->bytes);
    }
    x->passed(x->arg, fate, through_ns + f->delay_ns / 2);
    free(x);
}

void fabric_foreign(struct fabric *f, unsigned from, unsigned to, uint32_t len_bytes,
                    void (*passed)(void *arg, enum fabric_fate fate, uint64_t arrives_ns), void *arg)
{
    struct foreign *x = malloc(sizeof(*x));
    struct fabric_node *node = node_of(f, from);

    if (!x)
        abort();
    *x = (struct foreign){f, to, sim_wire_bytes(len_bytes), passed, arg};
    sim_queue_put(&f->queue, half_way(f, sim_port_pass(&node->card, f->now_ns, x->bytes), &node->last_ns),
                  foreign_enters, x, 0);
}

/* ---- Progress ---- */

static void wake(void *arg, uint64_t at_ns)
{
    struct fabric_endpoint *ep = arg;

    if (at_ns != ep->wake_ns)
        return;
    ep->wake_ns = EMX_NEVER;
    fabric_pump(ep);
}

static void wake_at(struct fabric_endpoint *ep, uint64_t at_ns)
{
    if (at_ns >= ep->wake_ns)
        return;
    ep->wake_ns = at_ns;
    sim_queue_put(&ep->fabric->queue, at_ns, wake, ep, at_ns);
}

static void tell_routes(struct fabric_endpoint *ep, struct emx_peer *peer, emx_time now)
{
    struct emx_route r = {.frame_bytes = ep->fabric->frame_bytes, .name = "sim"};
    unsigned to = emx_wire_value_u16(emx_address_part(emx_peer_address(ep->engine, peer), PART).b);

    memcpy(&r.to, &to, sizeof(to));
    emx_engine_routes(ep->engine, peer, &r, 1, "", now);
}

static void take_events(void *arg, emx_time now)
{
    struct fabric_endpoint *ep = arg;
    struct emx_event ev;

    while (emx_engine_event(ep->engine, &ev)) {
        if (ev.type == EMX_EVENT_ROUTES)
            tell_routes(ep, ev.peer, now);
        else if (ev.type != EMX_EVENT_CONNECTED)
            fail(ep->fabric, "endpoint %u: %s", ep->index, ev.text);
    }
}

static void tell(struct fabric_endpoint *ep, struct emx_op *op)
{
    struct ethmx_result result;
    ethmx_done_fn done;
    void *arg;

    emx_op_result(op, &done, &arg, &result);
    emx_engine_op_free(ep->engine, op);
    done(arg, &result);
}

/* One call of ethmx_progress(). Returns whether it has found anything. */
static bool poll_once(struct fabric_endpoint *ep)
{
    struct emx_op *quick = NULL, *op;
    bool any = emx_progress_round(&ep->progress, false, &quick);

    ep->progress.delivering = true;
    if (quick)
        tell(ep, quick);
    while ((op = emx_engine_completed(ep->engine))) {
        any = true;
        tell(ep, op);
    }
    ep->progress.delivering = false;
    return any;
}

/* The card is full, or others wait for it. The endpoint that has waited for longest is woken when there is room. */
static void await_turn(struct fabric_endpoint *ep)
{
    struct fabric *f = ep->fabric;
    struct fabric_node *node = node_of(f, ep->index);
    struct emx_list *first;

    if (!ep->progress.full)
        emx_list_del(&ep->waiting);
    else if (!emx_list_linked(&ep->waiting))
        emx_list_append(&node->waiting, &ep->waiting);
    if ((first = emx_list_first(&node->waiting)))
        wake_at(emx_list_entry(first, struct fabric_endpoint, waiting),
                sim_port_room_at(&node->card, f->now_ns, sim_wire_bytes(f->frame_bytes)));
}

void fabric_pump(struct fabric_endpoint *ep)
{
    struct fabric *f = ep->fabric;
    uint64_t deadline;

    if (ep->pumping)
        return;
    if (f->now_ns < ep->turn_ns) {
        wake_at(ep, ep->turn_ns);
        return;
    }
    ep->pumping = true;
    while (poll_once(ep) || !emx_progress_looked_around(&ep->progress))
        ;
    ep->pumping = false;
    if (f->away_ns)
        ep->turn_ns = f->now_ns + emx_rng_below(&f->rng, f->away_ns);
    await_turn(ep);
    deadline = emx_progress_deadline(&ep->progress);
    if (deadline > f->now_ns)
        wake_at(ep, deadline);
    else if (!ep->progress.full)
        fail(f, "endpoint %u: output is drained and the deadline has passed", ep->index);
}

bool fabric_run(struct fabric *f, const uint64_t *left, uint64_t limit_ns)
{
    struct sim_event ev;

    while (*left && !f->failure[0]) {
        if (!sim_queue_take(&f->queue, &ev)) {
            fail(f, "deadlock: nothing is pending, %" PRIu64 " operations are open", *left);
        } else if (ev.at_ns > limit_ns) {
            if (ev.arg == f)
                free((void *)(uintptr_t)ev.value);
            fail(f, "stall: %" PRIu64 " operations are open at the time limit", *left);
        } else {
            f->now_ns = ev.at_ns;
            ev.fn(ev.arg, ev.value);
        }
    }
    return !f->failure[0];
}

void fabric_rest(struct fabric *f, uint64_t ns)
{
    const struct sim_event *first;
    uint64_t until_ns = f->now_ns + ns;
    struct sim_event ev;

    while ((first = sim_queue_first(&f->queue)) && first->at_ns <= until_ns && sim_queue_take(&f->queue, &ev)) {
        f->now_ns = ev.at_ns;
        ev.fn(ev.arg, ev.value);
    }
    f->now_ns = until_ns;
}

uint64_t fabric_message_bytes(size_t len_bytes, size_t frame_bytes)
{
    size_t room = frame_bytes - sizeof(struct emx_frame) - sizeof(struct emx_f_data);
    size_t full = len_bytes / room, rest = len_bytes % room;
    uint64_t bytes = full * sim_wire_bytes(frame_bytes);

    if (rest)
        bytes += sim_wire_bytes(sizeof(struct emx_frame) + sizeof(struct emx_f_eager) + rest);
    return bytes;
}

static uint64_t sum_ports(const struct fabric *f, bool marked)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < (f->endpoints + f->per_node - 1) / f->per_node; i++)
        sum += marked ? f->node[i].port.marked : f->node[i].port.lost;
    return sum;
}

uint64_t fabric_lost(const struct fabric *f)
{
    return sum_ports(f, false);
}

uint64_t fabric_marked(const struct fabric *f)
{
    return sum_ports(f, true);
}
