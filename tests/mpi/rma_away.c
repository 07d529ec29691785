/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations at a program that computes: it makes no MPI call until its memory shows that all of them were
 * done. So nothing here may need its help. Windows of MPI_Win_allocate, passive synchronization.
 */
#include "mpitest.h"

#include <stdlib.h>
#include <time.h>

enum {
    COUNTER,
    SWAPPED,
    SUM,
    ARRIVED, /* one more for each rank that has finished */
    BLOCK,   /* one word for each rank, then BLOCK_WORDS for each rank */
    BLOCK_WORDS = 5000,
    TIMES = 1000,
    LIMIT_S = 40,
};

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Computes until the word has this value. */
static void compute_until(volatile int64_t *word, int64_t value, const char *what)
{
    double end = seconds() + LIMIT_S;

    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
        mt_check(seconds() < end, "%s: %lld of %lld were done while the target computed for %d s", what,
                 (long long)*word, (long long)value, LIMIT_S);
}

static int64_t *window_make(MPI_Comm comm, MPI_Win *win_p)
{
    MPI_Aint words = BLOCK + (MPI_Aint)mt_size(comm) * (1 + BLOCK_WORDS);
    int64_t *base;

    mt_ok(MPI_Win_allocate(words * (MPI_Aint)sizeof(*base), sizeof(*base), MPI_INFO_NULL, comm, &base, win_p));
    mt_ok(MPI_Win_set_errhandler(*win_p, MPI_ERRORS_RETURN));
    for (MPI_Aint i = 0; i < words; i++)
        base[i] = 0;
    return base;
}

