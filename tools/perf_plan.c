/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_plan.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a test does when nothing else is asked for. Iterations fall with the size so that each line of the table moves
 * about budget_bytes, and takes about as long as the others. */
static const struct test_info {
    const char *name, *sizes;
    unsigned window;
    uint64_t iters_min, iters_max, budget_bytes;
} test_info[PERF_TESTS] = {
    [PERF_PINGPONG] = {"pingpong", "0,1:4m", 1, 20, 10000, 200000000},
    [PERF_STREAM] = {"stream", "1k:4m", 64, 40, 50000, 400000000},
    [PERF_RATE] = {"rate", "1:1k", 256, 100, 200000, 100000000},
};

#define WINDOW_BYTES (64 << 20) /* buffers of the messages under way are held to this, when --window does not say */

const char *perf_test_name(enum perf_test test)
{
    return test_info[test].name;
}

static int plan_find_test(const char *name, size_t len)
{
    for (int i = 0; i < PERF_TESTS; i++) {
        if (strlen(test_info[i].name) == len && !memcmp(test_info[i].name, name, len))
            return i;
    }
    return -1;
}

bool perf_plan_tests(struct perf_plan *p, const char *text)
{
    p->tests = 0;
    if (!strcmp(text, "all")) {
        p->tests = (1u << PERF_TESTS) - 1;
        return true;
    }
    for (;;) {
        size_t len = strcspn(text, ",");
        int test = plan_find_test(text, len);

        if (test < 0)
            return false;
        p->tests |= 1u << test;
        if (!text[len])
            return true;
        text += len + 1;
    }
}

bool perf_number(const char *text, uint64_t limit, uint64_t *value_p)
{
    static const char suffixes[] = "kmg";
    unsigned long long value;
    const char *suffix;
    char *end;

    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno || value > limit)
        return false;
    if (*end) {
        suffix = strchr(suffixes, tolower((unsigned char)*end));
        if (!suffix || end[1] || value > limit >> 10 * (suffix - suffixes + 1))
            return false;
        value <<= 10 * (suffix - suffixes + 1);
    }
    *value_p = value;
    return true;
}

/* Adds one size or one range. */
static bool plan_add_sizes(struct perf_plan *p, char *item)
{
    char *colon = strchr(item, ':');
    uint64_t from, to;

    if (colon)
        *colon = 0;
    if (!perf_number(item, PERF_SIZE_LIMIT, &from) || !perf_number(colon ? colon + 1 : item, PERF_SIZE_LIMIT, &to) ||
        from > to)
        return false;
    for (; from <= to; from = from ? 2 * from : 1) {
        if (p->size_count == PERF_SIZES_MAX)
            return false;
        p->size[p->size_count++] = from;
    }
    return true;
}

bool perf_plan_sizes(struct perf_plan *p, const char *text, char *err, size_t err_len_bytes)
{
    char item[48];

    p->size_count = 0;
    for (;;) {
        size_t len = strcspn(text, ",");

        snprintf(item, sizeof(item), "%.*s", (int)len, text);
        if (len >= sizeof(item) || !plan_add_sizes(p, item)) {
            snprintf(err, err_len_bytes,
                     "\"%.*s\" is no size. Sizes are such as 64, 32k or 1:4m (doubling), with commas between; at most "
                     "64g each and %d of them",
                     (int)len, text, PERF_SIZES_MAX);
            return false;
        }
        if (!text[len])
            return true;
        text += len + 1;
    }
}

bool perf_plan_valid(const struct perf_plan *p)
{
    if (!p->tests || p->tests >> PERF_TESTS || p->flags & ~(PERF_CHECK | PERF_SLEEP))
        return false;
    if (p->window > PERF_WINDOW_LIMIT || p->size_count > PERF_SIZES_MAX || p->iters > PERF_ITERS_LIMIT)
        return false;
    for (unsigned i = 0; i < p->size_count; i++) {
        if (p->size[i] > PERF_SIZE_LIMIT)
            return false;
    }
    return memchr(p->wires, 0, sizeof(p->wires));
}

void perf_plan_complete(struct perf_plan *p, enum perf_test test)
{
    char err[4];

    if (!p->size_count)
        perf_plan_sizes(p, test_info[test].sizes, err, sizeof(err));
}

uint64_t perf_plan_iters(const struct perf_plan *p, enum perf_test test, uint64_t size)
{
    const struct test_info *t = &test_info[test];
    uint64_t iters = t->budget_bytes / (size ? size : 1);

    if (p->iters)
        return p->iters;
    return iters < t->iters_min ? t->iters_min : iters > t->iters_max ? t->iters_max : iters;
}

unsigned perf_plan_window(const struct perf_plan *p, enum perf_test test, uint64_t size)
{
    uint64_t fit = WINDOW_BYTES / (size ? size : 1);

    if (test == PERF_PINGPONG)
        return 1;
    if (p->window)
        return p->window;
    return fit < 2 ? 2 : fit < test_info[test].window ? (unsigned)fit : test_info[test].window;
}
