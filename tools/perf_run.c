/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ping-pong: the client sends and the server returns each message; the client notes every round trip.
 *
 * Stream and rate: the server posts a window of receives and tells the client so; the client keeps a window of sends
 * under way; when all are there the server says so, which stops the clock. So no message is unexpected, and the time
 * of the last message counts. A shorter pass goes before, unmeasured.
 *
 * Processor time: each end takes its own, over all messages of a ping-pong or of the measured pass of a stream; the
 * server tells the client its own in the last token. An end that polls uses all the time that it waits.
 *
 * Waiting: an end polls, and after a few hundred looks in vain lets others have the processor between two looks, so
 * that more processes than processors still work. Now and then it looks whether the other end has failed.
 */
#include "perf_run.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define IDLE_SPINS     300
#define IDLE_CONTROL   1024 /* looks in vain between two looks at the control connection */
#define SLEEP_NS       50000000
#define REPORT_WAIT_NS 60000000000
#define FAILED_WAIT_NS 3000000000
#define GUARD_BYTES    64
#define GUARD          0xa5

enum kind { KIND_DATA, KIND_READY, KIND_DONE, KIND_PONG, KIND_CPU };

/* A send or receive of the test, again and again. */
struct slot {
    struct perf_run *run;
    uint8_t *buffer;
    uint64_t size_bytes, bits, seq;
    bool receives, busy;
    bool unchecked; /* never filled nor verified: a token */
};

struct slots {
    struct slot *slot;
    unsigned count;
    uint8_t *memory;
};

static uint64_t run_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Of all threads of this process. */
static uint64_t run_cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Keeps the first failure. */
static int __attribute__((format(printf, 3, 4))) run_fail(struct perf_run *r, int status, const char *fmt, ...)
{
    va_list args;

    if (r->status)
        return -1;
    r->status = status;
    va_start(args, fmt);
    vsnprintf(r->text, sizeof(r->text), fmt, args);
    va_end(args);
    return -1;
}

/* ---- Waiting ---------------------------------------------------------------------------------------------- */

static void run_look_at_control(struct perf_run *r)
{
    struct perf_report other;
    enum perf_peek peek = perf_control_peek(r->control_fd, &other);

    if (peek == PERF_PEEK_CLOSED)
        run_fail(r, ETHMX_ERR_PEER_DEAD, "the other end's process has ended");
    else if (peek == PERF_PEEK_REPORT && other.status)
        run_fail(r, other.status, "stopped by the other end");
}

static void run_advance(struct perf_run *r)
{
    if (ethmx_progress(r->ep)) {
        r->idle = 0;
        return;
    }
    r->idle++;
    if (r->plan->flags & PERF_SLEEP)
        ethmx_wait(r->ep, SLEEP_NS);
    else if (r->idle > IDLE_SPINS)
        sched_yield();
    if (r->idle % IDLE_CONTROL == 0 || r->plan->flags & PERF_SLEEP)
        run_look_at_control(r);
}

static int run_wait_slot(struct slot *s)
{
    while (s->busy && !s->run->status)
        run_advance(s->run);
    return s->run->status ? -1 : 0;
}

/* ---- Data ------------------------------------------------------------------------------------------------- */

static uint64_t run_pattern(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed << 40) + i * UINT64_C(0x9e3779b97f4a7c15);

    return x ^ x >> 29;
}

/* The n-th eight bytes of a message differ from those of any other message and place nearby. */
static void run_fill(uint8_t *buf, uint64_t len_bytes, uint64_t seed)
{
    uint64_t i, word;

    for (i = 0; i + 8 <= len_bytes; i += 8) {
        word = run_pattern(seed, i);
        memcpy(buf + i, &word, 8);
    }
    word = run_pattern(seed, i);
    memcpy(buf + i, &word, len_bytes - i);
}

static bool run_intact(const uint8_t *buf, uint64_t len_bytes, uint64_t seed)
{
    uint64_t i, word;

    for (i = 0; i + 8 <= len_bytes; i += 8) {
        word = run_pattern(seed, i);
        if (memcmp(buf + i, &word, 8))
            return false;
    }
    word = run_pattern(seed, i);
    if (memcmp(buf + i, &word, len_bytes - i))
        return false;
    for (i = len_bytes; i < len_bytes + GUARD_BYTES; i++) {
        if (buf[i] != GUARD)
            return false;
    }
    return true;
}

