/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Engine: one with thousands of connected peers. The peers are partners, which know just enough of the protocol, in a
 * few bytes each: they shake hands, spend credit, give it back, and answer pings. Frames between them and the engine
 * arrive at once and in order.
 */

#include <stdio.h>
#include <string.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/address.h"
#include "core/format/frame.h"
#include "core/msg/lend.h"
#include "core/peer.h"
#include "core/rel/credit.h"
#include "core/rel/session.h"
#include "core/time.h"
#include "unit.h"

#define PARTNERS    4096
#define EARLY       32 /* partners that come first, and take what they can get */
#define LEN_BYTES   1024
#define FRAME_BYTES 1500
#define LATER_NS    1000000000

struct partner {
    struct emx_peer *peer;
    uint32_t tx_next, rx_next;
    uint32_t used, limit;   /* credit */
    uint32_t limit_ack;     /* frames that acknowledge less tell an old limit */
    unsigned eager, held;   /* messages sent: so, or by rendezvous for want of credit */
    unsigned frames, pings; /* that came */
    unsigned data;          /* so many of the frames brought data of a large message */
    unsigned matched;
    uint32_t op; /* of the last message that was announced */
    bool mute;
};

static struct emx_config cfg;
static struct emx_stats stats;
static struct unit_alloc memory;
static struct emx_engine *engine;
static struct partner partners[PARTNERS];
static emx_time now;
static uint16_t gso_bytes; /* of the routes */
static unsigned routes;    /* to each partner */

/* ---- Partners ---- */

static struct emx_address address(unsigned number)
{
    struct emx_address a = {.id = number + 1, .cookie = 2, .host_id = number / 16 + 1};

    snprintf(a.host, sizeof(a.host), "n%u", number / 16);
    return a;
}

static struct emx_session *session(unsigned i)
{
    return partners[i].peer->session;
}

/* To the engine; head is followed by body_bytes bytes. */
static enum emx_drop say(unsigned i, struct emx_frame *head, enum emx_frame_type type, size_t body_bytes)
{
    struct partner *p = &partners[i];

    head->type = (uint8_t)type;
    head->body_bytes = (uint16_t)body_bytes;
    head->dst_id = address(0).id;
    head->cookie = address(0).cookie;
    head->src_id = address(i + 1).id;
    head->seq = emx_frame_info[type].sequenced ? p->tx_next++ : 0;
    head->ack = p->rx_next;
    head->credit = 1 << 20;
    emx_frame_seal(head, sizeof(*head) + body_bytes, NULL, 0, EMX_CHECKSUM_HEADER);
    return emx_engine_input(engine, 0, (const uint8_t *)head, (uint32_t)(sizeof(*head) + body_bytes), now);
}

static void say_bare(unsigned i, enum emx_frame_type type)
{
    uint8_t frame[sizeof(struct emx_frame) + 32] = {0};

    assert_int_equal(say(i, (void *)frame, type, emx_frame_info[type].head_bytes), EMX_ACCEPTED);
}

/* A hello, or the answer to one. */
static void greet(unsigned i, enum emx_frame_type type, uint32_t probe, size_t frame_bytes)
{
    uint8_t frame[FRAME_BYTES] = {0};
    struct emx_frame *h = (void *)frame;
    struct emx_f_hello *t = (void *)(h + 1);
    struct emx_address a = address(i + 1);
    size_t least = sizeof(*h) + sizeof(*t) + emx_address_encode(&a, (uint8_t *)(t + 1));

    if (frame_bytes < least)
        frame_bytes = least;
    *t = (struct emx_f_hello){.addr_bytes = (uint16_t)(least - sizeof(*h) - sizeof(*t)),
                              .frame_bytes = (uint16_t)frame_bytes,
                              .max_bytes = FRAME_BYTES,
                              .window = (uint16_t)cfg.p_window,
                              .probe = probe};
    assert_int_equal(say(i, h, type, frame_bytes - sizeof(*h)), EMX_ACCEPTED);
}

static void give_back(unsigned i, uint32_t limit)
{
    struct EMX_LAYOUT {
        struct emx_frame head;
        struct emx_f_recall given;
    } f = {0};
    struct partner *p = &partners[i];

    if (!emx_seq_before(p->used, limit))
        limit = p->used;
    p->limit = f.given.limit = limit;
    p->limit_ack = p->tx_next + 1;
    assert_int_equal(say(i, &f.head, EMX_F_given, sizeof(f.given)), EMX_ACCEPTED);
}

