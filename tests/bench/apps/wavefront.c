/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A wavefront, as in solvers that sweep through a grid: the ranks are a pipeline. For each of 12 planes a rank takes
 * the edge from the rank before it, computes the plane, and gives its own edge to the rank behind. Then a sweep goes
 * back.
 *
 * --size: bytes of an edge; --work: passes over it for a plane; --iterations: sweeps there and back.
 */
#include "app.h"

enum { PLANES = 12 };

/* One sweep. The first value of an edge counts the ranks that it has passed. */
static void sweep(const struct app *app, double *edge, int before, int behind, int place)
{
    for (int plane = 0; plane < PLANES; plane++) {
        edge[0] = 0;
        if (before >= 0)
            MPI_Recv(edge, (int)app->size, MPI_BYTE, before, APP_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        app_check(edge[0] == place, "wavefront: an edge came from another place");
        app_work(edge + 1, app->size / (long)sizeof(*edge) - 1, app->work);
        edge[0] += 1;
        if (behind >= 0)
            MPI_Send(edge, (int)app->size, MPI_BYTE, behind, APP_TAG, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    struct app app = {.size = 200, .iterations = 2000, .work = 46};
    double *edge;
    int last;

    app_start(&app, argc, argv);
    if (app.size < 2 * (long)sizeof(*edge))
        app_fail("wavefront: --size is at least 16");
    edge = app_alloc((size_t)app.size);
    last = app.ranks - 1;
    app_begin();
    for (long i = 0; i < app.iterations; i++) {
        sweep(&app, edge, app.rank > 0 ? app.rank - 1 : -1, app.rank < last ? app.rank + 1 : -1, app.rank);
        sweep(&app, edge, app.rank < last ? app.rank + 1 : -1, app.rank > 0 ? app.rank - 1 : -1, last - app.rank);
    }
    free(edge);
    return app_end();
}
