/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations with datatypes: contiguous and not, at both sides, in long and short pieces; accumulates of all
 * types by all ranks at once, whose sums are known; requests; ranges that are not in the window.
 */
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 16, TIMES = 12 };

static void *window_make(MPI_Comm comm, MPI_Win *win_p)
{
    void *base;

    mt_ok(MPI_Win_allocate(ROOM, 1, MPI_INFO_NULL, comm, &base, win_p));
    mt_ok(MPI_Win_set_errhandler(*win_p, MPI_ERRORS_RETURN));
    memset(base, 0, ROOM);
    mt_ok(MPI_Barrier(comm));
    return base;
}

/* ---- Put and get ---- */

struct layout {
    int count, block, stride; /* of MPI_BYTE; a block of each stride */
};

/* Many short pieces, few, and long ones; contiguous. */
static const struct layout layouts[] = {
    {1, 8, 8}, {1, 6000, 6000}, {10, 24, 40}, {500, 4, 12}, {8, 1500, 2000}, {3, 7000, 7001},
};

static MPI_Datatype layout_type(const struct layout *l)
{
    MPI_Datatype type;

    mt_ok(MPI_Type_vector(l->count, l->block, l->stride, MPI_BYTE, &type));
    mt_ok(MPI_Type_commit(&type));
    return type;
}

/* Byte i of the packed data. */
static size_t layout_at(const struct layout *l, int i)
{
    return (size_t)(i / l->block) * (size_t)l->stride + (size_t)(i % l->block);
}