/* What a partner does with a frame. */
static void hear(unsigned i, const struct emx_frame *h)
{
    struct partner *p = &partners[i];

    p->frames++;
    p->pings += h->type == EMX_F_ping;
    p->data += h->type == EMX_F_data;
    if (h->type == EMX_F_rts)
        p->op = ((const struct emx_f_rts *)(h + 1))->op;
    if (p->mute)
        return;
    if (!emx_seq_before(h->ack, p->limit_ack) && emx_seq_before(p->limit, h->credit))
        p->limit = h->credit;
    if (h->type == EMX_F_hello)
        greet(i, EMX_F_hello_ack, ((const struct emx_f_hello *)(h + 1))->probe, sizeof(*h) + h->body_bytes);
    if (h->type == EMX_F_ping)
        say_bare(i, EMX_F_pong);
    if (h->type == EMX_F_recall)
        give_back(i, ((const struct emx_f_recall *)(h + 1))->limit);
    p->matched += h->type == EMX_F_matched;
    if (emx_frame_info[h->type].sequenced) {
        assert_int_equal(h->seq, p->rx_next++);
        say_bare(i, EMX_F_ack);
    }
}

/* A message that nobody waits for. */
static void send_message(unsigned i)
{
    uint8_t frame[FRAME_BYTES] = {0};
    struct emx_frame *h = (void *)frame;
    struct partner *p = &partners[i];
    uint32_t cost = emx_eager_cost(LEN_BYTES);

    if ((int32_t)(p->limit - p->used - cost) >= 0) {
        *(struct emx_f_eager *)(h + 1) = (struct emx_f_eager){.total_bytes = LEN_BYTES};
        assert_int_equal(say(i, h, EMX_F_eager, sizeof(struct emx_f_eager) + LEN_BYTES), EMX_ACCEPTED);
        p->used += cost;
        p->eager++;
    } else {
        *(struct emx_f_rts *)(h + 1) =
            (struct emx_f_rts){.total_bytes = LEN_BYTES, .op = 1, .flags = EMX_FF_STARVED, .chunk_bytes = LEN_BYTES};
        assert_int_equal(say(i, h, EMX_F_rts, sizeof(struct emx_f_rts)), EMX_ACCEPTED);
        p->held++;
    }
}

/* ---- The engine ---- */

static void answer_routes(void)
{
    const struct emx_route one = {.frame_bytes = FRAME_BYTES, .gso_bytes = gso_bytes, .name = "test"};
    const struct emx_route route[] = {one, one};
    struct emx_event ev;

    while (emx_engine_event(engine, &ev))
        if (ev.type == EMX_EVENT_ROUTES)
            emx_engine_routes(engine, ev.peer, route, routes, "", now);
}

static void pump(void)
{
    uint8_t frame[FRAME_BYTES];
    struct emx_txframe f;

    answer_routes();
    while (emx_engine_output(engine, 0, &f, 1, now)) {
        const struct emx_frame *h = (const void *)frame;

        memcpy(frame, f.head, f.head_bytes);
        if (f.body_bytes)
            memcpy(frame + f.head_bytes, f.body, f.body_bytes);
        assert_in_range(h->dst_id, 2, PARTNERS + 1);
        hear(h->dst_id - 2, h);
        answer_routes();
    }
    assert_true(stats.unexpected_promised <= cfg.p_unexpected_max);
}

/* Time passes, and what is due in it happens. */
static void rest(emx_time ns)
{
    emx_time until = now + ns;

    while (emx_engine_deadline(engine) <= until) {
        if (emx_engine_deadline(engine) > now)
            now = emx_engine_deadline(engine);
        emx_engine_expire(engine, now);
        pump();
    }
    now = until;
}

static void begin(unsigned known)
{
    const struct emx_address self = address(0);
    const struct emx_engine_params p = {.cfg = &cfg, .stats = &stats, .alloc = &memory.alloc, .self = &self, .seed = 1};
    uint8_t buf[ETHMX_ADDRESS_MAX];
    char err[256];

    memset(&stats, 0, sizeof(stats));
    memset(partners, 0, sizeof(partners));
    unit_alloc_init(&memory);
    emx_config_defaults(&cfg);
    now = LATER_NS;
    routes = 1;
    assert_int_equal(emx_engine_create(&p, &engine), ETHMX_OK);
    for (unsigned i = 0; i < known; i++) {
        const struct emx_address a = address(i + 1);

        assert_int_equal(emx_engine_peer(engine, buf, emx_address_encode(&a, buf), &partners[i].peer, err, sizeof(err)),
                         ETHMX_OK);
    }
}

