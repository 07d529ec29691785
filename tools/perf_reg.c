/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The questions are those of P. Frey and G. Alonso, Minimizing the Hidden Cost of RDMA (ICDCS 2009), figures 5, 6 and 8
 * to 10: registering and deregistering against size, with pages that are there and pages that are not; with small and
 * huge pages; in one thread and in several; and from which size on it is cheaper than copying.
 */
#include "perf_reg.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ethmx.h"
#include "json.h"
#include "perf_plan.h"
#include "perf_usage.h"

#define PAGE_BYTES  4096
#define THREADS_MAX 64
#define ROUNDS_MAX  64
#define ROUND_BYTES (UINT64_C(256) << 20) /* fewer rounds where they would take more than this together */

struct options {
    const char *registrar;
    struct perf_plan plan; /* its sizes */
    unsigned threads, rounds;
    bool json;
};

/* One table: all sizes, in one way. */
struct table {
    const char *title;
    bool resident, huge, several;
};

static const struct table tables[] = {
    {"Pages of 4 KiB, resident (figures 5 and 8)", true, false, false},
    {"Pages of 4 KiB, not resident (figures 6 and 8)", false, false, false},
    {"Huge pages of 2 MiB, resident (figure 9)", true, true, false},
    {"Huge pages of 2 MiB, not resident (figure 9)", false, true, false},
    {"Pages of 4 KiB, resident, in several threads at once (figure 10)", true, false, true},
    {"Pages of 4 KiB, not resident, in several threads at once (figure 10)", false, false, true},
};

#define TABLES (sizeof(tables) / sizeof(tables[0]))

struct cell {
    uint64_t len_bytes;
    bool done; /* otherwise too large for RLIMIT_MEMLOCK, or there is nothing of the kind */
    struct ethmx_memory_cost cost;
};

static const char command[] = "ethmx_perf reg";

static const char usage_text[] =
    "Usage: ethmx_perf reg [OPTION]...\n"
    "Measures on this host what registering memory with a device costs, beside copying it.\n"
    "\n"
    "  -s, --sizes LIST      sizes: 64k, 4k:64m (doubling; the default), several with commas between; whole pages\n"
    "  -T, --threads N       how many threads \"several\" are (default 2)\n"
    "  -n, --rounds N        of which the median is taken (default 15, fewer for larger sizes)\n"
    "  -r, --registrar NAME  verbs or verbs:DEVICE, an RDMA device; pin or mlock, fake registrars;\n"
    "                        default: the first that works\n"
    "  -j, --json            print JSON\n"
    "  -h, --help            this text\n"
    "\n"
    "register: the pages are as the table says. fault in + register: they are brought in first, in one system call.\n"
    "copy: memcpy() into that memory. Times are in microseconds, medians.\n"
    "Exit code: 0; 1 when nothing could be measured; 2 for wrong usage.\n";

