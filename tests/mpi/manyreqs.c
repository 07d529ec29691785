/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Many requests in flight, completed by every call MPI has for that; and messages of a rank to itself.
 */
#include "mpitest.h"

#include <stdlib.h>

enum { MANY = 1000, LONGEST = 40000 };

static size_t len_of(int i)
{
    static const size_t sizes[] = {0, 4, 4, 100, 4, 1460, 4, 3000, 4, 9100, 33000, LONGEST};

    return sizes[(unsigned)i % MT_COUNT(sizes)];
}

/* Receives first (even numbers) and sends (odd): i of ours meets i of the partner's; the receives in another order. */
struct many {
    MPI_Request requests[2 * MANY];
    uint8_t *in[MANY];
    uint8_t *out[MANY];
    int rank;
    int partner;
    bool seen[2 * MANY];
};

static struct many *many_start(MPI_Comm comm, int partner)
{
    struct many *m = calloc(1, sizeof(*m));

    m->rank = mt_rank(comm);
    m->partner = partner;
    for (int i = 0; i < MANY; i++) {
        m->in[i] = mt_alloc(len_of(i));
        m->out[i] = mt_alloc(len_of(i));
        mt_fill(m->out[i], len_of(i), mt_seed((uint64_t)m->rank, (uint64_t)i, 9));
    }
    for (int i = 0; i < MANY; i++) {
        int turned = i * 7 % MANY;

        mt_ok(MPI_Irecv(m->in[turned], (int)len_of(turned), MPI_BYTE, partner, turned, comm, &m->requests[turned]));
        mt_ok(MPI_Isend(m->out[i], (int)len_of(i), MPI_BYTE, partner, i, comm, &m->requests[MANY + i]));
    }
    return m;
}

/* Request number index has completed with this status. */
static void many_completed(struct many *m, int index, const MPI_Status *status)
{
    mt_check(index >= 0 && index < 2 * MANY, "completed request number %d", index);
    mt_check(!m->seen[index], "request %d completed twice", index);
    m->seen[index] = true;
    if (index >= MANY)
        return;
    mt_status(status, m->partner, index, len_of(index));
    mt_check_fill(m->in[index], len_of(index), mt_seed((uint64_t)m->partner, (uint64_t)index, 9), "one of many");
}

static void many_finish(struct many *m)
{
    for (int i = 0; i < 2 * MANY; i++) {
        mt_check(m->seen[i], "request %d was not reported", i);
        mt_check(m->requests[i] == MPI_REQUEST_NULL, "request %d is not null after its end", i);
    }
    for (int i = 0; i < MANY; i++) {
        mt_free(m->in[i]);
        mt_free(m->out[i]);
    }
    free(m);
}

static void with_waitall(struct many *m)
{
    MPI_Status *statuses = malloc(2 * MANY * sizeof(*statuses));

    mt_ok(MPI_Waitall(2 * MANY, m->requests, statuses));
    for (int i = 0; i < 2 * MANY; i++)
        many_completed(m, i, &statuses[i]);
    free(statuses);
}

static void with_waitany(struct many *m)
{
    MPI_Status status;
    int index;

    for (int i = 0; i < 2 * MANY; i++) {
        mt_ok(MPI_Waitany(2 * MANY, m->requests, &index, &status));
        many_completed(m, index, &status);
    }
    mt_ok(MPI_Waitany(2 * MANY, m->requests, &index, &status));
    mt_check(index == MPI_UNDEFINED, "MPI_Waitany of null requests gave index %d", index);
}

static void with_some(struct many *m, int (*some)(int, MPI_Request[], int *, int[], MPI_Status[]))
{
    int *indices = malloc(2 * MANY * sizeof(*indices)), left = 2 * MANY;
    MPI_Status *statuses = malloc(2 * MANY * sizeof(*statuses));

    while (left > 0) {
        int count;

        mt_ok(some(2 * MANY, m->requests, &count, indices, statuses));
        mt_check(count >= 0 && count <= left, "%d requests completed of %d", count, left);
        for (int i = 0; i < count; i++)
            many_completed(m, indices[i], &statuses[i]);
        left -= count;
    }
    free(indices);
    free(statuses);
}

static void with_waitsome(struct many *m)
{
    with_some(m, MPI_Waitsome);
}

static void with_testsome(struct many *m)
{
    with_some(m, MPI_Testsome);
}

static void with_testany(struct many *m)
{
    for (int left = 2 * MANY; left > 0;) {
        MPI_Status status;
        int index, done;

        mt_ok(MPI_Testany(2 * MANY, m->requests, &index, &done, &status));
        if (!done)
            continue;
        many_completed(m, index, &status);
        left--;
    }
}

static void with_testall(struct many *m)
{
    MPI_Status *statuses = malloc(2 * MANY * sizeof(*statuses));
    int done = 0;

    while (!done)
        mt_ok(MPI_Testall(2 * MANY, m->requests, &done, statuses));
    for (int i = 0; i < 2 * MANY; i++)
        many_completed(m, i, &statuses[i]);
    free(statuses);
}

