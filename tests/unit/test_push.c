/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Of which messages the first chunks leave with the announcement, and how many.
 */
#include "unit.h"

#include "core/engine_impl.h"
#include "core/msg/op.h"
#include "core/msg/push.h"
#include "core/rel/offload_probe.h"
#include "core/rel/session.h"

enum { MTU = 1472, CHUNK = 1424, PACKET = 44, WINDOW = 128 };

static struct emx_config cfg;
static struct emx_stats stats;
static struct emx_engine engine;
static struct emx_connect connecting;
static struct emx_session session;
static uint8_t buf[1 << 20];
static struct emx_op op;

/* A session over a route with TSO packets, nothing in flight, that has lost nothing; and a large message. */
static struct emx_session *begin(void)
{
    struct emx_session *s = &session;

    emx_config_defaults(&cfg);
    engine = (struct emx_engine){.cfg = &cfg, .stats = &stats, .seq_frame_bytes = UINT16_MAX};
    connecting = (struct emx_connect){.route[0].tso = true};
    *s = (struct emx_session){.e = &engine, .connect = &connecting, .frame_bytes = MTU, .gso_bytes = MTU};
    emx_offload_probe_init(&s->offload);
    emx_list_init(&s->pulled.requests);
    emx_list_init(&s->tx.unacked);
    s->tx.send_next = &s->tx.unacked;
    s->tx.peer_window = WINDOW;
    s->tx.cc = (struct emx_cc){.cwnd_frames = WINDOW,
                               .flight_frames = WINDOW,
                               .threshold_frames = WINDOW,
                               .limit_frames = WINDOW,
                               .clean_frames = EMX_CC_CLEAN};
    op = (struct emx_op){
        .data = {.base = buf, .len_bytes = sizeof(buf)}, .msg_bytes = sizeof(buf), .chunk_bytes = CHUNK, .id = 1};
    return s;
}

static void a_packet_is_pushed(void **state)
{
    struct emx_session *s = begin();

    (void)state;
    assert_int_equal(emx_push_chunks(s, &op), PACKET);
    op.msg_bytes = PACKET * CHUNK + 1;
    assert_int_equal(emx_push_chunks(s, &op), PACKET);
    op.msg_bytes--; /* nothing would follow */
    assert_int_equal(emx_push_chunks(s, &op), 0);
    op.msg_bytes = sizeof(buf);
    op.chunk_bytes = 256; /* a map has bits for no more */
    assert_int_equal(emx_push_chunks(s, &op), EMX_PUSH_MOST);
    assert_int_equal(emx_rndv_map(EMX_PUSH_MOST), UINT64_MAX);
    assert_int_equal(emx_rndv_map(3), 7);
}

static void only_where_tso_packets_carry_it(void **state)
{
    struct emx_session *s = begin();

    (void)state;
    connecting.route[0].tso = false;
    assert_int_equal(emx_push_chunks(s, &op), 0);
    s = begin();
    s->rails = (void *)buf;
    assert_int_equal(emx_push_chunks(s, &op), 0);
    s = begin();
    s->seal = EMX_CHECKSUM_FULL;
    assert_int_equal(emx_push_chunks(s, &op), 0);
    s = begin();
    op.is_am = true; /* its handler has yet to say where the data is to go */
    assert_int_equal(emx_push_chunks(s, &op), 0);
}

static void only_over_a_path_with_room(void **state)
{
    struct emx_session *s = begin();
    struct emx_txbuf unsent;

    (void)state;
    s->tx.in_flight = WINDOW - PACKET - 1;
    assert_int_equal(emx_push_chunks(s, &op), PACKET);
    s->tx.in_flight++;
    assert_int_equal(emx_push_chunks(s, &op), 0);
    s = begin();
    s->tx.cc.clean_frames--;
    assert_int_equal(emx_push_chunks(s, &op), 0);
    s = begin();
    s->tx.send_next = &unsent.link;
    assert_int_equal(emx_push_chunks(s, &op), 0);
    s = begin();
    s->pulled.requests.next = &unsent.link;
    assert_int_equal(emx_push_chunks(s, &op), 0);
}

static struct emx_f_pull pull(uint64_t first, unsigned round)
{
    return (struct emx_f_pull){.op = op.id, .first = first, .wanted = 1, .round = (uint8_t)round};
}

/* A message that has ended does not stand in the way of others either. */
static void one_at_a_time(void **state)
{
    struct emx_op *ops[2] = {NULL, &op};
    struct emx_session *s = begin();
    struct emx_f_pull f;

    (void)state;
    engine.slots = calloc(2, sizeof(*engine.slots));
    engine.slot_count = 2;
    engine.slots[1].op = ops[1];
    emx_push_begin(s, &op);
    assert_int_equal(emx_push_chunks(s, &op), 0);
    f = pull(PACKET, 0);
    emx_push_answered(s, &op, &f);
    assert_int_equal(emx_push_chunks(s, &op), PACKET);
    op.asked = false;
    emx_push_begin(s, &op);
    assert_int_equal(emx_push_chunks(s, &op), 0);
    engine.slots[1].op = NULL;
    assert_int_equal(emx_push_chunks(s, &op), PACKET);
    free(engine.slots);
}

