/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_target, rma_origin: an engine and one partner, which sends frames of any kind. Fields out of limits change
 * nothing; a partner that takes no replies cannot make the engine keep more than so many; replies of a wrong kind end
 * no operation.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/msg/op.h"
#include "core/peer.h"
#include "core/rel/session.h"
#include "core/rma/rma.h"

#define FRAME_BYTES  1500
#define REGION_BYTES 3000
#define KEY          UINT64_C(0x123456789abcdef1)

static struct emx_config cfg;
static struct emx_stats stats;
static struct unit_alloc memory;
static struct emx_engine *engine;
static struct emx_peer *partner;
static struct emx_rma_region *region;
static uint8_t mem[REGION_BYTES], before[REGION_BYTES];
static uint32_t tx_next, rx_next, heard; /* heard: the number after that of the last frame */
static bool mute;                        /* the partner acknowledges nothing */
static emx_time now;
static uint8_t last[FRAME_BYTES]; /* the last frame of a one-sided operation that the partner got */
static unsigned got[EMX_F_COUNT];

/* A frame as it is sent. */
struct EMX_LAYOUT frame {
    struct emx_frame head;
    union EMX_LAYOUT {
        struct emx_f_rma request;
        struct emx_f_rma_put_rts put_rts;
        struct emx_f_rma_get_rts get_rts;
        struct emx_f_rma_reply reply;
        struct emx_f_rma_done done;
        uint8_t body[FRAME_BYTES - sizeof(struct emx_frame)];
    } t;
};

static struct emx_address address(unsigned number)
{
    struct emx_address a = {.id = number + 1, .cookie = 2, .host_id = number + 1};

    snprintf(a.host, sizeof(a.host), "n%u", number);
    return a;
}

/* The frame that the engine must drop is not acknowledged: its number is used again. */
static enum emx_drop say(struct frame *f, enum emx_frame_type type, size_t body_bytes)
{
    enum emx_drop why;

    f->head.type = (uint8_t)type;
    f->head.body_bytes = (uint16_t)body_bytes;
    f->head.dst_id = address(0).id;
    f->head.cookie = address(0).cookie;
    f->head.src_id = address(1).id;
    f->head.seq = emx_frame_info[type].sequenced ? tx_next : 0;
    f->head.ack = rx_next;
    f->head.credit = 1 << 20;
    emx_frame_seal(f, sizeof(f->head) + body_bytes, NULL, 0, EMX_CHECKSUM_FULL);
    why = emx_engine_input(engine, 0, (const uint8_t *)f, (uint32_t)(sizeof(f->head) + body_bytes), now);
    tx_next += why == EMX_ACCEPTED && emx_frame_info[type].sequenced;
    assert_null(emx_engine_check(engine));
    return why;
}

static void greet(enum emx_frame_type type, uint32_t probe, size_t frame_bytes)
{
    struct frame f = {0};
    struct emx_f_hello *t = (void *)f.t.body;
    struct emx_address a = address(1);
    size_t addr_bytes = emx_address_encode(&a, (uint8_t *)(t + 1));

    *t = (struct emx_f_hello){.addr_bytes = (uint16_t)addr_bytes,
                              .frame_bytes = (uint16_t)frame_bytes,
                              .max_bytes = FRAME_BYTES,
                              .window = (uint16_t)cfg.p_window,
                              .probe = probe};
    assert_int_equal(say(&f, type, frame_bytes - sizeof(f.head)), EMX_ACCEPTED);
}

static void hear(const struct emx_frame *h)
{
    struct frame f = {0};

    got[h->type]++;
    if (h->type == EMX_F_hello)
        greet(EMX_F_hello_ack, ((const struct emx_f_hello *)(h + 1))->probe, sizeof(*h) + h->body_bytes);
    if (h->type >= EMX_F_rma_put)
        memcpy(last, h, sizeof(*h) + h->body_bytes);
    if (!emx_frame_info[h->type].sequenced)
        return;
    heard = h->seq + 1;
    if (mute)
        return;
    assert_int_equal(h->seq, rx_next++);
    assert_int_equal(say(&f, EMX_F_ack, emx_frame_info[EMX_F_ack].head_bytes), EMX_ACCEPTED);
}

