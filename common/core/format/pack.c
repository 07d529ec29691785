/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     length - 1 | step, step, ...
 *
 * A step is a byte with two numbers and literal bytes: how many bytes to copy from the same place of the base (upper
 * four bits), and how many literal bytes follow (lower four). What is left after the last step is copied from the base.
 */
#include "core/format/pack.h"

#include <string.h>

#define STEP_MOST 15

static size_t pack_alike(const uint8_t *base, size_t base_bytes, const uint8_t *data, size_t at, size_t end)
{
    size_t n = 0;

    while (at + n < end && at + n < base_bytes && base[at + n] == data[at + n])
        n++;
    return n;
}

/* Length of the differing bytes. A single equal byte among them costs less than a new step. */
static size_t pack_unlike(const uint8_t *base, size_t base_bytes, const uint8_t *data, size_t at, size_t end)
{
    size_t n = 0;

    while (at + n < end && pack_alike(base, base_bytes, data, at + n, end) < 2)
        n++;
    return n;
}

static size_t pack_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t emx_pack(const uint8_t *base, size_t base_bytes, const uint8_t *data, size_t len_bytes, uint8_t *out)
{
    uint8_t *p = out;

    *p++ = (uint8_t)(len_bytes - 1);
    for (size_t at = 0; at < len_bytes;) {
        size_t same = pack_alike(base, base_bytes, data, at, len_bytes), other = 0;

        if (at + same == len_bytes)
            break;
        if (same <= STEP_MOST)
            other = pack_least(pack_unlike(base, base_bytes, data, at + same, len_bytes), STEP_MOST);
        same = pack_least(same, STEP_MOST);
        *p++ = (uint8_t)(same << 4 | other);
        memcpy(p, data + at + same, other);
        p += other;
        at += same + other;
    }
    return (size_t)(p - out);
}

size_t emx_unpack(const uint8_t *base, size_t base_bytes, const uint8_t *packed, size_t packed_bytes, uint8_t *data)
{
    const uint8_t *p = packed, *end = packed + packed_bytes;
    size_t len_bytes = (size_t)*p++ + 1, at = 0;

    memcpy(data, base, pack_least(base_bytes, len_bytes));
    while (p < end) {
        size_t other = *p & STEP_MOST;

        at += *p++ >> 4;
        memcpy(data + at, p, other);
        p += other;
        at += other;
    }
    return len_bytes;
}
