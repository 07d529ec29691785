/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Chunks: eager messages that travel in TSO packets. Two engines, and a network that does with the packets what a test
 * says: it brings them whole, to their place or elsewhere, or in pieces, loses some and lets others pass. All messages
 * arrive, each once and intact, and nothing but their buffers is written.
 */
#include "unit.h"

#include <string.h>

#include "base/placement.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/address.h"
#include "core/format/chunk_frame.h"
#include "core/msg/lend.h"
#include "core/peer.h"
#include "core/rel/session.h"

#define FRAME_BYTES 1500u
#define CHUNK       1448u /* what a frame has room for, in multiples of 8 */
#define MESSAGE     30000u
#define CHUNKS      21u /* of it */
#define ROOM        (MESSAGE + 4096u)
#define PACKETS     256u
#define UNTOUCHED   0xEE
#define TICK_NS     20000000

struct side {
    struct emx_engine *engine;
    struct emx_stats stats;
    struct unit_alloc memory;
    struct emx_peer *peer;
    struct emx_placer placer;
};

/* What a side has sent. */
struct packet {
    uint8_t head[FRAME_BYTES], body[EMX_FRAME_MAX];
    unsigned head_bytes, body_bytes, chunk_bytes;
};

static struct emx_config cfg;
static struct side a, b;
static emx_time now;
static struct packet sent[PACKETS];
static unsigned sent_count;
static uint8_t message[MESSAGE], kept[MESSAGE], room[ROOM];
static uint8_t *const buffer = room + 2048;
static unsigned completed;
static size_t completed_bytes;

/* ---- Two engines ---- */

static struct emx_address address(const struct side *s)
{
    unsigned id = s == &a ? 1 : 2;

    return (struct emx_address){.id = id, .cookie = 2, .host_id = id, .host = "n"};
}

static struct side *other(const struct side *s)
{
    return s == &a ? &b : &a;
}

static void side_open(struct side *s)
{
    const struct emx_address self = address(s), peer = address(other(s));
    const struct emx_engine_params p = {
        .cfg = &cfg, .stats = &s->stats, .alloc = &s->memory.alloc, .self = &self, .seed = self.id};
    uint8_t buf[ETHMX_ADDRESS_MAX];
    char err[256];

    memset(s, 0, sizeof(*s));
    unit_alloc_init(&s->memory);
    assert_int_equal(emx_engine_create(&p, &s->engine), ETHMX_OK);
    assert_int_equal(emx_engine_peer(s->engine, buf, emx_address_encode(&peer, buf), &s->peer, err, sizeof(err)),
                     ETHMX_OK);
    emx_engine_placer(s->engine, &s->placer);
}

static void side_close(struct side *s)
{
    assert_null(emx_engine_check(s->engine));
    emx_engine_destroy(s->engine);
    assert_int_equal(s->memory.live, 0);
}

static void take_completed(struct side *s)
{
    struct ethmx_result r;
    ethmx_done_fn done;
    struct emx_op *op;
    void *arg;

    while ((op = emx_engine_completed(s->engine))) {
        emx_op_result(op, &done, &arg, &r);
        assert_int_equal(r.status, ETHMX_OK);
        completed++;
        completed_bytes = r.len_bytes;
        emx_engine_op_free(s->engine, op);
    }
}

static void keep(const struct emx_txframe *f)
{
    struct packet *p = &sent[sent_count];

    assert_in_range(sent_count++, 0, PACKETS - 1);
    memcpy(p->head, f->head, f->head_bytes);
    if (f->body_bytes)
        memcpy(p->body, f->body, f->body_bytes);
    p->head_bytes = f->head_bytes;
    p->body_bytes = f->body_bytes;
    p->chunk_bytes = f->chunk_bytes;
}

/* Takes what the side sends, all of it. */
static void collect(struct side *s)
{
    const struct emx_route route = {.frame_bytes = FRAME_BYTES, .gso_bytes = FRAME_BYTES, .tso = true, .name = "test"};
    struct emx_txframe f[EMX_WIRE_BATCH];
    struct emx_event ev;
    unsigned n;

    do {
        while (emx_engine_event(s->engine, &ev))
            if (ev.type == EMX_EVENT_ROUTES)
                emx_engine_routes(s->engine, ev.peer, &route, 1, "", now);
        n = emx_engine_output(s->engine, 0, f, EMX_WIRE_BATCH, now);
        for (unsigned i = 0; i < n; i++)
            keep(&f[i]);
    } while (n);
}

