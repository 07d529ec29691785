/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that computes for long after its MPI_Isend(): all give a long message to the next rank and compute, one of
 * them four times as long as the others; then all wait. In each iteration another rank is away.
 *
 * --size: bytes of a message; --work: passes over 1000 values by those that are not away; --iterations: messages of a
 * rank.
 */
#include "app.h"

enum { VALUES = 1000, AWAY_TIMES = 4 };

int main(int argc, char **argv)
{
    struct app app = {.size = 1 << 20, .iterations = 120, .work = 320};
    double values[VALUES] = {0};
    char *out, *in;

    app_start(&app, argc, argv);
    out = app_alloc((size_t)app.size);
    in = app_alloc((size_t)app.size);
    app_begin();
    for (long i = 0; i < app.iterations; i++) {
        int is_away = i % app.ranks == app.rank;
        MPI_Request requests[2];

        out[0] = out[app.size - 1] = (char)(app.rank + i);
        MPI_Irecv(in, (int)app.size, MPI_BYTE, app_previous(&app), APP_TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, (int)app.size, MPI_BYTE, app_next(&app), APP_TAG, MPI_COMM_WORLD, &requests[1]);
        app_work(values, VALUES, is_away ? AWAY_TIMES * app.work : app.work);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        app_check(in[0] == (char)(app_previous(&app) + i) && in[app.size - 1] == in[0], "away: another message came");
    }
    return app_end();
}
