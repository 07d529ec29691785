/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Halos of a multigrid solver: V-cycles over a periodic grid in three dimensions, which is cut into a slab a rank. At
 * each level a rank exchanges its first and last plane with its neighbours and smooths; from level to level planes
 * become four times smaller, down to 32 bytes, and there is four to eight times less to compute.
 *
 * --size: edge of a plane, a power of 2; a rank has half as many planes; --work: smoothing steps a level; --iterations:
 * cycles.
 */
#include <math.h>

#include "app.h"

enum { LEVELS_MAX = 12 };

struct level {
    long edge, planes;
    double *now, *next; /* planes + 2 planes; the first and the last are of the neighbours */
};

static void make_level(struct level *level, long edge)
{
    level->edge = edge;
    level->planes = edge / 2;
    level->now = app_alloc(sizeof(double) * (size_t)(edge * edge * (level->planes + 2)));
    level->next = app_alloc(sizeof(double) * (size_t)(edge * edge * (level->planes + 2)));
}

static void exchange(const struct app *app, struct level *l)
{
    long plane = l->edge * l->edge;
    MPI_Request requests[4];

    MPI_Irecv(l->now, (int)plane, MPI_DOUBLE, app_previous(app), APP_TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(l->now + plane * (l->planes + 1), (int)plane, MPI_DOUBLE, app_next(app), APP_TAG + 1, MPI_COMM_WORLD,
              &requests[1]);
    MPI_Isend(l->now + plane * l->planes, (int)plane, MPI_DOUBLE, app_next(app), APP_TAG, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(l->now + plane, (int)plane, MPI_DOUBLE, app_previous(app), APP_TAG + 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

/* Each value becomes the mean of itself and of its six neighbours: their sum stays what it is. */
static void smooth(const struct app *app, struct level *l)
{
    long edge = l->edge, plane = edge * edge;
    double *swap = l->now;

    exchange(app, l);
    for (long z = 1; z <= l->planes; z++) {
        for (long y = 0; y < edge; y++) {
            const double *row = l->now + z * plane + y * edge;
            const double *above = l->now + z * plane + ((y + 1) & (edge - 1)) * edge;
            const double *below = l->now + z * plane + ((y - 1) & (edge - 1)) * edge;

            for (long x = 0; x < edge; x++)
                l->next[z * plane + y * edge + x] = (row[x] + row[(x + 1) & (edge - 1)] + row[(x - 1) & (edge - 1)] +
                                                     above[x] + below[x] + row[x - plane] + row[x + plane]) /
                                                    7;
        }
    }
    l->now = l->next;
    l->next = swap;
}

static double *at(const struct level *l, long x, long y, long z)
{
    return &l->now[((z + 1) * l->edge + y) * l->edge + x];
}

/* Each coarse value is the mean of eight fine ones (down), which come half way to it (up): sums stay what they are. */
static void between(const struct level *fine, const struct level *coarse, int up)
{
    for (long z = 0; z < fine->planes; z++) {
        for (long y = 0; y < fine->edge; y++) {
            for (long x = 0; x < fine->edge; x++) {
                double *there = at(coarse, x / 2, y / 2, z / 2), *here = at(fine, x, y, z);

                if (up)
                    *here = (*here + *there) / 2;
                else
                    *there = *here / 8 + (x % 2 + y % 2 + z % 2 ? *there : 0);
            }
        }
    }
}

static double mean(const struct app *app, const struct level *l)
{
    double mine = 0, all;

    for (long i = 0; i < l->planes * l->edge * l->edge; i++)
        mine += l->now[l->edge * l->edge + i];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all / (double)(l->planes * l->edge * l->edge * app->ranks);
}

static void cycle(const struct app *app, struct level *levels, int count)
{
    for (int i = 0; i < count; i++) {
        for (long step = 0; step < app->work; step++)
            smooth(app, &levels[i]);
        if (i + 1 < count)
            between(&levels[i], &levels[i + 1], 0);
    }
    for (int i = count - 2; i >= 0; i--) {
        between(&levels[i], &levels[i + 1], 1);
        for (long step = 0; step < app->work; step++)
            smooth(app, &levels[i]);
    }
}

int main(int argc, char **argv)
{
    struct app app = {.size = 32, .iterations = 1000, .work = 1};
    struct level levels[LEVELS_MAX];
    unsigned long long state;
    double before;
    int count = 0;

    app_start(&app, argc, argv);
    if (app.size < 2 || app.size > 1 << LEVELS_MAX || (app.size & (app.size - 1)))
        app_fail("multigrid: --size is a power of 2, 2 to 4096");
    for (long edge = app.size; edge >= 2; edge /= 2)
        make_level(&levels[count++], edge);
    state = 5ULL + (unsigned)app.rank;
    for (long i = 0; i < levels[0].planes * app.size * app.size; i++)
        levels[0].now[app.size * app.size + i] = app_random(&state) / 1e9;
    before = mean(&app, &levels[0]);
    app_begin();
    for (long i = 0; i < app.iterations; i++) {
        cycle(&app, levels, count);
        app_check(fabs(mean(&app, &levels[0]) / before - 1) < 1e-6, "multigrid: halos are wrong");
    }
    return app_end();
}
