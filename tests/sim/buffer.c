/* SPDX-License-Identifier: BSD-3-Clause */
#include "buffer.h"

#include <stdlib.h>
#include <string.h>

#define GUARD_BYTES 16
#define GUARD       0xc3
#define EMPTY       0xe7 /* of a receive buffer before */
#define JUNK        0xdd /* of any buffer afterwards */
#define PIECES_MAX  9
#define YARD_BYTES  (2u << 20)

/* ---- Content ---- */

static uint64_t word(uint64_t ident, size_t i)
{
    return i ? emx_mix64(ident * 0x9e3779b97f4a7c15ull + i) : ident;
}

void sim_content(uint64_t ident, size_t offset, void *buf, size_t len_bytes)
{
    uint8_t *to = buf;
    uint64_t w;
    size_t skip, n;

    for (; len_bytes; to += n, offset += n, len_bytes -= n) {
        w = word(ident, offset / 8);
        skip = offset % 8;
        n = len_bytes < 8 - skip ? len_bytes : 8 - skip;
        memcpy(to, (const uint8_t *)&w + skip, n);
    }
}

bool sim_content_fits(uint64_t ident, size_t offset, const void *buf, size_t len_bytes)
{
    const uint8_t *from = buf;
    uint64_t w;
    size_t skip, n;

    for (; len_bytes; from += n, offset += n, len_bytes -= n) {
        w = word(ident, offset / 8);
        skip = offset % 8;
        n = len_bytes < 8 - skip ? len_bytes : 8 - skip;
        if (memcmp(from, (const uint8_t *)&w + skip, n))
            return false;
    }
    return true;
}

/* ---- Pieces ---- */

static void *need(void *p)
{
    if (!p)
        abort();
    return p;
}

/* Cuts the length into pieces, some of them perhaps empty, with guards around each. */
static void lay_out(struct sim_buffer *b, struct emx_rng *rng)
{
    size_t cut[PIECES_MAX + 1], n = b->shape == SIM_IOV ? 1 + emx_rng_below(rng, PIECES_MAX) : 1, at = GUARD_BYTES;

    cut[0] = 0;
    for (size_t i = 1; i < n; i++)
        cut[i] = cut[i - 1] + emx_rng_below(rng, 2 * (b->len_bytes - cut[i - 1]) / n + 1);
    cut[n] = b->len_bytes;
    b->iov = need(calloc(n, sizeof(*b->iov)));
    b->iov_count = n;
    b->mem_bytes = b->len_bytes + (n + 1) * GUARD_BYTES;
    b->mem = need(malloc(b->mem_bytes));
    for (size_t i = 0; i < n; i++) {
        memset(b->mem + at - GUARD_BYTES, GUARD, GUARD_BYTES);
        b->iov[i].base = b->mem + at;
        b->iov[i].len_bytes = cut[i + 1] - cut[i];
        at += b->iov[i].len_bytes + GUARD_BYTES;
    }
    memset(b->mem + at - GUARD_BYTES, GUARD, GUARD_BYTES);
}

static bool all_are(const uint8_t *p, uint8_t byte, size_t len_bytes)
{
    return !len_bytes || (*p == byte && !memcmp(p, p + 1, len_bytes - 1));
}

static bool guards_intact(const struct sim_buffer *b)
{
    if (!all_are(b->mem, GUARD, GUARD_BYTES))
        return false;
    for (size_t i = 0; i < b->iov_count; i++)
        if (!all_are((uint8_t *)b->iov[i].base + b->iov[i].len_bytes, GUARD, GUARD_BYTES))
            return false;
    return true;
}

static void fill(struct sim_buffer *b, int byte)
{
    for (size_t i = 0; i < b->iov_count; i++)
        memset(b->iov[i].base, byte, b->iov[i].len_bytes);
}

/* ---- Copy functions ---- */

static void pack(void *arg, size_t offset, void *buf, size_t len_bytes)
{
    struct sim_buffer *b = arg;

    if (b->over)
        b->wrong = "the engine reads a send's data after its completion";
    else if (offset > b->len_bytes || len_bytes > b->len_bytes - offset)
        b->wrong = "the engine reads beyond a send's data";
    else
        sim_content(b->ident, offset, buf, len_bytes);
}

static void unpack(void *arg, size_t offset, void *buf, size_t len_bytes)
{
    struct sim_buffer *b = arg;

    if (b->over) {
        b->wrong = "the engine writes a receive's data after its completion";
        return;
    }
    if (offset > b->len_bytes || len_bytes > b->len_bytes - offset) {
        b->wrong = "the engine writes beyond a receive's data";
        return;
    }
    if (!all_are(b->seen + offset, 0, len_bytes))
        b->wrong = "the engine writes a byte of a receive's data twice";
    memset(b->seen + offset, 1, len_bytes);
    memcpy((uint8_t *)b->iov[0].base + offset, buf, len_bytes);
}

