/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scenarios: remote data.
 */
#include "api/scenario.h"
#include "ethmx_remote.h"

static const size_t lengths[] = {0, 1, 1000, 1480, 20000, 40000, 1000000};

#define KINDS ARRAY_LEN(lengths)

struct receiving {
    struct pending p;
    struct ethmx_req *req;
    struct ethmx_remote remote;
};

static void received(void *arg, const struct ethmx_result *result)
{
    struct receiving *r = arg;

    r->remote = ethmx_req_remote(r->req);
    done(&r->p, result);
}

static uint64_t remote_of(unsigned i)
{
    return UINT64_C(0xfedcba9876543210) + i;
}

static bool start_send_remote(const struct side *s, struct ethmx_peer *peer, unsigned tag, struct ethmx_data data,
                              enum ethmx_send_mode mode, struct pending *p)
{
    int rc = ethmx_isend_remote(s->ep, peer, bits_of(s, tag), remote_of(tag), &data, mode, done, p);

    CHECK(rc == ETHMX_OK || rc == ETHMX_INPROGRESS);
    if (rc == ETHMX_OK)
        atomic_store(&p->done, true);
    return true;
}

static bool start_recv_remote(const struct side *s, struct ethmx_peer *peer, unsigned tag, struct ethmx_data data,
                              struct receiving *r)
{
    return ethmx_irecv(s->ep, peer, bits_of(s, tag), FULL_MASK, &data, received, r, &r->req, &r->p.result) ==
           ETHMX_INPROGRESS;
}

static bool is_received(const struct side *s, struct receiving *r, const uint8_t *buf, unsigned tag)
{
    size_t len = lengths[tag % KINDS];

    CHECK(await(s, &r->p.done));
    CHECK(r->p.result.status == ETHMX_OK && r->p.result.len_bytes == len && r->p.result.msg_bytes == len);
    CHECK(is_filled(buf, len, tag));
    CHECK(r->remote.present && r->remote.data == remote_of(tag));
    return true;
}

/* Each length standard and synchronous, from the peer or to ourselves. */
static bool all_lengths(const struct side *s, struct ethmx_peer *to, struct ethmx_peer *from, bool unexpected)
{
    struct receiving r[2 * KINDS] = {0};
    struct pending p[2 * KINDS] = {0};
    uint8_t *in[2 * KINDS], *out[2 * KINDS];

    for (unsigned i = 0; i < 2 * KINDS; i++) {
        size_t len = lengths[i % KINDS];

        in[i] = calloc(1, len + 1);
        out[i] = malloc(len + 1);
        CHECK(in[i] && out[i]);
        fill(out[i], len, i);
        CHECK(unexpected || !from || start_recv_remote(s, from, i, flat(in[i], len), &r[i]));
    }
    if (!unexpected)
        CHECK(s->role ? signal_other(s, 1000) && await_signal(s, 1001)
                      : await_signal(s, 1000) && signal_other(s, 1001));
    for (unsigned i = 0; i < 2 * KINDS; i++)
        CHECK(!to || start_send_remote(s, to, i, flat(out[i], lengths[i % KINDS]),
                                       i < KINDS ? ETHMX_SEND_STANDARD : ETHMX_SEND_SYNC, &p[i]));
    if (unexpected)
        CHECK(s->role ? signal_other(s, 1002) && await_signal(s, 1003)
                      : await_signal(s, 1002) && signal_other(s, 1003));
    for (unsigned i = 0; unexpected && from && i < 2 * KINDS; i++)
        CHECK(start_recv_remote(s, from, i, flat(in[i], lengths[i % KINDS]), &r[i]));
    for (unsigned i = 0; i < 2 * KINDS; i++) {
        CHECK(!from || is_received(s, &r[i], in[i], i));
        CHECK(!to || await(s, &p[i].done));
        free(in[i]);
        free(out[i]);
    }
    return true;
}

bool remote_lengths(const struct side *s)
{
    struct ethmx_peer *to = s->role ? NULL : s->peer, *from = s->role ? s->peer : NULL;

    CHECK(all_lengths(s, to, from, false));
    CHECK(all_lengths(s, to, from, true));
    CHECK(all_lengths(s, s->self, s->self, false));
    return all_lengths(s, s->self, s->self, true);
}

/* Messages with and without keep their order; a probe sees both. */
bool remote_mixed(const struct side *s)
{
    static const uint64_t last = UINT64_MAX;
    char c = 'x';

    if (s->role == 0) {
        struct pending p = {.done = false};
        struct ethmx_data data = flat(&c, 1);
        int rc;

        CHECK(send_data(s, 7, data));
        rc = ethmx_isend_remote(s->ep, s->peer, bits_of(s, 7), last, &data, ETHMX_SEND_STANDARD, done, &p);
        CHECK(rc == ETHMX_OK || (rc == ETHMX_INPROGRESS && await(s, &p.done)));
        CHECK(send_data(s, 7, data));
        return signal_other(s, 8);
    }
    CHECK(await_signal(s, 8));
    for (unsigned i = 0; i < 3; i++) {
        struct ethmx_remote seen = {.present = i != 1}, taken = seen;
        struct ethmx_message *msg = NULL;
        struct pending p = {.done = false};
        struct ethmx_data data = flat(&c, 1);
        struct ethmx_result r;
        int rc;

        CHECK(!ethmx_probe_remote(s->ep, s->peer, bits_of(s, 7), FULL_MASK, NULL, &r, &seen));
        CHECK(!ethmx_probe_remote(s->ep, s->peer, bits_of(s, 7), FULL_MASK, &msg, &r, &taken));
        CHECK(seen.present == (i == 1) && taken.present == seen.present && r.msg_bytes == 1);
        CHECK(!seen.present || (seen.data == last && taken.data == last));
        rc = ethmx_imrecv(s->ep, msg, &data, done, &p, &p.result);
        CHECK(rc == ETHMX_OK || (rc == ETHMX_INPROGRESS && await(s, &p.done)));
        CHECK(p.result.status == ETHMX_OK && p.result.len_bytes == 1);
    }
    return true;
}
