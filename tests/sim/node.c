/* SPDX-License-Identifier: BSD-3-Clause */
#include "node.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "place.h"
#include "world.h"

#define WANTS_EVERY 8 /* asked for output although it wants none, to see that this is true */

/* ---- Life ---- */

void sim_node_init(struct sim_node *n, struct sim_world *w, unsigned index)
{
    memset(n, 0, sizeof(*n));
    n->world = w;
    n->index = index;
    n->pace = SIM_GONE;
    n->wire_count = w->wire_count;
    for (unsigned i = 0; i < w->wire_count; i++)
        n->wires[i] = i;
    n->ring_tail = &n->ring;
    n->ended_tail = &n->ended;
    n->wake_ns = EMX_NEVER;
    n->slow_wire = EMX_ENGINE_LINKS;
}

static void empty_ring(struct sim_node *n)
{
    struct sim_frame *f;

    while ((f = n->ring)) {
        n->ring = f->next;
        sim_frame_free(f);
    }
    n->ring_tail = &n->ring;
    n->ring_bytes = 0;
}

/* As random as the world allows. */
static void secret_of(uint32_t id, struct emx_address *a)
{
    for (unsigned i = 0; a->has_secret && i < sizeof(a->secret); i++)
        a->secret[i] = emx_mix64(id + i);
}

static void make_address(struct sim_node *n)
{
    struct sim_world *w = n->world;
    struct emx_address a = {.cookie = w->cookie,
                            .host_id = n->index + 1,
                            .wires = EMX_AW_PACKET,
                            .ethertype = 0x88b5,
                            .packet_bytes = w->frame_bytes[0],
                            .if_count = 1};

    a.id = w->party[n->party].id;
    a.auth = a.has_secret = w->auth;
    secret_of(a.id, &a);
    a.ifs[0].mac[0] = 2;
    a.ifs[0].mac[5] = n->index;
    a.ifs[0].frame_bytes = w->frame_bytes[0];
    snprintf(a.host, sizeof(a.host), "n%u", n->index);
    n->addr_bytes = emx_address_encode(&a, n->addr);
}

static unsigned new_party(struct sim_node *n)
{
    struct sim_world *w = n->world;
    unsigned party = w->party_count++;
    uint32_t id = emx_mix64(w->seed ^ emx_mix64(party + 7));

    if (party == SIM_PARTIES_MAX)
        abort();
    w->party[party] = (struct sim_party){.id = id ? id : 1, .node = n->index};
    return party;
}

void sim_node_start(struct sim_node *n)
{
    struct sim_world *w = n->world;
    struct emx_engine_params p = {.cfg = &n->cfg, .stats = &n->stats, .alloc = &n->memory.alloc};
    struct emx_address self;
    char err[256] = "";

    n->party = new_party(n);
    n->cfg = w->cfg;
    if (w->lend_mixed)
        n->cfg.p_verbs_move = emx_mix64(w->seed + n->party) % 2 ? EMX_MOVE_WRITE : EMX_MOVE_READ;
    memset(n->peers, 0, sizeof(n->peers));
    memset(&n->stats, 0, sizeof(n->stats));
    sim_memory_init(&n->memory, w->skew_bytes);
    n->memory.fail_first = n->fail_first;
    n->memory.fail_end = n->fail_end;
    make_address(n);
    if (!emx_address_decode(&self, n->addr, n->addr_bytes, err, sizeof(err))) {
        sim_fail(w, "n%u: the address it was made with is refused: %s", n->index, err);
        return;
    }
    p.self = &self;
    p.seed = emx_mix64(w->seed + n->party);
    p.guarded_links = p.reliable_links = w->reliable ? UINT_MAX : 0;
    if (emx_engine_create(&p, &n->engine) != ETHMX_OK) {
        if (!n->memory.failures)
            sim_fail(w, "n%u: no engine", n->index);
        else if (n->memory.live_blocks)
            sim_fail(w, "n%u: an engine that could not be made left memory behind", n->index);
        n->engine = NULL;
        return;
    }
    n->pace = SIM_POLLS;
}

