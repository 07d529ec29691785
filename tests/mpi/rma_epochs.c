/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided communication: each kind of epoch, each form of completion, windows of each kind, and errors of epochs and
 * ranges.
 */
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>

enum { LONG_BYTES = 3 << 20 };

static MPI_Win window(MPI_Comm comm, size_t bytes, int disp_unit, void *base_p)
{
    MPI_Win win;

    mt_ok(MPI_Win_allocate((MPI_Aint)bytes, disp_unit, MPI_INFO_NULL, comm, base_p, &win));
    mt_ok(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    memset(*(void **)base_p, 0, bytes);
    mt_ok(MPI_Barrier(comm));
    return win;
}

/* ---- Fence -------------------------------------------------------------------------------------------------- */

static void run_fence(MPI_Comm comm)
{
    enum { ROUNDS = 20 };
    int rank = mt_rank(comm), size = mt_size(comm), *base;
    MPI_Win win = window(comm, sizeof(int) * (size_t)size, sizeof(int), &base);

    for (int round = 1; round <= ROUNDS; round++) {
        int value = rank * ROUNDS + round;

        mt_ok(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
        for (int to = 0; to < size; to++)
            mt_ok(MPI_Put(&value, 1, MPI_INT, to, rank, 1, MPI_INT, win));
        mt_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
        for (int from = 0; from < size; from++)
            mt_check(base[from] == from * ROUNDS + round, "round %d: %d of rank %d", round, base[from], from);
        mt_ok(MPI_Barrier(comm));
    }
    mt_ok(MPI_Win_free(&win));
}

/* ---- Post, start, complete, wait ---------------------------------------------------------------------------- */

static MPI_Group group_of(MPI_Comm comm, int rank, bool others)
{
    MPI_Group all, group;

    mt_ok(MPI_Comm_group(comm, &all));
    if (others)
        mt_ok(MPI_Group_excl(all, 1, &rank, &group));
    else
        mt_ok(MPI_Group_incl(all, 1, &rank, &group));
    mt_ok(MPI_Group_free(&all));
    return group;
}

static void wait_for_epoch(MPI_Win win, bool test)
{
    int flag = 0;

    if (!test)
        mt_ok(MPI_Win_wait(win));
    while (test && !flag)
        mt_ok(MPI_Win_test(win, &flag));
}

/* All ranks write to one, each of them in turn; a rank may be a round ahead of others. */
static void run_pscw(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), *base;
    MPI_Win win = window(comm, sizeof(int) * (size_t)size, sizeof(int), &base);

    for (int round = 0; round < 6 * size; round++) {
        int to = round % size, value = 1000 * rank + round;
        MPI_Group group = group_of(comm, to, rank == to);

        if (rank == to) {
            mt_ok(MPI_Win_post(group, 0, win));
            wait_for_epoch(win, round & 1);
            for (int from = 0; from < size; from++)
                mt_check(from == to || base[from] == 1000 * from + round, "round %d: %d of rank %d", round, base[from],
                         from);
        } else {
            mt_ok(MPI_Win_start(group, 0, win));
            mt_ok(MPI_Put(&value, 1, MPI_INT, to, rank, 1, MPI_INT, win));
            mt_ok(MPI_Win_complete(win));
        }
        mt_ok(MPI_Group_free(&group));
#ifndef OPEN_MPI /* MPICH 4.0 takes the post of another rank, of the next round, for the one that it waits for */
        mt_ok(MPI_Barrier(comm));
#endif
    }
    mt_ok(MPI_Win_free(&win));
}

/* Both ends at once, in both directions, also with itself. */
static void run_pscw_both(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), *base;
    MPI_Win win = window(comm, sizeof(int) * (size_t)size, sizeof(int), &base);
    MPI_Group all;

    mt_ok(MPI_Comm_group(comm, &all));
    for (int round = 0; round < 10; round++) {
        int value = 1000 * rank + round;

        mt_ok(MPI_Win_post(all, 0, win));
        mt_ok(MPI_Win_start(all, 0, win));
        for (int to = 0; to < size; to++)
            mt_ok(MPI_Accumulate(&value, 1, MPI_INT, to, rank, 1, MPI_INT, MPI_REPLACE, win));
        mt_ok(MPI_Win_complete(win));
        mt_ok(MPI_Win_wait(win));
        for (int from = 0; from < size; from++)
            mt_check(base[from] == 1000 * from + round, "round %d: %d of rank %d", round, base[from], from);
    }
    mt_ok(MPI_Group_free(&all));
    mt_ok(MPI_Win_free(&win));
}

