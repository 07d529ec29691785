/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measures a program's time and the share of it that is spent in MPI, by MPI's profiling interface, and prints a line
 * at the end: "program time 0.512345 s, in MPI 47.3 %". The time is the longest of all ranks, the share the mean over
 * them. It is linked with a program, or built as a shared library and preloaded to one that is there already.
 *
 * Measured is from MPI_Init() to MPI_Finalize(); in a program that calls MPI_Pcontrol(), what lies between its calls
 * with 1 and 0. A rank that calls it with 2 is left out of the share: a master, that does nothing but wait for its
 * workers.
 *
 * One thread of a process calls MPI.
 */
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static struct {
    int running, left_out, controlled;
    double begun, total, in_mpi; /* seconds */
} share;

static double share_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void share_resume(void)
{
    share.begun = share_now();
    share.running = 1;
}

static void share_pause(void)
{
    if (share.running)
        share.total += share_now() - share.begun;
    share.running = 0;
}

static void share_print(void)
{
    double mine = share.total > 0 && !share.left_out ? share.in_mpi / share.total : 0, sums[2], longest;
    double parts[2] = {mine, share.total > 0 && !share.left_out};
    int rank;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Reduce(parts, sums, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    PMPI_Reduce(&share.total, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("\nprogram time %.6f s, in MPI %.1f %%\n", longest, sums[1] > 0 ? 100 * sums[0] / sums[1] : 0);
        fflush(stdout);
    }
}

/* ---- What tells when to measure ---------------------------------------------------------------------------------- */

int MPI_Init(int *argc, char ***argv)
{
    int result = PMPI_Init(argc, argv);

    share_resume();
    return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int result = PMPI_Init_thread(argc, argv, required, provided);

    share_resume();
    return result;
}

int MPI_Pcontrol(const int level, ...)
{
    if (!share.controlled) { /* what was before does not count */
        share.controlled = 1;
        share.running = 0;
        share.in_mpi = 0;
    }
    switch (level) {
    case 0:
        share_pause();
        break;
    case 1:
        share_resume();
        break;
    default:
        share.left_out = 1;
    }
    return MPI_SUCCESS;
}

int MPI_Finalize(void)
{
    share_pause();
    share_print();
    return PMPI_Finalize();
}

/* ---- What is measured -------------------------------------------------------------------------------------------- */

#define SHARE(name, parameters, arguments)                                                                             \
    int name parameters                                                                                                \
    {                                                                                                                  \
        double begin = share_now();                                                                                    \
        int result = P##name arguments;                                                                                \
                                                                                                                       \
        if (share.running)                                                                                             \
            share.in_mpi += share_now() - begin;                                                                       \
        return result;                                                                                                 \
    }

SHARE(MPI_Send, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c), (b, n, t, to, tag, c))
SHARE(MPI_Ssend, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c), (b, n, t, to, tag, c))
SHARE(MPI_Rsend, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c), (b, n, t, to, tag, c))
SHARE(MPI_Isend, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r),
      (b, n, t, to, tag, c, r))
SHARE(MPI_Irsend, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r),
      (b, n, t, to, tag, c, r))
SHARE(MPI_Recv, (void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *s),
      (b, n, t, from, tag, c, s))
SHARE(MPI_Irecv, (void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r),
      (b, n, t, from, tag, c, r))
SHARE(MPI_Sendrecv,
      (const void *b, int n, MPI_Datatype t, int to, int tag, void *b2, int n2, MPI_Datatype t2, int from, int tag2,
       MPI_Comm c, MPI_Status *s),
      (b, n, t, to, tag, b2, n2, t2, from, tag2, c, s))
SHARE(MPI_Sendrecv_replace,
      (void *b, int n, MPI_Datatype t, int to, int tag, int from, int tag2, MPI_Comm c, MPI_Status *s),
      (b, n, t, to, tag, from, tag2, c, s))
SHARE(MPI_Wait, (MPI_Request * r, MPI_Status *s), (r, s))
SHARE(MPI_Waitall, (int n, MPI_Request r[], MPI_Status s[]), (n, r, s))
SHARE(MPI_Waitany, (int n, MPI_Request r[], int *i, MPI_Status *s), (n, r, i, s))
SHARE(MPI_Waitsome, (int n, MPI_Request r[], int *out, int i[], MPI_Status s[]), (n, r, out, i, s))
SHARE(MPI_Test, (MPI_Request * r, int *done, MPI_Status *s), (r, done, s))
SHARE(MPI_Testall, (int n, MPI_Request r[], int *done, MPI_Status s[]), (n, r, done, s))
SHARE(MPI_Testany, (int n, MPI_Request r[], int *i, int *done, MPI_Status *s), (n, r, i, done, s))
SHARE(MPI_Probe, (int from, int tag, MPI_Comm c, MPI_Status *s), (from, tag, c, s))
SHARE(MPI_Iprobe, (int from, int tag, MPI_Comm c, int *there, MPI_Status *s), (from, tag, c, there, s))
SHARE(MPI_Barrier, (MPI_Comm c), (c))
SHARE(MPI_Bcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
SHARE(MPI_Reduce, (const void *b, void *b2, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c),
      (b, b2, n, t, o, root, c))
SHARE(MPI_Allreduce, (const void *b, void *b2, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (b, b2, n, t, o, c))
SHARE(MPI_Scan, (const void *b, void *b2, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (b, b2, n, t, o, c))
SHARE(MPI_Reduce_scatter, (const void *b, void *b2, const int n[], MPI_Datatype t, MPI_Op o, MPI_Comm c),
      (b, b2, n, t, o, c))
SHARE(MPI_Gather, (const void *b, int n, MPI_Datatype t, void *b2, int n2, MPI_Datatype t2, int root, MPI_Comm c),
      (b, n, t, b2, n2, t2, root, c))
SHARE(MPI_Gatherv,
      (const void *b, int n, MPI_Datatype t, void *b2, const int n2[], const int d2[], MPI_Datatype t2, int root,
       MPI_Comm c),
      (b, n, t, b2, n2, d2, t2, root, c))
SHARE(MPI_Scatter, (const void *b, int n, MPI_Datatype t, void *b2, int n2, MPI_Datatype t2, int root, MPI_Comm c),
      (b, n, t, b2, n2, t2, root, c))
SHARE(MPI_Allgather, (const void *b, int n, MPI_Datatype t, void *b2, int n2, MPI_Datatype t2, MPI_Comm c),
      (b, n, t, b2, n2, t2, c))
SHARE(MPI_Allgatherv,
      (const void *b, int n, MPI_Datatype t, void *b2, const int n2[], const int d2[], MPI_Datatype t2, MPI_Comm c),
      (b, n, t, b2, n2, d2, t2, c))
SHARE(MPI_Alltoall, (const void *b, int n, MPI_Datatype t, void *b2, int n2, MPI_Datatype t2, MPI_Comm c),
      (b, n, t, b2, n2, t2, c))
SHARE(MPI_Alltoallv,
      (const void *b, const int n[], const int d[], MPI_Datatype t, void *b2, const int n2[], const int d2[],
       MPI_Datatype t2, MPI_Comm c),
      (b, n, d, t, b2, n2, d2, t2, c))