/* MPI_Request_get_status leaves the request. */
static void with_get_status(struct many *m)
{
    for (int i = 2 * MANY - 1; i >= 0; i--) {
        MPI_Status status;
        int done = 0;

        while (!done)
            mt_ok(MPI_Request_get_status(m->requests[i], &done, &status));
        mt_ok(MPI_Test(&m->requests[i], &done, &status));
        mt_check(done, "request %d was done and is not any more", i);
        many_completed(m, i, &status);
    }
}

static void many(MPI_Comm comm, void (*complete)(struct many *))
{
    struct many *m;

    if (mt_partner(comm) < 0)
        return;
    m = many_start(comm, mt_partner(comm));
    complete(m);
    many_finish(m);
}

static void run_waitall(MPI_Comm comm)
{
    many(comm, with_waitall);
}

static void run_waitany(MPI_Comm comm)
{
    many(comm, with_waitany);
}

static void run_waitsome(MPI_Comm comm)
{
    many(comm, with_waitsome);
}

static void run_testsome(MPI_Comm comm)
{
    many(comm, with_testsome);
}

static void run_testany(MPI_Comm comm)
{
    many(comm, with_testany);
}

static void run_testall(MPI_Comm comm)
{
    many(comm, with_testall);
}

static void run_get_status(MPI_Comm comm)
{
    many(comm, with_get_status);
}

/* All of it with oneself. */
static void run_self(MPI_Comm comm)
{
    struct many *m = many_start(comm, mt_rank(comm));

    with_waitall(m);
    many_finish(m);
}

/* Each way of sending to oneself, on MPI_COMM_SELF. */
static void run_self_modes(MPI_Comm comm)
{
    static const size_t sizes[] = {0, 1, 1000, 33000, 1000000};
    int found = 0;

    (void)comm;
    for (unsigned i = 0; i < MT_COUNT(sizes); i++) {
        uint8_t *out = mt_alloc(sizes[i]), *in = mt_alloc(sizes[i]);
        MPI_Request request;
        MPI_Status status;

        mt_fill(out, sizes[i], i);
        mt_ok(MPI_Irecv(in, (int)sizes[i], MPI_BYTE, 0, 1, MPI_COMM_SELF, &request));
        mt_ok(MPI_Ssend(out, (int)sizes[i], MPI_BYTE, 0, 1, MPI_COMM_SELF));
        mt_ok(MPI_Wait(&request, &status));
        mt_status(&status, 0, 1, sizes[i]);
        mt_check_fill(in, sizes[i], i, "synchronous message to itself");

        mt_fill(out, sizes[i], i + 100);
        mt_ok(MPI_Issend(out, (int)sizes[i], MPI_BYTE, 0, 2, MPI_COMM_SELF, &request));
        while (!found)
            mt_ok(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &found, &status));
        found = 0;
        mt_status(&status, 0, 2, sizes[i]);
        mt_ok(MPI_Recv(in, (int)sizes[i], MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &status));
        mt_ok(MPI_Wait(&request, MPI_STATUS_IGNORE));
        mt_check_fill(in, sizes[i], i + 100, "unexpected message to itself");

        mt_ok(MPI_Sendrecv(out, (int)sizes[i], MPI_BYTE, 0, 3, in, (int)sizes[i], MPI_BYTE, 0, 3, MPI_COMM_SELF,
                           &status));
        mt_check_fill(in, sizes[i], i + 100, "exchange with itself");
        mt_free(out);
        mt_free(in);
    }
}

/* Every rank has 100 requests with every other. */
static void run_all_to_all(MPI_Comm comm)
{
    int size = mt_size(comm), rank = mt_rank(comm), each = 100, n = 0;
    MPI_Request *requests = malloc(2 * sizeof(*requests) * (size_t)(size * each));
    int *in = malloc(sizeof(int) * (size_t)(size * each)), *out = malloc(sizeof(int) * (size_t)(size * each));

    for (int k = 0; k < each; k++)
        for (int peer = 0; peer < size; peer++) {
            out[peer * each + k] = rank * 1000000 + peer * 1000 + k;
            mt_ok(MPI_Isend(&out[peer * each + k], 1, MPI_INT, peer, k, comm, &requests[n++]));
        }
    for (int k = each - 1; k >= 0; k--)
        for (int peer = 0; peer < size; peer++)
            mt_ok(MPI_Irecv(&in[peer * each + k], 1, MPI_INT, peer, k, comm, &requests[n++]));
    mt_ok(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    for (int peer = 0; peer < size; peer++)
        for (int k = 0; k < each; k++)
            mt_check(in[peer * each + k] == peer * 1000000 + rank * 1000 + k, "message %d of rank %d is %d", k, peer,
                     in[peer * each + k]);
    free(requests);
    free(in);
    free(out);
}

static const struct mt_scenario scenarios[] = {
    {"waitall", 2, run_waitall},
    {"waitany", 2, run_waitany},
    {"waitsome", 2, run_waitsome},
    {"testsome", 2, run_testsome},
    {"testany", 2, run_testany},
    {"testall", 2, run_testall},
    {"get-status", 2, run_get_status},
    {"self", 1, run_self},
    {"self-modes", 1, run_self_modes},
    {"all-to-all", 1, run_all_to_all},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
