/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads: large messages read from the sender's memory; reads that fail, senders that die, receivers that were away for
 * so long that the sender has given them up.
 */
#include <string.h>

#include "scenario.h"

#define TIMEOUT_NS (2 * SIM_S)
#define BIG_BYTES  4000000 /* several pieces */

static void begin(struct sim_case *c, unsigned nodes, struct emx_rng *rng)
{
    struct sim_world *w = &c->world;

    sim_case_begin(c, nodes, 1);
    w->cfg.p_peer_timeout = TIMEOUT_NS;
    w->cfg.p_pull_window = 16384u << emx_rng_below(rng, 8);
    w->cfg.p_read_min = 1u << emx_rng_below(rng, 18);
    w->reads = true;
    w->read_bps = emx_rng_below(rng, 2) ? 40000000000ull : 0;
    sim_world_rate(w, 10000000000ull, 65536, 0);
    sim_world_start(w);
}

/* Random programs; seed bits 0 to 2: frames are lost, reads fail, reads take many rounds. */
static void among_programs(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_world *w = &c->world;
    struct sim_traffic *t;
    struct sim_mix mix;

    begin(c, 2 + c->seed % 4, &rng);
    if (c->seed & 1)
        sim_world_faults(w, &(struct sim_faults){.delay_ns = 5000, .drop_ppm = 20000});
    if (c->seed & 2)
        w->read_fail_ppm = 100000;
    if (c->seed & 4)
        w->read_slow_ns = SIM_MS;
    sim_mix_draw(&mix, &rng);
    t = sim_traffic_start(&c->program, &mix, c->seed);
    sim_traffic_run(t, w->now_ns + 20 * SIM_S);
    for (unsigned i = 0; i < w->node_count && !sim_failed(w); i++)
        if (w->nodes[i].stats.reads_failed > (c->seed & 2 ? w->node_count - 1 : 0))
            sim_fail(w, "n%u: more reads failed than there are peers", i);
    sim_traffic_free(t);
    sim_case_end(c);
}

/* Each shape of receive buffer, longer and shorter than the message; the sender's is in one piece. Nothing is pulled.
 */
static void every_shape(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;
    size_t room_bytes = c->seed & 1 ? BIG_BYTES : BIG_BYTES - 100001;

    begin(c, 2, &rng);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    for (unsigned i = 0; i < 2 * SIM_SHAPES; i++) {
        if (i % 2)
            sim_recv(p, b, a->party, i, SIM_FULL_MASK, room_bytes, i / 2);
        sim_node_pump(b);
        sim_send(p, a, b->party, i, BIG_BYTES, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
        sim_node_pump(a);
        sim_world_run_until(w, w->now_ns + SIM_MS);
        if (!(i % 2))
            sim_recv(p, b, a->party, i, SIM_FULL_MASK, room_bytes, i / 2);
        sim_node_pump(b);
    }
    if (sim_program_run(p, w->now_ns + SIM_S))
        sim_model_check(p);
    if (sim_bytes_read(w) != 2 * SIM_SHAPES * room_bytes || b->stats.pulls_sent)
        sim_fail(w, "%llu bytes were read, %llu blocks pulled", (unsigned long long)sim_bytes_read(w),
                 (unsigned long long)b->stats.pulls_sent);
    sim_case_end(c);
}

static void on_read_fail(struct sim_case *c, uint64_t at_ns)
{
    sim_world_run_until(&c->world, at_ns);
    c->world.read_fail_ppm = 1000000;
}

/* A read fails in the middle of a message: the rest is pulled, nothing is read a second time, later ones are pulled. */
static void fails_midway(struct sim_case *c)
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
    sim_messages_shaped(c, a, b, BIG_BYTES);
    on_read_fail(c, w->now_ns + 10000 + c->seed * 10000);
    if (sim_program_run(p, w->now_ns + SIM_S))
        sim_model_check(p);
    w->read_fail_ppm = 0;
    sim_recv(p, b, a->party, 9, SIM_FULL_MASK, BIG_BYTES, SIM_CONTIGUOUS);
    sim_send(p, a, b->party, 9, BIG_BYTES, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pump(a);
    sim_program_run(p, w->now_ns + SIM_S);
    if (b->stats.reads_failed != 1 || sim_bytes_read(w) >= 3 * BIG_BYTES)
        sim_fail(w, "%llu reads failed, %llu bytes were read", (unsigned long long)b->stats.reads_failed,
                 (unsigned long long)sim_bytes_read(w));
    sim_case_end(c);
}

static void sender_dies(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};

    begin(c, 2, &rng);
    c->world.read_bps = 10000000000ull;
    sim_sender_dies(c, BIG_BYTES);
    sim_case_end(c);
}

/* The sender falls silent while it has a hand in a read. The receiver's other operations fail in time; the receive
 * whose memory may still be written to does not end before the read has. */
static void sender_stuck(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    begin(c, 2, &rng);
    w->read_slow_ns = 4 * TIMEOUT_NS;
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    p->doomed[a->party] = p->doomed[b->party] = p->loses = true;
    for (unsigned i = 0; i < 3; i++) {
        sim_recv(p, b, a->party, i, SIM_FULL_MASK, BIG_BYTES, SIM_CONTIGUOUS);
        sim_send(p, a, b->party, i, BIG_BYTES, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    }
    sim_send(p, b, a->party, 9, 100, ETHMX_SEND_SYNC, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_node_pump(a);
    sim_world_run_until(w, w->now_ns + SIM_MS);
    sim_node_crash(a);
    sim_program_bury(p, a->party);
    sim_program_run(p, w->now_ns + 8 * TIMEOUT_NS);
    if (b->failed_peers != 1)
        sim_fail(w, "the receiver was not told");
    sim_case_end(c);
}

static void receiver_was_away(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};

    begin(c, 2, &rng);
    c->world.read_bps = 10000000000ull;
    sim_receiver_was_away(c, BIG_BYTES);
    sim_case_end(c);
}

/* The same where the receiver is more patient than the sender, as that has told it. */
static void patient_receiver_was_away(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};

    begin(c, 2, &rng);
    c->world.read_bps = 10000000000ull;
    c->world.nodes[1].cfg.p_peer_timeout *= 10;
    sim_receiver_was_away(c, BIG_BYTES);
    sim_case_end(c);
}

