/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the MPI benchmarks share: the core of a rank, the median, and the arguments, which are kinds with sizes.
 */
#ifndef EMX_TESTS_BENCH_H
#define EMX_TESTS_BENCH_H

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Stays on the core whose number is what the launcher put into this variable, modulo the cores; with one core, without
 * the variable, or with BENCH_ANY_CORE, anywhere. To be called before MPI_Init(), so that threads of the transport come
 * along. */
static inline void bench_stay_on_core(const char *rank_variable)
{
    const char *text = getenv(rank_variable);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;

    if (!text || cores < 2 || getenv("BENCH_ANY_CORE"))
        return;
    CPU_ZERO(&set);
    CPU_SET(atol(text) % cores, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts the figures. */
static inline double bench_median(double *figures, unsigned count)
{
    qsort(figures, count, sizeof(*figures), bench_compare);
    return figures[count / 2];
}

/* How a program takes its arguments: [--seconds S] KIND SIZE... [KIND SIZE...]. find returns NULL for a name that is
 * not a kind. */
struct bench_args {
    double seconds; /* of a figure; changed by the argument */
    int size_max;
    const void *(*find)(const char *name);
    void (*measure)(const void *kind, int size, double seconds);
};

/* Measures what the arguments ask for. Returns 0, or -1: they are wrong. */
static inline int bench_run(struct bench_args *a, int argc, char **argv)
{
    const void *kind = NULL;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
            a->seconds = atof(argv[++i]);
        else if (a->find(argv[i]))
            kind = a->find(argv[i]);
        else if (kind && atoi(argv[i]) >= 0 && atoi(argv[i]) <= a->size_max)
            a->measure(kind, atoi(argv[i]), a->seconds);
        else
            return -1;
    }
    return 0;
}

#endif
