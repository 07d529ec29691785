/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The public interface from end to end: two endpoints, each with its role in every scenario, over real wires. They are
 * two threads of one process, then two processes; with EMX_TEST_PEER_NETNS, the second process lives in that network
 * namespace, on another "host". Which wire: ETHMX_* variables; without them udp on loopback, which needs no privileges.
 *
 * A scenario is one function that both roles run. They meet through messages, or through a pair of sockets (tell,
 * hear) where the wire must not help.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ethmx.h"

#define HANG_S       120 /* whatever waits longer will wait for ever */
#define IDLE_POLLS   100 /* then the processor goes to the other role */
#define FULL_MASK    UINT64_MAX
#define LARGE_BYTES  (3u << 20)
#define GUARD        0x5a
#define WORKERS      4
#define WORKER_TURNS 300

/* One role's view. */
struct side {
    struct ethmx_ep *ep;
    struct ethmx_peer *peer;
    struct ethmx_peer *self;
    int role;
    int fd; /* to the other role, beside the wire */
    unsigned scenario;
};

/* An operation under way. */
struct pending {
    _Atomic bool done;
    struct ethmx_result result;
};

static bool late(const struct timespec *since)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - since->tv_sec > HANG_S;
}

static void done(void *arg, const struct ethmx_result *result)
{
    struct pending *p = arg;

    p->result = *result;
    atomic_store(&p->done, true);
}

/* Progress until *flag. False: it never comes. */
static bool await(const struct side *s, const _Atomic bool *flag)
{
    struct timespec since;
    unsigned idle = 0;

    clock_gettime(CLOCK_MONOTONIC, &since);
    while (!atomic_load(flag)) {
        if (ethmx_progress(s->ep)) {
            idle = 0;
        } else if (++idle >= IDLE_POLLS) {
            ethmx_wait(s->ep, 1000000);
            CHECK(!late(&since));
        }
    }
    return true;
}

static void poll_some(const struct side *s, unsigned n)
{
    while (n--) {
        if (!ethmx_progress(s->ep))
            sched_yield();
    }
}

static uint64_t bits_of(const struct side *s, unsigned tag)
{
    return (uint64_t)s->scenario << 32 | tag;
}

static struct ethmx_data flat(void *base, size_t len_bytes)
{
    return (struct ethmx_data){.base = base, .len_bytes = len_bytes};
}

static uint8_t pattern(unsigned seed, size_t i)
{
    return (uint8_t)(seed * 37 + i * 7 + (i >> 8) * 3);
}

static void fill(uint8_t *buf, size_t len_bytes, unsigned seed)
{
    for (size_t i = 0; i < len_bytes; i++)
        buf[i] = pattern(seed, i);
}

static bool is_filled(const uint8_t *buf, size_t len_bytes, unsigned seed)
{
    for (size_t i = 0; i < len_bytes; i++)
        CHECK(buf[i] == pattern(seed, i));
    return true;
}

/* ---- Operations to their end ---- */

static bool start_send(const struct side *s, unsigned tag, struct ethmx_data data, enum ethmx_send_mode mode,
                       struct pending *p)
{
    int rc;

    *p = (struct pending){.done = false};
    rc = ethmx_isend(s->ep, s->peer, bits_of(s, tag), &data, mode, done, p);
    CHECK(rc == ETHMX_OK || rc == ETHMX_INPROGRESS);
    if (rc == ETHMX_OK)
        atomic_store(&p->done, true);
    return true;
}

static bool start_recv_from(const struct side *s, struct ethmx_peer *peer, uint64_t bits, uint64_t mask,
                            struct ethmx_data data, struct pending *p, struct ethmx_req **req_p)
{
    int rc;

    *p = (struct pending){.done = false};
    rc = ethmx_irecv(s->ep, peer, bits, mask, &data, done, p, req_p, &p->result);
    CHECK(rc == ETHMX_OK || rc == ETHMX_INPROGRESS);
    if (rc == ETHMX_OK)
        atomic_store(&p->done, true);
    return true;
}

static bool start_recv(const struct side *s, unsigned tag, struct ethmx_data data, struct pending *p)
{
    return start_recv_from(s, s->peer, bits_of(s, tag), FULL_MASK, data, p, NULL);
}

static bool send_data(const struct side *s, unsigned tag, struct ethmx_data data)
{
    struct pending p;

    CHECK(start_send(s, tag, data, ETHMX_SEND_STANDARD, &p));
    CHECK(await(s, &p.done));
    CHECK(p.result.status == ETHMX_OK);
    return true;
}

