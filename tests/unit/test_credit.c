/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Credit: the shares of many peers.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "proto/impl.h"

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
            assert_true(s->share >= 4 * message);
            s->rx_charged += s->share; /* uses it, and needs more */
            emx_credit_starved(s);
            s->rx_charged = s->rx_released = s->rx_grown = 0;
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
        assert_int_equal(emx_session_start(e, peers[i], 0)->share, cfg.p_unexpected_peer);
    end(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_peer_is_eager_too),
                                       cmocka_unit_test(a_crowd_that_comes_late_gets_what_is_left),
                                       cmocka_unit_test(few_peers_have_long_shares)};

    return cmocka_run_group_tests_name("credit", tests, NULL, NULL);
}
