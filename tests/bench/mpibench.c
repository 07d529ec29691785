/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measures between ranks 0 and 1 and prints a line per figure: kind, size, value. Kinds:
 *   latency      half a round trip in microseconds, by size; what is sent and what is received lie apart
 *   typical      the same, the median of single round trips, which what others do meanwhile does not reach
 *   fresh        MB/s of a ping-pong, each message in memory that is new from the system, by size
 *   sendrecv     MB/s each way, both sending at once (MPI_Sendrecv), by size
 *   stream       MB/s one way, 16 messages in flight, by size
 *   rate         messages per second, 64 in flight, by size
 *   receive      unexpected messages received in reverse order: nanoseconds each, by how many there were
 *   unexpected   the same with their sending and arrival
 *
 * usage: mpibench [--seconds S] KIND SIZE...    S: about how long each figure is measured (0.1)
 *
 * Each figure is the median of several short runs, as the machine does other things too. Each rank stays on a core of
 * its own when there are enough.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

enum { TAG = 1, TAG_END = 2, RUNS = 9, STREAM_WINDOW = 16, RATE_WINDOW = 64, LONGEST = 1 << 26, TYPICAL_MAX = 1000 };

static int rank;
static char *buf;

/* What one run does: times rounds, returns seconds. */
typedef double (*run_fn)(int size, int rounds);