/* ---- The network ---- */

/* One frame, with its data behind it. */
static enum emx_drop bring_frame(struct side *to, const uint8_t *head, unsigned head_bytes, const uint8_t *body,
                                 unsigned body_bytes)
{
    static uint8_t frame[EMX_FRAME_MAX];

    memcpy(frame, head, head_bytes);
    memcpy(frame + head_bytes, body, body_bytes);
    return emx_engine_input(to->engine, 0, frame, head_bytes + body_bytes, now);
}

/* The head of a packet as the wire makes it. */
static struct emx_place_head wire_head(const struct packet *p)
{
    struct emx_place_head h;

    memcpy(&h, p->head, sizeof(h));
    h.version = EMX_FRAME_V_OFF;
    h.check = 0;
    h.body_bytes = (uint16_t)(sizeof(struct emx_f_chunk) + p->body_bytes);
    return h;
}

/* A whole packet, whose data goes to its place, if it has one. Returns whether it had. */
static bool bring_placed(struct side *to, const struct packet *p)
{
    const struct emx_place_head h = wire_head(p);
    struct emx_placement plan = {.count = 0};

    to->placer.plan(to->placer.arg, (const uint8_t *)&h, sizeof(h), sizeof(h) + p->body_bytes, &plan);
    if (!plan.count) {
        assert_int_equal(bring_frame(to, (const uint8_t *)&h, sizeof(h), p->body, p->body_bytes), EMX_ACCEPTED);
        return false;
    }
    assert_int_equal(plan.count, 1);
    assert_int_equal(plan.head_bytes, sizeof(h));
    assert_int_equal(plan.place[0].len_bytes, p->body_bytes);
    memcpy(plan.place[0].at, p->body, p->body_bytes);
    assert_int_equal(to->placer.settle(to->placer.arg, &plan, (const uint8_t *)&h, EMX_PLACE_HEAD_BYTES, 1), 1);
    assert_int_equal(emx_engine_input_placed(to->engine, 0, (const uint8_t *)&h, plan.place[0].at,
                                             (uint32_t)sizeof(h) + p->body_bytes, now),
                     EMX_ACCEPTED);
    return true;
}

/* Chunks `from` to `to` of a packet as one frame. */
static enum emx_drop bring_chunks(struct side *to, const struct packet *p, unsigned from, unsigned end)
{
    const struct emx_place_head whole = wire_head(p);
    unsigned n =
        end * p->chunk_bytes < p->body_bytes ? (end - from) * p->chunk_bytes : p->body_bytes - from * p->chunk_bytes;
    struct emx_place_head h = whole;

    h.seq += from;
    h.index = (uint8_t)(h.index + from);
    h.body_bytes = (uint16_t)(sizeof(struct emx_f_chunk) + n);
    return bring_frame(to, (const uint8_t *)&h, sizeof(h), p->body + from * p->chunk_bytes, n);
}

static void bring(struct side *to, const struct packet *p)
{
    if (p->chunk_bytes)
        bring_placed(to, p);
    else
        bring_frame(to, p->head, p->head_bytes, p->body, p->body_bytes);
}

/* Until nobody has anything to say. */
static void converse(void)
{
    do {
        sent_count = 0;
        collect(&a);
        for (unsigned i = 0; i < sent_count; i++)
            bring(&b, &sent[i]);
        sent_count = 0;
        collect(&b);
        for (unsigned i = 0; i < sent_count; i++)
            bring(&a, &sent[i]);
    } while (sent_count);
}

static void tick(void)
{
    now += TICK_NS;
    emx_engine_expire(a.engine, now);
    emx_engine_expire(b.engine, now);
}

/* ---- Messages ---- */

