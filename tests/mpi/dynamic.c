/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes that meet at run time: MPI_Comm_spawn of this same program, and connect/accept between two halves.
 */
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>

enum { TAG = 9 };

static const size_t sizes[] = {0, 8, 1400, 9000, 33000, 1000000};

/* Every rank of both groups exchanges with every rank of the other. */
static void inter_all_pairs(MPI_Comm inter, uint64_t mine, uint64_t theirs)
{
    int rank = mt_rank(inter), remote;

    mt_ok(MPI_Comm_remote_size(inter, &remote));
    for (int peer = 0; peer < remote; peer++)
        for (unsigned i = 0; i < MT_COUNT(sizes); i++) {
            uint8_t *out = mt_alloc(sizes[i]), *in = mt_alloc(sizes[i]);
            MPI_Request request;
            MPI_Status status;

            mt_fill(out, sizes[i], mt_seed(mine, (uint64_t)(rank * 1000 + peer), i));
            mt_ok(MPI_Isend(out, (int)sizes[i], MPI_BYTE, peer, TAG, inter, &request));
            mt_ok(MPI_Recv(in, (int)sizes[i], MPI_BYTE, peer, TAG, inter, &status));
            mt_status(&status, peer, TAG, sizes[i]);
            mt_check_fill(in, sizes[i], mt_seed(theirs, (uint64_t)(peer * 1000 + rank), i), "message between groups");
            mt_ok(MPI_Wait(&request, MPI_STATUS_IGNORE));
            mt_free(out);
            mt_free(in);
        }
}

static void merged_sum(MPI_Comm inter, int high)
{
    int one = 1, sum = 0;
    MPI_Comm all;

    mt_ok(MPI_Intercomm_merge(inter, high, &all));
    mt_ok(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all));
    mt_check(sum == mt_size(all), "sum over the merged communicator is %d, not %d", sum, mt_size(all));
    mt_ok(MPI_Comm_free(&all));
}

static const char *self_path;

/* The children go to the host of the last rank, all to one: those of one job on several hosts do not find each other in
 * Open MPI 4.1.4, whatever the transport. Rank 0 alone decides. */
static MPI_Info on_last_host(MPI_Comm comm)
{
    char host[MPI_MAX_PROCESSOR_NAME] = "";
    int len, last = mt_size(comm) - 1;
    MPI_Info info;

    mt_ok(MPI_Get_processor_name(host, &len));
    mt_ok(MPI_Bcast(host, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, last, comm));
    mt_ok(MPI_Info_create(&info));
    mt_ok(MPI_Info_set(info, "host", host));
    return info;
}

static void run_spawn(MPI_Comm comm)
{
    enum { CHILDREN = 2 };
    char *args[] = {"--child", NULL};
    MPI_Info info = on_last_host(comm);
    int codes[CHILDREN];
    MPI_Comm inter;

    mt_ok(MPI_Comm_spawn(self_path, args, CHILDREN, info, 0, comm, &inter, codes));
    mt_ok(MPI_Info_free(&info));
    for (int i = 0; i < CHILDREN; i++)
        mt_ok(codes[i]);
    mt_ok(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    inter_all_pairs(inter, 1, 2);
    merged_sum(inter, 0);
    mt_ok(MPI_Comm_disconnect(&inter));
}

static int child(void)
{
    MPI_Comm parent;

    MPI_Init(NULL, NULL);
    MPI_Comm_get_parent(&parent);
    mt_check(parent != MPI_COMM_NULL, "a spawned process has no parent");
    mt_ok(MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN));
    inter_all_pairs(parent, 2, 1);
    merged_sum(parent, 1);
    mt_ok(MPI_Comm_disconnect(&parent));
    MPI_Finalize();
    return 0;
}

/* Three times: what is left of one must not disturb the next. */
static void run_spawn_again(MPI_Comm comm)
{
    for (int i = 0; i < 3; i++)
        run_spawn(comm);
}

static void run_connect_accept(MPI_Comm comm)
{
    char port[MPI_MAX_PORT_NAME] = "";
    int rank = mt_rank(comm), half = mt_size(comm) / 2, lower = rank < half;
    MPI_Comm part, inter;

    mt_ok(MPI_Comm_split(comm, lower, rank, &part));
    for (int round = 0; round < 3; round++) {
        if (rank == 0)
            mt_ok(MPI_Open_port(MPI_INFO_NULL, port));
        mt_ok(MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, comm));
        if (lower)
            mt_ok(MPI_Comm_accept(port, MPI_INFO_NULL, 0, part, &inter));
        else
            mt_ok(MPI_Comm_connect(port, MPI_INFO_NULL, 0, part, &inter));
        inter_all_pairs(inter, lower ? 3 : 4, lower ? 4 : 3);
        merged_sum(inter, lower);
        mt_ok(MPI_Comm_disconnect(&inter));
        if (rank == 0)
            mt_ok(MPI_Close_port(port));
    }
    mt_ok(MPI_Comm_free(&part));
}

static const struct mt_scenario scenarios[] = {
    {"spawn", 1, run_spawn},
    {"spawn-again", 1, run_spawn_again},
    {"connect-accept", 2, run_connect_accept},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    self_path = argv[0];
    if (argc == 2 && !strcmp(argv[1], "--child"))
        return child();
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