void sim_node_crash(struct sim_node *n)
{
    n->pace = SIM_GONE;
    n->slow_wire = EMX_ENGINE_LINKS;
    empty_ring(n);
    memset(n->resolving, 0, sizeof(n->resolving));
    if (!n->engine)
        return;
    sim_trace(n->world, "n%u is gone", n->index);
    sim_device_forget(n);
    emx_engine_destroy(n->engine);
    n->engine = NULL;
    if (n->memory.live_blocks)
        sim_fail(n->world, "n%u: the engine left %" PRIu64 " blocks, %zu bytes of memory behind", n->index,
                 n->memory.live_blocks, n->memory.live_bytes);
}

void sim_node_fini(struct sim_node *n)
{
    n->pace = SIM_GONE;
    empty_ring(n);
    sim_device_forget(n);
    if (n->engine)
        emx_engine_destroy(n->engine);
    n->engine = NULL;
}

/* ---- Peers ---- */

static struct emx_peer *find_peer(struct sim_node *n, unsigned party)
{
    struct sim_world *w = n->world;
    struct sim_node *other = &w->nodes[w->party[party].node];
    struct emx_address a;
    struct emx_peer *peer = NULL;
    uint8_t addr[ETHMX_ADDRESS_MAX];
    char err[256] = "";
    int rc;

    if (!emx_address_decode(&a, other->addr, other->addr_bytes, err, sizeof(err)))
        return NULL;
    a.id = w->party[party].id; /* perhaps of an engine that is gone */
    secret_of(a.id, &a);
    rc = emx_engine_peer(n->engine, addr, emx_address_encode(&a, addr), &peer, err, sizeof(err));
    if (rc == ETHMX_OK)
        return peer;
    if (rc != ETHMX_ERR_NO_MEMORY)
        sim_fail(w, "n%u: the address of n%u is refused (%d): %s", n->index, other->index, rc, err);
    return NULL;
}

struct emx_peer *sim_node_peer(struct sim_node *n, unsigned party)
{
    if (!n->peers[party])
        n->peers[party] = find_peer(n, party);
    return n->peers[party];
}

unsigned sim_node_party(struct sim_node *n, const void *peer)
{
    struct emx_peer *p = (void *)(uintptr_t)peer;
    int party;

    if (p && emx_peer_user(p)) /* looked up before */
        return (uintptr_t)emx_peer_user(p) - 1;
    party = p ? sim_world_party(n->world, emx_peer_address(n->engine, p)->id) : -1;
    if (party < 0) {
        sim_fail(n->world, "n%u: the engine tells of a peer that nobody knows", n->index);
        return 0;
    }
    emx_peer_set_user(p, (void *)(uintptr_t)(party + 1));
    return party;
}

/* ---- Waking ---- */

static void wake(void *arg, uint64_t at_ns);

static void wake_at(struct sim_node *n, uint64_t at_ns)
{
    if (at_ns >= n->wake_ns)
        return;
    n->wake_ns = at_ns;
    sim_queue_put(&n->world->queue, at_ns, wake, n, at_ns);
}

/* The event may be one that an earlier one has replaced. */
static void wake(void *arg, uint64_t at_ns)
{
    struct sim_node *n = arg;

    if (at_ns != n->wake_ns)
        return;
    n->wake_ns = EMX_NEVER;
    sim_node_pump(n);
}

static void resume(void *arg, uint64_t at_ns)
{
    struct sim_node *n = arg;

    if (n->pace == SIM_GONE || n->pace_until_ns != at_ns)
        return;
    n->pace = SIM_POLLS;
    sim_trace(n->world, "n%u polls again", n->index);
    sim_node_pump(n);
    if (n->program && n->program->resumed)
        n->program->resumed(n->program_arg, n);
}

static void beat(void *arg, uint64_t at_ns)
{
    struct sim_node *n = arg;

    if (n->pace != SIM_COMPUTES || n->pace_until_ns != at_ns)
        return;
    sim_node_pump(n);
    if (n->world->now_ns + n->cfg.p_heartbeat < at_ns)
        sim_queue_put(&n->world->queue, n->world->now_ns + n->cfg.p_heartbeat, beat, n, at_ns);
}