static bool recv_data(const struct side *s, unsigned tag, struct ethmx_data data, struct ethmx_result *result_p)
{
    struct pending p;

    CHECK(start_recv(s, tag, data, &p));
    CHECK(await(s, &p.done));
    *result_p = p.result;
    return true;
}

/* A message of zero bytes, as a signal. */
static bool signal_other(const struct side *s, unsigned tag)
{
    return send_data(s, tag, flat(NULL, 0));
}

static bool await_signal(const struct side *s, unsigned tag)
{
    struct ethmx_result r;

    CHECK(recv_data(s, tag, flat(NULL, 0), &r));
    CHECK(r.status == ETHMX_OK && r.msg_bytes == 0);
    return true;
}

/* Beside the wire, without progress. */
static bool tell(const struct side *s)
{
    return write(s->fd, "x", 1) == 1;
}

static bool hear(const struct side *s)
{
    struct pollfd fd = {.fd = s->fd, .events = POLLIN};
    char c;

    CHECK(poll(&fd, 1, HANG_S * 1000) == 1);
    return read(s->fd, &c, 1) == 1;
}

/* As hear(), with progress meanwhile. */
static bool hear_progressing(const struct side *s)
{
    struct pollfd fd = {.fd = s->fd, .events = POLLIN};
    struct timespec since;

    clock_gettime(CLOCK_MONOTONIC, &since);
    while (!poll(&fd, 1, 0)) {
        poll_some(s, 10);
        CHECK(!late(&since));
    }
    return hear(s);
}

/* ---- Scenarios: tagged messages ---- */

static bool ping_pong(const struct side *s)
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

/* Around the limits of frames, blocks and classes. */
static const size_t lengths[] = {0,     1,     7,     8,     255,   1383,   1384,   1385,    1416,
                                 1440,  1444,  1472,  1500,  4096,  8900,   9000,   20000,   32767,
                                 32768, 32769, 65535, 65536, 65537, 100001, 262144, 1000003, LARGE_BYTES};

static bool send_lengths(const struct side *s, uint8_t *buf)
{
    for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
        fill(buf, lengths[i], i);
        CHECK(send_data(s, i, flat(buf, lengths[i])));
    }
    return true;
}

static bool check_received(const struct side *s, const struct ethmx_result *r, const uint8_t *buf, unsigned i)
{
    CHECK(r->status == ETHMX_OK && r->bits == bits_of(s, i));
    CHECK(r->len_bytes == lengths[i] && r->msg_bytes == lengths[i]);
    CHECK(is_filled(buf, lengths[i], i));
    CHECK(buf[lengths[i]] == GUARD);
    return true;
}

static bool posted_lengths(const struct side *s)
{
    static __thread struct pending p[ARRAY_LEN(lengths)];
    uint8_t *buf[ARRAY_LEN(lengths)];

    if (s->role == 0) {
        buf[0] = malloc(LARGE_BYTES);
        CHECK(await_signal(s, 1000));
        CHECK(send_lengths(s, buf[0]));
        free(buf[0]);
        return true;
    }
    for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
        buf[i] = malloc(lengths[i] + 1);
        memset(buf[i], GUARD, lengths[i] + 1);
        CHECK(start_recv(s, i, flat(buf[i], lengths[i]), &p[i]));
    }
    CHECK(signal_other(s, 1000));
    for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
        CHECK(await(s, &p[i].done));
        CHECK(check_received(s, &p[i].result, buf[i], i));
        free(buf[i]);
    }
    return true;
}

/* All are sent before any is received, and received in reverse. */
static bool unexpected_lengths(const struct side *s)
{
    static __thread struct pending p[ARRAY_LEN(lengths)];
    struct ethmx_result r;
    uint8_t *buf;

    if (s->role == 0) {
        uint8_t *each[ARRAY_LEN(lengths)];

        for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
            each[i] = malloc(lengths[i] + 1);
            fill(each[i], lengths[i], i);
            CHECK(start_send(s, i, flat(each[i], lengths[i]), ETHMX_SEND_STANDARD, &p[i]));
        }
        CHECK(signal_other(s, 1000));
        for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
            CHECK(await(s, &p[i].done));
            CHECK(p[i].result.status == ETHMX_OK);
            free(each[i]);
        }
        return true;
    }
    buf = malloc(LARGE_BYTES + 1);
    CHECK(await_signal(s, 1000));
    for (unsigned i = ARRAY_LEN(lengths); i-- > 0;) {
        memset(buf, GUARD, lengths[i] + 1);
        CHECK(recv_data(s, i, flat(buf, lengths[i]), &r));
        CHECK(check_received(s, &r, buf, i));
    }
    free(buf);
    return true;
}