static void begin(void)
{
    struct ethmx_data nothing = {.len_bytes = 0};
    const struct emx_op_args hello = {.data = nothing, .bits = 99};
    struct ethmx_result result;

    emx_config_defaults(&cfg);
    now = 1000000000;
    sent_count = completed = 0;
    side_open(&a);
    side_open(&b);
    assert_int_equal(emx_engine_recv(b.engine, NULL, &hello, NULL, &result, now), ETHMX_INPROGRESS);
    assert_true(emx_engine_send(a.engine, a.peer, &hello, now) >= 0);
    for (unsigned i = 0; i < 3; i++) {
        converse();
        tick();
    }
    take_completed(&a);
    take_completed(&b);
    completed = 0;
    memset(room, UNTOUCHED, sizeof(room));
    for (size_t i = 0; i < MESSAGE; i++)
        kept[i] = message[i] = (uint8_t)(i * 7 + i / CHUNK);
}

static void end(void)
{
    side_close(&a);
    side_close(&b);
}

static void receive(uint64_t bits, uint64_t mask, size_t len_bytes)
{
    const struct emx_op_args args = {.data = {.base = buffer, .len_bytes = len_bytes}, .bits = bits, .mask = mask};
    struct ethmx_result result;

    assert_int_equal(emx_engine_recv(b.engine, NULL, &args, NULL, &result, now), ETHMX_INPROGRESS);
}

/* Sends the message. What has left is in `sent`, and the program uses its memory for something else. */
static void send_message(uint64_t bits)
{
    const struct emx_op_args args = {.data = {.base = message, .len_bytes = MESSAGE}, .bits = bits};

    sent_count = 0;
    emx_engine_lend(a.engine);
    assert_int_equal(emx_engine_send(a.engine, a.peer, &args, now), ETHMX_OK);
    collect(&a);
    emx_engine_settle(a.engine);
    memset(message, 0, sizeof(message));
}

static void expect_one_packet(void)
{
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].chunk_bytes, CHUNK);
    assert_int_equal(sent[0].body_bytes, MESSAGE);
    assert_memory_equal(sent[0].body, kept, MESSAGE);
}

static bool all_arrived(void)
{
    take_completed(&b);
    CHECK(completed == 1 && completed_bytes == MESSAGE);
    CHECK(!memcmp(buffer, kept, MESSAGE));
    for (size_t i = 0; i < ROOM; i++)
        CHECK(room + i >= buffer && room + i < buffer + MESSAGE ? true : room[i] == UNTOUCHED);
    return true;
}

/* ---- Tests ---- */

static void message_goes_to_its_place(void **state)
{
    (void)state;
    begin();
    receive(5, UINT64_MAX, MESSAGE);
    send_message(5);
    expect_one_packet();
    assert_int_equal(a.peer->session->tx.runs, 1);
    assert_true(bring_placed(&b, &sent[0]));
    assert_true(all_arrived());
    converse();
    tick();
    converse();
    assert_int_equal(a.peer->session->tx.runs, 0);
    assert_int_equal(a.engine->txbufs.copies.in_use, 0);
    assert_int_equal(a.stats.frames_resent, 0);
    end();
}

static void message_without_a_receive_waits(void **state)
{
    const struct emx_op_args args = {.data = {.base = buffer, .len_bytes = MESSAGE}, .bits = 5, .mask = UINT64_MAX};
    struct ethmx_result result;

    (void)state;
    begin();
    send_message(5);
    assert_false(bring_placed(&b, &sent[0]));
    assert_int_equal(emx_engine_recv(b.engine, NULL, &args, NULL, &result, now), ETHMX_OK);
    assert_int_equal(result.len_bytes, MESSAGE);
    assert_memory_equal(buffer, kept, MESSAGE);
    end();
}

