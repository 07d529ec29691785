/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim_wire.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../device.h"
#include "../world.h"
#include "sim_place.h"
#include "wire/tso.h"

static_assert(SIM_PART + EMX_ENGINE_LINKS - 1 <= EMX_WIRE_PART_TYPES, "each network has a part");

#define UNPLACED_PPM 200000 /* of frames that the wire gives no memory for */
#define UNSHOWN_PPM  300000 /* of frames that peek() does not show although it could */

static struct sim_wire *wire_of(const struct emx_wire *w)
{
    return (struct sim_wire *)(uintptr_t)w;
}

static struct sim_world *world_of(const struct sim_wire *x)
{
    return x->node->world;
}

/* ---- Frames in ---- */

static uint64_t counter(const struct emx_stats *s, unsigned i)
{
    return ((const uint64_t *)(const void *)s)[i];
}

static void drop_first(struct sim_wire *x)
{
    struct sim_frame *f = x->ring;

    x->ring = f->next;
    if (!x->ring)
        x->tail = &x->ring;
    x->node->ring_bytes -= f->len_bytes;
    sim_frame_free(f);
}

static unsigned wire_rx(struct emx_wire *base, struct emx_rxframe *f, unsigned max)
{
    struct sim_wire *x = wire_of(base);
    struct sim_world *w = world_of(x);
    unsigned n = 0;

    if (!x->ring)
        return 0;
    if (x->lent)
        sim_fail(w, "n%u: frames are asked for while others are lent", x->node->index);
    if (x->shown && memcmp(&x->before, &x->node->stats, sizeof(x->before)))
        sim_fail(w, "n%u: a frame that was not taken the short way has left a trace", x->node->index);
    x->shown = false;
    if (emx_rng_below(&w->rng, 2))
        max = 1;
    x->lent = sim_packet_receive(&x->packet, x->ring, f, max, &x->given);
    x->as_packet = x->lent;
    x->before = x->node->stats;
    if (x->lent)
        return x->given;
    for (const struct sim_frame *in = x->ring; in && n < max; in = in->next)
        f[n++] = (struct emx_rxframe){.data = in->data,
                                      .len_bytes = in->len_bytes,
                                      .parts = in->joined ? EMX_WIRE_BATCH : 0,
                                      .marked = in->marked,
                                      .tso = in->tso,
                                      .counts = in->counts};
    x->lent = x->given = n;
    return n;
}

/* How many frames the counters say were dropped. Over a reliable wire nobody drops a frame for want of memory: it is
 * offered again. */
static uint64_t dropped_since(const struct sim_wire *x)
{
    uint64_t sum = 0, some;

    for (unsigned i = EMX_C_drop_short; i <= EMX_C_drop_memory; i++) {
        if (i == EMX_C_drop_memory && world_of(x)->reliable)
            continue;
        some = counter(&x->node->stats, i) - counter(&x->before, i);
        if (some)
            sim_trace(world_of(x), "n%u drops %" PRIu64 " of %u frames: reason %u", x->node->index, some, x->given,
                      i - EMX_C_drop_short);
        sum += some;
    }
    return sum;
}

/* The engine counts each frame once: as accepted, or by the reason for which it is dropped. (An accepted one may give
 * others their turn, which had been held, and are dropped only now.) */
static void check_taken(struct sim_wire *x)
{
    struct sim_world *w = world_of(x);
    uint64_t accepted = x->node->stats.frames_received - x->before.frames_received, dropped = dropped_since(x);

    sim_hash(w, (uint64_t)x->node->index << 32 | accepted << 16 | dropped);
    if (accepted > x->given || accepted + dropped < x->given)
        sim_fail(w, "n%u: of %u frames %" PRIu64 " are counted as accepted, %" PRIu64 " as dropped", x->node->index,
                 x->given, accepted, dropped);
    if (x->given == 1 && !accepted && dropped != 1)
        sim_fail(w, "n%u: a frame is in the counters of %" PRIu64 " reasons", x->node->index, dropped);
}

