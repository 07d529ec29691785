/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scenarios: what MPI asks of matching: modes, order, wildcards, probes, cancel, truncation.
 */
#include "api/scenario.h"

bool ping_pong(const struct side *s)
{
    struct ethmx_result r;
    uint8_t buf[64];

    for (unsigned i = 0; i < 500; i++) {
        size_t len = i % (sizeof(buf) + 1);

        if (s->role == (int)(i % 2)) {
            fill(buf, len, i);
            CHECK(send_data(s, i, flat(buf, len)));
        } else {
            memset(buf, 0, sizeof(buf));
            CHECK(recv_data(s, i, flat(buf, sizeof(buf)), &r));
            CHECK(r.status == ETHMX_OK && r.len_bytes == len && r.msg_bytes == len);
            CHECK(r.bits == bits_of(s, i) && r.peer == s->peer);
            CHECK(is_filled(buf, len, i));
        }
    }
    return true;
}

/* A synchronous send is not complete before it is matched. */
bool synchronous(const struct side *s)
{
    static const size_t len[] = {0, 8, 5000, 100000};
    uint8_t *buf = malloc(100000);
    struct ethmx_result r;
    struct pending p;

    for (unsigned i = 0; i < ARRAY_LEN(len); i++) {
        if (s->role == 0) {
            fill(buf, len[i], i);
            CHECK(start_send(s, i, flat(buf, len[i]), ETHMX_SEND_SYNC, &p));
            CHECK(signal_other(s, 100 + i));
            CHECK(await_signal(s, 200 + i)); /* the message has arrived there for sure */
            CHECK(!p.done);
            CHECK(signal_other(s, 300 + i));
            CHECK(await(s, &p.done));
            CHECK(p.result.status == ETHMX_OK);
        } else {
            CHECK(await_signal(s, 100 + i));
            CHECK(signal_other(s, 200 + i));
            CHECK(await_signal(s, 300 + i));
            CHECK(recv_data(s, i, flat(buf, len[i]), &r));
            CHECK(r.status == ETHMX_OK && is_filled(buf, len[i], i));
        }
    }
    free(buf);
    return true;
}

/* Wildcards in bits and peer; messages with equal bits come in the order in which they were sent. */
bool order_and_wildcards(const struct side *s)
{
    struct ethmx_result r;
    struct pending p;
    unsigned value;

    if (s->role == 0) {
        for (unsigned i = 0; i < 100; i++)
            CHECK(send_data(s, i % 3, flat(&i, sizeof(i))));
        return true;
    }
    for (unsigned i = 0; i < 100; i++) { /* any of the three tags, any peer */
        CHECK(start_recv_from(s, NULL, bits_of(s, 0), ~(uint64_t)3, flat(&value, sizeof(value)), &p, NULL));
        CHECK(await(s, &p.done));
        r = p.result;
        CHECK(r.status == ETHMX_OK && value == i && r.bits == bits_of(s, i % 3) && r.peer == s->peer);
    }
    return true;
}

/* Posted receives: the earliest that fits is taken, whether it has wildcards or not. */
bool order_of_posted(const struct side *s)
{
    unsigned value[4] = {0};
    struct pending p[4];

    if (s->role == 0) {
        CHECK(await_signal(s, 1000));
        for (unsigned i = 0; i < 4; i++)
            CHECK(send_data(s, 5, flat(&i, sizeof(i))));
        return true;
    }
    for (unsigned i = 0; i < 4; i++)
        CHECK(start_recv_from(s, i & 1 ? NULL : s->peer, bits_of(s, 5), i & 2 ? ~(uint64_t)0xff : FULL_MASK,
                              flat(&value[i], sizeof(value[i])), &p[i], NULL));
    CHECK(signal_other(s, 1000));
    for (unsigned i = 0; i < 4; i++) {
        CHECK(await(s, &p[i].done));
        CHECK(value[i] == i);
    }
    return true;
}

static bool await_probe(const struct side *s, unsigned tag, struct ethmx_message **msg_p, struct ethmx_result *r)
{
    struct timespec since;

    clock_gettime(CLOCK_MONOTONIC, &since);
    while ((msg_p ? ethmx_improbe(s->ep, s->peer, bits_of(s, tag), FULL_MASK, msg_p, r)
                  : ethmx_iprobe(s->ep, s->peer, bits_of(s, tag), FULL_MASK, r)) == ETHMX_ERR_NO_MATCH) {
        poll_some(s, 1);
        CHECK(!late(&since));
    }
    CHECK(r->bits == bits_of(s, tag) && r->peer == s->peer);
    return true;
}

static const size_t some_lengths[] = {0, 8, 5000, 31000, 100000, 1000000};

bool probe(const struct side *s)
{
    uint8_t *buf = malloc(1000000);
    struct ethmx_result r, again;

    for (unsigned i = 0; i < ARRAY_LEN(some_lengths); i++) {
        size_t len = some_lengths[i];

        if (s->role == 0) {
            fill(buf, len, i);
            CHECK(send_data(s, i, flat(buf, len)));
            continue;
        }
        CHECK(ethmx_iprobe(s->ep, s->peer, bits_of(s, 99), FULL_MASK, &r) == ETHMX_ERR_NO_MATCH);
        CHECK(await_probe(s, i, NULL, &r));
        CHECK(r.msg_bytes == len);
        CHECK(ethmx_iprobe(s->ep, NULL, bits_of(s, i), FULL_MASK, &again) == ETHMX_OK && again.msg_bytes == len);
        CHECK(recv_data(s, i, flat(buf, len), &r));
        CHECK(r.status == ETHMX_OK && is_filled(buf, len, i));
        CHECK(ethmx_iprobe(s->ep, s->peer, bits_of(s, i), FULL_MASK, &r) == ETHMX_ERR_NO_MATCH);
    }
    free(buf);
    return true;
}