/* The data has a place only where it will be taken from it. */
static void no_place_where_it_is_not_taken(void **state)
{
    struct emx_placement plan = {.count = 0};
    struct emx_place_head h;

    (void)state;
    begin();
    send_message(5);
    h = wire_head(&sent[0]);
    b.placer.plan(b.placer.arg, (const uint8_t *)&h, sizeof(h), sizeof(h) + MESSAGE, &plan);
    assert_int_equal(plan.count, 0); /* no receive */
    receive(6, UINT64_MAX, MESSAGE);
    b.placer.plan(b.placer.arg, (const uint8_t *)&h, sizeof(h), sizeof(h) + MESSAGE, &plan);
    assert_int_equal(plan.count, 0); /* for another message */
    receive(5, UINT64_MAX, MESSAGE - 1);
    b.placer.plan(b.placer.arg, (const uint8_t *)&h, sizeof(h), sizeof(h) + MESSAGE, &plan);
    assert_int_equal(plan.count, 0); /* too short: the message is truncated */
    receive(0, 0, MESSAGE);
    b.placer.plan(b.placer.arg, (const uint8_t *)&h, sizeof(h), sizeof(h) + MESSAGE, &plan);
    assert_int_equal(plan.count, 0); /* it comes behind that one */
    h.chunk = 7;
    b.placer.plan(b.placer.arg, (const uint8_t *)&h, sizeof(h), sizeof(h) + MESSAGE, &plan);
    assert_int_equal(plan.count, 1);
    h.seq++;
    b.placer.plan(b.placer.arg, (const uint8_t *)&h, sizeof(h), sizeof(h) + MESSAGE, &plan);
    assert_int_equal(plan.count, 0); /* others come before */
    h.seq--;
    b.placer.plan(b.placer.arg, (const uint8_t *)&h, sizeof(h), sizeof(h) + MESSAGE - 1, &plan);
    assert_int_equal(plan.count, 0); /* less data than it says */
    b.placer.plan(b.placer.arg, (const uint8_t *)&h, sizeof(h), sizeof(h) + MESSAGE, &plan);
    assert_int_equal(plan.count, 1);
    h.chunk = 5; /* the packet that comes is not the one that was announced */
    assert_int_equal(b.placer.settle(b.placer.arg, &plan, (const uint8_t *)&h, EMX_PLACE_HEAD_BYTES, 1), 0);
    end();
}

/* Pieces of the packet, in random order, some twice, some lost: what is missing is sent again. */
static bool pieces_of_seed_arrive(uint64_t seed)
{
    struct emx_rng r = {.state = seed};
    unsigned cuts[2 * CHUNKS][2], n = 0;

    begin();
    receive(5, UINT64_MAX, MESSAGE);
    send_message(5);
    CHECK(sent_count == 1);
    for (unsigned from = 0; from < CHUNKS;) {
        unsigned to = from + 1 + (unsigned)emx_rng_below(&r, CHUNKS - from);

        if (emx_rng_below(&r, 4) || seed % 8 == 0) {
            cuts[n][0] = from;
            cuts[n++][1] = to;
        }
        if (emx_rng_below(&r, 4) == 0) {
            cuts[n][0] = from - (unsigned)emx_rng_below(&r, from + 1);
            cuts[n++][1] = to;
        }
        from = to;
    }
    for (unsigned i = n; seed % 2 && i > 1; i--) {
        unsigned k = (unsigned)emx_rng_below(&r, i), c0 = cuts[k][0], c1 = cuts[k][1];

        cuts[k][0] = cuts[i - 1][0], cuts[k][1] = cuts[i - 1][1];
        cuts[i - 1][0] = c0, cuts[i - 1][1] = c1;
    }
    for (unsigned i = 0; i < n; i++) {
        enum emx_drop why = bring_chunks(&b, &sent[0], cuts[i][0], cuts[i][1]);

        CHECK(why == EMX_ACCEPTED || why == EMX_DROP_DUPLICATE);
        CHECK(!emx_engine_check(b.engine));
    }
    for (unsigned i = 0; i < 40; i++) {
        converse();
        CHECK(!emx_engine_check(a.engine));
        tick();
    }
    CHECK(all_arrived());
    CHECK(a.engine->txbufs.copies.in_use == 0 && !a.peer->session->tx.runs);
    end();
    return true;
}

static void pieces_arrive(void **state)
{
    (void)state;
    each_seed(500, pieces_of_seed_arrive);
}

/* A part of the run is acknowledged: the rest is kept, and sent again frame by frame. */
static void parts_may_be_acknowledged(void **state)
{
    (void)state;
    for (unsigned n = 1; n < CHUNKS; n++) {
        begin();
        receive(5, UINT64_MAX, MESSAGE);
        send_message(5);
        assert_int_equal(bring_chunks(&b, &sent[0], 0, n), EMX_ACCEPTED);
        sent_count = 0;
        b.peer->session->rx.ack_now = true;
        emx_session_ready(b.peer->session);
        collect(&b);
        for (unsigned i = 0; i < sent_count; i++)
            bring(&a, &sent[i]);
        assert_int_equal(a.peer->session->tx.runs, 0);
        assert_int_equal(a.peer->session->tx.next - a.peer->session->tx.acked, CHUNKS - n);
        assert_null(emx_engine_check(a.engine));
        for (unsigned i = 0; i < 20; i++) {
            tick();
            converse();
        }
        assert_true(all_arrived());
        assert_in_range(a.stats.frames_resent, CHUNKS - n, CHUNKS - n + 2); /* the first ones are a probe */
        end();
    }
}

