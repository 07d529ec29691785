/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Kernels of programs, of 2 or more ranks, and prints a line per figure: kind, size, value. Kinds:
 *   is          seconds to sort 2^size integer keys on each rank, ten times, by buckets: reductions and all-to-all
 *   cg          seconds for conjugate gradients on a sparse matrix of size rows, ten steps of power iteration with 25
 *               steps each: sums over all ranks, and vectors gathered
 * As the kernels IS and CG of the NAS parallel benchmarks do it, in small; each checks its result.
 */
#define _GNU_SOURCE
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../bench/bench.h"

enum { LARGEST = 1 << 24, SORTS = 10, POWER_STEPS = 10, CG_STEPS = 25, ROW_ENTRIES = 24 };

static int rank, ranks;

static void *get(size_t count, size_t size_bytes)
{
    void *p = calloc(count ? count : 1, size_bytes);

    if (!p)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return p;
}

static void wrong(const char *what)
{
    fprintf(stderr, "kernels: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Numbers that look random, the same on every machine. */
static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
    x = (x ^ x >> 27) * UINT64_C(0x81dadef4bc2dd44d);
    return x ^ x >> 33;
}

/* ---- is: keys of 16 bits; rank r gets the r-th part of their range ---- */

struct sorting {
    int count;    /* of own keys */
    int *keys;    /* own */
    int *by_rank; /* the same, by the rank that they go to */
    int *sorted;  /* that came */
    int got;      /* how many */
    int *send, *recv, *send_at, *recv_at;
};

static const int key_range = 1 << 16;

static int owner(int key)
{
    return (int)((int64_t)key * ranks / key_range);
}

static void make_keys(struct sorting *s, int round)
{
    for (int i = 0; i < s->count; i++) {
        uint64_t r = mixed(((uint64_t)round << 40) + ((uint64_t)rank << 32) + (uint64_t)i + 1);

        s->keys[i] = (int)((r & 0x3fff) + (r >> 14 & 0x3fff) + (r >> 28 & 0x3fff) + (r >> 42 & 0x3fff));
    }
}

static void part_by_rank(struct sorting *s)
{
    int *at = get((size_t)ranks, sizeof(*at));

    memset(s->send, 0, sizeof(int) * (size_t)ranks);
    for (int i = 0; i < s->count; i++)
        s->send[owner(s->keys[i])]++;
    for (int r = 1; r < ranks; r++)
        s->send_at[r] = at[r] = at[r - 1] + s->send[r - 1];
    for (int i = 0; i < s->count; i++)
        s->by_rank[at[owner(s->keys[i])]++] = s->keys[i];
    free(at);
}

static void exchange_keys(struct sorting *s)
{
    MPI_Alltoall(s->send, 1, MPI_INT, s->recv, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 1; r < ranks; r++)
        s->recv_at[r] = s->recv_at[r - 1] + s->recv[r - 1];
    s->got = s->recv_at[ranks - 1] + s->recv[ranks - 1];
    free(s->sorted);
    s->sorted = get((size_t)s->got, sizeof(int));
    MPI_Alltoallv(s->by_rank, s->send, s->send_at, MPI_INT, s->sorted, s->recv, s->recv_at, MPI_INT, MPI_COMM_WORLD);
}

static void count_sort(int *keys, int count)
{
    int *times = get((size_t)key_range, sizeof(*times)), n = 0;

    for (int i = 0; i < count; i++)
        times[keys[i]]++;
    for (int k = 0; k < key_range; k++)
        while (times[k]-- > 0)
            keys[n++] = k;
    free(times);
}

/* In order here, no key of another rank's part, none lost, and the sum is that of the keys there were. */
static void check_sorted(const struct sorting *s)
{
    int64_t mine[3] = {-s->count, s->got, 0}, all[3];

    for (int i = 0; i < s->count; i++)
        mine[2] -= s->keys[i];
    for (int i = 0; i < s->got; i++) {
        mine[2] += s->sorted[i];
        if (owner(s->sorted[i]) != rank || (i && s->sorted[i] < s->sorted[i - 1]))
            wrong("is: keys are not in order");
    }
    MPI_Allreduce(mine, all, 3, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (all[0] + all[1] || all[2])
        wrong("is: keys were lost or changed");
}

static double is(int size, double seconds)
{
    struct sorting s = {.count = 1 << size};
    double start;

    (void)seconds;
    s.keys = get((size_t)s.count, sizeof(int));
    s.by_rank = get((size_t)s.count, sizeof(int));
    s.send = get(4 * (size_t)ranks, sizeof(int));
    s.recv = s.send + ranks;
    s.send_at = s.recv + ranks;
    s.recv_at = s.send_at + ranks;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < SORTS; i++) {
        make_keys(&s, i);
        part_by_rank(&s);
        exchange_keys(&s);
        count_sort(s.sorted, s.got);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime() - start;
    check_sorted(&s);
    free(s.keys);
    free(s.by_rank);
    free(s.send);
    free(s.sorted);
    return start;
}

/* ---- cg: A is symmetric and its diagonal dominates; each rank has a block of rows ---- */

struct matrix {
    int n, first, rows;
    int *column;
    double *value, *diagonal; /* ROW_ENTRIES to a row, and its diagonal */
};

/* Row i has entries at i +- d for a few distances d that all rows share, so the matrix is symmetric. */
static void make_matrix(struct matrix *a, int n)
{
    a->n = n;
    a->rows = n / ranks;
    a->first = rank * a->rows;
    a->column = get((size_t)a->rows * ROW_ENTRIES, sizeof(int));
    a->value = get((size_t)a->rows * ROW_ENTRIES, sizeof(double));
    a->diagonal = get((size_t)a->rows, sizeof(double));
    for (int i = 0; i < a->rows; i++) {
        a->diagonal[i] = 0.1;
        for (int k = 0; k < ROW_ENTRIES; k++) {
            int d = (int)(mixed((uint64_t)(k / 2) + 1) % (uint64_t)(n - 1)) + 1, row = a->first + i;
            int column = k % 2 ? (row + d) % n : (row + n - d) % n;
            double value = 1.0 / (1 + k / 2);

            a->column[i * ROW_ENTRIES + k] = column;
            a->value[i * ROW_ENTRIES + k] = -value;
            a->diagonal[i] += value;
        }
    }
}

static double dot(const struct matrix *a, const double *x, const double *y)
{
    double mine = 0, all;

    for (int i = 0; i < a->rows; i++)
        mine += x[i] * y[i];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* y = A x; whole is room for all of x. */
static void multiply(const struct matrix *a, const double *x, double *whole, double *y)
{
    MPI_Allgather(x, a->rows, MPI_DOUBLE, whole, a->rows, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int i = 0; i < a->rows; i++) {
        double sum = a->diagonal[i] * x[i];

        for (int k = 0; k < ROW_ENTRIES; k++)
            sum += a->value[i * ROW_ENTRIES + k] * whole[a->column[i * ROW_ENTRIES + k]];
        y[i] = sum;
    }
}

struct vectors {
    double *x, *z, *r, *p, *q, *whole;
};

/* Solves A z = x. Returns the norm of x - A z. */
static double solve(const struct matrix *a, struct vectors *v)
{
    double rho, rho_before, alpha;

    for (int i = 0; i < a->rows; i++) {
        v->z[i] = 0;
        v->r[i] = v->p[i] = v->x[i];
    }
    rho = dot(a, v->r, v->r);
    for (int step = 0; step < CG_STEPS; step++) {
        multiply(a, v->p, v->whole, v->q);
        alpha = rho / dot(a, v->p, v->q);
        for (int i = 0; i < a->rows; i++) {
            v->z[i] += alpha * v->p[i];
            v->r[i] -= alpha * v->q[i];
        }
        rho_before = rho;
        rho = dot(a, v->r, v->r);
        for (int i = 0; i < a->rows; i++)
            v->p[i] = v->r[i] + rho / rho_before * v->p[i];
    }
    multiply(a, v->z, v->whole, v->q);
    for (int i = 0; i < a->rows; i++)
        v->q[i] -= v->x[i];
    return sqrt(dot(a, v->q, v->q));
}

static double cg(int size, double seconds)
{
    struct matrix a;
    struct vectors v;
    double start, norm, left = 0;

    (void)seconds;
    make_matrix(&a, size / ranks * ranks);
    v.x = get(5 * (size_t)a.rows + (size_t)a.n, sizeof(double));
    v.z = v.x + a.rows;
    v.r = v.z + a.rows;
    v.p = v.r + a.rows;
    v.q = v.p + a.rows;
    v.whole = v.q + a.rows;
    for (int i = 0; i < a.rows; i++)
        v.x[i] = 1 + (double)(mixed((uint64_t)(a.first + i)) % 1000) / 1000;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int step = 0; step < POWER_STEPS; step++) {
        left = solve(&a, &v);
        norm = sqrt(dot(&a, v.z, v.z));
        for (int i = 0; i < a.rows; i++)
            v.x[i] = v.z[i] / norm;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime() - start;
    if (!(left < 1e-3))
        wrong("cg: it has not come to the solution");
    free(v.x);
    free(a.column);
    free(a.value);
    free(a.diagonal);
    return start;
}

/* ---- The program ---- */

static const struct kind {
    const char *name;
    double (*figure)(int size, double seconds);
} kinds[] = {{"is", is}, {"cg", cg}};

static const void *kind_find(const char *name)
{
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    return NULL;
}

static void measure(const void *k, int size, double seconds)
{
    const struct kind *kind = k;
    double figure = kind->figure(size, seconds);

    if (rank == 0) {
        printf("%s %d %.6g\n", kind->name, size, figure);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    struct bench_args args = {.seconds = 0.5, .size_max = LARGEST, .find = kind_find, .measure = measure};
    int status;

    bench_stay_on_core("OMPI_COMM_WORLD_RANK");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    status = bench_run(&args, argc, argv);
    if (status && rank == 0)
        fprintf(stderr, "usage: kernels [--seconds S] is|cg SIZE... [KIND SIZE...]\n");
    MPI_Finalize();
    return status ? 2 : 0;
}
