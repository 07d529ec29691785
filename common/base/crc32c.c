/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two ways to the same number.
 *
 * The instruction of SSE 4.2 takes 8 bytes at a time, and its result is there 3 cycles later: a lone chain of them
 * leaves two thirds of the unit idle. So long buffers are cut into three runs of equal length whose chains go side by
 * side. Joining them needs "what would this crc be after n more zero bytes": a multiplication by x^(8n) modulo the
 * polynomial. In the bit order of this crc the carry-less product of two 32-bit numbers, put through the instruction
 * as 8 bytes, comes out multiplied by x^33; so each factor below is x^(8n - 33) modulo the polynomial.
 *
 * The table way takes 8 bytes a step with 8 tables: table[k][b] is what byte b does when k more bytes follow it. They
 * are made when the library is loaded.
 */
#include "base/crc32c.h"

#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* bits reversed */

static uint32_t table[8][256];

static uint64_t load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static void make_table(void)
{
    for (unsigned b = 0; b < 256; b++) {
        uint32_t c = b;

        for (unsigned bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? POLYNOMIAL : 0);
        table[0][b] = c;
    }
    for (unsigned k = 1; k < 8; k++)
        for (unsigned b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
}

uint32_t emx_crc32c_table(uint32_t crc, const void *buf, size_t len_bytes)
{
    const uint8_t *p = buf;
    uint32_t c = ~crc;

    for (; len_bytes >= 8; p += 8, len_bytes -= 8) {
        uint64_t v = load64(p) ^ c;

        c = 0;
        for (unsigned k = 0; k < 8; k++, v >>= 8)
            c ^= table[7 - k][v & 0xff];
    }
    for (; len_bytes; p++, len_bytes--)
        c = c >> 8 ^ table[0][(c ^ *p) & 0xff];
    return ~c;
}

#ifdef __x86_64__

#include <immintrin.h>

#define TARGET __attribute__((target("sse4.2,pclmul")))

static bool has_instruction;

/* A length of run, and the factors that move a crc over one and over two of them. */
struct runs {
    unsigned bytes;
    uint32_t over1, over2;
};

static const struct runs long_runs = {1024, 0x170076fa, 0xa51b6135};
static const struct runs short_runs = {128, 0x0d3b6092, 0xb9e02b86};

TARGET static inline uint32_t move(uint32_t c, uint32_t factor)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(c), _mm_cvtsi64_si128(factor), 0);

    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* Three runs at p, side by side. */
TARGET static inline uint32_t three_runs(uint32_t c, const uint8_t *p, const struct runs *r)
{
    uint64_t c0 = c, c1 = 0, c2 = 0;

    for (unsigned i = 0; i < r->bytes; i += 8) {
        c0 = _mm_crc32_u64(c0, load64(p + i));
        c1 = _mm_crc32_u64(c1, load64(p + r->bytes + i));
        c2 = _mm_crc32_u64(c2, load64(p + 2 * r->bytes + i));
    }
    return move((uint32_t)c0, r->over2) ^ move((uint32_t)c1, r->over1) ^ (uint32_t)c2;
}

TARGET static inline uint32_t one_run(uint32_t from, const uint8_t *p, size_t len_bytes)
{
    uint64_t c = from;

    for (; len_bytes >= 8; p += 8, len_bytes -= 8)
        c = _mm_crc32_u64(c, load64(p));
    for (; len_bytes; p++, len_bytes--)
        c = _mm_crc32_u8((uint32_t)c, *p);
    return (uint32_t)c;
}

TARGET static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t len_bytes)
{
    uint64_t c = ~crc;

    if (len_bytes < 3 * short_runs.bytes)
        return ~one_run((uint32_t)c, p, len_bytes);
    for (; len_bytes >= 3 * long_runs.bytes; p += 3 * long_runs.bytes, len_bytes -= 3 * long_runs.bytes)
        c = three_runs((uint32_t)c, p, &long_runs);
    for (; len_bytes >= 3 * short_runs.bytes; p += 3 * short_runs.bytes, len_bytes -= 3 * short_runs.bytes)
        c = three_runs((uint32_t)c, p, &short_runs);
    return ~one_run((uint32_t)c, p, len_bytes);
}

__attribute__((constructor)) static void prepare(void)
{
    make_table();
    __builtin_cpu_init();
    has_instruction = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

uint32_t emx_crc32c(uint32_t crc, const void *buf, size_t len_bytes)
{
    if (__builtin_expect(has_instruction, 1))
        return by_instruction(crc, buf, len_bytes);
    return emx_crc32c_table(crc, buf, len_bytes);
}

#else

__attribute__((constructor)) static void prepare(void)
{
    make_table();
}

uint32_t emx_crc32c(uint32_t crc, const void *buf, size_t len_bytes)
{
    return emx_crc32c_table(crc, buf, len_bytes);
}

#endif