static bool both_send_large(const struct side *s)
{
    uint8_t *out = malloc(LARGE_BYTES), *in = malloc(LARGE_BYTES);
    struct pending p[2];

    fill(out, LARGE_BYTES, (unsigned)s->role);
    CHECK(start_recv(s, 1, flat(in, LARGE_BYTES), &p[0]));
    CHECK(start_send(s, 1, flat(out, LARGE_BYTES), ETHMX_SEND_STANDARD, &p[1]));
    CHECK(await(s, &p[0].done) && await(s, &p[1].done));
    CHECK(p[0].result.status == ETHMX_OK && p[1].result.status == ETHMX_OK);
    CHECK(is_filled(in, LARGE_BYTES, (unsigned)!s->role));
    free(in);
    free(out);
    return true;
}

/* A synchronous send is not complete before it is matched. */
static bool synchronous(const struct side *s)
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
static bool order_and_wildcards(const struct side *s)
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
static bool order_of_posted(const struct side *s)
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

static bool probe(const struct side *s)
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

static bool matched_probe(const struct side *s)
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

static bool cancel(const struct side *s)
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
static bool cancel_too_late(const struct side *s)
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
static bool truncation(const struct side *s)
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

/* ---- Scenarios: data that is not contiguous ---- */

/* Cuts buf into uneven pieces with gaps of one byte between them. */
static size_t cut(uint8_t *buf, size_t len_bytes, struct ethmx_iov *iov, size_t room, unsigned seed)
{
    size_t n = 0, at = 0;

    while (len_bytes) {
        size_t piece = n + 1 == room ? len_bytes : (size_t)(seed * 131 + n * 977) % 3001;

        if (piece > len_bytes)
            piece = len_bytes;
        iov[n++] = (struct ethmx_iov){.base = buf + at, .len_bytes = piece};
        at += piece + 1;
        len_bytes -= piece;
    }
    return n;
}

static void fill_pieces(const struct ethmx_iov *iov, size_t n, unsigned seed)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < iov[i].len_bytes; j++)
            ((uint8_t *)iov[i].base)[j] = pattern(seed, at++);
    }
}

static bool are_pieces_filled(const struct ethmx_iov *iov, size_t n, unsigned seed)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < iov[i].len_bytes; j++)
            CHECK(((uint8_t *)iov[i].base)[j] == pattern(seed, at++));
        CHECK(((uint8_t *)iov[i].base)[iov[i].len_bytes] == GUARD);
    }
    return true;
}

#define PIECES 400

static bool pieces(const struct side *s)
{
    static const size_t len[] = {0, 10, 1500, 30000, 70000, 400000};
    struct ethmx_iov *iov = calloc(PIECES, sizeof(*iov));
    uint8_t *buf = malloc(400000 + PIECES + 1);
    struct ethmx_result r;

    for (unsigned i = 0; i < ARRAY_LEN(len); i++) {
        struct ethmx_data data = {.len_bytes = len[i], .iov = iov};

        memset(buf, GUARD, len[i] + PIECES + 1);
        data.iov_count = cut(buf, len[i], iov, PIECES, i + 10 * (unsigned)s->role); /* each side its own pieces */
        if (s->role == 0) {
            fill_pieces(iov, data.iov_count, i);
            CHECK(send_data(s, i, data));
        } else {
            CHECK(recv_data(s, i, data, &r));
            CHECK(r.status == ETHMX_OK && r.len_bytes == len[i]);
            CHECK(are_pieces_filled(iov, data.iov_count, i));
        }
    }
    free(buf);
    free(iov);
    return true;
}

/* Data behind functions: every byte comes once at the receiver. */
struct behind {
    uint8_t *buf;
    uint8_t *count; /* receives: how often each byte came */
    unsigned seed;
};

static void pack(void *arg, size_t offset, void *buf, size_t len_bytes)
{
    const struct behind *b = arg;

    for (size_t i = 0; i < len_bytes; i++)
        ((uint8_t *)buf)[i] = pattern(b->seed, offset + i);
}

static void unpack(void *arg, size_t offset, void *buf, size_t len_bytes)
{
    struct behind *b = arg;

    memcpy(b->buf + offset, buf, len_bytes);
    for (size_t i = 0; i < len_bytes; i++)
        b->count[offset + i]++;
}

