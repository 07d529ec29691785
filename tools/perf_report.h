/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Report: the output of ethmx_perf's client, as a table while it runs or as JSON at the end.
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
    bool progress;       /* stderr is a terminal */
    bool started;        /* the head is printed */
    enum perf_test last; /* the test whose table head was printed last */
};

void perf_print_init(struct perf_print *p, bool as_json, bool counters);

/* Prints which hosts are connected, and over which wire. */
void perf_print_head(struct perf_print *p, const struct perf_run *r);

/* On a terminal: says in one line what is being measured; sizes: done of all. perf_print_calm() removes the line. */
void perf_print_progress(const struct perf_print *p, enum perf_test test, uint64_t size_bytes, unsigned done,
                         unsigned all);
void perf_print_calm(const struct perf_print *p);

void perf_print_line(struct perf_print *p, const struct perf_line *l);

/* Prints counters if wanted, and the end. Also valid when nothing was printed before. */
void perf_print_end(struct perf_print *p, bool ok, const struct perf_report *mine, const struct perf_report *other);

#endif