static void wire_rx_return(struct emx_wire *base, const struct emx_rxframe *f, unsigned n)
{
    struct sim_wire *x = wire_of(base);

    if (n != x->given || (!x->as_packet && f->data != x->ring->data))
        sim_fail(world_of(x), "n%u: %u frames come back of %u that were lent", x->node->index, n, x->given);
    check_taken(x);
    for (; x->lent; x->lent--)
        drop_first(x);
}

static struct emx_wire_peek wire_peek(struct emx_wire *base)
{
    struct sim_wire *x = wire_of(base);

    if (!x->ring)
        return (struct emx_wire_peek){.data = NULL};
    if (x->lent)
        sim_fail(world_of(x), "n%u: a look at frames while some are lent", x->node->index);
    if (x->ring->joined || x->ring->counts || x->ring->marked || emx_rng_chance(&world_of(x)->rng, UNSHOWN_PPM))
        return emx_wire_peek_rx();
    x->shown = true;
    x->before = x->node->stats;
    return (struct emx_wire_peek){.data = x->ring->data, .len_bytes = x->ring->len_bytes};
}

static void wire_consume(struct emx_wire *base)
{
    struct sim_wire *x = wire_of(base);

    sim_hash(world_of(x), (uint64_t)x->node->index << 32 | EMX_C_frames_received);
    if (!x->shown || x->node->stats.frames_received != x->before.frames_received + 1)
        sim_fail(world_of(x), "n%u: a frame that was taken the short way is not counted", x->node->index);
    x->shown = false;
    drop_first(x);
}

/* ---- Frames out ---- */

static void check_sent(struct sim_wire *x, const struct emx_txframe *f)
{
    struct sim_node *n = x->node;
    struct sim_world *w = n->world;
    size_t len_bytes = (size_t)f->head_bytes + f->body_bytes, tag_bytes = sim_tag_bytes(f->head, f->head_bytes);
    const struct emx_frame *h = (const void *)((const uint8_t *)f->head + tag_bytes);
    struct sim_place to;
    int party;

    if (!tag_bytes != !(w->auth && !w->reliable))
        sim_fail(w, "n%u: a frame with or without a tag, against what is set", n->index);
    memcpy(&to, f->to, sizeof(to));
    if (to.wire != x->number || to.node >= w->node_count)
        sim_fail(w, "n%u: a frame to a place that no route named", n->index);
    else if (len_bytes > w->frame_bytes[x->number] || f->head_bytes < tag_bytes + sizeof(*h))
        sim_fail(w, "n%u: a frame of %zu bytes, head %u; the route takes %u", n->index, len_bytes, f->head_bytes,
                 w->frame_bytes[x->number]);
    else if (tag_bytes + h->body_bytes + sizeof(*h) != len_bytes)
        sim_fail(w, "n%u: a frame of %zu bytes that says %zu", n->index, len_bytes,
                 tag_bytes + h->body_bytes + sizeof(*h));
    else if ((party = sim_world_party(w, h->dst_id)) < 0 || w->party[party].node != to.node)
        sim_fail(w, "n%u: a frame for id %08x goes to n%u", n->index, h->dst_id, to.node);
}

/* Of a message of several frames. */
static bool is_part(const struct emx_frame *h)
{
    const struct emx_f_eager *f = (const void *)(h + 1);

    if (h->version == EMX_FRAME_V_SHORT)
        return false;
    if (h->type == EMX_F_eager)
        return f->total_bytes > h->body_bytes - sizeof(*f);
    return h->type == EMX_F_data || h->type == EMX_F_more || h->type == EMX_F_chunk;
}

