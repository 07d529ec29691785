/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations by several threads at once: on one window, and on a window for each thread.
 */
#include "mpitest.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 4, TIMES = 60, WORDS = 1500 };

struct worker {
    pthread_t thread;
    MPI_Win win;
    int number, rank, size;
};

static int64_t *window_make(MPI_Comm comm, MPI_Win *win_p)
{
    MPI_Aint words = 1 + (MPI_Aint)THREADS * WORDS * mt_size(comm);
    int64_t *base;

    mt_ok(MPI_Win_allocate(words * (MPI_Aint)sizeof(*base), sizeof(*base), MPI_INFO_NULL, comm, &base, win_p));
    mt_ok(MPI_Win_set_errhandler(*win_p, MPI_ERRORS_RETURN));
    for (MPI_Aint i = 0; i < words; i++)
        base[i] = 0;
    mt_ok(MPI_Barrier(comm));
    return base;
}

static void run_workers(struct worker *w, void *(*work)(void *arg))
{
    for (int i = 0; i < THREADS; i++)
        mt_check(pthread_create(&w[i].thread, NULL, work, &w[i]) == 0, "no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(w[i].thread, NULL);
}

/* Adds to the counter of each rank, puts and gets a block of its own. */
static void *one_window(void *arg)
{
    const struct worker *w = arg;
    int64_t *out = malloc(WORDS * sizeof(*out)), *in = malloc(WORDS * sizeof(*in)), one = 1, old;
    MPI_Aint place = 1 + (MPI_Aint)(w->rank * THREADS + w->number) * WORDS;

    for (int t = 0; t < TIMES; t++) {
        int to = (w->rank + t) % w->size;

        for (int i = 0; i < WORDS; i++)
            out[i] = (int64_t)t * 1000000 + w->number * 10000 + i;
        mt_ok(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, to, 0, MPI_SUM, w->win));
        mt_ok(MPI_Put(out, 1 + t % WORDS, MPI_INT64_T, to, place, 1 + t % WORDS, MPI_INT64_T, w->win));
        mt_ok(MPI_Win_flush(to, w->win));
        mt_ok(MPI_Get(in, 1 + t % WORDS, MPI_INT64_T, to, place, 1 + t % WORDS, MPI_INT64_T, w->win));
        mt_ok(MPI_Win_flush_local(to, w->win));
        for (int i = 0; i < 1 + t % WORDS; i++)
            mt_check(in[i] == out[i], "thread %d, time %d: word %d is %lld", w->number, t, i, (long long)in[i]);
    }
    free(out);
    free(in);
    return NULL;
}

static void run_one_window(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm);
    struct worker w[THREADS];
    int64_t *base, sum = 0, total = 0;
    MPI_Win win;

    base = window_make(comm, &win);
    mt_ok(MPI_Win_lock_all(0, win));
    for (int i = 0; i < THREADS; i++)
        w[i] = (struct worker){.win = win, .number = i, .rank = rank, .size = size};
    run_workers(w, one_window);
    mt_ok(MPI_Win_unlock_all(win));
    mt_ok(MPI_Barrier(comm));
    sum = base[0];
    mt_ok(MPI_Allreduce(&sum, &total, 1, MPI_INT64_T, MPI_SUM, comm));
    mt_check(total == (int64_t)size * THREADS * TIMES, "the counters add up to %lld", (long long)total);
    mt_ok(MPI_Win_free(&win));
}

/* Takes an exclusive lock and increases a counter, which is no atomic. */
static void *own_window(void *arg)
{
    const struct worker *w = arg;

    for (int t = 0; t < TIMES / 5; t++) {
        int to = (w->rank + t) % w->size;
        int64_t value;

        mt_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, w->win));
        mt_ok(MPI_Get(&value, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, w->win));
        mt_ok(MPI_Win_flush(to, w->win));
        value++;
        mt_ok(MPI_Put(&value, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, w->win));
        mt_ok(MPI_Win_unlock(to, w->win));
    }
    return NULL;
}

static void run_own_window(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm);
    struct worker w[THREADS];
    int64_t *base[THREADS], sum = 0, total = 0;

    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.number = i, .rank = rank, .size = size};
        base[i] = window_make(comm, &w[i].win);
    }
    run_workers(w, own_window);
    mt_ok(MPI_Barrier(comm));
    for (int i = 0; i < THREADS; i++)
        sum += base[i][0];
    mt_ok(MPI_Allreduce(&sum, &total, 1, MPI_INT64_T, MPI_SUM, comm));
    mt_check(total == (int64_t)size * THREADS * (TIMES / 5), "the counters add up to %lld", (long long)total);
    for (int i = 0; i < THREADS; i++)
        mt_ok(MPI_Win_free(&w[i].win));
}

int main(int argc, char **argv)
{
    static const struct mt_scenario scenarios[] = {
        {"one-window", 2, run_one_window},
        {"own-window", 2, run_own_window},
        {NULL, 0, NULL},
    };

    return mt_main(argc, argv, MPI_THREAD_MULTIPLE, scenarios);
}
