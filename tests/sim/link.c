/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.h"

#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "world.h"

#define ETHERNET_MIN 46 /* payload; shorter frames are padded */

/* ---- Frames ---- */

struct sim_frame *sim_frame_new(unsigned src, unsigned dst, unsigned wire, const void *head, size_t head_bytes,
                                const void *body, size_t body_bytes)
{
    struct sim_frame *f = calloc(1, sizeof(*f));

    if (!f)
        abort();
    f->src = src;
    f->dst = dst;
    f->wire = wire;
    f->len_bytes = head_bytes + body_bytes;
    f->data = malloc(f->len_bytes ? f->len_bytes : 1);
    if (!f->data)
        abort();
    if (head_bytes)
        memcpy(f->data, head, head_bytes);
    if (body_bytes)
        memcpy(f->data + head_bytes, body, body_bytes);
    return f;
}

void sim_frame_free(struct sim_frame *f)
{
    free(f->data);
    free(f);
}

/* Ethernet carries no payload below 46 bytes: the receiver sees padding. */
static void pad(struct sim_frame *f)
{
    if (f->len_bytes >= ETHERNET_MIN)
        return;
    f->data = realloc(f->data, ETHERNET_MIN);
    if (!f->data)
        abort();
    memset(f->data + f->len_bytes, 0x50, ETHERNET_MIN - f->len_bytes);
    f->len_bytes = ETHERNET_MIN;
}

static const struct emx_frame *header(const struct sim_frame *f)
{
    return (const void *)(f->data + sim_tag_bytes(f->data, f->len_bytes));
}

static unsigned frame_type(const struct sim_frame *f)
{
    unsigned type = f->len_bytes >= sizeof(struct emx_frame) ? header(f)->type : 0;

    return type < EMX_F_COUNT ? type : 0;
}

static void record(struct sim_link *l, const struct sim_frame *f, const char *fate)
{
    struct sim_world *w = l->world;
    const struct emx_frame *h = header(f);
    const char *name;

    sim_capture(f, w->now_ns);
    sim_hash(w, w->now_ns ^ (uint64_t)(l->src << 16 | l->dst << 8 | l->wire) << 32 ^ f->len_bytes);
    sim_hash(w, (uint64_t)(unsigned char)fate[0] << 8 | (unsigned char)fate[1]);
    if (f->len_bytes < sizeof(*h)) {
        sim_trace(w, "n%u>n%u/%u %u bytes: %s", l->src, l->dst, l->wire, f->len_bytes, fate);
        return;
    }
    sim_hash(w, (uint64_t)h->type << 32 | h->seq);
    sim_hash(w, (uint64_t)h->ack << 32 | h->credit);
    name = h->type < EMX_F_COUNT ? emx_frame_info[h->type].name : NULL;
    sim_trace(w, "n%u>n%u/%u #%llu %s seq %u ack %u credit %u, %u bytes: %s", l->src, l->dst, l->wire,
              (unsigned long long)l->number, name ? name : "?", h->seq, h->ack, h->credit, f->len_bytes, fate);
}

/* ---- Faults ---- */

static bool is_cut(const struct sim_faults *x, uint64_t at_ns)
{
    for (unsigned i = 0; i < SIM_CUTS; i++)
        if (at_ns >= x->cut[i].from_ns && at_ns < x->cut[i].until_ns)
            return true;
    return false;
}

static bool in_burst(struct sim_link *l, struct emx_rng *r, uint64_t at_ns)
{
    if (at_ns >= l->burst_until_ns && emx_rng_chance(r, l->faults.burst_ppm))
        l->burst_until_ns = at_ns + 1 + emx_rng_below(r, l->faults.burst_ns);
    return at_ns < l->burst_until_ns;
}

/* Why the frame is lost, or NULL. */
static const char *loss(struct sim_link *l, const struct sim_frame *f, uint64_t at_ns)
{
    const struct sim_faults *x = &l->faults;
    struct emx_rng *r = &l->world->rng;

    if (is_cut(x, at_ns))
        return "cut off";
    if (l->number - x->mask_first < SIM_MASK_FRAMES && (x->drop_mask >> (l->number - x->mask_first) & 1))
        return "masked out";
    if (x->max_bytes && f->len_bytes > x->max_bytes)
        return "too long";
    if (emx_rng_chance(r, x->drop_ppm))
        return "lost";
    return in_burst(l, r, at_ns) ? "burst lost" : NULL;
}

