/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ethmx_top: what the processes of this host send and receive through ethmx, refreshed on a terminal, or one sample as
 * JSON. It reads the counters that endpoints keep in shared memory (ETHMX_STATS); these do nothing for it.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ethmx.h"
#include "ethmx_published.h"
#include "json.h"

#define TOP_ENDPOINTS 4096
#define TOP_COUNTERS  256

static const char usage_text[] =
    "Usage: ethmx_top [OPTION]...\n"
    "Shows what the processes of this host send and receive through ethmx: those of this user, for root all.\n"
    "\n"
    "  -d, --delay SECONDS  time between two samples (1)\n"
    "  -n, --count N        ends after N tables (0: never)\n"
    "  -j, --json           one sample of all counters, for machines\n"
    "  -h, --help           this text\n"
    "  -V, --version        the version of this program\n"
    "\n"
    "Columns, per second unless said otherwise: messages and MB sent and received; frames out, in and sent again; "
    "now:\n"
    "messages that wait for a receive; times that the process slept. RANK is the launcher's number, if it is known.\n"
    "Processes with ETHMX_STATS=off do not appear.\n"
    "Exit code: 0; 2 for wrong usage.\n";

struct top_options {
    double delay_s;
    unsigned long count;
    bool json;
};

struct top_endpoint {
    unsigned pid, uid;
    uint32_t endpoint, job;
    uint64_t process;
    char program[24];
    bool known; /* the table of counters is ours */
    uint64_t counter[TOP_COUNTERS];
};

struct top_sample {
    struct timespec at;
    unsigned count;
    struct top_endpoint endpoint[TOP_ENDPOINTS];
};

/* ---- Samples ---- */

static unsigned top_counters(void)
{
    unsigned n = 0;

    while (n < TOP_COUNTERS && ethmx_counter(n))
        n++;
    return n;
}

static void top_add(void *arg, const struct ethmx_published *p)
{
    struct top_sample *s = arg;
    struct top_endpoint *e = &s->endpoint[s->count];

    if (s->count == TOP_ENDPOINTS)
        return;
    s->count++;
    *e = (struct top_endpoint){.pid = p->pid,
                               .uid = p->uid,
                               .endpoint = p->endpoint,
                               .job = p->job,
                               .process = p->process,
                               .known = p->counter != NULL};
    snprintf(e->program, sizeof(e->program), "%s", p->program);
    if (p->counter)
        memcpy(e->counter, p->counter, top_counters() * sizeof(e->counter[0]));
}

/* By job and rank. */
static int top_order(const void *a, const void *b)
{
    const struct top_endpoint *x = a, *y = b;

    if (x->job != y->job)
        return x->job < y->job ? -1 : 1;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static void top_take(struct top_sample *s)
{
    s->count = 0;
    clock_gettime(CLOCK_MONOTONIC, &s->at);
    if (ethmx_each_published(top_add, s)) {
        fprintf(stderr, "ethmx_top: out of memory, or there is no /proc\n");
        exit(1);
    }
    qsort(s->endpoint, s->count, sizeof(s->endpoint[0]), top_order);
}

static const struct top_endpoint *top_same(const struct top_sample *s, const struct top_endpoint *e)
{
    for (unsigned i = 0; i < s->count; i++) {
        if (s->endpoint[i].pid == e->pid && s->endpoint[i].endpoint == e->endpoint && s->endpoint[i].known)
            return &s->endpoint[i];
    }
    return NULL;
}

static double top_seconds(const struct timespec *from, const struct timespec *to)
{
    return (double)(to->tv_sec - from->tv_sec) + (double)(to->tv_nsec - from->tv_nsec) / 1e9;
}

/* ---- Tables ---- */

static const struct top_column {
    const char *title, *counter;
    int width;
    double divisor; /* 0: the value itself, not what was added */
} top_columns[] = {
    {"MSG-OUT", "msgs_sent", 9, 1},      {"MSG-IN", "msgs_received", 9, 1}, {"MB-OUT", "bytes_sent", 8, 1e6},
    {"MB-IN", "bytes_received", 8, 1e6}, {"FRM-OUT", "frames_sent", 9, 1},  {"FRM-IN", "frames_received", 9, 1},
    {"RESENT", "frames_resent", 7, 1},   {"UNEXP", "unexpected_now", 7, 0}, {"SLEEPS", "sleeps", 7, 1},
};

#define TOP_COLUMNS (sizeof(top_columns) / sizeof(top_columns[0]))

static unsigned top_index(const char *name)
{
    for (unsigned i = 0; i < top_counters(); i++) {
        if (!strcmp(ethmx_counter(i)->name, name))
            return i;
    }
    fprintf(stderr, "ethmx_top: the library has no counter %s\n", name);
    exit(1);
}

static void top_print_value(const struct top_column *c, uint64_t before, uint64_t now, double seconds)
{
    double value = c->divisor ? (double)(now - before) / seconds / c->divisor : (double)now;

    printf(" %*.*f", c->width, c->divisor > 1 ? 1 : 0, value);
}

static void top_print_endpoint(const struct top_endpoint *e, const struct top_endpoint *before, double seconds)
{
    char rank[24] = "-";

    if ((uint32_t)e->process)
        snprintf(rank, sizeof(rank), "%" PRIu32, (uint32_t)e->process - 1);
    printf("%08" PRIx32 " %5s %7u %-16.16s", e->job, rank, e->pid, e->program);
    if (!e->known)
        printf(" another version of ethmx");
    for (unsigned i = 0; e->known && i < TOP_COLUMNS; i++) {
        unsigned at = top_index(top_columns[i].counter);

        if (before)
            top_print_value(&top_columns[i], before->counter[at], e->counter[at], seconds);
        else
            printf(" %*s", top_columns[i].width, "-");
    }
    putchar('\n');
}

static void top_print(const struct top_sample *before, const struct top_sample *now)
{
    double seconds = top_seconds(&before->at, &now->at);

    if (isatty(STDOUT_FILENO))
        printf("\033[H\033[2J");
    printf("%-8s %5s %7s %-16s", "JOB", "RANK", "PID", "PROGRAM");
    for (unsigned i = 0; i < TOP_COLUMNS; i++)
        printf(" %*s", top_columns[i].width, top_columns[i].title);
    putchar('\n');
    for (unsigned i = 0; i < now->count; i++)
        top_print_endpoint(&now->endpoint[i], top_same(before, &now->endpoint[i]), seconds);
    if (!now->count)
        printf("(no process whose counters this user may read)\n");
    fflush(stdout);
}

static void top_sleep(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};

    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    while (nanosleep(&t, &t))
        ;
}

