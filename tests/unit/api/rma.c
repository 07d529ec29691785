/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scenarios: one-sided operations.
 */
#include "api/scenario.h"

#include <stdlib.h>

#include "ethmx_rma.h"

/* What each role exposes, and what the other's is called. */
struct rma_window {
    uint8_t *mem;
    size_t len_bytes;
    struct ethmx_region *region;
    struct ethmx_rma_target to;
};

static bool rma_open(const struct side *s, struct rma_window *w, size_t len_bytes)
{
    struct pending p[2];
    uint64_t key;

    *w = (struct rma_window){.mem = calloc(1, len_bytes), .len_bytes = len_bytes, .to = {.peer = s->peer}};
    CHECK(w->mem);
    CHECK(ethmx_rma_expose(s->ep, w->mem, len_bytes, &w->region, &key) == ETHMX_OK);
    CHECK(start_recv(s, 100, flat(&w->to.key, sizeof(key)), &p[0]));
    CHECK(start_send(s, 100, flat(&key, sizeof(key)), ETHMX_SEND_STANDARD, &p[1]));
    CHECK(await(s, &p[0].done) && await(s, &p[1].done));
    CHECK(w->to.key && w->to.key != key);
    return true;
}

static bool rma_meet(const struct side *s, unsigned tag)
{
    if (s->role == 0)
        return signal_other(s, tag) && await_signal(s, tag + 1);
    return await_signal(s, tag) && signal_other(s, tag + 1);
}

static bool rma_close(const struct side *s, struct rma_window *w)
{
    CHECK(rma_meet(s, 102));
    CHECK(ethmx_rma_withdraw(s->ep, w->region) == ETHMX_OK);
    free(w->mem);
    return true;
}

/* The end of an operation, from what its call returned. */
static int rma_status(const struct side *s, int rc, struct pending *p)
{
    if (rc != ETHMX_INPROGRESS)
        return rc;
    return await(s, &p->done) ? p->result.status : ETHMX_INPROGRESS;
}

static int rma_flush(const struct side *s, bool all)
{
    struct pending p = {.done = false};

    return rma_status(s, ethmx_rma_flush(s->ep, all ? NULL : s->peer, done, &p), &p);
}

static int rma_put(const struct side *s, const struct ethmx_rma_target *to, struct ethmx_data data,
                   enum ethmx_rma_mode mode)
{
    struct pending p = {.done = false};

    return rma_status(s, ethmx_rma_put(s->ep, to, &data, mode, done, &p), &p);
}

static int rma_get(const struct side *s, const struct ethmx_rma_target *from, struct ethmx_data data)
{
    struct pending p = {.done = false};

    return rma_status(s, ethmx_rma_get(s->ep, from, &data, done, &p), &p);
}

static int rma_add(const struct side *s, const struct ethmx_rma_target *to, int64_t n, int64_t *old_p)
{
    struct pending p = {.done = false};
    struct ethmx_data old = flat(old_p, sizeof(*old_p));

    return rma_status(s, ethmx_rma_fetch(s->ep, to, ETHMX_RMA_SUM, ETHMX_RMA_INT64, &n, &old, done, &p), &p);
}

/* Put, get back, and compare; the other role does the same in the other direction. */
bool rma_lengths(const struct side *s)
{
    static const size_t lengths[] = {0, 1, 8, 1000, 1408, 1409, 9000, 65536, 65537, LARGE_BYTES};
    uint8_t *out = malloc(LARGE_BYTES), *in = malloc(LARGE_BYTES);
    struct rma_window w;

    CHECK(rma_open(s, &w, LARGE_BYTES + 3));
    for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
        size_t n = lengths[i];

        w.to.offset = i % 4;
        fill(out, n, i);
        memset(in, 0, n);
        CHECK(rma_put(s, &w.to, flat(out, n), i % 2 ? ETHMX_RMA_LOCAL : ETHMX_RMA_REMOTE) == ETHMX_OK);
        CHECK(rma_flush(s, i % 3 == 0) == ETHMX_OK);
        CHECK(rma_get(s, &w.to, flat(in, n)) == ETHMX_OK);
        CHECK(is_filled(in, n, i));
    }
    CHECK(rma_meet(s, 1));
    CHECK(is_filled(w.mem + (ARRAY_LEN(lengths) - 1) % 4, LARGE_BYTES, ARRAY_LEN(lengths) - 1));
    free(in);
    free(out);
    return rma_close(s, &w);
}

