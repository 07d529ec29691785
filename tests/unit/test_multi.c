/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Multi-receives when memory runs out, and when the peer dies or is removed in the middle of a message: no message is
 * lost, moved or received twice, and the buffer is given back once. Two engines; frames between them arrive at once,
 * but for those that a test loses.
 */
#include <string.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/address.h"
#include "core/msg/multi.h"
#include "core/msg/op.h"
#include "core/time.h"
#include "unit.h"

#define FRAME_BYTES 1500
#define SECOND_NS   INT64_C(1000000000)
#define MESSAGES    200
#define LONG_BYTES  100000

static const size_t lengths[] = {8000, LONG_BYTES}; /* sent with its data; pulled */

static struct emx_config cfg;
static struct emx_stats stats[2];
static struct unit_alloc memory[2];
static struct emx_engine *engine[2];
static struct emx_peer *peer[2], *self;
static bool lost; /* frames get lost */
static emx_time now;

static uint8_t buffer[2 * LONG_BYTES];
static struct emx_op *whole;
static unsigned messages, failed, lasts; /* messages that have come, those without all data, buffers given back */
static int last_status;                  /* of the last call, or of the message that failed */
static size_t next_at;                   /* where the next message should lie */
static uint32_t next_number;             /* its content */
static size_t long_bytes;                /* of the message that fails */
static bool taking;                      /* results are taken */

static void got_message(const struct ethmx_result *r, const uint8_t *base)
{
    uint32_t number;

    assert_ptr_equal(base, buffer + next_at);
    if (r->status) {
        failed++;
        last_status = r->status;
        next_at += long_bytes;
        return;
    }
    assert_int_equal(r->len_bytes, sizeof(number));
    memcpy(&number, base, sizeof(number));
    assert_int_equal(number, next_number++);
    next_at += sizeof(number);
    messages++;
}

static void multi_done(void *arg, const struct ethmx_result *r)
{
    struct emx_op *op = arg;
    void *base;
    bool last = emx_engine_multi_deliver(engine[1], op, &base);

    if (base)
        got_message(r, base);
    else
        last_status = r->status;
    if (!last)
        return;
    lasts++;
    emx_engine_multi_over(engine[1], op);
}

static void take_results(unsigned i)
{
    struct emx_op *op;

    while ((op = emx_engine_completed(engine[i]))) {
        struct ethmx_result r;
        ethmx_done_fn done;
        void *arg;

        emx_op_result(op, &done, &arg, &r);
        if (done)
            done(arg, &r);
        emx_engine_op_free(engine[i], op);
    }
}

static unsigned move(unsigned from)
{
    const struct emx_route route = {.frame_bytes = FRAME_BYTES, .name = "test"};
    uint8_t data[FRAME_BYTES];
    struct emx_event ev;
    struct emx_txframe f;
    unsigned n = 0;

    while (emx_engine_event(engine[from], &ev))
        if (ev.type == EMX_EVENT_ROUTES)
            emx_engine_routes(engine[from], ev.peer, &route, 1, "", now);
    for (; emx_engine_output(engine[from], 0, &f, 1, now); n++) {
        memcpy(data, f.head, f.head_bytes);
        if (f.body_bytes)
            memcpy(data + f.head_bytes, f.body, f.body_bytes);
        if (!lost)
            emx_engine_input(engine[!from], 0, data, (uint32_t)f.head_bytes + f.body_bytes, now);
    }
    if (from == 0 || taking)
        take_results(from);
    return n;
}

static void rest(emx_time ns)
{
    emx_time until = now + ns;

    for (;;) {
        emx_time at[2];

        while (move(0) + move(1))
            ;
        for (unsigned i = 0; i < 2; i++)
            at[i] = emx_engine_deadline(engine[i]);
        if (at[0] > until && at[1] > until)
            break;
        now = at[0] < at[1] ? at[0] : at[1];
        for (unsigned i = 0; i < 2; i++)
            emx_engine_expire(engine[i], now);
    }
    now = until;
}

static struct emx_peer *know(unsigned i, unsigned number)
{
    const struct emx_address a = {.id = number + 1, .cookie = 2, .host_id = number + 1};
    uint8_t buf[ETHMX_ADDRESS_MAX];
    struct emx_peer *p;
    char err[256];

    assert_int_equal(emx_engine_peer(engine[i], buf, emx_address_encode(&a, buf), &p, err, sizeof(err)), ETHMX_OK);
    return p;
}

