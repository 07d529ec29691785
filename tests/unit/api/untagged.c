/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scenarios: untagged messages.
 */
#include "api/scenario.h"
#include "ethmx_multi.h"
#include "ethmx_untagged.h"

static const size_t lengths[] = {0, 1, 1000, 1480, 20000, 40000, 1000000};

#define KINDS    ARRAY_LEN(lengths)
#define MESSAGES (4 * KINDS) /* each length standard and synchronous, with remote data and without */

struct receiving {
    struct pending p;
    struct ethmx_req *req;
    struct ethmx_remote remote;
};

static size_t length_of(unsigned i)
{
    return lengths[i % KINDS];
}

static bool has_remote(unsigned i)
{
    return i / KINDS & 1;
}

static uint64_t remote_of(unsigned i)
{
    return UINT64_C(0xfedcba9876543210) + i;
}

static void received(void *arg, const struct ethmx_result *result)
{
    struct receiving *r = arg;

    r->remote = ethmx_req_remote(r->req);
    done(&r->p, result);
}

static bool start_untagged(const struct side *s, struct ethmx_peer *peer, unsigned i, struct ethmx_data data,
                           struct pending *p)
{
    uint64_t remote = remote_of(i);
    int rc = ethmx_isend_untagged(s->ep, peer, has_remote(i) ? &remote : NULL, &data,
                                  i < 2 * KINDS ? ETHMX_SEND_STANDARD : ETHMX_SEND_SYNC, done, p);

    CHECK(rc == ETHMX_OK || rc == ETHMX_INPROGRESS);
    if (rc == ETHMX_OK)
        atomic_store(&p->done, true);
    return true;
}

static bool start_recv_untagged(const struct side *s, struct ethmx_peer *peer, struct ethmx_data data,
                                struct receiving *r)
{
    int rc = ethmx_irecv_untagged(s->ep, peer, &data, received, r, &r->req, &r->p.result);

    CHECK(rc == ETHMX_OK || rc == ETHMX_INPROGRESS);
    if (rc == ETHMX_OK)
        atomic_store(&r->p.done, true);
    return true;
}

static bool is_received(const struct side *s, struct receiving *r, const uint8_t *buf, unsigned i)
{
    size_t len = length_of(i);

    CHECK(await(s, &r->p.done));
    CHECK(r->p.result.status == ETHMX_OK && r->p.result.len_bytes == len && r->p.result.msg_bytes == len);
    CHECK(r->p.result.bits == 0 && is_filled(buf, len, i));
    return r->remote.present == has_remote(i) && (!has_remote(i) || r->remote.data == remote_of(i));
}

/* In the order sent, from the peer, from anyone, or to ourselves. */
static bool all_lengths(const struct side *s, struct ethmx_peer *to, struct ethmx_peer *from, bool receives,
                        bool unexpected)
{
    struct receiving r[MESSAGES] = {0};
    struct pending p[MESSAGES] = {0};
    uint8_t *in[MESSAGES], *out[MESSAGES];

    for (unsigned i = 0; i < MESSAGES; i++) {
        in[i] = calloc(1, length_of(i) + 1);
        out[i] = malloc(length_of(i) + 1);
        CHECK(in[i] && out[i]);
        fill(out[i], length_of(i), i);
        CHECK(unexpected || !receives || start_recv_untagged(s, from, flat(in[i], length_of(i)), &r[i]));
    }
    if (!unexpected)
        CHECK(s->role ? signal_other(s, 1000) && await_signal(s, 1001)
                      : await_signal(s, 1000) && signal_other(s, 1001));
    for (unsigned i = 0; i < MESSAGES; i++)
        CHECK(!to || start_untagged(s, to, i, flat(out[i], length_of(i)), &p[i]));
    if (unexpected)
        CHECK(s->role ? signal_other(s, 1002) && await_signal(s, 1003)
                      : await_signal(s, 1002) && signal_other(s, 1003));
    for (unsigned i = 0; unexpected && receives && i < MESSAGES; i++)
        CHECK(start_recv_untagged(s, from, flat(in[i], length_of(i)), &r[i]));
    for (unsigned i = 0; i < MESSAGES; i++) {
        CHECK(!receives || is_received(s, &r[i], in[i], i));
        CHECK(!to || await(s, &p[i].done));
        free(in[i]);
        free(out[i]);
    }
    return true;
}

bool untagged_lengths(const struct side *s)
{
    struct ethmx_peer *to = s->role ? NULL : s->peer;

    CHECK(all_lengths(s, to, s->peer, s->role, false));
    CHECK(all_lengths(s, to, NULL, s->role, true));
    CHECK(all_lengths(s, s->self, s->self, true, false));
    return all_lengths(s, s->self, NULL, true, true);
}

