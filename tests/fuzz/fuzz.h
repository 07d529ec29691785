/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the fuzz targets share. A target is a program with fuzz_one(); with --enable-fuzzers it is driven by libFuzzer,
 * otherwise it plays the files that it is given (see replay.c).
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

/* What is violated ends the program, with a sentence. */
#define FUZZ_CHECK(condition, ...)                                                                                     \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "violated: %s: ", #condition);                                                             \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The input, read as numbers; zeros when it is used up. */
struct fuzz_input {
    const uint8_t *at;
    size_t left_bytes;
};

static inline uint64_t fuzz_number(struct fuzz_input *in, unsigned bytes)
{
    uint64_t v = 0;

    for (; bytes && in->left_bytes; bytes--, in->left_bytes--)
        v = v << 8 | *in->at++;
    return v;
}

static inline unsigned fuzz_below(struct fuzz_input *in, unsigned limit)
{
    return (unsigned)fuzz_number(in, limit > 256 ? 2 : 1) % limit;
}

/* A copy in memory of exactly its length, so that the sanitizer sees any byte beyond. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t len_bytes)
{
    uint8_t *copy = malloc(len_bytes ? len_bytes : 1);

    FUZZ_CHECK(copy, "no memory");
    if (len_bytes)
        memcpy(copy, data, len_bytes);
    return copy;
}

#endif
