/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_THREAD_MULTIPLE: several threads of each rank send, receive, probe, cancel and do collectives at once.
 */
#include "mpitest.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 4, ROOM = 120000 };

static const size_t sizes[] = {0, 1, 8, 200, 1400, 1500, 9000, 32768, 33000, 100000};

struct work {
    MPI_Comm comm;
    int number;
    int partner;
    int rank;
};

/* Runs fn in THREADS threads of this rank. */
static void in_threads(MPI_Comm comm, void *(*fn)(void *))
{
    pthread_t threads[THREADS];
    struct work work[THREADS];

    if (mt_partner(comm) < 0)
        return;
    for (int i = 0; i < THREADS; i++) {
        work[i] = (struct work){comm, i, mt_partner(comm), mt_rank(comm)};
        mt_check(!pthread_create(&threads[i], NULL, fn, &work[i]), "cannot start a thread");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Each thread has a tag of its own and exchanges with the same thread of the partner. */
static void *own_tag(void *arg)
{
    struct work *w = arg;
    uint8_t *out = mt_alloc(ROOM), *in = mt_alloc(ROOM);

    for (uint64_t round = 0; round < 300; round++) {
        size_t len = sizes[(round + (uint64_t)w->number) % MT_COUNT(sizes)];
        MPI_Status status;

        mt_fill(out, len, mt_seed((uint64_t)w->rank, (uint64_t)w->number, round));
        mt_ok(MPI_Sendrecv(out, (int)len, MPI_BYTE, w->partner, w->number, in, ROOM, MPI_BYTE, w->partner, w->number,
                           w->comm, &status));
        mt_status(&status, w->partner, w->number, len);
        mt_check_fill(in, len, mt_seed((uint64_t)w->partner, (uint64_t)w->number, round), "message of a thread");
    }
    mt_free(out);
    mt_free(in);
    return NULL;
}

static void run_own_tag(MPI_Comm comm)
{
    in_threads(comm, own_tag);
}

/* Blocking sends and receives by turns. */
static void *ping_pong(void *arg)
{
    struct work *w = arg;
    uint8_t *buf = mt_alloc(ROOM);

    for (uint64_t round = 0; round < 300; round++) {
        size_t len = sizes[round % MT_COUNT(sizes)];
        bool sending = (w->rank < w->partner) == (round % 2 == 0);
        uint64_t seed = mt_seed((uint64_t)w->number, round, 5);
        MPI_Status status;

        if (sending) {
            mt_fill(buf, len, seed);
            mt_ok((round % 3 ? MPI_Send : MPI_Ssend)(buf, (int)len, MPI_BYTE, w->partner, w->number, w->comm));
        } else {
            mt_ok(MPI_Recv(buf, ROOM, MPI_BYTE, MPI_ANY_SOURCE, w->number, w->comm, &status));
            mt_status(&status, w->partner, w->number, len);
            mt_check_fill(buf, len, seed, "ping of a thread");
        }
    }
    mt_free(buf);
    return NULL;
}

static void run_ping_pong(MPI_Comm comm)
{
    in_threads(comm, ping_pong);
}

/* All threads take whatever message is there by MPI_Mprobe; each message must be taken once. The tag is its number. */
enum { MESSAGES = 800 };

static int taken[MESSAGES];

static void take_message(struct work *w, uint8_t *buf)
{
    MPI_Message message;
    MPI_Status status;
    int len;

    mt_ok(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, w->comm, &message, &status));
    mt_ok(MPI_Get_count(&status, MPI_BYTE, &len));
    mt_ok(MPI_Mrecv(buf, len, MPI_BYTE, &message, &status));
    mt_check(status.MPI_TAG >= 0 && status.MPI_TAG < MESSAGES, "took a message with tag %d", status.MPI_TAG);
    mt_status(&status, w->partner, status.MPI_TAG, sizes[(unsigned)status.MPI_TAG % MT_COUNT(sizes)]);
    mt_check_fill(buf, (size_t)len, (uint64_t)status.MPI_TAG, "message taken by a thread");
    mt_check(__atomic_add_fetch(&taken[status.MPI_TAG], 1, __ATOMIC_SEQ_CST) == 1, "message %d was taken twice",
             status.MPI_TAG);
}

static void *mprobe_any(void *arg)
{
    struct work *w = arg;
    uint8_t *buf = mt_alloc(ROOM);

    for (int i = w->number; i < MESSAGES; i += THREADS) {
        size_t len = sizes[(unsigned)i % MT_COUNT(sizes)];

        if (w->rank > w->partner) {
            take_message(w, buf);
            continue;
        }
        mt_fill(buf, len, (uint64_t)i);
        mt_ok(MPI_Send(buf, (int)len, MPI_BYTE, w->partner, i, w->comm));
    }
    mt_free(buf);
    return NULL;
}

static void run_mprobe(MPI_Comm comm)
{
    for (int i = 0; i < MESSAGES; i++)
        taken[i] = 0;
    in_threads(comm, mprobe_any);
}

/* Every other thread sends, the rest receive from any source; many requests a thread. */
static void *windows(void *arg)
{
    enum { WINDOW = 50, ROUNDS = 20, LEN = 3000 };
    struct work *w = arg;
    bool sending = (w->number % 2 == 0) == (w->rank < w->partner);
    int tag = w->number;
    uint8_t *bufs = mt_alloc((size_t)WINDOW * LEN);
    MPI_Request requests[WINDOW];
    MPI_Status statuses[WINDOW];

    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WINDOW; i++) {
            uint8_t *buf = bufs + (size_t)i * LEN;

            if (sending) {
                mt_fill(buf, LEN, mt_seed((uint64_t)tag, round, (uint64_t)i));
                mt_ok(MPI_Isend(buf, LEN, MPI_BYTE, w->partner, tag, w->comm, &requests[i]));
            } else {
                mt_ok(MPI_Irecv(buf, LEN, MPI_BYTE, MPI_ANY_SOURCE, tag, w->comm, &requests[i]));
            }
        }
        mt_ok(MPI_Waitall(WINDOW, requests, statuses));
        for (int i = 0; i < WINDOW && !sending; i++) {
            mt_status(&statuses[i], w->partner, tag, LEN);
            mt_check_fill(bufs + (size_t)i * LEN, LEN, mt_seed((uint64_t)tag, round, (uint64_t)i),
                          "window of a thread");
        }
    }
    mt_free(bufs);
    return NULL;
}