static bool functions(const struct side *s)
{
    static const struct {
        size_t msg, room;
    } t[] = {{0, 0}, {10, 10}, {3000, 3000}, {30000, 30000}, {200000, 200000}, {1000000, 1000000}, {200000, 12345}};
    struct behind b = {.buf = malloc(1000000), .count = malloc(1000000)};
    struct ethmx_result r;

    for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
        struct ethmx_data data = {.copy_arg = &b};

        b.seed = i;
        if (s->role == 0) {
            data.copy = pack;
            data.len_bytes = t[i].msg;
            CHECK(send_data(s, i, data));
            continue;
        }
        data.copy = unpack;
        data.len_bytes = t[i].room;
        memset(b.count, 0, 1000000);
        CHECK(recv_data(s, i, data, &r));
        CHECK(r.status == (t[i].room < t[i].msg ? ETHMX_ERR_TRUNCATED : ETHMX_OK));
        CHECK(is_filled(b.buf, t[i].room, i));
        for (size_t j = 0; j < t[i].room; j++)
            CHECK(b.count[j] == 1);
    }
    free(b.buf);
    free(b.count);
    return true;
}

/* ---- Scenarios: many messages, ourselves, housekeeping ---- */

static bool many_unexpected(const struct side *s)
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

static bool to_ourselves(const struct side *s)
{
    struct side me = *s;
    uint8_t *in = malloc(1000000), *out = malloc(1000000);
    struct pending p[2];

    me.peer = s->self;
    for (unsigned i = 0; i < 2 * ARRAY_LEN(some_lengths); i++) {
        size_t len = some_lengths[i / 2];
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
static bool flush_unexpected(const struct side *s)
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

static uint64_t counter(const struct side *s, const char *name)
{
    for (unsigned i = 0; ethmx_counter(i); i++) {
        if (!strcmp(ethmx_counter(i)->name, name))
            return ethmx_counter_read(s->ep, i);
    }
    return UINT64_MAX;
}

static bool what_is_known(const struct side *s)
{
    struct ethmx_peer_info info;
    uint64_t sent = counter(s, "msgs_sent"), received = counter(s, "msgs_received");
    uint8_t buf[100] = {0};
    struct ethmx_result r;

    ethmx_peer_query(s->ep, s->peer, &info);
    CHECK(!strcmp(info.state, "connected"));
    CHECK(*info.host && *info.wire && *info.interface && info.frame_bytes >= 256);
    CHECK(info.memory_bytes > 0);
    CHECK(ethmx_peer_user(s->peer) == s);
    if (s->role == 0)
        CHECK(send_data(s, 1, flat(buf, sizeof(buf))));
    else
        CHECK(recv_data(s, 1, flat(buf, sizeof(buf)), &r));
    CHECK(counter(s, "msgs_sent") == sent + (s->role == 0));
    CHECK(counter(s, "msgs_received") == received + (s->role == 1));
    CHECK(counter(s, "frames_sent") > 0 && counter(s, "frames_received") > 0);
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

static bool callbacks_start_operations(const struct side *s)
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

/* ---- Scenarios: active messages ---- */

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

static bool am_lengths(const struct side *s)
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
static bool am_kept(const struct side *s)
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
static bool am_before_handler(const struct side *s)
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

static bool am_handlers_answer(const struct side *s)
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

static bool am_limits(const struct side *s)
{
    struct ethmx_data none = flat(NULL, 0);
    uint8_t head[ETHMX_AM_HEADER_MAX + 1] = {0};

    CHECK(ethmx_am_handler(s->ep, ETHMX_AM_HANDLERS, am_keep, NULL) == ETHMX_ERR_PARAM);
    CHECK(ethmx_am_send(s->ep, s->peer, ETHMX_AM_HANDLERS, NULL, 0, &none, NULL, NULL) == ETHMX_ERR_PARAM);
    CHECK(ethmx_am_send(s->ep, s->peer, 1, head, sizeof(head), &none, NULL, NULL) == ETHMX_ERR_PARAM);
    return true;
}

/* ---- Scenarios: threads, absence, fork ---- */

struct worker {
    const struct side *s;
    unsigned number;
    bool ok;
};

/* Each thread has its own conversation; whoever makes progress makes it for all. */
static bool converse(const struct worker *w)
{
    static const size_t len[] = {8, 3000, 50000, 0};
    uint8_t *buf = malloc(50000);
    struct ethmx_result r;

    for (unsigned i = 0; i < WORKER_TURNS; i++) {
        size_t bytes = len[i % ARRAY_LEN(len)];
        unsigned tag = w->number * 1000 + i;

        if (w->s->role == (int)(i % 2)) {
            fill(buf, bytes, tag);
            CHECK(send_data(w->s, tag, flat(buf, bytes)));
        } else {
            CHECK(recv_data(w->s, tag, flat(buf, bytes), &r));
            CHECK(r.status == ETHMX_OK && r.len_bytes == bytes && is_filled(buf, bytes, tag));
        }
    }
    free(buf);
    return true;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;

    w->ok = converse(w);
    return NULL;
}

static bool many_threads(const struct side *s)
{
    struct worker w[WORKERS];
    pthread_t t[WORKERS];

    for (unsigned i = 0; i < WORKERS; i++) {
        w[i] = (struct worker){.s = s, .number = i};
        CHECK(!pthread_create(&t[i], NULL, worker_main, &w[i]));
    }
    for (unsigned i = 0; i < WORKERS; i++)
        CHECK(!pthread_join(t[i], NULL));
    for (unsigned i = 0; i < WORKERS; i++)
        CHECK(w[i].ok);
    return true;
}

/* The other side computes and calls nothing; large messages still go both ways. */
static bool absent_program(const struct side *s)
{
    uint8_t *out = malloc(LARGE_BYTES), *in = malloc(LARGE_BYTES);
    struct pending p[2];

    fill(out, LARGE_BYTES, 20 + (unsigned)s->role);
    CHECK(start_recv(s, 1, flat(in, LARGE_BYTES), &p[0]));
    CHECK(start_send(s, 1, flat(out, LARGE_BYTES), ETHMX_SEND_STANDARD, &p[1]));
    if (s->role == 0) {
        CHECK(await(s, &p[0].done) && await(s, &p[1].done));
        CHECK(tell(s));
    } else {
        CHECK(hear(s)); /* no progress meanwhile */
        CHECK(!p[0].done && !p[1].done);
        CHECK(await(s, &p[0].done) && await(s, &p[1].done));
    }
    CHECK(p[0].result.status == ETHMX_OK && is_filled(in, LARGE_BYTES, 21 - (unsigned)s->role));
    free(in);
    free(out);
    return true;
}

/* In a forked child nothing works and nothing is disturbed. */
static bool forked_child(const struct side *s)
{
    struct ethmx_data none = flat(NULL, 0);
    struct ethmx_result r;
    int status = -1;
    pid_t pid = fork();

    if (!pid) {
        bool ok = !ethmx_progress(s->ep) &&
                  ethmx_isend(s->ep, s->peer, 1, &none, ETHMX_SEND_STANDARD, NULL, NULL) == ETHMX_ERR_CLOSED &&
                  ethmx_irecv(s->ep, NULL, 1, 1, &none, NULL, NULL, NULL, &r) == ETHMX_ERR_CLOSED;

        ethmx_wait(s->ep, UINT64_MAX);
        ethmx_ep_close(s->ep);
        _exit(!ok);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    if (s->role == 0)
        return signal_other(s, 1) && await_signal(s, 2);
    return await_signal(s, 1) && signal_other(s, 2);
}

/* What was sent arrives although the sender closes at once. The last scenario: role 0's endpoint is closed after it. */
static bool closing_delivers(const struct side *s)
{
    uint8_t *buf = malloc(30000);
    struct pending p[20];
    struct ethmx_result r;

    if (s->role == 0) {
        fill(buf, 30000, 1);
        for (unsigned i = 0; i < ARRAY_LEN(p); i++)
            CHECK(start_send(s, i, flat(buf, 1500 * i), ETHMX_SEND_STANDARD, &p[i]));
        ethmx_ep_close(s->ep);
        CHECK(tell(s));
        free(buf);
        return true;
    }
    CHECK(hear_progressing(s));
    for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
        CHECK(recv_data(s, i, flat(buf, 30000), &r));
        CHECK(r.status == ETHMX_OK && r.len_bytes == 1500 * i && is_filled(buf, r.len_bytes, 1));
    }
    free(buf);
    return true;
}

enum { ONLY_THREADS = 1, CLOSES_ROLE_0 = 2 };

static const struct {
    const char *name;
    bool (*run)(const struct side *s);
    unsigned flags;
} scenarios[] = {
    {"ping_pong", ping_pong, 0},
    {"posted_lengths", posted_lengths, 0},
    {"unexpected_lengths", unexpected_lengths, 0},
    {"both_send_large", both_send_large, 0},
    {"synchronous", synchronous, 0},
    {"order_and_wildcards", order_and_wildcards, 0},
    {"order_of_posted", order_of_posted, 0},
    {"probe", probe, 0},
    {"matched_probe", matched_probe, 0},
    {"cancel", cancel, 0},
    {"cancel_too_late", cancel_too_late, 0},
    {"truncation", truncation, 0},
    {"pieces", pieces, 0},
    {"functions", functions, 0},
    {"many_unexpected", many_unexpected, 0},
    {"to_ourselves", to_ourselves, 0},
    {"flush_unexpected", flush_unexpected, 0},
    {"what_is_known", what_is_known, 0},
    {"callbacks_start_operations", callbacks_start_operations, 0},
    {"am_lengths", am_lengths, 0},
    {"am_kept", am_kept, 0},
    {"am_before_handler", am_before_handler, 0},
    {"am_handlers_answer", am_handlers_answer, 0},
    {"am_limits", am_limits, 0},
    {"many_threads", many_threads, ONLY_THREADS},
    {"absent_program", absent_program, 0},
    {"forked_child", forked_child, 0},
    {"closing_delivers", closing_delivers, CLOSES_ROLE_0},
};

/* ---- Two roles ---- */

struct pair_options {
    bool threads;          /* endpoints for several threads */
    const char *heartbeat; /* short, so that scenarios with absence are quick */
};

static struct ethmx_config *make_config(const struct pair_options *o)
{
    struct ethmx_config *cfg = NULL;

    if (ethmx_config_create(&cfg) || ethmx_config_set(cfg, "heartbeat", o->heartbeat, "test") ||
        ethmx_config_set(cfg, "udp_ports", "0", "test")) {
        print_error("%s\n", ethmx_error_text());
        ethmx_config_destroy(cfg);
        return NULL;
    }
    return cfg;
}

static struct ethmx_ep *open_endpoint(const struct pair_options *o)
{
    struct ethmx_ep_options opt = {
        .api_version = ETHMX_API_VERSION, .thread_multiple = o->threads, .job_key = "a test's job"};
    struct ethmx_config *cfg = make_config(o);
    struct ethmx_ep *ep = NULL;

    if (!cfg)
        return NULL;
    if (ethmx_ep_open(cfg, &opt, &ep))
        print_error("%s\n", ethmx_error_text());
    ethmx_config_destroy(cfg);
    return ep;
}

/* Gives our address to the other role and gets its. */
static bool exchange(struct side *s)
{
    uint8_t mine[ETHMX_ADDRESS_MAX], theirs[ETHMX_ADDRESS_MAX];
    size_t len = sizeof(mine);
    ssize_t got;

    CHECK(ethmx_ep_address(s->ep, mine, &len) == ETHMX_OK);
    CHECK(send(s->fd, mine, len, 0) == (ssize_t)len);
    got = recv(s->fd, theirs, sizeof(theirs), 0);
    CHECK(got > 0);
    CHECK(ethmx_peer_add(s->ep, mine, len, NULL, &s->self) == ETHMX_OK);
    CHECK(ethmx_peer_add(s->ep, theirs, (size_t)got, s, &s->peer) == ETHMX_OK);
    return true;
}

static bool run_role(int role, int fd, const struct pair_options *o)
{
    struct side s = {.role = role, .fd = fd, .ep = open_endpoint(o)};

    CHECK(s.ep);
    CHECK(exchange(&s));
    for (unsigned i = 0; i < ARRAY_LEN(scenarios); i++) {
        if (scenarios[i].flags & ONLY_THREADS && !o->threads)
            continue;
        s.scenario = i + 1;
        if (!scenarios[i].run(&s)) {
            print_error("scenario %s, role %d\n", scenarios[i].name, role);
            return false;
        }
        if (role == 0 && scenarios[i].flags & CLOSES_ROLE_0)
            return true;
    }
    ethmx_ep_close(s.ep);
    return true;
}

struct role_thread {
    int fd;
    const struct pair_options *o;
    bool ok;
};

static void *role_main(void *arg)
{
    struct role_thread *r = arg;

    r->ok = run_role(1, r->fd, r->o);
    if (!r->ok)
        exit(1); /* role 0 would wait in vain */
    return NULL;
}

static void make_sockets(int fd[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
}

static void one_process(const struct pair_options *o)
{
    struct role_thread r = {.o = o};
    pthread_t t;
    int fd[2];

    make_sockets(fd);
    r.fd = fd[1];
    assert_int_equal(pthread_create(&t, NULL, role_main, &r), 0);
    assert_true(run_role(0, fd[0], o));
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_true(r.ok);
    close(fd[0]);
    close(fd[1]);
}

/* The second process moves to the namespace that EMX_TEST_PEER_NETNS names. */
static bool move_away(void)
{
    const char *path = getenv("EMX_TEST_PEER_NETNS");
    int fd, rc;

    if (!path)
        return true;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    rc = setns(fd, CLONE_NEWNET);
    close(fd);
    CHECK(rc == 0);
    return true;
}

static void two_processes(const struct pair_options *o)
{
    int fd[2], status = -1;
    pid_t pid;
    bool ok;

    make_sockets(fd);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        close(fd[0]);
        _exit(!(move_away() && run_role(1, fd[1], o)));
    }
    close(fd[1]);
    ok = run_role(0, fd[0], o);
    if (!ok)
        kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(ok);
    assert_int_equal(status, 0);
    close(fd[0]);
}

static void scenarios_in_one_process(void **state)
{
    (void)state;
    one_process(&(struct pair_options){.heartbeat = "20ms"});
}

static void scenarios_in_one_process_with_threads(void **state)
{
    (void)state;
    one_process(&(struct pair_options){.heartbeat = "20ms", .threads = true});
}

static void scenarios_in_two_processes(void **state)
{
    (void)state;
    two_processes(&(struct pair_options){.heartbeat = "20ms"});
}

static void scenarios_in_two_processes_with_threads(void **state)
{
    (void)state;
    two_processes(&(struct pair_options){.heartbeat = "20ms", .threads = true});
}

/* ---- Failures ---- */

static struct ethmx_ep *open_with(const char *name, const char *value, int expect)
{
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION};
    struct ethmx_config *cfg;
    struct ethmx_ep *ep = NULL;
    int rc;

    assert_int_equal(ethmx_config_create(&cfg), ETHMX_OK);
    if (name)
        assert_int_equal(ethmx_config_set(cfg, name, value, "test"), ETHMX_OK);
    rc = ethmx_ep_open(cfg, &opt, &ep);
    ethmx_config_destroy(cfg);
    if (rc != expect)
        fail_msg("%s=%s: %s: %s", name, value, ethmx_strerror(rc), ethmx_error_text());
    return ep;
}

static void wrong_settings_are_named(void **state)
{
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION + 1};
    struct ethmx_ep *ep = NULL;

    (void)state;
    assert_int_equal(ethmx_ep_open(NULL, &opt, &ep), ETHMX_ERR_VERSION);
    assert_non_null(strstr(ethmx_error_text(), "version"));
    assert_null(open_with("wires", "udp,carrier-pigeon", ETHMX_ERR_PARAM));
    assert_non_null(strstr(ethmx_error_text(), "carrier-pigeon"));
    assert_non_null(strstr(ethmx_error_text(), "packet, udp"));
    assert_null(open_with("wires", " ,", ETHMX_ERR_PARAM));
    assert_null(open_with("if", "nosuchif0", ETHMX_ERR_PARAM));
    assert_non_null(strstr(ethmx_error_text(), "nosuchif0"));
    assert_null(ep);
}

static void addresses_are_checked(void **state)
{
    struct ethmx_ep *ep = open_with(NULL, NULL, ETHMX_OK);
    uint8_t addr[ETHMX_ADDRESS_MAX];
    size_t len = sizeof(addr), small = 4;
    struct ethmx_peer *peer = NULL, *again = NULL;
    int user;

    (void)state;
    assert_int_equal(ethmx_ep_address(ep, addr, &small), ETHMX_ERR_PARAM);
    assert_int_equal(ethmx_ep_address(ep, addr, &len), ETHMX_OK);
    assert_int_equal(ethmx_peer_add(ep, "garbage", 7, NULL, &peer), ETHMX_ERR_PARAM);
    assert_true(strlen(ethmx_error_text()) > 10);
    assert_null(peer);
    assert_int_equal(ethmx_peer_add(ep, addr, len - 1, NULL, &peer), ETHMX_ERR_PARAM);
    assert_int_equal(ethmx_peer_add(ep, addr, len, NULL, &peer), ETHMX_OK);
    assert_null(ethmx_peer_user(peer));
    assert_int_equal(ethmx_peer_add(ep, addr, len, &user, &again), ETHMX_OK);
    assert_ptr_equal(peer, again);
    assert_ptr_equal(ethmx_peer_user(peer), &user);
    ethmx_ep_close(ep);
    ethmx_ep_close(NULL);
}

/* What ethmx_ep_on_error() told. */
struct told {
    _Atomic bool any;
    struct ethmx_peer *peer;
    int status;
    char text[256];
};

static void on_error(void *arg, struct ethmx_peer *peer, int status, const char *text)
{
    struct told *t = arg;

    t->peer = peer;
    t->status = status;
    snprintf(t->text, sizeof(t->text), "%s", text);
    atomic_store(&t->any, true);
}

static struct ethmx_ep *open_impatient(struct told *told)
{
    static const char *const set[][2] = {{"connect_timeout", "100ms"}, {"peer_timeout", "300ms"}, {"linger", "0"}};
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION};
    struct ethmx_config *cfg;
    struct ethmx_ep *ep;

    assert_int_equal(ethmx_config_create(&cfg), ETHMX_OK);
    for (unsigned i = 0; i < ARRAY_LEN(set); i++)
        assert_int_equal(ethmx_config_set(cfg, set[i][0], set[i][1], "test"), ETHMX_OK);
    assert_int_equal(ethmx_ep_open(cfg, &opt, &ep), ETHMX_OK);
    ethmx_config_destroy(cfg);
    ethmx_ep_on_error(ep, on_error, told);
    return ep;
}

