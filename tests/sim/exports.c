/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lends: large messages that a device reads from the sender's memory, or writes to the receiver's; connections that
 * break under it, memory that cannot be lent, senders that die, receivers that were away for so long that the sender
 * has given them up. Scenarios that are named writes-* are the same as lends-*, with the sender's device at work.
 */
#include <string.h>

#include "device.h"
#include "scenario.h"

#define TIMEOUT_NS (2 * SIM_S)
#define LATE_NS    (2 * SIM_MS)
#define BIG_BYTES  4000000 /* several pieces */

/* Of the scenario that is played: who moves messages; mixed: each node chooses. */
static enum emx_verbs_move move;
static bool mixed;

static void prepare(struct sim_case *c, unsigned nodes, struct emx_rng *rng)
{
    struct sim_world *w = &c->world;

    sim_case_begin(c, nodes, 1);
    w->cfg.p_peer_timeout = TIMEOUT_NS;
    w->cfg.p_verbs_move = move;
    w->lend_mixed = mixed;
    w->connected = true;
    w->export_min_bytes = 1u << (8 + emx_rng_below(rng, 9));
    w->lend_bytes = 1000u << emx_rng_below(rng, 13);
    w->read_bps = emx_rng_below(rng, 4) ? 40000000000ull : 0;
    sim_world_rate(w, 10000000000ull, 65536, 0);
}

static void begin(struct sim_case *c, unsigned nodes, struct emx_rng *rng)
{
    prepare(c, nodes, rng);
    sim_world_start(&c->world);
}

/* What is on the way still may come. */
static void end(struct sim_case *c, uint64_t late_ns)
{
    sim_world_run_until(&c->world, c->world.now_ns + late_ns);
    sim_case_end(c);
}

/* Copying takes as long as 1 GB/s, both ends together; registering 10 us. */
static const struct emx_costs costs = {.count = EMX_THRESHOLD_SIZES,
                                       .reg_ns = {10000, 10000, 10000, 10000, 10000, 10000, 10000, 10000, 10000},
                                       .copy_ns = {4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576}};

/* Random programs; bits of the seed: frames are lost, memory can't be lent, reads fail, connections break. */
static void among_programs(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_world *w = &c->world;
    struct sim_traffic *t;
    struct sim_mix mix;

    prepare(c, 2 + c->seed % 4, &rng);
    w->export_costs = c->seed & 16 ? &costs : NULL;
    sim_world_start(w);
    w->lend_new = c->seed & 32;
    if (c->seed & 1)
        sim_world_faults(w, &(struct sim_faults){.delay_ns = 5000, .drop_ppm = 20000});
    if (c->seed & 2)
        w->lend_fail_ppm = 100000;
    if (c->seed & 4)
        w->read_fail_ppm = 50000;
    if (c->seed & 8)
        w->sever_ppm = 100000;
    sim_mix_draw(&mix, &rng);
    t = sim_traffic_start(&c->program, &mix, c->seed);
    sim_traffic_run(t, w->now_ns + 20 * SIM_S);
    sim_world_run_until(w, w->now_ns + LATE_NS);
    sim_traffic_free(t);
    sim_case_end(c);
}

static void exchange(struct sim_case *c, unsigned i, size_t room_bytes, bool early)
{
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a = &w->nodes[0], *b = &w->nodes[1];

    if (early)
        sim_recv(p, b, a->party, i, SIM_FULL_MASK, room_bytes, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_send(p, a, b->party, i, BIG_BYTES, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pump(a);
    sim_world_run_until(w, w->now_ns + SIM_MS);
    if (!early)
        sim_recv(p, b, a->party, i, SIM_FULL_MASK, room_bytes, SIM_CONTIGUOUS);
    sim_node_pump(b);
}

/* By the devices, whichever they were. */
static uint64_t bytes_moved(const struct sim_world *w)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < w->node_count; i++)
        sum += move == EMX_MOVE_WRITE ? w->nodes[i].stats.bytes_written : w->nodes[i].stats.bytes_read;
    return sum;
}

