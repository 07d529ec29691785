/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Probes: what they report, that MPI_Probe leaves the message where it is and MPI_Mprobe takes it out of matching.
 */
#include "mpitest.h"

#include <stdlib.h>

static const size_t sizes[] = {0, 1, 100, 1400, 9000, 32768, 33000, 100000, 3000000};

enum { SIZES = MT_COUNT(sizes), TAG = 10, TAG_NEVER = 99 };

/* The lower half sends one message of each size, tags TAG, TAG + 1, ...; the upper half does receive(). */
static void with_messages(MPI_Comm comm, int copies, void (*receive)(MPI_Comm comm, int from))
{
    int partner = mt_partner(comm), rank = mt_rank(comm), n = 0;
    MPI_Request *requests = malloc((size_t)copies * SIZES * sizeof(*requests));
    uint8_t **bufs = malloc((size_t)copies * SIZES * sizeof(*bufs));

    if (partner >= 0 && rank < partner) {
        for (unsigned i = 0; i < SIZES; i++)
            for (int copy = 0; copy < copies; copy++, n++) {
                bufs[n] = mt_alloc(sizes[i]);
                mt_fill(bufs[n], sizes[i], mt_seed((uint64_t)rank, i, (uint64_t)copy));
                mt_ok(MPI_Isend(bufs[n], (int)sizes[i], MPI_BYTE, partner, TAG + (int)i, comm, &requests[n]));
            }
        mt_ok(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
        while (n > 0)
            mt_free(bufs[--n]);
    } else if (partner >= 0) {
        receive(comm, partner);
    }
    free(requests);
    free(bufs);
}

static void check_message(const uint8_t *buf, const MPI_Status *status, int from, unsigned i, int copy)
{
    mt_status(status, from, TAG + (int)i, sizes[i]);
    mt_check_fill(buf, sizes[i], mt_seed((uint64_t)from, i, (uint64_t)copy), "probed message");
}

static void receive_checked(MPI_Comm comm, int from, unsigned i, int copy)
{
    uint8_t *buf = mt_alloc(sizes[i]);
    MPI_Status status;

    mt_ok(MPI_Recv(buf, (int)sizes[i], MPI_BYTE, from, TAG + (int)i, comm, &status));
    check_message(buf, &status, from, i, copy);
    mt_free(buf);
}

static void mrecv_checked(MPI_Message *message, int from, unsigned i, int copy)
{
    uint8_t *buf = mt_alloc(sizes[i]);
    MPI_Status status;

    mt_ok(MPI_Mrecv(buf, (int)sizes[i], MPI_BYTE, message, &status));
    mt_check(*message == MPI_MESSAGE_NULL, "MPI_Mrecv left the message handle");
    check_message(buf, &status, from, i, copy);
    mt_free(buf);
}

/* Probe, the same probe again, receive. */
static void probe_receive(MPI_Comm comm, int from)
{
    for (unsigned i = 0; i < SIZES; i++) {
        MPI_Status status;

        for (int again = 0; again < 2; again++) {
            mt_ok(MPI_Probe(from, TAG + (int)i, comm, &status));
            mt_status(&status, from, TAG + (int)i, sizes[i]);
        }
        receive_checked(comm, from, i, 0);
    }
}

static void run_probe(MPI_Comm comm)
{
    with_messages(comm, 1, probe_receive);
}

/* By wildcards the messages come in order. */
static void probe_any_receive(MPI_Comm comm, int from)
{
    for (unsigned i = 0; i < SIZES; i++) {
        MPI_Status status;

        mt_ok(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
        mt_status(&status, from, TAG + (int)i, sizes[i]);
        receive_checked(comm, from, i, 0);
    }
}

static void run_probe_any(MPI_Comm comm)
{
    with_messages(comm, 1, probe_any_receive);
}

/* Iprobe finds it some time; never what is not sent. */
static void iprobe_receive(MPI_Comm comm, int from)
{
    for (int i = SIZES - 1; i >= 0; i--) {
        MPI_Status status;
        int found = 0;

        while (!found) {
            mt_ok(MPI_Iprobe(MPI_ANY_SOURCE, TAG_NEVER, comm, &found, &status));
            mt_check(!found, "MPI_Iprobe found a message with a tag that is never sent");
            mt_ok(MPI_Iprobe(MPI_ANY_SOURCE, TAG + i, comm, &found, &status));
        }
        mt_status(&status, from, TAG + i, sizes[i]);
        receive_checked(comm, from, (unsigned)i, 0);
        mt_ok(MPI_Iprobe(from, TAG + i, comm, &found, &status));
        mt_check(!found, "MPI_Iprobe found a message that was received already");
    }
}

static void run_iprobe(MPI_Comm comm)
{
    with_messages(comm, 1, iprobe_receive);
}

/* Take the first of three, receive the second and third, then the first. */
static void mprobe_receive(MPI_Comm comm, int from)
{
    for (unsigned i = 0; i < SIZES; i++) {
        MPI_Message message;
        MPI_Status status;

        mt_ok(MPI_Mprobe(MPI_ANY_SOURCE, TAG + (int)i, comm, &message, &status));
        mt_status(&status, from, TAG + (int)i, sizes[i]);
        receive_checked(comm, from, i, 1);
        receive_checked(comm, from, i, 2);
        mrecv_checked(&message, from, i, 0);
    }
}

static void run_mprobe(MPI_Comm comm)
{
    with_messages(comm, 3, mprobe_receive);
}

/* Take all, with wildcards, then receive all in reverse by Imrecv. */
static void improbe_receive(MPI_Comm comm, int from)
{
    MPI_Message messages[SIZES];
    MPI_Request requests[SIZES];
    MPI_Status statuses[SIZES];
    uint8_t *bufs[SIZES];

    for (unsigned i = 0; i < SIZES; i++) {
        int found = 0;

        while (!found) {
            mt_ok(MPI_Improbe(from, TAG_NEVER, comm, &found, &messages[i], &statuses[i]));
            mt_check(!found, "MPI_Improbe found a message with a tag that is never sent");
            mt_ok(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, &messages[i], &statuses[i]));
        }
        mt_status(&statuses[i], from, TAG + (int)i, sizes[i]);
    }
    for (int i = SIZES - 1; i >= 0; i--) {
        bufs[i] = mt_alloc(sizes[i]);
        mt_ok(MPI_Imrecv(bufs[i], (int)sizes[i], MPI_BYTE, &messages[i], &requests[i]));
    }
    mt_ok(MPI_Waitall(SIZES, requests, statuses));
    for (unsigned i = 0; i < SIZES; i++) {
        check_message(bufs[i], &statuses[i], from, i, 0);
        mt_free(bufs[i]);
    }
}

static void run_improbe(MPI_Comm comm)
{
    with_messages(comm, 1, improbe_receive);
}

/* A message taken is not seen by posted receives, probes or wildcards any more; later ones are. */
static void mprobe_hides_receive(MPI_Comm comm, int from)
{
    for (unsigned i = 0; i < SIZES; i++) {
        MPI_Message first, second;
        MPI_Status status;
        int found;

        mt_ok(MPI_Mprobe(from, TAG + (int)i, comm, &first, &status));
        mt_ok(MPI_Mprobe(from, TAG + (int)i, comm, &second, &status));
        mt_ok(MPI_Iprobe(from, TAG + (int)i, comm, &found, &status));
        mt_check(!found, "two messages were taken, a third is seen");
        mrecv_checked(&second, from, i, 1);
        mrecv_checked(&first, from, i, 0);
    }
}

static void run_mprobe_hides(MPI_Comm comm)
{
    with_messages(comm, 2, mprobe_hides_receive);
}

static void run_proc_null(MPI_Comm comm)
{
    MPI_Message message;
    MPI_Status status;

    mt_ok(MPI_Probe(MPI_PROC_NULL, 1, comm, &status));
    mt_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    mt_ok(MPI_Mprobe(MPI_PROC_NULL, 1, comm, &message, &status));
    mt_check(message == MPI_MESSAGE_NO_PROC, "MPI_Mprobe of MPI_PROC_NULL gave another message");
    mt_ok(MPI_Mrecv(NULL, 0, MPI_BYTE, &message, &status));
    mt_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
}

/* A probe does not see messages of another communicator. */
static void run_other_communicator(MPI_Comm comm)
{
    int partner = mt_partner(comm), rank = mt_rank(comm), value = rank, found;
    MPI_Comm other;
    MPI_Status status;

    mt_ok(MPI_Comm_dup(comm, &other));
    if (partner >= 0 && rank < partner) {
        mt_ok(MPI_Send(&value, 1, MPI_INT, partner, TAG, comm));
        mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, partner, TAG, comm, MPI_STATUS_IGNORE));
    } else if (partner >= 0) {
        mt_ok(MPI_Probe(partner, TAG, comm, &status));
        for (int i = 0; i < 50; i++) {
            mt_ok(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, other, &found, &status));
            mt_check(!found, "MPI_Iprobe found a message of another communicator");
        }
        mt_ok(MPI_Recv(&value, 1, MPI_INT, partner, TAG, comm, MPI_STATUS_IGNORE));
        mt_check(value == partner, "got %d", value);
        mt_ok(MPI_Send(NULL, 0, MPI_BYTE, partner, TAG, comm));
    }
    mt_ok(MPI_Comm_free(&other));
}

static const struct mt_scenario scenarios[] = {
    {"probe", 2, run_probe},
    {"probe-any", 2, run_probe_any},
    {"iprobe", 2, run_iprobe},
    {"mprobe", 2, run_mprobe},
    {"improbe", 2, run_improbe},
    {"mprobe-hides", 2, run_mprobe_hides},
    {"proc-null", 1, run_proc_null},
    {"other-communicator", 2, run_other_communicator},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