static uint64_t run_seed_of(const struct slot *s)
{
    return s->bits * 31 + s->seq;
}

/* ---- Operations ------------------------------------------------------------------------------------------- */

static bool run_checked(const struct slot *s)
{
    return s->run->plan->flags & PERF_CHECK && s->size_bytes && !s->unchecked;
}

static void run_received(struct slot *s, const struct ethmx_result *result)
{
    struct perf_run *r = s->run;

    if (result->len_bytes != s->size_bytes || result->bits != s->bits || result->peer != r->peer)
        run_fail(r, ETHMX_ERR_PARAM, "a message came with a wrong length, tag or sender: %zu bytes for %llu",
                 result->len_bytes, (unsigned long long)s->size_bytes);
    else if (run_checked(s) && !run_intact(s->buffer, s->size_bytes, run_seed_of(s)))
        r->data_errors++;
}

static void run_slot_done(void *arg, const struct ethmx_result *result)
{
    struct slot *s = arg;

    s->busy = false;
    if (result->status)
        run_fail(s->run, result->status, "a %s of %llu bytes failed: %s", s->receives ? "receive" : "send",
                 (unsigned long long)s->size_bytes, ethmx_strerror(result->status));
    else if (s->receives)
        run_received(s, result);
}

/* Starts the slot's operation as message number seq. */
static int run_start(struct slot *s, uint64_t seq)
{
    const struct ethmx_data data = {.len_bytes = s->size_bytes, .base = s->buffer};
    struct perf_run *r = s->run;
    struct ethmx_result result;
    int ret;

    s->seq = seq;
    s->busy = true;
    if (s->receives) {
        if (run_checked(s))
            memset(s->buffer, 0, s->size_bytes);
        ret = ethmx_irecv(r->ep, r->peer, s->bits, UINT64_MAX, &data, run_slot_done, s, NULL, &result);
    } else {
        if (run_checked(s))
            run_fill(s->buffer, s->size_bytes, run_seed_of(s));
        result = (struct ethmx_result){.status = ETHMX_OK};
        ret = ethmx_isend(r->ep, r->peer, s->bits, &data, ETHMX_SEND_STANDARD, run_slot_done, s);
    }
    if (ret == ETHMX_INPROGRESS)
        return 0;
    if (ret != ETHMX_OK)
        return run_fail(r, ret, "%s: %s", ethmx_strerror(ret), ethmx_error_text());
    run_slot_done(s, &result);
    return r->status ? -1 : 0;
}

static void run_slot_init(struct slot *s, struct perf_run *r, enum kind kind, bool receives)
{
    *s = (struct slot){.run = r, .bits = (uint64_t)r->phase << 8 | kind, .receives = receives};
}

/* Sends or receives an empty message. */
static int run_token(struct perf_run *r, enum kind kind, bool receives)
{
    struct slot s;

    run_slot_init(&s, r, kind, receives);
    return run_start(&s, 0) || run_wait_slot(&s) ? -1 : 0;
}

/* Sends or receives a number. */
static int run_token_number(struct perf_run *r, enum kind kind, bool receives, uint64_t *number)
{
    struct slot s;

    run_slot_init(&s, r, kind, receives);
    s.unchecked = true;
    s.buffer = (uint8_t *)number;
    s.size_bytes = sizeof(*number);
    return run_start(&s, 0) || run_wait_slot(&s) ? -1 : 0;
}

/* Ends a measurement of messages at each end: the server tells its processor time. begin_ns: when it began here. Sets
 * the client's line. */
static int run_end_cpu(struct perf_run *r, uint64_t begin_ns, uint64_t messages, struct perf_line *l)
{
    uint64_t mine_ns = run_cpu_ns() - begin_ns, server_ns = mine_ns;

    if (run_token_number(r, KIND_CPU, r->client, &server_ns))
        return -1;
    l->cpu_us = (double)mine_ns / 1000 / (double)messages;
    l->other_cpu_us = (double)server_ns / 1000 / (double)messages;
    return 0;
}