static void answer_routes(void)
{
    const struct emx_route route = {.frame_bytes = FRAME_BYTES, .name = "test"};
    struct emx_event ev;

    while (emx_engine_event(engine, &ev))
        if (ev.type == EMX_EVENT_ROUTES)
            emx_engine_routes(engine, ev.peer, &route, 1, "", now);
}

static void pump(void)
{
    uint8_t frame[FRAME_BYTES];
    struct emx_txframe f;

    answer_routes();
    while (emx_engine_output(engine, 0, &f, 1, now)) {
        memcpy(frame, f.head, f.head_bytes);
        if (f.body_bytes)
            memcpy(frame + f.head_bytes, f.body, f.body_bytes);
        hear((const void *)frame);
        answer_routes();
    }
}

static int begin(void **state)
{
    const struct emx_address self = address(0), other = address(1);
    const struct emx_engine_params p = {.cfg = &cfg, .stats = &stats, .alloc = &memory.alloc, .self = &self, .seed = 1};
    uint8_t buf[ETHMX_ADDRESS_MAX];
    char err[256];

    (void)state;
    memset(&stats, 0, sizeof(stats));
    memset(got, 0, sizeof(got));
    unit_alloc_init(&memory);
    emx_config_defaults(&cfg);
    now = 1000000000;
    tx_next = rx_next = heard = 0;
    mute = false;
    assert_int_equal(emx_engine_create(&p, &engine), ETHMX_OK);
    assert_int_equal(emx_engine_peer(engine, buf, emx_address_encode(&other, buf), &partner, err, sizeof(err)),
                     ETHMX_OK);
    greet(EMX_F_hello, 2, 200);
    pump();
    assert_int_equal(partner->session->state, EMX_S_CONNECTED);
    for (unsigned i = 0; i < sizeof(mem); i++)
        mem[i] = before[i] = (uint8_t)(i * 7);
    assert_int_equal(emx_engine_expose(engine, mem, sizeof(mem), KEY, EMX_RMA_MAY_BOTH, &region), ETHMX_OK);
    return 0;
}

static int end(void **state)
{
    struct emx_op *op;

    (void)state;
    while ((op = emx_engine_completed(engine)))
        emx_engine_op_free(engine, op);
    assert_null(emx_engine_check(engine));
    emx_engine_destroy(engine);
    assert_int_equal(memory.live, 0);
    return 0;
}

/* ---- Requests ---- */

static struct frame request(uint32_t id, uint64_t offset, uint64_t len_bytes)
{
    return (struct frame){.t.request = {.id = id, .key = KEY, .offset = offset, .len_bytes = len_bytes}};
}

#define HEAD sizeof(struct emx_f_rma)

/* With 8 bytes of data, if it has some. */
static size_t request_bytes(unsigned type)
{
    if (type == EMX_F_rma_put_rts)
        return sizeof(struct emx_f_rma_put_rts);
    return type == EMX_F_rma_get ? HEAD : HEAD + 8;
}

static struct emx_f_rma_done last_done(void)
{
    const struct frame *f = (const void *)last;

    assert_int_equal(f->head.type, EMX_F_rma_done);
    return f->t.done;
}