/* The last rank is the target: it computes until all others have run. */
static void run_with(MPI_Comm comm, bool lock_all, void (*run)(MPI_Win win, int target, int rank, int size),
                     void (*check)(const int64_t *base, int size))
{
    int rank = mt_rank(comm), size = mt_size(comm), target = size - 1;
    const int64_t one = 1;
    MPI_Win win;
    int64_t *base = window_make(comm, &win);

    if (lock_all)
        mt_ok(MPI_Win_lock_all(0, win));
    mt_ok(MPI_Barrier(comm));
    if (rank != target) {
        run(win, target, rank, size);
        if (!lock_all)
            mt_ok(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
        mt_ok(MPI_Accumulate(&one, 1, MPI_INT64_T, target, ARRIVED, 1, MPI_INT64_T, MPI_SUM, win));
        mt_ok(lock_all ? MPI_Win_flush(target, win) : MPI_Win_unlock(target, win));
    } else {
        compute_until(&base[ARRIVED], size - 1, "ranks");
        check(base, size);
    }
    if (lock_all)
        mt_ok(MPI_Win_unlock_all(win));
    mt_ok(MPI_Win_free(&win));
}

/* ---- Fetch and op ---- */

static void fetch_run(MPI_Win win, int target, int rank, int size)
{
    const int64_t one = 1;
    int64_t got, last = -1;

    (void)rank;
    for (int i = 0; i < TIMES; i++) {
        mt_ok(MPI_Fetch_and_op(&one, &got, MPI_INT64_T, target, COUNTER, MPI_SUM, win));
        mt_ok(MPI_Win_flush(target, win));
        mt_check(got > last && got < (int64_t)TIMES * (size - 1), "fetch %d got %lld after %lld", i, (long long)got,
                 (long long)last);
        last = got;
    }
}

static void fetch_check(const int64_t *base, int size)
{
    mt_check(base[COUNTER] == (int64_t)TIMES * (size - 1), "the counter is %lld", (long long)base[COUNTER]);
}

static void run_fetch_and_op(MPI_Comm comm)
{
    run_with(comm, true, fetch_run, fetch_check);
}

/* ---- Locks ---- */

/* Under an exclusive lock: read a word and write it back increased, which is no atomic. */
static void exclusive_run(MPI_Win win, int target, int rank, int size)
{
    (void)rank;
    (void)size;
    for (int i = 0; i < TIMES / 30; i++) {
        int64_t value;

        mt_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
        mt_ok(MPI_Get(&value, 1, MPI_INT64_T, target, COUNTER, 1, MPI_INT64_T, win));
        mt_ok(MPI_Win_flush(target, win));
        value++;
        mt_ok(MPI_Put(&value, 1, MPI_INT64_T, target, COUNTER, 1, MPI_INT64_T, win));
        mt_ok(MPI_Win_unlock(target, win));
    }
}

static void exclusive_check(const int64_t *base, int size)
{
    mt_check(base[COUNTER] == (int64_t)(TIMES / 30) * (size - 1), "the counter is %lld", (long long)base[COUNTER]);
}

static void run_exclusive(MPI_Comm comm)
{
    run_with(comm, false, exclusive_run, exclusive_check);
}

/* A long put, and a get of it, under shared locks. */
static void shared_run(MPI_Win win, int target, int rank, int size)
{
    static int64_t out[BLOCK_WORDS], in[BLOCK_WORDS];
    int place = BLOCK + size + rank * BLOCK_WORDS;

    for (int i = 0; i < BLOCK_WORDS; i++)
        out[i] = rank * 1000000 + i;
    mt_ok(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
    mt_ok(MPI_Put(out, BLOCK_WORDS, MPI_INT64_T, target, place, BLOCK_WORDS, MPI_INT64_T, win));
    mt_ok(MPI_Win_unlock(target, win));
    mt_ok(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
    mt_ok(MPI_Get(in, BLOCK_WORDS, MPI_INT64_T, target, place, BLOCK_WORDS, MPI_INT64_T, win));
    mt_ok(MPI_Win_unlock(target, win));
    for (int i = 0; i < BLOCK_WORDS; i++)
        mt_check(in[i] == out[i], "word %d came back as %lld", i, (long long)in[i]);
}

static void shared_check(const int64_t *base, int size)
{
    for (int rank = 0; rank < size - 1; rank++)
        for (int i = 0; i < BLOCK_WORDS; i++)
            mt_check(base[BLOCK + size + rank * BLOCK_WORDS + i] == rank * 1000000 + i, "word %d of rank %d is %lld", i,
                     rank, (long long)base[BLOCK + size + rank * BLOCK_WORDS + i]);
}

static void run_shared(MPI_Comm comm)
{
    run_with(comm, false, shared_run, shared_check);
}

/* lock_all itself, while the target computes. */
static void lock_all_run(MPI_Win win, int target, int rank, int size)
{
    const int64_t mine = rank + 1;

    (void)size;
    mt_ok(MPI_Win_lock_all(0, win));
    mt_ok(MPI_Put(&mine, 1, MPI_INT64_T, target, BLOCK + rank, 1, MPI_INT64_T, win));
    mt_ok(MPI_Accumulate(&mine, 1, MPI_INT64_T, target, SUM, 1, MPI_INT64_T, MPI_SUM, win));
    mt_ok(MPI_Win_unlock_all(win));
}

static void lock_all_check(const int64_t *base, int size)
{
    for (int rank = 0; rank < size - 1; rank++)
        mt_check(base[BLOCK + rank] == rank + 1, "the word of rank %d is %lld", rank, (long long)base[BLOCK + rank]);
    mt_check(base[SUM] == (int64_t)size * (size - 1) / 2, "the sum is %lld", (long long)base[SUM]);
}

static void run_lock_all(MPI_Comm comm)
{
    run_with(comm, false, lock_all_run, lock_all_check);
}

/* ---- Compare and swap ---- */

/* Increases a word by compare and swap; the old value is taken by an atomic get. */
static void swap_run(MPI_Win win, int target, int rank, int size)
{
    (void)rank;
    (void)size;
    for (int i = 0; i < TIMES / 30; i++) {
        int64_t expected, set, old;

        mt_ok(MPI_Fetch_and_op(NULL, &expected, MPI_INT64_T, target, SWAPPED, MPI_NO_OP, win));
        mt_ok(MPI_Win_flush(target, win));
        for (;; expected = old) {
            set = expected + 1;
            mt_ok(MPI_Compare_and_swap(&set, &expected, &old, MPI_INT64_T, target, SWAPPED, win));
            mt_ok(MPI_Win_flush(target, win));
            if (old == expected)
                break;
        }
    }
}

static void swap_check(const int64_t *base, int size)
{
    mt_check(base[SWAPPED] == (int64_t)(TIMES / 30) * (size - 1), "the word is %lld", (long long)base[SWAPPED]);
}

static void run_compare_and_swap(MPI_Comm comm)
{
    run_with(comm, true, swap_run, swap_check);
}

int main(int argc, char **argv)
{
    static const struct mt_scenario scenarios[] = {
        {"fetch_and_op", 2, run_fetch_and_op},
        {"exclusive", 2, run_exclusive},
        {"shared", 2, run_shared},
        {"lock_all", 2, run_lock_all},
        {"compare_and_swap", 2, run_compare_and_swap},
        {NULL, 0, NULL},
    };

    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