/* The address of an endpoint that has gone. */
static void unreachable_peer_fails(void **state)
{
    struct told told = {.any = false};
    struct ethmx_ep *gone = open_with(NULL, NULL, ETHMX_OK);
    struct side s = {.ep = open_impatient(&told), .scenario = 1};
    uint8_t addr[ETHMX_ADDRESS_MAX];
    size_t len = sizeof(addr);
    struct ethmx_data none = flat(NULL, 0);
    struct pending p;

    (void)state;
    assert_int_equal(ethmx_ep_address(gone, addr, &len), ETHMX_OK);
    ethmx_ep_close(gone);
    assert_int_equal(ethmx_peer_add(s.ep, addr, len, NULL, &s.peer), ETHMX_OK);
    assert_true(start_send(&s, 1, none, ETHMX_SEND_SYNC, &p));
    assert_true(await(&s, &p.done));
    assert_int_equal(p.result.status, ETHMX_ERR_UNREACHABLE);
    assert_true(await(&s, &told.any));
    assert_ptr_equal(told.peer, s.peer);
    assert_int_equal(told.status, ETHMX_ERR_UNREACHABLE);
    assert_true(strlen(told.text) > 20);
    assert_true(ethmx_isend(s.ep, s.peer, 1, &none, ETHMX_SEND_STANDARD, NULL, NULL) < 0);
    ethmx_ep_close(s.ep);
}

