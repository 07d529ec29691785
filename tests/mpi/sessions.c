/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sessions of MPI-4, without MPI_Init: their communicators carry messages of all kinds, although processes number them
 * differently.
 */
#include "mpitest.h"

#include <stdio.h>

/* Open MPI 5.0 has them, and calls itself MPI 3.1. */
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)

enum { ROUNDS = 20, LONG_BYTES = 300000 };

static MPI_Comm comm_from(MPI_Session session, const char *set, const char *name)
{
    MPI_Group group;
    MPI_Comm comm;

    mt_ok(MPI_Group_from_session_pset(session, set, &group));
    mt_ok(MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm));
    mt_ok(MPI_Group_free(&group));
    return comm;
}

/* Around the ring, from a source that is known and from any, with short and long messages. */
static void ring(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), right = (rank + 1) % size, left = (rank + size - 1) % size;
    uint8_t *out = mt_alloc(LONG_BYTES), *in = mt_alloc(LONG_BYTES);

    for (int i = 0; i < ROUNDS; i++) {
        size_t n = i % 4 == 3 ? LONG_BYTES : (size_t)i * 100;
        MPI_Request request;
        MPI_Status status;

        mt_fill(out, n, mt_seed((uint64_t)rank, (uint64_t)i, n));
        mt_ok(MPI_Irecv(in, (int)n, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : left, i, comm, &request));
        mt_ok(MPI_Send(out, (int)n, MPI_BYTE, right, i, comm));
        mt_ok(MPI_Wait(&request, &status));
        mt_status(&status, left, i, n);
        mt_check_fill(in, n, mt_seed((uint64_t)left, (uint64_t)i, n), "a message");
    }
    mt_free(out);
    mt_free(in);
}

static void reduce(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), sum;

    mt_ok(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    mt_check(sum == size * (size - 1) / 2, "the sum of the ranks is %d", sum);
}

static void put(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), *memory;
    MPI_Win win;

    mt_ok(MPI_Win_allocate(sizeof(*memory), sizeof(*memory), MPI_INFO_NULL, comm, &memory, &win));
    *memory = -1;
    mt_ok(MPI_Win_fence(0, win));
    mt_ok(MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win));
    mt_ok(MPI_Win_fence(0, win));
    mt_check(*memory == (rank + size - 1) % size, "%d was put", *memory);
    mt_ok(MPI_Win_free(&win));
}

static void use(MPI_Comm comm)
{
    MPI_Comm copy, half;

    ring(comm);
    reduce(comm);
    put(comm);
    mt_ok(MPI_Comm_dup(comm, &copy));
    mt_ok(MPI_Comm_split(comm, mt_rank(comm) % 2, 0, &half));
    ring(copy);
    ring(half);
    reduce(half);
    mt_ok(MPI_Comm_free(&half));
    mt_ok(MPI_Comm_free(&copy));
}

int main(void)
{
    MPI_Session session[2];
    MPI_Comm world[2], own[3];
    int rank, more;

    mt_ok(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session[0]));
    world[0] = comm_from(session[0], "mpi://WORLD", "first");
    rank = mt_rank(world[0]);
    more = rank % (int)MT_COUNT(own); /* so that the numbers of later ones differ */
    for (int i = 0; i < more; i++) {
        char name[32];

        snprintf(name, sizeof(name), "own %d", i);
        own[i] = comm_from(session[0], "mpi://SELF", name);
    }
    mt_ok(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session[1]));
    world[1] = comm_from(session[1], "mpi://WORLD", "second");
    use(world[1]);
    use(world[0]);
    for (int i = 0; i < more; i++) {
        reduce(own[i]);
        mt_ok(MPI_Comm_free(&own[i]));
    }
    for (int i = 0; i < 2; i++) {
        mt_ok(MPI_Comm_free(&world[i]));
        mt_ok(MPI_Session_finalize(&session[i]));
    }
    if (rank == 0)
        printf("ok\n");
    return 0;
}

#else

int main(void)
{
    puts("SKIP sessions: this MPI library has none");
    return 0;
}

#endif
