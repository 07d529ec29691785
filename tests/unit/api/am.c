/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scenarios: active messages.
 */
#include "api/scenario.h"

#define AM_ECHO 3
#define AM_KEEP 4
#define AM_LATE 5
#define AM_BACK 6

struct am_state {
    const struct side *s;
    _Atomic bool all;
    unsigned count, expected;
    bool bad;
    struct ethmx_message *kept[8];
    size_t kept_bytes[8];
    uint8_t *buf;
    struct pending fetched;
};

struct am_head {
    unsigned number;
    unsigned data_bytes;
    uint8_t filler[200];
};

static void am_count(struct am_state *a)
{
    if (++a->count == a->expected)
        atomic_store(&a->all, true);
}

static void am_fetched(void *arg, const struct ethmx_result *result)
{
    struct am_state *a = arg;

    a->bad |= result->status != ETHMX_OK || !is_filled(a->buf, result->len_bytes, 6);
    am_count(a);
}

/* Data that is at hand is looked at, other data is fetched. */
static bool am_echo(void *arg, const struct ethmx_am *am)
{
    struct am_state *a = arg;
    struct am_head h;
    struct ethmx_data data;
    struct ethmx_result r;
    int rc;

    memcpy(&h, am->header, sizeof(h));
    a->bad |= am->header_bytes != sizeof(h) || h.data_bytes != am->data_bytes || am->peer != a->s->peer;
    a->bad |= !is_filled(h.filler, sizeof(h.filler), h.number);
    if (am->data || !am->data_bytes) {
        a->bad |= !is_filled(am->data, am->data_bytes, 6);
        am_count(a);
        return false;
    }
    data = flat(a->buf, am->data_bytes);
    rc = ethmx_imrecv(a->s->ep, am->msg, &data, am_fetched, a, &r);
    if (rc == ETHMX_OK)
        am_fetched(a, &r);
    a->bad |= rc < 0;
    return false;
}

static bool am_keep(void *arg, const struct ethmx_am *am)
{
    struct am_state *a = arg;

    a->kept[a->count] = am->msg;
    a->kept_bytes[a->count] = am->data_bytes;
    am_count(a);
    return true;
}

static bool am_in_order(void *arg, const struct ethmx_am *am)
{
    struct am_state *a = arg;
    unsigned number;

    memcpy(&number, am->header, sizeof(number));
    a->bad |= am->header_bytes != sizeof(number) || number != a->count;
    am_count(a);
    return false;
}

static bool send_am(const struct side *s, unsigned id, const void *head, size_t head_bytes, struct ethmx_data data)
{
    struct pending p = {.done = false};
    int rc = ethmx_am_send(s->ep, s->peer, id, head, head_bytes, &data, done, &p);

    CHECK(rc == ETHMX_OK || (rc == ETHMX_INPROGRESS && await(s, &p.done) && p.result.status == ETHMX_OK));
    return true;
}

bool am_lengths(const struct side *s)
{
    static const size_t len[] = {0, 1, 100, 1200, 9000, 30000, 40000, 1000000};
    struct am_state a = {.s = s, .expected = ARRAY_LEN(len), .buf = malloc(1000000)};

    if (s->role == 0) {
        struct am_head h = {0};

        CHECK(await_signal(s, 1000));
        fill(a.buf, 1000000, 6);
        for (unsigned i = 0; i < ARRAY_LEN(len); i++) {
            h.number = i;
            h.data_bytes = (unsigned)len[i];
            fill(h.filler, sizeof(h.filler), i);
            CHECK(send_am(s, AM_ECHO, &h, sizeof(h), flat(a.buf, len[i])));
        }
    } else {
        CHECK(ethmx_am_handler(s->ep, AM_ECHO, am_echo, &a) == ETHMX_OK);
        CHECK(signal_other(s, 1000));
        CHECK(await(s, &a.all));
        CHECK(!a.bad);
        CHECK(ethmx_am_handler(s->ep, AM_ECHO, NULL, NULL) == ETHMX_OK);
    }
    free(a.buf);
    return true;
}

