/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Synchronization of windows of the core: completion of operations, and locks.
 *
 * A lock is three counters in memory that its process exposes: tickets given, and whose turn it is, for readers
 * (MPI_LOCK_SHARED) and for writers (MPI_LOCK_EXCLUSIVE). It is fair: turns come in the order of the tickets.
 *
 *     take    tickets + 1; the old value is the ticket. Wait for the turn: readers = ticket, or writers = ticket
 *     reader  has its turn: readers + 1, so that the next may read beside it
 *     leave   reader: writers + 1; writer: readers + 1, writers + 1
 *
 * All are sums by the core. The one that takes a ticket also fetches the turns: a free lock takes one round trip. Who
 * must wait fetches them again and again, less often the more others are before it. Leaving waits for nothing: what was
 * done under the lock is complete at the target then, and the core keeps the order of sums.
 */
#include "mpidimpl.h"

#include "ethmx_window.h"

#include <time.h>

#define PAUSE_NS     10000 /* between two looks at a lock, for each that is before us */
#define PAUSE_MAX_NS 500000
#define WATCH_NS     100000000 /* between two questions whether others live */
#define WATCH_ROUNDS 64        /* rounds of progress for one look at the clock */

void MPIDI_ETHMX_sync_progress(int *mpi_errno_p)
{
    int mpi_errno = MPIDI_progress_test_vci(0);

    if (*mpi_errno_p == MPI_SUCCESS)
        *mpi_errno_p = mpi_errno;
    MPID_THREAD_CS_YIELD(VCI, MPIDI_ETHMX_VCI_LOCK);
    MPID_THREAD_CS_YIELD(GLOBAL, MPIR_THREAD_GLOBAL_ALLFUNC_MUTEX);
}

void MPIDI_ETHMX_wait_over(void *wait, const struct ethmx_result *result)
{
    *(struct MPIDI_ETHMX_wait *)wait = (struct MPIDI_ETHMX_wait){.over = true, .status = result->status};
}

void MPIDI_ETHMX_wait_started(struct MPIDI_ETHMX_wait *w, int status)
{
    *w = (struct MPIDI_ETHMX_wait){.over = status != ETHMX_INPROGRESS, .status = status};
}

int MPIDI_ETHMX_wait_end(const struct MPIDI_ETHMX_wait *w, int *mpi_errno_p)
{
    while (!w->over)
        MPIDI_ETHMX_sync_progress(mpi_errno_p);
    return w->status;
}

/* ---- Completion ---- */

/* The operations that are not complete here. */
static unsigned sync_open(const struct MPIDI_ETHMX_window *w, int rank)
{
    return rank == MPIDI_ETHMX_ALL_RANKS ? w->open : w->target[rank].open;
}

/* The window's first error, which is told once; otherwise this one. */
static int sync_error(struct MPIDI_ETHMX_window *w, int status, int mpi_errno)
{
    int first = w->status != ETHMX_OK ? w->status : status;

    w->status = ETHMX_OK;
    return first < 0 ? MPIDI_ETHMX_ERROR(first) : mpi_errno;
}

int MPIDI_ETHMX_complete_here(int rank, MPIR_Win *win)
{
    struct MPIDI_ETHMX_window *w = MPIDI_ETHMX_WINDOW(win);
    int mpi_errno = MPI_SUCCESS;

    MPIDI_ETHMX_LOCK();
    while (sync_open(w, rank))
        MPIDI_ETHMX_sync_progress(&mpi_errno);
    mpi_errno = sync_error(w, ETHMX_OK, mpi_errno);
    MPIDI_ETHMX_UNLOCK();
    return mpi_errno;
}

/* A flush of one target. Errors of the core's flush of all would be those of other windows, too. */
struct sync_flush {
    struct MPIDI_ETHMX_target *target;
    uint64_t changes; /* of the target, at the beginning */
    struct MPIDI_ETHMX_wait wait;
};

static bool sync_needs_flush(const struct MPIDI_ETHMX_target *t)
{
    return t->changes != t->flushed;
}

static void sync_flush_begin(struct sync_flush *f, struct MPIDI_ETHMX_target *t)
{
    *f = (struct sync_flush){.target = t, .changes = t->changes};
    MPIDI_ETHMX_wait_started(
        &f->wait, MPIDI_ETHMX_lib.rma_flush(MPIDI_ETHMX_global.ep, t->peer, MPIDI_ETHMX_wait_over, &f->wait));
}

