/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GSO packets: they are used where they arrive joined, and hardly where they are cut or lost on the way.
 */
#include "scenario.h"

#include "core/msg/rndv.h"

#define GSO_BYTES     1472
#define MESSAGE_BYTES 2000000
#define MESSAGES      8

#define EAGER_BYTES 12000
#define CHUNK_BYTES 30000 /* a message that goes in chunks where TSO packets do */
#define EAGERS      400   /* enough that the first tries hardly count */

static void begin_with_blocks(struct sim_case *c, enum sim_gso gso, unsigned block_chunks)
{
    struct sim_faults faults = {.delay_ns = 10000};

    sim_case_begin(c, 2, 1);
    c->world.cfg.p_pull_frames = block_chunks;
    c->world.gso_bytes = GSO_BYTES;
    c->world.gso = gso;
    c->world.tso |= gso == SIM_GSO_NO_TSO || gso == SIM_GSO_PIECES;
    sim_world_rate(&c->world, 10000000000, 0, 0);
    sim_world_faults(&c->world, &faults);
    sim_world_start(&c->world);
    sim_connect(c, &c->world.nodes[0], &c->world.nodes[1]);
}

static void begin(struct sim_case *c, enum sim_gso gso)
{
    begin_with_blocks(c, gso, 64);
}

/* Large messages, one after the other; each must come in time. */
static void transfer(struct sim_case *c, uint64_t slack_ns)
{
    struct sim_node *a = &c->world.nodes[0], *b = &c->world.nodes[1];

    for (unsigned i = 0; i < MESSAGES; i++) {
        sim_messages(c, a, b, 1, MESSAGE_BYTES);
        if (!sim_program_run(&c->program, sim_limit(&c->world, MESSAGE_BYTES, 10000000000, slack_ns)))
            return;
    }
}

/* The same with eager messages under way beside each. */
static void transfer_mixed(struct sim_case *c, uint64_t slack_ns)
{
    struct sim_node *a = &c->world.nodes[0], *b = &c->world.nodes[1];

    for (unsigned i = 0; i < MESSAGES; i++) {
        for (unsigned k = 0; k < 5; k++)
            sim_messages(c, a, b, 1, k == 2 ? MESSAGE_BYTES : k == 4 ? CHUNK_BYTES : EAGER_BYTES);
        if (!sim_program_run(&c->program, sim_limit(&c->world, MESSAGE_BYTES, 10000000000, slack_ns)))
            return;
    }
}

/* The share of data frames that went in GSO packets. */
static void expect_share(struct sim_world *w, unsigned least_percent, unsigned most_percent)
{
    uint64_t percent = w->data_frames ? 100 * w->gso_frames / w->data_frames : 0;

    if (percent < least_percent || percent > most_percent)
        sim_fail(w, "%llu of %llu data frames went in GSO packets", (unsigned long long)w->gso_frames,
                 (unsigned long long)w->data_frames);
    w->gso_frames = w->data_frames = 0;
}

/* A block fills a GSO packet; a pull requests several blocks. */
static void expect_few_pulls(struct sim_world *w)
{
    uint64_t blocks = MESSAGES * (MESSAGE_BYTES / EMX_WIRE_JOIN_BYTES), pulls = w->nodes[1].stats.pulls_sent;

    if (pulls > blocks / 2)
        sim_fail(w, "%llu pulls for %llu blocks", (unsigned long long)pulls, (unsigned long long)blocks);
}

/* In every other play they are TSO packets. */
static void expect_tso(struct sim_world *w)
{
    if (w->tso ? w->tso_frames * 100 < w->gso_frames * 95 : w->tso_frames)
        sim_fail(w, "%llu of %llu frames went in TSO packets", (unsigned long long)w->tso_frames,
                 (unsigned long long)w->gso_frames);
}

static void joined(struct sim_case *c)
{
    begin(c, SIM_GSO_JOINED);
    transfer(c, 10 * SIM_MS);
    expect_tso(&c->world);
    expect_share(&c->world, 90, 100);
    expect_few_pulls(&c->world);
    sim_case_end(c);
}