static void malformed_requests(void **state)
{
    static const struct {
        uint8_t op, type;
        uint16_t flags;
        uint64_t len_bytes;
        size_t operand_bytes;
    } atomics[] = {
        {ETHMX_RMA_OPS, ETHMX_RMA_INT64, 0, 8, 8},
        {ETHMX_RMA_SUM, ETHMX_RMA_TYPES, 0, 8, 8},
        {255, 255, 0, 8, 8},
        {ETHMX_RMA_BAND, ETHMX_RMA_DOUBLE, 0, 8, 8},
        {ETHMX_RMA_SUM, ETHMX_RMA_INT64, 0, 0, 0},
        {ETHMX_RMA_SUM, ETHMX_RMA_INT64, 0, 12, 12},
        {ETHMX_RMA_SUM, ETHMX_RMA_INT64, EMX_RMA_FETCH, 16, 8},
        {ETHMX_RMA_SUM, ETHMX_RMA_INT64, 0, 16, 4},
        {ETHMX_RMA_SUM, ETHMX_RMA_INT64, 0, 16, 0},
        {ETHMX_RMA_SUM, ETHMX_RMA_INT64, 0, 8, 16},
        {ETHMX_RMA_SUM, ETHMX_RMA_INT64, EMX_RMA_FETCH, ETHMX_RMA_ATOMIC_MAX + 8, ETHMX_RMA_ATOMIC_MAX + 8},
        {ETHMX_RMA_SUM, ETHMX_RMA_INT64, 0, UINT64_MAX - 7, 8},
        {ETHMX_RMA_NO_OP, ETHMX_RMA_INT64, EMX_RMA_FETCH, 8, 8},
        {ETHMX_RMA_SUM, ETHMX_RMA_INT64, 4, 8, 8},
        {0, ETHMX_RMA_INT64, EMX_RMA_FETCH | EMX_RMA_SWAP, 8, 8},
        {0, ETHMX_RMA_INT64, EMX_RMA_FETCH | EMX_RMA_SWAP, 16, 32},
        {0, ETHMX_RMA_DOUBLE, EMX_RMA_FETCH | EMX_RMA_SWAP, 8, 16},
        {0, ETHMX_RMA_INT64, EMX_RMA_SWAP, 8, 16},
    };
    struct frame f;

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(atomics); i++) {
        f = request(0, 0, atomics[i].len_bytes);
        f.t.request.op = atomics[i].op;
        f.t.request.type = atomics[i].type;
        f.t.request.flags = atomics[i].flags;
        assert_int_equal(say(&f, EMX_F_rma_atomic, HEAD + atomics[i].operand_bytes), EMX_DROP_MALFORMED);
    }
    f = request(0, 0, 7); /* more data than said */
    assert_int_equal(say(&f, EMX_F_rma_put, HEAD + 8), EMX_DROP_MALFORMED);
    f = request(0, 0, 8); /* nothing of it */
    assert_int_equal(say(&f, EMX_F_rma_put, HEAD), EMX_DROP_MALFORMED);
    f = (struct frame){.t.put_rts = {.key = KEY, .len_bytes = 8, .chunk_bytes = 7}};
    assert_int_equal(say(&f, EMX_F_rma_put_rts, sizeof(f.t.put_rts)), EMX_DROP_MALFORMED);
    f = (struct frame){.t.put_rts = {.key = KEY, .chunk_bytes = 8}};
    assert_int_equal(say(&f, EMX_F_rma_put_rts, sizeof(f.t.put_rts)), EMX_DROP_MALFORMED);
    f = (struct frame){.t.put_rts = {.key = KEY, .len_bytes = UINT64_MAX, .chunk_bytes = 8}};
    assert_int_equal(say(&f, EMX_F_rma_put_rts, sizeof(f.t.put_rts)), EMX_DROP_MALFORMED);
    assert_memory_equal(mem, before, sizeof(mem));
    assert_int_equal(stats.rma_served + stats.rma_refused, 0);
}

/* Each is refused, and the next is handled. */
static void ranges_outside(void **state)
{
    static const struct {
        uint64_t key, offset, len_bytes;
    } wrong[] = {
        {KEY + 1, 0, 8},
        {0, 0, 8},
        {KEY, REGION_BYTES - 7, 8},
        {KEY, REGION_BYTES + 1, 8},
        {KEY, UINT64_MAX - 3, 8},
        {KEY, UINT64_MAX, 8},
    };
    struct frame f;

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(wrong); i++) {
        for (unsigned type = EMX_F_rma_put; type <= EMX_F_rma_put_rts; type++) {
            f = request(10 * i + type, wrong[i].offset, wrong[i].len_bytes);
            f.t.request.key = wrong[i].key;
            if (type == EMX_F_rma_put_rts)
                f.t.put_rts.chunk_bytes = 8;
            if (type == EMX_F_rma_atomic)
                f.t.request.type = ETHMX_RMA_INT64;
            assert_int_equal(say(&f, type, request_bytes(type)), EMX_ACCEPTED);
            pump();
            assert_int_equal(last_done().id, 10 * i + type);
            assert_int_equal(last_done().status, EMX_RMA_REFUSED);
        }
    }
    f = request(0, 0, REGION_BYTES + 1); /* the first frame of a put whose end is outside */
    assert_int_equal(say(&f, EMX_F_rma_put, HEAD + 8), EMX_ACCEPTED);
    f = request(0, 0, UINT64_MAX);
    assert_int_equal(say(&f, EMX_F_rma_get, HEAD), EMX_ACCEPTED);
    assert_memory_equal(mem, before, sizeof(mem));
    f = request(7, REGION_BYTES - 8, 8);
    assert_int_equal(say(&f, EMX_F_rma_put, HEAD + 8), EMX_ACCEPTED);
    pump();
    assert_int_equal(last_done().id, 7);
    assert_int_equal(last_done().status, EMX_RMA_DONE);
    assert_int_equal(mem[REGION_BYTES - 1], 0);
}