void sim_node_pace(struct sim_node *n, enum sim_pace pace, uint64_t until_ns)
{
    struct sim_world *w = n->world;

    if (n->pace == SIM_GONE)
        return;
    sim_trace(w, "n%u %s until %.3f ms", n->index, pace == SIM_STOPPED ? "is stopped" : "computes",
              (until_ns - SIM_S) / 1e6);
    n->pace = pace;
    n->pace_until_ns = until_ns;
    n->wake_ns = EMX_NEVER;
    sim_queue_put(&w->queue, until_ns, resume, n, until_ns);
    if (pace == SIM_COMPUTES && n->cfg.p_heartbeat)
        sim_queue_put(&w->queue, w->now_ns + n->cfg.p_heartbeat, beat, n, until_ns);
}

void sim_node_arrive(struct sim_node *n, struct sim_frame *f)
{
    struct sim_world *w = n->world;

    if (n->pace == SIM_GONE || (!w->reliable && n->ring_bytes + f->len_bytes > n->cfg.p_ring)) {
        n->ring_lost++;
        sim_frame_free(f);
        return;
    }
    f->next = NULL;
    *n->ring_tail = f;
    n->ring_tail = &f->next;
    n->ring_bytes += f->len_bytes;
    if (n->pace != SIM_POLLS)
        return;
    if (n->poll_ns)
        wake_at(n, w->now_ns + emx_rng_below(&w->rng, n->poll_ns + 1));
    else
        sim_node_pump(n);
}

/* ---- Pump: frames in ---- */

static uint64_t counter(const struct sim_node *n, unsigned i)
{
    return ((const uint64_t *)(const void *)&n->stats)[i];
}

/* The engine counts each frame once: as accepted, or by the reason that it gives. (An accepted one may give others
 * their turn, which had been held, and are dropped only now.) */
static enum emx_drop take_frame(struct sim_node *n, const struct sim_frame *f)
{
    struct sim_world *w = n->world;
    uint64_t before[EMX_C_COUNT];
    enum emx_drop drop;
    unsigned reason;

    memcpy(before, &n->stats, sizeof(before));
    drop = emx_engine_input(n->engine, f->wire, f->data, f->len_bytes, w->now_ns);
    if (drop == EMX_ACCEPTED && f->joined)
        emx_engine_joined(n->engine, f->data, EMX_WIRE_BATCH);
    if (drop == EMX_ACCEPTED && f->marked)
        emx_engine_marked(n->engine, f->data);
    reason = drop == EMX_ACCEPTED ? EMX_C_frames_received : drop;
    sim_hash(w, (uint64_t)n->index << 32 | reason);
    if (drop != EMX_ACCEPTED)
        sim_trace(w, "n%u drops a frame of n%u: reason %u", n->index, f->src, reason - EMX_C_drop_short);
    if (reason >= EMX_C_COUNT || counter(n, reason) != before[reason] + 1)
        sim_fail(w, "n%u: a frame (result %d) is not in its counter", n->index, drop);
    for (unsigned i = EMX_C_drop_short; drop != EMX_ACCEPTED && i <= EMX_C_drop_memory; i++)
        if (i != reason && counter(n, i) != before[i])
            sim_fail(w, "n%u: a frame (result %d) is in the counter of another reason, too", n->index, drop);
    return drop;
}

/* The short way, as the pump goes it over wires that show where a frame lies: one receive in a round, told at the end
 * of it. What the engine does not take so must leave no trace. */
static bool take_quick(struct sim_node *n, const struct sim_frame *f)
{
    struct sim_world *w = n->world;
    struct emx_stats before = n->stats;

    if (n->pace != SIM_POLLS || n->quick || f->joined || f->marked || emx_engine_has_news(n->engine) ||
        emx_rng_chance(&w->rng, 300000))
        return false;
    n->quick = (w->reliable ? emx_engine_input_short : emx_engine_input_whole)(n->engine, f->wire, f->data,
                                                                               f->len_bytes, w->now_ns);
    if (!n->quick && memcmp(&before, &n->stats, sizeof(before)))
        sim_fail(w, "n%u: a frame that was not taken the short way has left a trace", n->index);
    if (!n->quick)
        return false;
    sim_hash(w, (uint64_t)n->index << 32 | EMX_C_frames_received);
    if (n->stats.frames_received != before.frames_received + 1)
        sim_fail(w, "n%u: a frame that was taken the short way is not counted", n->index);
    return true;
}