/* ---- Buffers ---- */

static void describe(struct sim_buffer *b)
{
    b->data.len_bytes = b->len_bytes;
    if (b->shape == SIM_CONTIGUOUS) {
        b->data.base = b->iov[0].base;
    } else if (b->shape == SIM_IOV) {
        b->data.iov = b->iov;
        b->data.iov_count = b->iov_count;
    } else {
        b->data.copy = b->sends ? pack : unpack;
        b->data.copy_arg = b;
    }
}

static struct sim_buffer *new_buffer(size_t len_bytes, enum sim_shape shape, struct emx_rng *rng)
{
    struct sim_buffer *b = need(calloc(1, sizeof(*b)));

    b->len_bytes = len_bytes;
    b->shape = shape;
    lay_out(b, rng);
    return b;
}

struct sim_buffer *sim_buffer_to_send(uint64_t ident, size_t len_bytes, enum sim_shape shape, struct emx_rng *rng)
{
    struct sim_buffer *b = new_buffer(len_bytes, shape, rng);
    size_t offset = 0;

    b->sends = true;
    b->ident = ident;
    for (size_t i = 0; shape != SIM_COPY && i < b->iov_count; i++) {
        sim_content(ident, offset, b->iov[i].base, b->iov[i].len_bytes);
        offset += b->iov[i].len_bytes;
    }
    describe(b);
    return b;
}

struct sim_buffer *sim_buffer_to_receive(size_t len_bytes, enum sim_shape shape, struct emx_rng *rng)
{
    struct sim_buffer *b = new_buffer(len_bytes, shape, rng);

    fill(b, EMPTY);
    if (shape == SIM_COPY)
        b->seen = need(calloc(1, len_bytes ? len_bytes : 1));
    describe(b);
    return b;
}

void sim_buffer_free(struct sim_buffer *b)
{
    if (!b)
        return;
    free(b->mem);
    free(b->iov);
    free(b->seen);
    free(b);
}

size_t sim_buffer_peek(const struct sim_buffer *b, void *buf, size_t len_bytes)
{
    size_t done = 0, n;

    for (size_t i = 0; i < b->iov_count && done < len_bytes; i++, done += n) {
        n = b->iov[i].len_bytes < len_bytes - done ? b->iov[i].len_bytes : len_bytes - done;
        memcpy((uint8_t *)buf + done, b->iov[i].base, n);
    }
    return done;
}

const char *sim_buffer_check(const struct sim_buffer *b, uint64_t ident, size_t got_bytes, bool content)
{
    size_t offset = 0, n;

    if (b->wrong)
        return b->wrong;
    if (!guards_intact(b))
        return "memory beside a receive's data was written";
    if (b->seen && !all_are(b->seen, 1, got_bytes))
        return "a byte of a receive's data never came";
    for (size_t i = 0; i < b->iov_count; i++) {
        const struct ethmx_iov *v = &b->iov[i];

        n = offset >= got_bytes ? 0 : got_bytes - offset;
        if (n > v->len_bytes)
            n = v->len_bytes;
        if (content && !sim_content_fits(ident, offset, v->base, n))
            return "the data is not what was sent";
        if (!all_are((uint8_t *)v->base + n, EMPTY, v->len_bytes - n))
            return "memory behind the message was written";
        offset += v->len_bytes;
    }
    return NULL;
}

/* ---- Afterwards ---- */

void sim_junkyard_init(struct sim_junkyard *y)
{
    y->first = NULL;
    y->last = &y->first;
    y->bytes = 0;
}

static const char *scrap_oldest(struct sim_junkyard *y)
{
    struct sim_buffer *b = y->first;
    const char *wrong = b->wrong;

    y->first = b->next;
    if (!y->first)
        y->last = &y->first;
    y->bytes -= b->mem_bytes;
    if (!wrong && !guards_intact(b))
        wrong = "memory beside an operation's data was written";
    for (size_t i = 0; !wrong && i < b->iov_count; i++)
        if (!all_are(b->iov[i].base, JUNK, b->iov[i].len_bytes))
            wrong = "data of a completed operation was written";
    sim_buffer_free(b);
    return wrong;
}

const char *sim_buffer_over(struct sim_buffer *b, struct sim_junkyard *y)
{
    const char *wrong = b->wrong, *w;

    b->over = true;
    fill(b, JUNK);
    b->next = NULL;
    *y->last = b;
    y->last = &b->next;
    y->bytes += b->mem_bytes;
    while (y->bytes > YARD_BYTES && y->first != b) {
        w = scrap_oldest(y);
        wrong = wrong ? wrong : w;
    }
    return wrong;
}

const char *sim_junkyard_fini(struct sim_junkyard *y)
{
    const char *wrong = NULL, *w;

    while (y->first) {
        w = scrap_oldest(y);
        wrong = wrong ? wrong : w;
    }
    return wrong;
}
