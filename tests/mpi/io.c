/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI-IO to a file that all nodes see, in the directory MT_SHARED_DIR (the nodes of a virtual cluster have a /tmp of
 * their own).
 */
#include "mpitest.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK = 5000, BLOCKS = 20 };

static void file_name(char *name, size_t room, const char *what)
{
    const char *dir = getenv("MT_SHARED_DIR");

    snprintf(name, room, "%s/mpi-io-%s", dir ? dir : ".", what);
}

static MPI_File file_open(MPI_Comm comm, const char *what, int mode)
{
    char name[1024];
    MPI_File file;

    file_name(name, sizeof(name), what);
    mt_ok(MPI_File_open(comm, name, mode, MPI_INFO_NULL, &file));
    return file;
}

static void file_remove(MPI_Comm comm, const char *what)
{
    char name[1024];

    mt_ok(MPI_Barrier(comm));
    file_name(name, sizeof(name), what);
    if (mt_rank(comm) == 0)
        unlink(name);
    mt_ok(MPI_Barrier(comm));
}

/* Blocks by turns: rank r writes blocks r, r + size, ...; then reads those of its neighbour. */
static void run_at_all(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), next = (rank + 1) % size;
    MPI_File file = file_open(comm, "at-all", MPI_MODE_CREATE | MPI_MODE_RDWR);
    uint8_t *buf = mt_alloc(BLOCK);
    MPI_Offset bytes;
    MPI_Status status;

    for (int k = 0; k < BLOCKS; k++) {
        mt_fill(buf, BLOCK, (uint64_t)(k * size + rank));
        mt_ok(MPI_File_write_at_all(file, (MPI_Offset)(k * size + rank) * BLOCK, buf, BLOCK, MPI_BYTE, &status));
    }
    mt_ok(MPI_File_sync(file));
    mt_ok(MPI_Barrier(comm));
    mt_ok(MPI_File_sync(file));
    mt_ok(MPI_File_get_size(file, &bytes));
    mt_check(bytes == (MPI_Offset)BLOCK * BLOCKS * size, "the file has %lld bytes", (long long)bytes);
    for (int k = 0; k < BLOCKS; k++) {
        mt_ok(MPI_File_read_at_all(file, (MPI_Offset)(k * size + next) * BLOCK, buf, BLOCK, MPI_BYTE, &status));
        mt_check_fill(buf, BLOCK, (uint64_t)(k * size + next), "block of a file");
    }
    mt_ok(MPI_File_close(&file));
    mt_free(buf);
    file_remove(comm, "at-all");
}

/* One collective write through interleaved views: the data is exchanged between the ranks. */
static void run_view(MPI_Comm comm)
{
    enum { INTS = 16, ROWS = 3000 };
    int rank = mt_rank(comm), size = mt_size(comm);
    int *out = malloc(sizeof(int) * INTS * ROWS), *whole = malloc(sizeof(int) * INTS * ROWS * (size_t)size);
    MPI_File file = file_open(comm, "view", MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Datatype rows;
    MPI_Status status;

    for (int i = 0; i < INTS * ROWS; i++)
        out[i] = rank * 1000000 + i;
    mt_ok(MPI_Type_vector(ROWS, INTS, INTS * size, MPI_INT, &rows));
    mt_ok(MPI_Type_commit(&rows));
    mt_ok(MPI_File_set_view(file, (MPI_Offset)sizeof(int) * INTS * rank, MPI_INT, rows, "native", MPI_INFO_NULL));
    mt_ok(MPI_File_write_all(file, out, INTS * ROWS, MPI_INT, &status));
    mt_ok(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    mt_ok(MPI_File_sync(file));
    mt_ok(MPI_Barrier(comm));
    mt_ok(MPI_File_read_all(file, whole, INTS * ROWS * size, MPI_INT, &status));
    for (int row = 0; row < ROWS; row++)
        for (int from = 0; from < size; from++)
            for (int i = 0; i < INTS; i++) {
                int got = whole[(row * size + from) * INTS + i];

                mt_check(got == from * 1000000 + row * INTS + i, "row %d of rank %d: int %d is %d", row, from, i, got);
            }
    mt_ok(MPI_Type_free(&rows));
    mt_ok(MPI_File_close(&file));
    free(out);
    free(whole);
    file_remove(comm, "view");
}

static void run_nonblocking(MPI_Comm comm)
{
    int rank = mt_rank(comm);
    MPI_File file = file_open(comm, "nonblocking", MPI_MODE_CREATE | MPI_MODE_RDWR);
    uint8_t *out = mt_alloc(BLOCK * BLOCKS), *in = mt_alloc(BLOCK * BLOCKS);
    MPI_Request requests[BLOCKS];

    for (int k = 0; k < BLOCKS; k++) {
        mt_fill(out + k * BLOCK, BLOCK, mt_seed((uint64_t)rank, (uint64_t)k, 4));
        mt_ok(MPI_File_iwrite_at(file, ((MPI_Offset)rank * BLOCKS + k) * BLOCK, out + k * BLOCK, BLOCK, MPI_BYTE,
                                 &requests[k]));
    }
    mt_ok(MPI_Waitall(BLOCKS, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < BLOCKS; k++)
        mt_ok(MPI_File_iread_at(file, ((MPI_Offset)rank * BLOCKS + k) * BLOCK, in + k * BLOCK, BLOCK, MPI_BYTE,
                                &requests[k]));
    mt_ok(MPI_Waitall(BLOCKS, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < BLOCKS; k++)
        mt_check_fill(in + k * BLOCK, BLOCK, mt_seed((uint64_t)rank, (uint64_t)k, 4), "block of a file");
    mt_ok(MPI_File_close(&file));
    mt_free(out);
    mt_free(in);
    file_remove(comm, "nonblocking");
}

/* Written in order of rank, whatever comes first. */
static void run_ordered(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm), out[8], in[8];
    MPI_File file = file_open(comm, "ordered", MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Status status;

    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 8; i++)
            out[i] = round * 10000 + rank * 100 + i;
        mt_ok(MPI_File_write_ordered(file, out, 8, MPI_INT, &status));
    }
    mt_ok(MPI_File_sync(file));
    mt_ok(MPI_Barrier(comm));
    for (int round = 0; round < 5; round++) {
        MPI_Offset at = (MPI_Offset)sizeof(out) * (round * size + rank);

        mt_ok(MPI_File_read_at(file, at, in, sizeof(in), MPI_BYTE, &status));
        for (int i = 0; i < 8; i++)
            mt_check(in[i] == round * 10000 + rank * 100 + i, "round %d: int %d is %d", round, i, in[i]);
    }
    mt_ok(MPI_File_close(&file));
    file_remove(comm, "ordered");
}

static const struct mt_scenario scenarios[] = {
    {"at-all", 1, run_at_all},   {"view", 1, run_view}, {"nonblocking", 1, run_nonblocking},
    {"ordered", 1, run_ordered}, {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