static void end(void)
{
    assert_int_equal(stats.drop_malformed, 0);
    assert_null(emx_engine_check(engine));
    emx_engine_destroy(engine);
    assert_int_equal(memory.live, 0);
}

static void connect(unsigned i)
{
    greet(i, EMX_F_hello, 2, 200);
    pump();
    assert_int_equal(session(i)->state, EMX_S_CONNECTED);
}

/* ---- Shares of unexpected memory ---- */

/* Messages in a row, which are received afterwards. Returns how many were held back. */
static unsigned burst(unsigned i, unsigned count)
{
    unsigned held = partners[i].held;

    while (count--)
        send_message(i);
    pump();
    emx_engine_flush_unexpected(engine, 0, 0, now);
    pump();
    return partners[i].held - held;
}

static void expect_floors(void)
{
    for (unsigned i = 0; i < PARTNERS; i++)
        assert_true(session(i)->credit.share >= emx_credit_floor(engine));
}

static void the_last_of_a_crowd_is_as_eager_as_the_first(void **state)
{
    uint64_t recalled;

    (void)state;
    begin(PARTNERS);
    for (unsigned i = 0; i < EARLY; i++)
        connect(i);
    for (unsigned round = 0; round < 20; round++)
        for (unsigned i = 0; i < EARLY; i++)
            burst(i, 2 + session(i)->credit.share / emx_eager_cost(LEN_BYTES));
    for (unsigned i = 0; i < PARTNERS; i++) {
        if (i >= EARLY)
            connect(i);
        for (unsigned n = 0; n < 4; n++)
            send_message(i);
    }
    pump();
    for (unsigned i = 0; i < PARTNERS; i++) {
        assert_true(partners[i].eager >= 4);
        assert_true(i < EARLY || !partners[i].held);
    }
    emx_engine_flush_unexpected(engine, 0, 0, now);
    expect_floors();
    assert_true(burst(PARTNERS - 1, 64)); /* the floor is less than that, and all others have been busy */
    assert_true(burst(PARTNERS - 1, 64));
    rest(LATER_NS);
    recalled = stats.credit_recalled;
    for (unsigned round = 0; round < 8; round++) {
        burst(PARTNERS - 1, 64);
        rest(10000000);
    }
    assert_int_equal(burst(PARTNERS - 1, 64), 0);
    assert_true(stats.credit_recalled > recalled);
    expect_floors();
    for (unsigned i = 0; i < PARTNERS; i++)
        assert_int_equal(burst(i, 4), 0);
    end();
}

/* ---- Connecting ---- */

#define DEAD_FOR_NS 1000000 /* an unanswered hello keeps others waiting for so long */

static void send_nothing(unsigned i)
{
    const struct emx_op_args a = {.bits = 1};

    assert_int_equal(emx_engine_send(engine, partners[i].peer, &a, now), ETHMX_INPROGRESS);
}

static unsigned greeted(unsigned from, unsigned until)
{
    unsigned n = 0;

    for (unsigned i = from; i < until; i++)
        n += partners[i].frames > 0;
    return n;
}

/* The dead are greeted some at a time; behind all of them is one that lives. */
static void the_dead_keep_nobody_waiting_for_long(void **state)
{
    enum { CROWD = 10 * EMX_GREETED_NODE };

    (void)state;
    begin(CROWD + 2);
    for (unsigned i = 0; i < CROWD; i++) {
        partners[i].mute = true;
        send_nothing(i);
    }
    send_nothing(CROWD);
    pump();
    assert_int_equal(greeted(0, CROWD), EMX_GREETED_NODE);
    connect(CROWD + 1); /* who greets us is not kept waiting */
    for (unsigned round = 1; round < 10; round++) {
        rest(DEAD_FOR_NS);
        assert_int_equal(greeted(0, CROWD), (round + 1) * EMX_GREETED_NODE);
        assert_null(emx_engine_check(engine));
    }
    assert_int_equal(greeted(CROWD, CROWD + 1), 0);
    rest(DEAD_FOR_NS);
    assert_int_equal(session(CROWD)->state, EMX_S_CONNECTED);
    end();
}

