/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scenarios: multi-receives.
 */
#include "api/scenario.h"
#include "ethmx_multi.h"

#define BUFFERS      2
#define BUFFER_BYTES 4000
#define MIN_BYTES    1000
#define MESSAGES     12 /* of MIN_BYTES: four fill a buffer */

struct filling {
    const struct side *s;
    uint8_t buf[BUFFERS][BUFFER_BYTES];
    unsigned messages, given_back;
    int status; /* of a last call without a message */
    bool wrong;
    _Atomic bool done;
};

struct buffer {
    struct filling *f;
    unsigned number;
    struct ethmx_req *req;
};

/* Four messages are in each buffer, and the second buffer is used after the first. */
static void filled(void *arg, const struct ethmx_multi_result *r)
{
    struct buffer *b = arg;
    struct filling *f = b->f;
    size_t at = f->messages % 4 * MIN_BYTES;

    if (r->message.status) {
        f->status = r->message.status;
        f->wrong |= r->base || !r->last;
        atomic_store(&f->done, true);
        return;
    }
    f->wrong |= r->base != f->buf[b->number] + at || b->number != f->messages / 4 % BUFFERS;
    f->wrong |= r->message.len_bytes != MIN_BYTES || !is_filled(r->base, MIN_BYTES, f->messages);
    f->wrong |= r->message.peer != f->s->peer || r->message.bits != bits_of(f->s, 1);
    f->wrong |= r->remote.present != (f->messages % 3 == 0) || (r->remote.present && r->remote.data != f->messages);
    f->messages++;
    f->wrong |= r->last != (f->messages % 4 == 0);
    f->given_back += r->last;
    if (f->messages == MESSAGES - 4 || f->messages == MESSAGES)
        atomic_store(&f->done, true);
}

static bool post(const struct side *s, struct buffer *b, struct filling *f, unsigned number)
{
    const struct ethmx_multi m = {
        .struct_bytes = sizeof(m), .base = f->buf[number], .len_bytes = BUFFER_BYTES, .min_bytes = MIN_BYTES};

    *b = (struct buffer){.f = f, .number = number};
    return ethmx_irecv_multi(s->ep, NULL, bits_of(s, 1), FULL_MASK, &m, filled, b, &b->req) == ETHMX_INPROGRESS;
}

static bool send_one(const struct side *s, unsigned i)
{
    struct pending p = {.done = false};
    uint8_t out[MIN_BYTES];
    struct ethmx_data data = flat(out, sizeof(out));
    int rc;

    fill(out, sizeof(out), i);
    if (i % 3)
        return send_data(s, 1, data);
    rc = ethmx_isend_remote(s->ep, s->peer, bits_of(s, 1), i, &data, ETHMX_SEND_STANDARD, done, &p);
    return rc == ETHMX_OK || (rc == ETHMX_INPROGRESS && await(s, &p.done));
}

/* The first messages find two buffers, the others come before there is one. */
bool multi_buffers(const struct side *s)
{
    struct filling f = {.s = s};
    struct buffer b[BUFFERS];

    if (s->role == 0) {
        CHECK(await_signal(s, 2));
        for (unsigned i = 0; i < MESSAGES; i++)
            CHECK(send_one(s, i));
        return signal_other(s, 3);
    }
    for (unsigned i = 0; i < BUFFERS; i++)
        CHECK(post(s, &b[i], &f, i));
    CHECK(signal_other(s, 2) && await_signal(s, 3));
    CHECK(await(s, &f.done) && f.messages == MESSAGES - 4 && f.given_back == 2 && !f.wrong);
    atomic_store(&f.done, false);
    CHECK(post(s, &b[0], &f, 0));
    CHECK(await(s, &f.done) && f.messages == MESSAGES && f.given_back == 3 && !f.wrong);
    return true;
}

/* It gives the buffer back by a call without a message. */
bool multi_cancel(const struct side *s)
{
    struct filling f = {.s = s};
    struct buffer b;

    if (s->role == 0)
        return await_signal(s, 4) && send_one(s, 0) && await_signal(s, 5);
    CHECK(post(s, &b, &f, 0) && signal_other(s, 4));
    while (!f.messages)
        poll_some(s, 1);
    CHECK(ethmx_cancel(s->ep, b.req) == ETHMX_OK);
    CHECK(await(s, &f.done) && f.status == ETHMX_ERR_CANCELED && f.messages == 1 && !f.wrong);
    return signal_other(s, 5);
}

/* Receives and multi-receives take messages in the order in which they were posted; one that is too long is cut. */
bool multi_beside_receives(const struct side *s)
{
    struct filling f = {.s = s};
    struct ethmx_multi m = {.struct_bytes = sizeof(m), .base = f.buf[0], .len_bytes = MIN_BYTES, .min_bytes = 1};
    struct pending first = {.done = false}, third = {.done = false};
    uint8_t got[2][MIN_BYTES];
    struct buffer b = {.f = &f};

    if (s->role == 0)
        return await_signal(s, 6) && send_one(s, 1) && send_one(s, 0) && send_one(s, 2);
    m.struct_bytes = 1;
    CHECK(ethmx_irecv_multi(s->ep, NULL, 0, 0, &m, filled, &b, NULL) == ETHMX_ERR_PARAM);
    m.struct_bytes = sizeof(m);
    CHECK(start_recv_from(s, s->peer, bits_of(s, 1), FULL_MASK, flat(got[0], MIN_BYTES), &first, NULL));
    CHECK(ethmx_irecv_multi(s->ep, s->peer, bits_of(s, 1), FULL_MASK, &m, filled, &b, NULL) == ETHMX_INPROGRESS);
    CHECK(start_recv_from(s, NULL, bits_of(s, 1), FULL_MASK, flat(got[1], MIN_BYTES / 2), &third, NULL));
    CHECK(signal_other(s, 6) && await(s, &first.done) && await(s, &third.done));
    CHECK(first.result.status == ETHMX_OK && is_filled(got[0], MIN_BYTES, 1));
    CHECK(f.messages == 1 && is_filled(f.buf[0], MIN_BYTES, 0));
    CHECK(third.result.status == ETHMX_ERR_TRUNCATED && third.result.len_bytes == MIN_BYTES / 2);
    return is_filled(got[1], MIN_BYTES / 2, 2);
}
