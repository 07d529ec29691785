/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of all sizes there and back between partners, by each way MPI has to send and receive one message. The
 * sizes lie around every boundary where a transport may change its way: one frame of MTU 1500 or 9000 with any
 * headers, several frames, the eager limit, blocks of large messages.
 */
#include "mpitest.h"

#include <stdio.h>

/* Ranges of sizes: from, to, step. */
static const size_t size_ranges[][3] = {
    {0, 33, 1},
    {60, 68, 1},
    {120, 132, 1},
    {250, 260, 1},
    {508, 516, 1},
    {1020, 1028, 1},
    {1340, 1505, 1},
    {2780, 3000, 9},
    {4090, 4102, 1},
    {8800, 9005, 1},
    {17600, 18000, 33},
    {32700, 32840, 7},
    {65500, 65600, 9},
    {131072, 131072, 1},
    {262137, 262151, 7},
    {1048570, 1048582, 3},
    {4194304, 4194304, 1},
    {16777213, 16777219, 6},
};

enum { SMALL_SIZES = 12 }; /* ranges of up to 32 KiB and a little */

/* One exchange of len bytes with the partner: the lower half sends first. Every one uses tag and the seed of
 * (sender, tag). */
struct exchange {
    MPI_Comm comm;
    int rank;
    int partner;
    int tag;
    size_t len_bytes;
    uint8_t *out;
    uint8_t *in;
};

static void check_received(const struct exchange *x, const MPI_Status *status)
{
    char what[64];

    snprintf(what, sizeof(what), "message of %zu bytes", x->len_bytes);
    mt_status(status, x->partner, x->tag, x->len_bytes);
    mt_check_fill(x->in, x->len_bytes, mt_seed((uint64_t)x->partner, (uint64_t)x->tag, x->len_bytes), what);
}

static void blocking(struct exchange *x)
{
    MPI_Status status;

    if (x->rank < x->partner)
        mt_ok(MPI_Send(x->out, (int)x->len_bytes, MPI_BYTE, x->partner, x->tag, x->comm));
    mt_ok(MPI_Recv(x->in, (int)x->len_bytes, MPI_BYTE, x->partner, x->tag, x->comm, &status));
    check_received(x, &status);
    if (x->rank > x->partner)
        mt_ok(MPI_Send(x->out, (int)x->len_bytes, MPI_BYTE, x->partner, x->tag, x->comm));
}

static void both_at_once(struct exchange *x)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];

    mt_ok(MPI_Irecv(x->in, (int)x->len_bytes, MPI_BYTE, x->partner, x->tag, x->comm, &requests[0]));
    mt_ok(MPI_Isend(x->out, (int)x->len_bytes, MPI_BYTE, x->partner, x->tag, x->comm, &requests[1]));
    mt_ok(MPI_Waitall(2, requests, statuses));
    check_received(x, &statuses[0]);
}

static void send_then_receive(struct exchange *x)
{
    MPI_Request request;
    MPI_Status status;

    mt_ok(MPI_Isend(x->out, (int)x->len_bytes, MPI_BYTE, x->partner, x->tag, x->comm, &request));
    mt_ok(MPI_Recv(x->in, (int)x->len_bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, x->comm, &status));
    check_received(x, &status);
    mt_ok(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void sendrecv(struct exchange *x)
{
    MPI_Status status;

    mt_ok(MPI_Sendrecv(x->out, (int)x->len_bytes, MPI_BYTE, x->partner, x->tag, x->in, (int)x->len_bytes, MPI_BYTE,
                       x->partner, x->tag, x->comm, &status));
    check_received(x, &status);
}

static void sendrecv_replace(struct exchange *x)
{
    MPI_Status status;

    mt_fill(x->in, x->len_bytes, mt_seed((uint64_t)x->rank, (uint64_t)x->tag, x->len_bytes));
    mt_ok(MPI_Sendrecv_replace(x->in, (int)x->len_bytes, MPI_BYTE, x->partner, x->tag, x->partner, x->tag, x->comm,
                               &status));
    check_received(x, &status);
}

static void persistent(struct exchange *x)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];

    mt_ok(MPI_Recv_init(x->in, (int)x->len_bytes, MPI_BYTE, x->partner, x->tag, x->comm, &requests[0]));
    mt_ok(MPI_Send_init(x->out, (int)x->len_bytes, MPI_BYTE, x->partner, x->tag, x->comm, &requests[1]));
    for (int round = 0; round < 3; round++) {
        mt_ok(MPI_Startall(2, requests));
        mt_ok(MPI_Waitall(2, requests, statuses));
        check_received(x, &statuses[0]);
    }
    mt_ok(MPI_Request_free(&requests[0]));
    mt_ok(MPI_Request_free(&requests[1]));
}

