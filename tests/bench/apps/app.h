/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the programs of bench-apps share: arguments, computation, checks. Each is the shape of some real program: what
 * it sends to whom, and what it computes in between. MPI_Pcontrol(1) and MPI_Pcontrol(0) bound what is measured;
 * share.c, which each is linked with, measures it and prints the line with the result at the end.
 */
#ifndef EMX_TESTS_BENCH_APPS_APP_H
#define EMX_TESTS_BENCH_APPS_APP_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { APP_TAG = 1, APP_LEFT_OUT = 2 }; /* the latter for MPI_Pcontrol(): this rank counts in no share of time */

struct app {
    long size;       /* --size: what it means is each program's own */
    long iterations; /* --iterations */
    long work;       /* --work: how much is computed between messages */
    int rank, ranks;
};

static inline void app_fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

/* Ends the program unless the condition holds: what was received is wrong. */
static inline void app_check(int holds, const char *what)
{
    if (!holds)
        app_fail(what);
}

static inline long *app_argument(struct app *app, const char *name)
{
    if (!strcmp(name, "--size"))
        return &app->size;
    if (!strcmp(name, "--iterations"))
        return &app->iterations;
    return strcmp(name, "--work") ? NULL : &app->work;
}

/* Starts MPI and reads the arguments over the defaults that the caller has set. */
static inline void app_start(struct app *app, int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &app->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &app->ranks);
    for (int i = 1; i < argc; i += 2) {
        long *value = app_argument(app, argv[i]);

        if (!value || i + 1 == argc || (*value = atol(argv[i + 1])) < 1)
            app_fail("usage: [--size N] [--iterations N] [--work N], each at least 1");
    }
}

static inline void *app_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);

    if (!memory)
        app_fail("out of memory");
    return memory;
}

static inline int app_next(const struct app *app)
{
    return (app->rank + 1) % app->ranks;
}

static inline int app_previous(const struct app *app)
{
    return (app->rank + app->ranks - 1) % app->ranks;
}

/* What is measured begins, at all ranks together. */
static inline void app_begin(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(1);
}

static inline int app_end(void)
{
    MPI_Pcontrol(0);
    return MPI_Finalize();
}

/* Computes: a recurrence, so that its time is passes * count times the latency of a multiplication and an addition,
 * whatever the compiler can do. Without the constant, long rows would decay to denormal numbers, on which some
 * processors take twenty times as long. */
static inline void app_work(double *values, long count, long passes)
{
    double last = 0.5;

    for (long pass = 0; pass < passes; pass++) {
        for (long i = 0; i < count; i++)
            values[i] = last = 0.75 * last + (0.25 * values[i] + 0.0625);
    }
}

/* A generator of numbers that are the same everywhere (a linear congruence, upper bits). */
static inline unsigned app_random(unsigned long long *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(*state >> 33);
}

#endif
