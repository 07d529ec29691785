/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A transposition in two dimensions, as Fourier transforms over a cut grid need it: each rank computes on its rows,
 * then all blocks change ranks by MPI_Alltoall() and are turned over.
 *
 * --size: rows and columns; --work: so many sixteenths of a row are computed on; --iterations: transpositions.
 */
#include "app.h"

#define TILE 16 /* rows and columns that are turned over together, which the nearest cache holds */

struct grid {
    long rows; /* of this rank */
    double *here, *out, *in;
};

/* A tile; the distance of its rows there and here. */
static void turn(double *to, long to_row, const double *from, long from_row)
{
    for (long i = 0; i < TILE; i++) {
        for (long j = 0; j < TILE; j++)
            to[j * to_row + i] = from[i * from_row + j];
    }
}

static void transpose(const struct app *app, struct grid *g)
{
    long rows = g->rows, block = rows * rows;

    for (int r = 0; r < app->ranks; r++) {
        for (long i = 0; i < rows; i++)
            memcpy(g->out + r * block + i * rows, g->here + i * app->size + r * rows, sizeof(double) * (size_t)rows);
    }
    MPI_Alltoall(g->out, (int)block, MPI_DOUBLE, g->in, (int)block, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int r = 0; r < app->ranks; r++) {
        for (long i = 0; i < rows; i += TILE) {
            for (long j = 0; j < rows; j += TILE)
                turn(g->here + j * app->size + r * rows + i, app->size, g->in + r * block + i * rows + j, rows);
        }
    }
}

/* That a transposition is one, by the number of each element. */
static void check_grid(const struct app *app, struct grid *g)
{
    long first = app->rank * g->rows;

    for (long i = 0; i < g->rows; i++) {
        for (long j = 0; j < app->size; j++)
            g->here[i * app->size + j] = (double)((first + i) * app->size + j);
    }
    transpose(app, g);
    for (long i = 0; i < g->rows; i++) {
        for (long j = 0; j < app->size; j++)
            app_check(g->here[i * app->size + j] == (double)(j * app->size + first + i),
                      "transpose: an element is wrong");
    }
}

int main(int argc, char **argv)
{
    struct app app = {.size = 256, .iterations = 1800, .work = 10};
    struct grid g;
    size_t bytes;

    app_start(&app, argc, argv);
    app_check(app.size % (app.ranks * TILE) == 0, "transpose: --size is a multiple of the number of ranks times 16");
    g.rows = app.size / app.ranks;
    bytes = sizeof(double) * (size_t)(g.rows * app.size);
    g.here = app_alloc(bytes);
    g.out = app_alloc(bytes);
    g.in = app_alloc(bytes);
    check_grid(&app, &g);
    app_begin();
    for (long i = 0; i < app.iterations; i++) {
        for (long row = 0; row < g.rows; row++)
            app_work(g.here + row * app.size, app.size * app.work / 16, 1);
        transpose(&app, &g);
    }
    MPI_Pcontrol(0);
    check_grid(&app, &g);
    return MPI_Finalize();
}