/* Without memory a run stays what it is, and its message arrives later. */
static void runs_are_split_when_there_is_memory(void **state)
{
    (void)state;
    begin();
    receive(5, UINT64_MAX, MESSAGE);
    send_message(5);
    a.memory.fail_at = a.memory.calls + 1;
    for (unsigned i = 0; i < 5; i++) {
        tick();
        collect(&a);
        assert_null(emx_engine_check(a.engine));
    }
    a.memory.fail_at = 0;
    for (unsigned i = 0; i < 40; i++) {
        tick();
        converse();
    }
    assert_true(all_arrived());
    end();
}

/* Heads that no sender makes. */
static void malformed_chunks_are_dropped(void **state)
{
    static const struct {
        unsigned total_bytes, index, chunk_bytes, body_bytes;
    } bad[] = {
        {0, 0, CHUNK, 100},          /* no message */
        {MESSAGE, 0, 7, 7},          /* chunks too short, */
        {MESSAGE, 0, 9300, 9300},    /* or too long */
        {MESSAGE, 0, 8, 8},          /* too many */
        {MESSAGE, 0, CHUNK, 100},    /* one that is too short, in the beginning */
        {MESSAGE, 21, CHUNK, 100},   /* behind the end */
        {MESSAGE, 20, CHUNK, CHUNK}, /* over the end */
        {MESSAGE, 1, CHUNK, CHUNK},  /* its beginning is missing */
        {0xffffff, 0, 9000, 9000},   /* more than the sender has credit for */
    };
    static const uint8_t data[9300];

    (void)state;
    begin();
    receive(5, UINT64_MAX, MESSAGE);
    send_message(5);
    for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
        struct emx_place_head h = wire_head(&sent[0]);

        h.total_low = (uint16_t)bad[i].total_bytes;
        h.total_high = (uint8_t)(bad[i].total_bytes >> 16);
        h.index = (uint8_t)bad[i].index;
        h.chunk_bytes = (uint16_t)bad[i].chunk_bytes;
        h.body_bytes = (uint16_t)(sizeof(struct emx_f_chunk) + bad[i].body_bytes);
        assert_int_equal(bring_frame(&b, (const uint8_t *)&h, sizeof(h), data, bad[i].body_bytes), EMX_DROP_MALFORMED);
        assert_null(emx_engine_check(b.engine));
    }
    assert_true(bring_placed(&b, &sent[0]));
    assert_true(all_arrived());
    end();
}

/* Where packets are not reported to arrive, few are sent. */
static void few_are_sent_where_none_arrive(void **state)
{
    unsigned packets = 0;

    (void)state;
    begin();
    for (unsigned i = 0; i < 50; i++) {
        const struct emx_op_args args = {.data = {.base = kept, .len_bytes = MESSAGE}, .bits = i};

        sent_count = 0;
        emx_engine_lend(a.engine);
        assert_true(emx_engine_send(a.engine, a.peer, &args, now) >= 0);
        collect(&a);
        emx_engine_settle(a.engine);
        for (unsigned k = 0; k < sent_count; k++) {
            packets += sent[k].chunk_bytes != 0;
            if (!sent[k].chunk_bytes)
                bring(&b, &sent[k]);
        }
        for (unsigned k = 0; k < 20; k++) {
            converse();
            tick();
        }
        take_completed(&a);
    }
    assert_in_range(packets, 1, 4);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_goes_to_its_place),      cmocka_unit_test(message_without_a_receive_waits),
        cmocka_unit_test(no_place_where_it_is_not_taken), cmocka_unit_test(pieces_arrive),
        cmocka_unit_test(parts_may_be_acknowledged),      cmocka_unit_test(runs_are_split_when_there_is_memory),
        cmocka_unit_test(malformed_chunks_are_dropped),   cmocka_unit_test(few_are_sent_where_none_arrive),
    };

    return cmocka_run_group_tests_name("chunk", tests, NULL, NULL);
}
