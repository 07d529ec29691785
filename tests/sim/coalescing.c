/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bundles: small messages that cannot leave share frames, arrive once and in order whatever the network does, and none
 * is held back that could leave.
 */
#include "core/cc/cc.h"
#include "scenario.h"

#define RATE_BPS 10000000000ull

static void begin(struct sim_case *c)
{
    struct sim_faults faults = {.delay_ns = 10000};

    sim_case_begin(c, 2, 1);
    sim_world_rate(&c->world, RATE_BPS, 65536, 0);
    sim_world_faults(&c->world, &faults);
    sim_world_start(&c->world);
    sim_connect(c, &c->world.nodes[0], &c->world.nodes[1]);
}

static void send_some(struct sim_case *c, unsigned count, size_t len_bytes)
{
    struct sim_node *a = &c->world.nodes[0], *b = &c->world.nodes[1];

    for (unsigned i = 0; i < count; i++)
        sim_send(&c->program, a, b->party, i, len_bytes, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
}

static void receive_all(struct sim_case *c, unsigned count, size_t room_bytes)
{
    struct sim_node *a = &c->world.nodes[0], *b = &c->world.nodes[1];

    for (unsigned i = count; i-- > 0;) {
        sim_recv(&c->program, b, a->party, i, SIM_FULL_MASK, room_bytes, SIM_CONTIGUOUS);
        sim_node_pump(b);
    }
    if (sim_program_run(&c->program, sim_limit(&c->world, 1000000, RATE_BPS, SIM_S)))
        sim_model_check(&c->program);
}

/* The program sends and never calls again. While frames can leave each message does at once, in its own; nothing waits
 * for the program's next call, or for a timer. */
static void left_alone(struct sim_case *c)
{
    const unsigned count = 3 + (unsigned)c->seed % (EMX_CC_START - 3);
    const emx_time way_ns = 20000 + count * 2000;
    struct sim_node *a, *b;

    begin(c);
    a = &c->world.nodes[0];
    b = &c->world.nodes[1];
    for (unsigned i = 0; i < count; i++) {
        sim_send(&c->program, a, b->party, i, c->seed % 70, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
        sim_node_pump(a);
    }
    sim_world_run_until(&c->world, c->world.now_ns + way_ns);
    if (b->stats.unexpected_now != count || a->stats.sent_coalesced)
        sim_fail(&c->world, "%llu of %u messages have come, %llu were gathered",
                 (unsigned long long)b->stats.unexpected_now, count, (unsigned long long)a->stats.sent_coalesced);
    receive_all(c, count, 70);
    sim_case_end(c);
}

/* More messages at once than may leave: those behind share frames, as far as the credit goes. */
static void behind_others(struct sim_case *c)
{
    const unsigned count = 1000;
    struct sim_node *a;

    begin(c);
    a = &c->world.nodes[0];
    send_some(c, count, c->seed);
    sim_node_pump(a);
    sim_world_run_until(&c->world, c->world.now_ns + 10 * SIM_MS);
    if (a->stats.sent_coalesced < count / 2 || a->stats.frames_coalesced > count / 20)
        sim_fail(&c->world, "%llu of %u messages were gathered in %llu frames",
                 (unsigned long long)a->stats.sent_coalesced, count, (unsigned long long)a->stats.frames_coalesced);
    receive_all(c, count, 70);
    sim_case_end(c);
}

/* Whoever waits for an answer to each message sends each at once. */
static void ping_pong(struct sim_case *c)
{
    struct sim_node *n;
    bool back;

    begin(c);
    n = c->world.nodes;
    for (unsigned i = 0; i < 100; i++) {
        back = i % 2;
        sim_recv(&c->program, &n[!back], n[back].party, i, SIM_FULL_MASK, 8, SIM_CONTIGUOUS);
        sim_send(&c->program, &n[back], n[!back].party, i, 8, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
        sim_node_pump(&n[!back]);
        sim_node_pump(&n[back]);
        sim_world_run_until(&c->world, c->world.now_ns + 13000);
    }
    if (sim_program_run(&c->program, c->world.now_ns + SIM_S))
        sim_model_check(&c->program);
    if (n[0].stats.sent_coalesced || n[1].stats.sent_coalesced)
        sim_fail(&c->world, "messages were gathered");
    sim_case_end(c);
}

/* Bursts both ways with all else among them. */
static void bursts(struct sim_case *c, struct emx_rng *rng, unsigned count)
{
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    unsigned late[2] = {0};
    size_t bytes = 0;

    for (unsigned i = 0; i < count && !sim_failed(w); i++) {
        unsigned way = (unsigned)emx_rng_below(rng, 2);
        struct sim_node *a = &w->nodes[way], *b = &w->nodes[!way];

        for (unsigned n = 1 + (unsigned)emx_rng_below(rng, 120); n; n--) {
            size_t len_bytes = emx_rng_below(rng, emx_rng_below(rng, 4) ? 32 : 900);
            uint64_t bits = emx_rng_below(rng, 3);

            if (!emx_rng_below(rng, 50))
                len_bytes = emx_rng_below(rng, 60000);
            bytes += len_bytes;
            if (emx_rng_below(rng, 2))
                sim_recv(p, b, emx_rng_below(rng, 2) ? (int)a->party : SIM_ANY, bits, SIM_FULL_MASK, 60000,
                         emx_rng_below(rng, SIM_SHAPES));
            else
                late[!way] += 1u << 10 * bits;
            sim_send(p, a, b->party, bits, len_bytes, emx_rng_below(rng, 20) ? ETHMX_SEND_STANDARD : ETHMX_SEND_SYNC,
                     emx_rng_below(rng, SIM_SHAPES));
            if (!emx_rng_below(rng, 30))
                sim_am(p, a, b->party, 2 * emx_rng_below(rng, 3), emx_rng_below(rng, 30), len_bytes, SIM_CONTIGUOUS);
            if (!emx_rng_below(rng, 3))
                sim_node_pump(a);
        }
        sim_node_pump(a);
        sim_world_run_until(w, w->now_ns + emx_rng_below(rng, emx_rng_below(rng, 2) ? 5000 : 3 * SIM_MS));
    }
    for (unsigned to = 0; to < 2; to++)
        for (uint64_t bits = 0; bits < 3; bits++)
            for (unsigned n = late[to] >> 10 * bits & 1023; n && !sim_failed(w); n--) {
                sim_recv(p, &w->nodes[to], SIM_ANY, bits, SIM_FULL_MASK, 60000, SIM_CONTIGUOUS);
                sim_node_pump(&w->nodes[to]);
            }
    if (sim_program_run(p, sim_limit(w, bytes, RATE_BPS, 20 * SIM_S)))
        sim_model_check(p);
}

static void storm(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_faults faults = {.delay_ns = 1000 + emx_rng_below(&rng, 50000)};
    struct sim_world *w = &c->world;

    sim_case_begin(c, 2, 1);
    w->frame_bytes[0] = emx_rng_below(&rng, 2)   ? 1500
                        : emx_rng_below(&rng, 2) ? 256 + (unsigned)emx_rng_below(&rng, 300)
                                                 : 9000;
    w->cfg.p_window = 8u << emx_rng_below(&rng, 8);
    w->cfg.p_checksum = emx_rng_below(&rng, 3);
    if (emx_rng_below(&rng, 2))
        w->cfg.p_unexpected_max = 65536 + emx_rng_below(&rng, 200000);
    if (emx_rng_below(&rng, 2))
        w->cfg.p_unexpected_peer = emx_rng_below(&rng, 70000);
    if (emx_rng_below(&rng, 2)) {
        faults.drop_ppm = (unsigned)emx_rng_below(&rng, 100000);
        faults.duplicate_ppm = (unsigned)emx_rng_below(&rng, 100000);
        faults.reorder_ppm = (unsigned)emx_rng_below(&rng, 200000);
        faults.reorder_ns = emx_rng_below(&rng, SIM_MS);
    }
    sim_world_rate(w, RATE_BPS, 65536, 0);
    sim_world_faults(w, &faults);
    sim_world_start(w);
    bursts(c, &rng, 3);
    sim_case_end(c);
}

/* The receiver's memory runs out for a while, in the middle of a bundle, too. */
static void no_memory(struct sim_case *c)
{
    struct sim_memory *m;

    begin(c);
    m = &c->world.nodes[1].memory;
    m->fail_first = m->calls + 1 + c->seed % 20;
    m->fail_end = m->fail_first + 1 + c->seed / 20 % 40;
    c->program.no_memory = true;
    send_some(c, 300, 70);
    sim_node_pump(&c->world.nodes[0]);
    sim_world_run_until(&c->world, c->world.now_ns + 20 * SIM_S); /* each try may fail */
    if (c->world.nodes[1].stats.unexpected_now != 300)
        sim_fail(&c->world, "%llu of 300 messages have come",
                 (unsigned long long)c->world.nodes[1].stats.unexpected_now);
    receive_all(c, 300, 70);
    sim_case_end(c);
}

/* The first copy of each bundle has its parts' borders changed, with a checksum that fits. It is dropped whole; the
 * copy that is sent again is taken. */
struct spoiler {
    struct sim_world *w;
    unsigned how, spoiled;
    uint32_t last;
};

enum { CUT_PART, CUT_HEAD, TOO_LONG, TOO_SHORT, NO_PART, NOTHING_BEHIND, SPOIL_WAYS };

static void spoil(unsigned how, struct emx_frame *h)
{
    struct emx_f_part *first = (void *)((uint8_t *)(h + 1) + sizeof(struct emx_f_coalesced));

    switch (how) {
    case CUT_PART:
        h->body_bytes--;
        break;
    case CUT_HEAD: /* within the first part's own header */
        h->body_bytes = sizeof(struct emx_f_coalesced) + sizeof(*first) - 1;
        break;
    case TOO_LONG:
        first->len_bytes = UINT16_MAX;
        break;
    case TOO_SHORT: /* so that data is taken for the next header */
        first->len_bytes -= 3;
        break;
    case NO_PART:
        h->body_bytes = sizeof(struct emx_f_coalesced);
        break;
    case NOTHING_BEHIND: /* ends where a header would begin, and one byte more */
        h->body_bytes = (uint16_t)(sizeof(struct emx_f_coalesced) + sizeof(*first) + first->len_bytes + 1);
        break;
    }
}

static enum sim_verdict spoil_first(void *arg, const struct sim_look *look, uint64_t *delay_ns_p)
{
    struct spoiler *x = arg;
    struct emx_frame *h = (void *)(uintptr_t)look->data;

    (void)delay_ns_p;
    if (h->type != EMX_F_coalesced || (int32_t)(h->seq - x->last) <= 0)
        return SIM_PASS;
    x->last = h->seq;
    x->spoiled++;
    spoil(x->how, h);
    if (sizeof(*h) + h->body_bytes <= look->len_bytes) /* else: a bundle of one part, which is too short now */
        emx_frame_seal(h, sizeof(*h) + h->body_bytes, NULL, 0, x->w->nodes[0].cfg.p_checksum);
    return SIM_PASS;
}

static void malformed(struct sim_case *c)
{
    struct spoiler x = {.w = &c->world, .how = (unsigned)(c->seed % SPOIL_WAYS)};
    struct sim_link *link;
    struct sim_node *b;

    begin(c);
    b = &c->world.nodes[1];
    link = sim_world_link(&c->world, 0, 1, 0);
    link->verdict = spoil_first;
    link->verdict_arg = &x;
    send_some(c, 200, 20 + c->seed / SPOIL_WAYS);
    sim_node_pump(&c->world.nodes[0]);
    sim_world_run_until(&c->world, c->world.now_ns + 5 * SIM_S);
    if (!x.spoiled || b->stats.drop_malformed + b->stats.drop_short != x.spoiled)
        sim_fail(&c->world, "%u bundles were malformed, %llu were dropped for that", x.spoiled,
                 (unsigned long long)(b->stats.drop_malformed + b->stats.drop_short));
    receive_all(c, 200, 100);
    sim_case_end(c);
}

const struct sim_scenario sim_coalescing[] = {
    {"bundles-left-alone", "a program sends and then computes for ever", left_alone, 100, 0},
    {"bundles-behind-others", "more messages at once than may leave", behind_others, 33, 0},
    {"bundles-ping-pong", "nothing is gathered where each message is waited for", ping_pong, 1, 0},
    {"bundles-storm", "bursts of small messages, with faults and short of memory", storm, 0, 10},
    {"bundles-malformed", "parts that are cut, too long or not there", malformed, 120, 0},
    {"bundles-no-memory", "the receiver's memory runs out in the middle", no_memory, 800, 0},
    {0},
};
