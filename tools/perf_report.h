/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Report: what ethmx_perf's client prints, as a table while it runs or as JSON.
 */
#ifndef EMX_TOOLS_PERF_REPORT_H
#define EMX_TOOLS_PERF_REPORT_H

#include <stdbool.h>

#include "json.h"
#include "perf_run.h"

struct perf_print {
    struct emx_json json;
    bool as_json;
    bool counters;
    bool started;        /* the head is out */
    enum perf_test last; /* whose table head is out */
};

void perf_print_init(struct perf_print *p, bool as_json, bool counters);

/* Once the ends are connected: who talks to whom over what. */
void perf_print_head(struct perf_print *p, const struct perf_run *r);

void perf_print_line(struct perf_print *p, const struct perf_line *l);

/* Counters when wanted, and the end. Right also when nothing was printed before. */
void perf_print_end(struct perf_print *p, bool ok, const struct perf_report *mine, const struct perf_report *other);

#endif