/* Checked messages have a buffer each; others share one, as benchmarks of this kind do. */
static int run_slots_init(struct slots *set, struct perf_run *r, enum kind kind, bool receives, unsigned count,
                          uint64_t size_bytes)
{
    uint64_t room = (size_bytes + GUARD_BYTES + 4095) & ~UINT64_C(4095);
    bool own = r->plan->flags & PERF_CHECK;

    set->count = count;
    set->slot = calloc(count, sizeof(*set->slot));
    set->memory = aligned_alloc(4096, own ? room * count : room);
    if (!set->slot || !set->memory) {
        free(set->slot);
        free(set->memory);
        return run_fail(r, ETHMX_ERR_NO_MEMORY,
                        "no memory for %u buffers of %llu bytes: use a smaller --window or --sizes", count,
                        (unsigned long long)size_bytes);
    }
    memset(set->memory, GUARD, own ? room * count : room);
    for (unsigned i = 0; i < count; i++) {
        run_slot_init(&set->slot[i], r, kind, receives);
        set->slot[i].buffer = set->memory + (own ? i * room : 0);
        set->slot[i].size_bytes = size_bytes;
    }
    return 0;
}

/* After a failure operations may still be under way and point here: then the memory stays until the program ends. */
static void run_slots_fini(struct slots *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->slot[i].busy)
            return;
    }
    free(set->slot);
    free(set->memory);
}

/* Runs messages from..to-1, each in its slot in turn. */
static int run_slots_start(struct slots *set, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        struct slot *s = &set->slot[i % set->count];

        if (run_wait_slot(s) || run_start(s, i))
            return -1;
    }
    return 0;
}

static int run_slots_wait(struct slots *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (run_wait_slot(&set->slot[i]))
            return -1;
    }
    return 0;
}

/* ---- Ping-pong -------------------------------------------------------------------------------------------- */

/* ping is a send at the client and a receive at the server; pong the other way round. */
static int run_pingpong_once(struct slot *ping, struct slot *pong, uint64_t seq)
{
    if (run_start(ping, seq) || (ping->receives && run_wait_slot(ping)) || run_start(pong, seq))
        return -1;
    return run_wait_slot(ping) || run_wait_slot(pong) ? -1 : 0;
}

static int run_pingpong_loop(struct slot *ping, struct slot *pong, uint64_t warmup, uint64_t iters, uint64_t *rtt_ns)
{
    for (uint64_t i = 0; i < warmup + iters; i++) {
        uint64_t start_ns = run_now_ns();

        if (run_pingpong_once(ping, pong, i))
            return -1;
        if (rtt_ns && i >= warmup)
            rtt_ns[i - warmup] = run_now_ns() - start_ns;
    }
    return 0;
}

static int run_compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Fills the line from round trips; sorts them. */
static void run_pingpong_line(struct perf_line *l, uint64_t *rtt_ns)
{
    qsort(rtt_ns, l->iters, sizeof(*rtt_ns), run_compare_u64);
    l->min_us = (double)rtt_ns[0] / 2000;
    l->median_us = (double)rtt_ns[l->iters / 2] / 2000;
    l->p99_us = (double)rtt_ns[(l->iters - 1) * 99 / 100] / 2000;
    if (l->median_us > 0)
        l->mb_per_s = (double)l->size_bytes / l->median_us;
}

static int run_pingpong(struct perf_run *r, uint64_t size_bytes, struct perf_line *l)
{
    uint64_t warmup = 1 + l->iters / 10, *rtt_ns = calloc(l->iters, sizeof(*rtt_ns)), cpu_begin_ns;
    struct slots ping, pong;
    int ret = -1;

    if (!rtt_ns)
        return run_fail(r, ETHMX_ERR_NO_MEMORY, "no memory for %llu round trips", (unsigned long long)l->iters);
    r->phase++;
    if (run_slots_init(&ping, r, KIND_DATA, !r->client, 1, size_bytes))
        goto err_free_rtt;
    if (run_slots_init(&pong, r, KIND_PONG, r->client, 1, size_bytes))
        goto err_fini_ping;
    cpu_begin_ns = run_cpu_ns();
    ret = run_pingpong_loop(&ping.slot[0], &pong.slot[0], warmup, l->iters, rtt_ns);
    if (!ret)
        ret = run_end_cpu(r, cpu_begin_ns, 2 * (warmup + l->iters), l);
    if (!ret)
        run_pingpong_line(l, rtt_ns);
    run_slots_fini(&pong);
err_fini_ping:
    run_slots_fini(&ping);
err_free_rtt:
    free(rtt_ns);
    return ret;
}