/* Waits for n flushes. Returns their first error, or ETHMX_OK. */
static int sync_flush_end(struct sync_flush *f, int n, int *mpi_errno_p)
{
    int status = ETHMX_OK;

    for (int i = 0; i < n; i++) {
        int ended = MPIDI_ETHMX_wait_end(&f[i].wait, mpi_errno_p);

        if (f[i].target->flushed < f[i].changes)
            f[i].target->flushed = f[i].changes;
        status = status == ETHMX_OK ? ended : status;
    }
    return status;
}

/* Of n targets. */
static int sync_flush(struct MPIDI_ETHMX_target *t, int n, int *mpi_errno_p)
{
    struct sync_flush one, *all = &one;
    int wanted = 0, begun = 0, status;

    for (int i = 0; i < n; i++)
        wanted += sync_needs_flush(&t[i]);
    if (wanted > 1 && !(all = MPL_malloc(wanted * sizeof(*all), MPL_MEM_RMA)))
        return ETHMX_ERR_NO_MEMORY;
    for (int i = 0; i < n && begun < wanted; i++)
        if (sync_needs_flush(&t[i]))
            sync_flush_begin(&all[begun++], &t[i]);
    status = sync_flush_end(all, begun, mpi_errno_p);
    if (all != &one)
        MPL_free(all);
    return status;
}

int MPIDI_ETHMX_complete_there(int rank, MPIR_Win *win)
{
    struct MPIDI_ETHMX_window *w = MPIDI_ETHMX_WINDOW(win);
    int mpi_errno = MPI_SUCCESS, status;

    MPIDI_ETHMX_LOCK();
    if (rank == MPIDI_ETHMX_ALL_RANKS)
        status = sync_flush(w->target, win->comm_ptr->local_size, &mpi_errno);
    else
        status = sync_flush(&w->target[rank], 1, &mpi_errno);
    while (sync_open(w, rank))
        MPIDI_ETHMX_sync_progress(&mpi_errno);
    mpi_errno = sync_error(w, status, mpi_errno);
    MPIDI_ETHMX_UNLOCK();
    return mpi_errno;
}

/* ---- Taking locks ---- */

static uint64_t lock_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static struct ethmx_rma_target lock_memory(const struct MPIDI_ETHMX_target *t)
{
    return (struct ethmx_rma_target){.peer = t->peer, .key = t->state_key};
}

/* A word that another process is asked for. If nobody waits for it any more, the answer frees it. */
struct lock_question {
    struct MPIDI_ETHMX_wait wait;
    bool abandoned;
    uint64_t word;
};

/* Who holds the lock, or is before us, may die. We do not know who that is. So while a wait lasts, one process of the
 * window after the other is asked for a word, which fails when it is known to be dead. */
struct lock_watch {
    struct MPIDI_ETHMX_target *targets;
    unsigned n, turn, rounds;
    uint64_t due_ns;
    struct lock_question *question; /* or NULL */
};

static void watch_answered(void *arg, const struct ethmx_result *result)
{
    struct lock_question *q = arg;

    MPIDI_ETHMX_wait_over(&q->wait, result);
    if (q->abandoned)
        MPL_free(q);
}

static void watch_ask(struct lock_watch *w)
{
    const struct ethmx_rma_target from = lock_memory(&w->targets[w->turn++ % w->n]);
    struct ethmx_data data = {.len_bytes = sizeof(w->question->word)};

    w->question = MPL_calloc(1, sizeof(*w->question), MPL_MEM_RMA);
    if (!w->question)
        return;
    data.base = &w->question->word;
    MPIDI_ETHMX_wait_started(&w->question->wait,
                             MPIDI_ETHMX_lib.rma_get(MPIDI_ETHMX_global.ep, &from, &data, watch_answered, w->question));
}

