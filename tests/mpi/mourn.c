/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The last rank will be killed (test-faults does it, at the word "ready"): all others that have something to do with it
 * must get an error, and the survivors must still be able to talk to each other. Run it with --enable-recovery, or Open
 * MPI ends the job at once.
 *
 * Each survivor is in the middle of something else: it receives; sends a long message, or a short synchronous one;
 * streams short messages; or streams long ones. It prints "rank R: ACTION ended with an error at T": T is the time
 * since the system was started, as in /proc/uptime, less the time for which this process was not let run.
 */
#include "mpitest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LONG_BYTES = 4 << 20, TAG = 5 };

static double uptime_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A thread that wants to wake every 10 ms. What is missing was not ours: a debugger, a scheduler, a suspended machine.
 */
static volatile double stolen_s;

static void *watch(void *arg)
{
    struct timespec nap = {.tv_nsec = 10000000};
    double before = uptime_s(), now;

    for (;; before = now) {
        nanosleep(&nap, NULL);
        now = uptime_s();
        if (now - before > 0.5)
            stolen_s += now - before;
    }
    return arg;
}

static char *buf;

static int receive(int victim)
{
    return MPI_Recv(buf, 8, MPI_BYTE, victim, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int send_long(int victim)
{
    return MPI_Send(buf, LONG_BYTES, MPI_BYTE, victim, TAG, MPI_COMM_WORLD);
}

static int send_sync(int victim)
{
    return MPI_Ssend(buf, 8, MPI_BYTE, victim, TAG, MPI_COMM_WORLD);
}

static int stream(int victim, int bytes)
{
    int error;

    do {
        error = MPI_Send(buf, bytes, MPI_BYTE, victim, TAG, MPI_COMM_WORLD);
    } while (error == MPI_SUCCESS);
    return error;
}

static int stream_short(int victim)
{
    return stream(victim, 64);
}

static int stream_long(int victim)
{
    return stream(victim, 100000);
}

static const struct action {
    const char *name;
    int (*run)(int victim);
} actions[] = {{"receive", receive},
               {"long send", send_long},
               {"synchronous send", send_sync},
               {"stream of short sends", stream_short},
               {"stream of long sends", stream_long}};

static void be_the_victim(int rank)
{
    char host[64];

    gethostname(host, sizeof(host));
    printf("ready %s %d\n", host, (int)getpid());
    fflush(stdout);
    /* What is streamed is taken, and the rest is not. */
    for (;;)
        mt_ok(MPI_Recv(buf, LONG_BYTES, MPI_BYTE, rank, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void mourn(int rank, int victim, int first, MPI_Comm survivors)
{
    const struct action *a = &actions[(size_t)(first + rank) % MT_COUNT(actions)];
    int error = a->run(victim), sum = 0;

    mt_check(error != MPI_SUCCESS, "%s to or from a dead rank succeeded", a->name);
    printf("rank %d: %s ended with an error at %.2f\n", rank, a->name, uptime_s() - stolen_s);
    fflush(stdout);
    mt_ok(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, survivors));
    mt_check(sum == victim * (victim - 1) / 2, "the survivors' sum is wrong");
    if (rank == 0) {
        printf("survivors: %d\n", victim);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int rank, victim;
    pthread_t thread;
    MPI_Comm survivors;

    pthread_create(&thread, NULL, watch, NULL);
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    rank = mt_rank(MPI_COMM_WORLD);
    victim = mt_size(MPI_COMM_WORLD) - 1;
    buf = mt_alloc(LONG_BYTES);
    mt_ok(MPI_Comm_split(MPI_COMM_WORLD, rank == victim, rank, &survivors));
    mt_ok(MPI_Comm_set_errhandler(survivors, MPI_ERRORS_RETURN));
    mt_ok(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == victim)
        be_the_victim(rank);
    mourn(rank, victim, argc > 1 ? atoi(argv[1]) : 0, survivors);
    /* MPI_Finalize() would wait for the dead. */
    mt_ok(MPI_Barrier(survivors));
    fflush(NULL);
    _exit(0);
}