/* A block that is shorter than a TSO packet goes in one: the end of a batch splits none. */
static void short_blocks(struct sim_case *c)
{
    unsigned block_chunks = 20 + c->seed % 20;
    uint64_t blocks = MESSAGES * (MESSAGE_BYTES / (block_chunks * GSO_BYTES) + 1), packets;

    begin_with_blocks(c, SIM_GSO_JOINED, block_chunks);
    transfer(c, 10 * SIM_MS);
    expect_tso(&c->world);
    packets = c->world.tso_packets;
    if (packets * 100 > blocks * 115)
        sim_fail(&c->world, "%llu TSO packets for %llu blocks of %u frames", (unsigned long long)packets,
                 (unsigned long long)blocks, block_chunks);
    sim_case_end(c);
}

/* The sender is away in the middle of each message. The time-outs of the receiver cost a frame each: what it has
 * requested already comes as it would have come. */
static void sender_away(struct sim_case *c)
{
    const uint64_t away_ns = (5 + c->seed) * SIM_MS, chunk_bytes = GSO_BYTES - EMX_RNDV_HEAD_BYTES;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;
    uint64_t needed, resent;

    begin(c, SIM_GSO_JOINED);
    a = &w->nodes[0];
    b = &w->nodes[1];
    for (unsigned i = 0; i < MESSAGES; i++) {
        sim_messages(c, a, b, 1, MESSAGE_BYTES);
        sim_world_run_until(w, w->now_ns + 100000 * i + 1);
        sim_node_pace(a, SIM_STOPPED, w->now_ns + away_ns);
        if (!sim_program_run(&c->program, sim_limit(w, MESSAGE_BYTES, 10000000000, away_ns + 10 * SIM_MS)))
            break;
    }
    needed = MESSAGES * emx_rndv_chunks(MESSAGE_BYTES, chunk_bytes);
    resent = b->stats.pulls_resent;
    if (resent < MESSAGES / 2 || w->data_frames > needed + resent)
        sim_fail(w, "%llu data frames where %llu were needed, and %llu pulls were repeated",
                 (unsigned long long)w->data_frames, (unsigned long long)needed, (unsigned long long)resent);
    expect_tso(w);
    expect_share(w, 90, 100);
    sim_case_end(c);
}

/* Data is received into its place: most of it, although by chance some packets are guessed wrong (sim_packet.h); and
 * frames that are lost on the way cost a copy of little more than what follows them in a packet. */
static void placed(struct sim_case *c)
{
    struct sim_faults faults = {.delay_ns = 10000, .drop_ppm = c->seed & 1 ? 10000 : 0};
    struct sim_node *b;
    uint64_t copied;

    begin(c, SIM_GSO_JOINED);
    sim_world_faults(&c->world, &faults);
    transfer(c, SIM_S);
    b = &c->world.nodes[1];
    copied = 100 * b->stats.bytes_copied / ((uint64_t)MESSAGES * MESSAGE_BYTES);
    if (!b->wire[0]->packet.placed || copied > 60)
        sim_fail(&c->world, "%llu%% of the data was copied, %llu frames had a place", (unsigned long long)copied,
                 (unsigned long long)b->wire[0]->packet.placed);
    sim_case_end(c);
}

static void cut(struct sim_case *c)
{
    begin(c, SIM_GSO_CUT);
    transfer(c, 10 * SIM_MS);
    expect_share(&c->world, 0, 10);
    sim_case_end(c);
}

/* TSO packets that an interface has segmented, and nobody joins: they are used all the same. */
static void pieces(struct sim_case *c)
{
    begin(c, SIM_GSO_PIECES);
    transfer(c, 10 * SIM_MS);
    expect_tso(&c->world);
    expect_share(&c->world, 90, 100);
    sim_case_end(c);
}

static void lost(struct sim_case *c)
{
    begin(c, SIM_GSO_LOST);
    transfer(c, SIM_S);
    expect_share(&c->world, 0, 10);
    sim_case_end(c);
}

/* The way they take breaks, which is noticed soon, and is there again. */
static void lost_and_found(struct sim_case *c)
{
    begin(c, SIM_GSO_JOINED);
    transfer(c, 10 * SIM_MS);
    c->world.gso = SIM_GSO_LOST;
    transfer(c, 100 * SIM_MS);
    c->world.gso_frames = c->world.data_frames = 0;
    transfer(c, SIM_S);
    expect_share(&c->world, 0, 10);
    c->world.gso = SIM_GSO_JOINED;
    for (unsigned i = 0; i < 20; i++)
        transfer(c, SIM_S);
    c->world.gso_frames = c->world.data_frames = 0;
    transfer(c, 10 * SIM_MS);
    expect_share(&c->world, 90, 100);
    sim_case_end(c);
}

