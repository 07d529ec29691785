/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collective operations of all kinds, blocking and not, with every element checked, on the world, its parts, itself
 * and between two groups.
 */
#include "mpitest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Elements a rank contributes: below, around and above frame and eager limits. */
static const int counts[] = {1, 2, 360, 2300, 9000, 60000};

/* What a collective works with: the communicator, and element i of the block that rank a has for rank b. */
struct world {
    MPI_Comm comm;
    int rank;
    int size;
    int count;
    bool nonblocking;
};

static int element(int a, int b, int i)
{
    return a * 1000003 + b * 10007 + i;
}

static int *block_make(int a, int b, int count)
{
    int *block = mt_alloc(sizeof(int) * (size_t)count);

    for (int i = 0; i < count; i++)
        block[i] = element(a, b, i);
    return block;
}

static void block_check(const int *block, int a, int b, int count, const char *what)
{
    for (int i = 0; i < count; i++)
        mt_check(block[i] == element(a, b, i), "%s: element %d of %d from %d to %d is %d, not %d", what, i, count, a, b,
                 block[i], element(a, b, i));
}

static void finish(MPI_Request *request)
{
    mt_ok(MPI_Wait(request, MPI_STATUS_IGNORE));
}

/* Calls the blocking or the non-blocking form. */
#define collective(w, name, ...)                                                                                       \
    do {                                                                                                               \
        if ((w)->nonblocking) {                                                                                        \
            MPI_Request request;                                                                                       \
            mt_ok(MPI_I##name(__VA_ARGS__, (w)->comm, &request));                                                      \
            finish(&request);                                                                                          \
        } else {                                                                                                       \
            mt_ok(MPI_##name(__VA_ARGS__, (w)->comm));                                                                 \
        }                                                                                                              \
    } while (0)

#define MPI_IBcast                MPI_Ibcast
#define MPI_IGather               MPI_Igather
#define MPI_IGatherv              MPI_Igatherv
#define MPI_IScatter              MPI_Iscatter
#define MPI_IScatterv             MPI_Iscatterv
#define MPI_IAllgather            MPI_Iallgather
#define MPI_IAllgatherv           MPI_Iallgatherv
#define MPI_IAlltoall             MPI_Ialltoall
#define MPI_IAlltoallv            MPI_Ialltoallv
#define MPI_IReduce               MPI_Ireduce
#define MPI_IAllreduce            MPI_Iallreduce
#define MPI_IReduce_scatter       MPI_Ireduce_scatter
#define MPI_IReduce_scatter_block MPI_Ireduce_scatter_block
#define MPI_IScan                 MPI_Iscan
#define MPI_IExscan               MPI_Iexscan

/* ---- Moving data -------------------------------------------------------------------------------------------- */

static void bcast(const struct world *w)
{
    for (int root = 0; root < w->size; root++) {
        int *block = w->rank == root ? block_make(root, root, w->count) : mt_alloc(sizeof(int) * (size_t)w->count);

        collective(w, Bcast, block, w->count, MPI_INT, root);
        block_check(block, root, root, w->count, "bcast");
        mt_free(block);
    }
}

static void gather_scatter(const struct world *w)
{
    int root = (w->count + 1) % w->size;
    int *mine = block_make(w->rank, root, w->count);
    int *all = mt_alloc(sizeof(int) * (size_t)w->count * (size_t)w->size);

    collective(w, Gather, mine, w->count, MPI_INT, all, w->count, MPI_INT, root);
    if (w->rank == root)
        for (int a = 0; a < w->size; a++) {
            block_check(all + (size_t)a * (size_t)w->count, a, root, w->count, "gather");
            for (int i = 0; i < w->count; i++)
                all[(size_t)a * (size_t)w->count + (size_t)i] = element(root, a, i);
        }
    collective(w, Scatter, all, w->count, MPI_INT, mine, w->count, MPI_INT, root);
    block_check(mine, root, w->rank, w->count, "scatter");
    mt_free(mine);
    mt_free(all);
}

/* Rank a has count + a elements, placed with a gap of one between. */
struct uneven {
    int *counts;
    int *places;
    size_t total;
};

static struct uneven uneven_make(const struct world *w)
{
    struct uneven u = {malloc(sizeof(int) * (size_t)w->size), malloc(sizeof(int) * (size_t)w->size), 0};

    for (int a = 0; a < w->size; a++) {
        u.counts[a] = w->count + a;
        u.places[a] = (int)u.total;
        u.total += (size_t)u.counts[a] + 1;
    }
    return u;
}

static void uneven_free(struct uneven *u)
{
    free(u->counts);
    free(u->places);
}

static void gatherv_scatterv(const struct world *w)
{
    struct uneven u = uneven_make(w);
    int root = w->count % w->size;
    int *mine = block_make(w->rank, root, w->count + w->rank);
    int *all = mt_alloc(sizeof(int) * u.total);

    collective(w, Gatherv, mine, w->count + w->rank, MPI_INT, all, u.counts, u.places, MPI_INT, root);
    if (w->rank == root)
        for (int a = 0; a < w->size; a++) {
            block_check(all + u.places[a], a, root, u.counts[a], "gatherv");
            mt_check_untouched(all + u.places[a] + u.counts[a], sizeof(int), "gap of gatherv");
            for (int i = 0; i < u.counts[a]; i++)
                all[u.places[a] + i] = element(root, a, i);
        }
    collective(w, Scatterv, all, u.counts, u.places, MPI_INT, mine, w->count + w->rank, MPI_INT, root);
    block_check(mine, root, w->rank, w->count + w->rank, "scatterv");
    mt_free(mine);
    mt_free(all);
    uneven_free(&u);
}

static void allgather(const struct world *w)
{
    struct uneven u = uneven_make(w);
    int *mine = block_make(w->rank, 0, w->count + w->rank), *all = mt_alloc(sizeof(int) * u.total);

    collective(w, Allgather, mine, w->count, MPI_INT, all, w->count, MPI_INT);
    for (int a = 0; a < w->size; a++)
        block_check(all + (size_t)a * (size_t)w->count, a, 0, w->count, "allgather");
    collective(w, Allgatherv, mine, w->count + w->rank, MPI_INT, all, u.counts, u.places, MPI_INT);
    for (int a = 0; a < w->size; a++)
        block_check(all + u.places[a], a, 0, u.counts[a], "allgatherv");
    mt_free(mine);
    mt_free(all);
    uneven_free(&u);
}

static void allgather_in_place(const struct world *w)
{
    int *all = mt_alloc(sizeof(int) * (size_t)w->count * (size_t)w->size);

    for (int i = 0; i < w->count; i++)
        all[(size_t)w->rank * (size_t)w->count + (size_t)i] = element(w->rank, 0, i);
    collective(w, Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, w->count, MPI_INT);
    for (int a = 0; a < w->size; a++)
        block_check(all + (size_t)a * (size_t)w->count, a, 0, w->count, "allgather in place");
    mt_free(all);
}

static void alltoall(const struct world *w)
{
    size_t total = (size_t)w->count * (size_t)w->size;
    int *out = mt_alloc(sizeof(int) * total), *in = mt_alloc(sizeof(int) * total);

    for (int b = 0; b < w->size; b++)
        for (int i = 0; i < w->count; i++)
            out[(size_t)b * (size_t)w->count + (size_t)i] = element(w->rank, b, i);
    collective(w, Alltoall, out, w->count, MPI_INT, in, w->count, MPI_INT);
    for (int a = 0; a < w->size; a++)
        block_check(in + (size_t)a * (size_t)w->count, a, w->rank, w->count, "alltoall");
    mt_free(out);
    mt_free(in);
}

/* a sends (a + b) % 3 * count elements to b. */
static void alltoallv(const struct world *w)
{
    size_t n = (size_t)w->size, place = 0;
    int *lengths = malloc(sizeof(int) * n), *places = malloc(sizeof(int) * n);
    int *out, *in;

    for (int b = 0; b < w->size; b++) {
        lengths[b] = (w->rank + b) % 3 * w->count;
        places[b] = (int)place;
        place += (size_t)lengths[b];
    }
    out = mt_alloc(sizeof(int) * place);
    in = mt_alloc(sizeof(int) * place);
    for (int b = 0; b < w->size; b++)
        for (int i = 0; i < lengths[b]; i++)
            out[places[b] + i] = element(w->rank, b, i);
    collective(w, Alltoallv, out, lengths, places, MPI_INT, in, lengths, places, MPI_INT);
    for (int a = 0; a < w->size; a++)
        block_check(in + places[a], a, w->rank, lengths[a], "alltoallv");
    mt_free(out);
    mt_free(in);
    free(lengths);
    free(places);
}

/* Blocking only: the non-blocking one of Open MPI 4.1 crashes by itself. Every other int on the sending side. */
static void alltoallw(const struct world *w)
{
    size_t n = (size_t)w->size, total = (size_t)w->count * n;
    int *ones = malloc(sizeof(int) * n), *wholes = malloc(sizeof(int) * n);
    int *out_places = malloc(sizeof(int) * n), *in_places = malloc(sizeof(int) * n);
    MPI_Datatype *spread = malloc(sizeof(*spread) * n), *dense = malloc(sizeof(*dense) * n), every_other;
    int *out = mt_alloc(2 * sizeof(int) * total), *in = mt_alloc(sizeof(int) * total);

    mt_ok(MPI_Type_vector(w->count, 1, 2, MPI_INT, &every_other));
    mt_ok(MPI_Type_commit(&every_other));
    for (int b = 0; b < w->size; b++) {
        ones[b] = 1;
        wholes[b] = w->count;
        spread[b] = every_other;
        dense[b] = MPI_INT;
        out_places[b] = (int)(2 * sizeof(int)) * b * w->count;
        in_places[b] = (int)sizeof(int) * b * w->count;
        for (int i = 0; i < w->count; i++)
            out[2 * ((size_t)b * (size_t)w->count + (size_t)i)] = element(w->rank, b, i);
    }
    mt_ok(MPI_Alltoallw(out, ones, out_places, spread, in, wholes, in_places, dense, w->comm));
    for (int a = 0; a < w->size; a++)
        block_check(in + (size_t)a * (size_t)w->count, a, w->rank, w->count, "alltoallw");
    mt_ok(MPI_Type_free(&every_other));
    mt_free(out);
    mt_free(in);
    free(ones);
    free(wholes);
    free(out_places);
    free(in_places);
    free(spread);
    free(dense);
}

/* ---- Reducing ------------------------------------------------------------------------------------------------ */

static int64_t *terms_make(int rank, int count)
{
    int64_t *terms = mt_alloc(sizeof(int64_t) * (size_t)count);

    for (int i = 0; i < count; i++)
        terms[i] = (int64_t)(rank + 1) * 1000 + i;
    return terms;
}

/* Sum of element i over ranks first..last-1. */
static int64_t sum_of(int first, int last, int i)
{
    int64_t sum = 0;

    for (int rank = first; rank < last; rank++)
        sum += (int64_t)(rank + 1) * 1000 + i;
    return sum;
}

static void sums_check(const int64_t *sums, int count, int start, int first, int last, const char *what)
{
    for (int i = 0; i < count; i++)
        mt_check(sums[i] == sum_of(first, last, start + i), "%s: element %d is %lld, not %lld", what, start + i,
                 (long long)sums[i], (long long)sum_of(first, last, start + i));
}

static void reduce(const struct world *w)
{
    int root = w->count % w->size;
    int64_t *terms = terms_make(w->rank, w->count), *sums = mt_alloc(sizeof(int64_t) * (size_t)w->count);

    collective(w, Reduce, terms, sums, w->count, MPI_INT64_T, MPI_SUM, root);
    if (w->rank == root)
        sums_check(sums, w->count, 0, 0, w->size, "reduce");
    else
        mt_check_untouched(sums, sizeof(int64_t) * (size_t)w->count, "reduce, not the root");
    collective(w, Allreduce, terms, sums, w->count, MPI_INT64_T, MPI_SUM);
    sums_check(sums, w->count, 0, 0, w->size, "allreduce");
    collective(w, Allreduce, MPI_IN_PLACE, terms, w->count, MPI_INT64_T, MPI_SUM);
    sums_check(terms, w->count, 0, 0, w->size, "allreduce in place");
    mt_free(terms);
    mt_free(sums);
}

static void reduce_scatter(const struct world *w)
{
    int *parts = malloc(sizeof(int) * (size_t)w->size), total = 0, start = 0;
    int64_t *terms, *sums = mt_alloc(sizeof(int64_t) * (size_t)(w->count + w->size));

    for (int a = 0; a < w->size; a++) {
        parts[a] = w->count + a;
        start += a < w->rank ? parts[a] : 0;
        total += parts[a];
    }
    terms = terms_make(w->rank, total);
    collective(w, Reduce_scatter, terms, sums, parts, MPI_INT64_T, MPI_SUM);
    sums_check(sums, parts[w->rank], start, 0, w->size, "reduce_scatter");
    collective(w, Reduce_scatter_block, terms, sums, w->count, MPI_INT64_T, MPI_SUM);
    sums_check(sums, w->count, w->rank * w->count, 0, w->size, "reduce_scatter_block");
    mt_free(terms);
    mt_free(sums);
    free(parts);
}

static void scan(const struct world *w)
{
    int64_t *terms = terms_make(w->rank, w->count), *sums = mt_alloc(sizeof(int64_t) * (size_t)w->count);

    collective(w, Scan, terms, sums, w->count, MPI_INT64_T, MPI_SUM);
    sums_check(sums, w->count, 0, 0, w->rank + 1, "scan");
    collective(w, Exscan, terms, sums, w->count, MPI_INT64_T, MPI_SUM);
    if (w->rank > 0)
        sums_check(sums, w->count, 0, 0, w->rank, "exscan");
    mt_free(terms);
    mt_free(sums);
}

/* Composition of x -> a x + b: associative, not commutative. */
static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
    uint32_t *left = in, *right = inout;

    (void)type;
    for (int i = 0; i < *len; i++) {
        uint32_t a = left[2 * i], b = left[2 * i + 1];

        right[2 * i + 1] += right[2 * i] * b;
        right[2 * i] *= a;
    }
}

static void reduce_own_operation(const struct world *w)
{
    uint32_t *mine = mt_alloc(8 * (size_t)w->count), *result = mt_alloc(8 * (size_t)w->count), a = 1, b = 0;
    MPI_Datatype pair;
    MPI_Op op;

    mt_ok(MPI_Type_contiguous(2, MPI_UINT32_T, &pair));
    mt_ok(MPI_Type_commit(&pair));
    mt_ok(MPI_Op_create(compose, 0, &op));
    for (int i = 0; i < w->count; i++) {
        mine[2 * i] = (uint32_t)(2 * w->rank + 3);
        mine[2 * i + 1] = (uint32_t)(i + w->rank);
    }
    collective(w, Allreduce, mine, result, w->count, pair, op);
    for (int i = 0; i < w->count; i++) {
        a = 1;
        b = 0;
        for (int rank = 0; rank < w->size; rank++) {
            b = (uint32_t)(2 * rank + 3) * b + (uint32_t)(i + rank);
            a *= (uint32_t)(2 * rank + 3);
        }
        mt_check(result[2 * i] == a && result[2 * i + 1] == b, "own operation: element %d is (%u, %u), not (%u, %u)", i,
                 result[2 * i], result[2 * i + 1], a, b);
    }
    mt_ok(MPI_Op_free(&op));
    mt_ok(MPI_Type_free(&pair));
    mt_free(mine);
    mt_free(result);
}

static void max_location(const struct world *w)
{
    struct {
        double value;
        int rank;
    } mine = {(w->rank * 7 + w->count) % w->size, w->rank}, best;
    double top = 0;

    for (int rank = 0; rank < w->size; rank++)
        if ((rank * 7 + w->count) % w->size > top)
            top = (rank * 7 + w->count) % w->size;
    collective(w, Allreduce, &mine, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC);
    mt_check(best.value == top && (best.rank * 7 + w->count) % w->size == (int)top, "MPI_MAXLOC says %g at rank %d",
             best.value, best.rank);
}

/* Nobody leaves before the last has come: whoever leaves has its sign, sent synchronously before it came. */
static void barrier(const struct world *w)
{
    for (int last = 0; last < w->size; last++) {
        MPI_Request *requests = malloc(sizeof(*requests) * (size_t)w->size), request;
        int sign = last, found, n = 0;

        for (int peer = 0; peer < w->size; peer++)
            if (w->rank == last && peer != last)
                mt_ok(MPI_Issend(&sign, 1, MPI_INT, peer, last, w->comm, &requests[n++]));
        if (w->rank != last)
            mt_ok(MPI_Irecv(&sign, 1, MPI_INT, last, last, w->comm, &requests[n++]));
        if (w->rank == last)
            mt_ok(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
        if (w->nonblocking)
            mt_ok(MPI_Ibarrier(w->comm, &request));
        else
            mt_ok(MPI_Barrier(w->comm));
        if (w->nonblocking)
            finish(&request);
        mt_ok(MPI_Testall(n, requests, &found, MPI_STATUSES_IGNORE));
        mt_check(w->rank == last || found, "a barrier ended before rank %d had come to it", last);
        free(requests);
    }
}

static void (*const kinds[])(const struct world *) = {
    bcast,     gather_scatter, gatherv_scatterv, allgather, allgather_in_place,   alltoall,     alltoallv,
    alltoallw, reduce,         reduce_scatter,   scan,      reduce_own_operation, max_location, barrier};

static void all_kinds(MPI_Comm comm, bool nonblocking)
{
    struct world w = {comm, mt_rank(comm), mt_size(comm), 0, nonblocking};

    for (unsigned c = 0; c < MT_COUNT(counts); c++)
        for (unsigned kind = 0; kind < MT_COUNT(kinds); kind++) {
            w.count = counts[c];
            kinds[kind](&w);
        }
}

static void run_world(MPI_Comm comm)
{
    all_kinds(comm, false);
}

static void run_world_nonblocking(MPI_Comm comm)
{
    all_kinds(comm, true);
}

static void run_split(MPI_Comm comm)
{
    MPI_Comm part;

    mt_ok(MPI_Comm_split(comm, mt_rank(comm) % 2, -mt_rank(comm), &part));
    all_kinds(part, false);
    all_kinds(part, true);
    mt_ok(MPI_Comm_free(&part));
}

static void run_self(MPI_Comm comm)
{
    (void)comm;
    all_kinds(MPI_COMM_SELF, false);
    all_kinds(MPI_COMM_SELF, true);
}

/* ---- Between two groups ---------------------------------------------------------------------------------------- */

static void inter_count(MPI_Comm inter, int group, int rank, int size, int remote, int count)
{
    int *mine = block_make(group * 100 + rank, 0, count), *all = mt_alloc(sizeof(int) * (size_t)(count * remote));
    int64_t *terms = terms_make(group * 100 + rank, count), *sums = mt_alloc(sizeof(int64_t) * (size_t)count);
    int root;

    (void)size;
    mt_ok(MPI_Allgather(mine, count, MPI_INT, all, count, MPI_INT, inter));
    for (int a = 0; a < remote; a++)
        block_check(all + a * count, !group * 100 + a, 0, count, "allgather between groups");
    mt_ok(MPI_Allreduce(terms, sums, count, MPI_INT64_T, MPI_SUM, inter));
    sums_check(sums, count, 0, !group * 100, !group * 100 + remote, "allreduce between groups");
    /* rank 0 of group 0 to group 1 */
    root = group == 1 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    mt_ok(MPI_Bcast(mine, count, MPI_INT, root, inter));
    if (group == 1)
        block_check(mine, 0, 0, count, "bcast between groups");
    mt_ok(MPI_Barrier(inter));
    mt_free(mine);
    mt_free(all);
    mt_free(terms);
    mt_free(sums);
}

static void run_inter(MPI_Comm comm)
{
    int rank = mt_rank(comm), half = mt_size(comm) / 2, group = rank >= half, remote;
    MPI_Comm part, inter;

    mt_ok(MPI_Comm_split(comm, group, rank, &part));
    mt_ok(MPI_Intercomm_create(part, 0, comm, group ? 0 : half, 1, &inter));
    mt_ok(MPI_Comm_remote_size(inter, &remote));
    for (unsigned c = 0; c < MT_COUNT(counts); c++)
        inter_count(inter, group, mt_rank(part), mt_size(part), remote, counts[c]);
    mt_ok(MPI_Comm_free(&inter));
    mt_ok(MPI_Comm_free(&part));
}

/* ---- Neighbours, many at once ---------------------------------------------------------------------------------- */

static void run_neighbours(MPI_Comm comm)
{
    int size = mt_size(comm), rank = mt_rank(comm), dims[1] = {size}, periods[1] = {1}, out[2], in[2];
    MPI_Comm line;

    mt_ok(MPI_Cart_create(comm, 1, dims, periods, 0, &line));
    out[0] = rank * 10;     /* to the left */
    out[1] = rank * 10 + 1; /* to the right */
    mt_ok(MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, line));
    if (size > 2) {
        mt_check(in[0] == (rank + size - 1) % size * 10 + 1, "from the left came %d", in[0]);
        mt_check(in[1] == (rank + 1) % size * 10, "from the right came %d", in[1]);
    }
    mt_ok(MPI_Neighbor_allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, line));
    mt_check(in[0] == (rank + size - 1) % size && in[1] == (rank + 1) % size, "neighbours are %d and %d", in[0], in[1]);
    mt_ok(MPI_Comm_free(&line));
}