static void send_one(struct sim_wire *x, const struct emx_txframe *f)
{
    struct sim_node *n = x->node;
    struct sim_world *w = n->world;
    size_t bytes = (size_t)f->head_bytes + f->body_bytes;
    struct sim_frame *frame;
    struct sim_place to;

    if (!sim_failed(w))
        check_sent(x, f);
    if (sim_failed(w))
        return;
    memcpy(&to, f->to, sizeof(to));
    if (to.lost || (!x->number && to.home != w->nodes[to.node].home))
        return;
    w->data_frames += is_part((const void *)((const uint8_t *)f->head + sim_tag_bytes(f->head, f->head_bytes)));
    w->gso_frames += f->gso;
    if (f->gso && bytes > w->gso_bytes)
        sim_fail(w, "n%u: a frame of %zu bytes for GSO packets, which take %u", n->index, bytes, w->gso_bytes);
    if (f->gso && w->gso == SIM_GSO_LOST)
        return;
    frame = sim_frame_new(n->index, to.node, x->number, f->head, f->head_bytes, f->body, f->body_bytes);
    frame->joined = f->gso && (w->gso == SIM_GSO_JOINED || w->gso == SIM_GSO_NO_TSO);
    frame->tso = x->tso && (frame->joined || w->gso == SIM_GSO_PIECES);
    frame->counts = frame->tso && x->tso_first && w->gso == SIM_GSO_PIECES;
    sim_link_send(sim_world_link(w, n->index, to.node, x->number), frame,
                  sim_port_pass(&n->out[x->number], w->now_ns, sim_wire_bytes(bytes)));
}

/* A frame of several chunks is split, as a network card does it. */
static void send_chunks(struct sim_wire *x, const struct emx_txframe *f)
{
    struct sim_world *w = world_of(x);
    struct emx_tso_split split;
    unsigned n;

    if (!f->chunk_bytes) {
        send_one(x, f);
        return;
    }
    if (!w->tso || !f->gso || f->head_bytes != sizeof(struct emx_place_head) ||
        emx_txframe_chunks(f) > EMX_WIRE_JOIN_BYTES / (sizeof(struct emx_place_head) + f->chunk_bytes))
        sim_fail(w, "n%u: %u chunks in a frame that does not go as a TSO packet", x->node->index,
                 emx_txframe_chunks(f));
    n = emx_tso_split(&split, f);
    w->tso_frames += n;
    w->tso_packets++;
    if (w->gso == SIM_GSO_NO_TSO) {
        w->gso_frames += n;
        w->data_frames += n;
        return;
    }
    x->tso = true;
    for (unsigned i = 0; i < n; i++) {
        x->tso_first = !i;
        send_one(x, &split.f[i]);
    }
    x->tso = false;
}

/* How many frames the port takes now. */
static unsigned wire_tx_room(struct emx_wire *base)
{
    struct sim_wire *x = wire_of(base);
    size_t full = sim_wire_bytes(world_of(x)->frame_bytes[x->number]);
    unsigned room = 0;

    while (room < EMX_WIRE_BATCH && sim_port_has_room(&x->node->out[x->number], world_of(x)->now_ns, (room + 1) * full))
        room++;
    x->room = room;
    return room;
}

/* Of a large message, with its data apart. Hellos and welcomes have a body, too, and may be as long. */
static bool is_data(const struct emx_txframe *f)
{
    return f->body_bytes && is_part((const void *)((const uint8_t *)f->head + sim_tag_bytes(f->head, f->head_bytes)));
}

/* Frames of large messages that go together are not cut in two by the end of a batch when more follow. */
static void check_whole(struct sim_wire *x, const struct emx_txframe *f, unsigned n)
{
    unsigned len_bytes = f->head_bytes + f->body_bytes, joined = EMX_WIRE_JOIN_BYTES / len_bytes;

    for (unsigned i = 0; i < n; i++)
        if (f[i].chunk_bytes || !is_data(&f[i]) || f[i].head_bytes + f[i].body_bytes != (int)len_bytes)
            return;
    if (joined <= x->room && n % joined && n + joined > x->room && emx_engine_wants_output(x->node->engine, x->link))
        sim_fail(world_of(x), "n%u: %u frames of %u that %u go together of", x->node->index, n, x->room, joined);
}

static void wire_tx(struct emx_wire *base, const struct emx_txframe *f, unsigned n)
{
    struct sim_wire *x = wire_of(base);
    unsigned frames = 0;

    for (unsigned i = 0; i < n; i++)
        frames += emx_txframe_chunks(&f[i]);
    if (frames > x->room)
        sim_fail(world_of(x), "n%u: %u frames where %u were asked for", x->node->index, frames, x->room);
    check_whole(x, f, n);
    x->room = 0;
    for (unsigned i = 0; i < n; i++)
        send_chunks(x, &f[i]);
}