static const struct option long_options[] = {
    {"sizes", required_argument, NULL, 's'},
    {"threads", required_argument, NULL, 'T'},
    {"rounds", required_argument, NULL, 'n'},
    {"registrar", required_argument, NULL, 'r'},
    {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* ---- Options ---- */

static void perf_reg_set_sizes(struct perf_plan *plan, const char *text)
{
    perf_usage_sizes(command, plan, text);
    for (unsigned i = 0; i < plan->size_count; i++)
        if (!plan->size[i] || plan->size[i] % PAGE_BYTES)
            perf_usage_error(command, "reg --sizes takes whole pages: multiples of 4k");
}

static void perf_reg_option(struct options *o, int c)
{
    switch (c) {
    case 's':
        perf_reg_set_sizes(&o->plan, optarg);
        break;
    case 'T':
        o->threads = (unsigned)perf_usage_number(command, "--threads", optarg, THREADS_MAX);
        break;
    case 'n':
        o->rounds = (unsigned)perf_usage_number(command, "--rounds", optarg, ROUNDS_MAX);
        break;
    case 'r':
        o->registrar = optarg;
        break;
    case 'j':
        o->json = true;
        break;
    case 'h':
        fputs(usage_text, stdout);
        exit(0);
    default:
        perf_usage_error(command, NULL);
    }
}

static void perf_reg_parse(struct options *o, int argc, char **argv)
{
    int c;

    *o = (struct options){.threads = 2, .rounds = 15};
    perf_reg_set_sizes(&o->plan, "4k:64m");
    while ((c = getopt_long(argc, argv, "s:T:n:r:jh", long_options, NULL)) != -1)
        perf_reg_option(o, c);
    if (optind < argc)
        perf_usage_error(command, "reg takes options only");
}

/* ---- Measuring ---- */

static unsigned perf_reg_rounds_of(const struct options *o, uint64_t len_bytes)
{
    uint64_t most = ROUND_BYTES / len_bytes;

    return most >= o->rounds ? o->rounds : most < 3 ? 3 : (unsigned)most;
}

/* Returns how many sizes could be measured. */
static unsigned perf_reg_fill(const struct options *o, const struct table *t, struct cell *cell)
{
    unsigned done = 0;

    for (unsigned i = 0; i < o->plan.size_count; i++) {
        const struct ethmx_memory_case c = {
            .struct_bytes = sizeof(c),
            .registrar = o->registrar,
            .len_bytes = (size_t)o->plan.size[i],
            .threads = t->several ? o->threads : 1,
            .rounds = perf_reg_rounds_of(o, o->plan.size[i]),
            .resident = t->resident,
            .huge = t->huge,
        };

        cell[i] = (struct cell){.len_bytes = o->plan.size[i], .cost.struct_bytes = sizeof(cell[i].cost)};
        cell[i].done = !ethmx_memory_measure(&c, &cell[i].cost);
        done += cell[i].done;
    }
    return done;
}

static uint64_t perf_reg_registered_ns(const struct cell *c, bool faulted)
{
    return (faulted ? c->cost.fault_register_ns : c->cost.register_ns) + c->cost.deregister_ns;
}

/* The size from which on registering and deregistering is cheaper than copying, at it and all above; 0: there is none.
 */
static uint64_t perf_reg_threshold(const struct cell *cell, unsigned n, bool faulted)
{
    uint64_t from = 0;

    for (unsigned i = n; i-- && (!cell[i].done || perf_reg_registered_ns(&cell[i], faulted) < cell[i].cost.copy_ns);)
        from = cell[i].done ? cell[i].len_bytes : from;
    return from;
}

/* ---- Printing ---- */

static void perf_reg_print_threshold(const char *what, uint64_t from)
{
    if (from)
        printf("%s is cheaper than copying from %llu bytes on.\n", what, (unsigned long long)from);
    else
        printf("%s is not cheaper than copying at the largest size.\n", what);
}

static void perf_reg_print_text(const struct table *t, const struct cell *cell, unsigned n)
{
    printf("\n%s\n%12s %10s %16s %11s %10s\n", t->title, "bytes", "register", "fault in + reg.", "deregister", "copy");
    for (unsigned i = 0; i < n; i++) {
        const struct ethmx_memory_cost *c = &cell[i].cost;

        if (cell[i].done)
            printf("%12llu %10.2f %16.2f %11.2f %10.2f\n", (unsigned long long)cell[i].len_bytes,
                   (double)c->register_ns / 1e3, (double)c->fault_register_ns / 1e3, (double)c->deregister_ns / 1e3,
                   (double)c->copy_ns / 1e3);
        else
            printf("%12llu cannot be measured\n", (unsigned long long)cell[i].len_bytes);
    }
    perf_reg_print_threshold("Registering and deregistering", perf_reg_threshold(cell, n, false));
    if (!t->resident)
        perf_reg_print_threshold("Faulting in, registering and deregistering", perf_reg_threshold(cell, n, true));
    fflush(stdout);
}

static void perf_reg_print_json(struct emx_json *j, const struct options *o, const struct table *t,
                                const struct cell *cell)
{
    emx_json_open(j, NULL, '{');
    emx_json_string(j, "title", t->title);
    emx_json_bool(j, "resident", t->resident);
    emx_json_bool(j, "huge", t->huge);
    emx_json_uint(j, "threads", t->several ? o->threads : 1);
    emx_json_uint(j, "crossing_bytes", perf_reg_threshold(cell, o->plan.size_count, false));
    emx_json_uint(j, "crossing_fault_in_bytes", perf_reg_threshold(cell, o->plan.size_count, true));
    emx_json_open(j, "results", '[');
    for (unsigned i = 0; i < o->plan.size_count; i++) {
        if (!cell[i].done)
            continue;
        emx_json_open(j, NULL, '{');
        emx_json_uint(j, "bytes", cell[i].len_bytes);
        emx_json_uint(j, "register_ns", cell[i].cost.register_ns);
        emx_json_uint(j, "fault_register_ns", cell[i].cost.fault_register_ns);
        emx_json_uint(j, "deregister_ns", cell[i].cost.deregister_ns);
        emx_json_uint(j, "copy_ns", cell[i].cost.copy_ns);
        emx_json_close(j, '}');
    }
    emx_json_close(j, ']');
    emx_json_close(j, '}');
}

static void perf_reg_head(struct emx_json *j, const struct options *o, const struct ethmx_memory_cost *c)
{
    if (!o->json) {
        printf("ethmx_perf %s reg, registrar: %s (%s). Times in us, %u threads where there are several.\n",
               ethmx_version(), c->registrar, c->text, o->threads);
        return;
    }
    emx_json_open(j, NULL, '{');
    emx_json_string(j, "version", ethmx_version());
    emx_json_string(j, "registrar", c->registrar);
    emx_json_string(j, "text", c->text);
    emx_json_open(j, "tables", '[');
}

/* What can be said only of a registrar that works: it registers a page. */
static bool perf_reg_try_registrar(const struct options *o, struct ethmx_memory_cost *c)
{
    const struct ethmx_memory_case page = {.struct_bytes = sizeof(page),
                                           .registrar = o->registrar,
                                           .len_bytes = PAGE_BYTES,
                                           .threads = 1,
                                           .rounds = 1,
                                           .resident = true};

    if (!ethmx_memory_measure(&page, c))
        return true;
    fprintf(stderr, "ethmx_perf: %s\n", ethmx_error_text());
    return false;
}

static void perf_reg_skip(const struct options *o, const struct table *t)
{
    if (!o->json)
        printf("\n%s\n  left out: %s\n", t->title, ethmx_error_text());
}

int perf_reg_main(int argc, char **argv)
{
    struct ethmx_memory_cost first = {.struct_bytes = sizeof(first)};
    struct cell cell[PERF_SIZES_MAX];
    struct emx_json j;
    struct options o;

    perf_reg_parse(&o, argc, argv);
    if (!perf_reg_try_registrar(&o, &first))
        return 1;
    emx_json_init(&j, stdout);
    perf_reg_head(&j, &o, &first);
    for (unsigned i = 0; i < TABLES; i++) {
        if (!perf_reg_fill(&o, &tables[i], cell))
            perf_reg_skip(&o, &tables[i]);
        else if (o.json)
            perf_reg_print_json(&j, &o, &tables[i], cell);
        else
            perf_reg_print_text(&tables[i], cell, o.plan.size_count);
    }
    if (o.json) {
        emx_json_close(&j, ']');
        emx_json_close(&j, '}');
    }
    if (fflush(stdout) || ferror(stdout)) {
        perror("ethmx_perf: standard output");
        return 1;
    }
    return 0;
}
