/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One message of more than 4 GiB from rank 0 to the last rank. Each of the two needs 4.2 GiB of memory.
 */
#include "mpitest.h"

#include <stdio.h>

enum { BLOCK_BYTES = 1 << 20, BLOCKS = 4300 };
#define HUGE_BYTES ((size_t)BLOCK_BYTES * BLOCKS)

static size_t available_bytes(void)
{
    char line[128];
    size_t kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");

    mt_check(f, "cannot read /proc/meminfo");
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
            break;
    fclose(f);
    return kib * 1024;
}

static bool enough_memory(MPI_Comm comm)
{
    size_t wanted = 2 * HUGE_BYTES + HUGE_BYTES / 4;
    int enough = available_bytes() > wanted;

    mt_ok(MPI_Allreduce(MPI_IN_PLACE, &enough, 1, MPI_INT, MPI_LAND, comm));
    if (!enough)
        mt_skip(comm, "needs %zu MiB of free memory", wanted >> 20);
    return enough;
}

static void run_one(MPI_Comm comm)
{
    int rank = mt_rank(comm);
    int last = mt_size(comm) - 1;
    MPI_Datatype block;

    if (!enough_memory(comm))
        return;
    mt_ok(MPI_Type_contiguous(BLOCK_BYTES, MPI_BYTE, &block));
    mt_ok(MPI_Type_commit(&block));
    if (rank == 0) {
        uint8_t *buf = mt_alloc(HUGE_BYTES);

        mt_fill(buf, HUGE_BYTES, 42);
        mt_ok(MPI_Send(buf, BLOCKS, block, last, 1, comm));
        mt_free(buf);
    } else if (rank == last) {
        uint8_t *buf = mt_alloc(HUGE_BYTES);
        MPI_Status status;

        mt_ok(MPI_Recv(buf, BLOCKS, block, 0, 1, comm, &status));
        mt_status(&status, 0, 1, HUGE_BYTES);
        mt_check_fill(buf, HUGE_BYTES, 42, "message of more than 4 GiB");
        mt_free(buf);
    }
    mt_ok(MPI_Type_free(&block));
}

static const struct mt_scenario scenarios[] = {
    {"one", 2, run_one},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
