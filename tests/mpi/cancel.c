/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Cancelled receives: they say so, never touch their buffer, and no message is lost or misled by them.
 */
#include "mpitest.h"

#include <string.h>

enum { TAG = 4, TAG_GO = 5, COUNT = 100 };

static void cancel_one(MPI_Request *request)
{
    MPI_Status status;
    int cancelled;

    mt_ok(MPI_Cancel(request));
    mt_ok(MPI_Wait(request, &status));
    mt_ok(MPI_Test_cancelled(&status, &cancelled));
    mt_check(cancelled, "a receive that nothing matched was not cancelled");
}

/* Nobody sends: all kinds of receives can be cancelled. */
static void run_unmatched(MPI_Comm comm)
{
    static const struct {
        bool any_source, any_tag;
    } kinds[] = {{false, false}, {false, true}, {true, false}, {true, true}};
    int partner = mt_partner(comm) < 0 ? 0 : mt_partner(comm);
    uint8_t *buf = mt_alloc(100000);

    for (unsigned i = 0; i < MT_COUNT(kinds); i++) {
        MPI_Request request;

        mt_ok(MPI_Irecv(buf, 100000, MPI_BYTE, kinds[i].any_source ? MPI_ANY_SOURCE : partner,
                        kinds[i].any_tag ? MPI_ANY_TAG : TAG, comm, &request));
        cancel_one(&request);
    }
    mt_check_untouched(buf, 100000, "buffer of a cancelled receive");
    mt_free(buf);
}

/* Cancelled before the message is sent: a later receive gets it. */
static void run_then_send(MPI_Comm comm)
{
    static const size_t sizes[] = {0, 8, 5000, 100000, 2000000};
    int partner = mt_partner(comm), rank = mt_rank(comm);

    for (unsigned i = 0; i < MT_COUNT(sizes) && partner >= 0; i++) {
        uint8_t *cancelled_buf = mt_alloc(sizes[i]), *buf = mt_alloc(sizes[i]);
        MPI_Request request;
        MPI_Status status;

        if (rank < partner) {
            mt_fill(buf, sizes[i], i);
            mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, partner, TAG_GO, comm, MPI_STATUS_IGNORE));
            mt_ok(MPI_Send(buf, (int)sizes[i], MPI_BYTE, partner, TAG, comm));
        } else {
            mt_ok(MPI_Irecv(cancelled_buf, (int)sizes[i], MPI_BYTE, partner, TAG, comm, &request));
            cancel_one(&request);
            mt_ok(MPI_Send(NULL, 0, MPI_BYTE, partner, TAG_GO, comm));
            mt_ok(MPI_Recv(buf, (int)sizes[i], MPI_BYTE, partner, TAG, comm, &status));
            mt_status(&status, partner, TAG, sizes[i]);
            mt_check_fill(buf, sizes[i], i, "message after a cancelled receive");
            mt_check_untouched(cancelled_buf, sizes[i], "buffer of a cancelled receive");
        }
        mt_free(cancelled_buf);
        mt_free(buf);
    }
}

/* Of many equal receives every third is cancelled; the others get the messages in order. */
static void run_some_of_many(MPI_Comm comm)
{
    int partner = mt_partner(comm), rank = mt_rank(comm), values[COUNT];
    MPI_Request requests[COUNT];

    if (partner >= 0 && rank > partner) {
        for (int i = 0; i < COUNT; i++)
            mt_ok(MPI_Irecv(&values[i], 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : partner, i % 5 ? TAG : MPI_ANY_TAG, comm,
                            &requests[i]));
        for (int i = 0; i < COUNT; i += 3)
            cancel_one(&requests[i]);
        mt_ok(MPI_Send(NULL, 0, MPI_BYTE, partner, TAG_GO, comm));
        for (int i = 0, next = 0; i < COUNT; i++) {
            MPI_Status status;

            if (i % 3 == 0)
                continue;
            mt_ok(MPI_Wait(&requests[i], &status));
            mt_status(&status, partner, TAG, sizeof(int));
            mt_check(values[i] == next, "receive %d got message %d, not %d", i, values[i], next);
            next++;
        }
    } else if (partner >= 0) {
        mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, partner, TAG_GO, comm, MPI_STATUS_IGNORE));
        for (int i = 0, next = 0; i < COUNT; i++)
            if (i % 3 != 0) {
                mt_ok(MPI_Send(&next, 1, MPI_INT, partner, TAG, comm));
                next++;
            }
    }
}

/* A receive that has matched completes as if it had not been cancelled. */
static void run_matched(MPI_Comm comm)
{
    int partner = mt_partner(comm), rank = mt_rank(comm);

    if (partner >= 0 && rank < partner) {
        mt_ok(MPI_Send(&rank, 1, MPI_INT, partner, TAG, comm));
    } else if (partner >= 0) {
        int value, cancelled;
        MPI_Request request;
        MPI_Status status;

        mt_ok(MPI_Probe(partner, TAG, comm, &status));
        mt_ok(MPI_Irecv(&value, 1, MPI_INT, partner, TAG, comm, &request));
        mt_ok(MPI_Cancel(&request));
        mt_ok(MPI_Wait(&request, &status));
        mt_ok(MPI_Test_cancelled(&status, &cancelled));
        mt_check(!cancelled, "a receive whose message was there was cancelled");
        mt_status(&status, partner, TAG, sizeof(int));
        mt_check(value == partner, "got %d", value);
    }
}

