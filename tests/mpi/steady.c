/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A job that goes on until it is told to stop, for tests that do something to its network meanwhile (test-faults). Each
 * round every rank exchanges messages of all kinds with a partner and with anybody, looks at each byte, and takes part
 * in a collective. Rank 0 prints "round N"; it ends the job, without a fault, when the file MT_SHARED_DIR/stop-MT_NAME
 * is there. Then the ranks print the sums of the counters of ethmx that are named as arguments: "counter NAME VALUE".
 *
 * MT_FLOOD=N: besides, N messages of 16 KiB are under way to the partner in each round before it takes the first.
 */
#include "counters.h"
#include "mpitest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const size_t sizes[] = {0, 8, 200, 1400, 1500, 9000, 32768, 70000, 300000};
enum { EACH = MT_COUNT(sizes), FLOOD_MAX = 1024, FLOOD_BYTES = 16384, TAG_FLOOD = 100, TAG_ANY = 101 };

static const char *stop_file(void)
{
    static char path[4096];
    const char *name = getenv("MT_NAME");

    snprintf(path, sizeof(path), "%s/stop-%s", getenv("MT_SHARED_DIR"), name ? name : "");
    return path;
}

/* Both ways with the partner, all sizes at once. */
static void exchange(int round, int rank, int partner, MPI_Comm comm)
{
    MPI_Request request[2 * EACH];
    uint8_t *in[EACH], *out[EACH];

    for (size_t i = 0; i < EACH; i++) {
        in[i] = mt_alloc(sizes[i]);
        out[i] = mt_alloc(sizes[i]);
        mt_fill(out[i], sizes[i], mt_seed((uint64_t)round, (uint64_t)rank, i));
        mt_ok(MPI_Irecv(in[i], (int)sizes[i], MPI_BYTE, partner, (int)i, comm, &request[i]));
    }
    for (size_t i = 0; i < EACH; i++)
        mt_ok(MPI_Isend(out[i], (int)sizes[i], MPI_BYTE, partner, (int)i, comm, &request[EACH + i]));
    mt_ok(MPI_Waitall(2 * EACH, request, MPI_STATUSES_IGNORE));
    for (size_t i = 0; i < EACH; i++) {
        mt_check_fill(in[i], sizes[i], mt_seed((uint64_t)round, (uint64_t)partner, i), "the partner's message");
        mt_free(in[i]);
        mt_free(out[i]);
    }
}

/* Many messages before the partner takes the first: they fill rings and windows. */
static void flood(int round, int rank, int partner, int count, MPI_Comm comm)
{
    static MPI_Request request[FLOOD_MAX];
    uint8_t *out = mt_alloc(FLOOD_BYTES), *in = mt_alloc(FLOOD_BYTES);

    mt_fill(out, FLOOD_BYTES, mt_seed((uint64_t)round, (uint64_t)rank, TAG_FLOOD));
    for (int i = 0; i < count; i++)
        mt_ok(MPI_Isend(out, FLOOD_BYTES, MPI_BYTE, partner, TAG_FLOOD, comm, &request[i]));
    for (int i = 0; i < count; i++) {
        mt_ok(MPI_Recv(in, FLOOD_BYTES, MPI_BYTE, partner, TAG_FLOOD, comm, MPI_STATUS_IGNORE));
        mt_check_fill(in, FLOOD_BYTES, mt_seed((uint64_t)round, (uint64_t)partner, TAG_FLOOD),
                      "a message of the flood");
    }
    mt_ok(MPI_Waitall(count, request, MPI_STATUSES_IGNORE));
    mt_free(out);
    mt_free(in);
}

/* Each rank tells all others its number, and hears them in any order. */
static void anybody(int round, int rank, int size, MPI_Comm comm)
{
    int mine[2] = {round, rank}, got[2], sum = 0;
    MPI_Request *request = mt_alloc(sizeof(*request) * (size_t)size);
    MPI_Status status;

    for (int i = 0; i < size; i++)
        mt_ok(MPI_Isend(mine, 2, MPI_INT, i, TAG_ANY, comm, &request[i]));
    for (int i = 0; i < size; i++) {
        mt_ok(MPI_Recv(got, 2, MPI_INT, MPI_ANY_SOURCE, TAG_ANY, comm, &status));
        mt_check(got[0] == round && got[1] == status.MPI_SOURCE, "rank %d says it is rank %d in round %d, in round %d",
                 status.MPI_SOURCE, got[1], got[0], round);
        sum += got[1];
    }
    mt_check(sum == size * (size - 1) / 2, "somebody spoke twice: the ranks sum up to %d", sum);
    mt_ok(MPI_Waitall(size, request, MPI_STATUSES_IGNORE));
    mt_free(request);
}

/* Rank 0 decides; nobody starts a round that the others do not. */
static bool to_stop(int rank, MPI_Comm comm)
{
    int stop = rank == 0 && access(stop_file(), F_OK) == 0, sum;

    mt_ok(MPI_Allreduce(&stop, &sum, 1, MPI_INT, MPI_SUM, comm));
    mt_check(sum <= 1, "the sum of one 1 at most is %d", sum);
    return sum > 0;
}

/* The last round is always told. Not more often than people, and a script, can read. */
static void tell(int round, bool last)
{
    static double told;

    if (!last && round > 0 && MPI_Wtime() < told + 0.05)
        return;
    told = MPI_Wtime();
    printf("round %d\n", round);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int rank, size, partner, count = getenv("MT_FLOOD") ? atoi(getenv("MT_FLOOD")) : 0, round = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    rank = mt_rank(MPI_COMM_WORLD);
    size = mt_size(MPI_COMM_WORLD);
    partner = mt_partner(MPI_COMM_WORLD);
    mt_check(size % 2 == 0, "the number of ranks must be even");
    mt_check(count >= 0 && count <= FLOOD_MAX, "MT_FLOOD is 0 to %d", FLOOD_MAX);
    counters_open(argc - 1, argv + 1);
    while (!to_stop(rank, MPI_COMM_WORLD)) {
        exchange(round, rank, partner, MPI_COMM_WORLD);
        if (count > 0)
            flood(round, rank, partner, count, MPI_COMM_WORLD);
        anybody(round, rank, size, MPI_COMM_WORLD);
        if (rank == 0)
            tell(round, false);
        round++;
    }
    if (rank == 0)
        tell(round, true);
    counters_print(argc - 1, argv + 1, rank);
    MPI_Finalize();
    if (rank == 0)
        printf("done\n");
    return 0;
}