/* ---- Locks and flushes -------------------------------------------------------------------------------------- */

/* Two words that change together: a reader with a shared lock never finds them different. */
static void run_locks(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), *base;
    MPI_Win win = window(comm, 2 * sizeof(int), sizeof(int), &base);

    for (int i = 0; i < 24; i++) {
        int to = (rank + i) % size, pair[2] = {100 * rank + i, 100 * rank + i};

        if (i % 4 == 0) {
            mt_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win));
            mt_ok(MPI_Put(pair, 1, MPI_INT, to, 0, 1, MPI_INT, win));
            mt_ok(MPI_Win_flush(to, win));
            mt_ok(MPI_Put(pair + 1, 1, MPI_INT, to, 1, 1, MPI_INT, win));
        } else {
            mt_ok(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
            mt_ok(MPI_Get(pair, 1, MPI_INT, to, 0, 1, MPI_INT, win));
            mt_ok(MPI_Win_flush(to, win));
            mt_ok(MPI_Get(pair + 1, 1, MPI_INT, to, 1, 1, MPI_INT, win));
        }
        mt_ok(MPI_Win_unlock(to, win));
        mt_check(pair[0] == pair[1], "the two words are %d and %d", pair[0], pair[1]);
    }
    mt_ok(MPI_Win_free(&win));
}

enum flush { FLUSH, FLUSH_ALL, FLUSH_LOCAL, FLUSH_LOCAL_ALL, FLUSHES };

static void flush(enum flush how, int to, MPI_Win win)
{
    switch (how) {
    case FLUSH:
        mt_ok(MPI_Win_flush(to, win));
        break;
    case FLUSH_ALL:
        mt_ok(MPI_Win_flush_all(win));
        break;
    case FLUSH_LOCAL:
        mt_ok(MPI_Win_flush_local(to, win));
        break;
    default:
        mt_ok(MPI_Win_flush_local_all(win));
        break;
    }
}

/* A get is complete after each kind of flush; so the buffer of a put may be overwritten. */
static void run_flushes(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), *base;
    MPI_Win win = window(comm, sizeof(int) * (size_t)size, sizeof(int), &base);

    mt_ok(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 8 * size; i++) {
        int to = i % size, value = 1000 * rank + i, sent = value, got = -1;
        enum flush how = (enum flush)(i % FLUSHES);

        mt_ok(MPI_Put(&sent, 1, MPI_INT, to, rank, 1, MPI_INT, win));
        flush(how, to, win);
        sent = -2;
        mt_ok(MPI_Win_flush(to, win));
        mt_ok(MPI_Get(&got, 1, MPI_INT, to, rank, 1, MPI_INT, win));
        flush(how, to, win);
        mt_check(got == value, "put %d, got %d", value, got);
    }
    mt_ok(MPI_Win_unlock_all(win));
    mt_ok(MPI_Win_free(&win));
}