/* Frames that wait for more leave with the last operation, or in progress. */
bool rma_batches(const struct side *s)
{
    enum { PUTS = 300 };
    struct pending p[PUTS];
    struct rma_window w;
    uint64_t out[PUTS], got[PUTS];

    CHECK(rma_open(s, &w, sizeof(out)));
    for (unsigned round = 0; round < 4; round++) {
        int status[PUTS];

        for (unsigned i = 0; i < PUTS; i++) {
            struct ethmx_rma_target to = w.to;
            bool more = i + 1 < PUTS || round % 2;

            to.offset += i * sizeof(out[0]);
            out[i] = i + 1000 * round;
            p[i] = (struct pending){.done = false};
            status[i] = ethmx_rma_put(s->ep, &to, &(struct ethmx_data){.base = out + i, .len_bytes = sizeof(out[0])},
                                      ETHMX_RMA_LOCAL | (more ? ETHMX_RMA_MORE : 0), done, &p[i]);
        }
        for (unsigned i = 0; i < PUTS; i++)
            CHECK(rma_status(s, status[i], &p[i]) == ETHMX_OK);
        CHECK(rma_flush(s, false) == ETHMX_OK);
        CHECK(rma_get(s, &w.to, flat(got, sizeof(got))) == ETHMX_OK);
        CHECK(!memcmp(got, out, sizeof(out)));
    }
    return rma_close(s, &w);
}

/* Both roles change the memory of role 0. */
bool rma_atomics(const struct side *s)
{
    enum { ADDS = 500 };
    struct pending p[8];
    struct rma_window w;
    struct ethmx_rma_target to;
    int64_t old, last = -1, one = 1, mine = 7 + s->role, expected = 0;
    struct ethmx_data data = flat(&one, sizeof(one));
    uint64_t key;

    CHECK(rma_open(s, &w, 64));
    to = w.to;
    if (s->role == 0) { /* its own memory, too, by its own key */
        CHECK(ethmx_rma_withdraw(s->ep, w.region) == ETHMX_OK);
        CHECK(ethmx_rma_expose(s->ep, w.mem, 64, &w.region, &key) == ETHMX_OK);
        to = (struct ethmx_rma_target){.peer = s->self, .key = key};
        CHECK(send_data(s, 3, flat(&key, sizeof(key))));
    } else {
        struct ethmx_result r;

        CHECK(recv_data(s, 3, flat(&to.key, sizeof(key)), &r));
    }
    for (unsigned i = 0; i < ADDS; i++) {
        CHECK(rma_add(s, &to, 1, &old) == ETHMX_OK);
        CHECK(old > last);
        last = old;
    }
    for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
        int rc = ethmx_rma_accumulate(s->ep, &to, ETHMX_RMA_SUM, ETHMX_RMA_INT64, &data, ETHMX_RMA_LOCAL, done, &p[i]);

        p[i].done = rc == ETHMX_OK;
        CHECK(rc == ETHMX_OK || rc == ETHMX_INPROGRESS);
    }
    for (unsigned i = 0; i < ARRAY_LEN(p); i++)
        CHECK(await(s, &p[i].done));
    CHECK(rma_flush(s, true) == ETHMX_OK);
    CHECK(rma_meet(s, 1));
    CHECK(rma_add(s, &to, 0, &old) == ETHMX_OK);
    CHECK(old == 2 * (ADDS + (int64_t)ARRAY_LEN(p)));
    /* One of them sets it. */
    to.offset = 8;
    p[0] = (struct pending){.done = false};
    CHECK(rma_status(s, ethmx_rma_compare_and_swap(s->ep, &to, ETHMX_RMA_INT64, &expected, &mine, &old, done, &p[0]),
                     &p[0]) == ETHMX_OK);
    CHECK(old == 0 || old == 8 - s->role);
    CHECK(rma_meet(s, 5));
    mine = old ? old : mine;
    CHECK(rma_add(s, &to, 0, &old) == ETHMX_OK);
    CHECK(old == mine);
    return rma_close(s, &w);
}

