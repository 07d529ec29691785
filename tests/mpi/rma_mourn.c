/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The last rank will be killed (test-faults does it, at the word "ready") while others wait for it in one-sided
 * communication: each must get an error, and the survivors must still be able to talk to each other. Run it with
 * --enable-recovery, or Open MPI ends the job at once.
 *
 * Rank 0 waits in MPI_Win_start for the post of the victim; rank 1 in MPI_Win_wait for its complete; rank 2 in
 * MPI_Win_lock for the lock of its own window, which the victim holds. Then all wait in MPI_Win_fence, and in
 * MPI_Win_free. With the argument "free" they only wait in MPI_Win_free; with "lock" in
 * MPI_Win_lock.
 */
#include "mpitest.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 4, VICTIM = RANKS - 1 };

static MPI_Win make_window(void)
{
    MPI_Win win;
    void *base;

    mt_ok(MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    mt_ok(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    return win;
}

static MPI_Group group_of_victim(void)
{
    MPI_Group world, group;
    int victim = VICTIM;

    mt_ok(MPI_Comm_group(MPI_COMM_WORLD, &world));
    mt_ok(MPI_Group_incl(world, 1, &victim, &group));
    return group;
}

static void be_the_victim(void)
{
    char host[64];

    gethostname(host, sizeof(host));
    printf("ready %s %d\n", host, (int)getpid());
    fflush(stdout);
    pause();
}

static void must_fail(int rank, const char *call, int error)
{
    mt_check(error != MPI_SUCCESS, "%s succeeded although it waits for a dead rank", call);
    mt_error(MPI_ERR_OTHER, error);
    printf("rank %d: %s ended with an error\n", rank, call);
    fflush(stdout);
}

static void mourn(int rank, MPI_Win epochs, MPI_Win locks)
{
    if (rank == 0) {
        must_fail(rank, "MPI_Win_start", MPI_Win_start(group_of_victim(), 0, epochs));
    } else if (rank == 1) {
        mt_ok(MPI_Win_post(group_of_victim(), 0, epochs));
        must_fail(rank, "MPI_Win_wait", MPI_Win_wait(epochs));
    } else {
        must_fail(rank, "MPI_Win_lock", MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, locks));
    }
}

int main(int argc, char **argv)
{
    int rank, sum = 0;
    MPI_Comm survivors;
    MPI_Win epochs, locks, fences, unused;

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    rank = mt_rank(MPI_COMM_WORLD);
    mt_check(mt_size(MPI_COMM_WORLD) == RANKS, "this needs %d ranks", RANKS);
    mt_ok(MPI_Comm_split(MPI_COMM_WORLD, rank == VICTIM, rank, &survivors));
    epochs = make_window();
    locks = make_window();
    fences = make_window();
    unused = make_window();
    if (rank == VICTIM)
        mt_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, locks));
    mt_ok(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == VICTIM)
        be_the_victim();
    if (argc == 1) {
        mourn(rank, epochs, locks);
        must_fail(rank, "MPI_Win_fence", MPI_Win_fence(0, fences));
    }
    if (argc > 1 && strcmp(argv[1], "lock") == 0) {
        must_fail(rank, "MPI_Win_lock", MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, locks));
    } else {
        must_fail(rank, "MPI_Win_free", MPI_Win_free(&fences));
        must_fail(rank, "MPI_Win_free", MPI_Win_free(&unused));
    }
    mt_ok(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, survivors));
    mt_check(sum == 3, "the survivors' sum is wrong");
    if (rank == 0)
        printf("survivors: %d\n", VICTIM);
    /* MPI_Finalize() would wait for the dead. */
    mt_ok(MPI_Barrier(survivors));
    fflush(NULL);
    _exit(0);
}