/* The other process is killed while we wait for it. */
static void killed_peer_is_noticed(void **state)
{
    const struct pair_options plain = {.heartbeat = "20ms"};
    struct told told = {.any = false};
    struct side s = {.scenario = 1};
    int fd[2], status;
    uint8_t buf[8];
    struct pending p[2];
    pid_t pid;

    (void)state;
    make_sockets(fd);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        s.role = 1;
        s.fd = fd[1];
        s.ep = open_endpoint(&plain);
        if (s.ep && exchange(&s) && await_signal(&s, 1) && signal_other(&s, 2))
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    s.fd = fd[0];
    s.ep = open_impatient(&told);
    assert_true(exchange(&s));
    assert_true(signal_other(&s, 1));
    assert_true(await_signal(&s, 2));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_true(start_recv(&s, 3, flat(buf, sizeof(buf)), &p[0]));
    assert_true(start_send(&s, 4, flat(buf, sizeof(buf)), ETHMX_SEND_SYNC, &p[1]));
    assert_true(await(&s, &p[0].done) && await(&s, &p[1].done));
    assert_int_equal(p[0].result.status, ETHMX_ERR_PEER_DEAD);
    assert_int_equal(p[1].result.status, ETHMX_ERR_PEER_DEAD);
    assert_true(await(&s, &told.any));
    assert_int_equal(told.status, ETHMX_ERR_PEER_DEAD);
    ethmx_ep_close(s.ep);
    close(fd[0]);
    close(fd[1]);
}