static int send_data(unsigned from, struct emx_peer *to, const void *data, size_t len_bytes)
{
    const struct emx_op_args a = {.data = {.base = (void *)(uintptr_t)data, .len_bytes = len_bytes},
                                  .kind = EMX_KIND_UNTAGGED};

    return emx_engine_send(engine[from], to, &a, now);
}

static void send_numbers(uint32_t first, unsigned count)
{
    static uint32_t number[2 * MESSAGES];

    for (uint32_t i = first; i < first + count; i++) {
        number[i] = i;
        assert_true(send_data(0, peer[0], &number[i], sizeof(number[i])) >= 0);
    }
}

static int post(struct emx_peer *from)
{
    const struct emx_op_args a = {.mask = UINT64_MAX,
                                  .data = {.base = buffer, .len_bytes = sizeof(buffer)},
                                  .kind = EMX_KIND_UNTAGGED,
                                  .done = multi_done};
    const struct emx_multi_args m = {.min_bytes = 1};

    next_at = 0;
    return emx_engine_recv_multi(engine[1], from, &a, &m, &whole, now);
}

static void begin(void)
{
    static const uint32_t none = UINT32_MAX;

    lost = false;
    taking = true;
    now = SECOND_NS;
    messages = failed = lasts = next_number = 0;
    last_status = ETHMX_OK;
    memset(stats, 0, sizeof(stats));
    emx_config_defaults(&cfg);
    for (unsigned i = 0; i < 2; i++) {
        const struct emx_address a = {.id = i + 1, .cookie = 2, .host_id = i + 1};
        const struct emx_engine_params p = {
            .cfg = &cfg, .stats = &stats[i], .alloc = &memory[i].alloc, .self = &a, .seed = i};

        unit_alloc_init(&memory[i]);
        assert_int_equal(emx_engine_create(&p, &engine[i]), ETHMX_OK);
    }
    for (unsigned i = 0; i < 2; i++)
        peer[i] = know(i, !i);
    self = know(1, 1);
    /* Both are connected, and a message has gone by another way. */
    assert_true(emx_engine_send(engine[0], peer[0],
                                &(struct emx_op_args){.data = {.base = (void *)(uintptr_t)&none, .len_bytes = 4}},
                                now) >= 0);
    rest(SECOND_NS);
    assert_int_equal(emx_engine_flush_unexpected(engine[1], 0, 0, now), 1);
}

static void end(void)
{
    for (unsigned i = 0; i < 2; i++) {
        assert_null(emx_engine_check(engine[i]));
        emx_engine_destroy(engine[i]);
        assert_int_equal(memory[i].live, 0);
    }
}

static void cancel(void)
{
    assert_int_equal(emx_engine_cancel(engine[1], whole), ETHMX_OK);
    take_results(1);
    assert_int_equal(lasts, 1);
    assert_int_equal(last_status, ETHMX_ERR_CANCELED);
}

/* The n-th allocation fails, and all after it for a while. What was dropped for that comes again. */
static void memory_fails_while_messages_arrive(void **state)
{
    uint64_t dropped = 0;

    (void)state;
    for (unsigned n = 1; n < 10; n++) {
        begin();
        assert_int_equal(post(n & 1 ? NULL : peer[1]), ETHMX_INPROGRESS);
        taking = false; /* so that each message needs memory */
        memory[1].fail_at = memory[1].calls + n;
        send_numbers(0, MESSAGES);
        rest(SECOND_NS / 10);
        dropped += stats[1].drop_memory;
        memory[1].fail_at = 0;
        taking = true;
        rest(5 * SECOND_NS);
        assert_int_equal(messages, MESSAGES);
        assert_int_equal(failed, 0);
        assert_int_equal(lasts, 0);
        cancel();
        end();
    }
    assert_true(dropped > 0);
}

/* It fails while the buffer takes messages that have arrived before. Then the buffer is given back early, or was not
 * taken; the rest of the messages stay for the next one. */
