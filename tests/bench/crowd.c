/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives where ranks outnumber cores. Prints a line per figure: kind, ranks, microseconds per call (the slowest
 * rank's mean; of several short runs the median).
 *
 * usage: crowd [--seconds S]    S: about how long each figure is measured (0.3)
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 5, BYTES = 1024 };

static int rank, ranks;
static double run_seconds = 0.3 / RUNS;
static char *from, *to;

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(void)
{
    double in = rank, out;

    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(void)
{
    MPI_Alltoall(from, BYTES, MPI_BYTE, to, BYTES, MPI_BYTE, MPI_COMM_WORLD);
}

static double timed(void (*call)(void), int rounds)
{
    double start, mine, slowest;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < rounds; i++)
        call();
    mine = MPI_Wtime() - start;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(const char *kind, void (*call)(void))
{
    double us[RUNS], first = timed(call, 3) / 3;
    int rounds = (int)(run_seconds / first);

    rounds = rounds < 2 ? 2 : rounds > 100000 ? 100000 : rounds;
    MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < RUNS; i++)
        us[i] = timed(call, rounds) / rounds * 1e6;
    qsort(us, RUNS, sizeof(us[0]), rising);
    if (rank == 0)
        printf("%s %d %.1f\n", kind, ranks, us[RUNS / 2]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc == 3 && !strcmp(argv[1], "--seconds"))
        run_seconds = atof(argv[2]) / RUNS;
    from = calloc((size_t)ranks, BYTES);
    to = calloc((size_t)ranks, BYTES);
    if (!from || !to)
        MPI_Abort(MPI_COMM_WORLD, 1);
    measure("barrier", barrier);
    measure("allreduce", allreduce);
    measure("alltoall", alltoall);
    free(from);
    free(to);
    MPI_Finalize();
    return 0;
}
