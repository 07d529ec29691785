/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided communication that every transport has; over those without their own, Open MPI needs --mca osc pt2pt.
 */
#include "mpitest.h"

#include <stdlib.h>

enum { ROOM = 50000 };

static const int counts[] = {1, 2, 350, 2300, 9000, 40000};

static int element(int from, int to, int i)
{
    return from * 1000003 + to * 10007 + i;
}

/* A window of size * ROOM ints: room for one block of each rank. */
static int *window_make(MPI_Comm comm, MPI_Win *win_p)
{
    MPI_Aint bytes = (MPI_Aint)sizeof(int) * ROOM * mt_size(comm);
    int *base;

    mt_ok(MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, comm, &base, win_p));
    mt_ok(MPI_Win_set_errhandler(*win_p, MPI_ERRORS_RETURN));
    return base;
}

static void blocks_check(const int *base, int to, int size, int count, const char *what)
{
    for (int from = 0; from < size; from++)
        for (int i = 0; i < count; i++)
            mt_check(base[from * ROOM + i] == element(from, to, i), "%s: element %d of %d from %d is %d, not %d", what,
                     i, count, from, base[from * ROOM + i], element(from, to, i));
}

/* Everybody puts a block to everybody. */
static void run_put_fence(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm);
    int *out = malloc(sizeof(int) * ROOM * (size_t)size), *base;
    MPI_Win win;

    base = window_make(comm, &win);
    for (int to = 0; to < size; to++)
        for (int i = 0; i < ROOM; i++)
            out[to * ROOM + i] = element(rank, to, i);
    for (unsigned c = 0; c < MT_COUNT(counts); c++) {
        mt_ok(MPI_Win_fence(0, win));
        for (int to = 0; to < size; to++)
            mt_ok(MPI_Put(out + to * ROOM, counts[c], MPI_INT, to, rank * ROOM, counts[c], MPI_INT, win));
        mt_ok(MPI_Win_fence(0, win));
        blocks_check(base, rank, size, counts[c], "put");
    }
    mt_ok(MPI_Win_free(&win));
    free(out);
}

static void run_get_fence(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm);
    int *in = malloc(sizeof(int) * ROOM * (size_t)size), *base;
    MPI_Win win;

    base = window_make(comm, &win);
    for (int to = 0; to < size; to++)
        for (int i = 0; i < ROOM; i++)
            base[to * ROOM + i] = element(rank, to, i);
    for (unsigned c = 0; c < MT_COUNT(counts); c++) {
        mt_ok(MPI_Win_fence(0, win));
        for (int from = 0; from < size; from++)
            mt_ok(MPI_Get(in + from * ROOM, counts[c], MPI_INT, from, rank * ROOM, counts[c], MPI_INT, win));
        mt_ok(MPI_Win_fence(0, win));
        blocks_check(in, rank, size, counts[c], "get");
    }
    mt_ok(MPI_Win_free(&win));
    free(in);
}

/* Everybody adds to the same place of everybody. */
static void run_accumulate(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm);
    int *out = malloc(sizeof(int) * ROOM), *base;
    MPI_Win win;

    base = window_make(comm, &win);
    for (int i = 0; i < ROOM; i++)
        out[i] = rank + i;
    for (unsigned c = 0; c < MT_COUNT(counts); c++) {
        mt_ok(MPI_Win_fence(0, win));
        for (int i = 0; i < ROOM; i++)
            base[i] = 5;
        mt_ok(MPI_Win_fence(0, win));
        for (int to = 0; to < size; to++)
            mt_ok(MPI_Accumulate(out, counts[c], MPI_INT, to, 0, counts[c], MPI_INT, MPI_SUM, win));
        mt_ok(MPI_Win_fence(0, win));
        for (int i = 0; i < ROOM; i++) {
            int expected = i < counts[c] ? 5 + size * (size - 1) / 2 + size * i : 5;

            mt_check(base[i] == expected, "accumulate: element %d is %d, not %d", i, base[i], expected);
        }
    }
    mt_ok(MPI_Win_free(&win));
    free(out);
}

/* A counter at rank 0 that everybody fetches and increases: every value is given out once. */
static void run_fetch_and_op(MPI_Comm comm)
{
    enum { TIMES = 100 };
    int rank = mt_rank(comm), size = mt_size(comm), one = 1, got, sum = 0, total = 0, *base;
    MPI_Win win;

    base = window_make(comm, &win);
    base[0] = 0;
    mt_ok(MPI_Barrier(comm));
    mt_ok(MPI_Win_lock_all(0, win));
    for (int i = 0; i < TIMES; i++) {
        mt_ok(MPI_Fetch_and_op(&one, &got, MPI_INT, 0, 0, MPI_SUM, win));
        mt_ok(MPI_Win_flush(0, win));
        mt_check(got >= 0 && got < TIMES * size, "the counter gave %d", got);
        sum += got;
    }
    mt_ok(MPI_Win_unlock_all(win));
    mt_ok(MPI_Reduce(&sum, &total, 1, MPI_INT, MPI_SUM, 0, comm));
    if (rank == 0) {
        int all = TIMES * size;

        mt_ok(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        mt_check(base[0] == all, "the counter ends at %d, not %d", base[0], all);
        mt_ok(MPI_Win_unlock(0, win));
        mt_check(total == all * (all - 1) / 2, "the counter's values add up to %d", total);
    }
    mt_ok(MPI_Win_free(&win));
}

/* An exclusive lock guards a read-change-write. */
static void run_lock(MPI_Comm comm)
{
    enum { TIMES = 30 };
    int rank = mt_rank(comm), size = mt_size(comm), *base;
    MPI_Win win;

    base = window_make(comm, &win);
    base[0] = 0;
    mt_ok(MPI_Barrier(comm));
    for (int i = 0; i < TIMES; i++)
        for (int at = 0; at < size; at++) {
            int value;

            mt_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, at, 0, win));
            mt_ok(MPI_Get(&value, 1, MPI_INT, at, 0, 1, MPI_INT, win));
            mt_ok(MPI_Win_flush(at, win));
            value++;
            mt_ok(MPI_Put(&value, 1, MPI_INT, at, 0, 1, MPI_INT, win));
            mt_ok(MPI_Win_unlock(at, win));
        }
    mt_ok(MPI_Barrier(comm));
    mt_ok(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    mt_check(base[0] == TIMES * size, "the locked counter ends at %d, not %d", base[0], TIMES * size);
    mt_ok(MPI_Win_unlock(rank, win));
    mt_ok(MPI_Win_free(&win));
}