/* After a round of progress. The error of a process that is dead, or ETHMX_OK. */
static int watch_look(struct lock_watch *w)
{
    int status = ETHMX_OK;
    uint64_t now_ns;

    if (++w->rounds % WATCH_ROUNDS)
        return ETHMX_OK;
    if (w->question && w->question->wait.over) {
        status = w->question->wait.status;
        MPL_free(w->question);
        w->question = NULL;
    }
    now_ns = lock_now_ns();
    if (!w->due_ns)
        w->due_ns = now_ns + WATCH_NS;
    if (now_ns >= w->due_ns && !w->question) {
        w->due_ns = now_ns + WATCH_NS;
        watch_ask(w);
    }
    return status < 0 ? status : ETHMX_OK;
}

static void watch_end(struct lock_watch *w)
{
    if (w->question && w->question->wait.over)
        MPL_free(w->question);
    else if (w->question)
        w->question->abandoned = true;
}

struct lock_wait {
    struct MPIDI_ETHMX_target *target;
    uint64_t words[MPIDI_ETHMX_LOCK_WORDS]; /* as last fetched */
    uint64_t ticket, look_ns;               /* look_ns: when to look again */
    bool has_ticket, asked, over;           /* asked: a fetch is under way. over: it is ours, or has failed */
    int status;
};

/* Adds to the words, and waits for nothing. add must stay. */
static int lock_add(struct MPIDI_ETHMX_target *t, const uint64_t *add)
{
    const struct ethmx_rma_target to = lock_memory(t);
    const struct ethmx_data data = {.base = (void *)add, .len_bytes = sizeof(t->window->state.lock)};
    int status = MPIDI_ETHMX_lib.rma_accumulate(MPIDI_ETHMX_global.ep, &to, ETHMX_RMA_SUM, ETHMX_RMA_UINT64, &data,
                                                ETHMX_RMA_LOCAL, MPIDI_ETHMX_target_done, t);

    t->changes++;
    MPIDI_ETHMX_target_started(t, status);
    return status < 0 ? status : ETHMX_OK;
}

/* The turns were fetched. */
static void lock_answered(void *arg, const struct ethmx_result *result)
{
    struct lock_wait *l = arg;

    l->asked = false;
    l->status = result->status;
    if (l->status == ETHMX_OK && !l->has_ticket) {
        l->has_ticket = true;
        l->ticket = l->words[MPIDI_ETHMX_LOCK_TICKETS];
    }
}

/* Fetches the turns; the first time it also takes a ticket. */
static void lock_ask(struct lock_wait *l)
{
    static const uint64_t take[MPIDI_ETHMX_LOCK_WORDS] = {[MPIDI_ETHMX_LOCK_TICKETS] = 1};
    const struct ethmx_rma_target to = lock_memory(l->target);
    const struct ethmx_data old = {.base = l->words, .len_bytes = sizeof(l->words)};
    struct ethmx_result result = {0};

    l->asked = true;
    result.status =
        MPIDI_ETHMX_lib.rma_fetch(MPIDI_ETHMX_global.ep, &to, l->has_ticket ? ETHMX_RMA_NO_OP : ETHMX_RMA_SUM,
                                  ETHMX_RMA_UINT64, l->has_ticket ? NULL : take, &old, lock_answered, l);
    if (result.status != ETHMX_INPROGRESS)
        lock_answered(l, &result);
}

/* It is our turn. */
static void lock_granted(struct lock_wait *l, bool shared)
{
    static const uint64_t next_reader[MPIDI_ETHMX_LOCK_WORDS] = {[MPIDI_ETHMX_LOCK_READERS] = 1};

    if (shared)
        l->status = lock_add(l->target, next_reader);
    l->target->locked = shared ? MPIDI_ETHMX_LOCKED_SHARED : MPIDI_ETHMX_LOCKED_EXCLUSIVE;
    l->over = true;
}

/* Looks at what was fetched, and asks again if it is time. dead: an error that ends the wait, or ETHMX_OK. */
static void lock_look(struct lock_wait *l, bool shared, int dead)
{
    uint64_t turn = l->words[shared ? MPIDI_ETHMX_LOCK_READERS : MPIDI_ETHMX_LOCK_WRITERS], pause_ns, now;

    if (l->asked || l->over)
        return;
    if (l->status < 0) {
        l->over = true;
    } else if (l->ticket == turn) {
        lock_granted(l, shared);
    } else if (dead < 0) {
        l->status = dead;
        l->over = true;
    } else if ((now = lock_now_ns()) >= l->look_ns) {
        pause_ns = (l->ticket - turn) * PAUSE_NS;
        l->look_ns = now + (pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS);
        lock_ask(l);
    }
}