bool rma_refused(const struct side *s)
{
    struct rma_window w;
    struct ethmx_rma_target wrong;
    uint8_t buf[100];
    int64_t old;

    CHECK(rma_open(s, &w, 100));
    fill(buf, sizeof(buf), 3);
    wrong = w.to;
    wrong.key++;
    CHECK(rma_put(s, &wrong, flat(buf, 8), ETHMX_RMA_REMOTE) == ETHMX_ERR_ACCESS);
    CHECK(rma_get(s, &wrong, flat(buf, 8)) == ETHMX_ERR_ACCESS);
    CHECK(rma_add(s, &wrong, 1, &old) == ETHMX_ERR_ACCESS);
    wrong.peer = s->self;
    CHECK(rma_put(s, &wrong, flat(buf, 8), ETHMX_RMA_REMOTE) == ETHMX_ERR_ACCESS);
    wrong = w.to;
    wrong.offset = 1;
    CHECK(rma_put(s, &wrong, flat(buf, 100), ETHMX_RMA_LOCAL) == ETHMX_OK);
    CHECK(rma_flush(s, false) == ETHMX_ERR_ACCESS);
    CHECK(rma_flush(s, false) == ETHMX_OK);
    CHECK(rma_flush(s, true) == ETHMX_ERR_ACCESS);
    CHECK(rma_flush(s, true) == ETHMX_OK);
    CHECK(rma_put(s, &w.to, flat(buf, 100), ETHMX_RMA_REMOTE) == ETHMX_OK);
    CHECK(rma_meet(s, 1));
    CHECK(is_filled(w.mem, 100, 3));
    CHECK(ethmx_rma_withdraw(s->ep, w.region) == ETHMX_OK);
    CHECK(rma_meet(s, 3));
    CHECK(rma_get(s, &w.to, flat(buf, 8)) == ETHMX_ERR_ACCESS);
    CHECK(rma_meet(s, 5));
    free(w.mem);
    return true;
}

/* What a region does not permit is refused, by the peer and by the endpoint itself. */
bool rma_access(const struct side *s)
{
    struct ethmx_rma_target to[] = {{.peer = s->peer, .key = 77}, {.peer = s->self, .key = 77}};
    struct ethmx_region *region;
    uint8_t mem[16] = {0}, buf[8] = {1};
    int64_t old;

    CHECK(ethmx_rma_expose_for(s->ep, mem, sizeof(mem), 77, ETHMX_RMA_MAY_READ, &region) == ETHMX_OK);
    CHECK(rma_meet(s, 1));
    for (unsigned i = 0; i < ARRAY_LEN(to); i++) {
        CHECK(rma_put(s, &to[i], flat(buf, 8), ETHMX_RMA_REMOTE) == ETHMX_ERR_ACCESS);
        CHECK(rma_add(s, &to[i], 1, &old) == ETHMX_ERR_ACCESS);
        CHECK(rma_get(s, &to[i], flat(buf, 8)) == ETHMX_OK && buf[0] == 0);
    }
    CHECK(rma_meet(s, 3));
    CHECK(ethmx_rma_withdraw(s->ep, region) == ETHMX_OK);
    CHECK(ethmx_rma_expose_for(s->ep, mem, sizeof(mem), 77, ETHMX_RMA_MAY_WRITE, &region) == ETHMX_OK);
    CHECK(rma_meet(s, 5));
    for (unsigned i = 0; i < ARRAY_LEN(to); i++) {
        CHECK(rma_get(s, &to[i], flat(buf, 8)) == ETHMX_ERR_ACCESS);
        CHECK(rma_add(s, &to[i], 1, &old) == ETHMX_ERR_ACCESS);
        CHECK(rma_put(s, &to[i], flat(buf, 8), ETHMX_RMA_REMOTE) == ETHMX_OK);
    }
    CHECK(rma_meet(s, 7));
    return ethmx_rma_withdraw(s->ep, region) == ETHMX_OK;
}