/* Nor is one that waits for its turn and greets us itself. */
static void who_greets_us_needs_no_turn(void **state)
{
    enum { CROWD = 2 * EMX_GREETED_NODE };

    (void)state;
    begin(CROWD);
    for (unsigned i = 0; i < CROWD; i++) {
        partners[i].mute = i < CROWD - 1;
        send_nothing(i);
    }
    pump();
    assert_int_equal(greeted(CROWD - 1, CROWD), 0);
    connect(CROWD - 1);
    end();
}

/* Those that answer are all connected at once, in the order in which they are wanted. */
static void the_living_connect_without_a_pause(void **state)
{
    (void)state;
    begin(PARTNERS);
    for (unsigned i = 0; i < PARTNERS; i++)
        send_nothing(i);
    pump();
    for (unsigned i = 0; i < PARTNERS; i++)
        assert_int_equal(session(i)->state, EMX_S_CONNECTED);
    end();
}

/* ---- Signs of life ---- */

static void wait_for_anybody(void)
{
    const struct emx_op_args a = {0};
    struct ethmx_result result;

    assert_int_equal(emx_engine_recv(engine, NULL, &a, NULL, &result, now), ETHMX_INPROGRESS);
}

static unsigned pings(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < PARTNERS; i++)
        n += partners[i].pings;
    return n;
}

static void a_crowd_is_asked_in_turn(void **state)
{
    const struct emx_op_args a = {.bits = 1, .mask = UINT64_MAX};
    struct ethmx_result result;
    unsigned before;

    (void)state;
    begin(PARTNERS);
    for (unsigned i = 0; i < PARTNERS; i++)
        connect(i);
    assert_int_equal(emx_engine_recv(engine, partners[7].peer, &a, NULL, &result, now), ETHMX_INPROGRESS);
    wait_for_anybody();
    for (unsigned tick = 0; tick < PARTNERS / 16; tick++) {
        before = pings();
        rest(cfg.p_peer_timeout / 4);
        assert_in_range(pings() - before, 1, 17);
    }
    for (unsigned i = 0; i < PARTNERS; i++)
        assert_int_equal(partners[i].pings, i == 7 ? PARTNERS / 16 : 1);
    end();
}

/* And who does not answer is dead soon. */
static void few_are_all_asked(void **state)
{
    enum { FEW = 10, TICKS = 20 };
    unsigned frames;

    (void)state;
    begin(FEW);
    for (unsigned i = 0; i < FEW; i++)
        connect(i);
    wait_for_anybody();
    rest(TICKS * cfg.p_peer_timeout / 4);
    for (unsigned i = 0; i < FEW; i++)
        assert_int_equal(partners[i].pings, TICKS);
    partners[3].mute = true;
    say_bare(4, EMX_F_close);
    rest(6 * cfg.p_peer_timeout / 4);
    assert_int_equal(session(3)->state, EMX_S_DEAD);
    assert_int_equal(session(4)->state, EMX_S_CLOSED);
    frames = partners[3].frames + partners[4].frames;
    rest(TICKS * cfg.p_peer_timeout / 4);
    assert_int_equal(partners[3].frames + partners[4].frames, frames);
    end();
}

static void a_crowd_that_nobody_waits_for_costs_nothing(void **state)
{
    uint64_t frames;

    (void)state;
    begin(PARTNERS);
    for (unsigned i = 0; i < PARTNERS; i++) {
        connect(i);
        burst(i, 4);
    }
    rest(LATER_NS);
    frames = stats.frames_sent;
    assert_int_equal(emx_engine_deadline(engine), EMX_NEVER);
    rest(3600 * (emx_time)LATER_NS);
    assert_int_equal(stats.frames_sent, frames);
    end();
}

/* ---- Pulls ---- */

/* The partner requests the n chunks from `first` on, and so many blocks behind them. */
static enum emx_drop pull(uint64_t wanted, uint64_t first, unsigned more, unsigned round)
{
    struct EMX_LAYOUT {
        struct emx_frame head;
        struct emx_f_pull pull;
    } f = {.pull = {.op = partners[0].op,
                    .rop = 1,
                    .first = first,
                    .wanted = wanted,
                    .round = (uint8_t)round,
                    .more = more & 0xf,
                    .chunk_bytes = LEN_BYTES}};
    enum emx_drop drop = say(0, &f.head, EMX_F_pull, sizeof(f.pull));