/* Receive buffers that are longer and shorter than the message, early and late: no byte comes in a frame, and nothing
 * stays lent. */
static void nothing_is_copied(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_world *w = &c->world;
    size_t room_bytes = c->seed & 1 ? BIG_BYTES : BIG_BYTES - 100001;

    begin(c, 2, &rng);
    sim_connect(c, &w->nodes[0], &w->nodes[1]);
    for (unsigned i = 0; i < 4; i++)
        exchange(c, i, room_bytes, i % 2);
    if (sim_program_run(&c->program, w->now_ns + SIM_S))
        sim_model_check(&c->program);
    if (bytes_moved(w) != 4 * room_bytes || w->nodes[1].stats.pulls_sent || w->nodes[1].stats.bytes_unread)
        sim_fail(w, "%llu bytes were moved by devices, %llu blocks pulled", (unsigned long long)bytes_moved(w),
                 (unsigned long long)w->nodes[1].stats.pulls_sent);
    if (sim_device_lends(w))
        sim_fail(w, "memory is lent still");
    sim_case_end(c);
}

/* The program sends and computes: the other hears of the message at once, not when the sender calls again. */
static void announced_at_once(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, 2, &rng);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    sim_send(p, a, b->party, 1, BIG_BYTES, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pace(a, SIM_STOPPED, w->now_ns + 10 * SIM_MS);
    sim_world_run_until(w, w->now_ns + SIM_MS);
    if (b->stats.unexpected_now != 1)
        sim_fail(w, "nobody has told the receiver");
    sim_recv(p, b, a->party, 1, SIM_FULL_MASK, BIG_BYTES, SIM_CONTIGUOUS);
    sim_node_pump(b);
    if (sim_program_run(p, w->now_ns + SIM_S))
        sim_model_check(p);
    sim_case_end(c);
}

/* Sends so many one after the other, each when the one before has arrived; returns how many were read. */
static unsigned count_read(struct sim_case *c, unsigned *tag_p, unsigned messages, size_t len_bytes)
{
    struct sim_node *a = &c->world.nodes[0], *b = &c->world.nodes[1];
    uint64_t before = sim_bytes_read(&c->world);

    for (unsigned i = 0; i < messages; i++) {
        sim_recv(&c->program, b, a->party, *tag_p, SIM_FULL_MASK, len_bytes, SIM_CONTIGUOUS);
        sim_node_pump(b);
        sim_send(&c->program, a, b->party, (*tag_p)++, len_bytes, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
        sim_node_pump(a);
        sim_world_run_until(&c->world, c->world.now_ns + SIM_MS);
    }
    return (unsigned)((sim_bytes_read(&c->world) - before) / len_bytes);
}

static void expect_read(struct sim_case *c, const char *what, unsigned got, unsigned least, unsigned most)
{
    if (got < least || got > most)
        sim_fail(&c->world, "%s: %u messages were read, %u to %u were expected", what, got, least, most);
}

/* The round trip takes 40 us: 64 KiB are worth one, not two and registering; 16 KiB not one. What goes another way than
 * eagerly is read from the lower bound on; and nothing that is read comes in frames as well. */
static void is_worth_a_round_trip(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    const struct sim_faults link = {.delay_ns = 20000};
    struct sim_world *w = &c->world;
    unsigned tag = 0;

    prepare(c, 2, &rng);
    w->export_min_bytes = 8192;
    w->lend_bytes = 1 << 20;
    w->export_costs = &costs;
    sim_world_start(w);
    sim_world_faults(w, &link);
    sim_connect(c, &w->nodes[0], &w->nodes[1]);
    count_read(c, &tag, 2, 100); /* shows how long a round trip is */
    expect_read(c, "short ones", count_read(c, &tag, 40, 16384), 0, 0);
    w->lend_new = true;
    expect_read(c, "in new memory", count_read(c, &tag, 8 + 3 * 64, 65536), 8 + 3, 8 + 3);
    expect_read(c, "long ones", count_read(c, &tag, 5, 262144), 5, 5);
    w->lend_new = false;
    w->lend_sure = true;
    count_read(c, &tag, 64, 65536); /* until one is found registered */
    expect_read(c, "in registered memory", count_read(c, &tag, 40, 65536), 40, 40);
    if (w->nodes[1].stats.bytes_unread)
        sim_fail(w, "messages that are to be read came in frames");
    sim_case_end(c);
}

/* A connection breaks in the middle of messages: the rest of them is read over the next one. */
static void breaks_midway(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, 2, &rng);
    w->read_bps = 40000000000ull;
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    sim_messages(c, a, b, 3, BIG_BYTES);
    for (unsigned i = 0; i < 2; i++) {
        sim_world_run_until(w, w->now_ns + 10000 + c->seed * 20000);
        sim_world_break(w, 0, 1);
    }
    if (sim_program_run(p, w->now_ns + SIM_S))
        sim_model_check(p);
    if ((move == EMX_MOVE_READ && bytes_moved(w) != 3 * BIG_BYTES) || b->stats.pulls_sent)
        sim_fail(w, "%llu bytes were moved by devices, %llu blocks pulled", (unsigned long long)bytes_moved(w),
                 (unsigned long long)b->stats.pulls_sent);
    end(c, LATE_NS);
}

