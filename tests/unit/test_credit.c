/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Credit: the shares of many peers, and what idle ones give back.
 */

#include <stdio.h>
#include <string.h>

#include "base/min.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/address.h"
#include "core/format/frame.h"
#include "core/peer.h"
#include "core/rel/credit.h"
#include "core/rel/session.h"
#include "unit.h"

#define PEERS 4096

static struct emx_config cfg;
static struct emx_stats stats;
static struct unit_alloc memory;
static struct emx_peer *peers[PEERS];

static struct emx_address address(unsigned number)
{
    struct emx_address a = {.id = number + 1, .cookie = 2, .host_id = number / 16 + 1};

    snprintf(a.host, sizeof(a.host), "n%u", number / 16);
    return a;
}

static void know(struct emx_engine *e, unsigned number)
{
    struct emx_address a = address(number + 1);
    uint8_t buf[ETHMX_ADDRESS_MAX];
    char err[256];

    assert_int_equal(emx_engine_peer(e, buf, emx_address_encode(&a, buf), &peers[number], err, sizeof(err)), ETHMX_OK);
}

static struct emx_engine *begin(void)
{
    const struct emx_address self = address(0);
    const struct emx_engine_params p = {.cfg = &cfg, .stats = &stats, .alloc = &memory.alloc, .self = &self, .seed = 1};
    struct emx_engine *e = NULL;

    memset(&stats, 0, sizeof(stats));
    unit_alloc_init(&memory);
    emx_config_defaults(&cfg);
    assert_int_equal(emx_engine_create(&p, &e), ETHMX_OK);
    return e;
}

static void end(struct emx_engine *e)
{
    emx_engine_destroy(e);
    assert_int_equal(memory.live, 0);
}

/* All are known from the start, as the launcher tells of them; they connect one after the other, and each takes more
 * than it has got whenever it can. */
static void the_last_peer_is_eager_too(void **state)
{
    const uint32_t message = emx_eager_cost(1024);
    struct emx_engine *e = begin();

    (void)state;
    for (unsigned i = 0; i < PEERS; i++)
        know(e, i);
    for (unsigned i = 0; i < PEERS; i++) {
        struct emx_session *s = emx_session_start(e, peers[i], 0);

        assert_non_null(s);
        for (unsigned n = 0; n < 10; n++) {
            assert_true(s->credit.share >= 4 * message);
            s->credit.charged += s->credit.share; /* uses it, and needs more */
            emx_credit_starved(s, 0);
            s->credit.charged = s->credit.released = s->credit.grown = 0;
        }
        assert_true(stats.unexpected_promised <= cfg.p_unexpected_max);
    }
    end(e);
}

/* Some take all that they can get before the others are known. */
static void a_crowd_that_comes_late_gets_what_is_left(void **state)
{
    struct emx_engine *e = begin();

    (void)state;
    for (unsigned i = 0; i < PEERS; i++) {
        know(e, i);
        assert_non_null(emx_session_start(e, peers[i], 0));
        assert_true(stats.unexpected_promised <= cfg.p_unexpected_max);
    }
    end(e);
}

static void few_peers_have_long_shares(void **state)
{
    struct emx_engine *e = begin();

    (void)state;
    for (unsigned i = 0; i < 8; i++)
        know(e, i);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(emx_session_start(e, peers[i], 0)->credit.share, cfg.p_unexpected_peer);
    end(e);
}

/* ---- Giving back ---- */

#define LATER_NS 1000000000

/* Two engines that are connected: what the second one has promised, the first one spends. */
struct pair {
    struct emx_config cfg;
    struct emx_stats stats[2];
    struct unit_alloc memory;
    struct emx_engine *engine[2];
    struct emx_session *sender, *receiver; /* the session at either end */
    emx_time now;
};

static void answer_routes(struct pair *p, struct emx_engine *e)
{
    const struct emx_route route = {.frame_bytes = 1500, .name = "test"};
    struct emx_event ev;

    while (emx_engine_event(e, &ev))
        if (ev.type == EMX_EVENT_ROUTES)
            emx_engine_routes(e, ev.peer, &route, 1, "", p->now);
}

/* All frames that one has for the other; returns how many. */
static unsigned move(struct pair *p, unsigned from)
{
    struct emx_engine *to = p->engine[!from];
    struct emx_txframe f;
    uint8_t data[2048];
    unsigned n = 0;

    answer_routes(p, p->engine[from]);
    for (; emx_engine_output(p->engine[from], 0, &f, 1, p->now); n++) {
        memcpy(data, f.head, f.head_bytes);
        if (f.body_bytes)
            memcpy(data + f.head_bytes, f.body, f.body_bytes);
        emx_engine_input(to, 0, data, (uint32_t)f.head_bytes + f.body_bytes, p->now);
    }
    return n;
}