static void memory_fails_while_messages_are_taken(void **state)
{
    unsigned refused = 0, early = 0;

    (void)state;
    for (unsigned n = 1; n < 10; n++) {
        int rc;

        begin();
        send_numbers(0, MESSAGES);
        rest(SECOND_NS);
        assert_int_equal(stats[1].unexpected_now, MESSAGES);
        memory[1].fail_at = memory[1].calls + n;
        rc = post(NULL);
        memory[1].fail_at = 0;
        if (rc == ETHMX_ERR_NO_MEMORY) {
            refused++;
            assert_int_equal(stats[1].unexpected_now, MESSAGES);
        } else {
            assert_int_equal(rc, ETHMX_INPROGRESS);
            rest(SECOND_NS);
            assert_true(messages > 0);
            assert_int_equal(messages + stats[1].unexpected_now, MESSAGES);
        }
        early += lasts;
        if (rc == ETHMX_ERR_NO_MEMORY || lasts) {
            lasts = 0;
            assert_int_equal(post(NULL), ETHMX_INPROGRESS);
        }
        send_numbers(MESSAGES, 5);
        rest(SECOND_NS);
        assert_int_equal(messages, MESSAGES + 5);
        assert_int_equal(stats[1].unexpected_now, 0);
        cancel();
        end();
    }
    assert_true(refused > 0 && early > 0);
}

/* A long message begins, and the rest of it does not come. */
static void begin_long_message(bool any)
{
    static uint8_t data[LONG_BYTES];
    struct emx_txframe f;

    begin();
    assert_int_equal(post(any ? NULL : peer[1]), ETHMX_INPROGRESS);
    send_numbers(0, 3);
    rest(SECOND_NS);
    assert_true(send_data(0, peer[0], data, long_bytes) >= 0);
    assert_int_equal(emx_engine_output(engine[0], 0, &f, 1, now), 1);
    memcpy(data, f.head, f.head_bytes);
    if (f.body_bytes)
        memcpy(data + f.head_bytes, f.body, f.body_bytes);
    emx_engine_input(engine[1], 0, data, (uint32_t)f.head_bytes + f.body_bytes, now);
    assert_int_equal(messages, 3);
    lost = true;
}

/* One message has failed. The last result has this status, and the buffer was given back so often. */
static void assert_failed(int status, unsigned given_back)
{
    assert_int_equal(failed, 1);
    assert_int_equal(last_status, status);
    assert_int_equal(lasts, given_back);
}

static void peer_dies(int status, unsigned given_back)
{
    rest(2 * cfg.p_peer_timeout);
    assert_failed(status, given_back);
}

/* The message fails; the buffer goes on, behind the place of that, with what others send. */
static void a_peer_dies_in_the_middle(void **state)
{
    const uint32_t number = 3;

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
        long_bytes = lengths[i];
        begin_long_message(true);
        peer_dies(ETHMX_ERR_PEER_DEAD, 0);
        assert_true(send_data(1, self, &number, sizeof(number)) >= 0);
        take_results(1);
        assert_int_equal(messages, 4);
        cancel();
        end();
    }
}

/* The buffer was for that peer alone: it is given back, after the message. */
static void the_only_peer_dies_in_the_middle(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
        long_bytes = lengths[i];
        begin_long_message(false);
        peer_dies(ETHMX_ERR_PEER_DEAD, 1);
        assert_int_equal(post(peer[1]), ETHMX_ERR_PEER_DEAD);
        end();
    }
}

static void a_peer_is_removed_in_the_middle(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * ARRAY_LEN(lengths); i++) {
        bool any = i & 1;

        long_bytes = lengths[i / 2];
        begin_long_message(any);
        assert_int_equal(emx_engine_remove(engine[1], peer[1], false, now), ETHMX_ERR_BUSY);
        assert_int_equal(emx_engine_remove(engine[1], peer[1], true, now), ETHMX_OK);
        take_results(1);
        assert_failed(ETHMX_ERR_CLOSED, !any);
        if (any)
            cancel();
        end();
    }
}

/* The cancelled buffer waits for the message that has begun. */
static void a_peer_dies_after_the_cancel(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
        long_bytes = lengths[i];
        begin_long_message(true);
        assert_int_equal(emx_engine_cancel(engine[1], whole), ETHMX_OK);
        assert_int_equal(emx_engine_cancel(engine[1], whole), ETHMX_ERR_NO_MATCH);
        take_results(1);
        assert_int_equal(lasts, 0);
        peer_dies(ETHMX_ERR_CANCELED, 1);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_fails_while_messages_arrive), cmocka_unit_test(memory_fails_while_messages_are_taken),
        cmocka_unit_test(a_peer_dies_in_the_middle),          cmocka_unit_test(the_only_peer_dies_in_the_middle),
        cmocka_unit_test(a_peer_is_removed_in_the_middle),    cmocka_unit_test(a_peer_dies_after_the_cancel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
