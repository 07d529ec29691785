/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scenarios: data that is not contiguous.
 */
#include "api/scenario.h"

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

bool pieces(const struct side *s)
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

bool functions(const struct side *s)
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