/* Post, start, complete, wait: each rank exposes to its left neighbour and writes to its right one. */
static void run_pscw(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), right = (rank + 1) % size, left = (rank + size - 1) % size;
    int *out = malloc(sizeof(int) * ROOM), *base;
    MPI_Group all, to, from;
    MPI_Win win;

    base = window_make(comm, &win);
    mt_ok(MPI_Comm_group(comm, &all));
    mt_ok(MPI_Group_incl(all, 1, &right, &to));
    mt_ok(MPI_Group_incl(all, 1, &left, &from));
    for (unsigned c = 0; c < MT_COUNT(counts); c++) {
        for (int i = 0; i < counts[c]; i++)
            out[i] = element(rank, right, i + (int)c);
        mt_ok(MPI_Win_post(from, 0, win));
        mt_ok(MPI_Win_start(to, 0, win));
        mt_ok(MPI_Put(out, counts[c], MPI_INT, right, 0, counts[c], MPI_INT, win));
        mt_ok(MPI_Win_complete(win));
        mt_ok(MPI_Win_wait(win));
        for (int i = 0; i < counts[c]; i++)
            mt_check(base[i] == element(left, rank, i + (int)c), "element %d of %d is %d", i, counts[c], base[i]);
    }
    mt_ok(MPI_Group_free(&to));
    mt_ok(MPI_Group_free(&from));
    mt_ok(MPI_Group_free(&all));
    mt_ok(MPI_Win_free(&win));
    free(out);
}

/* Columns of a matrix into rows of another. */
static void run_datatypes(MPI_Comm comm)
{
    enum { N = 60 };
    int rank = mt_rank(comm), size = mt_size(comm), right = (rank + 1) % size, left = (rank + size - 1) % size;
    int *out = malloc(sizeof(int) * N * N), *base;
    MPI_Datatype column;
    MPI_Win win;

    base = window_make(comm, &win);
    mt_ok(MPI_Type_vector(N, 1, N, MPI_INT, &column));
    mt_ok(MPI_Type_commit(&column));
    for (int i = 0; i < N * N; i++)
        out[i] = element(rank, 0, i);
    mt_ok(MPI_Win_fence(0, win));
    for (int k = 0; k < N; k++)
        mt_ok(MPI_Put(out + k * N, N, MPI_INT, right, k, 1, column, win));
    mt_ok(MPI_Win_fence(0, win));
    for (int row = 0; row < N; row++)
        for (int k = 0; k < N; k++)
            mt_check(base[row * N + k] == element(left, 0, k * N + row), "row %d, column %d is %d", row, k,
                     base[row * N + k]);
    mt_ok(MPI_Type_free(&column));
    mt_ok(MPI_Win_free(&win));
    free(out);
}

/* Requests, compare and swap. */
static void run_requests(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), right = (rank + 1) % size, value = rank + 100, got = -1, old = -1;
    int expected = (rank + size - 1) % size + 100, *base;
    MPI_Request request;
    MPI_Win win;

    base = window_make(comm, &win);
    base[0] = -1;
    mt_ok(MPI_Barrier(comm));
    mt_ok(MPI_Win_lock_all(0, win));
    mt_ok(MPI_Rput(&value, 1, MPI_INT, right, 0, 1, MPI_INT, win, &request));
    mt_ok(MPI_Wait(&request, MPI_STATUS_IGNORE));
    mt_ok(MPI_Win_flush(right, win));
    mt_ok(MPI_Rget(&got, 1, MPI_INT, right, 0, 1, MPI_INT, win, &request));
    mt_ok(MPI_Wait(&request, MPI_STATUS_IGNORE));
    mt_check(got == value, "put %d, got %d", value, got);
    value = rank + 500;
    mt_ok(MPI_Compare_and_swap(&value, &got, &old, MPI_INT, right, 0, win));
    mt_ok(MPI_Win_flush(right, win));
    mt_check(old == rank + 100, "compare and swap found %d", old);
    mt_ok(MPI_Win_unlock_all(win));
    mt_ok(MPI_Barrier(comm));
    mt_ok(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    mt_check(base[0] == expected + 400, "the window holds %d, not %d", base[0], expected + 400);
    mt_ok(MPI_Win_unlock(rank, win));
    mt_ok(MPI_Win_free(&win));
}

static const struct mt_scenario scenarios[] = {
    {"put-fence", 1, run_put_fence},       {"get-fence", 1, run_get_fence}, {"accumulate", 1, run_accumulate},
    {"fetch-and-op", 1, run_fetch_and_op}, {"lock", 1, run_lock},           {"pscw", 2, run_pscw},
    {"datatypes", 1, run_datatypes},       {"requests", 1, run_requests},   {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