static bool damage(struct sim_link *l, struct sim_frame *f)
{
    struct emx_rng *r = &l->world->rng;
    bool damaged = false;

    if (f->len_bytes && emx_rng_chance(r, l->faults.truncate_ppm)) {
        f->len_bytes = emx_rng_below(r, f->len_bytes);
        f->data = realloc(f->data, f->len_bytes ? f->len_bytes : 1);
        if (!f->data)
            abort();
        damaged = true;
    }
    if (f->len_bytes && emx_rng_chance(r, l->faults.corrupt_ppm)) {
        for (unsigned n = 1 + emx_rng_below(r, 4); n; n--)
            f->data[emx_rng_below(r, f->len_bytes)] ^= 1 + emx_rng_below(r, 255);
        damaged = true;
    }
    return damaged;
}

/* ---- The way ---- */

static void deliver(void *arg, uint64_t value)
{
    struct sim_world *w = arg;
    struct sim_frame *f = (void *)(uintptr_t)value;

    sim_node_arrive(&w->nodes[f->dst], f);
}

static void enter_switch(void *arg, uint64_t value)
{
    struct sim_world *w = arg;
    struct sim_frame *f = (void *)(uintptr_t)value;
    struct sim_port *p = &w->nodes[f->dst].in[f->wire];
    size_t bytes = sim_wire_bytes(f->len_bytes);

    if (!sim_port_has_room(p, w->now_ns, bytes)) {
        p->lost++;
        record(sim_world_link(w, f->src, f->dst, f->wire), f, "switch full");
        sim_frame_free(f);
        return;
    }
    f->marked |= sim_port_marks(p, w->now_ns, bytes);
    sim_queue_put(&w->queue, sim_port_pass(p, w->now_ns, bytes), deliver, w, value);
}

static uint64_t in_order(struct sim_link *l, uint64_t at_ns)
{
    if (l->last_ns > at_ns)
        at_ns = l->last_ns;
    l->last_ns = at_ns;
    return at_ns;
}

static uint64_t up_to(struct emx_rng *r, uint64_t limit)
{
    return limit ? emx_rng_below(r, limit + 1) : 0;
}

/* When the frame arrives, its faults of time included. */
static uint64_t arrival(struct sim_link *l, uint64_t at_ns)
{
    const struct sim_faults *x = &l->faults;
    struct emx_rng *r = &l->world->rng;

    at_ns += x->delay_ns + up_to(r, x->jitter_ns);
    if (emx_rng_chance(r, x->reorder_ppm))
        return at_ns + up_to(r, x->reorder_ns);
    if (emx_rng_chance(r, x->spike_ppm))
        at_ns += up_to(r, x->spike_ns);
    return in_order(l, at_ns);
}

static void go(struct sim_link *l, struct sim_frame *f, uint64_t at_ns, const char *fate)
{
    struct sim_world *w = l->world;
    bool damaged;

    pad(f);
    damaged = damage(l, f);
    f->marked |= l->faults.mark_ppm && emx_rng_chance(&w->rng, l->faults.mark_ppm);
    record(l, f, damaged ? "damaged" : fate);
    sim_queue_put(&w->queue, at_ns, w->nodes[f->dst].in[f->wire].rate_bps ? enter_switch : deliver, w,
                  (uint64_t)(uintptr_t)f);
}

void sim_link_send(struct sim_link *l, struct sim_frame *f, uint64_t at_ns)
{
    struct emx_rng *r = &l->world->rng;
    unsigned type = frame_type(f);
    struct sim_look look = {.link = l,
                            .head = header(f),
                            .data = f->data,
                            .len_bytes = f->len_bytes,
                            .number = l->number,
                            .nth = l->of_type[type]};
    uint64_t delay_ns = 0;
    enum sim_verdict v = l->verdict ? l->verdict(l->verdict_arg, &look, &delay_ns) : SIM_PASS;
    const char *lost = v == SIM_DROP ? "dropped" : loss(l, f, at_ns);

    if (lost) {
        record(l, f, lost);
        sim_frame_free(f);
    } else {
        if (v == SIM_DUPLICATE || emx_rng_chance(r, l->faults.duplicate_ppm))
            go(l, sim_frame_new(f->src, f->dst, f->wire, f->data, f->len_bytes, NULL, 0),
               at_ns + l->faults.delay_ns + up_to(r, l->faults.reorder_ns), "copy");
        if (v == SIM_DELAY)
            go(l, f, at_ns + l->faults.delay_ns + delay_ns, "delayed");
        else
            go(l, f, arrival(l, at_ns), "passed");
    }
    l->number++;
    l->of_type[type]++;
}

void sim_link_inject(struct sim_link *l, const void *data, size_t len_bytes, uint64_t at_ns)
{
    struct sim_frame *f = sim_frame_new(l->src, l->dst, l->wire, data, len_bytes, NULL, 0);

    record(l, f, "injected");
    sim_queue_put(&l->world->queue, at_ns, deliver, l->world, (uint64_t)(uintptr_t)f);
}

void sim_link_forget(const struct sim_event *ev)
{
    if (ev->fn == deliver || ev->fn == enter_switch)
        sim_frame_free((void *)(uintptr_t)ev->value);
}