static unsigned skipped(struct emx_session *s)
{
    unsigned n = 0;

    while (!emx_push_chunks(s, &op))
        n++;
    return n;
}

static void fewer_after_one_in_vain(void **state)
{
    struct emx_session *s = begin();
    struct emx_f_pull f = pull(0, 0);

    (void)state;
    emx_push_begin(s, &op);
    emx_push_answered(s, &op, &f); /* there was no receive */
    assert_int_equal(skipped(s), 16);
    f = pull(0, 1);
    emx_push_answered(s, &op, &f); /* it was lost */
    assert_int_equal(skipped(s), 64);
    op.id++;
    emx_push_answered(s, &op, &f); /* another message */
    assert_int_equal(skipped(s), 0);
}

static struct emx_f_data pushed_data(uint32_t sender_op)
{
    return (struct emx_f_data){.rop = sender_op, .chunk_bytes = CHUNK, .pushed = 1};
}

static unsigned early(struct emx_session *s, const struct emx_f_data *f)
{
    unsigned n = 0;

    while (emx_push_is_early(s, f))
        n++;
    return n;
}

/* Whether the packet or its announcement comes first. */
static void data_waits_a_while_for_its_receive(void **state)
{
    const struct emx_f_data f = pushed_data(7), requested = {.rop = 9, .chunk_bytes = CHUNK};

    (void)state;
    for (unsigned overtakes = 0; overtakes < 2; overtakes++) {
        struct emx_session *s = begin();

        if (!overtakes)
            emx_push_unmatched(s, 7);
        assert_true(emx_push_is_early(s, &f));
        if (overtakes)
            emx_push_unmatched(s, 7);
        assert_true(emx_push_is_coming(s, 7));
        assert_false(emx_push_is_coming(s, 8));
        assert_false(emx_push_is_early(s, &requested));
        assert_int_equal(early(s, &f), 31);
        assert_false(emx_push_is_coming(s, 7));
        emx_push_unmatched(s, 8); /* the next message */
        assert_true(emx_push_is_coming(s, 8));
    }
}

/* A receive that comes later must not wait for what was dropped, even if that has overtaken its announcement. */
static void dropped_data_does_not_come(void **state)
{
    const struct emx_f_data f = pushed_data(7);

    (void)state;
    for (unsigned overtakes = 0; overtakes < 2; overtakes++) {
        struct emx_session *s = begin();

        if (!overtakes)
            emx_push_unmatched(s, 7);
        assert_false(emx_push_is_gone(s, 7));
        emx_push_dropped(s, &f);
        assert_true(emx_push_is_gone(s, 7));
        assert_false(emx_push_is_gone(s, 8));
        if (overtakes)
            emx_push_unmatched(s, 7);
        assert_false(emx_push_is_coming(s, 7));
        assert_int_equal(early(s, &f), 0); /* the rest of a packet that was cut */
    }
}

/* Data of a message that is pulled is not early. */
static void data_with_a_receive_does_not_wait(void **state)
{
    struct emx_rndv r = {.op = &op, .sender_op = 7, .chunk_bytes = CHUNK};
    struct emx_f_data f = pushed_data(7);
    struct emx_session *s = begin();

    (void)state;
    op.where = EMX_OP_PULLING;
    op.rndv = &r;
    op.peer = &(struct emx_peer){.session = s};
    engine.slots = calloc(2, sizeof(*engine.slots));
    engine.slot_count = 2;
    engine.slots[1].op = &op;
    s->peer = op.peer;
    s->pushed_rx = op.id;
    assert_ptr_equal(emx_rndv_of_data(s, &f), &r);
    assert_false(emx_push_is_early(s, &f));
    f.rop = 8; /* of another message: it must not take the place */
    assert_false(emx_push_is_early(s, &f));
    emx_push_dropped(s, &f);
    f.rop = 7;
    assert_ptr_equal(emx_rndv_of_data(s, &f), &r);
    engine.slots[1].op = NULL;
    assert_true(emx_push_is_early(s, &f));
    free(engine.slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packet_is_pushed),         cmocka_unit_test(only_where_tso_packets_carry_it),
        cmocka_unit_test(only_over_a_path_with_room), cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(fewer_after_one_in_vain),    cmocka_unit_test(data_waits_a_while_for_its_receive),
        cmocka_unit_test(dropped_data_does_not_come), cmocka_unit_test(data_with_a_receive_does_not_wait),
    };

    return cmocka_run_group_tests_name("push", tests, NULL, NULL);
}