/* Many non-blocking collectives under way together, with point-to-point messages among them. */
static void run_many_at_once(MPI_Comm comm)
{
    enum { MANY = 30, LEN = 3000 };
    int rank = mt_rank(comm), size = mt_size(comm), to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Request requests[4 * MANY];
    int64_t *sums = mt_alloc(sizeof(int64_t) * MANY * LEN), *terms = terms_make(rank, LEN);
    int *blocks = mt_alloc(sizeof(int) * MANY * LEN), values[MANY], n = 0;

    for (int k = 0; k < MANY; k++) {
        int *block = blocks + k * LEN;

        for (int i = 0; i < LEN && rank == k % size; i++)
            block[i] = element(k, k, i);
        mt_ok(MPI_Iallreduce(terms, sums + k * LEN, LEN, MPI_INT64_T, MPI_SUM, comm, &requests[n++]));
        mt_ok(MPI_Irecv(&values[k], 1, MPI_INT, from, k, comm, &requests[n++]));
        mt_ok(MPI_Ibcast(block, LEN, MPI_INT, k % size, comm, &requests[n++]));
        mt_ok(MPI_Isend(&rank, 1, MPI_INT, to, k, comm, &requests[n++]));
    }
    mt_ok(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < MANY; k++) {
        sums_check(sums + k * LEN, LEN, 0, 0, size, "one of many allreduces");
        block_check(blocks + k * LEN, k, k, LEN, "one of many bcasts");
        mt_check(values[k] == from, "got %d", values[k]);
    }
    mt_free(sums);
    mt_free(terms);
    mt_free(blocks);
}

/* 1000 of the smallest in a row: order between them. */
static void run_many_in_a_row(MPI_Comm comm)
{
    int rank = mt_rank(comm), size = mt_size(comm);

    for (int i = 0; i < 1000; i++) {
        int value = rank == i % size ? i : -1, sum, one = i;

        mt_ok(MPI_Bcast(&value, 1, MPI_INT, i % size, comm));
        mt_check(value == i, "broadcast %d brought %d", i, value);
        if (i % 10 == 0) {
            mt_ok(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
            mt_check(sum == i * size, "sum %d is %d", i, sum);
        }
    }
}

static const struct mt_scenario scenarios[] = {
    {"world", 1, run_world},
    {"world-nonblocking", 1, run_world_nonblocking},
    {"split", 1, run_split},
    {"self", 1, run_self},
    {"inter", 2, run_inter},
    {"neighbours", 1, run_neighbours},
    {"many-at-once", 1, run_many_at_once},
    {"many-in-a-row", 1, run_many_in_a_row},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
