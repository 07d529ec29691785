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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packet_is_pushed),         cmocka_unit_test(only_where_tso_packets_carry_it),
        cmocka_unit_test(only_over_a_path_with_room), cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(fewer_after_one_in_vain),
    };

    return cmocka_run_group_tests_name("push", tests, NULL, NULL);
}