static void move_all(struct pair *p)
{
    while (move(p, 0) + move(p, 1))
        ;
}

static void send_to_other(struct pair *p, size_t len_bytes)
{
    static uint8_t data[1024];
    const struct emx_op_args a = {.data = {.base = data, .len_bytes = len_bytes}};

    assert_true(emx_engine_send(p->engine[0], p->sender->peer, &a, p->now) >= 0);
}

/* used: all counters begin with it. */
static void pair_begin(struct pair *p, uint32_t used)
{
    struct emx_peer *peer;
    uint8_t buf[ETHMX_ADDRESS_MAX];
    char err[256];

    memset(p, 0, sizeof(*p));
    unit_alloc_init(&p->memory);
    emx_config_defaults(&p->cfg);
    p->cfg.p_unexpected_max = 1 << 20;
    p->now = LATER_NS;
    for (unsigned i = 0; i < 2; i++) {
        const struct emx_address self = address(i);
        const struct emx_engine_params params = {
            .cfg = &p->cfg, .stats = &p->stats[i], .alloc = &p->memory.alloc, .self = &self, .seed = i};

        assert_int_equal(emx_engine_create(&params, &p->engine[i]), ETHMX_OK);
    }
    for (unsigned i = 0; i < 2; i++) {
        const struct emx_address other = address(!i);

        assert_int_equal(emx_engine_peer(p->engine[i], buf, emx_address_encode(&other, buf), &peer, err, sizeof(err)),
                         ETHMX_OK);
        *(i ? &p->receiver : &p->sender) = emx_session_start(p->engine[i], peer, p->now);
    }
    move_all(p);
    assert_int_equal(p->sender->state, EMX_S_CONNECTED);
    p->sender->credit.used += used;
    p->sender->credit.limit += used;
    p->receiver->credit.charged += used;
    p->receiver->credit.released += used;
    p->receiver->credit.announced += used;
    p->receiver->credit.grown =
        p->receiver->credit.charged - p->receiver->credit.share; /* was busy, and got more than the floor */
    emx_credit_starved(p->receiver, p->now);
    p->receiver->rx.ack_now = true;
    emx_session_ready(p->receiver);
    move_all(p);
    assert_true(p->receiver->credit.share > emx_credit_floor(p->engine[1]));
    assert_int_equal(p->sender->credit.limit, emx_credit_limit(&p->receiver->credit));
}

static void pair_end(struct pair *p)
{
    for (unsigned i = 0; i < 2; i++) {
        assert_null(emx_engine_check(p->engine[i]));
        emx_engine_destroy(p->engine[i]);
    }
    assert_int_equal(p->memory.live, 0);
}

/* Another peer of the receiver takes all that there is, and wants more. */
static struct emx_session *want_all(struct pair *p)
{
    struct emx_session *other;
    struct emx_address a = address(7);
    uint8_t buf[ETHMX_ADDRESS_MAX];
    struct emx_peer *peer;
    char err[256];

    assert_int_equal(emx_engine_peer(p->engine[1], buf, emx_address_encode(&a, buf), &peer, err, sizeof(err)),
                     ETHMX_OK);
    if (!(other = peer->session))
        assert_non_null(other = emx_session_start(p->engine[1], peer, p->now));
    for (unsigned i = 0; i < 100; i++) {
        other->credit.charged = other->credit.grown + other->credit.share; /* has used it */
        emx_credit_starved(other, p->now);
        other->credit.charged = other->credit.released = other->credit.grown;
    }
    return other;
}

static void an_idle_share_comes_back(void **state)
{
    static const uint32_t used[] = {0, UINT32_MAX, UINT32_MAX - 1000, UINT32_MAX - 65536, INT32_MAX};

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(used); i++) {
        struct emx_session *other;
        uint32_t first, shares;
        struct pair p;

        pair_begin(&p, used[i]);
        first = p.receiver->credit.share;
        send_to_other(&p, 1024); /* nobody takes it: it stays paid for */
        move_all(&p);
        other = want_all(&p);
        assert_int_equal(p.receiver->credit.share, first); /* it is not idle yet */
        p.now += LATER_NS;
        emx_engine_expire(p.engine[0], p.now);
        emx_engine_expire(p.engine[1], p.now);
        shares = other->credit.share;
        want_all(&p);
        move_all(&p);
        assert_int_equal(p.receiver->credit.share, emx_credit_floor(p.engine[1]));
        assert_true(p.receiver->credit.share < first);
        assert_int_equal(p.stats[1].credit_recalled, first - p.receiver->credit.share);
        assert_int_equal(p.sender->credit.limit, emx_credit_limit(&p.receiver->credit));
        p.now += LATER_NS;
        want_all(&p);
        assert_true(other->credit.share > shares);
        while (emx_credit_allows(&p.sender->credit, emx_eager_cost(1024)))
            send_to_other(&p, 1024), move_all(&p);
        move_all(&p);
        assert_int_equal(p.stats[1].drop_malformed, 0);
        assert_true(p.stats[1].unexpected_now > 1);
        pair_end(&p);
    }
}