/* The partner takes no replies: what it can make the engine keep is bounded, and it is served again later. */
static void flood(void **state)
{
    struct frame f;
    uint32_t id = 0;
    size_t most;

    (void)state;
    mute = true;
    for (; id < 64; id++) {
        f = request(id, 0, 1400);
        assert_int_equal(say(&f, EMX_F_rma_get, HEAD), EMX_ACCEPTED);
        pump();
    }
    for (; id < 10000; id++) {
        f = request(id, 0, 1400);
        if (say(&f, EMX_F_rma_get, HEAD) != EMX_ACCEPTED)
            break;
        pump();
    }
    assert_true(id <= cfg.p_window + EMX_RMA_OPEN_MAX);
    most = emx_engine_memory(engine);
    for (unsigned type = EMX_F_rma_put; type <= EMX_F_rma_put_rts; type++) {
        f = request(id, 0, 8);
        f.t.request.type = ETHMX_RMA_INT64;
        if (type == EMX_F_rma_put_rts)
            f.t.put_rts.chunk_bytes = 8;
        assert_int_equal(say(&f, type, request_bytes(type)), EMX_DROP_MALFORMED);
    }
    assert_true(emx_engine_memory(engine) <= most);
    mute = false;
    rx_next = heard;
    f = (struct frame){0};
    assert_int_equal(say(&f, EMX_F_ack, sizeof(struct emx_f_ack)), EMX_ACCEPTED);
    pump();
    f = request(id, 0, 8);
    assert_int_equal(say(&f, EMX_F_rma_put, HEAD + 8), EMX_ACCEPTED);
}

/* The same of long operations, of which each keeps a structure. */
static void flood_of_long_ones(void **state)
{
    struct frame f;
    unsigned n = 0;

    (void)state;
    do {
        f = (struct frame){.t.put_rts = {.id = n, .op = n, .key = KEY, .len_bytes = 3000, .chunk_bytes = 1000}};
    } while (say(&f, EMX_F_rma_put_rts, sizeof(f.t.put_rts)) == EMX_ACCEPTED && ++n < 1000);
    assert_int_equal(n, EMX_RMA_OPEN_MAX);
    assert_int_equal(emx_engine_withdraw(engine, region, now), ETHMX_OK);
    pump();
    assert_int_equal(last_done().status, EMX_RMA_REFUSED);
    assert_int_equal(stats.rma_refused, EMX_RMA_OPEN_MAX);
}

/* Replies to puts that arrive together are one frame. */
static void replies_are_collected(void **state)
{
    struct frame f;

    (void)state;
    for (uint32_t id = 100; id < 110; id++) {
        f = request(id, 0, 1);
        assert_int_equal(say(&f, EMX_F_rma_put, HEAD + 1), EMX_ACCEPTED);
    }
    pump();
    assert_int_equal(got[EMX_F_rma_done], 1);
    assert_int_equal(last_done().id, 100);
    assert_int_equal(last_done().count, 10);
}

/* ---- Replies ---- */

static int result_status;

static void done(void *arg, const struct ethmx_result *result)
{
    (void)arg;
    result_status = result->status;
}

static void start(enum emx_rma_kind kind, void *buf, size_t len_bytes)
{
    const struct emx_rma_args a = {.kind = kind,
                                   .type = ETHMX_RMA_INT64,
                                   .operand = buf,
                                   .compare = buf,
                                   .set = buf,
                                   .mode = ETHMX_RMA_REMOTE,
                                   .data = {.base = buf, .len_bytes = len_bytes},
                                   .done = done};

    assert_int_equal(emx_engine_rma(engine, partner, &a, NULL, now), ETHMX_INPROGRESS);
    pump();
}