static void round_trip(int size)
{
    if (rank == 0) {
        MPI_Send(buf, size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
        MPI_Recv(buf + LONGEST, size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(buf + LONGEST, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buf, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    }
}

static double latency_run(int size, int rounds)
{
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < rounds; i++)
        round_trip(size);
    return MPI_Wtime() - start;
}

static double typical_run(int size, int rounds)
{
    static double trips[TYPICAL_MAX];
    int count = rounds < TYPICAL_MAX ? rounds : TYPICAL_MAX;

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) {
        double start = MPI_Wtime();

        round_trip(size);
        trips[i] = MPI_Wtime() - start;
    }
    return bench_median(trips, (unsigned)count) * rounds;
}

static char *fresh_memory(int size)
{
    char *p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return p;
}

static void fresh_send(int size, int number)
{
    char *p = fresh_memory(size);

    memset(p, number, (size_t)size);
    MPI_Send(p, size, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD);
    munmap(p, (size_t)size);
}

/* Data of an earlier message is not taken for this one's. */
static void fresh_receive(int size, int number)
{
    char *p = fresh_memory(size);

    MPI_Recv(p, size, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (p[0] != (char)number || p[size / 2] != (char)number || p[size - 1] != (char)number) {
        fprintf(stderr, "mpibench: wrong data in message %d of %d bytes\n", number, size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    munmap(p, (size_t)size);
}

static double fresh_run(int size, int rounds)
{
    static int number;
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < rounds; i++, number++) {
        if (rank == 0)
            fresh_send(size, number);
        fresh_receive(size, number);
        if (rank == 1)
            fresh_send(size, number);
    }
    return MPI_Wtime() - start;
}

static double sendrecv_run(int size, int rounds)
{
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < rounds; i++)
        MPI_Sendrecv(buf, size, MPI_BYTE, !rank, TAG, buf + LONGEST, size, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    return MPI_Wtime() - start;
}

/* window messages at a time from 0 to 1, an empty one back at the end of each window. */
static double window_run(int size, int rounds, int window)
{
    MPI_Request requests[RATE_WINDOW];
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        for (int k = 0; k < window; k++)
            if (rank == 0)
                MPI_Isend(buf, size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[k]);
            else
                MPI_Irecv(buf, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[k]);
        MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_END, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_END, MPI_COMM_WORLD);
    }
    return MPI_Wtime() - start;
}

static double stream_run(int size, int rounds)
{
    return window_run(size, rounds, STREAM_WINDOW);
}

static double rate_run(int size, int rounds)
{
    return window_run(size, rounds, RATE_WINDOW);
}

/* count messages of 8 bytes to rank 1, all there before it receives the last first. Adds to the two times. */
static void unexpected_once(int count, double *receive_s, double *total_s)
{
    MPI_Request *requests = malloc(sizeof(*requests) * (size_t)count);
    double start, there;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    if (rank == 0) {
        for (int i = 0; i < count; i++)
            MPI_Isend(buf, 8, MPI_BYTE, 1, TAG_END + 1 + i, MPI_COMM_WORLD, &requests[i]);
        MPI_Send(NULL, 0, MPI_BYTE, 1, TAG_END, MPI_COMM_WORLD);
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG_END, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        there = MPI_Wtime();
        for (int i = count - 1; i >= 0; i--)
            MPI_Recv(buf, 8, MPI_BYTE, 0, TAG_END + 1 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        *receive_s += MPI_Wtime() - there;
        *total_s += MPI_Wtime() - start;
    }
    free(requests);
}

/* rounds are messages here: as many floods as make at least so many. The one who measures is rank 1. */
static double unexpected_seconds(int count, int messages, int whole)
{
    double receive_s = 0, total_s = 0, result;
    int floods = (messages + count - 1) / count;

    for (int i = 0; i < floods; i++)
        unexpected_once(count, &receive_s, &total_s);
    result = (whole ? total_s : receive_s) * messages / ((double)floods * count);
    MPI_Bcast(&result, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    return result;
}

static double receive_run(int count, int messages)
{
    return unexpected_seconds(count, messages, 0);
}

static double unexpected_run(int count, int messages)
{
    return unexpected_seconds(count, messages, 1);
}

/* ---- Figures --------------------------------------------------------------------------------------------------- */

static double as_latency_us(int size, double round_s)
{
    (void)size;
    return round_s / 2 * 1e6;
}

static double as_pingpong_mb(int size, double round_s)
{
    return (double)size / (round_s / 2) / 1e6;
}

static double as_each_way_mb(int size, double round_s)
{
    return (double)size / round_s / 1e6;
}

static double as_stream_mb(int size, double round_s)
{
    return (double)size * STREAM_WINDOW / round_s / 1e6;
}

static double as_rate(int size, double round_s)
{
    (void)size;
    return RATE_WINDOW / round_s;
}

static double as_ns(int count, double message_s)
{
    (void)count;
    return message_s * 1e9;
}

static const struct kind {
    const char *name;
    run_fn run;
    double (*figure)(int size, double round_s);
    int least_rounds;
} kinds[] = {
    {"latency", latency_run, as_latency_us, 3}, {"typical", typical_run, as_latency_us, 100},
    {"fresh", fresh_run, as_pingpong_mb, 1},    {"sendrecv", sendrecv_run, as_each_way_mb, 2},
    {"stream", stream_run, as_stream_mb, 1},    {"rate", rate_run, as_rate, 10},
    {"receive", receive_run, as_ns, 10000},     {"unexpected", unexpected_run, as_ns, 10000},
};

/* How many rounds fill run_seconds, by a short run that also warms up. */
static int rounds_for(const struct kind *kind, int size, double run_seconds)
{
    double seconds = kind->run(size, kind->least_rounds), rounds;

    seconds = kind->run(size, kind->least_rounds);
    rounds = kind->least_rounds * run_seconds / (seconds > 1e-7 ? seconds : 1e-7);
    if (rounds < kind->least_rounds)
        rounds = kind->least_rounds;
    if (rounds > 1e6)
        rounds = 1e6;
    MPI_Bcast(&rounds, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return (int)rounds;
}

static void measure(const void *k, int size, double seconds)
{
    const struct kind *kind = k;
    double figures[RUNS];
    int rounds;

    memset(buf, 1, (size_t)size); /* the kernel maps memory that was only read to one page of zeros */
    rounds = rounds_for(kind, size, seconds / RUNS);
    for (int i = 0; i < RUNS; i++)
        figures[i] = kind->figure(size, kind->run(size, rounds) / rounds);
    if (rank == 0) {
        printf("%s %d %.6g\n", kind->name, size, bench_median(figures, RUNS));
        fflush(stdout);
    }
}

/* ---- The program ------------------------------------------------------------------------------------------------- */

static int usage(void)
{
    fprintf(stderr, "usage: mpibench [--seconds S] KIND SIZE... [KIND SIZE...]\n"
                    "kinds: latency, typical, fresh, sendrecv, stream, rate, receive, unexpected\n");
    return 2;
}

static const void *kind_find(const char *name)
{
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    return NULL;
}

int main(int argc, char **argv)
{
    struct bench_args args = {.seconds = 0.1, .size_max = LONGEST, .find = kind_find, .measure = measure};
    int size, status;

    bench_stay_on_core("OMPI_COMM_WORLD_RANK");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        return fprintf(stderr, "mpibench: needs 2 ranks\n"), 2;
    buf = calloc(2, LONGEST);
    status = bench_run(&args, argc, argv);
    free(buf);
    if (status)
        return usage();
    MPI_Finalize();
    return 0;
}
