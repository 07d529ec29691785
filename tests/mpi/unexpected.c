/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Floods of messages that nobody has asked for yet: none may be lost, and the receiver's memory must stay bounded when
 * the transport promises a bound (MT_UNEXPECTED_MAX_MIB says which).
 */
#include "mpitest.h"

#include <stdlib.h>

enum { TAG_END = 32000, SEEDS = 64 };

/* Sends count messages of len bytes with tags 0..., then one with TAG_END. The pattern depends on tag % SEEDS, so that
 * the sender needs few buffers. */
struct flood {
    MPI_Comm comm;
    int to;
    int count;
    size_t len_bytes;
    uint8_t *bufs[SEEDS];
    MPI_Request *requests;
};

static struct flood *flood_start(MPI_Comm comm, int to, int count, size_t len_bytes)
{
    struct flood *f = malloc(sizeof(*f));
    uint64_t rank = (uint64_t)mt_rank(comm);

    *f = (struct flood){.comm = comm, .to = to, .count = count, .len_bytes = len_bytes};
    f->requests = malloc(((size_t)count + 1) * sizeof(*f->requests));
    for (int i = 0; i < SEEDS; i++) {
        f->bufs[i] = mt_alloc(len_bytes);
        mt_fill(f->bufs[i], len_bytes, mt_seed(rank, (uint64_t)i, len_bytes));
    }
    for (int i = 0; i < count; i++)
        mt_ok(MPI_Isend(f->bufs[i % SEEDS], (int)len_bytes, MPI_BYTE, to, i, comm, &f->requests[i]));
    mt_ok(MPI_Isend(NULL, 0, MPI_BYTE, to, TAG_END, comm, &f->requests[count]));
    return f;
}

static void flood_finish(struct flood *f)
{
    mt_ok(MPI_Waitall(f->count + 1, f->requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < SEEDS; i++)
        mt_free(f->bufs[i]);
    free(f->requests);
    free(f);
}

/* Returns when the whole flood of this source is there. */
static void flood_await(MPI_Comm comm, int from)
{
    MPI_Status status;

    mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, from, TAG_END, comm, &status));
    mt_status(&status, from, TAG_END, 0);
}

static void flood_receive_one(MPI_Comm comm, int from, int tag, size_t len_bytes, uint8_t *buf)
{
    MPI_Status status;

    mt_ok(MPI_Recv(buf, (int)len_bytes, MPI_BYTE, from, tag, comm, &status));
    mt_status(&status, from, tag, len_bytes);
    mt_check_fill(buf, len_bytes, mt_seed((uint64_t)from, (uint64_t)(tag % SEEDS), len_bytes), "unexpected message");
}

static void flood_receive_reverse(MPI_Comm comm, int from, int count, size_t len_bytes)
{
    uint8_t *buf = mt_alloc(len_bytes);

    flood_await(comm, from);
    for (int tag = count - 1; tag >= 0; tag--)
        flood_receive_one(comm, from, tag, len_bytes, buf);
    mt_free(buf);
}

/* The lower half floods the upper. */
static void flood_partner(MPI_Comm comm, int count, size_t len_bytes)
{
    int partner = mt_partner(comm), rank = mt_rank(comm);

    if (partner < 0)
        return;
    if (rank < partner)
        flood_finish(flood_start(comm, partner, count, len_bytes));
    else
        flood_receive_reverse(comm, partner, count, len_bytes);
}

static void run_reverse_small(MPI_Comm comm)
{
    flood_partner(comm, 10000, 8);
}

static void run_reverse_frames(MPI_Comm comm)
{
    flood_partner(comm, 2000, 1400);
}

static void run_reverse_large(MPI_Comm comm)
{
    flood_partner(comm, 200, 300000);
}

