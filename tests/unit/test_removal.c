/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Removal of peers: what it ends, what it leaves alone, that memory comes back, and that two who have removed each
 * other can meet again. Two engines; frames between them arrive at once, but for those that a test loses.
 */

#include <stdio.h>
#include <string.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/address.h"
#include "core/msg/op.h"
#include "core/msg/unexpected.h"
#include "core/peer.h"
#include "core/rel/session.h"
#include "core/time.h"
#include "unit.h"

#define FRAME_BYTES 1500
#define SECOND_NS   1000000000
#define RESULTS     8

static struct emx_config cfg;
static struct emx_stats stats[2];
static struct unit_alloc memory;
static struct emx_engine *engine[2];
static struct emx_peer *peer[2]; /* the other, in the engine of either */
static bool reads, lost[2];      /* large messages are read; frames of one get lost */
static emx_time now;

static struct ethmx_result result[RESULTS]; /* of operations that have completed */
static unsigned results;

static struct emx_address address(unsigned number)
{
    struct emx_address a = {.id = number + 1, .cookie = 2, .host_id = number / 16 + 1};

    snprintf(a.host, sizeof(a.host), "n%u", number / 16);
    return a;
}

static struct emx_peer *know(unsigned i, unsigned number)
{
    const struct emx_address a = address(number);
    uint8_t buf[ETHMX_ADDRESS_MAX];
    struct emx_peer *p;
    char err[256];

    assert_int_equal(emx_engine_peer(engine[i], buf, emx_address_encode(&a, buf), &p, err, sizeof(err)), ETHMX_OK);
    return p;
}

static void take_news(unsigned i)
{
    const struct emx_route route = {.frame_bytes = FRAME_BYTES, .reliable = reads, .reads = reads, .name = "test"};
    struct emx_event ev;
    struct emx_op *op;

    while (emx_engine_event(engine[i], &ev))
        if (ev.type == EMX_EVENT_ROUTES)
            emx_engine_routes(engine[i], ev.peer, &route, 1, "", now);
    while ((op = emx_engine_completed(engine[i]))) {
        ethmx_done_fn done;
        void *arg;

        assert_true(results < RESULTS);
        emx_op_result(op, &done, &arg, &result[results++]);
        emx_engine_op_free(engine[i], op);
    }
}

static unsigned move(unsigned from)
{
    uint8_t data[FRAME_BYTES];
    struct emx_txframe f;
    unsigned n = 0;

    take_news(from);
    for (; emx_engine_output(engine[from], 0, &f, 1, now); n++) {
        memcpy(data, f.head, f.head_bytes);
        if (f.body_bytes)
            memcpy(data + f.head_bytes, f.body, f.body_bytes);
        if (!lost[from] && ((struct emx_frame *)data)->dst_id == address(!from).id)
            emx_engine_input(engine[!from], 0, data, (uint32_t)f.head_bytes + f.body_bytes, now);
    }
    take_news(from);
    return n;
}

static void move_all(void)
{
    while (move(0) + move(1))
        ;
}

static void rest(emx_time ns)
{
    emx_time until = now + ns, at;

    move_all();
    while ((at = emx_engine_deadline(engine[0]) < emx_engine_deadline(engine[1])
                     ? emx_engine_deadline(engine[0])
                     : emx_engine_deadline(engine[1])) <= until) {
        now = at > now ? at : now;
        emx_engine_expire(engine[0], now);
        emx_engine_expire(engine[1], now);
        move_all();
    }
    now = until;
}

static void begin(bool reads_memory)
{
    reads = reads_memory;
    lost[0] = lost[1] = false;
    results = 0;
    now = SECOND_NS;
    memset(stats, 0, sizeof(stats));
    unit_alloc_init(&memory);
    emx_config_defaults(&cfg);
    cfg.p_read_min = 1000;
    for (unsigned i = 0; i < 2; i++) {
        const struct emx_address self = address(i);
        const struct emx_engine_params p = {
            .cfg = &cfg, .stats = &stats[i], .alloc = &memory.alloc, .self = &self, .seed = i, .reliable_links = reads};

        assert_int_equal(emx_engine_create(&p, &engine[i]), ETHMX_OK);
    }
    for (unsigned i = 0; i < 2; i++)
        peer[i] = know(i, !i);
}

static void end(void)
{
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(stats[i].drop_malformed, 0);
        assert_null(emx_engine_check(engine[i]));
        emx_engine_destroy(engine[i]);
    }
    assert_int_equal(memory.live, 0);
}