static void run_windows(MPI_Comm comm)
{
    in_threads(comm, windows);
}

/* Threads that post and cancel while others exchange. */
static void *cancelling(void *arg)
{
    struct work *w = arg;
    int value, cancelled;

    if (w->number % 2)
        return own_tag(arg);
    for (int i = 0; i < 500; i++) {
        MPI_Request request;
        MPI_Status status;

        mt_ok(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1000 + w->number, w->comm, &request));
        mt_ok(MPI_Cancel(&request));
        mt_ok(MPI_Wait(&request, &status));
        mt_ok(MPI_Test_cancelled(&status, &cancelled));
        mt_check(cancelled, "a receive that nothing matched was not cancelled");
    }
    return NULL;
}

static void run_cancelling(MPI_Comm comm)
{
    in_threads(comm, cancelling);
}

/* One communicator a thread. */
static MPI_Comm thread_comms[THREADS];

static void *collectives(void *arg)
{
    struct work *w = arg;
    MPI_Comm comm = thread_comms[w->number];
    int size = mt_size(comm);
    int *all = malloc(sizeof(int) * (size_t)size);

    for (int round = 0; round < 100; round++) {
        int sum = 0, value = w->rank * 1000 + w->number + round, root = round % size;

        mt_ok(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm));
        mt_check(sum == size * (size - 1) / 2 * 1000 + size * (w->number + round), "thread %d, round %d: sum %d",
                 w->number, round, sum);
        mt_ok(MPI_Allgather(&value, 1, MPI_INT, all, 1, MPI_INT, comm));
        for (int i = 0; i < size; i++)
            mt_check(all[i] == i * 1000 + w->number + round, "thread %d, round %d: gathered %d", w->number, round,
                     all[i]);
        value = w->rank == root ? round : -1;
        mt_ok(MPI_Bcast(&value, 1, MPI_INT, root, comm));
        mt_check(value == round, "thread %d, round %d: broadcast %d", w->number, round, value);
        mt_ok(MPI_Barrier(comm));
    }
    free(all);
    return NULL;
}

static void run_collectives(MPI_Comm comm)
{
    if (mt_size(comm) % 2) {
        mt_skip(comm, "needs an even number of ranks");
        return;
    }
    for (int i = 0; i < THREADS; i++)
        mt_ok(MPI_Comm_dup(comm, &thread_comms[i]));
    in_threads(comm, collectives);
    for (int i = 0; i < THREADS; i++)
        mt_ok(MPI_Comm_free(&thread_comms[i]));
}

/* One thread waits for a message that comes only after all others are done; it must not hold them up. */
static void *waiter_among_others(void *arg)
{
    struct work *w = arg;
    int value = w->rank;

    if (w->number > 0) {
        own_tag(arg);
        if (w->number == 1)
            mt_ok(MPI_Send(&value, 1, MPI_INT, w->partner, 500, w->comm));
        return NULL;
    }
    mt_ok(MPI_Recv(&value, 1, MPI_INT, w->partner, 500, w->comm, MPI_STATUS_IGNORE));
    mt_check(value == w->partner, "got %d", value);
    return NULL;
}

static void run_waiter(MPI_Comm comm)
{
    in_threads(comm, waiter_among_others);
}

static const struct mt_scenario scenarios[] = {
    {"own-tag", 2, run_own_tag},       {"ping-pong", 2, run_ping_pong},
    {"mprobe", 2, run_mprobe},         {"windows", 2, run_windows},
    {"cancelling", 2, run_cancelling}, {"collectives", 2, run_collectives},
    {"waiter", 2, run_waiter},         {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_MULTIPLE, scenarios);
}
