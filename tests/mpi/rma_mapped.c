/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Windows of MPI_Win_allocate, whose memory processes of a node may map: all ranks change the same locations at the
 * same time, some by the processor, some by the network, the target itself too. Datatypes of each length that is
 * changed in a way of its own; data of any length beside them; windows that come and go.
 */
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>

enum { TIMES = 100, BLOCK_BYTES = 100000, WINDOWS = 30 };

/* What each rank has. */
struct site {
    int8_t byte;
    int16_t two;
    int32_t four;
    int64_t eight;
    float real;
    double real8;
    long double real16;
    struct {
        double value;
        int index;
    } most;
    int64_t swapped;
    char block[]; /* BLOCK_BYTES of each rank */
};

#define AT(member) ((MPI_Aint)offsetof(struct site, member))

static MPI_Win window(MPI_Comm comm, MPI_Aint bytes, void *base_p)
{
    MPI_Win win;

    mt_ok(MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, comm, base_p, &win));
    memset(*(void **)base_p, 0, (size_t)bytes);
    mt_ok(MPI_Barrier(comm));
    return win;
}

static void add(const void *one, MPI_Datatype type, int target, MPI_Aint at, MPI_Win win)
{
    mt_ok(MPI_Accumulate(one, 1, type, target, at, 1, type, MPI_SUM, win));
}

/* By compare and swap. */
static void increase(int target, MPI_Win win)
{
    int64_t seen = 0, found = -1;

    for (;; seen = found) {
        int64_t next = seen + 1;

        mt_ok(MPI_Compare_and_swap(&next, &seen, &found, MPI_INT64_T, target, AT(swapped), win));
        mt_ok(MPI_Win_flush(target, win));
        if (found == seen)
            return;
    }
}

static void change_all(int target, int rank, int i, MPI_Win win)
{
    const int8_t byte = 1;
    const int16_t two = 3;
    const int32_t four = 1;
    const int64_t eight = -1;
    const float real = 0.5f;
    const double real8 = 0.25;
    const long double real16 = 2;
    const struct {
        double value;
        int index;
    } most = {i, rank};

    add(&byte, MPI_INT8_T, target, AT(byte), win);
    add(&two, MPI_INT16_T, target, AT(two), win);
    add(&four, MPI_INT32_T, target, AT(four), win);
    add(&eight, MPI_INT64_T, target, AT(eight), win);
    add(&real, MPI_FLOAT, target, AT(real), win);
    add(&real8, MPI_DOUBLE, target, AT(real8), win);
    add(&real16, MPI_LONG_DOUBLE, target, AT(real16), win);
    mt_ok(MPI_Accumulate(&most, 1, MPI_DOUBLE_INT, target, AT(most), 1, MPI_DOUBLE_INT, MPI_MAXLOC, win));
    mt_ok(MPI_Win_flush_local(target, win)); /* the operands go */
}

/* A block of its own at each target: put, and get back. */
static void exchange_block(int target, int rank, int i, MPI_Win win)
{
    static char out[BLOCK_BYTES], in[BLOCK_BYTES];
    int bytes = 1 + i * 251 % BLOCK_BYTES;
    MPI_Aint at = AT(block) + (MPI_Aint)rank * BLOCK_BYTES;

    memset(out, i + rank + 1, (size_t)bytes);
    mt_ok(MPI_Put(out, bytes, MPI_BYTE, target, at, bytes, MPI_BYTE, win));
    mt_ok(MPI_Win_flush(target, win));
    mt_ok(MPI_Get(in, bytes, MPI_BYTE, target, at, bytes, MPI_BYTE, win));
    mt_ok(MPI_Win_flush(target, win));
    mt_check(!memcmp(in, out, (size_t)bytes), "%d bytes at rank %d are wrong", bytes, target);
}

static void check(const struct site *s, int size)
{
    int n = TIMES * size;

    mt_check(s->byte == (int8_t)n && s->two == (int16_t)(3 * n) && s->four == n && s->eight == -n,
             "sums of integers: %d %d %d %lld", s->byte, s->two, (int)s->four, (long long)s->eight);
    mt_check(s->real == 0.5f * (float)n && s->real8 == 0.25 * n && s->real16 == 2.0L * n, "sums of reals: %g %g %Lg",
             (double)s->real, s->real8, s->real16);
    mt_check(s->most.value == TIMES - 1 && s->most.index == 0, "the greatest: %g of %d", s->most.value, s->most.index);
    mt_check(s->swapped == n, "%lld of %d swaps", (long long)s->swapped, n);
}

static void run_all(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm);
    struct site *s;
    MPI_Win win = window(comm, (MPI_Aint)(sizeof(*s) + (size_t)size * BLOCK_BYTES), &s);

    mt_ok(MPI_Win_lock_all(0, win));
    for (int i = 0; i < TIMES; i++)
        for (int k = 0; k < size; k++) {
            int target = (rank + k) % size;

            change_all(target, rank, i, win);
            increase(target, win);
            if (i % 20 == 0)
                exchange_block(target, rank, i, win);
        }
    mt_ok(MPI_Win_unlock_all(win));
    mt_ok(MPI_Barrier(comm));
    check(s, size);
    mt_ok(MPI_Win_free(&win));
}

/* Each is used at once, and freed while its memory may be mapped. */
static void run_windows(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm);
    const int64_t one = 1;

    for (int i = 0; i < WINDOWS; i++) {
        int64_t *sum;
        MPI_Win win = window(comm, sizeof(*sum), &sum);

        for (int n = 0; n < 20; n++) {
            mt_ok(MPI_Win_lock(MPI_LOCK_SHARED, (rank + 1) % size, 0, win));
            add(&one, MPI_INT64_T, (rank + 1) % size, 0, win);
            mt_ok(MPI_Win_unlock((rank + 1) % size, win));
        }
        mt_ok(MPI_Barrier(comm));
        mt_check(*sum == 20, "window %d: %lld", i, (long long)*sum);
        mt_ok(MPI_Win_free(&win));
    }
}

static const struct mt_scenario scenarios[] = {
    {"all", 1, run_all},
    {"windows", 1, run_windows},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