/* ---- Stream and rate -------------------------------------------------------------------------------------- */

static int run_stream_client(struct perf_run *r, struct slots *set, uint64_t count, uint64_t *time_ns_p)
{
    uint64_t start_ns;

    if (run_token(r, KIND_READY, true))
        return -1;
    start_ns = run_now_ns();
    if (run_slots_start(set, 0, count) || run_slots_wait(set) || run_token(r, KIND_DONE, true))
        return -1;
    *time_ns_p = run_now_ns() - start_ns;
    return 0;
}

static int run_stream_server(struct perf_run *r, struct slots *set, uint64_t count)
{
    uint64_t first = count < set->count ? count : set->count;

    if (run_slots_start(set, 0, first) || run_token(r, KIND_READY, false))
        return -1;
    return run_slots_start(set, first, count) || run_slots_wait(set) || run_token(r, KIND_DONE, false) ? -1 : 0;
}

static int run_stream_pass(struct perf_run *r, unsigned window, uint64_t size_bytes, uint64_t count,
                           uint64_t *time_ns_p)
{
    struct slots set;
    int ret;

    r->phase++;
    if (run_slots_init(&set, r, KIND_DATA, !r->client, window, size_bytes))
        return -1;
    ret = r->client ? run_stream_client(r, &set, count, time_ns_p) : run_stream_server(r, &set, count);
    run_slots_fini(&set);
    return ret;
}

static int run_stream(struct perf_run *r, uint64_t size_bytes, struct perf_line *l)
{
    unsigned window = perf_plan_window(r->plan, l->test, size_bytes);
    uint64_t time_ns = 0, cpu_begin_ns;

    if (run_stream_pass(r, window, size_bytes, 1 + l->iters / 10, &time_ns))
        return -1;
    cpu_begin_ns = run_cpu_ns();
    if (run_stream_pass(r, window, size_bytes, l->iters, &time_ns) || run_end_cpu(r, cpu_begin_ns, l->iters, l))
        return -1;
    if (time_ns) {
        l->msgs_per_s = (double)l->iters * 1e9 / (double)time_ns;
        l->mb_per_s = l->msgs_per_s * (double)size_bytes / 1e6;
    }
    return 0;
}

int perf_run_test(struct perf_run *r, enum perf_test test, uint64_t size_bytes, struct perf_line *line_p)
{
    *line_p =
        (struct perf_line){.test = test, .size_bytes = size_bytes, .iters = perf_plan_iters(r->plan, test, size_bytes)};
    return test == PERF_PINGPONG ? run_pingpong(r, size_bytes, line_p) : run_stream(r, size_bytes, line_p);
}

/* ---- Beginning and end ------------------------------------------------------------------------------------ */

static void run_on_error(void *arg, struct ethmx_peer *peer, int status, const char *text)
{
    (void)peer;
    run_fail(arg, status, "%s", text);
}

/* The configuration: this end's environment, and the plan's wires. */
static int run_open_endpoint(struct perf_run *r, const char *reach)
{
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION, .struct_bytes = sizeof(opt), .reach = reach};
    struct ethmx_config *cfg;
    int ret = ethmx_config_create(&cfg);

    if (ret)
        return run_fail(r, ret, "%s", ethmx_error_text());
    memcpy(opt.job_key, r->plan->job_key, sizeof(opt.job_key));
    if (r->plan->wires[0])
        ret = ethmx_config_set(cfg, "wires", r->plan->wires, "--wire");
    if (!ret)
        ret = ethmx_ep_open(cfg, &opt, &r->ep);
    if (ret)
        run_fail(r, ret, "%s", ethmx_error_text());
    ethmx_config_destroy(cfg);
    return ret ? -1 : 0;
}