/* Eager messages, short ones or long ones, one way only or back and forth: they keep the trust by themselves. */
static void eager(struct sim_case *c, uint64_t slack_ns)
{
    const bool answers = c->seed >> 1 & 1;
    const uint64_t len_bytes = c->seed >> 2 & 1 ? CHUNK_BYTES : EAGER_BYTES;
    struct sim_node *n = c->world.nodes;

    for (unsigned i = 0; i < EAGERS; i++) {
        bool back = answers && i % 2;

        sim_recv(&c->program, &n[!back], n[back].party, 0, SIM_FULL_MASK, len_bytes, SIM_CONTIGUOUS);
        sim_send(&c->program, &n[back], n[!back].party, 0, len_bytes, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
        sim_node_pump(&n[!back]);
        sim_node_pump(&n[back]);
        if (answers)
            sim_world_run_until(&c->world, c->world.now_ns + 80000);
    }
    if (sim_program_run(&c->program, sim_limit(&c->world, EAGERS * len_bytes, 10000000000, slack_ns)))
        sim_model_check(&c->program);
    if (n[0].stats.sent_medium + n[0].stats.sent_held + n[1].stats.sent_medium + n[1].stats.sent_held != EAGERS)
        sim_fail(&c->world, "messages were not sent eagerly");
}

static void eager_joined(struct sim_case *c)
{
    begin(c, SIM_GSO_JOINED);
    eager(c, 10 * SIM_MS);
    if (c->seed >> 2 & 1 && c->seed >> 1 & 1) /* otherwise most wait for others, and go in frames of the other form */
        expect_tso(&c->world);
    expect_share(&c->world, 90, 100);
    sim_case_end(c);
}

static void eager_cut(struct sim_case *c)
{
    begin(c, SIM_GSO_CUT);
    eager(c, 10 * SIM_MS);
    expect_share(&c->world, 0, 10);
    sim_case_end(c);
}

static void eager_lost(struct sim_case *c)
{
    begin(c, SIM_GSO_LOST);
    eager(c, SIM_S);
    expect_share(&c->world, 0, 10);
    sim_case_end(c);
}

/* Messages in chunks are received into their place, if a receive is there. Some frames are lost on the way. */
static void eager_placed(struct sim_case *c)
{
    struct sim_faults faults = {
        .delay_ns = 10000, .drop_ppm = c->seed & 2 ? 1000 : 0, .reorder_ppm = c->seed & 4 ? 10000 : 0};
    uint64_t placed, least = faults.drop_ppm || faults.reorder_ppm ? EAGERS / 4 : EAGERS * 9 / 10;

    begin(c, SIM_GSO_JOINED);
    sim_world_faults(&c->world, &faults);
    c->seed |= 4;
    eager(c, SIM_S);
    placed = c->world.nodes[0].wire[0]->packet.placed + c->world.nodes[1].wire[0]->packet.placed;
    if (c->world.tso && placed < least)
        sim_fail(&c->world, "%llu packets of %u messages had a place", (unsigned long long)placed, EAGERS);
    sim_case_end(c);
}

/* Messages of PUSHED_BYTES to and fro. The first that are pushed follow as many that show that frames arrive. */
#define PUSHES       100
#define PUSHED_BYTES 200000

static void push_back_and_forth(struct sim_case *c, bool unexpected)
{
    struct sim_node *n = c->world.nodes;

    for (unsigned i = 0; i < PUSHES; i++) {
        const bool back = i % 2;

        if (!unexpected)
            sim_recv(&c->program, &n[!back], n[back].party, 0, SIM_FULL_MASK, PUSHED_BYTES, SIM_CONTIGUOUS);
        sim_send(&c->program, &n[back], n[!back].party, 0, PUSHED_BYTES, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
        sim_node_pump(&n[!back]);
        sim_node_pump(&n[back]);
        if (unexpected) {
            sim_world_run_until(&c->world, c->world.now_ns + 1000000);
            sim_recv(&c->program, &n[!back], n[back].party, 0, SIM_FULL_MASK, PUSHED_BYTES, SIM_CONTIGUOUS);
            sim_node_pump(&n[!back]);
        }
        if (!sim_program_run(&c->program, sim_limit(&c->world, PUSHED_BYTES, 10000000000, SIM_S)))
            return;
    }
    sim_model_check(&c->program);
}

/* Where there is a receive, the first data comes with the announcement. */
static void pushed(struct sim_case *c)
{
    struct sim_faults faults = {
        .delay_ns = 10000, .drop_ppm = c->seed & 2 ? 2000 : 0, .reorder_ppm = c->seed & 4 ? 10000 : 0};
    const bool unexpected = c->seed & 8;
    struct sim_node *n;
    uint64_t pushed, stale;

    begin(c, SIM_GSO_JOINED);
    sim_world_faults(&c->world, &faults);
    push_back_and_forth(c, unexpected);
    n = c->world.nodes;
    pushed = n[0].stats.sent_pushed + n[1].stats.sent_pushed;
    stale = n[0].stats.drop_stale + n[1].stats.drop_stale;
    if (!c->world.tso && pushed)
        sim_fail(&c->world, "%llu messages were pushed without TSO packets", (unsigned long long)pushed);
    if (c->world.tso && !faults.drop_ppm && !faults.reorder_ppm &&
        (unexpected ? pushed > PUSHES / 8 || !stale : pushed < PUSHES / 3 || stale))
        sim_fail(&c->world, "%llu messages were pushed, %llu in vain", (unsigned long long)pushed,
                 (unsigned long long)stale);
    sim_case_end(c);
}

/* Of the frames in GSO packets few went in TSO packets, which are lost. */
static void expect_few_tso(struct sim_world *w)
{
    if (!w->tso_frames || 20 * w->tso_frames > w->gso_frames)
        sim_fail(w, "%llu of %llu frames in GSO packets went in TSO packets", (unsigned long long)w->tso_frames,
                 (unsigned long long)w->gso_frames);
    w->tso_frames = 0;
}

/* Some are lost before it is noticed. No message waits for longer than a second. */
static void lose_tso(struct sim_case *c, void (*send)(struct sim_case *c, uint64_t slack_ns))
{
    begin(c, SIM_GSO_NO_TSO);
    for (unsigned i = 0; i < 20; i++)
        send(c, SIM_S);
    expect_few_tso(&c->world);
    expect_share(&c->world, 80, 100);
    sim_case_end(c);
}

static void no_tso(struct sim_case *c)
{
    lose_tso(c, transfer);
}

/* Between the large messages are eager ones, whose GSO packets arrive. */
static void eager_without_tso(struct sim_case *c)
{
    lose_tso(c, transfer_mixed);
}

const struct sim_scenario sim_gso[] = {
    {"GSO packets-joined", "GSO packets come as they were sent", joined, 4, 0},
    {"GSO packets-short-blocks", "blocks are shorter than the packets", short_blocks, 20, 0},
    {"GSO packets-away", "the sender is away in the middle of messages", sender_away, 20, 0},
    {"GSO packets-placed", "large messages are received into their place", placed, 20, 0},
    {"GSO packets-pushed", "the beginning of messages leaves with their announcement", pushed, 32, 0},
    {"GSO packets-cut", "nobody joins what was cut on the way", cut, 4, 0},
    {"GSO packets-pieces", "nobody joins what an interface has segmented", pieces, 4, 0},
    {"GSO packets-lost", "the network loses GSO packets and nothing else", lost, 4, 0},
    {"GSO packets-lost-and-found", "it loses them for a while", lost_and_found, 2, 0},
    {"GSO packets-no-tso", "the network loses TSO packets only", no_tso, 4, 0},
    {"GSO packets-eager-no-tso", "it does so while eager messages arrive in GSO packets", eager_without_tso, 4, 0},
    {"GSO packets-eager-joined", "eager messages in GSO packets that come as they were sent", eager_joined, 8, 0},
    {"GSO packets-eager-placed", "eager messages in TSO packets, of which some are lost", eager_placed, 16, 0},
    {"GSO packets-eager-cut", "eager messages: nobody joins what was cut on the way", eager_cut, 8, 0},
    {"GSO packets-eager-lost", "eager messages: the network loses GSO packets", eager_lost, 8, 0},
    {0},
};