static void exchange_one(MPI_Comm comm, int tag, size_t len_bytes, void (*way)(struct exchange *))
{
    struct exchange x = {.comm = comm, .tag = tag, .len_bytes = len_bytes};

    x.rank = mt_rank(comm);
    x.partner = mt_partner(comm);
    if (x.partner < 0)
        return;
    x.out = mt_alloc(len_bytes);
    x.in = mt_alloc(len_bytes);
    mt_fill(x.out, len_bytes, mt_seed((uint64_t)x.rank, (uint64_t)tag, len_bytes));
    way(&x);
    mt_check_fill(x.out, len_bytes, mt_seed((uint64_t)x.rank, (uint64_t)tag, len_bytes), "send buffer after sending");
    mt_free(x.out);
    mt_free(x.in);
}

static void exchange_sizes(MPI_Comm comm, unsigned ranges, void (*way)(struct exchange *))
{
    int tag = 0;

    for (unsigned i = 0; i < ranges; i++)
        for (size_t len = size_ranges[i][0]; len <= size_ranges[i][1]; len += size_ranges[i][2])
            exchange_one(comm, tag++, len, way);
}

static void run_blocking(MPI_Comm comm)
{
    exchange_sizes(comm, MT_COUNT(size_ranges), blocking);
}

static void run_both_at_once(MPI_Comm comm)
{
    exchange_sizes(comm, MT_COUNT(size_ranges), both_at_once);
}

static void run_send_then_receive(MPI_Comm comm)
{
    exchange_sizes(comm, SMALL_SIZES, send_then_receive);
}

static void run_sendrecv(MPI_Comm comm)
{
    exchange_sizes(comm, MT_COUNT(size_ranges), sendrecv);
}

static void run_sendrecv_replace(MPI_Comm comm)
{
    exchange_sizes(comm, SMALL_SIZES, sendrecv_replace);
}

static void run_persistent(MPI_Comm comm)
{
    exchange_sizes(comm, MT_COUNT(size_ranges) - 1, persistent);
}

/* Send buffers are free again as soon as the send is complete: what is written to them then must not arrive. */
static void run_reuse_at_once(MPI_Comm comm)
{
    static const size_t sizes[] = {1, 100, 1400, 9000, 32768, 40000, 200000, 2000000};
    int partner = mt_partner(comm);
    int rank = mt_rank(comm);

    if (partner < 0)
        return;
    for (unsigned i = 0; i < MT_COUNT(sizes); i++) {
        uint8_t *buf = mt_alloc(sizes[i]);

        for (uint64_t round = 0; round < 20; round++) {
            if (rank < partner) {
                mt_fill(buf, sizes[i], round);
                mt_ok(MPI_Send(buf, (int)sizes[i], MPI_BYTE, partner, 1, comm));
                mt_fill(buf, sizes[i], ~round);
            } else {
                mt_ok(MPI_Recv(buf, (int)sizes[i], MPI_BYTE, partner, 1, comm, MPI_STATUS_IGNORE));
                mt_check_fill(buf, sizes[i], round, "message whose buffer was reused");
            }
        }
        mt_free(buf);
    }
}

