/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Without losses: every class, kind and shape, and large numbers.
 */
#include <string.h>

#include "scenario.h"

#define RATE_BPS 10000000000ull

static void begin(struct sim_case *c, unsigned nodes, uint32_t frame_bytes)
{
    sim_case_begin(c, nodes, 1);
    c->world.frame_bytes[0] = frame_bytes;
    sim_world_rate(&c->world, RATE_BPS, 65536, 0);
    sim_world_start(&c->world);
}

/* One message of each length around each limit, both ways, posted before or after. */
static void every_length(struct sim_case *c)
{
    static const size_t lengths[] = {0,     1,     7,     8,     9,     63,    199,   200,    201,
                                     1443,  1444,  1445,  2899,  2900,  2905,  5000,  32767,  32768,
                                     32769, 46463, 46464, 46465, 92928, 92929, 99999, 524288, 1000003};
    const unsigned count = sizeof(lengths) / sizeof(*lengths);
    struct sim_program *p = &c->program;
    struct sim_node *a, *b;
    bool late = c->seed & 1;
    enum ethmx_send_mode mode = c->seed >> 1 & 1 ? ETHMX_SEND_SYNC : ETHMX_SEND_STANDARD;
    enum sim_shape from = c->seed >> 2 & 3, to = c->seed >> 4 & 3;

    if (from == SIM_SHAPES || to == SIM_SHAPES)
        return;
    begin(c, 2, c->seed >> 6 & 1 ? 9000 : 1500);
    for (unsigned way = 0; way < 2; way++) {
        a = &c->world.nodes[way];
        b = &c->world.nodes[!way];
        for (unsigned i = 0; i < count; i++) {
            if (!late)
                sim_recv(p, b, a->party, i, SIM_FULL_MASK, lengths[i], to);
            sim_node_pump(b);
            sim_send(p, a, b->party, i, lengths[i], mode, from);
            sim_node_pump(a);
            if (!late)
                continue;
            sim_world_run_until(&c->world, c->world.now_ns + SIM_MS);
            sim_recv(p, b, SIM_ANY, i, ~0xffull << 56, lengths[i], to);
            sim_node_pump(b);
        }
    }
    if (sim_program_run(p, sim_limit(&c->world, 5000000, RATE_BPS, SIM_S)))
        sim_model_check(p);
    sim_case_end(c);
}

/* Random programs in a perfect world. */
static void lossless(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_traffic *t;
    struct sim_mix mix;

    sim_mix_draw(&mix, &rng);
    mix.to_self = true;
    begin(c, 2 + emx_rng_below(&rng, 4), 1500);
    t = sim_traffic_start(&c->program, &mix, c->seed);
    sim_traffic_run(t, sim_limit(&c->world, sim_traffic_bytes(t), RATE_BPS, 2 * SIM_S));
    for (unsigned i = 0; i < c->world.node_count && !sim_failed(&c->world); i++)
        if (c->world.nodes[i].stats.resent_timeout || c->world.nodes[i].stats.resent_gap)
            sim_fail(&c->world, "n%u: sent frames again although none was lost", i);
    sim_traffic_free(t);
    sim_case_end(c);
}