static void input(struct sim_node *n)
{
    struct sim_frame *f;

    while ((f = n->ring)) {
        if (!take_quick(n, f) && take_frame(n, f) == EMX_DROP_MEMORY && n->world->reliable) {
            n->stuck++; /* nobody sends it again: it is offered once more */
            wake_at(n, n->world->now_ns + SIM_MS);
            return;
        }
        n->ring = f->next;
        if (!n->ring)
            n->ring_tail = &n->ring;
        n->ring_bytes -= f->len_bytes;
        sim_frame_free(f);
    }
}

/* ---- Pump: frames out ---- */

static void check_sent(struct sim_node *n, unsigned wire, const struct emx_txframe *f)
{
    struct sim_world *w = n->world;
    size_t len_bytes = (size_t)f->head_bytes + f->body_bytes, tag_bytes = sim_tag_bytes(f->head, f->head_bytes);
    const struct emx_frame *h = (const void *)((const uint8_t *)f->head + tag_bytes);
    struct sim_place to;
    int party;

    if (!tag_bytes != !(w->auth && !w->reliable))
        sim_fail(w, "n%u: a frame with or without a tag, against what is set", n->index);
    memcpy(&to, f->to, sizeof(to));
    if (to.wire != wire || to.node >= w->node_count)
        sim_fail(w, "n%u: a frame to a place that no route named", n->index);
    else if (len_bytes > w->frame_bytes[wire] || f->head_bytes < tag_bytes + sizeof(*h))
        sim_fail(w, "n%u: a frame of %zu bytes, head %u; the route takes %u", n->index, len_bytes, f->head_bytes,
                 w->frame_bytes[wire]);
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
    return h->type == EMX_F_data || h->type == EMX_F_more;
}

static void send_one(struct sim_node *n, unsigned wire, const struct emx_txframe *f)
{
    struct sim_world *w = n->world;
    size_t bytes = (size_t)f->head_bytes + f->body_bytes;
    struct sim_frame *frame;
    struct sim_place to;

    check_sent(n, wire, f);
    if (sim_failed(w))
        return;
    memcpy(&to, f->to, sizeof(to));
    w->data_frames += is_part((const void *)((const uint8_t *)f->head + sim_tag_bytes(f->head, f->head_bytes)));
    w->bulk_frames += f->bulk;
    if (f->bulk && bytes > w->bulk_bytes)
        sim_fail(w, "n%u: a frame of %zu bytes for superframes, which take %u", n->index, bytes, w->bulk_bytes);
    if (f->bulk && w->bulk == SIM_BULK_LOST)
        return;
    frame = sim_frame_new(n->index, to.node, wire, f->head, f->head_bytes, f->body, f->body_bytes);
    frame->joined = f->bulk && w->bulk == SIM_BULK_JOINED;
    sim_link_send(sim_world_link(w, n->index, to.node, wire), frame,
                  sim_port_pass(&n->out[wire], w->now_ns, sim_wire_bytes(bytes)));
}

/* How many frames the port takes now. */
static unsigned tx_room(const struct sim_node *n, unsigned wire)
{
    size_t full = sim_wire_bytes(n->world->frame_bytes[wire]);
    unsigned room = 0;

    while (room < EMX_WIRE_BATCH && sim_port_has_room(&n->out[wire], n->world->now_ns, (room + 1) * full))
        room++;
    return room;
}

/* Of a large message, with its data apart. Hellos and welcomes have a body, too, and may be as long. */
static bool is_data(const struct emx_txframe *f)
{
    return f->body_bytes && is_part((const void *)((const uint8_t *)f->head + sim_tag_bytes(f->head, f->head_bytes)));
}

/* Frames of large messages that go together are not cut in two by the end of a batch when more follow. */
static void check_whole(struct sim_node *n, unsigned wire, const struct emx_txframe *f, unsigned got, unsigned room)
{
    unsigned len_bytes = f->head_bytes + f->body_bytes, joined = EMX_WIRE_JOIN_BYTES / len_bytes;

    for (unsigned i = 0; i < got; i++)
        if (!is_data(&f[i]) || f[i].head_bytes + f[i].body_bytes != (int)len_bytes)
            return;
    if (joined <= room && got % joined && got + joined > room && emx_engine_wants_output(n->engine, wire))
        sim_fail(n->world, "n%u: %u frames of %u that %u go together of", n->index, got, room, joined);
}

