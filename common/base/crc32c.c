/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Three implementations of the same function.
 *
 * The instruction of SSE 4.2 takes 8 bytes, and several can be in progress at a time, but each waits for the result of
 * the one before. A single chain would leave most of the unit idle. So long buffers are split into three runs of equal
 * length whose chains are computed in parallel. To join them, each crc must be advanced over n zero bytes: a
 * multiplication by x^(8n) modulo the polynomial. In the bit order of this crc, the carry-less product of two 32-bit
 * numbers, passed through the instruction as 8 bytes, is multiplied by x^33. So each factor below is x^(8n - 33) modulo
 * the polynomial. For 8 bytes that is x^31, which is 1 in this order. Passing 8 zero bytes through the instruction
 * gives the next factor.
 *
 * A run is a third of the buffer (at most RUN_MOST), not a fixed length, so that no long remainder is left to a single
 * chain.
 *
 * Processors with carry-less products of vectors (VPCLMULQDQ) fold instead (Gopal et al., "Fast CRC Computation for
 * Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009). Of 16 bytes, each half is multiplied by the power of x
 * for its distance, modulo the polynomial, and added to the 16 bytes at that distance. The crc stays the same, and the
 * buffer becomes shorter. Four vectors of 64 bytes are folded in parallel, then into one, and its four lanes into the
 * last, which is passed through the instruction. The product of two halves is multiplied by x in this order, so the
 * factor of the first half is x^(distance + 63) and that of the second x^(distance - 1).
 *
 * The table implementation takes 8 bytes a step with 8 tables: table[k][b] is the effect of byte b when k more bytes
 * follow it. The tables are computed when the library is loaded.
 */
#include "base/crc32c.h"

#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* bits reversed */
#define HEAD_BYTES 32          /* of emx_crc32c_but() */

static uint32_t table[8][256];

static uint64_t crc32c_load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static void crc32c_make_table(void)
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
        uint64_t v = crc32c_load64(p) ^ c;

        c = 0;
        for (unsigned k = 0; k < 8; k++, v >>= 8)
            c ^= table[7 - k][v & 0xff];
    }
    for (; len_bytes; p++, len_bytes--)
        c = c >> 8 ^ table[0][(c ^ *p) & 0xff];
    return ~c;
}

static uint32_t crc32c_head_by_table(const uint8_t *p)
{
    static const uint8_t zero[4];

    return emx_crc32c_table(emx_crc32c_table(0, p, HEAD_BYTES - sizeof(zero)), zero, sizeof(zero));
}

#ifdef __x86_64__

#include <immintrin.h>

#define TARGET __attribute__((target("sse4.2,pclmul")))

static bool has_instruction;

#define RUN_MOST 1024 /* bytes */
#define RUN_MIN  64   /* joining shorter runs costs more than it saves */

static uint32_t over[2 * RUN_MOST / 8 + 1]; /* by n / 8: the factor that advances a crc over n zero bytes */

TARGET static void make_factors(void)
{
    over[1] = 1;
    for (unsigned i = 1; i < 2 * RUN_MOST / 8; i++)
        over[i + 1] = (uint32_t)_mm_crc32_u64(over[i], 0);
}

TARGET static inline uint32_t move(uint32_t c, uint32_t factor)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(c), _mm_cvtsi64_si128(factor), 0);

    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* Computes three runs of that length (a multiple of 8, up to RUN_MOST) at p in parallel. */
TARGET static inline uint32_t three_runs(uint32_t c, const uint8_t *p, size_t bytes)
{
    const uint8_t *p1 = p + bytes, *p2 = p1 + bytes;
    uint64_t c0 = c, c1 = 0, c2 = 0;

    for (size_t i = 0; i < bytes; i += 8) {
        c0 = _mm_crc32_u64(c0, crc32c_load64(p + i));
        c1 = _mm_crc32_u64(c1, crc32c_load64(p1 + i));
        c2 = _mm_crc32_u64(c2, crc32c_load64(p2 + i));
    }
    return move((uint32_t)c0, over[bytes / 4]) ^ move((uint32_t)c1, over[bytes / 8]) ^ (uint32_t)c2;
}

TARGET static inline uint32_t one_run(uint32_t from, const uint8_t *p, size_t len_bytes)
{
    uint64_t c = from;

    for (; len_bytes >= 8; p += 8, len_bytes -= 8)
        c = _mm_crc32_u64(c, crc32c_load64(p));
    for (; len_bytes; p++, len_bytes--)
        c = _mm_crc32_u8((uint32_t)c, *p);
    return (uint32_t)c;
}

TARGET static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t len_bytes)
{
    uint32_t c = ~crc;

    while (len_bytes >= 3 * RUN_MIN) {
        size_t bytes = len_bytes >= 3 * RUN_MOST ? RUN_MOST : len_bytes / 24 * 8;

        c = three_runs(c, p, bytes);
        p += 3 * bytes;
        len_bytes -= 3 * bytes;
    }
    return ~one_run(c, p, len_bytes);
}

TARGET static inline uint32_t head_by_instruction(const uint8_t *p)
{
    uint64_t c = UINT32_MAX;

    for (unsigned i = 0; i < 3; i++)
        c = _mm_crc32_u64(c, crc32c_load64(p + 8 * i));
    return ~(uint32_t)_mm_crc32_u64(c, crc32c_load64(p + 24) & UINT32_MAX);
}

#define WIDE __attribute__((target("sse4.2,pclmul,avx512f,vpclmulqdq")))

