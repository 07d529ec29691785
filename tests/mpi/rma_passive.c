/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Contention for one location, by ranks and by threads, and a target whose program is away.
 */
#include "mpitest.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 200, THREADS = 4 };

/* Memory for each rank's counter on a page of its own. */
static MPI_Win window(MPI_Comm comm, size_t bytes, void *base_p)
{
    MPI_Win win;

    mt_ok(MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, comm, base_p, &win));
    mt_ok(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    memset(*(void **)base_p, 0, bytes);
    mt_ok(MPI_Barrier(comm));
    return win;
}

/* Each value of the counter was given to exactly one. */
static void check_given(MPI_Comm comm, int *given, int count)
{
    mt_ok(MPI_Allreduce(MPI_IN_PLACE, given, count, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < count; i++)
        mt_check(given[i] == 1, "%d was given %d times", i, given[i]);
}

/* ---- Ranks -------------------------------------------------------------------------------------------------- */

static void run_counter(MPI_Comm comm)
{
    int size = mt_size(comm), count = TIMES * size, *given = calloc((size_t)count, sizeof(int));
    long *base, one = 1;
    MPI_Win win = window(comm, sizeof(long), &base);

    mt_ok(MPI_Win_lock_all(0, win));
    for (int i = 0; i < TIMES; i++) {
        long got = -1;

        mt_ok(MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, 0, MPI_SUM, win));
        mt_ok(MPI_Win_flush(0, win));
        mt_check(got >= 0 && got < count, "the counter gave %ld", got);
        given[got]++;
    }
    mt_ok(MPI_Win_unlock_all(win));
    check_given(comm, given, count);
    mt_ok(MPI_Win_free(&win));
    free(given);
}

/* Increases the counter by compare and swap; returns what it found. */
static int increase(MPI_Win win)
{
    int seen = 0, found = -1;

    for (;;) {
        int next = seen + 1;

        mt_ok(MPI_Compare_and_swap(&next, &seen, &found, MPI_INT, 0, 0, win));
        mt_ok(MPI_Win_flush(0, win));
        if (found == seen)
            return seen;
        seen = found;
    }
}

static void run_swap(MPI_Comm comm)
{
    int size = mt_size(comm), count = TIMES * size, *given = calloc((size_t)count, sizeof(int)), *base;
    MPI_Win win = window(comm, sizeof(int), &base);

    mt_ok(MPI_Win_lock_all(0, win));
    for (int i = 0; i < TIMES; i++)
        given[increase(win)]++;
    mt_ok(MPI_Win_unlock_all(win));
    check_given(comm, given, count);
    mt_ok(MPI_Win_free(&win));
    free(given);
}

/* A type that no transport has: elements are exchanged, and none is lost or doubled. */
static void run_exchange(MPI_Comm comm)
{
#ifdef OPEN_MPI
    enum { N = 30 };
    int rank = mt_rank(comm), size = mt_size(comm), count = N * size + 1, *given = calloc((size_t)count, sizeof(int));
    double(*base)[2], own[2], old[2];
    MPI_Win win = window(comm, sizeof(own), &base);

    mt_ok(MPI_Win_lock_all(0, win));
    for (int i = 0; i < N; i++) {
        own[0] = own[1] = 1 + rank * N + i;
        mt_ok(MPI_Fetch_and_op(own, old, MPI_2DOUBLE_PRECISION, 0, 0, MPI_REPLACE, win));
        mt_ok(MPI_Win_flush(0, win));
        mt_check(old[0] == old[1] && old[0] >= 0 && old[0] < count, "got %g and %g", old[0], old[1]);
        given[(int)old[0]]++;
    }
    mt_ok(MPI_Win_unlock_all(win));
    mt_ok(MPI_Barrier(comm));
    if (rank == 0)
        given[(int)base[0][0]]++;
    check_given(comm, given, count);
    mt_ok(MPI_Win_free(&win));
    free(given);
#else
    mt_skip(comm, "the type is Fortran's");
#endif
}

/* ---- Away --------------------------------------------------------------------------------------------------- */

/* The upper half of the ranks computes, without a call of MPI, until the partner has put a word there that says that it
 * is ready with a thousand operations. */