/* Memory of its own for the frame, so that writing past its end shows. */
static void *wire_reserve(struct emx_wire *base, const struct emx_wire_addr *to, uint32_t len_bytes)
{
    struct sim_wire *x = wire_of(base);

    if (!wire_tx_room(base) || emx_rng_chance(&world_of(x)->rng, UNPLACED_PPM))
        return NULL;
    x->placing_to = *to;
    x->placing_bytes = len_bytes;
    x->placing = malloc(len_bytes);
    if (!x->placing)
        abort();
    return x->placing;
}

static void wire_commit(struct emx_wire *base)
{
    struct sim_wire *x = wire_of(base);
    const struct emx_txframe f = {.to = &x->placing_to, .head = x->placing, .head_bytes = (uint16_t)x->placing_bytes};

    send_one(x, &f);
    free(x->placing);
    x->placing = NULL;
}

/* ---- Reads ---- */

static int read_now(struct sim_wire *x, const struct emx_wire_read *r)
{
    struct sim_node *n = x->node;
    struct sim_world *w = n->world;
    int status = ETHMX_ERR_UNREACHABLE;
    struct sim_place from;

    memcpy(&from, r->from, sizeof(from));
    if (from.node >= w->node_count || !w->reads)
        sim_fail(w, "n%u: reads where no route said so", n->index);
    else if (w->read && w->nodes[from.node].engine && w->nodes[from.node].party == from.party &&
             !emx_rng_chance(&w->rng, w->read_fail_ppm))
        status = w->read(w->read_arg, n, &w->nodes[from.node], r);
    sim_trace(w, "n%u reads %zu bytes from n%u: %d", n->index, r->len_bytes, from.node, status);
    sim_hash(w, (uint64_t)from.node << 48 ^ (uint64_t)status << 32 ^ r->len_bytes);
    sim_node_works(n, w->read_bps ? (uint64_t)r->len_bytes * 8 * SIM_S / w->read_bps : 0);
    return status;
}

static struct emx_view *wire_view(struct emx_wire *base, const struct emx_wire_addr *to, uint64_t key)
{
    struct sim_node *n = wire_of(base)->node;
    struct sim_world *w = n->world;
    struct sim_place at;

    memcpy(&at, to, sizeof(at));
    if (!w->view || at.node >= w->node_count || !w->nodes[at.node].engine || w->nodes[at.node].party != at.party)
        return NULL;
    return w->view(w->view_arg, n, &w->nodes[at.node], key);
}

/* Begins a read that takes its time, or goes on with it. */
static bool takes_time(struct sim_wire *x, const struct emx_wire_read *r)
{
    struct sim_world *w = world_of(x);

    if (!x->reads && (!w->read_slow_ns || !r->lasting || emx_rng_below(&w->rng, 2)))
        return false;
    if (!x->reads) {
        x->reads = true;
        x->read_until_ns = w->now_ns + 1 + emx_rng_below(&w->rng, w->read_slow_ns);
        sim_trace(w, "n%u reads slowly, until %" PRIu64, x->node->index, x->read_until_ns);
    }
    if (w->now_ns < x->read_until_ns)
        return true;
    x->reads = false;
    memset(r->local, 0xdb, r->len_bytes); /* who is told of the end must not have let go of the memory before */
    return false;
}

static int wire_read(struct emx_wire *base, const struct emx_wire_read *r)
{
    struct sim_wire *x = wire_of(base);

    return takes_time(x, r) ? ETHMX_INPROGRESS : read_now(x, r);
}

static int wire_read_start(struct emx_wire *base, const struct emx_wire_read *r)
{
    struct sim_wire *x = wire_of(base);
    struct sim_world *w = world_of(x);
    struct sim_place from;
    int status;

    memcpy(&from, r->from, sizeof(from));
    if (from.node >= w->node_count || !w->export_min_bytes) {
        sim_fail(w, "n%u: a device reads where no route said so", x->node->index);
        return ETHMX_ERR_UNREACHABLE;
    }
    status = sim_device_read(x->node, &w->nodes[from.node], from.party, r);
    sim_trace(w, "n%u's device is to read %zu bytes from n%u: %d", x->node->index, r->len_bytes, from.node, status);
    return status;
}