/* Messages are kept by the handler and received later, the last one first. */
bool am_kept(const struct side *s)
{
    static const size_t len[] = {100, 20000, 300000};
    struct am_state a = {.s = s, .expected = ARRAY_LEN(len), .buf = malloc(300000)};

    if (s->role == 0) {
        struct pending p[ARRAY_LEN(len)];

        CHECK(await_signal(s, 1000));
        fill(a.buf, 300000, 6);
        for (unsigned i = 0; i < ARRAY_LEN(len); i++) {
            struct ethmx_data data = flat(a.buf, len[i]);
            int rc;

            p[i] = (struct pending){.done = false};
            rc = ethmx_am_send(s->ep, s->peer, AM_KEEP, NULL, 0, &data, done, &p[i]);
            CHECK(rc >= 0);
            if (rc == ETHMX_OK)
                atomic_store(&p[i].done, true);
        }
        for (unsigned i = 0; i < ARRAY_LEN(len); i++)
            CHECK(await(s, &p[i].done) && p[i].result.status == ETHMX_OK);
    } else {
        CHECK(ethmx_am_handler(s->ep, AM_KEEP, am_keep, &a) == ETHMX_OK);
        CHECK(signal_other(s, 1000));
        CHECK(await(s, &a.all));
        for (unsigned i = ARRAY_LEN(len); i-- > 0;) {
            struct ethmx_data data = flat(a.buf, len[i]);
            struct pending p = {.done = false};
            int rc;

            CHECK(a.kept_bytes[i] == len[i]);
            memset(a.buf, 0, len[i]);
            rc = ethmx_imrecv(s->ep, a.kept[i], &data, done, &p, &p.result);
            CHECK(rc == ETHMX_OK || (rc == ETHMX_INPROGRESS && await(s, &p.done)));
            CHECK(p.result.status == ETHMX_OK && p.result.len_bytes == len[i] && is_filled(a.buf, len[i], 6));
        }
        CHECK(ethmx_am_handler(s->ep, AM_KEEP, NULL, NULL) == ETHMX_OK);
    }
    free(a.buf);
    return true;
}

/* Messages wait for a handler that comes later, and keep their order. */
bool am_before_handler(const struct side *s)
{
    struct am_state a = {.s = s, .expected = 50};

    if (s->role == 0) {
        for (unsigned i = 0; i < a.expected; i++)
            CHECK(send_am(s, AM_LATE, &i, sizeof(i), flat(NULL, 0)));
        return signal_other(s, 1000);
    }
    CHECK(await_signal(s, 1000));
    poll_some(s, 10);
    CHECK(a.count == 0);
    CHECK(ethmx_am_handler(s->ep, AM_LATE, am_in_order, &a) == ETHMX_OK);
    CHECK(await(s, &a.all));
    CHECK(!a.bad);
    return ethmx_am_handler(s->ep, AM_LATE, NULL, NULL) == ETHMX_OK;
}

/* A handler answers with an active message of its own. */
static bool am_answer(void *arg, const struct ethmx_am *am)
{
    struct am_state *a = arg;
    unsigned number;
    struct ethmx_data none = flat(NULL, 0);

    memcpy(&number, am->header, sizeof(number));
    a->bad |= number != 2 * a->count + (unsigned)(a->s->role == 0);
    am_count(a);
    number++;
    if (a->s->role == 1 || a->count < a->expected)
        a->bad |= ethmx_am_send(a->s->ep, am->peer, AM_BACK, &number, sizeof(number), &none, NULL, NULL) < 0;
    return false;
}

bool am_handlers_answer(const struct side *s)
{
    struct am_state a = {.s = s, .expected = 100};
    unsigned number = 0;

    CHECK(ethmx_am_handler(s->ep, AM_BACK, am_answer, &a) == ETHMX_OK);
    if (s->role == 0)
        CHECK(send_am(s, AM_BACK, &number, sizeof(number), flat(NULL, 0)));
    CHECK(await(s, &a.all));
    CHECK(!a.bad);
    if (s->role == 0)
        CHECK(signal_other(s, 1000));
    else
        CHECK(await_signal(s, 1000));
    return ethmx_am_handler(s->ep, AM_BACK, NULL, NULL) == ETHMX_OK;
}

bool am_limits(const struct side *s)
{
    struct ethmx_data none = flat(NULL, 0);
    uint8_t head[ETHMX_AM_HEADER_MAX + 1] = {0};

    CHECK(ethmx_am_handler(s->ep, ETHMX_AM_HANDLERS, am_keep, NULL) == ETHMX_ERR_PARAM);
    CHECK(ethmx_am_send(s->ep, s->peer, ETHMX_AM_HANDLERS, NULL, 0, &none, NULL, NULL) == ETHMX_ERR_PARAM);
    CHECK(ethmx_am_send(s->ep, s->peer, 1, head, sizeof(head), &none, NULL, NULL) == ETHMX_ERR_PARAM);
    return true;
}