#define WIDE_MIN 320 /* bytes: four vectors, and less than one before them */

static bool has_vectors;
static uint64_t fold_far[2];     /* over 256 bytes: factors of the two halves */
static uint64_t fold_near[3][2]; /* over 64, 128 and 192 bytes */
static uint64_t fold_lanes[8];   /* for the four lanes of a vector: over 48, 32 and 16 bytes, and none */

/* x^(31 + 32 * steps) modulo the polynomial, as the upper half of 64 bits. */
TARGET static uint64_t power(unsigned steps)
{
    uint32_t c = 1;

    while (steps--)
        c = _mm_crc32_u32(c, 0);
    return (uint64_t)c << 32;
}

/* Computes the factors over that many bytes. */
TARGET static void make_fold(uint64_t factors[2], unsigned bytes)
{
    factors[0] = power((8 * bytes + 32) / 32);
    factors[1] = power((8 * bytes - 32) / 32);
}

TARGET static void make_folds(void)
{
    make_fold(fold_far, 256);
    for (unsigned i = 0; i < 3; i++) {
        make_fold(fold_near[i], 64 * (i + 1));
        make_fold(&fold_lanes[2 * i], 16 * (3 - i));
    }
}

/* Moves acc to the place of next, and adds next. */
WIDE static inline __m512i fold(__m512i acc, __m512i factors, __m512i next)
{
    __m512i first = _mm512_clmulepi64_epi128(acc, factors, 0x00);
    __m512i second = _mm512_clmulepi64_epi128(acc, factors, 0x11);

    return _mm512_ternarylogic_epi64(first, second, next, 0x96); /* the sum of the three */
}

WIDE static inline __m512i in_each_lane(const uint64_t factors[2])
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)factors));
}

/* The crc of a vector that represents everything before it. */
WIDE static inline uint32_t crc_of(__m512i acc)
{
    __m512i all = fold(acc, _mm512_loadu_si512(fold_lanes), _mm512_maskz_mov_epi64(0xc0, acc));
    __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    __m128i lane = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    uint64_t first = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(lane));

    return (uint32_t)_mm_crc32_u64(first, (uint64_t)_mm_extract_epi64(lane, 1));
}

/* For at least WIDE_MIN bytes. The bytes before the whole vectors are passed through the instruction in parallel. If
 * there is a factor for the length of the vectors, their crc is advanced over them; otherwise it is added to the first
 * vector. */
WIDE static uint32_t by_vectors(uint32_t crc, const uint8_t *p, size_t len_bytes)
{
    const __m512i far = in_each_lane(fold_far), near = in_each_lane(fold_near[0]);
    size_t first_bytes = len_bytes % 64, n = len_bytes - first_bytes;
    uint32_t c = one_run(~crc, p, first_bytes), moved = 0;
    __m512i acc[4];

    p += first_bytes;
    for (unsigned i = 0; i < 4; i++)
        acc[i] = _mm512_loadu_si512(p + 64 * i);
    if (n <= 2 * RUN_MOST)
        moved = move(c, over[n / 8]);
    else
        acc[0] = _mm512_xor_si512(acc[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)c)));
    for (p += 256, n -= 256; n >= 256; p += 256, n -= 256)
        for (unsigned i = 0; i < 4; i++)
            acc[i] = fold(acc[i], far, _mm512_loadu_si512(p + 64 * i));
    for (unsigned i = 0; i < 3; i++)
        acc[3] = fold(acc[i], in_each_lane(fold_near[2 - i]), acc[3]);
    for (; n; p += 64, n -= 64)
        acc[3] = fold(acc[3], near, _mm512_loadu_si512(p));
    return ~(crc_of(acc[3]) ^ moved);
}

__attribute__((constructor)) static void crc32c_prepare(void)
{
    crc32c_make_table();
    __builtin_cpu_init();
    has_instruction = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
    has_vectors = has_instruction && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
    if (has_instruction)
        make_factors();
    if (has_vectors)
        make_folds();
}

uint32_t emx_crc32c(uint32_t crc, const void *buf, size_t len_bytes)
{
    if (len_bytes >= WIDE_MIN && has_vectors)
        return by_vectors(crc, buf, len_bytes);
    return emx_crc32c_instruction(crc, buf, len_bytes);
}

uint32_t emx_crc32c_but(const void *buf, size_t rest_bytes)
{
    uint32_t crc = __builtin_expect(has_instruction, 1) ? head_by_instruction(buf) : crc32c_head_by_table(buf);

    return emx_crc32c(crc, (const uint8_t *)buf + HEAD_BYTES, rest_bytes);
}

uint32_t emx_crc32c_instruction(uint32_t crc, const void *buf, size_t len_bytes)
{
    if (__builtin_expect(has_instruction, 1))
        return by_instruction(crc, buf, len_bytes);
    return emx_crc32c_table(crc, buf, len_bytes);
}

#else

__attribute__((constructor)) static void crc32c_prepare(void)
{
    crc32c_make_table();
}

uint32_t emx_crc32c(uint32_t crc, const void *buf, size_t len_bytes)
{
    return emx_crc32c_table(crc, buf, len_bytes);
}

uint32_t emx_crc32c_but(const void *buf, size_t rest_bytes)
{
    return emx_crc32c_table(crc32c_head_by_table(buf), (const uint8_t *)buf + HEAD_BYTES, rest_bytes);
}

uint32_t emx_crc32c_instruction(uint32_t crc, const void *buf, size_t len_bytes)
{
    return emx_crc32c_table(crc, buf, len_bytes);
}

#endif