/* Returns true when the engine has no more for this wire. */
static bool output_wire(struct sim_node *n, unsigned wire)
{
    struct sim_world *w = n->world;
    struct emx_txframe f[EMX_WIRE_BATCH];
    unsigned room, got;
    bool wants;

    while (!sim_failed(w)) {
        wants = emx_engine_wants_output(n->engine, wire);
        if (!wants && n->checks % WANTS_EVERY)
            return true;
        room = tx_room(n, wire);
        if (!room) {
            n->stats.wire_full++;
            return !wants;
        }
        got = emx_engine_output(n->engine, wire, f, room, w->now_ns);
        if (!got)
            return true;
        if (!wants)
            sim_fail(w, "n%u: the engine had frames for wire %u without wanting output", n->index, wire);
        if (got > room)
            sim_fail(w, "n%u: %u frames where %u were asked for", n->index, got, room);
        check_whole(n, wire, f, got, room);
        for (unsigned i = 0; i < got && !sim_failed(w); i++)
            send_one(n, wire, &f[i]);
    }
    return true;
}

static bool output(struct sim_node *n)
{
    bool all = true;

    for (unsigned i = 0; i < n->world->wire_count; i++)
        all &= output_wire(n, i);
    return all;
}

/* A frame that was written to memory of the wire's, which it now sends. */
static void send_written(struct sim_node *n, unsigned link, struct emx_txframe *f, uint8_t *frame, uint32_t len_bytes)
{
    f->head = frame;
    f->head_bytes = (uint16_t)len_bytes;
    send_one(n, link, f);
    free(frame);
}

/* As over a wire that gives memory for the frame. false: it must be sent otherwise. */
static bool send_placed(struct sim_node *n, struct emx_peer *peer, const struct emx_op_args *a, unsigned link)
{
    struct sim_world *w = n->world;
    struct emx_txframe f = {.head = NULL};
    uint32_t len_bytes = emx_engine_place(peer, a, &f.to);
    uint8_t *frame;

    if (!len_bytes || emx_rng_chance(&w->rng, 300000))
        return false;
    frame = malloc(len_bytes);
    emx_engine_write_placed(peer, a, frame);
    send_written(n, link, &f, frame, len_bytes);
    emx_engine_send_placed(peer, a, w->now_ns);
    return true;
}

/* The same with a message of several frames; the wire may have no room for any of them. */
static bool send_all_placed(struct sim_node *n, struct emx_peer *peer, const struct emx_op_args *a, int *rc_p)
{
    struct sim_world *w = n->world;
    struct emx_placing p;
    uint32_t len_bytes;
    unsigned link;

    if (!emx_engine_place_begin(n->engine, peer, a, &p, &link))
        return false;
    for (struct emx_txframe f = {.head = NULL};
         !emx_rng_chance(&w->rng, 100000) && (len_bytes = emx_engine_place_next(&p, &f.to));) {
        uint8_t *frame = malloc(len_bytes);

        emx_engine_place_fill(&p, frame, len_bytes);
        send_written(n, link, &f, frame, len_bytes);
    }
    if (!p.done_bytes)
        return false;
    *rc_p = emx_engine_place_end(&p, w->now_ns);
    return true;
}

int sim_node_send(struct sim_node *n, struct emx_peer *peer, const struct emx_op_args *a)
{
    struct sim_world *w = n->world;
    struct emx_txframe f;
    unsigned link;
    int rc;

    if (emx_rng_chance(&w->rng, 300000))
        return emx_engine_send(n->engine, peer, a, w->now_ns);
    if (!emx_engine_quick(peer, a, &link) || !tx_room(n, link))
        return send_all_placed(n, peer, a, &rc) ? rc : emx_engine_send(n->engine, peer, a, w->now_ns);
    if (send_placed(n, peer, a, link))
        return ETHMX_OK;
    rc = emx_engine_send_quick(peer, a, &f, w->now_ns);
    if (rc == ETHMX_OK)
        send_one(n, link, &f);
    return rc;
}

/* ---- Pump: reads ---- */