/* The target makes no call while it is used. */
bool rma_absent(const struct side *s)
{
    uint8_t *buf = malloc(LARGE_BYTES);
    struct rma_window w;
    int64_t old;

    CHECK(rma_open(s, &w, LARGE_BYTES + 8));
    if (s->role == 0) {
        CHECK(hear_progressing(s));
        for (int64_t i = 0; i < 50; i++)
            CHECK(rma_add(s, &w.to, 1, &old) == ETHMX_OK && old == i);
        w.to.offset = 8;
        fill(buf, LARGE_BYTES, 1);
        CHECK(rma_put(s, &w.to, flat(buf, LARGE_BYTES), ETHMX_RMA_REMOTE) == ETHMX_OK);
        memset(buf, 0, LARGE_BYTES);
        CHECK(rma_get(s, &w.to, flat(buf, LARGE_BYTES)) == ETHMX_OK);
        CHECK(is_filled(buf, LARGE_BYTES, 1));
        CHECK(tell(s));
    } else {
        CHECK(tell(s));
        CHECK(hear(s)); /* no progress meanwhile */
        poll_some(s, 1);
        CHECK(is_filled(w.mem + 8, LARGE_BYTES, 1));
    }
    free(buf);
    return rma_close(s, &w);
}

/* Memory of the library: it may become mapped at any time, and nothing changes by that but the way. */
bool rma_allocated(const struct side *s)
{
    uint8_t *out = malloc(LARGE_BYTES), *in = malloc(LARGE_BYTES);
    struct rma_window w = {.to = {.peer = s->peer}};
    struct ethmx_result r;
    void *base;
    uint64_t key;
    int64_t old;

    CHECK(ethmx_rma_allocate(s->ep, LARGE_BYTES + 16, &base, &w.region, &key) == ETHMX_OK);
    CHECK(s->role ? send_data(s, 90, flat(&key, sizeof(key))) : recv_data(s, 90, flat(&w.to.key, sizeof(key)), &r));
    CHECK(s->role ? recv_data(s, 91, flat(&w.to.key, sizeof(key)), &r) : send_data(s, 91, flat(&key, sizeof(key))));
    for (unsigned i = 0; i < 200; i++) {
        size_t n = i % 20 ? i * 7 : LARGE_BYTES;

        fill(out, n, i);
        w.to.offset = 16;
        CHECK(rma_put(s, &w.to, flat(out, n), i % 2 ? ETHMX_RMA_LOCAL : ETHMX_RMA_REMOTE) == ETHMX_OK);
        CHECK(rma_flush(s, i % 3 == 0) == ETHMX_OK);
        CHECK(rma_get(s, &w.to, flat(in, n)) == ETHMX_OK);
        CHECK(is_filled(in, n, i));
        w.to.offset = 0;
        CHECK(rma_add(s, &w.to, 1, &old) == ETHMX_OK && old == i);
        poll_some(s, 1);
    }
    CHECK(rma_meet(s, 1));
    CHECK(*(int64_t *)base == 200);
    free(in);
    free(out);
    CHECK(rma_meet(s, 102));
    return ethmx_rma_withdraw(s->ep, w.region) == ETHMX_OK;
}

/* A key that both roles know without a message. */
bool rma_chosen_key(const struct side *s)
{
    uint8_t mem[64] = {0}, got[8] = {0}, want[8];
    struct ethmx_region *region, *second;
    struct ethmx_rma_target to = {.peer = s->peer, .key = 5, .offset = 8};
    struct ethmx_data data = flat(got, sizeof(got));
    struct pending p = {.done = false};

    fill(want, sizeof(want), 1 - (unsigned)s->role);
    fill(mem + 8, 8, (unsigned)s->role);
    CHECK(ethmx_rma_expose_as(s->ep, mem, sizeof(mem), 0, &region) == ETHMX_ERR_PARAM);
    CHECK(ethmx_rma_expose_as(s->ep, mem, sizeof(mem), 5, &region) == ETHMX_OK);
    CHECK(ethmx_rma_expose_as(s->ep, mem, sizeof(mem), 5, &second) == ETHMX_ERR_PARAM);
    CHECK(rma_meet(s, 1));
    CHECK(rma_status(s, ethmx_rma_get(s->ep, &to, &data, done, &p), &p) == ETHMX_OK);
    CHECK(!memcmp(got, want, sizeof(want)));
    CHECK(rma_meet(s, 3));
    return ethmx_rma_withdraw(s->ep, region) == ETHMX_OK;
}
