/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The start and the end of a job: what lies between the calls of MPI_Init() and the end of MPI_Finalize() at rank 0,
 * with one all-to-all in between. For jobs of many ranks; bench-apps runs it with 64 on a node. Prints the time itself,
 * since what share.c measures lies within.
 */
#define _GNU_SOURCE
#include <time.h>

#include "app.h"

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    double begin = seconds(), connected;
    int rank, ranks, *out, *in;

    MPI_Init(&argc, &argv);
    connected = seconds();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    out = app_alloc((size_t)ranks * sizeof(*out));
    in = app_alloc((size_t)ranks * sizeof(*in));
    for (int i = 0; i < ranks; i++)
        out[i] = rank * ranks + i;
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        app_check(in[i] == i * ranks + rank, "the all-to-all brought wrong data");
    MPI_Finalize();
    if (!rank)
        printf("start to end %.3f\nstart %.3f\n", seconds() - begin, connected - begin);
    free(out);
    free(in);
    return 0;
}
