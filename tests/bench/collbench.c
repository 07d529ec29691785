/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measures collectives over all ranks and prints a line per figure: kind, size in bytes, microseconds per call. Kinds:
 * sendrecv, exchange, allreduce, reduce, allgather, gather, scatter, alltoall, bcast, barrier (whose size is 0).
 *
 * usage: collbench [--seconds S] KIND SIZE... [KIND SIZE...]    S: about how long each figure is measured (0.1)
 *
 * Sizes and times are those of the well-known MPI benchmarks, so that figures may be laid beside published ones: a size
 * is what each rank gives (to each other one, in alltoall and scatter; in all, in bcast); after a warm-up each rank
 * times a row of calls with no barrier between them; the figure is the mean over the ranks. The root of reduce, bcast,
 * gather and scatter moves on by one with each call, which keeps a fast root from running ahead. Of several such rows
 * the median is printed, as the machine does other things too.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { TAG = 1, ROWS = 5, WARM_UP_CALLS = 2, CALLS_MAX = 100000, SIZE_MAX_BYTES = 1 << 22 };

static int rank, ranks;
static char *out, *in; /* each long enough for a block for each rank */

/* One call with size bytes; root where there is one. */
typedef void (*call_fn)(int size, int root);

/* ---- The collectives ------------------------------------------------------------------------------------------- */

/* To the right neighbour, from the left one. */
static void call_sendrecv(int size, int root)
{
    (void)root;
    MPI_Sendrecv(out, size, MPI_BYTE, (rank + 1) % ranks, TAG, in, size, MPI_BYTE, (rank + ranks - 1) % ranks, TAG,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* To both neighbours, from both. */
static void call_exchange(int size, int root)
{
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    MPI_Request sends[2];

    (void)root;
    MPI_Isend(out, size, MPI_BYTE, right, TAG, MPI_COMM_WORLD, &sends[0]);
    MPI_Isend(out, size, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &sends[1]);
    MPI_Recv(in, size, MPI_BYTE, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(in, size, MPI_BYTE, right, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
}

static void call_allreduce(int size, int root)
{
    (void)root;
    MPI_Allreduce(out, in, size / (int)sizeof(float), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void call_reduce(int size, int root)
{
    MPI_Reduce(out, in, size / (int)sizeof(float), MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
}

static void call_allgather(int size, int root)
{
    (void)root;
    MPI_Allgather(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
}

static void call_gather(int size, int root)
{
    MPI_Gather(out, size, MPI_BYTE, in, size, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void call_scatter(int size, int root)
{
    MPI_Scatter(out, size, MPI_BYTE, in, size, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void call_alltoall(int size, int root)
{
    (void)root;
    MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
}

static void call_bcast(int size, int root)
{
    MPI_Bcast(out, size, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void call_barrier(int size, int root)
{
    (void)size;
    (void)root;
    MPI_Barrier(MPI_COMM_WORLD);
}

static const struct kind {
    const char *name;
    call_fn call;
} kinds[] = {
    {"sendrecv", call_sendrecv}, {"exchange", call_exchange},   {"allreduce", call_allreduce},
    {"reduce", call_reduce},     {"allgather", call_allgather}, {"gather", call_gather},
    {"scatter", call_scatter},   {"alltoall", call_alltoall},   {"bcast", call_bcast},
    {"barrier", call_barrier},
};

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

/* Seconds that a call took, on average over the calls and over the ranks. Two barriers, so that all begin together. */
static double row(const struct kind *kind, int size, int calls)
{
    double begin, mine, sum;

    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    for (int i = 0; i < calls; i++)
        kind->call(size, i % ranks);
    mine = (MPI_Wtime() - begin) / calls;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum / ranks;
}

/* How many calls fill row_seconds: a multiple of ranks, so that each is root equally often. */
static int calls_for(const struct kind *kind, int size, double row_seconds)
{
    double call_s, calls;

    row(kind, size, WARM_UP_CALLS * ranks);
    call_s = row(kind, size, ranks);
    calls = row_seconds / (call_s > 1e-8 ? call_s : 1e-8);
    if (calls > CALLS_MAX)
        calls = CALLS_MAX;
    MPI_Bcast(&calls, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return ((int)calls / ranks + 1) * ranks;
}

static void measure(const void *k, int size, double seconds)
{
    const struct kind *kind = k;
    int calls = calls_for(kind, size, seconds / ROWS);
    double row_s[ROWS];

    for (int i = 0; i < ROWS; i++)
        row_s[i] = row(kind, size, calls);
    if (rank == 0) {
        printf("%s %d %.6g\n", kind->name, size, bench_median(row_s, ROWS) * 1e6);
        fflush(stdout);
    }
}

/* ---- The program ------------------------------------------------------------------------------------------------- */

/* The longest size among the arguments. */
static size_t longest(int argc, char **argv)
{
    size_t len_bytes = sizeof(float);

    for (int i = 1; i < argc; i++)
        if (atoi(argv[i]) > (int)len_bytes && atoi(argv[i]) <= SIZE_MAX_BYTES)
            len_bytes = (size_t)atoi(argv[i]);
    return len_bytes;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: collbench [--seconds S] KIND SIZE... [KIND SIZE...]\n"
            "kinds: sendrecv, exchange, allreduce, reduce, allgather, gather, scatter, alltoall, bcast, barrier\n");
    return 2;
}

static const void *kind_find(const char *name)
{
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    return NULL;
}

/* Pages that are there, on both sides: zero pages would make memory look faster than it is. */
static char *buffer(size_t longest_bytes)
{
    size_t len_bytes = longest_bytes * (size_t)ranks;
    char *p = malloc(len_bytes);

    if (!p) {
        fprintf(stderr, "collbench: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(p, 0, len_bytes);
    return p;
}

int main(int argc, char **argv)
{
    struct bench_args args = {.seconds = 0.1, .size_max = SIZE_MAX_BYTES, .find = kind_find, .measure = measure};
    int status;

    /* The ranks of a node are spread over the cores, and so are those of the next. */
    bench_stay_on_core("OMPI_COMM_WORLD_LOCAL_RANK");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    out = buffer(longest(argc, argv));
    in = buffer(longest(argc, argv));
    status = bench_run(&args, argc, argv);
    free(in);
    free(out);
    if (status)
        return usage();
    MPI_Finalize();
    return 0;
}