/* Ten thousand messages that nobody waits for, received last first. */
static void many_unexpected(struct sim_case *c)
{
    const unsigned count = 10000;
    struct sim_program *p = &c->program;
    struct sim_node *a, *b;

    begin(c, 2, 1500);
    c->world.check_every = 1000;
    a = &c->world.nodes[0];
    b = &c->world.nodes[1];
    for (unsigned i = 0; i < count; i++) {
        sim_send(p, a, b->party, i, 8, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
        sim_node_pump(a);
    }
    sim_world_run_until(&c->world, c->world.now_ns + SIM_S);
    for (unsigned i = count; i--;) {
        sim_recv(p, b, a->party, i, SIM_FULL_MASK, 8, SIM_CONTIGUOUS);
        sim_node_pump(b);
    }
    sim_program_run(p, c->world.now_ns + 2 * SIM_S);
    sim_case_end(c);
}

/* ---- More than 4 GiB, in no memory: each copy only marks and checks places ---- */

#define HUGE_BYTES ((5ull << 30) + 12345)
#define MARK_BYTES 4096

struct huge {
    struct sim_world *world;
    uint64_t packed_bytes, unpacked_bytes;
    bool sent, received;
};

static size_t first_mark(size_t offset)
{
    return (offset + MARK_BYTES - 1) / MARK_BYTES * MARK_BYTES - offset;
}

static void pack_huge(void *arg, size_t offset, void *buf, size_t len_bytes)
{
    struct huge *h = arg;
    uint64_t at;

    h->packed_bytes += len_bytes;
    for (size_t i = first_mark(offset); i + sizeof(at) <= len_bytes; i += MARK_BYTES) {
        at = emx_mix64(offset + i);
        memcpy((uint8_t *)buf + i, &at, sizeof(at));
    }
}

static void unpack_huge(void *arg, size_t offset, void *buf, size_t len_bytes)
{
    struct huge *h = arg;
    uint64_t at;

    h->unpacked_bytes += len_bytes;
    for (size_t i = first_mark(offset); i + sizeof(at) <= len_bytes; i += MARK_BYTES) {
        memcpy(&at, (uint8_t *)buf + i, sizeof(at));
        if (at != emx_mix64(offset + i))
            sim_fail(h->world, "the content at offset %zu is wrong", offset + i);
    }
}

static void huge_sent(void *arg, const struct ethmx_result *result)
{
    struct huge *h = arg;

    h->sent = true;
    if (result->status != ETHMX_OK)
        sim_fail(h->world, "the send failed with %d", result->status);
}

static void huge_received(void *arg, const struct ethmx_result *result)
{
    struct huge *h = arg;

    h->received = true;
    if (result->status != ETHMX_OK || result->len_bytes != HUGE_BYTES || result->msg_bytes != HUGE_BYTES ||
        h->unpacked_bytes != HUGE_BYTES)
        sim_fail(h->world, "received with %d: %zu bytes of %zu; %llu were unpacked", result->status, result->len_bytes,
                 result->msg_bytes, (unsigned long long)h->unpacked_bytes);
}

static bool huge_done(void *arg)
{
    const struct huge *h = arg;

    return h->sent && h->received;
}

static void beyond_4g(struct sim_case *c)
{
    struct huge h = {.world = &c->world};
    struct emx_op_args a = {.mask = SIM_FULL_MASK, .data = {.len_bytes = HUGE_BYTES, .copy_arg = &h}, .arg = &h};
    struct ethmx_result result;
    struct emx_op *op;
    struct sim_node *n;

    sim_case_begin(c, 2, 1);
    c->world.frame_bytes[0] = 65000;
    c->world.check_every = 1000;
    sim_world_rate(&c->world, 100 * RATE_BPS, 1 << 20, 0);
    sim_world_start(&c->world);
    n = c->world.nodes;
    a.done = huge_received;
    a.data.copy = unpack_huge;
    if (emx_progress_recv(&n[1].progress, sim_node_peer(&n[1], n[0].party), &a, &op, &result) != ETHMX_INPROGRESS)
        sim_fail(&c->world, "the receive does not wait");
    a.done = huge_sent;
    a.data.copy = pack_huge;
    if (emx_progress_send(&n[0].progress, sim_node_peer(&n[0], n[1].party), &a) != ETHMX_INPROGRESS)
        sim_fail(&c->world, "the send does not wait");
    sim_node_pump(&n[1]);
    sim_node_pump(&n[0]);
    sim_world_run(&c->world, huge_done, &h, sim_limit(&c->world, HUGE_BYTES, 100 * RATE_BPS, SIM_S),
                  "sent and received");
    sim_case_end(c);
}

/* Some messages have been put back for want of a handler, and others have only been moved by a helper, when the
 * handler comes. */
static void late_handler(struct sim_case *c)
{
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, 2, 1500);
    a = &w->nodes[0];
    b = &w->nodes[1];
    b->cfg.p_heartbeat = SIM_MS;
    p->in_order = true;
    p->am_open_ns = w->now_ns + 20 * SIM_MS;
    for (unsigned i = 0; i < 40 && !sim_failed(w); i++) {
        if (i == 20)
            sim_node_pace(b, SIM_COMPUTES, p->am_open_ns + SIM_MS);
        sim_am(p, a, b->party, 1, i, i & c->seed ? 3000 : 0, SIM_CONTIGUOUS);
        sim_node_pump(a);
        sim_world_run_until(w, w->now_ns + SIM_MS / 4);
    }
    if (sim_program_run(p, sim_limit(w, 200000, RATE_BPS, SIM_S)))
        sim_model_check(p);
    sim_case_end(c);
}

/* The path reorders frames, and loses none. After some blocks that were requested twice, the receiver waits for data
 * that was overtaken. */
static void reordered(struct sim_case *c)
{
    struct sim_faults faults = {.delay_ns = 20000, .reorder_ppm = 10000, .reorder_ns = 100000};
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;
    uint64_t twice;

    begin(c, 2, 1500);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_world_faults(w, &faults);
    sim_messages(c, a, b, 20, 1 << 20);
    sim_program_run(&c->program, sim_limit(w, 40 << 20, RATE_BPS, SIM_S));
    twice = b->stats.drop_duplicate;
    if (!b->stats.pulls_reordered)
        sim_fail(w, "no block was requested again in vain");
    sim_messages(c, a, b, 40, 1 << 20);
    sim_program_run(&c->program, sim_limit(w, 80 << 20, RATE_BPS, SIM_S));
    twice = b->stats.drop_duplicate - twice;
    if (twice * 1448 * 200 > 40 << 20)
        sim_fail(w, "%llu frames came twice", (unsigned long long)twice);
    if (!sim_failed(w))
        sim_model_check(&c->program);
    sim_case_end(c);
}

const struct sim_scenario sim_basics[] = {
    {"lengths", "every length around a limit, both ways, all shapes, posted before or after", every_length, 128, 0},
    {"lossless", "random programs, nothing lost: nothing sent again", lossless, 0, 10},
    {"many-unexpected", "ten thousand unexpected messages, received last first", many_unexpected, 1, 0},
    {"late-handler", "active messages for a handler that comes when a helper has moved some", late_handler, 4, 0},
    {"reordered", "large messages on a path that reorders frames: little comes twice", reordered, 8, 0},
    {"beyond-4g", "one message of 5 GiB", beyond_4g, 1, 0},
    {0},
};
