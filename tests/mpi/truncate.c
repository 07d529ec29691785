/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages longer than the receive buffer: MPI_ERR_TRUNCATE, nothing written past the buffer, and everything after
 * goes on as if nothing had been.
 */
#include "mpitest.h"

#include <stdlib.h>

enum { TAG = 6, TAG_AFTER = 7, TAG_GO = 8 };

static const struct {
    size_t sent_bytes;
    size_t room_bytes;
} cases[] = {
    {1, 0},          {8, 7},       {100, 0},         {1400, 1399},      {5000, 0},          {9000, 1},
    {9000, 8999},    {32768, 100}, {33000, 32999},   {100000, 0},       {100000, 1},        {100000, 5000},
    {100000, 99999}, {1000000, 0}, {1000000, 40000}, {1000000, 999999}, {5000000, 3000000},
};

/* How the receiver receives. Each returns the error of the one receive. */
typedef int (*receive_fn)(MPI_Comm comm, int from, void *buf, int room);

static int by_recv(MPI_Comm comm, int from, void *buf, int room)
{
    mt_ok(MPI_Send(NULL, 0, MPI_BYTE, from, TAG_GO, comm));
    return MPI_Recv(buf, room, MPI_BYTE, from, TAG, comm, MPI_STATUS_IGNORE);
}

static int by_recv_when_there(MPI_Comm comm, int from, void *buf, int room)
{
    MPI_Status status;

    mt_ok(MPI_Send(NULL, 0, MPI_BYTE, from, TAG_GO, comm));
    mt_ok(MPI_Probe(from, TAG, comm, &status));
    return MPI_Recv(buf, room, MPI_BYTE, from, TAG, comm, &status);
}

static int by_posted_irecv(MPI_Comm comm, int from, void *buf, int room)
{
    MPI_Request request;
    MPI_Status status;

    mt_ok(MPI_Irecv(buf, room, MPI_BYTE, MPI_ANY_SOURCE, TAG, comm, &request));
    mt_ok(MPI_Send(NULL, 0, MPI_BYTE, from, TAG_GO, comm));
    return MPI_Wait(&request, &status);
}

static int by_mrecv(MPI_Comm comm, int from, void *buf, int room)
{
    MPI_Message message;
    MPI_Status status;

    mt_ok(MPI_Send(NULL, 0, MPI_BYTE, from, TAG_GO, comm));
    mt_ok(MPI_Mprobe(from, TAG, comm, &message, &status));
    return MPI_Mrecv(buf, room, MPI_BYTE, &message, &status);
}

static int by_imrecv(MPI_Comm comm, int from, void *buf, int room)
{
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;

    mt_ok(MPI_Send(NULL, 0, MPI_BYTE, from, TAG_GO, comm));
    mt_ok(MPI_Mprobe(from, TAG, comm, &message, &status));
    mt_ok(MPI_Imrecv(buf, room, MPI_BYTE, &message, &request));
    return MPI_Wait(&request, &status);
}

/* Among others in MPI_Waitall: only its own status has the error. The other one may be left for later. */
static int by_waitall(MPI_Comm comm, int from, void *buf, int room)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];

    mt_ok(MPI_Irecv(buf, room, MPI_BYTE, from, TAG, comm, &requests[0]));
    mt_ok(MPI_Isend(NULL, 0, MPI_BYTE, from, TAG_GO, comm, &requests[1]));
    mt_error(MPI_ERR_IN_STATUS, MPI_Waitall(2, requests, statuses));
    if (statuses[1].MPI_ERROR == MPI_ERR_PENDING) {
        mt_ok(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    } else {
        mt_ok(statuses[1].MPI_ERROR);
    }
    return statuses[0].MPI_ERROR;
}

/* Into every other int: the holes stay. */
static int by_vector(MPI_Comm comm, int from, void *buf, int room)
{
    MPI_Datatype every_other;
    int error, blocks = room / 8;

    mt_ok(MPI_Type_vector(blocks, 4, 8, MPI_BYTE, &every_other));
    mt_ok(MPI_Type_commit(&every_other));
    mt_ok(MPI_Send(NULL, 0, MPI_BYTE, from, TAG_GO, comm));
    error = MPI_Recv(buf, 1, every_other, from, TAG, comm, MPI_STATUS_IGNORE);
    for (int i = 0; i < blocks; i++)
        mt_check_untouched((uint8_t *)buf + 8 * i + 4, 4, "hole between the elements");
    mt_check_untouched((uint8_t *)buf + 8 * blocks, (size_t)(room - 8 * blocks), "rest of the buffer");
    mt_ok(MPI_Type_free(&every_other));
    return error;
}