static int send_bytes(unsigned from, uint64_t bits, void *data, size_t len_bytes, enum ethmx_send_mode mode)
{
    const struct emx_op_args a = {.bits = bits, .data = {.base = data, .len_bytes = len_bytes}, .mode = mode};

    return emx_engine_send(engine[from], peer[from], &a, now);
}

static int post(unsigned at, struct emx_peer *from, uint64_t bits, void *data, size_t len_bytes)
{
    const struct emx_op_args a = {.bits = bits, .mask = UINT64_MAX, .data = {.base = data, .len_bytes = len_bytes}};
    struct ethmx_result r;
    struct emx_op *op;
    int rc = emx_engine_recv(engine[at], from, &a, &op, &r, now);

    if (rc == ETHMX_OK)
        result[results++] = r;
    return rc;
}

/* A message each way arrives. */
static void talk(void)
{
    for (unsigned i = 0; i < 2; i++) {
        uint64_t data = 77 + i, got = 0;
        unsigned before = results = 0;

        assert_true(send_bytes(i, 5, &data, sizeof(data), ETHMX_SEND_STANDARD) >= 0);
        post(!i, peer[!i], 5, &got, sizeof(got));
        rest(SECOND_NS);
        assert_true(results > before);
        assert_int_equal(got, data);
    }
    results = 0;
}

static void remove_peer(unsigned i, bool force)
{
    assert_int_equal(emx_engine_remove(engine[i], peer[i], force, now), ETHMX_OK);
    peer[i] = NULL;
}

static int state_at(unsigned i)
{
    return peer[i]->session->state;
}

static void memory_comes_back(void **state)
{
    size_t known, silent;

    (void)state;
    begin(false);
    remove_peer(0, false);
    silent = emx_engine_memory(engine[0]);
    for (unsigned round = 0; round < 200; round++) {
        if (round == 10)
            known = emx_engine_memory(engine[0]);
        peer[0] = know(0, 1);
        talk();
        remove_peer(0, false);
        assert_int_equal(stats[0].peers_known, 0);
        rest(SECOND_NS);
        assert_int_equal(state_at(1), EMX_S_CLOSED);
        remove_peer(1, false);
        rest(SECOND_NS);
        peer[1] = know(1, 0);
        assert_int_equal(stats[0].unexpected_promised, 0);
        assert_int_equal(stats[0].peers_connected, 0);
    }
    assert_int_equal(emx_engine_memory(engine[0]), known);
    assert_true(known >= silent);
    assert_int_equal(emx_engine_deadline(engine[0]), EMX_NEVER);
    peer[0] = know(0, 1);
    end();
}

static void what_is_open_is_not_cut_off(void **state)
{
    uint8_t data[64] = {0};

    (void)state;
    begin(false);
    talk();
    assert_int_equal(post(0, peer[0], 9, data, sizeof(data)), ETHMX_INPROGRESS);
    assert_int_equal(emx_engine_remove(engine[0], peer[0], false, now), ETHMX_ERR_BUSY);
    assert_int_equal(send_bytes(1, 9, data, sizeof(data), ETHMX_SEND_STANDARD), ETHMX_OK);
    assert_int_equal(emx_engine_remove(engine[1], peer[1], false, now), ETHMX_ERR_BUSY); /* not acknowledged */
    rest(SECOND_NS);
    assert_int_equal(results, 1);
    assert_int_equal(result[0].status, ETHMX_OK);
    remove_peer(0, false);
    rest(SECOND_NS);
    remove_peer(1, false);
    assert_int_equal(emx_engine_remove(engine[0], know(0, 0), true, now), ETHMX_ERR_PARAM);
    end();
}

