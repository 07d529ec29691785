/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Programs that were started apart meet: one mpiexec runs "connect serve FILE", another "connect call FILE". The first
 * writes the names of its ports to FILE, one after the other; each time all ranks of one exchange messages with all of
 * the other, merge, and part. "connect late FILE" calls at a port that nobody listens at any more, and must be told so.
 */
#include "mpitest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 3, TAG = 7 };

static const size_t sizes[] = {0, 8, 1400, 9000, 70000, 3000000};

static void exchange(MPI_Comm inter, int round, int mine, int theirs)
{
    int rank = mt_rank(inter), remote;

    mt_ok(MPI_Comm_remote_size(inter, &remote));
    for (int peer = 0; peer < remote; peer++)
        for (unsigned i = 0; i < MT_COUNT(sizes); i++) {
            uint8_t *out = mt_alloc(sizes[i]), *in = mt_alloc(sizes[i]);
            uint64_t to = (uint64_t)(round * 2 + mine), from = (uint64_t)(round * 2 + theirs);
            MPI_Request request;
            MPI_Status status;

            mt_fill(out, sizes[i], mt_seed(to, (uint64_t)(rank * 1000 + peer), i));
            mt_ok(MPI_Isend(out, (int)sizes[i], MPI_BYTE, peer, TAG, inter, &request));
            mt_ok(MPI_Recv(in, (int)sizes[i], MPI_BYTE, peer, TAG, inter, &status));
            mt_status(&status, peer, TAG, sizes[i]);
            mt_check_fill(in, sizes[i], mt_seed(from, (uint64_t)(peer * 1000 + rank), i), "message of another program");
            mt_ok(MPI_Wait(&request, MPI_STATUS_IGNORE));
            mt_free(out);
            mt_free(in);
        }
}

static void meet(MPI_Comm inter, int round, bool serves)
{
    int one = 1, sum = 0, ranks, remote;
    MPI_Comm all;

    mt_ok(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    exchange(inter, round, serves, !serves);
    ranks = mt_size(inter);
    mt_ok(MPI_Comm_remote_size(inter, &remote));
    mt_ok(MPI_Intercomm_merge(inter, serves, &all));
    mt_ok(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all));
    mt_check(sum == ranks + remote, "sum over both programs is %d, not %d", sum, ranks + remote);
    mt_ok(MPI_Comm_free(&all));
    mt_ok(MPI_Comm_disconnect(&inter));
}

/* The name of the port of that round appears under its own name at once and whole. */
static void name_file(const char *file, int round, char *path, size_t size)
{
    snprintf(path, size, "%s-%d", file, round);
}

static void tell(const char *file, int round, const char *port)
{
    char path[4096], new[4200];
    FILE *f;

    name_file(file, round, path, sizeof(path));
    snprintf(new, sizeof(new), "%s.new", path);
    f = fopen(new, "w");
    mt_check(f && fputs(port, f) >= 0 && fclose(f) == 0 && rename(new, path) == 0, "cannot write %s", path);
}

static void hear(const char *file, int round, char *port)
{
    char path[4096];
    FILE *f;

    name_file(file, round, path, sizeof(path));
    while (!(f = fopen(path, "r")))
        usleep(10000);
    mt_check(fgets(port, MPI_MAX_PORT_NAME, f) != NULL, "%s is empty", path);
    fclose(f);
}

static void serve(const char *file)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;

    for (int round = 0; round < ROUNDS; round++) {
        if (mt_rank(MPI_COMM_WORLD) == 0) {
            mt_ok(MPI_Open_port(MPI_INFO_NULL, port));
            tell(file, round, port);
        }
        mt_ok(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        meet(inter, round, true);
        if (mt_rank(MPI_COMM_WORLD) == 0)
            mt_ok(MPI_Close_port(port));
    }
}

static void call(const char *file)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;

    for (int round = 0; round < ROUNDS; round++) {
        if (mt_rank(MPI_COMM_WORLD) == 0)
            hear(file, round, port);
        mt_ok(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        meet(inter, round, false);
    }
}

static void call_late(const char *file)
{
    char port[MPI_MAX_PORT_NAME] = "", text[MPI_MAX_ERROR_STRING];
    int error, class, len;
    MPI_Info info;
    MPI_Comm inter;

    if (mt_rank(MPI_COMM_WORLD) == 0)
        hear(file, 0, port);
    mt_ok(MPI_Info_create(&info));
    mt_ok(MPI_Info_set(info, "timeout", "2"));
    error = MPI_Comm_connect(port, info, 0, MPI_COMM_WORLD, &inter);
    mt_check(error != MPI_SUCCESS, "a program that has ended was reached");
    mt_ok(MPI_Error_class(error, &class));
    mt_check(class == MPI_ERR_PORT, "the error is of class %d, not MPI_ERR_PORT", class);
    mt_ok(MPI_Error_string(error, text, &len));
    if (mt_rank(MPI_COMM_WORLD) == 0)
        printf("%s\n", text);
    mt_ok(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    mt_check(argc == 3, "usage: connect serve|call|late FILE");
    if (!strcmp(argv[1], "serve"))
        serve(argv[2]);
    else if (!strcmp(argv[1], "call"))
        call(argv[2]);
    else
        call_late(argv[2]);
    MPI_Finalize();
    return 0;
}