static void read_one(struct sim_node *n, const struct emx_read *r)
{
    struct sim_world *w = n->world;
    int status = ETHMX_ERR_UNREACHABLE;
    struct sim_place from;

    memcpy(&from, r->from, sizeof(from));
    if (r->whole && from.node < w->node_count && w->lend_min_bytes) {
        status = sim_device_read(n, &w->nodes[from.node], from.party, r);
        sim_trace(w, "n%u's device is to read %zu bytes from n%u: %d", n->index, r->len_bytes, from.node, status);
        emx_engine_read_started(n->engine, r, status, w->now_ns);
        return;
    }
    if (from.node >= w->node_count || !w->reads || r->whole)
        sim_fail(w, "n%u: reads where no route said so", n->index);
    else if (w->read && w->nodes[from.node].engine && w->nodes[from.node].party == from.party &&
             !emx_rng_chance(&w->rng, w->read_fail_ppm))
        status = w->read(w->read_arg, n, &w->nodes[from.node], r);
    sim_trace(w, "n%u reads %zu bytes from n%u: %d", n->index, r->len_bytes, from.node, status);
    sim_hash(w, (uint64_t)from.node << 48 ^ (uint64_t)status << 32 ^ r->len_bytes);
    n->read_until_ns = w->now_ns + (w->read_bps ? (uint64_t)r->len_bytes * 8 * SIM_S / w->read_bps : 0);
    emx_engine_read_done(n->engine, r, status, w->now_ns);
}

/* Begins a read that takes its time. */
static bool begin_slowly(struct sim_node *n, unsigned wire, const struct emx_read *r)
{
    struct sim_world *w = n->world;

    if (!w->read_slow_ns || !r->lasting || emx_rng_below(&w->rng, 2))
        return false;
    n->slow = *r;
    n->slow_wire = wire;
    n->read_until_ns = w->now_ns + 1 + emx_rng_below(&w->rng, w->read_slow_ns);
    sim_trace(w, "n%u reads slowly, until %" PRIu64, n->index, n->read_until_ns);
    return true;
}

/* Who is told of the read's end must not have let go of the memory before. */
static void end_slowly(struct sim_node *n)
{
    n->slow_wire = EMX_ENGINE_LINKS;
    memset(n->slow.local, 0xdb, n->slow.len_bytes);
    read_one(n, &n->slow);
}

static bool read_wire(struct sim_node *n, unsigned wire)
{
    struct emx_read r;
    bool wants = emx_engine_wants_read(n->engine, wire);

    if (sim_failed(n->world) || n->read_until_ns > n->world->now_ns)
        return false;
    if (n->slow_wire == wire) {
        if (!wants)
            sim_fail(n->world, "n%u: the engine has forgotten a read", n->index);
        end_slowly(n);
        return true;
    }
    if (!emx_engine_read(n->engine, wire, &r)) {
        if (wants)
            sim_fail(n->world, "n%u: the engine wanted to read, and then did not", n->index);
        return false;
    }
    if (!wants)
        sim_fail(n->world, "n%u: the engine reads without having said so", n->index);
    if (!begin_slowly(n, wire, &r))
        read_one(n, &r);
    return true;
}

/* Returns whether anything was read. */
static bool take_reads(struct sim_node *n)
{
    bool any = false;

    for (unsigned i = 0; i < n->world->wire_count; i++)
        any |= read_wire(n, i);
    return any;
}

static bool wants_reads(const struct sim_node *n)
{
    for (unsigned i = 0; i < n->world->wire_count; i++)
        if (emx_engine_wants_read(n->engine, i))
            return true;
    return false;
}

/* ---- Pump: routes, completions, active messages ---- */

static void tell_routes(struct sim_node *n, struct emx_peer *peer)
{
    struct sim_world *w = n->world;
    struct emx_route r[EMX_ENGINE_LINKS];
    unsigned party = sim_node_party(n, peer), to = w->party[party].node;

    memset(r, 0, sizeof(r));
    for (unsigned i = 0; i < n->wire_count; i++) {
        struct sim_place place = {.node = to, .wire = n->wires[i], .party = party};

        r[i].link = n->wires[i];
        r[i].frame_bytes = w->frame_bytes[n->wires[i]];
        r[i].bulk_bytes = (uint16_t)w->bulk_bytes;
        r[i].connected = w->connected && !(w->lend_first && n->wires[i]);
        r[i].reads = w->reads;
        r[i].lend_min_bytes = w->lend_first && n->wires[i] ? 0 : w->lend_min_bytes;
        r[i].lend_costs = w->lend_costs;
        r[i].reliable = w->reliable;
        memcpy(&r[i].to, &place, sizeof(place));
        snprintf(r[i].name, sizeof(r[i].name), "sim w%u", n->wires[i]);
    }
    emx_engine_routes(n->engine, peer, r, n->wire_count, n->wire_count ? "" : "the simulated host has no wire",
                      w->now_ns);
}