/* To the right neighbour and back, from a layout here to a layout there. */
static void put_and_get(MPI_Win win, int right, const struct layout *here, const struct layout *there, bool request)
{
    int n = here->count * here->block, m = there->count * there->block, bytes = n < m ? n : m;
    struct layout cut = {bytes / there->block, there->block, there->stride};
    uint8_t *out = mt_alloc(ROOM), *in = mt_alloc(ROOM);
    MPI_Datatype type, packed;
    MPI_Request r[2];

    if (!cut.count || cut.count * cut.block > n) {
        mt_free(out);
        mt_free(in);
        return;
    }
    bytes = cut.count * cut.block;
    type = layout_type(&cut);
    mt_ok(MPI_Type_contiguous(bytes, MPI_BYTE, &packed));
    mt_ok(MPI_Type_commit(&packed));
    mt_fill(out, (size_t)bytes, mt_seed((uint64_t)bytes, (uint64_t)cut.block, 1));
    mt_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
    if (request) {
        mt_ok(MPI_Rput(out, 1, packed, right, 16, 1, type, win, &r[0]));
        mt_ok(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
        mt_ok(MPI_Win_flush(right, win));
        mt_ok(MPI_Rget(in, 1, type, right, 16, 1, type, win, &r[1]));
        mt_ok(MPI_Wait(&r[1], MPI_STATUS_IGNORE));
    } else {
        mt_ok(MPI_Put(out, 1, packed, right, 16, 1, type, win));
        mt_ok(MPI_Win_flush(right, win));
        mt_ok(MPI_Get(in, 1, type, right, 16, 1, type, win));
        mt_ok(MPI_Win_flush_local(right, win));
    }
    mt_ok(MPI_Win_unlock(right, win));
    for (int i = 0; i < bytes; i++)
        mt_check(in[layout_at(&cut, i)] == out[i], "byte %d of %d in pieces of %d is %u, not %u", i, bytes, cut.block,
                 in[layout_at(&cut, i)], out[i]);
    for (int i = cut.block; cut.stride > cut.block && i < cut.stride && cut.count > 1; i++)
        mt_check(in[i] == 0xa5, "byte %d behind a piece of %d was written", i, cut.block);
    mt_ok(MPI_Type_free(&type));
    mt_ok(MPI_Type_free(&packed));
    mt_free(out);
    mt_free(in);
}

static void run_layouts(MPI_Comm comm)
{
    int right = (mt_rank(comm) + 1) % mt_size(comm);
    MPI_Win win;

    window_make(comm, &win);
    for (unsigned a = 0; a < MT_COUNT(layouts); a++)
        for (unsigned b = 0; b < MT_COUNT(layouts); b++)
            put_and_get(win, right, &layouts[a], &layouts[b], (a + b) % 2);
    mt_ok(MPI_Win_free(&win));
}

/* ---- Accumulates ---- */

/* A number of any type. */
union number {
    int8_t i8;
    uint16_t u16;
    int32_t i32;
    uint64_t u64;
    float f;
    double d;
    long double ld;
    float fc[2];
    double dc[2];
};

enum { I8, U16, I32, U64, F, D, LD, FC, DC };

static const struct {
    int kind;
    size_t bytes;
} kinds[] = {
    {I8, 1}, {U16, 2}, {I32, 4}, {U64, 8}, {F, 4}, {D, 8}, {LD, sizeof(long double)}, {FC, 8}, {DC, 16},
};

static MPI_Datatype kind_type(int kind)
{
    switch (kind) {
    case I8:
        return MPI_INT8_T;
    case U16:
        return MPI_UINT16_T;
    case I32:
        return MPI_INT;
    case U64:
        return MPI_UINT64_T;
    case F:
        return MPI_FLOAT;
    case D:
        return MPI_DOUBLE;
    case LD:
        return MPI_LONG_DOUBLE;
    case FC:
        return MPI_C_FLOAT_COMPLEX;
    default:
        return MPI_C_DOUBLE_COMPLEX;
    }
}

static void number_set(int kind, void *to, int value)
{
    union number n;

    memset(&n, 0, sizeof(n));
    switch (kind) {
    case I8:
        n.i8 = (int8_t)value;
        break;
    case U16:
        n.u16 = (uint16_t)value;
        break;
    case I32:
        n.i32 = value;
        break;
    case U64:
        n.u64 = (uint64_t)value;
        break;
    case F:
        n.f = (float)value;
        break;
    case D:
        n.d = value;
        break;
    case LD:
        n.ld = value;
        break;
    case FC:
        n.fc[0] = (float)value;
        break;
    default:
        n.dc[0] = value;
        break;
    }
    memcpy(to, &n, kinds[kind].bytes);
}

static int number_get(int kind, const void *from)
{
    union number n;

    memset(&n, 0, sizeof(n));
    memcpy(&n, from, kinds[kind].bytes);
    switch (kind) {
    case I8:
        return n.i8;
    case U16:
        return n.u16;
    case I32:
        return n.i32;
    case U64:
        return (int)n.u64;
    case F:
        return (int)n.f;
    case D:
        return (int)n.d;
    case LD:
        return (int)n.ld;
    case FC:
        return (int)n.fc[0];
    default:
        return (int)n.dc[0];
    }
}

/* All ranks add to COUNT elements, every second of the window, of every rank, partly with a fetch. */
static void sums_of(MPI_Comm comm, MPI_Win win, uint8_t *base, int kind)
{
    enum { COUNT = 300, ROUNDS = 3 };
    int rank = mt_rank(comm), size = mt_size(comm);
    size_t bytes = kinds[kind].bytes;
    uint8_t *operand = malloc(COUNT * bytes), *old = malloc(COUNT * bytes);
    MPI_Datatype type = kind_type(kind), every_second;

    mt_ok(MPI_Type_vector(COUNT, 1, 2, type, &every_second));
    mt_ok(MPI_Type_commit(&every_second));
    for (int i = 0; i < 2 * COUNT; i++)
        number_set(kind, base + (size_t)i * bytes, 1);
    for (int i = 0; i < COUNT; i++)
        number_set(kind, operand + (size_t)i * bytes, 1 + rank % 2);
    mt_ok(MPI_Win_fence(0, win));
    for (int round = 0; round < ROUNDS; round++)
        for (int to = 0; to < size; to++) {
            if ((round + to) % 2)
                mt_ok(MPI_Accumulate(operand, COUNT, type, to, 0, 1, every_second, MPI_SUM, win));
            else
                mt_ok(MPI_Get_accumulate(operand, COUNT, type, old, COUNT, type, to, 0, 1, every_second, MPI_SUM, win));
        }
    mt_ok(MPI_Win_fence(0, win));
    for (int i = 0; i < 2 * COUNT; i++) {
        int expected = i % 2 ? 1 : 1 + ROUNDS * ((size + 1) / 2 + 2 * (size / 2));

        mt_check(number_get(kind, base + (size_t)i * bytes) == expected, "type %d: element %d is %d, not %d", kind, i,
                 number_get(kind, base + (size_t)i * bytes), expected);
    }
    mt_ok(MPI_Win_fence(0, win));
    mt_ok(MPI_Type_free(&every_second));
    free(operand);
    free(old);
}

static void run_sums(MPI_Comm comm)
{
    MPI_Win win;
    uint8_t *base = window_make(comm, &win);

    for (unsigned kind = 0; kind < MT_COUNT(kinds); kind++)
        sums_of(comm, win, base, (int)kind);
    mt_ok(MPI_Win_free(&win));
}

/* The greatest value and its place: pairs with and without padding. */
static void run_pairs(MPI_Comm comm)
{
    struct double_int {
        double value;
        int index;
    } own_double = {mt_rank(comm) * 7 % 5, mt_rank(comm)}, *doubles;
    struct two_int {
        int value, index;
    } own_int = {mt_rank(comm) * 7 % 5, mt_rank(comm)}, *ints;
    int size = mt_size(comm), best = 0;
    MPI_Win win;

    doubles = window_make(comm, &win);
    ints = (void *)((char *)doubles + 4096);
    doubles[0] = (struct double_int){-1, -1};
    ints[0] = (struct two_int){-1, -1};
    for (int i = 1; i < size; i++)
        best = i * 7 % 5 > best * 7 % 5 ? i : best;
    mt_ok(MPI_Win_fence(0, win));
    for (int to = 0; to < size; to++) {
        mt_ok(MPI_Accumulate(&own_double, 1, MPI_DOUBLE_INT, to, 0, 1, MPI_DOUBLE_INT, MPI_MAXLOC, win));
        mt_ok(MPI_Accumulate(&own_int, 1, MPI_2INT, to, 4096, 1, MPI_2INT, MPI_MAXLOC, win));
    }
    mt_ok(MPI_Win_fence(0, win));
    mt_check(doubles[0].index == best, "the greatest double is of rank %d, not %d", doubles[0].index, best);
    mt_check(ints[0].index == best, "the greatest int is of rank %d, not %d", ints[0].index, best);
    mt_ok(MPI_Win_free(&win));
}

/* Each operation of integers at the right neighbour, with requests, against the same done here. */
static void run_operations(MPI_Comm comm)
{
    static const struct {
        MPI_Op op;
        int operand, expected; /* at 12 */
    } ops[] = {{MPI_REPLACE, 10, 10}, {MPI_NO_OP, 10, 12}, {MPI_SUM, 10, 22}, {MPI_PROD, 10, 120},
               {MPI_MIN, 10, 10},     {MPI_MAX, 10, 12},   {MPI_LAND, 0, 0},  {MPI_LOR, 0, 1},
               {MPI_LXOR, 10, 0},     {MPI_BAND, 10, 8},   {MPI_BOR, 10, 14}, {MPI_BXOR, 10, 6}};
    int right = (mt_rank(comm) + 1) % mt_size(comm), got, old;
    const int twelve = 12;
    MPI_Request request;
    MPI_Win win;

    window_make(comm, &win);
    mt_ok(MPI_Win_lock_all(0, win));
    for (unsigned i = 0; i < MT_COUNT(ops); i++) {
        mt_ok(MPI_Raccumulate(&twelve, 1, MPI_INT, right, 8, 1, MPI_INT, MPI_REPLACE, win, &request));
        mt_ok(MPI_Wait(&request, MPI_STATUS_IGNORE));
        mt_ok(MPI_Rget_accumulate(&ops[i].operand, 1, MPI_INT, &old, 1, MPI_INT, right, 8, 1, MPI_INT, ops[i].op, win,
                                  &request));
        mt_ok(MPI_Wait(&request, MPI_STATUS_IGNORE));
        mt_ok(MPI_Fetch_and_op(NULL, &got, MPI_INT, right, 8, MPI_NO_OP, win));
        mt_ok(MPI_Win_flush(right, win));
        mt_check(old == 12, "operation %u found %d", i, old);
        mt_check(got == ops[i].expected, "operation %u: %d, not %d", i, got, ops[i].expected);
    }
    mt_ok(MPI_Win_unlock_all(win));
    mt_ok(MPI_Win_free(&win));
}

/* A long accumulate: each element once, in the order of the calls. */
static void run_long(MPI_Comm comm)
{
    enum { COUNT = 6000 };
    int rank = mt_rank(comm), size = mt_size(comm), right = (rank + 1) % size, left = (rank + size - 1) % size;
    int *operand = malloc(COUNT * sizeof(int)), *base;
    MPI_Win win;

    base = window_make(comm, &win);
    mt_ok(MPI_Win_fence(0, win));
    for (int round = 0; round < TIMES; round++) {
        MPI_Op op = round % 2 ? MPI_SUM : MPI_REPLACE;

        for (int i = 0; i < COUNT; i++)
            operand[i] = rank * COUNT + i + round;
        mt_ok(MPI_Accumulate(operand, COUNT, MPI_INT, right, 0, COUNT, MPI_INT, op, win));
        mt_ok(MPI_Win_fence(0, win));
        for (int i = 0; i < COUNT; i++) {
            int expected = round % 2 ? 2 * (left * COUNT + i + round) - 1 : left * COUNT + i + round;

            mt_check(base[i] == expected, "round %d: element %d is %d, not %d", round, i, base[i], expected);
        }
        mt_ok(MPI_Win_fence(0, win));
    }
    mt_ok(MPI_Win_free(&win));
    free(operand);
}

/* ---- Errors ---- */

/* Behind the end of the window of another node: an error at the flush, and the window works on. */
static void run_range(MPI_Comm comm)
{
    int partner = mt_partner(comm), value = 5, got = 0;
    MPI_Win win;

    if (mt_size(comm) % 2) {
        mt_skip(comm, "needs an even number of ranks");
        return;
    }
    window_make(comm, &win);
    mt_ok(MPI_Win_lock(MPI_LOCK_SHARED, partner, 0, win));
    mt_ok(MPI_Put(&value, 1, MPI_INT, partner, ROOM - 2, 1, MPI_INT, win));
    mt_error(MPI_ERR_RMA_RANGE, MPI_Win_flush(partner, win));
    mt_ok(MPI_Put(&value, 1, MPI_INT, partner, ROOM - 4, 1, MPI_INT, win));
    mt_ok(MPI_Win_flush(partner, win));
    mt_ok(MPI_Get(&got, 1, MPI_INT, partner, ROOM - 4, 1, MPI_INT, win));
    mt_ok(MPI_Win_unlock(partner, win));
    mt_check(got == value, "got %d", got);
    mt_ok(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    static const struct mt_scenario scenarios[] = {
        {"layouts", 2, run_layouts},
        {"sums", 2, run_sums},
        {"pairs", 2, run_pairs},
        {"operations", 2, run_operations},
        {"long", 2, run_long},
        {"range", 2, run_range},
        {NULL, 0, NULL},
    };

    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
