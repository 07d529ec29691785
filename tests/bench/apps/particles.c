/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Halos of particles, as in molecular dynamics. In each step a rank gives positions near its six faces to its
 * neighbours, one face after the other, computes forces, and gives the forces on its halo back in reverse order. In
 * each tenth step particles move on to neighbours, first their number, then they themselves.
 *
 * Domains are joined so that whatever leaves through a face comes to the next or the previous rank: six messages cross
 * the network with any number of ranks.
 *
 * --size: particles of a halo of one face; --work: passes of the forces over all of them; --iterations: steps.
 */
#include "app.h"

enum { FACES = 6, COORDINATES = 3, REBUILD = 10, MOVED_MAX = 16 };

struct domain {
    double *out, *halo;   /* of a face each: positions */
    double *back, *force; /* of a face each: forces on a halo, and those that come back */
    double *inner;        /* what is computed on */
    long particles, id;
};

static int towards(const struct app *app, int face)
{
    return face % 2 ? app_previous(app) : app_next(app);
}

static void swap_face(const struct app *app, const double *out, double *in, int to, int from, int face)
{
    int count = (int)app->size * COORDINATES;

    MPI_Sendrecv(out, count, MPI_DOUBLE, to, APP_TAG + face, in, count, MPI_DOUBLE, from, APP_TAG + face,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* The first value of a halo says who sent it, and by which face. */
static void give_positions(const struct app *app, struct domain *d)
{
    for (int face = 0; face < FACES; face++) {
        int from = towards(app, face ^ 1);

        memcpy(d->out, d->inner, sizeof(double) * (size_t)(app->size * COORDINATES));
        d->out[0] = app->rank * FACES + face;
        swap_face(app, d->out, d->halo, towards(app, face), from, face);
        app_check(d->halo[0] == from * FACES + face, "particles: a halo of another face came");
    }
}

static void give_forces_back(const struct app *app, struct domain *d)
{
    for (int face = FACES - 1; face >= 0; face--) {
        int from = towards(app, face);

        d->back[0] = app->rank * FACES + face;
        swap_face(app, d->back, d->force, towards(app, face ^ 1), from, face);
        app_check(d->force[0] == from * FACES + face, "particles: forces of another face came");
        for (long i = 1; i < app->size * COORDINATES; i++)
            d->inner[i] += d->force[i] * 1e-9;
    }
}

static void move_on(const struct app *app, struct domain *d, unsigned long long *state)
{
    double leaving[MOVED_MAX * COORDINATES] = {0}, coming[MOVED_MAX * COORDINATES];

    for (int face = 0; face < FACES; face++) {
        int to = towards(app, face), from = towards(app, face ^ 1);
        int gone = (int)(app_random(state) % MOVED_MAX), come;

        MPI_Sendrecv(&gone, 1, MPI_INT, to, APP_TAG, &come, 1, MPI_INT, from, APP_TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(leaving, gone * COORDINATES, MPI_DOUBLE, to, APP_TAG, coming, come * COORDINATES, MPI_DOUBLE, from,
                     APP_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        d->particles += come - gone;
    }
}

static void make_domain(const struct app *app, struct domain *d)
{
    size_t bytes = sizeof(double) * (size_t)(app->size * COORDINATES);

    d->out = app_alloc(bytes);
    d->halo = app_alloc(bytes);
    d->back = app_alloc(bytes);
    d->force = app_alloc(bytes);
    d->inner = app_alloc(bytes);
    d->particles = app->size;
}

static void check_particles(const struct app *app, const struct domain *d)
{
    long all;

    MPI_Allreduce(&d->particles, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    app_check(all == app->size * app->ranks, "particles: some were lost");
}

int main(int argc, char **argv)
{
    struct app app = {.size = 150, .iterations = 1000, .work = 180};
    struct domain d = {0};
    unsigned long long state;

    app_start(&app, argc, argv);
    make_domain(&app, &d);
    state = 9ULL + (unsigned)app.rank;
    app_begin();
    for (long step = 0; step < app.iterations; step++) {
        if (step % REBUILD == REBUILD - 1)
            move_on(&app, &d, &state);
        give_positions(&app, &d);
        app_work(d.inner, app.size * COORDINATES, app.work);
        give_forces_back(&app, &d);
    }
    MPI_Pcontrol(0);
    check_particles(&app, &d);
    return MPI_Finalize();
}
