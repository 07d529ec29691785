/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_usage.h"

#include <stdio.h>
#include <stdlib.h>

void perf_usage_error(const char *command, const char *sentence)
{
    if (sentence)
        fprintf(stderr, "ethmx_perf: %s\n", sentence);
    fprintf(stderr, "Try \"%s --help\".\n", command);
    exit(2);
}

uint64_t perf_usage_number(const char *command, const char *option, const char *text, uint64_t limit)
{
    char sentence[128];
    uint64_t value;

    if (perf_number(text, limit, &value) && value)
        return value;
    snprintf(sentence, sizeof(sentence), "%s takes a number from 1 to %llu", option, (unsigned long long)limit);
    perf_usage_error(command, sentence);
}

void perf_usage_sizes(const char *command, struct perf_plan *plan, const char *text)
{
    char err[256];

    if (!perf_plan_sizes(plan, text, err, sizeof(err)))
        perf_usage_error(command, err);
}
