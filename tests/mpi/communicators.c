/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Communicators: made, used and freed in many ways; messages of one never show in another, also when its context number
 * is used again.
 */
#include "mpitest.h"

#include <stdlib.h>

enum { TAG = 5 };

/* Each rank sends its world rank around the ring of comm and checks who came. */
static void ring(MPI_Comm comm, int stamp)
{
    int rank = mt_rank(comm), size = mt_size(comm);
    int out[2] = {rank, stamp}, in[2] = {-1, -1};
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Status status;

    mt_ok(MPI_Sendrecv(out, 2, MPI_INT, to, TAG, in, 2, MPI_INT, from, TAG, comm, &status));
    mt_status(&status, from, TAG, sizeof(in));
    mt_check(in[0] == from && in[1] == stamp, "from %d came %d with stamp %d, not %d", from, in[0], in[1], stamp);
}

static void run_dup_free(MPI_Comm comm)
{
    for (int i = 0; i < 300; i++) {
        MPI_Comm dup;

        mt_ok(MPI_Comm_dup(comm, &dup));
        ring(dup, i);
        mt_ok(MPI_Comm_free(&dup));
    }
}

static void run_many_at_once(MPI_Comm comm)
{
    enum { MANY = 200 };
    MPI_Comm dups[MANY];

    for (int i = 0; i < MANY; i++)
        mt_ok(MPI_Comm_dup(comm, &dups[i]));
    for (int i = MANY - 1; i >= 0; i--)
        ring(dups[i], i);
    for (int i = 0; i < MANY; i++)
        mt_ok(MPI_Comm_free(&dups[i * 7 % MANY]));
}

/* The same tag and source in several communicators: each receive gets the one of its own. */
static void run_separate(MPI_Comm comm)
{
    enum { MANY = 20 };
    int partner = mt_partner(comm), values[MANY];
    MPI_Request requests[MANY];
    MPI_Comm dups[MANY];

    for (int i = 0; i < MANY; i++)
        mt_ok(MPI_Comm_dup(comm, &dups[i]));
    for (int i = 0; i < MANY && partner >= 0; i++) {
        values[i] = i;
        mt_ok(MPI_Isend(&values[i], 1, MPI_INT, partner, TAG, dups[i], &requests[i]));
    }
    for (int i = MANY - 1; i >= 0 && partner >= 0; i--) {
        MPI_Status status;
        int value;

        mt_ok(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, dups[i], &status));
        mt_check(value == i, "communicator %d got the message of %d", i, value);
        mt_ok(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    }
    for (int i = 0; i < MANY; i++)
        mt_ok(MPI_Comm_free(&dups[i]));
}

/* A message that nobody received on a communicator since freed must not be received on the next, which has the same
 * context number. Such a program counts on buffering, so the messages are short. */
static void run_stale(MPI_Comm comm)
{
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40200000
    mt_skip(comm, "MPICH refuses to free a communicator with messages that nobody has received, from 4.2 on");
    return;
#endif
    static const size_t sizes[] = {0, 8, 1400, 4000, 8000};
    int partner = mt_partner(comm), rank = mt_rank(comm);
    uint8_t *buf = mt_alloc(8000), *stale = mt_alloc(8000);

    mt_fill(stale, 8000, 666);
    for (int round = 0; round < 50; round++) {
        size_t len = sizes[(unsigned)round % MT_COUNT(sizes)];
        MPI_Comm first, second;
        MPI_Status status;
        int found;

        mt_ok(MPI_Comm_dup(comm, &first));
        if (partner >= 0 && rank < partner) {
            mt_ok(MPI_Send(stale, (int)len, MPI_BYTE, partner, TAG, first));
        } else if (partner >= 0) {
            mt_ok(MPI_Probe(partner, TAG, first, &status)); /* it is there */
        }
        mt_ok(MPI_Barrier(first));
        mt_ok(MPI_Comm_free(&first));
        mt_ok(MPI_Comm_dup(comm, &second));
        if (partner >= 0 && rank < partner) {
            mt_fill(buf, len, (uint64_t)round);
            mt_ok(MPI_Send(buf, (int)len, MPI_BYTE, partner, TAG, second));
        } else if (partner >= 0) {
            mt_ok(MPI_Recv(buf, (int)len, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, second, &status));
            mt_status(&status, partner, TAG, len);
            mt_check_fill(buf, len, (uint64_t)round, "message of a communicator made after one with the same number");
            mt_ok(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, second, &found, &status));
            mt_check(!found, "an old message shows in a new communicator");
        }
        mt_ok(MPI_Barrier(second));
        mt_ok(MPI_Comm_free(&second));
    }
    mt_free(buf);
    mt_free(stale);
}

