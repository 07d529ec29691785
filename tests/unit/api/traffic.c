/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scenarios: many messages, messages to ourselves, dropped ones, and what is known of them.
 */
#include "api/scenario.h"

bool many_unexpected(const struct side *s)
{
    enum { COUNT = 3000 };
    struct pending *p = calloc(COUNT, sizeof(*p));
    unsigned *value = calloc(COUNT, sizeof(*value));
    struct ethmx_result r;

    if (s->role == 0) {
        for (unsigned i = 0; i < COUNT; i++) {
            value[i] = i;
            CHECK(start_send(s, i, flat(&value[i], sizeof(*value)), ETHMX_SEND_STANDARD, &p[i]));
        }
        CHECK(signal_other(s, COUNT));
        for (unsigned i = 0; i < COUNT; i++)
            CHECK(await(s, &p[i].done) && p[i].result.status == ETHMX_OK);
    } else {
        CHECK(await_signal(s, COUNT));
        for (unsigned i = COUNT; i-- > 0;) {
            CHECK(recv_data(s, i, flat(&value[i], sizeof(*value)), &r));
            CHECK(r.status == ETHMX_OK && value[i] == i);
        }
    }
    free(value);
    free(p);
    return true;
}

bool to_ourselves(const struct side *s)
{
    static const size_t lengths[] = {0, 8, 5000, 31000, 100000, 1000000};
    struct side me = *s;
    uint8_t *in = malloc(1000000), *out = malloc(1000000);
    struct pending p[2];

    me.peer = s->self;
    for (unsigned i = 0; i < 2 * ARRAY_LEN(lengths); i++) {
        size_t len = lengths[i / 2];
        enum ethmx_send_mode mode = i % 3 ? ETHMX_SEND_STANDARD : ETHMX_SEND_SYNC;

        fill(out, len, i);
        memset(in, 0, len);
        if (i % 2)
            CHECK(start_recv(&me, i, flat(in, len), &p[0]));
        CHECK(start_send(&me, i, flat(out, len), mode, &p[1]));
        if (i % 2 == 0)
            CHECK(start_recv(&me, i, flat(in, len), &p[0]));
        CHECK(await(&me, &p[0].done) && await(&me, &p[1].done));
        CHECK(p[0].result.status == ETHMX_OK && p[0].result.peer == me.self && is_filled(in, len, i));
    }
    free(out);
    free(in);
    return true;
}

/* Messages of a freed communicator go away, and their senders complete. */
bool flush_unexpected(const struct side *s)
{
    uint8_t *buf = calloc(1, 500000);
    struct ethmx_result r;
    struct pending p[3];

    if (s->role == 0) {
        CHECK(start_send(s, 1, flat(buf, 8), ETHMX_SEND_STANDARD, &p[0]));
        CHECK(start_send(s, 2, flat(buf, 20000), ETHMX_SEND_STANDARD, &p[1]));
        CHECK(start_send(s, 3, flat(buf, 500000), ETHMX_SEND_STANDARD, &p[2]));
        CHECK(signal_other(s, 1000));
        for (unsigned i = 0; i < 3; i++)
            CHECK(await(s, &p[i].done) && p[i].result.status == ETHMX_OK);
    } else {
        CHECK(await_signal(s, 1000));
        CHECK(ethmx_flush_unexpected(s->ep, bits_of(s, 0), ~(uint64_t)3) == 3);
        CHECK(ethmx_iprobe(s->ep, NULL, bits_of(s, 0), ~(uint64_t)3, &r) == ETHMX_ERR_NO_MATCH);
    }
    free(buf);
    return true;
}

bool what_is_known(const struct side *s)
{
    struct ethmx_peer_info info = {.struct_bytes = sizeof(info)};
    uint64_t sent = counter(s->ep, "msgs_sent"), received = counter(s->ep, "msgs_received");
    uint8_t buf[100] = {0};
    struct ethmx_result r;

    ethmx_peer_query(s->ep, s->peer, &info);
    CHECK(!strcmp(info.state, "connected"));
    CHECK(*info.host && *info.wire && info.frame_bytes >= 256);
    CHECK(*info.interface || !strcmp(info.wire, "shm"));
    CHECK(info.memory_bytes > 0);
    CHECK(ethmx_peer_user(s->peer) == s);
    if (s->role == 0)
        CHECK(send_data(s, 1, flat(buf, sizeof(buf))));
    else
        CHECK(recv_data(s, 1, flat(buf, sizeof(buf)), &r));
    CHECK(counter(s->ep, "msgs_sent") == sent + (s->role == 0));
    CHECK(counter(s->ep, "msgs_received") == received + (s->role == 1));
    CHECK(counter(s->ep, "frames_sent") > 0 && counter(s->ep, "frames_received") > 0);
    CHECK(ethmx_counter_read(s->ep, UINT32_MAX) == 0);
    return true;
}

/* A callback may start operations; progress within it is harmless. */
struct chain {
    const struct side *s;
    _Atomic bool done;
    unsigned left;
    unsigned value;
    bool bad;
};

static void chain_next(void *arg, const struct ethmx_result *result);

static void chain_post(struct chain *c)
{
    struct ethmx_data data = flat(&c->value, sizeof(c->value));
    struct ethmx_result r;
    int rc;

    while ((rc = ethmx_irecv(c->s->ep, c->s->peer, bits_of(c->s, 1), FULL_MASK, &data, chain_next, c, NULL, &r)) ==
               ETHMX_OK &&
           --c->left)
        ;
    c->bad |= rc < 0;
    if (!c->left || c->bad)
        atomic_store(&c->done, true);
}

static void chain_next(void *arg, const struct ethmx_result *result)
{
    struct chain *c = arg;

    c->bad |= result->status != ETHMX_OK;
    ethmx_progress(c->s->ep);
    if (--c->left)
        chain_post(c);
    else
        atomic_store(&c->done, true);
}

bool callbacks_start_operations(const struct side *s)
{
    struct chain c = {.s = s, .left = 200};

    if (s->role == 0) {
        for (unsigned i = 0; i < c.left; i++)
            CHECK(send_data(s, 1, flat(&i, sizeof(i))));
        return true;
    }
    chain_post(&c);
    CHECK(await(s, &c.done));
    CHECK(!c.bad && c.left == 0 && c.value == 199);
    return true;
}