/* Stopped, but not for so long that the sender gives up: the next message is pulled, the one after it read again. */
static void trusts_again(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;
    uint64_t read;

    begin(c, 2, &rng);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    sim_send(p, a, b->party, 0, BIG_BYTES, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pump(a);
    sim_world_run_until(w, w->now_ns + SIM_MS);
    sim_node_pace(b, SIM_STOPPED, w->now_ns + TIMEOUT_NS / 2 + 1);
    sim_world_run_until(w, w->now_ns + TIMEOUT_NS / 2 + SIM_MS);
    for (unsigned i = 0; i < 2; i++) {
        read = b->stats.bytes_read;
        sim_recv(p, b, a->party, i, SIM_FULL_MASK, BIG_BYTES, SIM_CONTIGUOUS);
        sim_node_pump(b);
        sim_program_run(p, w->now_ns + SIM_S);
        if (b->stats.bytes_read - read != i * BIG_BYTES)
            sim_fail(w, "%llu bytes of message %u were read", (unsigned long long)(b->stats.bytes_read - read), i);
        sim_send(p, a, b->party, 1, BIG_BYTES, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
        sim_node_pump(a);
    }
    sim_recv(p, b, a->party, 1, SIM_FULL_MASK, BIG_BYTES, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_program_run(p, w->now_ns + SIM_S);
    sim_case_end(c);
}

/* ---- Bad announcements ---- */

/* An rts as node 0 could send it to node 1 next, address_bytes long at its end, and how it is taken. */
static void announce(struct sim_case *c, uint16_t am_header_bytes, size_t address_bytes)
{
    struct sim_world *w = &c->world;
    const struct sim_node *a = &w->nodes[0], *b = &w->nodes[1];
    struct {
        struct emx_frame h;
        struct emx_f_rts t;
        uint8_t address[16];
    } EMX_LAYOUT f = {.h = {.type = EMX_F_rts,
                            .body_bytes = (uint16_t)(sizeof(f.t) + address_bytes),
                            .dst_id = w->party[b->party].id,
                            .cookie = w->cookie,
                            .src_id = w->party[a->party].id,
                            .seq = 1},
                      .t = {.bits = 5,
                            .total_bytes = 100000,
                            .op = 77,
                            .chunk_bytes = 1000,
                            .am_header_bytes = am_header_bytes,
                            .flags = EMX_FF_READ}};

    memset(f.address, 0x7f, sizeof(f.address));
    emx_frame_seal(&f, sizeof(f.h) + f.h.body_bytes, NULL, 0, w->cfg.p_checksum);
    sim_link_inject(sim_world_link(w, 0, 1, 0), &f, sizeof(f.h) + f.h.body_bytes, w->now_ns);
    sim_world_run_until(w, w->now_ns + SIM_MS);
}

/* Addresses of the wrong length are malformed. A right one is of no use where nothing can be read. */
static void bad_announcements(struct sim_case *c)
{
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;

    sim_case_begin(c, 2, 1);
    w->cfg.p_checksum = c->seed % 3;
    sim_world_start(w);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    announce(c, 0, 0);
    announce(c, 0, 7);
    announce(c, 0, 16);
    announce(c, 8, 8);
    announce(c, 8, 16);
    if (b->stats.drop_malformed != 5)
        sim_fail(w, "%llu frames were malformed", (unsigned long long)b->stats.drop_malformed);
    announce(c, 0, 8);
    sim_recv(p, b, a->party, 5, SIM_FULL_MASK, 100000, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_world_run_until(w, w->now_ns + SIM_MS);
    if (b->stats.drop_malformed != 5 || b->stats.bytes_read || b->stats.reads_failed || !b->stats.pulls_sent)
        sim_fail(w, "it was not pulled");
    sim_node_crash(b);
    sim_program_bury(p, b->party);
    sim_case_end(c);
}

const struct sim_scenario sim_reads[] = {
    {"reads", "random programs that read from each other; frames are lost, reads fail", among_programs, 0, 10},
    {"reads-shapes", "every shape of receive buffer, early and late: nothing is pulled", every_shape, 16, 0},
    {"reads-fail", "reads fail in the middle of messages: the rest is pulled", fails_midway, 60, 0},
    {"reads-sender-dies", "the sender dies in the middle of it", sender_dies, 60, 0},
    {"reads-stuck", "the sender falls silent while it has a hand in a read", sender_stuck, 60, 0},
    {"reads-away-patient", "the same, and the receiver would have waited for longer", patient_receiver_was_away, 60, 0},
    {"reads-away", "the receiver was stopped, and the sender has given it up", receiver_was_away, 60, 0},
    {"reads-bad", "announcements with bad addresses, or where nothing can be read", bad_announcements, 3, 0},
    {"reads-lapse", "the receiver was stopped, and the sender has not given it up", trusts_again, 8, 0},
    {0},
};