static void run_away(MPI_Comm comm)
{
    enum { OPERATIONS = 1000 };
    int partner = mt_partner(comm), rank = mt_rank(comm), done = 1;
    long *base, one = 1, got = -1;
    MPI_Win win = window(comm, 2 * sizeof(long), &base);

#ifdef OPEN_MPI
    if (!mt_transport_is("ethmx")) {
        mt_skip(comm, "other transports need the target's program");
        partner = -1;
    }
#else
    mt_skip(comm, "MPICH's active messages need the target's program");
    partner = -1;
#endif
    if (partner > rank) {
        for (int i = 0; i < OPERATIONS; i++) {
            mt_ok(MPI_Win_lock(i % 10 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, partner, i % 3 ? MPI_MODE_NOCHECK : 0,
                               win));
            mt_ok(MPI_Fetch_and_op(&one, &got, MPI_LONG, partner, 0, MPI_SUM, win));
            mt_ok(MPI_Win_unlock(partner, win));
            mt_check(got == i, "fetched %ld, not %d", got, i);
        }
        mt_ok(MPI_Win_lock(MPI_LOCK_SHARED, partner, 0, win));
        mt_ok(MPI_Put(&done, 1, MPI_INT, partner, sizeof(long), 1, MPI_INT, win));
        mt_ok(MPI_Win_unlock(partner, win));
    } else if (partner >= 0) {
        double x = 1;

        while (!__atomic_load_n((int *)(base + 1), __ATOMIC_ACQUIRE))
            for (int i = 0; i < 1000; i++)
                x = x * 1.000001 + 1e-9;
        mt_check(x > 0 && base[0] == OPERATIONS, "%ld operations were done", base[0]);
    }
    mt_ok(MPI_Win_free(&win));
}

/* ---- Threads ------------------------------------------------------------------------------------------------ */

struct thread {
    pthread_t id;
    MPI_Win win;
    int rank, size, index, *given;
};

/* Fetches from a counter of rank 0, and writes to and reads from a word of its own at each rank. */
static void *thread_main(void *arg)
{
    struct thread *t = arg;
    MPI_Aint own = (MPI_Aint)sizeof(long) * (1 + t->rank * THREADS + t->index);

    for (int i = 0; i < TIMES / THREADS; i++) {
        long one = 1, got = -1, value = 1000 * t->rank + 10 * i + t->index, read = -1;
        int to = i % t->size;

        mt_ok(MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, 0, MPI_SUM, t->win));
        mt_ok(MPI_Put(&value, 1, MPI_LONG, to, own, 1, MPI_LONG, t->win));
        mt_ok(MPI_Win_flush(to, t->win));
        mt_ok(MPI_Get(&read, 1, MPI_LONG, to, own, 1, MPI_LONG, t->win));
        mt_ok(i % 2 ? MPI_Win_flush_all(t->win) : MPI_Win_flush(to, t->win));
        mt_ok(MPI_Win_flush(0, t->win));
        mt_check(read == value, "put %ld, got %ld", value, read);
        __atomic_add_fetch(&t->given[got], 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void run_threads(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), count = TIMES * size, *given = calloc((size_t)count, sizeof(int));
    struct thread threads[THREADS];
    long *base;
    MPI_Win win = window(comm, sizeof(long) * (size_t)(1 + size * THREADS), &base);

    mt_ok(MPI_Win_lock_all(0, win));
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.win = win, .rank = rank, .size = size, .index = i, .given = given};
        mt_check(!pthread_create(&threads[i].id, NULL, thread_main, &threads[i]), "no thread");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i].id, NULL);
    mt_ok(MPI_Win_unlock_all(win));
    check_given(comm, given, count);
    mt_ok(MPI_Win_free(&win));
    free(given);
}

/* Threads of a rank lock different targets at the same time. */
static void *thread_lock(void *arg)
{
    struct thread *t = arg;

    for (int i = 0; i < TIMES / THREADS; i++) {
        long value = 0;

        mt_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, t->index, 0, t->win));
        mt_ok(MPI_Get(&value, 1, MPI_LONG, t->index, 0, 1, MPI_LONG, t->win));
        mt_ok(MPI_Win_flush(t->index, t->win));
        value++;
        mt_ok(MPI_Put(&value, 1, MPI_LONG, t->index, 0, 1, MPI_LONG, t->win));
        mt_ok(MPI_Win_unlock(t->index, t->win));
    }
    return NULL;
}

static void run_thread_locks(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), count = size < THREADS ? size : THREADS;
    long expected = (long)size * (TIMES / THREADS);
    struct thread threads[THREADS];
    long *base;
    MPI_Win win = window(comm, sizeof(long), &base);

    for (int i = 0; i < count; i++) {
        threads[i] = (struct thread){.win = win, .rank = rank, .size = size, .index = i};
        mt_check(!pthread_create(&threads[i].id, NULL, thread_lock, &threads[i]), "no thread");
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i].id, NULL);
    mt_ok(MPI_Barrier(comm));
    mt_check(rank >= count || *base == expected, "the counter is %ld, not %ld", *base, expected);
    mt_ok(MPI_Win_free(&win));
}

static const struct mt_scenario scenarios[] = {
    {"counter", 1, run_counter},
    {"swap", 1, run_swap},
    {"exchange", 1, run_exchange},
    {"away", 2, run_away},
    {"threads", 1, run_threads},
    {"thread-locks", 1, run_thread_locks},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_MULTIPLE, scenarios);
}
