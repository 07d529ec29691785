/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What unit tests share: cmocka with what it needs before it, seeds, and an allocator that counts and can fail.
 */
#ifndef EMX_TESTS_UNIT_H
#define EMX_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/hash.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Inside a function that is run once per seed: says what failed and returns false. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            print_error("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                \
            return false;                                                                                              \
        }                                                                                                              \
    } while (0)

/* Runs fn with the seeds 1 to count, or with the one in EMX_SEED. A failure prints the seed. */
static inline void each_seed(uint64_t count, bool (*fn)(uint64_t seed))
{
    const char *only = getenv("EMX_SEED");
    uint64_t first = only ? strtoull(only, NULL, 0) : 1;
    uint64_t last = only ? first : count;

    for (uint64_t seed = first; seed <= last; seed++)
        if (!fn(seed))
            fail_msg("failed with seed %llu: EMX_SEED=%llu replays it", (unsigned long long)seed,
                     (unsigned long long)seed);
}

/* Counts what is out, and lets the call number fail_at (from 1; 0: none) and all after it fail. */
struct unit_alloc {
    struct emx_alloc alloc;
    unsigned calls, fail_at;
    int live;
};

static inline void *unit_alloc_get(void *arg, size_t len_bytes)
{
    struct unit_alloc *u = arg;
    void *ptr;

    if (++u->calls >= u->fail_at && u->fail_at)
        return NULL;
    ptr = malloc(len_bytes);
    assert_non_null(ptr);
    u->live++;
    return ptr;
}

static inline void unit_alloc_put(void *arg, void *ptr)
{
    struct unit_alloc *u = arg;

    if (ptr)
        u->live--;
    free(ptr);
}

static inline void unit_alloc_init(struct unit_alloc *u)
{
    *u = (struct unit_alloc){.alloc = {unit_alloc_get, unit_alloc_put, u}};
}

#endif