/* A device refuses a read while the one before is under way: when that has ended, the rest is pulled. */
static void is_refused(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_world *w = &c->world;

    begin(c, 2, &rng);
    w->lend_bytes = 64000;
    w->read_bps = 10000000000ull;
    w->read_fail_ppm = 100000;
    sim_connect(c, &w->nodes[0], &w->nodes[1]);
    sim_messages(c, &w->nodes[0], &w->nodes[1], 3, BIG_BYTES);
    if (sim_program_run(&c->program, w->now_ns + SIM_S))
        sim_model_check(&c->program);
    if (!w->nodes[1].stats.pulls_sent)
        sim_fail(w, "nothing was pulled");
    end(c, LATE_NS);
}

static void sender_dies(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};

    begin(c, 2, &rng);
    c->world.read_bps = 10000000000ull;
    sim_sender_dies(c, BIG_BYTES);
    end(c, 3 * TIMEOUT_NS);
}

static void receiver_was_away(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};

    begin(c, 2, &rng);
    c->world.read_bps =
        move == EMX_MOVE_WRITE && c->seed & 1 ? 30000000 : 10000000000ull; /* slow: is still at it then */
    sim_receiver_was_away(c, BIG_BYTES);
    end(c, 3 * TIMEOUT_NS);
}

/* The first wire is gone for good, and with it the devices that read, in the middle of messages of all kinds: both ends
 * learn of it, one after the other, and all goes on over the second wire, which takes shorter frames. The reads under
 * way fail, or (bit 1 of the seed) end well when the wire has been left already. */
