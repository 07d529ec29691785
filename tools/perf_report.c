/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

void perf_print_init(struct perf_print *p, bool as_json, bool counters)
{
    *p = (struct perf_print){
        .as_json = as_json, .counters = counters, .progress = isatty(STDERR_FILENO), .last = PERF_TESTS};
    emx_json_init(&p->json, stdout);
}

void perf_print_progress(const struct perf_print *p, enum perf_test test, uint64_t size_bytes, unsigned done,
                         unsigned all)
{
    if (p->progress)
        fprintf(stderr, "\r\033[K%s, %" PRIu64 " bytes (%u of %u)", perf_test_name(test), size_bytes, done + 1, all);
}

void perf_print_calm(const struct perf_print *p)
{
    if (p->progress)
        fputs("\r\033[K", stderr);
}

static void report_head_json(struct perf_print *p, const struct perf_plan *plan, const struct ethmx_peer_info *info)
{
    struct emx_json *j = &p->json;

    emx_json_open(j, NULL, '{');
    emx_json_string(j, "version", ethmx_version());
    emx_json_string(j, "host", info->host);
    emx_json_string(j, "wire", info->wire);
    emx_json_string(j, "interface", info->interface);
    emx_json_uint(j, "frame_bytes", info->frame_bytes);
    emx_json_bool(j, "check", plan->flags & PERF_CHECK);
    emx_json_bool(j, "sleep", plan->flags & PERF_SLEEP);
    emx_json_open(j, "results", '[');
}

void perf_print_head(struct perf_print *p, const struct perf_run *r)
{
    struct ethmx_peer_info info = {.struct_bytes = sizeof(info)};

    ethmx_peer_query(r->ep, r->peer, &info);
    p->started = true;
    if (p->as_json) {
        report_head_json(p, r->plan, &info);
        return;
    }
    printf("ethmx_perf %s to %s over %s", ethmx_version(), info.host, info.wire);
    if (info.interface[0])
        printf(" (%s)", info.interface);
    printf(", frames of up to %u bytes\n", info.frame_bytes);
    if (r->plan->flags & PERF_CHECK)
        puts("Times include filling and checking the data.");
    fflush(stdout);
}

/* Each test measures some columns; the head says which. */
static void report_head_table(enum perf_test test)
{
    printf("\n%s\n%12s %9s", perf_test_name(test), "bytes", "messages");
    if (test == PERF_PINGPONG)
        printf(" %10s %10s %10s %11s", "min us", "median us", "p99 us", "MB/s");
    else
        printf(" %11s %13s", "MB/s", "messages/s");
    printf(" %10s %10s\n", "cpu us", "other cpu");
}

static void report_line_json(struct emx_json *j, const struct perf_line *l)
{
    emx_json_open(j, NULL, '{');
    emx_json_string(j, "test", perf_test_name(l->test));
    emx_json_uint(j, "bytes", l->size_bytes);
    emx_json_uint(j, "messages", l->iters);
    if (l->test == PERF_PINGPONG) {
        emx_json_real(j, "min_us", l->min_us);
        emx_json_real(j, "median_us", l->median_us);
        emx_json_real(j, "p99_us", l->p99_us);
    } else {
        emx_json_real(j, "messages_per_s", l->msgs_per_s);
    }
    emx_json_real(j, "mb_per_s", l->mb_per_s);
    emx_json_real(j, "cpu_us", l->cpu_us);
    emx_json_real(j, "other_cpu_us", l->other_cpu_us);
    emx_json_close(j, '}');
}

void perf_print_line(struct perf_print *p, const struct perf_line *l)
{
    if (p->as_json) {
        report_line_json(&p->json, l);
        return;
    }
    if (p->last != l->test)
        report_head_table(l->test);
    p->last = l->test;
    printf("%12" PRIu64 " %9" PRIu64, l->size_bytes, l->iters);
    if (l->test == PERF_PINGPONG)
        printf(" %10.2f %10.2f %10.2f %11.2f", l->min_us, l->median_us, l->p99_us, l->mb_per_s);
    else
        printf(" %11.2f %13.0f", l->mb_per_s, l->msgs_per_s);
    printf(" %10.2f %10.2f\n", l->cpu_us, l->other_cpu_us);
    fflush(stdout);
}

/* The other end's value counts only when its table is as long as ours: both ends are of one version. */
static uint64_t report_other_value(const struct perf_report *mine, const struct perf_report *other, unsigned i)
{
    return other->counter_count == mine->counter_count ? other->counter[i] : 0;
}

static void report_counters_table(const struct perf_report *mine, const struct perf_report *other)
{
    printf("\n%-20s %15s %15s  %s\n", "counter", "this end", "other end", "unit");
    for (unsigned i = 0; i < mine->counter_count; i++) {
        const struct ethmx_counter_info *c = ethmx_counter(i);
        uint64_t theirs = report_other_value(mine, other, i);

        if (mine->counter[i] || theirs)
            printf("%-20s %15" PRIu64 " %15" PRIu64 "  %s\n", c->name, mine->counter[i], theirs, c->unit);
    }
}

static void report_counters_json(struct emx_json *j, const struct perf_report *mine, const struct perf_report *other)
{
    emx_json_open(j, "counters", '{');
    for (unsigned i = 0; i < mine->counter_count; i++) {
        uint64_t theirs = report_other_value(mine, other, i);

        if (!mine->counter[i] && !theirs)
            continue;
        emx_json_open(j, ethmx_counter(i)->name, '{');
        emx_json_uint(j, "this_end", mine->counter[i]);
        emx_json_uint(j, "other_end", theirs);
        emx_json_close(j, '}');
    }
    emx_json_close(j, '}');
}

void perf_print_end(struct perf_print *p, bool ok, const struct perf_report *mine, const struct perf_report *other)
{
    if (!p->as_json) {
        if (p->counters)
            report_counters_table(mine, other);
        return;
    }
    if (p->started)
        emx_json_close(&p->json, ']');
    else
        emx_json_open(&p->json, NULL, '{');
    if (p->counters)
        report_counters_json(&p->json, mine, other);
    emx_json_uint(&p->json, "data_errors", mine->data_errors + other->data_errors);
    emx_json_bool(&p->json, "ok", ok);
    emx_json_close(&p->json, '}');
}