void sim_node_lose(struct sim_node *n, const struct sim_node *other, unsigned wire)
{
    struct sim_place place = {.node = other->index, .wire = wire, .party = other->party};
    struct emx_wire_addr to;

    if (!n->engine)
        return;
    memset(&to, 0, sizeof(to));
    memcpy(&to, &place, sizeof(place));
    sim_trace(n->world, "n%u: wire %u does not reach n%u any more", n->index, wire, other->index);
    emx_engine_unreached(n->engine, wire, &to, n->world->now_ns);
    if (n->pace != SIM_STOPPED)
        sim_node_pump(n);
}

static void resolved(void *arg, uint64_t slot)
{
    struct sim_node *n = arg;
    struct emx_peer *peer = n->resolving[slot];

    n->resolving[slot] = NULL;
    if (!peer || n->pace == SIM_GONE)
        return;
    tell_routes(n, peer);
    if (n->pace != SIM_STOPPED)
        sim_node_pump(n);
}

static void resolve(struct sim_node *n, struct emx_peer *peer)
{
    struct sim_world *w = n->world;
    unsigned slot = 0;

    while (slot < SIM_RESOLVING && n->resolving[slot])
        slot++;
    if (!w->resolve_ns || slot == SIM_RESOLVING) {
        tell_routes(n, peer);
        return;
    }
    n->resolving[slot] = peer;
    sim_queue_put(&w->queue, w->now_ns + emx_rng_below(&w->rng, w->resolve_ns), resolved, n, slot);
}

static void hear(struct sim_node *n, const struct emx_event *ev)
{
    static const char *const name[] = {
        "wants routes", "is connected", "lost a route", "notes", "failed", "is closed", "takes shorter frames only"};
    struct sim_world *w = n->world;
    unsigned party = sim_node_party(n, ev->peer);

    sim_trace(w, "n%u: peer n%u (party %u) %s %d %.*s", n->index, w->party[party].node, party, name[ev->type],
              ev->status, (int)sizeof(ev->text), ev->type == EMX_EVENT_ROUTES ? "" : ev->text);
    sim_hash(w, (uint64_t)party << 8 | ev->type);
    if (ev->type == EMX_EVENT_ROUTES)
        resolve(n, ev->peer);
    if (ev->type == EMX_EVENT_CLOSED)
        n->closed_peers++;
    if (ev->type == EMX_EVENT_FAILED) {
        n->failed_peers++;
        memcpy(n->failed_text, ev->text, sizeof(n->failed_text));
        if (!ev->text[0] || ev->status >= 0)
            sim_fail(w, "n%u: a peer failed with status %d and text '%s'", n->index, ev->status, ev->text);
    }
    if (n->program && n->program->event)
        n->program->event(n->program_arg, n, ev);
}

static bool take_events(struct sim_node *n)
{
    struct emx_event ev;
    bool any = false;

    while (!sim_failed(n->world) && n->engine && emx_engine_event(n->engine, &ev)) {
        any = true;
        hear(n, &ev);
    }
    return any;
}

static void tell(struct sim_node *n, struct emx_op *op)
{
    struct ethmx_result result = {0};
    ethmx_done_fn done;
    void *arg;

    if (sim_device_is_at(n, op))
        sim_fail(n->world, "n%u: an operation completes while the device is at its memory", n->index);
    emx_op_result(op, &done, &arg, &result);
    n->world->step++;
    if (done)
        done(arg, &result);
    emx_engine_op_free(n->engine, op);
}

static bool tell_quick(struct sim_node *n)
{
    struct emx_op *op = n->quick;

    n->quick = NULL;
    if (op && !sim_failed(n->world))
        tell(n, op);
    return op;
}

