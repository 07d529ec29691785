/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations of rank 0 at rank 1, per second: prints lines "put 8 VALUE" and "accumulate 8 VALUE", each the
 * median of several runs. In a passive epoch, BATCH operations of 8 bytes between two flushes; the target makes
 * progress inside a barrier. What arrived is checked.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../bench/bench.h"

enum { RUNS = 9, BATCH = 64, BATCHES = 100 };

static int rank;
static MPI_Win win;
static int64_t *memory; /* BATCH numbers */

static void one_put(int i)
{
    static int64_t value[BATCH];

    value[i] = i;
    MPI_Put(&value[i], 1, MPI_INT64_T, 1, i, 1, MPI_INT64_T, win);
}

static void one_accumulate(int i)
{
    static const int64_t one = 1;

    MPI_Accumulate(&one, 1, MPI_INT64_T, 1, i, 1, MPI_INT64_T, MPI_SUM, win);
}

/* Operations per second at rank 0. */
static double run(void (*operation)(int i))
{
    double start;

    for (int i = 0; i < BATCH; i++)
        memory[i] = 0;
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int b = 0; rank == 0 && b < BATCHES; b++) {
        for (int i = 0; i < BATCH; i++)
            operation(i);
        MPI_Win_flush(1, win);
    }
    start = MPI_Wtime() - start;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    return BATCHES * BATCH / start;
}

static void check(const char *name, int64_t (*expected)(int i))
{
    for (int i = 0; rank == 1 && i < BATCH; i++) {
        if (memory[i] != expected(i)) {
            printf("%s: element %d is %lld\n", name, i, (long long)memory[i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

static int64_t its_number(int i)
{
    return i;
}

static int64_t all_batches(int i)
{
    (void)i;
    return BATCHES;
}

static void measure(const char *name, void (*operation)(int i), int64_t (*expected)(int i))
{
    double rate[RUNS];

    run(operation);
    for (int i = 0; i < RUNS; i++) {
        rate[i] = run(operation);
        check(name, expected);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("%s 8 %.0f\n", name, bench_median(rate, RUNS));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(BATCH * sizeof(*memory), sizeof(*memory), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    measure("put", one_put, its_number);
    measure("accumulate", one_accumulate, all_batches);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