/* Sends of each kind, receives, and messages that nobody waited for. */
static void force_ends_all(void **state)
{
    static uint8_t data[100000], got[8];
    uint64_t promised;

    (void)state;
    begin(false);
    talk();
    promised = stats[0].unexpected_promised;
    assert_int_equal(post(0, peer[0], 9, got, sizeof(got)), ETHMX_INPROGRESS);
    assert_int_equal(post(0, NULL, 10, got, sizeof(got)), ETHMX_INPROGRESS);
    assert_int_equal(send_bytes(0, 1, data, sizeof(data), ETHMX_SEND_STANDARD), ETHMX_INPROGRESS);
    assert_int_equal(send_bytes(0, 1, data, 8, ETHMX_SEND_SYNC), ETHMX_INPROGRESS);
    assert_int_equal(send_bytes(1, 2, data, 8, ETHMX_SEND_STANDARD), ETHMX_OK);
    assert_int_equal(send_bytes(1, 2, data, sizeof(data), ETHMX_SEND_STANDARD), ETHMX_INPROGRESS);
    move_all();
    assert_int_equal(stats[0].unexpected_now, 2);
    assert_true(stats[0].unexpected_promised >= promised);
    remove_peer(0, true);
    assert_int_equal(stats[0].unexpected_now, 0);
    assert_int_equal(stats[0].unexpected_bytes, 0);
    assert_int_equal(stats[0].unexpected_promised, 0);
    take_news(0);
    assert_int_equal(results, 3);
    for (unsigned i = 0; i < results; i++) {
        assert_int_equal(result[i].status, ETHMX_ERR_CLOSED);
        assert_null(result[i].peer);
    }
    results = 0;
    rest(SECOND_NS);
    assert_int_equal(state_at(1), EMX_S_CLOSED);
    assert_int_equal(results, 1); /* the other's large message */
    assert_int_equal(result[0].status, ETHMX_ERR_PEER_DEAD);
    remove_peer(1, false);
    peer[1] = know(1, 0);
    assert_true(send_bytes(1, 10, data, 8, ETHMX_SEND_STANDARD) >= 0); /* greets an unknown peer */
    results = 0;
    rest(SECOND_NS);
    assert_int_equal(results, 2);                             /* the send, and */
    assert_int_equal(result[0].status | result[1].status, 0); /* the receive from any source, there all the time */
    assert_true(result[0].peer == (void *)know(0, 1) || result[1].peer == (void *)know(0, 1));
    end();
}

static void late_frames_are_dropped(void **state)
{
    uint8_t data[8] = {0};

    (void)state;
    begin(false);
    talk();
    lost[0] = true;
    remove_peer(0, false);
    move_all();
    assert_int_equal(send_bytes(1, 3, data, sizeof(data), ETHMX_SEND_STANDARD), ETHMX_OK);
    move_all();
    assert_int_equal(stats[0].drop_no_session, 1);
    assert_int_equal(stats[0].peers_known, 0);
    end();
}

/* The other has not heard the goodbye, and takes nothing of the new session for what continues the old one. */
static void a_lost_goodbye_shows(void **state)
{
    uint64_t data = 123, got = 0;

    (void)state;
    begin(false);
    talk();
    talk();
    lost[0] = true;
    remove_peer(0, false);
    rest(SECOND_NS);
    lost[0] = false;
    assert_int_equal(state_at(1), EMX_S_CONNECTED);
    peer[0] = know(0, 1);
    assert_true(send_bytes(0, 5, &data, sizeof(data), ETHMX_SEND_STANDARD) >= 0);
    rest(SECOND_NS);
    assert_int_equal(state_at(1), EMX_S_CLOSED);
    assert_int_equal(state_at(0), EMX_S_CONNECTING);
    assert_int_equal(stats[1].unexpected_now, 0);
    remove_peer(1, false);
    rest(SECOND_NS);
    assert_int_equal(state_at(0), EMX_S_CONNECTED);
    peer[1] = know(1, 0);
    post(1, peer[1], 5, &got, sizeof(got));
    rest(SECOND_NS);
    assert_int_equal(got, data);
    talk();
    end();
}

static struct emx_unexpected *take(unsigned at, uint64_t bits)
{
    const struct emx_op_args args = {.bits = bits, .mask = UINT64_MAX};
    struct emx_unexpected *a = NULL;
    struct ethmx_result r;

    assert_int_equal(emx_engine_probe(engine[at], peer[at], &args, &a, &r, NULL), ETHMX_OK);
    return a;
}

static void messages_in_the_programs_hands_stay(void **state)
{
    static uint8_t data[100000];
    uint64_t sent = 321, got = 0;
    const struct emx_op_args a = {.data = {.base = &got, .len_bytes = sizeof(got)}};
    struct emx_unexpected *whole, *announced, *given_back;
    struct ethmx_result r;

    (void)state;
    begin(false);
    talk();
    assert_int_equal(send_bytes(1, 1, &sent, sizeof(sent), ETHMX_SEND_STANDARD), ETHMX_OK);
    assert_int_equal(send_bytes(1, 2, data, sizeof(data), ETHMX_SEND_STANDARD), ETHMX_INPROGRESS);
    assert_true(send_bytes(1, 3, data, 8, ETHMX_SEND_STANDARD) >= 0);
    move_all();
    whole = take(0, 1);
    announced = take(0, 2);
    given_back = take(0, 3);
    remove_peer(0, false);
    rest(SECOND_NS);
    assert_int_equal(emx_engine_mrecv(engine[0], whole, &a, &r, now), ETHMX_OK);
    assert_int_equal(got, sent);
    assert_null(r.peer);
    results = 0;
    assert_int_equal(emx_engine_mrecv(engine[0], announced, &a, &r, now), ETHMX_INPROGRESS);
    take_news(0);
    assert_int_equal(results, 1);
    assert_int_equal(result[0].status, ETHMX_ERR_PEER_DEAD);
    emx_engine_release(engine[0], given_back, now);
    assert_int_equal(stats[0].unexpected_bytes, 0);
    assert_int_equal(stats[0].unexpected_promised, 0);
    end();
}