static void top_tables(struct top_sample *one, struct top_sample *other, const struct top_options *o)
{
    top_take(one);
    for (unsigned long i = 0; !o->count || i < o->count; i++) {
        struct top_sample *old = one;

        top_sleep(o->delay_s);
        top_take(other);
        top_print(one, other);
        if (ferror(stdout))
            return; /* such as a closed pipe */
        one = other;
        other = old;
    }
}

/* ---- JSON ---- */

static void top_json_endpoint(struct emx_json *j, const struct top_endpoint *e)
{
    char text[16];

    emx_json_open(j, NULL, '{');
    emx_json_uint(j, "pid", e->pid);
    emx_json_uint(j, "uid", e->uid);
    emx_json_string(j, "program", e->program);
    snprintf(text, sizeof(text), "%08" PRIx32, e->job);
    emx_json_string(j, "job", text);
    snprintf(text, sizeof(text), "%08" PRIx32, e->endpoint);
    emx_json_string(j, "endpoint", text);
    if ((uint32_t)e->process)
        emx_json_uint(j, "rank", (uint32_t)e->process - 1);
    if (e->known) {
        emx_json_open(j, "counters", '{');
        for (unsigned i = 0; i < top_counters(); i++)
            emx_json_uint(j, ethmx_counter(i)->name, e->counter[i]);
        emx_json_close(j, '}');
    }
    emx_json_close(j, '}');
}

static void top_json(struct top_sample *s)
{
    struct emx_json j;
    struct timespec t;

    top_take(s);
    clock_gettime(CLOCK_REALTIME, &t);
    emx_json_init(&j, stdout);
    emx_json_open(&j, NULL, '{');
    emx_json_real(&j, "time_s", (double)t.tv_sec + (double)t.tv_nsec / 1e9);
    emx_json_open(&j, "endpoints", '[');
    for (unsigned i = 0; i < s->count; i++)
        top_json_endpoint(&j, &s->endpoint[i]);
    emx_json_close(&j, ']');
    emx_json_close(&j, '}');
}

/* ---- Options ---- */

static void top_usage_error(const char *what)
{
    if (what)
        fprintf(stderr, "ethmx_top: %s\n", what);
    fprintf(stderr, "ethmx_top --help lists the options.\n");
    exit(2);
}

static void top_parse(int argc, char **argv, struct top_options *o)
{
    static const struct option options[] = {
        {"delay", required_argument, NULL, 'd'}, {"count", required_argument, NULL, 'n'},
        {"json", no_argument, NULL, 'j'},        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},     {NULL, 0, NULL, 0}};
    char *end = "";
    int c;

    while ((c = getopt_long(argc, argv, "d:n:jhV", options, NULL)) != -1) {
        switch (c) {
        case 'd':
            o->delay_s = strtod(optarg, &end);
            if (*end || !(o->delay_s >= 0.05 && o->delay_s <= 86400))
                top_usage_error("--delay takes 0.05 to 86400 seconds");
            break;
        case 'n':
            o->count = strtoul(optarg, &end, 10);
            if (*end || end == optarg || *optarg == '-')
                top_usage_error("--count takes a number");
            break;
        case 'j':
            o->json = true;
            break;
        case 'h':
            fputs(usage_text, stdout);
            exit(0);
        case 'V':
            printf("ethmx_top %s\n", ethmx_version());
            exit(0);
        default:
            top_usage_error(NULL);
        }
    }
    if (optind < argc)
        top_usage_error("it takes no arguments");
}

int main(int argc, char **argv)
{
    struct top_options o = {.delay_s = 1};
    struct top_sample *samples;

    top_parse(argc, argv, &o);
    samples = calloc(2, sizeof(*samples)); /* pages that are not used take no memory */
    if (!samples) {
        fprintf(stderr, "ethmx_top: out of memory\n");
        return 1;
    }
    if (o.json)
        top_json(&samples[0]);
    else
        top_tables(&samples[0], &samples[1], &o);
    free(samples);
    return 0;
}