static uint32_t last_id(void)
{
    return ((const struct frame *)last)->t.request.id;
}

static bool is_complete(void)
{
    struct emx_op *op = emx_engine_completed(engine);
    struct ethmx_result result;
    ethmx_done_fn fn;
    void *arg;

    if (!op)
        return false;
    emx_op_result(op, &fn, &arg, &result);
    fn(arg, &result);
    emx_engine_op_free(engine, op);
    return true;
}

static void wrong_replies(void **state)
{
    struct frame f;
    uint8_t buf[100] = {0};
    uint32_t id;

    (void)state;
    start(EMX_RMA_GET, buf, 100);
    id = last_id();
    for (unsigned status = 0; status < 3; status++) { /* done, but where is the data? No such status. */
        f = (struct frame){.t.done = {.id = id, .count = status == 1 ? 0 : 1, .status = status}};
        assert_int_equal(say(&f, EMX_F_rma_done, sizeof(f.t.done)), status ? EMX_DROP_MALFORMED : EMX_ACCEPTED);
    }
    f = (struct frame){.t.done = {.id = id, .count = EMX_RMA_OPEN_MAX + 1, .status = 1}};
    assert_int_equal(say(&f, EMX_F_rma_done, sizeof(f.t.done)), EMX_DROP_MALFORMED);
    f = (struct frame){.t.reply = {.id = id}};
    assert_int_equal(say(&f, EMX_F_rma_reply, sizeof(f.t.reply) + 99), EMX_DROP_MALFORMED);
    assert_int_equal(say(&f, EMX_F_rma_reply, sizeof(f.t.reply) + 101), EMX_DROP_MALFORMED);
    f = (struct frame){.t.get_rts = {.id = id, .op = 1, .chunk_bytes = 4}};
    assert_int_equal(say(&f, EMX_F_rma_get_rts, sizeof(f.t.get_rts)), EMX_DROP_MALFORMED);
    for (uint32_t other = id + 1; other <= id + 2 * EMX_RMA_OPEN_MAX; other += EMX_RMA_OPEN_MAX - 1) {
        f = (struct frame){.t.reply = {.id = other}};
        assert_int_equal(say(&f, EMX_F_rma_reply, sizeof(f.t.reply) + 100), EMX_ACCEPTED);
    }
    assert_false(is_complete());
    f = (struct frame){.t.reply = {.id = id}};
    memset(f.t.body + sizeof(f.t.reply), 5, 100);
    assert_int_equal(say(&f, EMX_F_rma_reply, sizeof(f.t.reply) + 100), EMX_ACCEPTED);
    assert_true(is_complete());
    assert_int_equal(result_status, ETHMX_OK);
    assert_int_equal(buf[99], 5);
    assert_int_equal(say(&f, EMX_F_rma_reply, sizeof(f.t.reply) + 100), EMX_ACCEPTED); /* once more: of nothing */
    assert_false(is_complete());
}

/* A put waits for no data, and a fetch cannot be pulled. */
static void replies_of_another_kind(void **state)
{
    struct frame f;
    uint64_t value = 0;
    uint8_t buf[100] = {0};

    (void)state;
    start(EMX_RMA_PUT, buf, 100);
    f = (struct frame){.t.reply = {.id = last_id()}};
    assert_int_equal(say(&f, EMX_F_rma_reply, sizeof(f.t.reply) + 100), EMX_ACCEPTED);
    f = (struct frame){.t.get_rts = {.id = last_id(), .op = 1, .chunk_bytes = 1000}};
    assert_int_equal(say(&f, EMX_F_rma_get_rts, sizeof(f.t.get_rts)), EMX_ACCEPTED);
    assert_false(is_complete());
    f = (struct frame){.t.done = {.id = last_id(), .count = EMX_RMA_OPEN_MAX, .status = EMX_RMA_REFUSED}};
    assert_int_equal(say(&f, EMX_F_rma_done, sizeof(f.t.done)), EMX_ACCEPTED);
    assert_true(is_complete());
    assert_int_equal(result_status, ETHMX_ERR_ACCESS);
    start(EMX_RMA_FETCH_OP, &value, sizeof(value));
    f = (struct frame){.t.get_rts = {.id = last_id(), .op = 1, .chunk_bytes = 1000}};
    assert_int_equal(say(&f, EMX_F_rma_get_rts, sizeof(f.t.get_rts)), EMX_DROP_MALFORMED);
    f = (struct frame){.t.done = {.id = last_id(), .count = 1, .status = EMX_RMA_REFUSED}};
    assert_int_equal(say(&f, EMX_F_rma_done, sizeof(f.t.done)), EMX_ACCEPTED);
    assert_true(is_complete());
}