static bool take_completions(struct sim_node *n)
{
    struct emx_op *op;
    bool any = false;

    while (!sim_failed(n->world) && (op = emx_engine_completed(n->engine))) {
        any = true;
        tell(n, op);
    }
    return any;
}

static bool take_ams(struct sim_node *n)
{
    struct emx_arrival *msg;
    struct ethmx_am am;
    unsigned id;
    bool any = false;

    while (!sim_failed(n->world) && n->program && n->program->am) {
        memset(&am, 0, sizeof(am));
        msg = emx_engine_am(n->engine, &am, &id);
        if (!msg)
            break;
        any = true;
        n->world->step++;
        n->program->am(n->program_arg, n, msg, &am, id);
    }
    return any;
}

/* ---- Pump ---- */

static uint64_t room_at(const struct sim_node *n)
{
    uint64_t at_ns = EMX_NEVER, t;

    for (unsigned i = 0; i < n->world->wire_count; i++) {
        t = sim_port_room_at(&n->out[i], n->world->now_ns, sim_wire_bytes(n->world->frame_bytes[i]));
        if (t > n->world->now_ns && t < at_ns)
            at_ns = t;
    }
    return at_ns;
}

static void set_timer(struct sim_node *n, bool drained)
{
    struct sim_world *w = n->world;
    uint64_t deadline = emx_engine_deadline(n->engine);

    if (drained && deadline <= w->now_ns)
        sim_fail(w, "n%u: contract: output is drained, but the deadline is %" PRIu64 " ns in the past", n->index,
                 w->now_ns - deadline);
    if (n->pace != SIM_POLLS)
        return;
    if (wants_reads(n))
        wake_at(n, n->read_until_ns);
    if (!drained) {
        wake_at(n, room_at(n));
        if (deadline <= w->now_ns)
            return;
    }
    if (deadline != EMX_NEVER)
        wake_at(n, deadline);
}

void sim_node_pump(struct sim_node *n)
{
    struct sim_world *w = n->world;
    bool news, more, read, quick, drained = true;

    if (n->pumping || n->pace == SIM_GONE || n->pace == SIM_STOPPED || sim_failed(w))
        return;
    n->pumping = true;
    emx_engine_catch_up(n->engine);
    do {
        input(n);
        if (emx_engine_deadline(n->engine) <= w->now_ns)
            emx_engine_expire(n->engine, w->now_ns);
        read = sim_device_ended(n);
        drained = output(n);
        for (unsigned i = 0; i < w->wire_count; i++)
            read |= sim_device_memory(n, i);
        read |= take_reads(n);
        quick = tell_quick(n);
        news = emx_engine_has_news(n->engine);
        more = take_events(n);
        if (n->pace == SIM_POLLS && !sim_failed(w)) {
            more |= take_completions(n);
            more |= take_ams(n);
        }
        if (more && !news)
            sim_fail(w, "n%u: the engine had news and said that it has none", n->index);
        sim_node_check(n, ++n->checks % w->check_every == 0);
    } while ((more || read || quick) && !sim_failed(w));
    if (!sim_failed(w) && n->pace == SIM_POLLS && n->program && emx_engine_has_news(n->engine))
        sim_fail(w, "n%u: all was taken, but the engine says that it has news", n->index);
    if (!sim_failed(w))
        set_timer(n, drained);
    n->pumping = false;
}

void sim_node_check(struct sim_node *n, bool thorough)
{
    struct sim_world *w = n->world;
    const char *wrong;

    if (!n->engine || sim_failed(w))
        return;
    if (n->stats.unexpected_bytes > n->cfg.p_unexpected_max)
        sim_fail(w, "n%u: %" PRIu64 " bytes of unexpected messages, the bound is %" PRIu64, n->index,
                 n->stats.unexpected_bytes, n->cfg.p_unexpected_max);
    if (n->stats.unexpected_promised > n->cfg.p_unexpected_max)
        sim_fail(w, "n%u: %" PRIu64 " bytes of unexpected memory promised, the bound is %" PRIu64, n->index,
                 n->stats.unexpected_promised, n->cfg.p_unexpected_max);
    if (!thorough)
        return;
    wrong = emx_engine_check(n->engine);
    if (wrong)
        sim_fail(w, "n%u: the engine is inconsistent: %s", n->index, wrong);
}
