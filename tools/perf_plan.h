/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plan: what the two ends of an ethmx_perf run do. The client makes it from its command line. The server receives it
 * and checks it again, because it comes from a network.
 */
#ifndef EMX_TOOLS_PERF_PLAN_H
#define EMX_TOOLS_PERF_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_SIZES_MAX    64
#define PERF_SIZE_LIMIT   (UINT64_C(1) << 36)
#define PERF_ITERS_LIMIT  100000000
#define PERF_WINDOW_LIMIT 4096

enum perf_test { PERF_PINGPONG, PERF_STREAM, PERF_RATE, PERF_TESTS };

#define PERF_CHECK 1u /* fill and verify all data */
#define PERF_SLEEP 2u /* wait in ethmx_wait() instead of polling */

struct perf_plan {
    uint32_t tests;      /* bit per enum perf_test */
    uint32_t flags;      /* PERF_CHECK, ... */
    uint32_t window;     /* messages under way in stream and rate; 0: the test's own */
    uint32_t size_count; /* 0: the test's own sizes */
    uint64_t iters;      /* 0: by size */
    uint64_t size[PERF_SIZES_MAX];
    uint8_t job_key[16];
    char wires[128]; /* as ETHMX_WIRES; "": each end's own setting */
};

/* Name of a test. */
const char *perf_test_name(enum perf_test test);

/* Reads "pingpong", a comma list of tests, or "all". false: there is none of that name. */
bool perf_plan_tests(struct perf_plan *p, const char *text);

/* Reads a comma list of sizes (suffixes k, m, g) and doubling ranges "a:b". false, and a sentence in err. */
bool perf_plan_sizes(struct perf_plan *p, const char *text, char *err, size_t err_len_bytes);

/* Whether a plan that was received keeps to all limits. */
bool perf_plan_valid(const struct perf_plan *p);

/* Fills in the sizes of this test if the plan has none. */
void perf_plan_complete(struct perf_plan *p, enum perf_test test);

/* Messages of a test at this size, and how many of them are under way at once. */
uint64_t perf_plan_iters(const struct perf_plan *p, enum perf_test test, uint64_t size);
unsigned perf_plan_window(const struct perf_plan *p, enum perf_test test, uint64_t size);

/* A whole number with an optional suffix k, m or g. false: it is not one, or above limit. */
bool perf_number(const char *text, uint64_t limit, uint64_t *value_p);

#endif