    pump();
    return drop;
}

static void a_pull_requests_several_blocks(void **state)
{
    static uint8_t message[22 * LEN_BYTES];
    const struct emx_op_args a = {.data = {.base = message, .len_bytes = sizeof(message)}};

    (void)state;
    begin(1);
    cfg.p_eager_max = LEN_BYTES;
    connect(0);
    assert_int_equal(emx_engine_send(engine, partners[0].peer, &a, now), ETHMX_INPROGRESS);
    pump();
    assert_int_equal(pull(0xf, 0, 2, 0), EMX_ACCEPTED); /* 3 blocks of 4 chunks */
    assert_int_equal(partners[0].data, 12);
    assert_int_equal(pull(0xf, 12, 2, 0), EMX_ACCEPTED); /* the last has 2 */
    assert_int_equal(partners[0].data, 22);
    assert_int_equal(pull(0x1, 4, 0, 1), EMX_ACCEPTED);
    assert_int_equal(partners[0].data, 23);

    assert_int_equal(pull(0xf, 12, 3, 0), EMX_DROP_MALFORMED); /* the third begins behind the message */
    assert_int_equal(pull(0xb, 0, 1, 0), EMX_DROP_MALFORMED);  /* gaps */
    assert_int_equal(pull(0xf, 0, 1, 1), EMX_DROP_MALFORMED);  /* not the first attempt */
    assert_int_equal(partners[0].data, 23);
    stats.drop_malformed -= 3;
    end();
}

/* ---- Data of eager messages ---- */

/* Takes the frames that are to be sent now: parts of the message, in order. Returns their data. */
static size_t take_parts(const uint8_t *message, uint8_t *copy, bool lent)
{
    struct emx_txframe f;
    size_t at = 0;

    while (emx_engine_output(engine, 0, &f, 1, now)) {
        const struct emx_frame *h = f.head;
        size_t head_bytes = sizeof(*h) + emx_frame_info[h->type].head_bytes,
               n = sizeof(*h) + h->body_bytes - head_bytes;
        const uint8_t *data = lent ? f.body : (const uint8_t *)h + head_bytes;

        assert_true(h->type == (at ? EMX_F_more : EMX_F_eager));
        assert_int_equal(f.head_bytes, lent ? head_bytes : head_bytes + n);
        assert_int_equal(f.body_bytes, lent ? n : 0);
        assert_true(!lent || data == message + at);
        memcpy(copy + at, data, n);
        at += n;
    }
    return at;
}

/* A part of the message that is sent again. */
static void expect_kept(const struct emx_txframe *f, const uint8_t *kept)
{
    const struct emx_frame *h = f->head;
    const struct emx_f_more *more = (const void *)(h + 1);

    if (h->type != EMX_F_more)
        return;
    assert_int_equal(f->body_bytes, 0);
    assert_memory_equal(more + 1, kept + more->offset, h->body_bytes - sizeof(*more));
}

/* The frames of an eager message refer to its data. Once the engine has copied it, the program's memory is free. */
static void lent_data_is_copied_later(void **state)
{
    static uint8_t message[9 * LEN_BYTES], copy[sizeof(message)], kept[sizeof(message)];
    const struct emx_op_args a = {.data = {.base = message, .len_bytes = sizeof(message)}};

    (void)state;
    for (size_t i = 0; i < sizeof(message); i++)
        kept[i] = message[i] = (uint8_t)(i * 7 + i / LEN_BYTES);
    gso_bytes = FRAME_BYTES;
    begin(1);
    connect(0);
    emx_engine_lend(engine);
    assert_int_equal(emx_engine_send(engine, partners[0].peer, &a, now), ETHMX_OK);
    assert_int_equal(take_parts(message, copy, true), sizeof(message));
    assert_memory_equal(copy, kept, sizeof(kept));
    emx_engine_settle(engine);
    memset(message, 0, sizeof(message));
    for (unsigned i = 0; i < 1000 && stats.frames_resent < 7; i++) {
        struct emx_txframe f;

        now += LATER_NS / 100;
        emx_engine_expire(engine, now);
        while (emx_engine_output(engine, 0, &f, 1, now))
            expect_kept(&f, kept);
    }
    assert_int_equal(stats.frames_resent, 7);
    gso_bytes = 0;
    end();
}

