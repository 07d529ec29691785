/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Run: one end of an ethmx_perf measurement. Both ends execute the same plan. The client starts each exchange and
 * measures the time; the server answers.
 */
#ifndef EMX_TOOLS_PERF_RUN_H
#define EMX_TOOLS_PERF_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "ethmx.h"
#include "perf_control.h"
#include "perf_plan.h"

struct perf_run {
    const struct perf_plan *plan;
    int control_fd; /* see perf_control.h; the caller's */
    bool client;
    struct ethmx_ep *ep;
    struct ethmx_peer *peer;
    uint32_t phase;       /* counts passes, in the match bits: messages of two passes never meet */
    unsigned idle;        /* polls in a row without progress */
    uint64_t data_errors; /* messages that failed the check */
    int status;           /* first failure; text has the sentence */
    char text[PERF_TEXT_MAX];
};

/* A line of the table. A time or rate that the test does not measure is 0. */
struct perf_line {
    enum perf_test test;
    uint64_t size_bytes, iters;
    double min_us, median_us, p99_us; /* half round trips */
    double mb_per_s;                  /* 10^6 bytes */
    double msgs_per_s;
    double cpu_us, other_cpu_us; /* processor time of each end's process per message, sent or received */
};

/* Opens the endpoint, exchanges addresses over control_fd and connects to the other end. reach: see struct
 * ethmx_ep_options. -1: one end has no endpoint, and the sentence is on stderr. 0: both have one; r->status says
 * whether they reach each other, and perf_run_finish() must follow. perf_run_close() is valid in all cases. */
int perf_run_open(struct perf_run *r, const struct perf_plan *plan, int control_fd, bool client, const char *reach);

/* Runs a test at one size. 0 and, at the client, *line_p; or -1 and r->text. */
int perf_run_test(struct perf_run *r, enum perf_test test, uint64_t size_bytes, struct perf_line *line_p);

/* Sends this end's report and receives the other's. 0: both succeeded; otherwise the sentences are on stderr. */
int perf_run_finish(struct perf_run *r, struct perf_report *mine_p, struct perf_report *other_p);

void perf_run_close(struct perf_run *r);

#endif