/* A frame that tells an old limit, and comes when the new one is known. */
static void old_limits_are_not_believed(void **state)
{
    uint32_t before_ack, before_limit;
    struct pair p;

    (void)state;
    pair_begin(&p, 0);
    before_ack = p.receiver->rx.next;
    before_limit = emx_credit_limit(&p.receiver->credit);
    p.now += LATER_NS;
    want_all(&p);
    move(&p, 1); /* the recall */
    assert_true(p.sender->credit.giving);
    emx_credit_heard(&p.sender->credit, before_limit, before_ack, p.sender->tx.next);
    emx_credit_heard_short(&p.sender->credit, before_limit);
    assert_true(emx_seq_before(p.sender->credit.limit, before_limit));
    move_all(&p);
    assert_false(p.sender->credit.giving);
    emx_credit_heard(&p.sender->credit, before_limit, before_ack, p.sender->tx.next);
    assert_true(emx_seq_before(p.sender->credit.limit, before_limit));
    emx_credit_heard(&p.sender->credit, before_limit, p.sender->tx.next + 1,
                     p.sender->tx.next); /* acknowledges what was never sent */
    assert_true(emx_seq_before(p.sender->credit.limit, before_limit));
    assert_int_equal(p.sender->credit.limit, emx_credit_limit(&p.receiver->credit));
    pair_end(&p);
}

static enum emx_drop recall_of(struct emx_session *s, uint32_t credit, uint32_t limit)
{
    struct EMX_LAYOUT {
        struct emx_frame head;
        struct emx_f_recall recall;
    } f = {.head = {.credit = credit}, .recall = {.limit = limit}};

    return emx_credit_input_recall(s, (const uint8_t *)&f, LATER_NS);
}

static enum emx_drop given_of(struct emx_session *s, uint32_t limit)
{
    struct EMX_LAYOUT {
        struct emx_frame head;
        struct emx_f_recall given;
    } f = {.given = {.limit = limit}};

    return emx_credit_input_given(s, (const uint8_t *)&f, LATER_NS);
}

static void nonsense_does_no_harm(void **state)
{
    struct emx_session *s;
    uint32_t share, limit;
    struct pair p;

    (void)state;
    pair_begin(&p, 0);
    send_to_other(&p, 1024);
    move_all(&p);
    s = p.sender;
    limit = s->credit.limit;
    assert_int_equal(recall_of(s, limit, limit), EMX_DROP_MALFORMED);
    assert_int_equal(recall_of(s, limit, limit + 1), EMX_DROP_MALFORMED);
    assert_int_equal(recall_of(s, limit - 1, limit - 2), EMX_DROP_STALE);
    assert_int_equal(recall_of(s, limit + 1, limit), EMX_DROP_STALE);
    assert_int_equal(s->credit.limit, limit);
    assert_int_equal(recall_of(s, limit, limit - INT32_MAX), EMX_ACCEPTED); /* gives what it has not used */
    assert_int_equal(s->credit.limit, s->credit.used);
    assert_int_equal(recall_of(s, s->credit.limit, s->credit.limit - 1), EMX_DROP_STALE); /* one at a time */
    share = p.receiver->credit.share;
    limit = emx_credit_limit(&p.receiver->credit);
    assert_int_equal(given_of(p.receiver, limit + 1), EMX_DROP_MALFORMED);
    assert_int_equal(given_of(p.receiver, p.receiver->credit.charged - 1), EMX_DROP_MALFORMED);
    assert_int_equal(given_of(p.receiver, limit - INT32_MAX), EMX_DROP_MALFORMED);
    assert_int_equal(p.receiver->credit.share, share);
    move_all(&p);
    assert_int_equal(p.receiver->credit.share, emx_min(emx_credit_floor(p.engine[1]), share));
    assert_int_equal(s->credit.limit, emx_credit_limit(&p.receiver->credit)); /* the floor is its own again */
    pair_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_idle_share_comes_back),
                                       cmocka_unit_test(old_limits_are_not_believed),
                                       cmocka_unit_test(nonsense_does_no_harm),
                                       cmocka_unit_test(the_last_peer_is_eager_too),
                                       cmocka_unit_test(a_crowd_that_comes_late_gets_what_is_left),
                                       cmocka_unit_test(few_peers_have_long_shares)};

    return cmocka_run_group_tests_name("credit", tests, NULL, NULL);
}