/* What has not left in the call is copied, too; and messages that are not lent never refer to the program's memory. */
static void all_lent_data_is_copied(void **state)
{
    static uint8_t message[9 * LEN_BYTES], copy[sizeof(message)];
    const struct emx_op_args a = {.data = {.base = message, .len_bytes = sizeof(message)}};

    (void)state;
    memset(message, 1, sizeof(message));
    gso_bytes = FRAME_BYTES;
    begin(1);
    connect(0);
    emx_engine_lend(engine);
    assert_int_equal(emx_engine_send(engine, partners[0].peer, &a, now), ETHMX_OK);
    emx_engine_settle(engine);
    assert_int_equal(take_parts(message, copy, false), sizeof(message));
    assert_memory_equal(copy, message, sizeof(message));
    assert_int_equal(emx_engine_send(engine, partners[0].peer, &a, now), ETHMX_OK);
    assert_int_equal(take_parts(message, copy, false), sizeof(message));
    gso_bytes = 0;
    end();
}

/* ---- Synchronous messages ---- */

/* The partner sends a message of two frames. */
static void say_first(uint8_t *frame, uint32_t total_bytes)
{
    *(struct emx_f_eager *)(frame + sizeof(struct emx_frame)) =
        (struct emx_f_eager){.total_bytes = total_bytes, .op = 1, .flags = EMX_FF_SYNC};
    assert_int_equal(say(0, (void *)frame, EMX_F_eager, sizeof(struct emx_f_eager) + LEN_BYTES), EMX_ACCEPTED);
    pump();
}

static void say_rest(uint8_t *frame, uint32_t total_bytes)
{
    *(struct emx_f_more *)(frame + sizeof(struct emx_frame)) = (struct emx_f_more){.offset = LEN_BYTES};
    assert_int_equal(say(0, (void *)frame, EMX_F_more, sizeof(struct emx_f_more) + total_bytes - LEN_BYTES),
                     EMX_ACCEPTED);
    pump();
}

/* Its sender learns that a receive has matched when all of it has arrived: programs take this for its delivery. */
static void a_synchronous_message_is_matched_when_it_is_whole(void **state)
{
    static uint8_t frame[FRAME_BYTES], message[2 * LEN_BYTES];
    const struct emx_op_args a = {.data = {.base = message, .len_bytes = sizeof(message)}};
    struct ethmx_result result;

    (void)state;
    begin(1);
    connect(0);
    assert_int_equal(emx_engine_recv(engine, NULL, &a, NULL, &result, now), ETHMX_INPROGRESS);
    say_first(frame, sizeof(message));
    assert_int_equal(partners[0].matched, 0);
    say_rest(frame, sizeof(message));
    assert_int_equal(partners[0].matched, 1);

    say_first(frame, sizeof(message)); /* unexpected, and received before the rest arrives */
    assert_int_equal(emx_engine_recv(engine, NULL, &a, NULL, &result, now), ETHMX_INPROGRESS);
    pump();
    assert_int_equal(partners[0].matched, 1);
    say_rest(frame, sizeof(message));
    assert_int_equal(partners[0].matched, 2);

    say_first(frame, sizeof(message)); /* and afterwards */
    say_rest(frame, sizeof(message));
    assert_int_equal(partners[0].matched, 2);
    assert_int_equal(emx_engine_recv(engine, NULL, &a, NULL, &result, now), ETHMX_OK);
    pump();
    assert_int_equal(partners[0].matched, 3);
    end();
}

/* The next frame is of this type, and for this partner. */
static void expect_frame(unsigned i, enum emx_frame_type type)
{
    struct emx_txframe f;

    assert_int_equal(emx_engine_output(engine, 0, &f, 1, now), 1);
    assert_int_equal(((const struct emx_frame *)f.head)->dst_id, address(i + 1).id);
    assert_int_equal(((const struct emx_frame *)f.head)->type, type);
}

