/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scenarios: messages of all lengths, posted and unexpected, and both ways.
 */
#include "api/scenario.h"

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

bool posted_lengths(const struct side *s)
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
bool unexpected_lengths(const struct side *s)
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

bool both_send_large(const struct side *s)
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
