/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations at a program that computes: it makes no MPI call until its memory shows that all of them were
 * done. So nothing here may need its help. Windows of MPI_Win_allocate and, at the end, dynamic ones; passive
 * synchronization.
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

/* ---- Dynamic windows ---- */

/* MPICH asks its shared memory for puts within a node, which then need the target. */
static bool is_on_node_of(MPI_Comm comm, int target)
{
    MPI_Group all, node;
    MPI_Comm neighbours;
    int found;

    mt_ok(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &neighbours));
    mt_ok(MPI_Comm_group(comm, &all));
    mt_ok(MPI_Comm_group(neighbours, &node));
    mt_ok(MPI_Group_translate_ranks(all, 1, &target, node, &found));
    mt_ok(MPI_Group_free(&all));
    mt_ok(MPI_Group_free(&node));
    mt_ok(MPI_Comm_free(&neighbours));
    return found != MPI_UNDEFINED;
}

/* The block lies in two ranges that were attached one after the other. */
static void dynamic_use(MPI_Win win, MPI_Aint at, int target, int rank, bool near)
{
    int64_t out[BLOCK_WORDS / 10], in[BLOCK_WORDS / 10], one = 1, old, seen, expected = 0;
    MPI_Aint block = at + (MPI_Aint)(BLOCK + rank * BLOCK_WORDS / 10) * (MPI_Aint)sizeof(old);

    mt_ok(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, target, at + COUNTER * (MPI_Aint)sizeof(old), MPI_SUM, win));
    mt_ok(MPI_Compare_and_swap(&one, &expected, &seen, MPI_INT64_T, target, at + SWAPPED * (MPI_Aint)sizeof(old), win));
    mt_ok(MPI_Win_flush(target, win));
    mt_check(seen == 0 || seen == 1, "the word to swap was %lld", (long long)seen);
    if (!near) {
        for (int i = 0; i < BLOCK_WORDS / 10; i++)
            out[i] = rank * 1000000 + i;
        mt_ok(MPI_Put(out, BLOCK_WORDS / 10, MPI_INT64_T, target, block, BLOCK_WORDS / 10, MPI_INT64_T, win));
        mt_ok(MPI_Win_flush(target, win));
        mt_ok(MPI_Get(in, BLOCK_WORDS / 10, MPI_INT64_T, target, block, BLOCK_WORDS / 10, MPI_INT64_T, win));
        mt_ok(MPI_Win_flush(target, win));
        for (int i = 0; i < BLOCK_WORDS / 10; i++)
            mt_check(in[i] == out[i], "word %d came back as %lld", i, (long long)in[i]);
    }
    mt_ok(MPI_Accumulate(&one, 1, MPI_INT64_T, target, at + ARRIVED * (MPI_Aint)sizeof(old), 1, MPI_INT64_T, MPI_SUM,
                         win));
    mt_ok(MPI_Win_flush(target, win));
}

/* The target attaches the memory in two pieces, and detaches it when all have used it. */
static void dynamic_round(MPI_Comm comm, MPI_Win win, bool near)
{
    int rank = mt_rank(comm), size = mt_size(comm), target = size - 1;
    size_t words = BLOCK + (size_t)size * BLOCK_WORDS / 10, half = (BLOCK + BLOCK_WORDS / 20) * sizeof(int64_t);
    int64_t *memory = rank == target ? calloc(words, sizeof(*memory)) : NULL;
    MPI_Aint at = 0;

    if (rank == target) {
        mt_ok(MPI_Win_attach(win, memory, (MPI_Aint)half));
        mt_ok(MPI_Win_attach(win, (char *)memory + half, (MPI_Aint)(words * sizeof(*memory) - half)));
        mt_ok(MPI_Get_address(memory, &at));
    }
    mt_ok(MPI_Bcast(&at, 1, MPI_AINT, target, comm));
    mt_ok(MPI_Barrier(comm));
    if (rank != target) {
        dynamic_use(win, at, target, rank, near);
    } else {
        compute_until(&memory[ARRIVED], size - 1, "ranks");
        mt_check(memory[COUNTER] == size - 1, "the counter is %lld", (long long)memory[COUNTER]);
        mt_check(memory[SWAPPED] == 1, "the swapped word is %lld", (long long)memory[SWAPPED]);
        mt_ok(MPI_Win_detach(win, (char *)memory + half));
        mt_ok(MPI_Win_detach(win, memory));
    }
    mt_ok(MPI_Barrier(comm));
    free(memory);
}

static void run_dynamic(MPI_Comm comm)
{
    bool near = is_on_node_of(comm, mt_size(comm) - 1);
    MPI_Win win;

    mt_ok(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win));
    mt_ok(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 5; i++)
        dynamic_round(comm, win, near);
    mt_ok(MPI_Win_unlock_all(win));
    mt_ok(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    static const struct mt_scenario scenarios[] = {
        {"fetch_and_op", 2, run_fetch_and_op},
        {"exclusive", 2, run_exclusive},
        {"shared", 2, run_shared},
        {"lock_all", 2, run_lock_all},
        {"compare_and_swap", 2, run_compare_and_swap},
        {"dynamic", 2, run_dynamic},
        {NULL, 0, NULL},
    };

    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