/* Takes the locks of n targets; returns when all are ours or have failed. */
static int lock_take(MPIR_Win *win, struct lock_wait *wait, int n, bool shared)
{
    struct lock_watch watch = {.targets = MPIDI_ETHMX_WINDOW(win)->target, .n = (unsigned)win->comm_ptr->local_size};
    int mpi_errno = MPI_SUCCESS, status = ETHMX_OK, left = n, dead = ETHMX_OK;

    for (int i = 0; i < n; i++)
        lock_ask(&wait[i]);
    while (left) {
        left = 0;
        for (int i = 0; i < n; i++) {
            lock_look(&wait[i], shared, dead);
            left += !wait[i].over;
        }
        if (left) {
            MPIDI_ETHMX_sync_progress(&mpi_errno);
            if (dead == ETHMX_OK)
                dead = watch_look(&watch);
        }
    }
    watch_end(&watch);
    for (int i = 0; i < n && status == ETHMX_OK; i++)
        status = wait[i].status;
    return status < 0 ? MPIDI_ETHMX_ERROR(status) : mpi_errno;
}

int MPIDI_ETHMX_lock(int lock_type, int rank, MPIR_Win *win)
{
    struct lock_wait wait = {.target = &MPIDI_ETHMX_WINDOW(win)->target[rank]};
    int mpi_errno;

    MPIDI_ETHMX_LOCK();
    mpi_errno = lock_take(win, &wait, 1, lock_type == MPI_LOCK_SHARED);
    MPIDI_ETHMX_UNLOCK();
    return mpi_errno;
}

int MPIDI_ETHMX_lock_all(MPIR_Win *win)
{
    int mpi_errno = MPI_SUCCESS, n = win->comm_ptr->local_size;
    struct lock_wait *wait = MPL_calloc(n, sizeof(*wait), MPL_MEM_RMA);

    MPIR_ERR_CHKANDJUMP(!wait, mpi_errno, MPI_ERR_NO_MEM, "**nomem");
    for (int i = 0; i < n; i++)
        wait[i].target = &MPIDI_ETHMX_WINDOW(win)->target[i];
    MPIDI_ETHMX_LOCK();
    mpi_errno = lock_take(win, wait, n, true);
    MPIDI_ETHMX_UNLOCK();
    MPL_free(wait);

fn_fail:
    return mpi_errno;
}

/* ---- Leaving them ---- */

static int lock_leave(struct MPIDI_ETHMX_target *t)
{
    static const uint64_t reader_left[MPIDI_ETHMX_LOCK_WORDS] = {[MPIDI_ETHMX_LOCK_WRITERS] = 1};
    static const uint64_t writer_left[MPIDI_ETHMX_LOCK_WORDS] = {
        [MPIDI_ETHMX_LOCK_READERS] = 1, [MPIDI_ETHMX_LOCK_WRITERS] = 1};
    int status = ETHMX_OK;

    if (t->locked != MPIDI_ETHMX_UNLOCKED)
        status = lock_add(t, t->locked == MPIDI_ETHMX_LOCKED_SHARED ? reader_left : writer_left);
    t->locked = MPIDI_ETHMX_UNLOCKED;
    return status;
}

int MPIDI_ETHMX_unlock(int rank, MPIR_Win *win)
{
    int status;

    MPIDI_ETHMX_LOCK();
    status = lock_leave(&MPIDI_ETHMX_WINDOW(win)->target[rank]);
    MPIDI_ETHMX_UNLOCK();
    return MPIDI_ETHMX_ERROR(status);
}

int MPIDI_ETHMX_unlock_all(MPIR_Win *win)
{
    int status = ETHMX_OK;

    MPIDI_ETHMX_LOCK();
    for (int i = 0; i < win->comm_ptr->local_size; i++) {
        int one = lock_leave(&MPIDI_ETHMX_WINDOW(win)->target[i]);

        status = status == ETHMX_OK ? one : status;
    }
    MPIDI_ETHMX_UNLOCK();
    return MPIDI_ETHMX_ERROR(status);
}
