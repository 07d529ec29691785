/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bucket sort: each rank counts its keys by bucket, the counts are summed over all ranks, ranks get neighbouring
 * buckets, the keys go to them by MPI_Alltoallv(), and each rank sorts what it got by counting.
 *
 * --size: keys of a rank; --work: passes of the last sorting; --iterations: sorts.
 */
#include "app.h"

enum { KEY_BITS = 14, BUCKETS = 512, BUCKET_SHIFT = 5 };

struct sorter {
    int *keys, *out, *in, *tally;
    int mine[BUCKETS], all[BUCKETS], place[BUCKETS], owner[BUCKETS];
    int *out_count, *out_first, *in_count, *in_first;
    int got; /* keys in `in` */
};

static void make_keys(const struct app *app, struct sorter *s)
{
    unsigned long long state = 3ULL + (unsigned)app->rank;

    s->keys = app_alloc(sizeof(int) * (size_t)app->size);
    s->out = app_alloc(sizeof(int) * (size_t)app->size);
    s->in = app_alloc(sizeof(int) * (size_t)(app->size * app->ranks));
    s->tally = app_alloc(sizeof(int) << KEY_BITS);
    s->out_count = app_alloc(sizeof(int) * 4 * (size_t)app->ranks);
    s->out_first = s->out_count + app->ranks;
    s->in_count = s->out_first + app->ranks;
    s->in_first = s->in_count + app->ranks;
    for (long i = 0; i < app->size; i++) /* most in the middle, as sums of random numbers are */
        s->keys[i] = (int)((app_random(&state) % (1 << KEY_BITS) + app_random(&state) % (1 << KEY_BITS)) / 2);
}

/* Which rank gets a bucket: as many keys for each as buckets allow. */
static void divide_buckets(const struct app *app, struct sorter *s)
{
    long share = app->size, sum = 0;

    for (int b = 0; b < BUCKETS; b++) {
        s->owner[b] = sum / share < app->ranks ? (int)(sum / share) : app->ranks - 1;
        sum += s->all[b];
    }
}

static void gather_keys(const struct app *app, struct sorter *s)
{
    int total = 0;

    memset(s->out_count, 0, sizeof(int) * (size_t)app->ranks);
    for (int b = 0; b < BUCKETS; b++) {
        s->place[b] = total;
        total += s->mine[b];
        s->out_count[s->owner[b]] += s->mine[b];
    }
    for (long i = 0; i < app->size; i++)
        s->out[s->place[s->keys[i] >> BUCKET_SHIFT]++] = s->keys[i];
    for (int r = 0, first = 0; r < app->ranks; first += s->out_count[r++])
        s->out_first[r] = first;
}

static void send_keys(const struct app *app, struct sorter *s)
{
    int total = 0;

    MPI_Alltoall(s->out_count, 1, MPI_INT, s->in_count, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < app->ranks; total += s->in_count[r++])
        s->in_first[r] = total;
    s->got = total;
    MPI_Alltoallv(s->out, s->out_count, s->out_first, MPI_INT, s->in, s->in_count, s->in_first, MPI_INT,
                  MPI_COMM_WORLD);
}

/* Counts keys, and writes them in order. */
static void sort_keys(const struct app *app, struct sorter *s)
{
    for (long pass = 0; pass < app->work; pass++) {
        int n = 0;

        memset(s->tally, 0, sizeof(int) << KEY_BITS);
        for (int i = 0; i < s->got; i++)
            s->tally[s->in[i]]++;
        for (int key = 0; key < 1 << KEY_BITS; key++) {
            for (int k = 0; k < s->tally[key]; k++)
                s->in[n++] = key;
        }
    }
}

/* Each key is where it belongs, and none is lost. */
static void check_keys(const struct app *app, struct sorter *s)
{
    long got = s->got, all;

    for (int i = 0; i < s->got; i++) {
        app_check(s->owner[s->in[i] >> BUCKET_SHIFT] == app->rank, "bucketsort: a key came to the wrong rank");
        app_check(i == 0 || s->in[i - 1] <= s->in[i], "bucketsort: not sorted");
    }
    MPI_Allreduce(&got, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    app_check(all == app->size * app->ranks, "bucketsort: keys were lost");
}

int main(int argc, char **argv)
{
    struct app app = {.size = 9500, .iterations = 2500, .work = 1};
    struct sorter s = {0};

    app_start(&app, argc, argv);
    make_keys(&app, &s);
    app_begin();
    for (long i = 0; i < app.iterations; i++) {
        memset(s.mine, 0, sizeof(s.mine));
        for (long k = 0; k < app.size; k++)
            s.mine[s.keys[k] >> BUCKET_SHIFT]++;
        MPI_Allreduce(s.mine, s.all, BUCKETS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        divide_buckets(&app, &s);
        gather_keys(&app, &s);
        send_keys(&app, &s);
        sort_keys(&app, &s);
    }
    MPI_Pcontrol(0);
    check_keys(&app, &s);
    return MPI_Finalize();
}
