/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How much of communication goes on while the program computes, between ranks 0 and 1. Prints a line per figure: kind,
 * size, value. The kinds:
 *
 *     exchange     microseconds of an exchange (one message each way) without computation
 *     hidden_one   percent of an exchange that is hidden behind computation of rank 0; rank 1 waits in MPI
 *     hidden_both  the same; both compute
 *     share_N      MB/s of exchanges, both ways together, when rank 0 computes N percent of all time
 *     cpu_send     processor time of the sender of a stream, percent of one core
 *     cpu_receive  the receiver's
 *
 * usage: overlap [--seconds S] BYTES...    S: about how long each figure is measured (0.1)
 *
 * Computation is a counted loop, so that a thread which takes the core away makes it longer, as it should. Where ranks
 * spin while they wait, there is no core free for a progress thread on two cores: set ETHMX_WAIT=sleep.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench.h"

enum { TAG = 1, RUNS = 9, WINDOW = 8, LONG_WORK = 4 };

static int rank, bytes;
static double run_seconds = 0.1 / RUNS, turns_per_us;
static char *from, *to;

/* Not inlined: each copy would have a speed of its own. */
static __attribute__((noinline)) void compute(double us)
{
    for (volatile long i = (long)(us * turns_per_us); i > 0; i--)
        ;
}

/* The quickest of several runs is the one that nothing disturbed. */
static void calibrate(void)
{
    double least_us = 1e9;

    turns_per_us = 100;
    for (int i = 0; i < 20; i++) {
        double start = MPI_Wtime(), us;

        compute(1000);
        us = (MPI_Wtime() - start) * 1e6;
        least_us = us < least_us ? us : least_us;
    }
    turns_per_us *= 1000 / least_us;
}

static void exchange(double compute_us)
{
    MPI_Request r[2];

    MPI_Irecv(to, bytes, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(from, bytes, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &r[1]);
    if (compute_us > 0)
        compute(compute_us);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static double median_of_rank_0(double *v)
{
    double median = bench_median(v, RUNS);

    MPI_Bcast(&median, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return median;
}

/* Rank 0's microseconds for a round of exchange with so much computation. */
static double exchange_us(double work_us, int rounds)
{
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int k = 0; k < rounds; k++)
        exchange(work_us);
    return (MPI_Wtime() - start) * 1e6 / rounds;
}

/* For the same computation without communication; who does not compute waits in MPI, as it does otherwise. */
static double compute_us(double work_us, int rounds)
{
    double start, us;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int k = 0; k < rounds; k++)
        compute(work_us);
    us = (MPI_Wtime() - start) * 1e6 / rounds;
    MPI_Barrier(MPI_COMM_WORLD);
    return us;
}

static int rounds_for(double us)
{
    int rounds = (int)(run_seconds * 1e6 / us) + 3;

    MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return rounds;
}

static double alone_us(void)
{
    double us[RUNS];
    int rounds = rounds_for(exchange_us(0, 3));

    for (int i = 0; i < RUNS; i++)
        us[i] = exchange_us(0, rounds);
    return median_of_rank_0(us);
}

/* What communication adds to computation, in microseconds: the median over pairs of runs, so that what else the machine
 * does meets both. *calm_p: the computation alone. */
static double added_us(double work_us, double *calm_p)
{
    double added[RUNS], calm[RUNS];
    int rounds = rounds_for(*calm_p);

    for (int i = 0; i < RUNS; i++) {
        calm[i] = compute_us(work_us, rounds);
        added[i] = exchange_us(work_us, rounds) - calm[i];
    }
    *calm_p = median_of_rank_0(calm);
    return median_of_rank_0(added);
}

static void figure(const char *kind, double value)
{
    if (rank == 0)
        printf("%s %d %.1f\n", kind, bytes, value);
    fflush(stdout);
}

/* The computation is so long that one free core can do the communication of both ranks meanwhile: on a machine of two
 * cores there is only one, and an exchange without computation keeps both busy. */
static void measure_hidden(const char *kind, double exchange_takes_us, int both)
{
    double work = LONG_WORK * exchange_takes_us, calm = work;

    figure(kind, 100 * (1 - added_us(rank == 0 || both ? work : 0, &calm) / exchange_takes_us));
}

static void measure_shares(double exchange_takes_us)
{
    for (int times = 1; times <= 8; times *= 2) {
        double work = exchange_takes_us * times / 2, calm = work, total = added_us(rank == 0 ? work : 0, &calm) + calm;
        char kind[32];

        snprintf(kind, sizeof(kind), "share_%.0f", 100 * calm / total);
        figure(kind, 2 * bytes / total);
    }
}

static double cpu_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void stream(void)
{
    MPI_Request r[WINDOW];

    for (int i = 0; i < WINDOW; i++)
        if (rank == 0)
            MPI_Isend(from, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &r[i]);
        else
            MPI_Irecv(to, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &r[i]);
    MPI_Waitall(WINDOW, r, MPI_STATUSES_IGNORE);
}

static void measure_stream(void)
{
    double start, cpu, mine, other = 0, seconds;
    int rounds;

    start = MPI_Wtime();
    stream();
    rounds = (int)(run_seconds * RUNS / (MPI_Wtime() - start)) + 3;
    MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    cpu = cpu_seconds();
    for (int i = 0; i < rounds; i++)
        stream();
    MPI_Barrier(MPI_COMM_WORLD);
    seconds = MPI_Wtime() - start;
    mine = 100 * (cpu_seconds() - cpu) / seconds;
    if (rank == 0)
        MPI_Recv(&other, 1, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(&mine, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD);
    figure("stream", (double)rounds * WINDOW * bytes / seconds * 1e-6);
    figure("cpu_send", mine);
    figure("cpu_receive", other);
}

static void measure(int size)
{
    double exchange_takes_us;

    bytes = size;
    from = calloc(1, (size_t)size);
    to = calloc(1, (size_t)size);
    if (!from || !to)
        MPI_Abort(MPI_COMM_WORLD, 1);
    exchange_takes_us = alone_us();
    figure("exchange", exchange_takes_us);
    measure_hidden("hidden_one", exchange_takes_us, 0);
    measure_hidden("hidden_both", exchange_takes_us, 1);
    measure_shares(exchange_takes_us);
    measure_stream();
    free(from);
    free(to);
}

/* A core for each rank. A progress thread, which exists by now, goes where there is room. */
static void keep_to_core(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET((unsigned)(rank % cores), &one);
    if (cores > 1)
        sched_setaffinity(0, sizeof(one), &one);
}

int main(int argc, char **argv)
{
    int first = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 2 && !strcmp(argv[1], "--seconds")) {
        run_seconds = atof(argv[2]) / RUNS;
        first = 3;
    }
    keep_to_core();
    calibrate();
    for (int i = first; i < argc; i++)
        measure(atoi(argv[i]));
    MPI_Finalize();
    return 0;
}