/* The pump reads the peer's memory into a buffer of the program, which stays the engine's until it tells the end. */
static void a_read_in_hand_is_waited_for(void **state)
{
    static uint8_t data[100000], got[100000];
    struct emx_read rd;

    (void)state;
    begin(true);
    talk();
    assert_int_equal(post(0, peer[0], 1, got, sizeof(got)), ETHMX_INPROGRESS);
    assert_int_equal(send_bytes(1, 1, data, sizeof(data), ETHMX_SEND_STANDARD), ETHMX_INPROGRESS);
    move_all();
    results = 0;
    assert_true(emx_engine_read(engine[0], 0, &rd));
    remove_peer(0, true);
    move(0);
    rest(SECOND_NS);
    assert_int_equal(stats[0].peers_known, 0);
    results = 0;
    emx_engine_read_done(engine[0], &rd, ETHMX_OK, now);
    take_news(0);
    assert_int_equal(results, 1);
    assert_int_equal(result[0].status, ETHMX_ERR_CLOSED);
    rest(10 * (emx_time)SECOND_NS);
    assert_int_equal(emx_engine_deadline(engine[0]), EMX_NEVER);
    end();
}

/* The addresses of a host's later peers are told as they differ from that of the first. */
/* The peer's hello tells another address than the launcher did, so routes are asked for once more. */
static void routes_are_not_asked_for_a_removed_peer(void **state)
{
    struct emx_address told = address(1);
    uint8_t buf[ETHMX_ADDRESS_MAX], data[8] = {0};
    struct emx_event ev;
    char err[256];

    (void)state;
    begin(false);
    remove_peer(0, true);
    assert_true(emx_address_add_part(&told, 1, "p", 1));
    assert_int_equal(emx_engine_peer(engine[0], buf, emx_address_encode(&told, buf), &peer[0], err, sizeof(err)),
                     ETHMX_OK);
    assert_int_equal(send_bytes(0, 1, data, sizeof(data), ETHMX_SEND_STANDARD), ETHMX_INPROGRESS);
    move(0);
    move(1);
    assert_int_equal(state_at(0), EMX_S_CONNECTING);
    assert_true(emx_list_linked(&peer[0]->session->routing));
    assert_null(emx_engine_check(engine[0]));
    remove_peer(0, true);
    assert_null(emx_engine_check(engine[0]));
    while (emx_engine_event(engine[0], &ev))
        assert_int_not_equal(ev.type, EMX_EVENT_ROUTES);
    rest(SECOND_NS);
    peer[0] = know(0, 1);
    end();
}

static void others_of_the_host_keep_their_addresses(void **state)
{
    enum { COUNT = 16 };
    struct emx_peer *p[COUNT];
    size_t before;

    (void)state;
    begin(false);
    for (unsigned round = 0; round < 50; round++) {
        if (round == 2)
            before = emx_engine_memory(engine[0]);
        for (unsigned i = 0; i < COUNT; i++)
            p[i] = know(0, 32 + i);
        for (unsigned i = 0; i < COUNT; i++) {
            unsigned gone = (i * 5 + round) % COUNT;

            for (unsigned k = 0; k < COUNT; k++)
                if (p[k])
                    assert_int_equal(emx_peer_address(engine[0], p[k])->id, address(32 + k).id);
            assert_int_equal(emx_engine_remove(engine[0], p[gone], false, now), ETHMX_OK);
            p[gone] = NULL;
        }
    }
    assert_int_equal(emx_engine_memory(engine[0]), before);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_comes_back),
        cmocka_unit_test(what_is_open_is_not_cut_off),
        cmocka_unit_test(force_ends_all),
        cmocka_unit_test(late_frames_are_dropped),
        cmocka_unit_test(a_lost_goodbye_shows),
        cmocka_unit_test(messages_in_the_programs_hands_stay),
        cmocka_unit_test(a_read_in_hand_is_waited_for),
        cmocka_unit_test(routes_are_not_asked_for_a_removed_peer),
        cmocka_unit_test(others_of_the_host_keep_their_addresses),
    };

    return cmocka_run_group_tests_name("removal", tests, NULL, NULL);
}