/* 160 MiB of eager messages in all to rank 0, before it receives any. */
static void run_bounded(MPI_Comm comm)
{
    enum { LEN = 20000, TOTAL = 160 << 20 };
    const char *bound = getenv("MT_UNEXPECTED_MAX_MIB");
    int size = mt_size(comm), count = TOTAL / LEN / (size - 1);
    size_t before, grown;
    uint8_t *buf;

    if (mt_rank(comm) != 0) {
        flood_finish(flood_start(comm, 0, count, LEN));
        return;
    }
    buf = mt_alloc(LEN);
    before = mt_resident_bytes();
    for (int from = 1; from < size; from++)
        flood_await(comm, from);
    grown = mt_resident_bytes() - before;
    if (bound)
        mt_check(grown >> 20 <= (size_t)atoi(bound) + 16, "%d MiB unexpected took %zu MiB of memory, bound is %s",
                 TOTAL >> 20, grown >> 20, bound);
    for (int tag = count - 1; tag >= 0; tag--)
        for (int from = 1; from < size; from++)
            flood_receive_one(comm, from, tag, LEN, buf);
    mt_free(buf);
}

/* Partners flood each other before either receives. */
static void run_both_ways(MPI_Comm comm)
{
    enum { COUNT = 2000, LEN = 30000 };
    int partner = mt_partner(comm);
    struct flood *f;

    if (partner < 0)
        return;
    f = flood_start(comm, partner, COUNT, LEN);
    flood_receive_reverse(comm, partner, COUNT, LEN);
    flood_finish(f);
}

/* Everybody floods everybody; receives in an order of its own. */
static void run_all_to_all(MPI_Comm comm)
{
    enum { COUNT = 300, LEN = 5000 };
    int size = mt_size(comm);
    struct flood **floods = malloc((size_t)size * sizeof(*floods));

    for (int to = 0; to < size; to++)
        floods[to] = flood_start(comm, to, COUNT, LEN);
    for (int from = size - 1; from >= 0; from--)
        flood_receive_reverse(comm, from, COUNT, LEN);
    for (int to = 0; to < size; to++)
        flood_finish(floods[to]);
    free(floods);
}

/* Many rounds of few: memory given back must be used again. */
static void run_many_rounds(MPI_Comm comm)
{
    for (int round = 0; round < 40; round++)
        flood_partner(comm, 200, 4000 + (size_t)round);
}

/* A flood of synchronous sends: each completes when received, in reverse. */
static void run_synchronous(MPI_Comm comm)
{
    enum { COUNT = 2000, LEN = 100 };
    int partner = mt_partner(comm), rank = mt_rank(comm);

    if (partner < 0)
        return;
    if (rank > partner) {
        flood_receive_reverse(comm, partner, COUNT, LEN);
        return;
    }
    uint8_t *buf = mt_alloc((size_t)LEN * SEEDS);
    MPI_Request *requests = malloc(COUNT * sizeof(*requests));

    for (int i = 0; i < SEEDS; i++)
        mt_fill(buf + (size_t)i * LEN, LEN, mt_seed((uint64_t)rank, (uint64_t)i, LEN));
    for (int i = 0; i < COUNT; i++)
        mt_ok(MPI_Issend(buf + (size_t)(i % SEEDS) * LEN, LEN, MPI_BYTE, partner, i, comm, &requests[i]));
    mt_ok(MPI_Send(NULL, 0, MPI_BYTE, partner, TAG_END, comm));
    for (int i = COUNT - 1; i >= 0; i--)
        mt_ok(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    free(requests);
    mt_free(buf);
}

static const struct mt_scenario scenarios[] = {
    {"reverse-small", 2, run_reverse_small},
    {"reverse-frames", 2, run_reverse_frames},
    {"reverse-large", 2, run_reverse_large},
    {"bounded", 2, run_bounded},
    {"both-ways", 2, run_both_ways},
    {"all-to-all", 1, run_all_to_all},
    {"many-rounds", 2, run_many_rounds},
    {"synchronous", 2, run_synchronous},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