static void run_split(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm);

    for (int colors = 1; colors <= 3; colors++)
        for (int reverse = 0; reverse < 2; reverse++) {
            int color = rank % colors, members = (size - color + colors - 1) / colors;
            int expected = reverse ? members - 1 - rank / colors : rank / colors;
            MPI_Comm part;

            mt_ok(MPI_Comm_split(comm, color, reverse ? -rank : rank, &part));
            mt_check(mt_size(part) == members && mt_rank(part) == expected, "rank %d became %d of %d, not %d of %d",
                     rank, mt_rank(part), mt_size(part), expected, members);
            ring(part, colors * 10 + reverse);
            mt_ok(MPI_Comm_free(&part));
        }
}

static void run_split_undefined(MPI_Comm comm)
{
    MPI_Comm part;
    int rank = mt_rank(comm);

    mt_ok(MPI_Comm_split(comm, rank == 0 ? MPI_UNDEFINED : 1, rank, &part));
    mt_check((part == MPI_COMM_NULL) == (rank == 0), "MPI_Comm_split with MPI_UNDEFINED gave the wrong communicator");
    if (part != MPI_COMM_NULL) {
        ring(part, 3);
        mt_ok(MPI_Comm_free(&part));
    }
}

static void run_split_type(MPI_Comm comm)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "", first[MPI_MAX_PROCESSOR_NAME];
    MPI_Comm node;
    int len;

    mt_ok(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, mt_rank(comm), MPI_INFO_NULL, &node));
    mt_ok(MPI_Get_processor_name(name, &len));
    for (int i = 0; i < MPI_MAX_PROCESSOR_NAME; i++)
        first[i] = name[i];
    mt_ok(MPI_Bcast(first, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, 0, node));
    for (int i = 0; name[i]; i++)
        mt_check(first[i] == name[i], "ranks of %s and %s are told to share memory", name, first);
    ring(node, 8);
    mt_ok(MPI_Comm_free(&node));
}

static void run_create_group(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm);
    int range[1][3] = {{size - 1, 0, -2}}; /* every other rank, from the last */
    MPI_Group all, some;
    MPI_Comm part;

    mt_ok(MPI_Comm_group(comm, &all));
    mt_ok(MPI_Group_range_incl(all, 1, range, &some));
    for (int i = 0; i < 20; i++) {
        if ((size - 1 - rank) % 2 == 0) {
            mt_ok(MPI_Comm_create_group(comm, some, i, &part));
            ring(part, i);
            mt_ok(MPI_Comm_free(&part));
        }
        mt_ok(MPI_Comm_create(comm, some, &part));
        if (part != MPI_COMM_NULL) {
            ring(part, i);
            mt_ok(MPI_Comm_free(&part));
        }
    }
    mt_ok(MPI_Group_free(&some));
    mt_ok(MPI_Group_free(&all));
}

/* Two halves with an intercommunicator between them. */
static void inter_exchange(MPI_Comm inter, int lower)
{
    int rank = mt_rank(inter), theirs, value = -1, mine = rank + (lower ? 0 : 1000);
    MPI_Status status;

    mt_ok(MPI_Comm_remote_size(inter, &theirs));
    if (rank >= theirs)
        return;
    mt_ok(MPI_Sendrecv(&mine, 1, MPI_INT, rank, TAG, &value, 1, MPI_INT, MPI_ANY_SOURCE, TAG, inter, &status));
    mt_status(&status, rank, TAG, sizeof(int));
    mt_check(value == rank + (lower ? 1000 : 0), "over the intercommunicator came %d", value);
}