/* Sends the own address, or what went wrong, and gets the other's. Both are done whatever happens, so that neither end
 * closes before the other has read its sentence. */
static int run_exchange(struct perf_run *r, struct perf_greeting *other)
{
    struct perf_greeting mine = {.status = r->status};
    size_t len_bytes = sizeof(mine.addr);
    int ret;

    memcpy(mine.text, r->text, sizeof(mine.text));
    if (!r->status) {
        ethmx_ep_address(r->ep, mine.addr, &len_bytes);
        mine.addr_bytes = (uint32_t)len_bytes;
    }
    ret = perf_control_send_greeting(r->control_fd, &mine) || perf_control_recv_greeting(r->control_fd, other) ? -1 : 0;
    if (r->status)
        fprintf(stderr, "ethmx_perf: %s\n", r->text);
    else if (!ret && other->status)
        fprintf(stderr, "ethmx_perf: the other end: %s\n", other->text);
    return ret || r->status || other->status ? -1 : 0;
}

int perf_run_open(struct perf_run *r, const struct perf_plan *plan, int control_fd, bool client, const char *reach)
{
    struct perf_greeting other = {.status = 0};
    int ret;

    *r = (struct perf_run){.plan = plan, .control_fd = control_fd, .client = client};
    run_open_endpoint(r, reach);
    if (run_exchange(r, &other))
        return -1;
    ethmx_ep_on_error(r->ep, run_on_error, r);
    ret = ethmx_peer_add(r->ep, other.addr, other.addr_bytes, NULL, &r->peer);
    if (ret)
        run_fail(r, ret, "%s", ethmx_error_text());
    else if (!run_token(r, client ? KIND_READY : KIND_DONE, false))
        run_token(r, client ? KIND_DONE : KIND_READY, true);
    return 0;
}

static void run_fill_report(const struct perf_run *r, struct perf_report *report)
{
    *report = (struct perf_report){.status = r->status, .data_errors = r->data_errors};
    memcpy(report->text, r->text, sizeof(report->text));
    for (unsigned i = 0; i < PERF_COUNTERS_MAX && ethmx_counter(i); i++) {
        report->counter[i] = ethmx_counter_read(r->ep, i);
        report->counter_count = i + 1;
    }
}

static int run_judge(const char *end, const struct perf_report *report)
{
    if (report->status)
        fprintf(stderr, "ethmx_perf: %s: %s\n", end, report->text);
    if (report->data_errors)
        fprintf(stderr, "ethmx_perf: %s: %llu messages had wrong data\n", end, (unsigned long long)report->data_errors);
    return report->status || report->data_errors ? -1 : 0;
}

/* The other end may still need our acknowledgements: goes on until it says that it has finished. After a failure the
 * network may be cut, and its report may never come. */
static enum perf_peek run_await_report(struct perf_run *r, struct perf_report *other_p)
{
    uint64_t end_ns = run_now_ns() + (r->status ? FAILED_WAIT_NS : REPORT_WAIT_NS);
    enum perf_peek peek;

    while ((peek = perf_control_take(r->control_fd, other_p)) == PERF_PEEK_NOTHING && run_now_ns() < end_ns) {
        if (!ethmx_progress(r->ep))
            sched_yield();
    }
    return peek;
}

int perf_run_finish(struct perf_run *r, struct perf_report *mine_p, struct perf_report *other_p)
{
    enum perf_peek peek;
    int ret;

    run_fill_report(r, mine_p);
    *other_p = (struct perf_report){.status = 0};
    ret = run_judge("this end", mine_p);
    if (perf_control_send_report(r->control_fd, mine_p))
        return -1;
    peek = run_await_report(r, other_p);
    if (peek != PERF_PEEK_REPORT && !mine_p->status) {
        fprintf(stderr, "ethmx_perf: the other end %s\n",
                peek == PERF_PEEK_CLOSED ? "has ended without a report" : "does not answer any more");
        return -1;
    }
    return run_judge("the other end", other_p) ? -1 : ret;
}

void perf_run_close(struct perf_run *r)
{
    if (r->ep)
        ethmx_ep_close(r->ep);
    r->ep = NULL;
}
