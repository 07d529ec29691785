/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A master gives tasks to workers, each as soon as it has sent the result of the one before. Tasks take different
 * times. The master only waits, so that it counts in no share of time.
 *
 * --size: bytes of a task and of a result; --work: passes of a task in the mean; --iterations: tasks of a worker, in
 * the mean.
 */
#include "app.h"

enum { STOP = APP_TAG + 1, CELLS = 25 };

struct task {
    double *bytes; /* the first value is the task's number */
    int length;
};

/* The result of a task is its number and 1. */
static void serve(const struct app *app, struct task *t)
{
    long tasks = app->iterations * (app->ranks - 1), given = 0;
    double sum = 0;

    for (int busy = 0, worker = 1; given < tasks || busy > 0; worker++) {
        if (worker >= app->ranks) { /* all have one */
            MPI_Status status;

            MPI_Recv(t->bytes, t->length, MPI_BYTE, MPI_ANY_SOURCE, APP_TAG, MPI_COMM_WORLD, &status);
            sum += t->bytes[0];
            worker = status.MPI_SOURCE;
            busy--;
        }
        if (given < tasks) {
            t->bytes[0] = (double)given++;
            MPI_Send(t->bytes, t->length, MPI_BYTE, worker, APP_TAG, MPI_COMM_WORLD);
            busy++;
        }
        if (given >= app->ranks - 1)
            worker = app->ranks;
    }
    for (int worker = 1; worker < app->ranks; worker++)
        MPI_Send(t->bytes, t->length, MPI_BYTE, worker, STOP, MPI_COMM_WORLD);
    app_check(sum == (double)tasks * (double)(tasks + 1) / 2, "masterworker: results are missing");
}

static void work(const struct app *app, struct task *t)
{
    double cells[CELLS] = {0};

    for (;;) {
        MPI_Status status;

        MPI_Recv(t->bytes, t->length, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == STOP)
            return;
        app_work(cells, CELLS, app->work / 2 + (long)t->bytes[0] * 7919 % (app->work + 1));
        t->bytes[0] += 1;
        MPI_Send(t->bytes, t->length, MPI_BYTE, 0, APP_TAG, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    struct app app = {.size = 1000, .iterations = 15000, .work = 280};
    struct task t;

    app_start(&app, argc, argv);
    app_check(app.ranks > 1 && app.size >= (long)sizeof(double), "masterworker: at least two ranks, --size at least 8");
    t.length = (int)app.size;
    t.bytes = app_alloc((size_t)app.size);
    if (app.rank == 0)
        MPI_Pcontrol(APP_LEFT_OUT);
    app_begin();
    if (app.rank == 0)
        serve(&app, &t);
    else
        work(&app, &t);
    return app_end();
}
