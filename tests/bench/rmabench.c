/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations of rank 0 at rank 1: prints lines "NAME BYTES VALUE".
 *
 *     pingpong 8              half a round trip of two-sided messages, us: what the rest is compared with
 *     put, get, ... 8         the operation and MPI_Win_flush, us; the target waits in MPI_Barrier
 *     bandwidth 4194304       two-sided ping-pong, MB/s
 *     oneway 4194304          two-sided messages, always from rank 0, each answered by an empty one, MB/s: the limit of
 *                             put and get, since the kernel gets the memory of packets back on the other core
 *     put, get 4194304        the same as above, MB/s
 *     accumulate 65536        and 1048576: sums of 64 bits, MB/s
 *     lock_put 8, lock_put99 8  lock, put, unlock while the target computes, us: the median and the 99th percentile
 *
 * Each is the median of several runs, but the last two, which are of single operations. An argument N divides the
 * number of operations by N: a look at whether all of it works.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum {
    RUNS = 7,
    SHORT = 2000,
    LONG = 60,
    LONG_BYTES = 4 << 20,
    MIDDLE_BYTES = 64 << 10,
    MANY_BYTES = 1 << 20,
    COMPUTED = 1000
};

static int rank, share = 1;
static MPI_Win win;
static char *memory, *buffer; /* LONG_BYTES each */
static int64_t operand = 1, result;

static void do_put(void)
{
    MPI_Put(&operand, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, win);
}

static void do_get(void)
{
    MPI_Get(&result, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, win);
}

static void do_accumulate(void)
{
    MPI_Accumulate(&operand, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, MPI_SUM, win);
}

static void do_fetch_and_op(void)
{
    MPI_Fetch_and_op(&operand, &result, MPI_INT64_T, 1, 0, MPI_SUM, win);
}

static void do_compare_and_swap(void)
{
    MPI_Compare_and_swap(&operand, &operand, &result, MPI_INT64_T, 1, 0, win);
}

static void do_long_put(void)
{
    MPI_Put(buffer, LONG_BYTES, MPI_BYTE, 1, 0, LONG_BYTES, MPI_BYTE, win);
}

static void do_long_get(void)
{
    MPI_Get(buffer, LONG_BYTES, MPI_BYTE, 1, 0, LONG_BYTES, MPI_BYTE, win);
}

static void accumulate_long(int bytes)
{
    MPI_Accumulate(buffer, bytes / 8, MPI_INT64_T, 1, 0, bytes / 8, MPI_INT64_T, MPI_SUM, win);
}

static void do_middle_accumulate(void)
{
    accumulate_long(MIDDLE_BYTES);
}

static void do_long_accumulate(void)
{
    accumulate_long(MANY_BYTES);
}

/* Microseconds each. */
static double run(void (*operation)(void), int times)
{
    double start;

    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; rank == 0 && i < times; i++) {
        operation();
        MPI_Win_flush(1, win);
    }
    start = MPI_Wtime() - start;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    return start * 1e6 / times;
}

/* Microseconds of a message from rank 0 and one back. */
static double run_round_trips(int bytes, int back_bytes, int times)
{
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < times; i++) {
        if (rank == 0)
            MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(memory, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(buffer, back_bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - start) * 1e6 / times;
}

static void report(const char *name, int bytes, double us)
{
    if (rank == 0)
        printf(bytes > 8 ? "%s %d %.0f\n" : "%s %d %.2f\n", name, bytes, bytes > 8 ? bytes / us : us);
}

/* How often an operation is done in a run. */
static int repeats(int bytes)
{
    int times = (bytes > 8 ? LONG : SHORT) / share;

    return times > 0 ? times : 1;
}

static void measure(const char *name, void (*operation)(void), int bytes)
{
    int times = repeats(bytes);
    double us[RUNS];

    run(operation, times / 10);
    for (int i = 0; i < RUNS; i++)
        us[i] = run(operation, times);
    report(name, bytes, bench_median(us, RUNS));
}

/* per_trip: messages in a round trip that count. */
static void measure_two_sided(const char *name, int bytes, int back_bytes, int per_trip)
{
    int times = repeats(bytes);
    double us[RUNS];

    run_round_trips(bytes, back_bytes, times / 10);
    for (int i = 0; i < RUNS; i++)
        us[i] = run_round_trips(bytes, back_bytes, times) / per_trip;
    report(name, bytes, bench_median(us, RUNS));
}

/* Rank 1 makes no MPI call for a second, in which rank 0 begins as many locks as it can, but one in 0.8 ms. */
static void measure_computing(void)
{
    static double us[COMPUTED];
    double begin, until;
    unsigned n = 0;

    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    until = begin + 1;
    while (rank == 1 && MPI_Wtime() < until)
        ;
    while (rank == 0 && n < COMPUTED && MPI_Wtime() < until) {
        us[n] = MPI_Wtime();
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        do_put();
        MPI_Win_unlock(1, win);
        us[n] = (MPI_Wtime() - us[n]) * 1e6;
        n++;
        while (MPI_Wtime() < begin + 0.0008 * n)
            ;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!n)
        return;
    report("lock_put", 8, bench_median(us, n));
    report("lock_put99", 8, us[n * 99 / 100]);
}

int main(int argc, char **argv)
{
    bench_stay_on_core(getenv("PMI_RANK") ? "PMI_RANK" : "OMPI_COMM_WORLD_RANK");
    MPI_Init(&argc, &argv);
    if (argc > 1 && atoi(argv[1]) > 0)
        share = atoi(argv[1]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(LONG_BYTES, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    buffer = malloc(LONG_BYTES);
    memset(buffer, 1, LONG_BYTES);
    memset(memory, 1, LONG_BYTES);
    measure_two_sided("pingpong", 8, 8, 2);
    measure("put", do_put, 8);
    measure("get", do_get, 8);
    measure("accumulate", do_accumulate, 8);
    measure("fetch_and_op", do_fetch_and_op, 8);
    measure("compare_and_swap", do_compare_and_swap, 8);
    measure_two_sided("bandwidth", LONG_BYTES, LONG_BYTES, 2);
    measure_two_sided("oneway", LONG_BYTES, 0, 1);
    measure("put", do_long_put, LONG_BYTES);
    measure("get", do_long_get, LONG_BYTES);
    measure("accumulate", do_middle_accumulate, MIDDLE_BYTES);
    measure("accumulate", do_long_accumulate, MANY_BYTES);
    measure_computing();
    free(buffer);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