/* The origin's message says that its put is there. */
static void run_sync(MPI_Comm comm)
{
    int rank = mt_rank(comm), partner = mt_partner(comm), *base;
    MPI_Win win = window(comm, sizeof(int), sizeof(int), &base);

    mt_ok(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    for (int i = 1; partner >= 0 && i <= 50; i++) {
        int value = 100 * rank + i;

        mt_ok(MPI_Put(&value, 1, MPI_INT, partner, 0, 1, MPI_INT, win));
        mt_ok(MPI_Win_flush(partner, win));
        mt_ok(MPI_Sendrecv(NULL, 0, MPI_INT, partner, 0, NULL, 0, MPI_INT, partner, 0, comm, MPI_STATUS_IGNORE));
        mt_ok(MPI_Win_sync(win));
        mt_check(*base == 100 * partner + i, "%d is there, not %d", *base, 100 * partner + i);
        mt_ok(MPI_Sendrecv(NULL, 0, MPI_INT, partner, 0, NULL, 0, MPI_INT, partner, 0, comm, MPI_STATUS_IGNORE));
    }
    mt_ok(MPI_Win_unlock_all(win));
    mt_ok(MPI_Win_free(&win));
}

/* ---- Requests ----------------------------------------------------------------------------------------------- */

static void run_requests(MPI_Comm comm)
{
    enum { N = 64 };
    int rank = mt_rank(comm), size = mt_size(comm), to = (rank + 1) % size, out[N], in[N], old[N], *base;
    MPI_Request request[N];
    MPI_Win win = window(comm, N * sizeof(int), sizeof(int), &base);

    mt_ok(MPI_Win_lock_all(0, win));
    for (int i = 0; i < N; i++) {
        out[i] = 1000 * rank + i;
        mt_ok(MPI_Rput(out + i, 1, MPI_INT, to, i, 1, MPI_INT, win, request + i));
    }
    mt_ok(MPI_Waitall(N, request, MPI_STATUSES_IGNORE));
    mt_ok(MPI_Win_flush(to, win));
    for (int i = 0; i < N; i++)
        mt_ok(MPI_Raccumulate(out + i, 1, MPI_INT, to, i, 1, MPI_INT, MPI_SUM, win, request + i));
    mt_ok(MPI_Waitall(N, request, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        mt_ok(MPI_Rget_accumulate(out + i, 1, MPI_INT, old + i, 1, MPI_INT, to, i, 1, MPI_INT, MPI_SUM, win,
                                  request + i));
    mt_ok(MPI_Waitall(N, request, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        mt_check(old[i] == 2 * out[i], "%d was there, not %d", old[i], 2 * out[i]);
    mt_ok(MPI_Rget(in, N, MPI_INT, to, 0, N, MPI_INT, win, request));
    mt_ok(MPI_Rget(NULL, 0, MPI_INT, to, 0, 0, MPI_INT, win, request + 1));
    mt_ok(MPI_Waitall(2, request, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        mt_check(in[i] == 3 * out[i], "%d is there, not %d", in[i], 3 * out[i]);
    mt_ok(MPI_Win_unlock_all(win));
    mt_ok(MPI_Win_free(&win));
}

/* ---- Data --------------------------------------------------------------------------------------------------- */

/* Long, and shifted by a byte. */
static void run_long(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), to = (rank + 1) % size, from = (rank + size - 1) % size;
    char *base, *out = mt_alloc(LONG_BYTES), *in = mt_alloc(LONG_BYTES);
    MPI_Win win = window(comm, LONG_BYTES + 1, 1, &base);

    mt_fill(out, LONG_BYTES, mt_seed((uint64_t)rank, 1, 0));
    mt_ok(MPI_Win_fence(0, win));
    mt_ok(MPI_Put(out, LONG_BYTES, MPI_BYTE, to, 1, LONG_BYTES, MPI_BYTE, win));
    mt_ok(MPI_Win_fence(0, win));
    mt_check_fill(base + 1, LONG_BYTES, mt_seed((uint64_t)from, 1, 0), "put");
    mt_ok(MPI_Get(in, LONG_BYTES, MPI_BYTE, to, 1, LONG_BYTES, MPI_BYTE, win));
    mt_ok(MPI_Win_fence(0, win));
    mt_check_fill(in, LONG_BYTES, mt_seed((uint64_t)rank, 1, 0), "get");
    mt_ok(MPI_Win_free(&win));
    mt_free(out);
    mt_free(in);
}

/* Every third element from there to every second element here, and back. */
static void run_shapes(MPI_Comm comm)
{
    enum { N = 2000 };
    int rank = mt_rank(comm), size = mt_size(comm), to = (rank + 1) % size, *base, *here = malloc(2 * N * sizeof(int));
    MPI_Datatype second, third;
    MPI_Win win = window(comm, 3 * N * sizeof(int), sizeof(int), &base);

    mt_ok(MPI_Type_vector(N, 1, 2, MPI_INT, &second));
    mt_ok(MPI_Type_vector(N, 1, 3, MPI_INT, &third));
    mt_ok(MPI_Type_commit(&second));
    mt_ok(MPI_Type_commit(&third));
    for (int i = 0; i < 3 * N; i++)
        base[i] = 10 * N * rank + i;
    memset(here, 0xff, 2 * N * sizeof(int));
    mt_ok(MPI_Win_fence(0, win));
    mt_ok(MPI_Get(here, 1, second, to, 1, 1, third, win));
    mt_ok(MPI_Win_fence(0, win));
    for (int i = 0; i < N; i++) {
        mt_check(here[2 * i] == 10 * N * to + 3 * i + 1, "element %d is %d", i, here[2 * i]);
        mt_check(2 * i + 1 == 2 * N || here[2 * i + 1] == -1, "gap %d is %d", i, here[2 * i + 1]);
        here[2 * i] += 7;
    }
    mt_ok(MPI_Put(here, 1, second, to, 1, 1, third, win));
    mt_ok(MPI_Win_fence(0, win));
    for (int i = 0; i < 3 * N; i++)
        mt_check(base[i] == 10 * N * rank + i + (i % 3 == 1 ? 7 : 0), "element %d is %d", i, base[i]);
    mt_ok(MPI_Type_free(&second));
    mt_ok(MPI_Type_free(&third));
    mt_ok(MPI_Win_free(&win));
    free(here);
}

/* Each rank's memory has another length and unit; some have none. */
static void run_create(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), value = rank;
    int *base = calloc((size_t)size + 1, sizeof(int));
    MPI_Win win, other;

    mt_ok(MPI_Win_create(base, (MPI_Aint)sizeof(int) * (rank == 0 ? 0 : size), rank % 2 ? 4 : 1, MPI_INFO_NULL, comm,
                         &win));
    mt_ok(MPI_Win_create(base, 0, 1, MPI_INFO_NULL, comm, &other));
    mt_ok(MPI_Win_fence(0, other));
    mt_ok(MPI_Win_fence(0, win));
    for (int to = 1; to < size; to++)
        mt_ok(MPI_Put(&value, 1, MPI_INT, to, rank * (to % 2 ? 1 : 4), 1, MPI_INT, win));
    mt_ok(MPI_Win_fence(0, win));
    for (int from = 0; rank && from < size; from++)
        mt_check(base[from] == from, "%d of rank %d", base[from], from);
    mt_ok(MPI_Win_free(&other));
    mt_ok(MPI_Win_free(&win));
    free(base);
}

/* ---- Dynamic windows ---------------------------------------------------------------------------------------- */

/* Memory is attached, written to by the left neighbour, and detached; the same memory again, in another place. */
static void run_dynamic(MPI_Comm comm)
{
    enum { ROUNDS = 20, PIECES = 5 };
    int rank = mt_rank(comm), size = mt_size(comm), to = (rank + 1) % size, from = (rank + size - 1) % size;
    int *memory = malloc((2 * PIECES + 2) * sizeof(int));
    MPI_Win win;

    mt_ok(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win));
    mt_ok(MPI_Win_lock_all(0, win));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Aint mine, there;
        int *base = memory + round % 3, value = 1000 * rank + round, got = -1;

        for (int i = 0; i < PIECES; i++)
            mt_ok(MPI_Win_attach(win, base + 2 * i, sizeof(int)));
        mt_ok(MPI_Get_address(base, &mine));
        mt_ok(MPI_Sendrecv(&mine, 1, MPI_AINT, from, 0, &there, 1, MPI_AINT, to, 0, comm, MPI_STATUS_IGNORE));
        mt_ok(MPI_Put(&value, 1, MPI_INT, to, there, 1, MPI_INT, win));
        mt_ok(MPI_Win_flush(to, win));
        mt_ok(MPI_Get(&got, 1, MPI_INT, to, there, 1, MPI_INT, win));
        mt_ok(MPI_Win_flush(to, win));
        mt_check(got == value, "put %d, got %d", value, got);
        mt_ok(MPI_Barrier(comm));
        mt_check(*base == 1000 * from + round, "round %d: %d is there", round, *base);
        for (int i = 0; i < PIECES; i++)
            mt_ok(MPI_Win_detach(win, base + 2 * i));
    }
    mt_ok(MPI_Win_unlock_all(win));
    mt_ok(MPI_Win_free(&win));
    free(memory);
}

/* An operation on two pieces of memory that were attached one behind the other. Both have a part of one page, because
 * osc/rdma of Open MPI attaches whole pages, and refuses operations on two regions. */
static void run_adjacent(MPI_Comm comm)
{
    enum { N = 600, PAGE_BYTES = 4096 };
    int rank = mt_rank(comm), size = mt_size(comm), to = (rank + 1) % size, from = (rank + size - 1) % size;
    int *memory = aligned_alloc(PAGE_BYTES, 2 * PAGE_BYTES), out[2 * N], old[2 * N];
    MPI_Aint mine, there;
    MPI_Win win;

    mt_ok(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win));
    mt_ok(MPI_Win_attach(win, memory + N, N * sizeof(int)));
    mt_ok(MPI_Win_attach(win, memory, N * sizeof(int)));
    mt_ok(MPI_Get_address(memory, &mine));
    mt_ok(MPI_Sendrecv(&mine, 1, MPI_AINT, from, 0, &there, 1, MPI_AINT, to, 0, comm, MPI_STATUS_IGNORE));
    for (int i = 0; i < 2 * N; i++)
        out[i] = 10000 * rank + i;
    mt_ok(MPI_Win_fence(0, win));
    mt_ok(MPI_Put(out, 2 * N, MPI_INT, to, there, 2 * N, MPI_INT, win));
    mt_ok(MPI_Win_fence(0, win));
    mt_ok(MPI_Get_accumulate(out, 2 * N, MPI_INT, old, 2 * N, MPI_INT, to, there, 2 * N, MPI_INT, MPI_SUM, win));
    mt_ok(MPI_Win_fence(0, win));
    for (int i = 0; i < 2 * N; i++) {
        mt_check(old[i] == out[i], "element %d was %d", i, old[i]);
        mt_check(memory[i] == 2 * (10000 * from + i), "element %d is %d", i, memory[i]);
    }
    mt_ok(MPI_Win_detach(win, memory));
    mt_ok(MPI_Win_detach(win, memory + N));
    mt_ok(MPI_Win_free(&win));
    free(memory);
}

/* ---- The end ------------------------------------------------------------------------------------------------- */

/* Windows that end when their locks have just been released. What is lost of that shows in the next window. */
static void run_free(MPI_Comm comm)
{
    enum { WINDOWS = 100 };
    int rank = mt_rank(comm), size = mt_size(comm), *memory = mt_alloc(sizeof(int) * (size_t)size);

    for (int i = 1; i <= WINDOWS; i++) {
        int value = rank * WINDOWS + i;
        MPI_Win win;

        mt_ok(MPI_Win_create(memory, (MPI_Aint)sizeof(int) * size, sizeof(int), MPI_INFO_NULL, comm, &win));
        mt_ok(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
        mt_ok(MPI_Win_lock_all(0, win));
        for (int to = 0; to < size; to++)
            mt_ok(MPI_Put(&value, 1, MPI_INT, to, rank, 1, MPI_INT, win));
        mt_ok(MPI_Win_unlock_all(win));
        mt_ok(MPI_Win_free(&win));
        for (int from = 0; from < size; from++)
            mt_check(memory[from] == from * WINDOWS + i, "window %d: %d of rank %d", i, memory[from], from);
    }
    mt_free(memory);
}

/* ---- Errors ------------------------------------------------------------------------------------------------- */

/* osc/pt2pt and MPICH judge differently. */
static void run_errors(MPI_Comm comm)
{
    int rank = mt_rank(comm), to = (rank + 1) % mt_size(comm), value = 1, *base;
    MPI_Win win = window(comm, sizeof(int), sizeof(int), &base);

#ifdef OPEN_MPI
    if (mt_transport_is("ethmx")) {
        mt_error(MPI_ERR_RMA_SYNC, MPI_Put(&value, 1, MPI_INT, to, 0, 1, MPI_INT, win));
        mt_error(MPI_ERR_RMA_SYNC, MPI_Win_unlock(to, win));
        mt_error(MPI_ERR_RMA_SYNC, MPI_Win_flush(to, win));
        mt_error(MPI_ERR_RMA_SYNC, MPI_Win_complete(win));
        mt_error(MPI_ERR_RMA_SYNC, MPI_Win_wait(win));
        mt_error(MPI_ERR_RMA_SYNC, MPI_Win_unlock_all(win));
        mt_ok(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
        mt_error(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
        mt_error(MPI_ERR_RMA_SYNC, MPI_Win_lock_all(0, win));
        mt_error(MPI_ERR_RMA_SYNC, MPI_Win_fence(0, win));
        mt_error(MPI_ERR_RMA_RANGE, MPI_Put(&value, 1, MPI_INT, to, 1, 1, MPI_INT, win));
        mt_error(MPI_ERR_RMA_RANGE, MPI_Get(&value, 1, MPI_INT, to, 1, 1, MPI_INT, win));
        mt_error(MPI_ERR_RMA_RANGE, MPI_Accumulate(&value, 1, MPI_INT, to, 1, 1, MPI_INT, MPI_SUM, win));
        mt_error(MPI_ERR_RANK, MPI_Put(&value, 1, MPI_INT, mt_size(comm), 0, 1, MPI_INT, win));
        mt_ok(MPI_Win_unlock(to, win));
        mt_ok(MPI_Barrier(comm));
        mt_check(*base == 0, "%d was written", *base);
    }
#endif
    (void)value, (void)to;
    mt_ok(MPI_Win_free(&win));
}

static const struct mt_scenario scenarios[] = {
    {"fence", 1, run_fence},       {"pscw", 2, run_pscw},       {"pscw-both", 1, run_pscw_both},
    {"locks", 1, run_locks},       {"flushes", 1, run_flushes}, {"sync", 2, run_sync},
    {"requests", 1, run_requests}, {"long", 1, run_long},       {"shapes", 1, run_shapes},
    {"create", 1, run_create},     {"dynamic", 1, run_dynamic}, {"adjacent", 1, run_adjacent},
    {"free", 1, run_free},         {"errors", 2, run_errors},   {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