static void goes_another_way(struct sim_case *c)
{
    static const size_t lengths[] = {10, 5000, 30000, 100000, BIG_BYTES};
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    bool ends_well = c->seed & 2;
    struct sim_node *n[2];

    sim_case_begin(c, 2, 2);
    w->cfg.p_peer_timeout = TIMEOUT_NS;
    w->cfg.p_verbs_move = move;
    w->frame_bytes[0] = 8256;
    w->frame_bytes[1] = c->seed & 1 ? 1500 : 9000;
    w->connected = true;
    w->export_min_bytes = 1u << (8 + emx_rng_below(&rng, 9));
    w->lend_bytes = 100000u << emx_rng_below(&rng, 6);
    w->lend_first = true;
    w->read_bps = 40000000000ull;
    sim_world_rate(w, 10000000000ull, 65536, 0);
    sim_world_start(w);
    n[0] = &w->nodes[0];
    n[1] = &w->nodes[1];
    sim_connect(c, n[0], n[1]);
    for (unsigned i = 0; i < 40; i++) {
        struct sim_node *src = n[i & 1], *dst = n[!(i & 1)];

        sim_recv(p, dst, src->party, i, SIM_FULL_MASK, lengths[i / 2 % 5],
                 i / 10 % 2 ? SIM_CONTIGUOUS : i % SIM_SHAPES);
        sim_send(p, src, dst->party, i, lengths[i / 2 % 5], ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    }
    sim_node_pump(n[0]);
    sim_node_pump(n[1]);
    sim_world_run_until(w, w->now_ns + c->seed * 100000);
    for (unsigned i = 0; i < 2; i++) {
        const struct sim_faults dead = {.drop_ppm = 1000000};

        sim_world_link(w, i, !i, 0)->faults = dead;
    }
    if (!ends_well)
        sim_world_break(w, 0, 1);
    w->sever_ppm = 1000000;
    for (unsigned i = 0; i < 2; i++) {
        sim_world_run_until(w, w->now_ns + emx_rng_below(&rng, ends_well ? 20000 : 100 * SIM_MS));
        sim_node_lose(n[i], n[!i], 0);
    }
    if (sim_program_run(p, w->now_ns + 10 * SIM_S))
        sim_model_check(p);
    end(c, LATE_NS);
}

/* The same with devices that write. */
static void by_writes(struct sim_case *c, void (*scenario)(struct sim_case *c))
{
    move = EMX_MOVE_WRITE;
    scenario(c);
    move = EMX_MOVE_READ;
}

static void writes_among_programs(struct sim_case *c)
{
    mixed = c->seed >> 6 & 1;
    by_writes(c, among_programs);
    mixed = false;
}

static void nothing_is_copied_either(struct sim_case *c)
{
    by_writes(c, nothing_is_copied);
}

static void breaks_midway_of_writes(struct sim_case *c)
{
    by_writes(c, breaks_midway);
}

static void write_is_refused(struct sim_case *c)
{
    by_writes(c, is_refused);
}

static void writer_dies(struct sim_case *c)
{
    by_writes(c, sender_dies);
}

static void written_to_was_away(struct sim_case *c)
{
    by_writes(c, receiver_was_away);
}

static void writes_go_another_way(struct sim_case *c)
{
    by_writes(c, goes_another_way);
}

const struct sim_scenario sim_exports[] = {
    {"writes-another-way", "the wire is gone for good: all goes on over the next", writes_go_another_way, 40, 0},
    {"writes", "random programs whose devices write to each other, or some of which; faults", writes_among_programs, 0,
     10},
    {"writes-all", "no byte of a long message comes in a frame", nothing_is_copied_either, 40, 0},
    {"writes-break", "connections break in the middle of messages: the rest is written over others",
     breaks_midway_of_writes, 60, 0},
    {"writes-refused", "a write is refused while another is under way: the rest is pulled", write_is_refused, 40, 0},
    {"writes-sender-dies", "the sender dies in the middle of it", writer_dies, 60, 0},
    {"writes-away", "the receiver was stopped, and the sender has given it up", written_to_was_away, 60, 0},
    {"lends-another-way", "the wire is gone for good: all goes on over the next", goes_another_way, 40, 0},

    {"lends", "random programs whose devices read from each other; all kinds of faults", among_programs, 0, 10},
    {"lends-worth", "what may go eagerly is read only if that is worth the round trips", is_worth_a_round_trip, 10, 0},
    {"lends-all", "no byte of a long message comes in a frame", nothing_is_copied, 40, 0},
    {"lends-announced", "a message leaves in the call that sends it", announced_at_once, 20, 0},
    {"lends-break", "connections break in the middle of messages: the rest is read over others", breaks_midway, 60, 0},
    {"lends-refused", "a read is refused while another is under way: the rest is pulled", is_refused, 40, 0},
    {"lends-sender-dies", "the sender dies in the middle of it", sender_dies, 60, 0},
    {"lends-away", "the receiver was stopped, and the sender has given it up", receiver_was_away, 60, 0},
    {0},
};
