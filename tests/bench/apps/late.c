/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An exchange after a late rank: ten phases, in each of which one rank comes 5 ms late to a small exchange; then a
 * larger exchange, and computation on what came. Only the latter two are measured: it is the transport that must not
 * have learned from the computing of a peer that its network is slow. A line besides gives the median time of that
 * exchange.
 *
 * --size: bytes of the exchange; --work: passes over it; --iterations: how often all that is done.
 */
#define _GNU_SOURCE
#include "app.h"

#include "../bench.h"

enum { PHASES = 10 };

static const double late_s = 5e-3;

static void come_late(void)
{
    double end = MPI_Wtime() + late_s;

    while (MPI_Wtime() < end)
        ;
}

static void swap(const struct app *app, const char *out, char *in, int bytes)
{
    MPI_Sendrecv(out, bytes, MPI_BYTE, app_next(app), APP_TAG, in, bytes, MPI_BYTE, app_previous(app), APP_TAG,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static double measured_part(const struct app *app, const char *out, char *in, double *values)
{
    double begin = MPI_Wtime(), took;

    MPI_Pcontrol(1);
    swap(app, out, in, (int)app->size);
    took = MPI_Wtime() - begin;
    app_work(values, app->size / (long)sizeof(double), app->work);
    MPI_Pcontrol(0);
    return took;
}

int main(int argc, char **argv)
{
    struct app app = {.size = 32 << 10, .iterations = 12, .work = 8};
    double *values, *times;
    char *out, *in;

    app_start(&app, argc, argv);
    out = app_alloc((size_t)app.size);
    in = app_alloc((size_t)app.size);
    values = app_alloc((size_t)app.size);
    times = app_alloc(sizeof(*times) * (size_t)app.iterations);
    for (long i = 0; i < app.iterations; i++) {
        out[0] = out[app.size - 1] = (char)(app.rank + i);
        for (int phase = 0; phase < PHASES; phase++) {
            if (i % app.ranks == app.rank)
                come_late();
            swap(&app, out, in, 8);
        }
        times[i] = measured_part(&app, out, in, values);
        app_check(in[0] == (char)(app_previous(&app) + i) && in[app.size - 1] == in[0], "late: another message came");
    }
    MPI_Reduce(app.rank == 0 ? MPI_IN_PLACE : times, times, (int)app.iterations, MPI_DOUBLE, MPI_MAX, 0,
               MPI_COMM_WORLD);
    if (app.rank == 0)
        printf("exchange %.1f us\n", 1e6 * bench_median(times, (unsigned)app.iterations));
    return MPI_Finalize();
}