static void run_inter(MPI_Comm comm)
{
    int rank = mt_rank(comm), half = mt_size(comm) / 2, lower = rank < half;

    for (int i = 0; i < 20; i++) {
        MPI_Comm part, inter, dup, merged;

        mt_ok(MPI_Comm_split(comm, lower, rank, &part));
        mt_ok(MPI_Intercomm_create(part, 0, comm, lower ? half : 0, i, &inter));
        if (mt_rank(part) < half)
            inter_exchange(inter, lower);
        mt_ok(MPI_Comm_dup(inter, &dup));
        if (mt_rank(part) < half)
            inter_exchange(dup, lower);
        mt_ok(MPI_Intercomm_merge(inter, i % 2 ? lower : !lower, &merged));
        mt_check(mt_size(merged) == mt_size(comm), "merged to %d ranks", mt_size(merged));
        ring(merged, i);
        mt_ok(MPI_Comm_free(&merged));
        mt_ok(MPI_Comm_free(&dup));
        mt_ok(MPI_Comm_free(&inter));
        mt_ok(MPI_Comm_free(&part));
    }
}

static void run_idup(MPI_Comm comm)
{
    for (int i = 0; i < 20; i++) {
        MPI_Request request;
        MPI_Comm dup;

        mt_ok(MPI_Comm_idup(comm, &dup, &request));
        ring(comm, i);
        mt_ok(MPI_Wait(&request, MPI_STATUS_IGNORE));
        ring(dup, i);
        mt_ok(MPI_Comm_free(&dup));
    }
}

static void run_cart(MPI_Comm comm)
{
    int size = mt_size(comm), dims[2] = {0, 0}, periods[2] = {1, 1}, coords[2];
    MPI_Comm cart, row;

    mt_ok(MPI_Dims_create(size, 2, dims));
    mt_ok(MPI_Cart_create(comm, 2, dims, periods, 1, &cart));
    mt_ok(MPI_Cart_coords(cart, mt_rank(cart), 2, coords));
    for (int direction = 0; direction < 2; direction++) {
        int from, to, value[2] = {coords[0], coords[1]};

        mt_ok(MPI_Cart_shift(cart, direction, 1, &from, &to));
        mt_ok(MPI_Sendrecv_replace(value, 2, MPI_INT, to, TAG, from, TAG, cart, MPI_STATUS_IGNORE));
        mt_check((value[direction] + 1) % dims[direction] == coords[direction] &&
                     value[!direction] == coords[!direction],
                 "neighbour in direction %d is (%d, %d)", direction, value[0], value[1]);
    }
    mt_ok(MPI_Cart_sub(cart, (int[]){0, 1}, &row));
    ring(row, 1);
    mt_ok(MPI_Comm_free(&row));
    mt_ok(MPI_Comm_free(&cart));
}

/* Messages under way on one communicator while others are made and freed. */
static void run_traffic_meanwhile(MPI_Comm comm)
{
    enum { MANY = 100, LEN = 20000 };
    int partner = mt_partner(comm), rank = mt_rank(comm);
    MPI_Request requests[2 * MANY];
    uint8_t *in = mt_alloc((size_t)MANY * LEN), *out = mt_alloc((size_t)MANY * LEN);

    for (int i = 0; i < MANY && partner >= 0; i++) {
        mt_fill(out + (size_t)i * LEN, LEN, mt_seed((uint64_t)rank, (uint64_t)i, 1));
        mt_ok(MPI_Isend(out + (size_t)i * LEN, LEN, MPI_BYTE, partner, TAG, comm, &requests[i]));
        mt_ok(MPI_Irecv(in + (size_t)i * LEN, LEN, MPI_BYTE, partner, TAG, comm, &requests[MANY + i]));
    }
    run_dup_free(comm);
    if (partner >= 0)
        mt_ok(MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY && partner >= 0; i++)
        mt_check_fill(in + (size_t)i * LEN, LEN, mt_seed((uint64_t)partner, (uint64_t)i, 1), "traffic meanwhile");
    mt_free(in);
    mt_free(out);
}

static const struct mt_scenario scenarios[] = {
    {"dup-free", 1, run_dup_free},
    {"many-at-once", 1, run_many_at_once},
    {"separate", 2, run_separate},
    {"stale", 2, run_stale},
    {"split", 1, run_split},
    {"split-undefined", 2, run_split_undefined},
    {"split-type", 1, run_split_type},
    {"create-group", 1, run_create_group},
    {"inter", 2, run_inter},
    {"idup", 1, run_idup},
    {"cart", 1, run_cart},
    {"traffic-meanwhile", 2, run_traffic_meanwhile},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