/* ---- What the host has ---- */

struct census {
    unsigned count, usable;
    bool bad;
};

static void count_interface(void *arg, const struct ethmx_interface_info *i)
{
    struct census *c = arg;

    c->count++;
    c->usable += i->chosen;
    c->bad |= !*i->name || !*i->reason || !i->kind || !i->ipv4 || !i->mac;
    c->bad |= i->chosen && c->usable != c->count; /* the chosen come first */
}

static void count_wire(void *arg, const struct ethmx_wire_info *w)
{
    struct census *c = arg;

    c->count++;
    c->usable += w->usable;
    c->bad |= !*w->name || !*w->help || !*w->reason || (w->usable && w->frame_bytes < 256);
}

static void host_is_described(void **state)
{
    struct census interfaces = {0}, wires = {0};

    (void)state;
    assert_int_equal(ethmx_each_interface(NULL, count_interface, &interfaces), ETHMX_OK);
    assert_true(interfaces.count >= 1 && interfaces.usable >= 1 && !interfaces.bad);
    assert_int_equal(ethmx_each_wire(NULL, count_wire, &wires), ETHMX_OK);
    assert_true(wires.count >= 2 && wires.usable >= 1 && !wires.bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_settings_are_named),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(host_is_described),
        cmocka_unit_test(scenarios_in_one_process),
        cmocka_unit_test(scenarios_in_one_process_with_threads),
        cmocka_unit_test(scenarios_in_two_processes),
        cmocka_unit_test(scenarios_in_two_processes_with_threads),
        cmocka_unit_test(unreachable_peer_fails),
        cmocka_unit_test(killed_peer_is_noticed),
    };

    setenv("ETHMX_WIRES", "udp", 0);
    setenv("ETHMX_IF", "lo", 0);
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