static bool wire_read_end(struct emx_wire *base, struct emx_wire_read_end *end_p)
{
    return sim_device_ended(wire_of(base)->node, end_p);
}

static int wire_export(struct emx_wire *base, struct emx_wire_export *l, void **held)
{
    return sim_device_export(wire_of(base)->node, l, held);
}

static void wire_unexport(struct emx_wire *base, void **held, const void *until)
{
    sim_device_unexport(wire_of(base)->node, held, until);
}

static void wire_disconnect(struct emx_wire *base, const struct emx_wire_addr *to, const uint64_t *key)
{
    sim_device_disconnect(wire_of(base)->node, to, key);
}

static bool wire_unreachable(struct emx_wire *base, struct emx_wire_addr *to_p)
{
    struct sim_wire *x = wire_of(base);

    if (!x->lost_count)
        return false;
    *to_p = x->lost[--x->lost_count];
    return true;
}

/* ---- Life ---- */

static void wire_query(const struct emx_wire *base, struct emx_wire_attr *attr_p)
{
    const struct sim_wire *x = wire_of(base);
    const struct sim_world *w = world_of(x);
    bool lends = !w->lend_first || !x->number;

    *attr_p = (struct emx_wire_attr){.frame_bytes = w->frame_bytes[x->number],
                                     .cheap_poll = !x->syscall_poll,
                                     .reliable = w->reliable,
                                     .guarded = w->reliable,
                                     .connected = w->connected && lends,
                                     .reads = w->reads,
                                     .export_min_bytes = lends ? w->export_min_bytes : 0,
                                     .export_costs = w->export_costs};
}

static int wire_open(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    const struct sim_wire_params *p = (const void *)params;
    struct sim_wire *x = calloc(1, sizeof(*x));
    unsigned kind = p->chance % 4;

    (void)why, (void)why_len_bytes;
    if (!x)
        abort();
    x->ops = emx_wire_sim;
    x->ops.part += p->number;
    if (kind > 1) {
        x->ops.peek = NULL;
        x->ops.consume = NULL;
    }
    x->syscall_poll = kind == 3;
    x->wire.ops = &x->ops;
    x->node = p->node;
    x->number = p->number;
    x->link = p->link;
    x->tail = &x->ring;
    sim_packet_init(&x->packet, params->placer, &p->node->stats, emx_mix64(p->chance + p->number));
    *w_p = &x->wire;
    return ETHMX_OK;
}

/* Frees also what has not been taken. */
static void wire_close(struct emx_wire *base)
{
    struct sim_wire *x = wire_of(base);

    while (x->ring)
        drop_first(x);
    sim_packet_fini(&x->packet);
    free(x->placing);
    free(x);
}

const struct emx_wire_ops emx_wire_sim = {.name = "sim",
                                          .help = "the network of a simulated world",
                                          .part = SIM_PART,
                                          .open = wire_open,
                                          .close = wire_close,
                                          .query = wire_query,
                                          .describe = sim_way_describe,
                                          .ways = sim_way_find,
                                          .tx_room = wire_tx_room,
                                          .tx = wire_tx,
                                          .reserve = wire_reserve,
                                          .commit = wire_commit,
                                          .rx = wire_rx,
                                          .rx_return = wire_rx_return,
                                          .peek = wire_peek,
                                          .consume = wire_consume,
                                          .read = wire_read,
                                          .view = wire_view,
                                          .export = wire_export,
                                          .unexport = wire_unexport,
                                          .read_start = wire_read_start,
                                          .read_end = wire_read_end,
                                          .disconnect = wire_disconnect,
                                          .unreachable = wire_unreachable};

/* ---- The network ---- */

void sim_wire_arrive(struct sim_wire *x, struct sim_frame *f)
{
    f->next = NULL;
    *x->tail = f;
    x->tail = &f->next;
    x->node->ring_bytes += f->len_bytes;
}

void sim_wire_lose(struct sim_wire *x, const struct emx_wire_addr *to)
{
    if (x->lost_count == SIM_LOST_MAX)
        abort();
    x->lost[x->lost_count++] = *to;
}
