/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A stream that does not end until it is told to, for tests of how streams share a link (test-sharing):
 *
 *     flow NODE BYTES COUNT [COUNTER...]
 *
 * The rank on the host NODE receives messages of BYTES from all other ranks, COUNT of them under way from each. Four
 * times a second it prints "at T B1 B2 ...": the time since the system was started (in seconds, as in /proc/uptime),
 * and how many bytes have come from each of the others since the beginning. When the file MT_SHARED_DIR/stop-MT_NAME is
 * there, it tells them to stop: what they send from then on is empty. At the end come the counters, see counters.h.
 */
#include "counters.h"
#include "mpitest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TAG_DATA = 1, TAG_STOP = 2 };

struct flow {
    int bytes, count;
    int receiver, rank, size;
};

static double uptime_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool told_to_stop(void)
{
    char path[4096];
    const char *name = getenv("MT_NAME");

    snprintf(path, sizeof(path), "%s/stop-%s", getenv("MT_SHARED_DIR"), name ? name : "");
    return access(path, F_OK) == 0;
}

/* The one rank on that host. */
static int find_receiver(const char *node)
{
    char host[64] = "";
    int mine, ranks, sum, rank = mt_rank(MPI_COMM_WORLD);

    gethostname(host, sizeof(host) - 1);
    mine = !strcmp(host, node);
    mt_ok(MPI_Allreduce(&mine, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    mt_check(ranks == 1, "%d ranks are on %s, not one", ranks, node);
    mine *= rank;
    mt_ok(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    return sum;
}

static void send_until_stopped(const struct flow *f)
{
    MPI_Request *request = mt_alloc(sizeof(*request) * (size_t)f->count), stop;
    char *buf = mt_alloc((size_t)f->bytes), word;
    int stopped = 0, i;

    memset(buf, 1, (size_t)f->bytes);
    mt_ok(MPI_Irecv(&word, 1, MPI_CHAR, f->receiver, TAG_STOP, MPI_COMM_WORLD, &stop));
    for (i = 0; i < f->count; i++)
        mt_ok(MPI_Isend(buf, f->bytes, MPI_BYTE, f->receiver, TAG_DATA, MPI_COMM_WORLD, &request[i]));
    while (!stopped) {
        mt_ok(MPI_Waitany(f->count, request, &i, MPI_STATUS_IGNORE));
        mt_ok(MPI_Isend(buf, f->bytes, MPI_BYTE, f->receiver, TAG_DATA, MPI_COMM_WORLD, &request[i]));
        mt_ok(MPI_Test(&stop, &stopped, MPI_STATUS_IGNORE));
    }
    mt_ok(MPI_Waitall(f->count, request, MPI_STATUSES_IGNORE));
    for (i = 0; i < f->count; i++) /* one for each receive that still waits */
        mt_ok(MPI_Send(NULL, 0, MPI_BYTE, f->receiver, TAG_DATA, MPI_COMM_WORLD));
    mt_free(buf);
    mt_free(request);
}

static void tell(const struct flow *f, const long long *got)
{
    printf("at %.3f", uptime_s());
    for (int from = 0; from < f->size; from++)
        if (from != f->rank)
            printf(" %lld", got[from]);
    printf("\n");
    fflush(stdout);
}

static void stop_senders(const struct flow *f)
{
    char word = 's';

    for (int to = 0; to < f->size; to++)
        if (to != f->rank)
            mt_ok(MPI_Send(&word, 1, MPI_CHAR, to, TAG_STOP, MPI_COMM_WORLD));
}

/* Receive i: count for each rank. */
static void post(const struct flow *f, char *buf, MPI_Request *request, int i)
{
    mt_ok(MPI_Irecv(buf + (size_t)i * (size_t)f->bytes, f->bytes, MPI_BYTE, i / f->count, TAG_DATA, MPI_COMM_WORLD,
                    &request[i]));
}

static void receive_until_stopped(const struct flow *f)
{
    int all = f->size * f->count, left = (f->size - 1) * f->count, i, bytes;
    MPI_Request *request = mt_alloc(sizeof(*request) * (size_t)all);
    long long *got = mt_alloc(sizeof(*got) * (size_t)f->size);
    char *buf = mt_alloc((size_t)f->bytes * (size_t)all);
    double told = uptime_s();
    bool stopping = false;
    MPI_Status status;

    memset(got, 0, sizeof(*got) * (size_t)f->size);
    for (i = 0; i < all; i++) {
        request[i] = MPI_REQUEST_NULL;
        if (i / f->count != f->rank)
            post(f, buf, request, i);
    }
    while (left > 0) {
        mt_ok(MPI_Waitany(all, request, &i, &status));
        mt_ok(MPI_Get_count(&status, MPI_BYTE, &bytes));
        got[i / f->count] += bytes;
        if (bytes > 0)
            post(f, buf, request, i);
        else
            left--;
        if (uptime_s() < told + 0.25)
            continue;
        told = uptime_s();
        tell(f, got);
        if (!stopping && told_to_stop()) {
            stop_senders(f);
            stopping = true;
        }
    }
    mt_free(buf);
    mt_free(got);
    mt_free(request);
}

int main(int argc, char **argv)
{
    struct flow f;

    MPI_Init(&argc, &argv);
    mt_check(argc >= 4, "flow NODE BYTES COUNT [COUNTER...]");
    counters_open(argc - 4, argv + 4);
    f.bytes = atoi(argv[2]);
    f.count = atoi(argv[3]);
    mt_check(f.bytes > 0 && f.count > 0, "no bytes or no messages");
    f.rank = mt_rank(MPI_COMM_WORLD);
    f.size = mt_size(MPI_COMM_WORLD);
    f.receiver = find_receiver(argv[1]);
    mt_ok(MPI_Barrier(MPI_COMM_WORLD));
    if (f.rank == f.receiver)
        receive_until_stopped(&f);
    else
        send_until_stopped(&f);
    counters_print(argc - 4, argv + 4, f.rank);
    MPI_Finalize();
    return 0;
}
