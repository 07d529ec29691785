/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A sparse matrix times a vector, again and again, as in conjugate gradients: each rank has some rows, and gets from
 * each other rank those values of the vector that its rows need. Two sums over all ranks follow. Values from other
 * ranks are waited for after the product with the own ones.
 *
 * --size: rows of a rank; --work: passes over the vector besides the product; --iterations: products.
 */
#include <math.h>

#include "app.h"

enum { OWN = 10, OTHERS = 2 }; /* entries of a row: columns of the rank itself, and of other ranks */

struct matrix {
    int *own;                              /* columns, OWN a row */
    int *others;                           /* places in halo, OTHERS a row */
    int *wanted, *want_count, *want_first; /* columns that each rank gives us, in its own count */
    int *given, *give_count, *give_first;  /* those that we give to each rank */
    double *halo, *out;                    /* values that came, and that go */
    MPI_Request *requests;
};

/* Which columns of other ranks the rows need. Each row may want some of any rank but ours. */
static void choose_columns(const struct app *app, struct matrix *m)
{
    unsigned long long state = 77ULL + (unsigned)app->rank;
    long i, rows = app->size;
    int *owner = app_alloc(sizeof(int) * (size_t)(rows * OTHERS)),
        *column = app_alloc(sizeof(int) * (size_t)(rows * OTHERS));
    int *next = app_alloc(sizeof(int) * (size_t)app->ranks);

    for (i = 0; i < rows * OWN; i++)
        m->own[i] = (int)(app_random(&state) % (unsigned)rows);
    for (i = 0; i < rows * OTHERS; i++) {
        owner[i] = (app->rank + 1 + (int)(app_random(&state) % (unsigned)(app->ranks - 1))) % app->ranks;
        column[i] = (int)(app_random(&state) % (unsigned)rows) / 4 * 4 % (int)rows; /* rows share what they need */
        m->want_count[owner[i]]++;
    }
    for (int r = 1; r < app->ranks; r++)
        m->want_first[r] = m->want_first[r - 1] + m->want_count[r - 1];
    memcpy(next, m->want_first, sizeof(int) * (size_t)app->ranks);
    for (i = 0; i < rows * OTHERS; i++) {
        m->others[i] = next[owner[i]]++;
        m->wanted[m->others[i]] = column[i];
    }
    free(owner);
    free(column);
    free(next);
}

static void tell_columns(const struct app *app, struct matrix *m)
{
    int total = 0;

    MPI_Alltoall(m->want_count, 1, MPI_INT, m->give_count, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < app->ranks; r++) {
        m->give_first[r] = total;
        total += m->give_count[r];
    }
    m->given = app_alloc(sizeof(int) * (size_t)total);
    m->out = app_alloc(sizeof(double) * (size_t)total);
    MPI_Alltoallv(m->wanted, m->want_count, m->want_first, MPI_INT, m->given, m->give_count, m->give_first, MPI_INT,
                  MPI_COMM_WORLD);
}

static void make_matrix(const struct app *app, struct matrix *m)
{
    size_t ranks = (size_t)app->ranks, halo = (size_t)app->size * OTHERS;

    m->own = app_alloc(sizeof(int) * (size_t)app->size * OWN);
    m->others = app_alloc(sizeof(int) * halo);
    m->wanted = app_alloc(sizeof(int) * halo);
    m->halo = app_alloc(sizeof(double) * halo);
    m->want_count = app_alloc(sizeof(int) * ranks);
    m->want_first = app_alloc(sizeof(int) * ranks);
    m->give_count = app_alloc(sizeof(int) * ranks);
    m->give_first = app_alloc(sizeof(int) * ranks);
    m->requests = app_alloc(sizeof(MPI_Request) * 2 * ranks);
    choose_columns(app, m);
    tell_columns(app, m);
}

/* Returns how many requests are under way. */
static int start_exchange(const struct app *app, struct matrix *m, const double *x)
{
    int count = 0;

    for (int r = 0; r < app->ranks; r++) {
        if (m->want_count[r] > 0)
            MPI_Irecv(m->halo + m->want_first[r], m->want_count[r], MPI_DOUBLE, r, APP_TAG, MPI_COMM_WORLD,
                      &m->requests[count++]);
    }
    for (int r = 0; r < app->ranks; r++) {
        for (int i = m->give_first[r]; i < m->give_first[r] + m->give_count[r]; i++)
            m->out[i] = x[m->given[i]];
        if (m->give_count[r] > 0)
            MPI_Isend(m->out + m->give_first[r], m->give_count[r], MPI_DOUBLE, r, APP_TAG, MPI_COMM_WORLD,
                      &m->requests[count++]);
    }
    return count;
}

/* That each value comes from its column: the vector holds the number of each. */
static void check_exchange(const struct app *app, struct matrix *m, double *x)
{
    for (long i = 0; i < app->size; i++)
        x[i] = (double)(app->rank * app->size + i);
    MPI_Waitall(start_exchange(app, m, x), m->requests, MPI_STATUSES_IGNORE);
    for (int r = 0; r < app->ranks; r++) {
        for (int i = m->want_first[r]; i < m->want_first[r] + m->want_count[r]; i++)
            app_check(m->halo[i] == (double)(r * app->size + m->wanted[i]), "sparse: a value of another column came");
    }
    for (long i = 0; i < app->size; i++)
        x[i] = 1;
}

/* y = A x, where all entries of a row are equal and their sum is 1. */
static void multiply(const struct app *app, struct matrix *m, const double *x, double *y)
{
    int count = start_exchange(app, m, x);

    for (long row = 0; row < app->size; row++) {
        double sum = 0;

        for (int k = 0; k < OWN; k++)
            sum += x[m->own[row * OWN + k]];
        y[row] = sum;
    }
    MPI_Waitall(count, m->requests, MPI_STATUSES_IGNORE);
    for (long row = 0; row < app->size; row++) {
        for (int k = 0; k < OTHERS; k++)
            y[row] += m->halo[m->others[row * OTHERS + k]];
        y[row] /= OWN + OTHERS;
    }
}

static double sum_of_products(const struct app *app, const double *x, const double *y)
{
    double mine = 0, all;

    for (long i = 0; i < app->size; i++)
        mine += x[i] * y[i];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all / (double)(app->size * app->ranks);
}

int main(int argc, char **argv)
{
    struct app app = {.size = 800, .iterations = 5000, .work = 14};
    struct matrix m = {0};
    double *x, *y, *idle;

    app_start(&app, argc, argv);
    app_check(app.ranks > 1, "sparse: at least two ranks");
    x = app_alloc(sizeof(*x) * (size_t)app.size);
    y = app_alloc(sizeof(*y) * (size_t)app.size);
    idle = app_alloc(sizeof(*idle) * (size_t)app.size);
    make_matrix(&app, &m);
    check_exchange(&app, &m, x);
    app_begin();
    for (long i = 0; i < app.iterations; i++) {
        double *swap = x;

        multiply(&app, &m, x, y);
        app_check(fabs(sum_of_products(&app, x, y) - 1) < 1e-6, "sparse: the product is wrong");
        app_work(idle, app.size, app.work);
        app_check(fabs(sum_of_products(&app, y, y) - 1) < 1e-6, "sparse: the product is wrong");
        x = y;
        y = swap;
    }
    return app_end();
}