/* A receive buffer longer than the message: the rest stays as it was, the status tells the message's length. */
static void run_longer_buffer(MPI_Comm comm)
{
    static const size_t sizes[] = {0, 1, 100, 1400, 1500, 9000, 32768, 40000, 200000, 2000000};
    int partner = mt_partner(comm);
    int rank = mt_rank(comm);

    if (partner < 0)
        return;
    for (unsigned i = 0; i < MT_COUNT(sizes); i++) {
        size_t room = 2 * sizes[i] + 1000;
        uint8_t *buf = mt_alloc(room);
        MPI_Status status;

        if (rank < partner) {
            mt_fill(buf, sizes[i], i);
            mt_ok(MPI_Send(buf, (int)sizes[i], MPI_BYTE, partner, 2, comm));
        } else {
            mt_ok(MPI_Recv(buf, (int)room, MPI_BYTE, MPI_ANY_SOURCE, 2, comm, &status));
            mt_status(&status, partner, 2, sizes[i]);
            mt_check_fill(buf, sizes[i], i, "message in a longer buffer");
            mt_check_untouched(buf + sizes[i], room - sizes[i], "rest of the buffer");
        }
        mt_free(buf);
    }
}

/* Every rank with every other, so that each pair connects. */
static void run_all_pairs(MPI_Comm comm)
{
    static const size_t sizes[] = {0, 8, 1472, 5000, 32768, 100000};
    int rank = mt_rank(comm);
    int size = mt_size(comm);

    for (int distance = 0; distance < size; distance++) {
        int to = (rank + distance) % size;
        int from = (rank - distance + size) % size;

        for (unsigned i = 0; i < MT_COUNT(sizes); i++) {
            uint8_t *out = mt_alloc(sizes[i]);
            uint8_t *in = mt_alloc(sizes[i]);
            MPI_Status status;

            mt_fill(out, sizes[i], mt_seed((uint64_t)rank, (uint64_t)to, i));
            mt_ok(
                MPI_Sendrecv(out, (int)sizes[i], MPI_BYTE, to, 7, in, (int)sizes[i], MPI_BYTE, from, 7, comm, &status));
            mt_status(&status, from, 7, sizes[i]);
            mt_check_fill(in, sizes[i], mt_seed((uint64_t)from, (uint64_t)rank, i), "message around the ring");
            mt_free(out);
            mt_free(in);
        }
    }
}

static void run_proc_null(MPI_Comm comm)
{
    MPI_Status status;
    int kept = 5;

    mt_ok(MPI_Send(&kept, 1, MPI_INT, MPI_PROC_NULL, 3, comm));
    mt_ok(MPI_Recv(&kept, 1, MPI_INT, MPI_PROC_NULL, 3, comm, &status));
    mt_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    mt_check(kept == 5, "a receive from MPI_PROC_NULL wrote %d", kept);
}

/* The largest tag works, and is another one than its neighbours. */
static void run_tag_limits(MPI_Comm comm)
{
    int partner = mt_partner(comm);
    static int tags[4] = {0, 1, 0x7ffe, 0}; /* static: the sends' requests are freed before they end */
    int flag, *tag_ub;

    mt_ok(MPI_Comm_get_attr(comm, MPI_TAG_UB, &tag_ub, &flag));
    mt_check(flag && *tag_ub >= 32767, "MPI_TAG_UB is missing or below 32767");
    if (partner < 0)
        return;
    tags[3] = *tag_ub;
    for (int i = 0; i < 4; i++) {
        MPI_Request request;

        mt_ok(MPI_Isend(&tags[i], 1, MPI_INT, partner, tags[i], comm, &request));
        mt_ok(MPI_Request_free(&request));
    }
    for (int i = 3; i >= 0; i--) {
        MPI_Status status;
        int value;

        mt_ok(MPI_Recv(&value, 1, MPI_INT, partner, tags[i], comm, &status));
        mt_status(&status, partner, tags[i], sizeof(int));
        mt_check(value == tags[i], "tag %d brought the message of tag %d", tags[i], value);
    }
}

static const struct mt_scenario scenarios[] = {
    {"blocking", 2, run_blocking},
    {"both-at-once", 2, run_both_at_once},
    {"send-then-receive", 2, run_send_then_receive},
    {"sendrecv", 2, run_sendrecv},
    {"sendrecv-replace", 2, run_sendrecv_replace},
    {"persistent", 2, run_persistent},
    {"reuse-at-once", 2, run_reuse_at_once},
    {"longer-buffer", 2, run_longer_buffer},
    {"all-pairs", 2, run_all_pairs},
    {"proc-null", 1, run_proc_null},
    {"tag-limits", 2, run_tag_limits},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