static bool send_byte(const struct side *s, bool tagged, uint64_t bits, char c)
{
    struct ethmx_data data = flat(&c, 1);
    struct pending p = {.done = false};
    int rc = tagged ? ethmx_isend(s->ep, s->peer, bits, &data, ETHMX_SEND_STANDARD, done, &p)
                    : ethmx_isend_untagged(s->ep, s->peer, NULL, &data, ETHMX_SEND_STANDARD, done, &p);

    return rc == ETHMX_OK || (rc == ETHMX_INPROGRESS && await(s, &p.done));
}

static bool takes(const struct side *s, struct ethmx_message *msg, char want)
{
    struct pending p = {.done = false};
    char c = 0;
    struct ethmx_data data = flat(&c, 1);
    int rc = ethmx_imrecv(s->ep, msg, &data, done, &p, &p.result);

    CHECK(rc == ETHMX_OK || (rc == ETHMX_INPROGRESS && await(s, &p.done)));
    return p.result.status == ETHMX_OK && c == want;
}

/* Neither a receive nor a probe takes what the other kind should get, whatever the bits and wildcards. */
bool untagged_beside_tags(const struct side *s)
{
    struct receiving first = {0}, canceled = {0};
    struct pending any = {.done = false};
    struct ethmx_message *msg = NULL;
    struct ethmx_result r;
    char a = 0, b = 0, c = 0;

    if (s->role == 0)
        return await_signal(s, 8) && send_byte(s, false, 0, 'u') && send_byte(s, true, 0, '0') &&
               send_byte(s, true, UINT64_MAX, '1') && send_byte(s, false, 0, 'v') && signal_other(s, 9) &&
               await_signal(s, 12);
    CHECK(ethmx_probe_untagged(s->ep, s->peer, NULL, &r, NULL) == ETHMX_ERR_NO_MATCH);
    CHECK(start_recv_from(s, NULL, 0, 1, flat(&a, 1), &any, NULL));
    CHECK(start_recv_untagged(s, NULL, flat(&b, 1), &first) && start_recv_untagged(s, NULL, flat(&c, 1), &canceled));
    CHECK(ethmx_cancel(s->ep, canceled.req) == ETHMX_OK && await(s, &canceled.p.done));
    CHECK(canceled.p.result.status == ETHMX_ERR_CANCELED);
    CHECK(signal_other(s, 8) && await_signal(s, 9));
    CHECK(await(s, &any.done) && any.result.bits == 0 && a == '0');
    CHECK(await(s, &first.p.done) && first.p.result.bits == 0 && b == 'u' && !first.remote.present);
    CHECK(ethmx_iprobe(s->ep, s->peer, 0, 0, &r) == ETHMX_OK && r.bits == UINT64_MAX);
    CHECK(ethmx_flush_unexpected(s->ep, 0, 0) == 1);
    CHECK(ethmx_iprobe(s->ep, s->peer, 0, 0, &r) == ETHMX_ERR_NO_MATCH);
    CHECK(ethmx_probe_untagged(s->ep, NULL, &msg, &r, NULL) == ETHMX_OK && r.bits == 0 && r.msg_bytes == 1);
    CHECK(ethmx_probe_untagged(s->ep, NULL, NULL, &r, NULL) == ETHMX_ERR_NO_MATCH);
    return takes(s, msg, 'v') && signal_other(s, 12);
}

struct filling {
    char buf[4];
    unsigned messages;
    bool wrong;
    _Atomic bool over;
};

static void filled(void *arg, const struct ethmx_multi_result *r)
{
    struct filling *f = arg;

    f->wrong |= r->message.status || r->base != f->buf + f->messages || r->message.bits;
    f->messages++;
    if (r->last)
        atomic_store(&f->over, true);
}

/* A multi-receive of them: two messages find it, two come before it. */
bool untagged_multi(const struct side *s)
{
    struct filling f = {.messages = 0};
    struct ethmx_multi m = {.struct_bytes = sizeof(m), .base = f.buf, .len_bytes = sizeof(f.buf), .untagged = true};
    struct ethmx_result r;

    if (s->role == 0)
        return send_byte(s, false, 0, 'a') && send_byte(s, true, 0, 'x') && send_byte(s, false, 0, 'b') &&
               signal_other(s, 10) && await_signal(s, 11) && send_byte(s, true, 0, 'y') &&
               send_byte(s, false, 0, 'c') && send_byte(s, false, 0, 'd');
    CHECK(await_signal(s, 10));
    CHECK(ethmx_irecv_multi(s->ep, s->peer, 7, 7, &m, filled, &f, NULL) == ETHMX_INPROGRESS);
    CHECK(signal_other(s, 11) && await(s, &f.over) && f.messages == 4 && !f.wrong);
    CHECK(memcmp(f.buf, "abcd", sizeof(f.buf)) == 0);
    CHECK(ethmx_iprobe(s->ep, s->peer, 0, UINT64_MAX, &r) == ETHMX_OK && r.msg_bytes == 1);
    return ethmx_flush_unexpected(s->ep, 0, UINT64_MAX) == 2;
}