bool matched_probe(const struct side *s)
{
    uint8_t *buf = malloc(1000000);
    struct ethmx_message *msg;
    struct ethmx_result r;
    struct pending p;
    int rc;

    for (unsigned i = 0; i < ARRAY_LEN(some_lengths); i++) {
        size_t len = some_lengths[i];
        struct ethmx_data data = flat(buf, len);

        if (s->role == 0) {
            fill(buf, len, i);
            CHECK(send_data(s, i, data));
            continue;
        }
        CHECK(await_probe(s, i, &msg, &r));
        CHECK(r.msg_bytes == len);
        CHECK(ethmx_iprobe(s->ep, s->peer, bits_of(s, i), FULL_MASK, &r) == ETHMX_ERR_NO_MATCH);
        p = (struct pending){.done = false};
        rc = ethmx_imrecv(s->ep, msg, &data, done, &p, &p.result);
        CHECK(rc == ETHMX_OK || (rc == ETHMX_INPROGRESS && await(s, &p.done)));
        CHECK(p.result.status == ETHMX_OK && p.result.len_bytes == len && p.result.bits == bits_of(s, i));
        CHECK(is_filled(buf, len, i));
    }
    free(buf);
    return true;
}

bool cancel(const struct side *s)
{
    struct ethmx_req *req = NULL;
    struct ethmx_result r;
    struct pending p;
    unsigned value = 0;

    if (s->role == 0) {
        CHECK(await_signal(s, 1000));
        value = 77;
        return send_data(s, 1, flat(&value, sizeof(value)));
    }
    CHECK(start_recv_from(s, s->peer, bits_of(s, 1), FULL_MASK, flat(&value, sizeof(value)), &p, &req));
    CHECK(!p.done && req);
    CHECK(ethmx_cancel(s->ep, req) == ETHMX_OK);
    CHECK(!p.done);
    CHECK(await(s, &p.done));
    CHECK(p.result.status == ETHMX_ERR_CANCELED && value == 0);
    CHECK(signal_other(s, 1000));
    CHECK(recv_data(s, 1, flat(&value, sizeof(value)), &r)); /* the cancelled one took nothing */
    CHECK(r.status == ETHMX_OK && value == 77);
    return true;
}

/* A large message that has matched cannot be cancelled: it completes. */
bool cancel_too_late(const struct side *s)
{
    uint8_t *buf = calloc(1, LARGE_BYTES);
    struct ethmx_req *req = NULL;
    struct ethmx_result r;
    struct pending p;

    if (s->role == 0) {
        fill(buf, LARGE_BYTES, 9);
        CHECK(send_data(s, 1, flat(buf, LARGE_BYTES)));
        free(buf);
        return true;
    }
    CHECK(await_probe(s, 1, NULL, &r));
    CHECK(start_recv_from(s, s->peer, bits_of(s, 1), FULL_MASK, flat(buf, LARGE_BYTES), &p, &req));
    CHECK(!p.done && req);
    CHECK(ethmx_cancel(s->ep, req) == ETHMX_ERR_NO_MATCH);
    CHECK(await(s, &p.done));
    CHECK(p.result.status == ETHMX_OK && is_filled(buf, LARGE_BYTES, 9));
    free(buf);
    return true;
}

/* Longer messages than the buffer: short, several frames, large; posted before and after they arrive. */
bool truncation(const struct side *s)
{
    static const struct {
        size_t msg, room;
        bool posted;
    } t[] = {
        {100, 10, true},        {100, 10, false},       {100, 0, true},        {20000, 19999, true},
        {20000, 5, false},      {500000, 100001, true}, {500000, 100, false},  {500000, 0, true},
        {1000000, 40000, true}, {8, 0, false},          {40000, 39999, false},
    };
    uint8_t *buf = malloc(1000001);
    struct pending p;

    for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
        if (s->role == 0) {
            fill(buf, t[i].msg, i);
            if (t[i].posted)
                CHECK(await_signal(s, 100 + i));
            CHECK(start_send(s, i, flat(buf, t[i].msg), ETHMX_SEND_STANDARD, &p));
            if (!t[i].posted)
                CHECK(signal_other(s, 100 + i));
            CHECK(await(s, &p.done));
            CHECK(p.result.status == ETHMX_OK);
            continue;
        }
        memset(buf, GUARD, t[i].room + 1);
        if (!t[i].posted)
            CHECK(await_signal(s, 100 + i));
        CHECK(start_recv(s, i, flat(buf, t[i].room), &p));
        if (t[i].posted)
            CHECK(signal_other(s, 100 + i));
        CHECK(await(s, &p.done));
        CHECK(p.result.status == ETHMX_ERR_TRUNCATED);
        CHECK(p.result.len_bytes == t[i].room && p.result.msg_bytes == t[i].msg);
        CHECK(is_filled(buf, t[i].room, i) && buf[t[i].room] == GUARD);
    }
    free(buf);
    return true;
}
