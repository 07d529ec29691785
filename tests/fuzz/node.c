/* SPDX-License-Identifier: BSD-3-Clause */
#include "node.h"

#include "core/rma/rma.h"
#include "fuzz.h"

void fuzz_node_check(struct fuzz_node *n)
{
    const char *wrong = emx_engine_check(n->engine);

    FUZZ_CHECK(!wrong, "engine %u: %s", n->index, wrong);
    FUZZ_CHECK(n->stats.unexpected_bytes <= n->cfg->p_unexpected_max, "too much unexpected memory");
    n->unchecked = false;
}

void fuzz_node_check_once(struct fuzz_node *n)
{
    if (n->unchecked)
        fuzz_node_check(n);
}

/* ---- The wire ---- */

static struct fuzz_node *node_of(const struct emx_wire *w)
{
    return (struct fuzz_node *)(uintptr_t)w;
}

static void wire_query(const struct emx_wire *w, struct emx_wire_attr *attr_p)
{
    *attr_p = (struct emx_wire_attr){.frame_bytes = FUZZ_FRAME_BYTES,
                                     .cheap_poll = true,
                                     .reliable = node_of(w)->reliable,
                                     .reads = node_of(w)->reads};
}

static unsigned wire_tx_room(struct emx_wire *w)
{
    fuzz_node_check_once(node_of(w));
    return EMX_WIRE_BATCH;
}

/* Of a peer, as its route has it. */
static unsigned index_of(const struct emx_wire_addr *to)
{
    unsigned index;

    memcpy(&index, to, sizeof(index));
    return index;
}

static void wire_tx(struct emx_wire *w, const struct emx_txframe *f, unsigned count)
{
    struct fuzz_node *n = node_of(w);

    n->unchecked = true;
    for (unsigned i = 0; i < count; i++) {
        uint32_t len_bytes = (uint32_t)f[i].head_bytes + f[i].body_bytes;
        uint8_t *data = malloc(len_bytes);

        FUZZ_CHECK(len_bytes <= FUZZ_FRAME_BYTES, "a frame of %u bytes", len_bytes);
        FUZZ_CHECK(data, "no memory");
        memcpy(data, f[i].head, f[i].head_bytes);
        if (f[i].body_bytes)
            memcpy(data + f[i].head_bytes, f[i].body, f[i].body_bytes);
        history_carry(n->history, n->index, index_of(f[i].to), data, len_bytes);
    }
}

static void *wire_reserve(struct emx_wire *w, const struct emx_wire_addr *to, uint32_t len_bytes)
{
    struct fuzz_node *n = node_of(w);

    FUZZ_CHECK(len_bytes <= FUZZ_FRAME_BYTES, "a frame of %u bytes", len_bytes);
    n->placing = malloc(len_bytes);
    FUZZ_CHECK(n->placing, "no memory");
    n->placing_bytes = len_bytes;
    n->placing_to = index_of(to);
    return n->placing;
}

static void wire_commit(struct emx_wire *w)
{
    struct fuzz_node *n = node_of(w);

    history_carry(n->history, n->index, n->placing_to, n->placing, n->placing_bytes);
    n->placing = NULL;
}

static struct emx_wire_peek wire_peek(struct emx_wire *w)
{
    return (struct emx_wire_peek){.data = node_of(w)->data, .len_bytes = node_of(w)->len_bytes};
}

static void wire_consume(struct emx_wire *w)
{
    node_of(w)->data = NULL;
    fuzz_node_check(node_of(w));
}

static unsigned wire_rx(struct emx_wire *w, struct emx_rxframe *f, unsigned max)
{
    const struct fuzz_node *n = node_of(w);

    if (!n->data || !max)
        return 0;
    *f = (struct emx_rxframe){.data = n->data, .len_bytes = n->len_bytes};
    return 1;
}

static void wire_rx_return(struct emx_wire *w, const struct emx_rxframe *f, unsigned count)
{
    FUZZ_CHECK(count == 1 && f->data == node_of(w)->data, "a frame comes back that was not lent");
    wire_consume(w);
}

static int wire_read(struct emx_wire *w, const struct emx_wire_read *r)
{
    struct fuzz_node *n = node_of(w);

    n->unchecked = true;
    if (!history_readable(n->history, r->remote, r->len_bytes))
        return ETHMX_ERR_UNREACHABLE;
    memcpy(r->local, (const void *)(uintptr_t)r->remote, r->len_bytes);
    return ETHMX_OK;
}

static const struct emx_wire_ops ops = {.name = "fuzz",
                                        .query = wire_query,
                                        .tx_room = wire_tx_room,
                                        .tx = wire_tx,
                                        .reserve = wire_reserve,
                                        .commit = wire_commit,
                                        .peek = wire_peek,
                                        .consume = wire_consume,
                                        .rx = wire_rx,
                                        .rx_return = wire_rx_return,
                                        .read = wire_read};

/* ---- The node ---- */

/* A peer that is known by its hello only may have an address without our wire: mutated frames make such ones. */
static void tell_routes(struct fuzz_node *n, struct emx_peer *peer, emx_time now)
{
    struct emx_route r[2] = {
        {.frame_bytes = FUZZ_FRAME_BYTES, .reliable = n->reliable, .reads = n->reads, .name = "fuzz"}};
    struct emx_wire_value part = emx_address_part(emx_peer_address(n->engine, peer), FUZZ_PART);
    unsigned to;

    if (!part.len_bytes) {
        emx_engine_routes(n->engine, peer, NULL, 0, "not open there", now);
        return;
    }
    to = part.b[0];
    memcpy(&r[0].to, &to, sizeof(to));
    r[1] = r[0];
    r[1].card = 1;
    emx_engine_routes(n->engine, peer, r, n->rails ? 2 : 1, "", now);
}

static void take_events(void *arg, emx_time now)
{
    struct fuzz_node *n = arg;
    struct emx_event ev;

    while (emx_engine_event(n->engine, &ev))
        if (ev.type == EMX_EVENT_ROUTES)
            tell_routes(n, ev.peer, now);
}

static uint64_t read_clock(void *arg)
{
    return *(const uint64_t *)arg;
}

void fuzz_node_start(struct fuzz_node *n, const struct emx_address *self, const uint64_t *now_ns)
{
    struct emx_engine_params params = {.cfg = n->cfg,
                                       .stats = &n->stats,
                                       .alloc = &emx_alloc_libc,
                                       .self = self,
                                       .seed = n->index,
                                       .reliable_links = n->reliable};

    FUZZ_CHECK(emx_engine_create(&params, &n->engine) == ETHMX_OK, "no engine");
    n->exposed = calloc(1, FUZZ_REGION_BYTES);
    FUZZ_CHECK(n->exposed, "no memory");
    FUZZ_CHECK(emx_engine_expose(n->engine, n->exposed, FUZZ_REGION_BYTES, FUZZ_REGION_KEY, EMX_RMA_MAY_BOTH,
                                 &n->region) == ETHMX_OK,
               "no region");
    n->wire.ops = &ops;
    n->progress =
        (struct emx_progress){.engine = n->engine, .stats = &n->stats, .on_event = take_events, .on_event_arg = n};
    emx_clock_drive(&n->progress.clock, read_clock, (void *)(uintptr_t)now_ns, true);
    emx_links_add(&n->progress.links, &ops, &n->wire);
}

void fuzz_node_stop(struct fuzz_node *n)
{
    fuzz_node_check(n);
    emx_engine_destroy(n->engine);
    free(n->exposed);
}

emx_time fuzz_node_now(struct fuzz_node *n)
{
    return emx_clock_now(&n->progress.clock);
}