/* The parts are of complete elements; the last is replied to. If all is not within the region nothing is changed. */
static void accumulate_in_parts(void **state)
{
    const uint64_t operand[2] = {5, 7};
    uint64_t value[4];
    struct frame f;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        f = request(0, 16 * i, 32 - 16 * i);
        f.t.request.op = ETHMX_RMA_REPLACE;
        f.t.request.type = ETHMX_RMA_UINT64;
        memcpy(f.t.body + HEAD, operand, 16);
        assert_int_equal(say(&f, EMX_F_rma_atomic, HEAD + 16), EMX_ACCEPTED);
        pump();
        assert_int_equal(got[EMX_F_rma_done], i);
    }
    memcpy(value, mem, sizeof(value));
    assert_true(value[0] == 5 && value[1] == 7 && value[2] == 5 && value[3] == 7);
    assert_int_equal(last_done().status, EMX_RMA_DONE);
    memcpy(before, mem, sizeof(mem));
    for (unsigned i = 0; i < 2; i++) {
        f = request(1, sizeof(mem) - 24 + 16 * i, 32 - 16 * i);
        f.t.request.type = ETHMX_RMA_UINT64;
        assert_int_equal(say(&f, EMX_F_rma_atomic, HEAD + 16), EMX_ACCEPTED);
    }
    pump();
    assert_int_equal(last_done().status, EMX_RMA_REFUSED);
    assert_memory_equal(mem, before, sizeof(mem));
}

static void wrong_arguments(void **state)
{
    uint64_t value = 0;
    struct emx_rma_args a = {.kind = EMX_RMA_ACCUMULATE,
                             .op = ETHMX_RMA_MINLOC,
                             .type = ETHMX_RMA_INT64,
                             .data = {.base = &value, .len_bytes = 8}};

    (void)state;
    assert_int_equal(emx_engine_rma(engine, partner, &a, NULL, now), ETHMX_ERR_PARAM);
    a.op = ETHMX_RMA_SUM;
    a.data.len_bytes = 7;
    assert_int_equal(emx_engine_rma(engine, partner, &a, NULL, now), ETHMX_ERR_PARAM);
    a.kind = EMX_RMA_FETCH_OP;
    a.data.len_bytes = ETHMX_RMA_ATOMIC_MAX + 8;
    assert_int_equal(emx_engine_rma(engine, partner, &a, NULL, now), ETHMX_ERR_PARAM);
    a.kind = EMX_RMA_COMPARE_SWAP;
    a.data.len_bytes = 16;
    assert_int_equal(emx_engine_rma(engine, partner, &a, NULL, now), ETHMX_ERR_PARAM);
    a.kind = EMX_RMA_PUT;
    a.offset = UINT64_MAX - 15;
    assert_int_equal(emx_engine_rma(engine, partner, &a, NULL, now), ETHMX_ERR_ACCESS);
    assert_int_equal(stats.rma_puts + stats.rma_atomics, 0);
    assert_int_equal(emx_engine_rma_flush(engine, partner, done, NULL, now), ETHMX_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(malformed_requests, begin, end),
        cmocka_unit_test_setup_teardown(ranges_outside, begin, end),
        cmocka_unit_test_setup_teardown(flood, begin, end),
        cmocka_unit_test_setup_teardown(flood_of_long_ones, begin, end),
        cmocka_unit_test_setup_teardown(replies_are_collected, begin, end),
        cmocka_unit_test_setup_teardown(wrong_replies, begin, end),
        cmocka_unit_test_setup_teardown(replies_of_another_kind, begin, end),
        cmocka_unit_test_setup_teardown(accumulate_in_parts, begin, end),
        cmocka_unit_test_setup_teardown(wrong_arguments, begin, end),
    };

    return cmocka_run_group_tests_name("rma_target", tests, NULL, NULL);
}
