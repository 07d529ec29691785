/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Many senders to receivers that take from MPI_ANY_SOURCE with MPI_ANY_TAG: nothing lost, nothing twice, each source
 * in its own order, and the status tells whose it is.
 */
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 400, ROOM = 50000 };

static size_t message_len(int source, int number)
{
    static const size_t limits[] = {1, 40, 40, 1500, 10000, ROOM};
    struct mt_random r = {mt_seed((uint64_t)source, (uint64_t)number, 1)};

    return mt_random_below(&r, limits[mt_random_below(&r, MT_COUNT(limits))]);
}

/* The tag is the number, so that empty messages are checked too. */
static void send_all(MPI_Comm comm, int to, MPI_Request *requests, uint8_t **bufs)
{
    int rank = mt_rank(comm);

    for (int i = 0; i < MESSAGES; i++) {
        size_t len = message_len(rank, i);

        bufs[i] = mt_alloc(len);
        mt_fill(bufs[i], len, mt_seed((uint64_t)rank, (uint64_t)i, (uint64_t)to));
        mt_ok(MPI_Isend(bufs[i], (int)len, MPI_BYTE, to, i, comm, &requests[i]));
    }
}

static void send_finish(MPI_Request *requests, uint8_t **bufs)
{
    mt_ok(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MESSAGES; i++)
        mt_free(bufs[i]);
}

static void check_next(MPI_Comm comm, const MPI_Status *status, const uint8_t *buf, int *next)
{
    int source = status->MPI_SOURCE;
    size_t len;

    mt_check(source >= 0 && source < mt_size(comm), "status says source %d", source);
    len = message_len(source, next[source]);
    mt_status(status, source, next[source], len);
    mt_check_fill(buf, len, mt_seed((uint64_t)source, (uint64_t)next[source], (uint64_t)mt_rank(comm)),
                  "message from any source");
    next[source]++;
}

static void receive_any(MPI_Comm comm, int count)
{
    int *next = calloc((size_t)mt_size(comm), sizeof(*next));
    uint8_t *buf = mt_alloc(ROOM);

    for (int i = 0; i < count; i++) {
        MPI_Status status;

        mt_ok(MPI_Recv(buf, ROOM, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
        check_next(comm, &status, buf, next);
    }
    mt_free(buf);
    free(next);
}

/* Posted long before: each receive takes the next from whoever is first. */
static void receive_any_posted(MPI_Comm comm, int count)
{
    int *next = calloc((size_t)mt_size(comm), sizeof(*next));
    MPI_Request *requests = malloc((size_t)count * sizeof(*requests));
    uint8_t *bufs = mt_alloc((size_t)count * ROOM);

    for (int i = 0; i < count; i++)
        mt_ok(MPI_Irecv(bufs + (size_t)i * ROOM, ROOM, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[i]));
    for (int i = 0; i < count; i++) {
        MPI_Status status;

        mt_ok(MPI_Wait(&requests[i], &status));
        check_next(comm, &status, bufs + (size_t)i * ROOM, next);
    }
    mt_free(bufs);
    free(requests);
    free(next);
}

static void run_all_to_one(MPI_Comm comm)
{
    MPI_Request requests[MESSAGES];
    uint8_t *bufs[MESSAGES];

    if (mt_rank(comm) == 0) {
        receive_any(comm, MESSAGES * (mt_size(comm) - 1));
    } else {
        send_all(comm, 0, requests, bufs);
        send_finish(requests, bufs);
    }
}

static void run_all_to_one_posted(MPI_Comm comm)
{
    MPI_Request requests[MESSAGES];
    uint8_t *bufs[MESSAGES];

    if (mt_rank(comm) == 0) {
        receive_any_posted(comm, MESSAGES * (mt_size(comm) - 1));
    } else {
        send_all(comm, 0, requests, bufs);
        send_finish(requests, bufs);
    }
}

/* Everybody sends to everybody, itself included, and takes what comes. */
static void run_all_to_all(MPI_Comm comm)
{
    int size = mt_size(comm);
    MPI_Request(*requests)[MESSAGES] = malloc((size_t)size * sizeof(*requests));
    uint8_t *(*bufs)[MESSAGES] = malloc((size_t)size * sizeof(*bufs));

    for (int to = 0; to < size; to++)
        send_all(comm, to, requests[to], bufs[to]);
    receive_any(comm, MESSAGES * size);
    for (int to = 0; to < size; to++)
        send_finish(requests[to], bufs[to]);
    free(requests);
    free(bufs);
}

/* Any source but one tag: a work queue, answered to who asked. */
static void run_work_queue(MPI_Comm comm)
{
    enum { TASKS = 500, TAG_ASK = 1, TAG_TASK = 2 };
    int size = mt_size(comm), left = TASKS, done = 0, total = 0;

    if (mt_rank(comm) == 0) {
        for (int running = size - 1; running > 0;) {
            MPI_Status status;
            int asker, task = left > 0 ? left-- : 0;

            mt_ok(MPI_Recv(&asker, 1, MPI_INT, MPI_ANY_SOURCE, TAG_ASK, comm, &status));
            mt_status(&status, asker, TAG_ASK, sizeof(int));
            mt_ok(MPI_Send(&task, 1, MPI_INT, asker, TAG_TASK, comm));
            if (task == 0)
                running--;
        }
    } else {
        int rank = mt_rank(comm), task = 1;

        while (task > 0) {
            mt_ok(MPI_Send(&rank, 1, MPI_INT, 0, TAG_ASK, comm));
            mt_ok(MPI_Recv(&task, 1, MPI_INT, 0, TAG_TASK, comm, MPI_STATUS_IGNORE));
            done += task;
        }
    }
    mt_ok(MPI_Reduce(&done, &total, 1, MPI_INT, MPI_SUM, 0, comm));
    if (mt_rank(comm) == 0)
        mt_check(total == TASKS * (TASKS + 1) / 2, "sum of all tasks is %d", total);
}

static const struct mt_scenario scenarios[] = {
    {"all-to-one", 2, run_all_to_one},
    {"all-to-one-posted", 2, run_all_to_one_posted},
    {"all-to-all", 1, run_all_to_all},
    {"work-queue", 2, run_work_queue},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