static void sender(MPI_Comm comm, int to, size_t len_bytes, bool sync)
{
    uint8_t *buf = mt_alloc(len_bytes);

    mt_fill(buf, len_bytes, len_bytes);
    mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, to, TAG_GO, comm, MPI_STATUS_IGNORE));
    mt_ok((sync ? MPI_Ssend : MPI_Send)(buf, (int)len_bytes, MPI_BYTE, to, TAG, comm));
    mt_ok(MPI_Send(buf, (int)len_bytes, MPI_BYTE, to, TAG_AFTER, comm));
    mt_free(buf);
}

/* The truncated message, and after it one of the same length that fits. */
static void receiver(MPI_Comm comm, int from, size_t sent_bytes, size_t room_bytes, receive_fn receive)
{
    uint8_t *buf = mt_alloc(room_bytes), *after = mt_alloc(sent_bytes);
    MPI_Status status;

    mt_error(MPI_ERR_TRUNCATE, receive(comm, from, buf, (int)room_bytes));
    mt_ok(MPI_Recv(after, (int)sent_bytes, MPI_BYTE, from, TAG_AFTER, comm, &status));
    mt_status(&status, from, TAG_AFTER, sent_bytes);
    mt_check_fill(after, sent_bytes, sent_bytes, "message after a truncated one");
    mt_free(buf);
    mt_free(after);
}

/* Longest message that the transport under test truncates as MPI demands. */
static size_t longest(MPI_Comm comm)
{
    if (!mt_transport_is("tcp"))
        return SIZE_MAX;
    mt_skip(comm, "messages over 60000 bytes: Open MPI's ob1 writes them past the end of the buffer");
    return 60000;
}

static void all_cases(MPI_Comm comm, receive_fn receive)
{
    int partner = mt_partner(comm), rank = mt_rank(comm);
    size_t limit = longest(comm);

    for (unsigned i = 0; i < MT_COUNT(cases) && partner >= 0; i++) {
        if (cases[i].sent_bytes > limit)
            continue;
        for (int sync = 0; sync < 2; sync++)
            if (rank < partner)
                sender(comm, partner, cases[i].sent_bytes, sync);
            else
                receiver(comm, partner, cases[i].sent_bytes, cases[i].room_bytes, receive);
    }
}

static void run_recv(MPI_Comm comm)
{
    all_cases(comm, by_recv);
}

static void run_recv_when_there(MPI_Comm comm)
{
    all_cases(comm, by_recv_when_there);
}

static void run_posted_irecv(MPI_Comm comm)
{
    all_cases(comm, by_posted_irecv);
}

static void run_mrecv(MPI_Comm comm)
{
    all_cases(comm, by_mrecv);
}

static void run_imrecv(MPI_Comm comm)
{
    all_cases(comm, by_imrecv);
}

static void run_waitall(MPI_Comm comm)
{
    all_cases(comm, by_waitall);
}

static void run_vector(MPI_Comm comm)
{
    all_cases(comm, by_vector);
}

/* To itself. */
static void run_self(MPI_Comm comm)
{
    int rank = mt_rank(comm);

    if (mt_transport_is("tcp")) {
        mt_skip(comm, "Open MPI's ob1 reports no error");
        return;
    }
    for (unsigned i = 0; i < MT_COUNT(cases); i++) {
        uint8_t *out = mt_alloc(cases[i].sent_bytes);
        uint8_t *in = mt_alloc(cases[i].room_bytes);
        MPI_Request requests[2];
        MPI_Status status;

        mt_ok(MPI_Irecv(in, (int)cases[i].room_bytes, MPI_BYTE, rank, TAG, comm, &requests[0]));
        mt_ok(MPI_Isend(out, (int)cases[i].sent_bytes, MPI_BYTE, rank, TAG, comm, &requests[1]));
        mt_error(MPI_ERR_TRUNCATE, MPI_Wait(&requests[0], &status));
        mt_ok(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        mt_free(out);
        mt_free(in);
    }
}

static const struct mt_scenario scenarios[] = {
    {"recv", 2, run_recv},
    {"recv-when-there", 2, run_recv_when_there},
    {"posted-irecv", 2, run_posted_irecv},
    {"mrecv", 2, run_mrecv},
    {"imrecv", 2, run_imrecv},
    {"waitall", 2, run_waitall},
    {"vector", 2, run_vector},
    {"self", 1, run_self},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