/* Data for others is sent first, until the acknowledgement has waited for its delay and for a part of the time-out. */
static void an_overdue_acknowledgement_passes_data(void **state)
{
    static uint8_t message[LEN_BYTES];
    const struct emx_op_args a = {.data = {.base = message, .len_bytes = sizeof(message)}};

    (void)state;
    begin(2);
    connect(0);
    connect(1);
    send_message(0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(emx_engine_send(engine, partners[1].peer, &a, now), ETHMX_OK);
    expect_frame(1, EMX_F_eager);
    now += cfg.p_ack_delay;
    emx_engine_expire(engine, now);
    expect_frame(1, EMX_F_eager);
    now += cfg.p_rto_min / 4;
    emx_engine_expire(engine, now);
    expect_frame(0, EMX_F_ack);
    expect_frame(1, EMX_F_eager);
    pump();
    emx_engine_flush_unexpected(engine, 0, 0, now);
    end();
}

/* The partner sends its last message again. */
static void send_again(unsigned i)
{
    uint8_t frame[FRAME_BYTES] = {0};
    struct emx_frame *h = (void *)frame;

    *(struct emx_f_eager *)(h + 1) = (struct emx_f_eager){.total_bytes = LEN_BYTES};
    partners[i].tx_next--;
    assert_int_equal(say(i, h, EMX_F_eager, sizeof(struct emx_f_eager) + LEN_BYTES), EMX_DROP_DUPLICATE);
}

static void expect_nothing(void)
{
    struct emx_txframe f;

    assert_int_equal(emx_engine_output(engine, 0, &f, 1, now), 0);
}

/* A program that comes back from its computation has work at once. What its peer sent twice meanwhile is told
 * afterwards, with the next acknowledgement that is due, or after its delay. */
static void what_came_twice_is_told_when_an_acknowledgement_is_due(void **state)
{
    static uint8_t message[LEN_BYTES];
    const struct emx_op_args a = {.data = {.base = message, .len_bytes = sizeof(message)}};

    (void)state;
    begin(1);
    connect(0);
    send_message(0);
    send_again(0);
    expect_nothing();
    assert_int_equal(emx_engine_send(engine, partners[0].peer, &a, now), ETHMX_OK);
    expect_frame(0, EMX_F_eager);
    expect_nothing();
    now += cfg.p_ack_delay;
    emx_engine_expire(engine, now);
    expect_frame(0, EMX_F_doubled);
    expect_nothing();

    send_message(0);
    send_again(0);
    expect_nothing();
    while (!session(0)->rx.ack_now)
        send_message(0);
    expect_frame(0, EMX_F_doubled);
    expect_nothing();
    emx_engine_flush_unexpected(engine, 0, 0, now);
    pump();
    end();
}

/* The reply to the hello of partner 0 takes this route. */
static void expect_reply_over(unsigned route)
{
    struct emx_txframe f;

    do
        assert_int_equal(emx_engine_output(engine, 0, &f, 1, now), 1);
    while (((const struct emx_frame *)f.head)->type != EMX_F_hello_ack);
    assert_ptr_equal(f.to, &session(0)->connect->route[route].to);
}

/* Hellos that have come together get one reply. It is not lost, so it takes the first route. */
static void a_late_reply_is_not_a_lost_one(void **state)
{
    (void)state;
    begin(1);
    routes = 2;
    for (unsigned i = 0; i < 4; i++)
        greet(0, EMX_F_hello, 2, 200);
    answer_routes();
    expect_reply_over(0);
    for (unsigned i = 0; i < 2; i++)
        greet(0, EMX_F_hello, 2, 200);
    expect_reply_over(1);
    greet(0, EMX_F_hello, 2, 200);
    expect_reply_over(0);
    pump();
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_of_a_crowd_is_as_eager_as_the_first),
        cmocka_unit_test(the_dead_keep_nobody_waiting_for_long),
        cmocka_unit_test(who_greets_us_needs_no_turn),
        cmocka_unit_test(the_living_connect_without_a_pause),
        cmocka_unit_test(a_crowd_is_asked_in_turn),
        cmocka_unit_test(few_are_all_asked),
        cmocka_unit_test(a_crowd_that_nobody_waits_for_costs_nothing),
        cmocka_unit_test(a_pull_requests_several_blocks),
        cmocka_unit_test(lent_data_is_copied_later),
        cmocka_unit_test(all_lent_data_is_copied),
        cmocka_unit_test(a_synchronous_message_is_matched_when_it_is_whole),
        cmocka_unit_test(an_overdue_acknowledgement_passes_data),
        cmocka_unit_test(what_came_twice_is_told_when_an_acknowledgement_is_due),
        cmocka_unit_test(a_late_reply_is_not_a_lost_one),
    };

    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