/* Cancel races with the message: either way exactly one receive has it. */
static void run_race(MPI_Comm comm)
{
    int partner = mt_partner(comm), rank = mt_rank(comm);

    for (int round = 0; round < 300 && partner >= 0; round++) {
        if (rank < partner) {
            mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, partner, TAG_GO, comm, MPI_STATUS_IGNORE));
            mt_ok(MPI_Send(&round, 1, MPI_INT, partner, TAG, comm));
        } else {
            int value = -1, cancelled, done = 0;
            MPI_Request request;
            MPI_Status status;

            mt_ok(MPI_Irecv(&value, 1, MPI_INT, partner, TAG, comm, &request));
            mt_ok(MPI_Send(NULL, 0, MPI_BYTE, partner, TAG_GO, comm));
            for (int spin = 0; spin < round && !done; spin++)
                mt_ok(MPI_Test(&request, &done, &status));
            cancelled = 0;
            if (!done) {
                mt_ok(MPI_Cancel(&request));
                mt_ok(MPI_Wait(&request, &status));
                mt_ok(MPI_Test_cancelled(&status, &cancelled));
            }
            if (cancelled) {
                mt_check(value == -1, "a cancelled receive wrote %d", value);
                mt_ok(MPI_Recv(&value, 1, MPI_INT, partner, TAG, comm, &status));
            }
            mt_status(&status, partner, TAG, sizeof(int));
            mt_check(value == round, "round %d got message %d", round, value);
        }
    }
}

/* As race, with a long message: often it is on its way into the buffer when it is cancelled. */
static void run_race_large(MPI_Comm comm)
{
    enum { LEN = 1 << 20 };
    int partner = mt_partner(comm), rank = mt_rank(comm);
    uint8_t *buf = mt_alloc(LEN);

    if (partner >= 0 && rank < partner)
        mt_fill(buf, LEN, 1);
    for (int round = 0; round < 200 && partner >= 0; round++) {
        if (rank < partner) {
            mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, partner, TAG_GO, comm, MPI_STATUS_IGNORE));
            mt_ok(MPI_Send(buf, LEN, MPI_BYTE, partner, TAG, comm));
        } else {
            int cancelled = 0, done = 0;
            MPI_Request request;
            MPI_Status status;

            memset(buf, 0, LEN);
            mt_ok(MPI_Irecv(buf, LEN, MPI_BYTE, round % 4 ? MPI_ANY_SOURCE : partner, TAG, comm, &request));
            mt_ok(MPI_Send(NULL, 0, MPI_BYTE, partner, TAG_GO, comm));
            for (int spin = 0; spin < 10 * round && !done; spin++)
                mt_ok(MPI_Test(&request, &done, &status));
            if (!done) {
                mt_ok(MPI_Cancel(&request));
                mt_ok(MPI_Wait(&request, &status));
                mt_ok(MPI_Test_cancelled(&status, &cancelled));
            }
            if (cancelled)
                mt_ok(MPI_Recv(buf, LEN, MPI_BYTE, partner, TAG, comm, &status));
            mt_status(&status, partner, TAG, LEN);
            mt_check_fill(buf, LEN, 1, "a message whose receive was cancelled, perhaps too late");
        }
    }
    mt_free(buf);
}

/* A persistent receive can be cancelled and started again. */
static void run_persistent(MPI_Comm comm)
{
    int partner = mt_partner(comm), rank = mt_rank(comm), value = -1;
    MPI_Request request;
    MPI_Status status;

    if (partner >= 0 && rank < partner) {
        mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, partner, TAG_GO, comm, MPI_STATUS_IGNORE));
        mt_ok(MPI_Send(&rank, 1, MPI_INT, partner, TAG, comm));
    } else if (partner >= 0) {
        mt_ok(MPI_Recv_init(&value, 1, MPI_INT, partner, TAG, comm, &request));
        mt_ok(MPI_Start(&request));
        cancel_one(&request);
        mt_check(request != MPI_REQUEST_NULL, "a cancelled persistent request became null");
        mt_ok(MPI_Send(NULL, 0, MPI_BYTE, partner, TAG_GO, comm));
        mt_ok(MPI_Start(&request));
        mt_ok(MPI_Wait(&request, &status));
        mt_status(&status, partner, TAG, sizeof(int));
        mt_check(value == partner, "got %d", value);
        mt_ok(MPI_Request_free(&request));
    }
}

static const struct mt_scenario scenarios[] = {
    {"unmatched", 1, run_unmatched},
    {"then-send", 2, run_then_send},
    {"some-of-many", 2, run_some_of_many},
    {"matched", 2, run_matched},
    {"race", 2, run_race},
    {"race-large", 2, run_race_large},
    {"persistent", 2, run_persistent},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
