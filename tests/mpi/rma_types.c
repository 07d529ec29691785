/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Accumulates: every type with every operation that it has, in one and in many frames, and of shapes that are not
 * contiguous. What a rank should have is computed by MPI_Reduce_local.
 */
#include "mpitest.h"

#include <complex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 301, ELEMENT_MAX = 32 };

enum kind { INTEGER, LOGICAL, BYTE, REAL, COMPLEX, PAIR, PAIR_OF_REALS };

/* How elements are made: value, for pairs also index, which lies behind. */
struct type {
    MPI_Datatype mpi;
    enum kind kind;
    void (*set)(void *element, int value, int index);
};

#define SET(name, C)                                                                                                   \
    static void set_##name(void *element, int value, int index)                                                        \
    {                                                                                                                  \
        C c = (C)value;                                                                                                \
                                                                                                                       \
        (void)index;                                                                                                   \
        memcpy(element, &c, sizeof(c));                                                                                \
    }
SET(char, signed char)
SET(uchar, unsigned char)
SET(short, short)
SET(ushort, unsigned short)
SET(int, int)
SET(uint, unsigned)
SET(long, long)
SET(ulong, unsigned long)
SET(bool, _Bool)
SET(float, float)
SET(double, double)
SET(cfloat, float complex)
SET(cdouble, double complex)

/* Its padding has one value, as results are compared bit by bit. */
static void set_ldouble(void *element, int value, int index)
{
    long double c = value;

    (void)index;
    memset(element, 0, sizeof(c));
    memcpy(element, &c, 10);
}

#define SET_PAIR(name, C, I)                                                                                           \
    static void set_##name(void *element, int value, int index)                                                        \
    {                                                                                                                  \
        struct {                                                                                                       \
            C value;                                                                                                   \
            I index;                                                                                                   \
        } c;                                                                                                           \
                                                                                                                       \
        memset(&c, 0, sizeof(c));                                                                                      \
        c.value = (C)value;                                                                                            \
        c.index = (I)index;                                                                                            \
        memcpy(element, &c, sizeof(c));                                                                                \
    }
SET_PAIR(short_int, short, int)
SET_PAIR(int_int, int, int)
SET_PAIR(long_int, long, int)
SET_PAIR(float_int, float, int)
SET_PAIR(double_int, double, int)
#ifdef OPEN_MPI /* MPICH may have been built without Fortran */
SET_PAIR(float_float, float, float)
SET_PAIR(double_double, double, double)
#endif

static const struct type types[] = {
    {MPI_SIGNED_CHAR, INTEGER, set_char},
    {MPI_UNSIGNED_CHAR, INTEGER, set_uchar},
    {MPI_SHORT, INTEGER, set_short},
    {MPI_UNSIGNED_SHORT, INTEGER, set_ushort},
    {MPI_INT, INTEGER, set_int},
    {MPI_UNSIGNED, INTEGER, set_uint},
    {MPI_LONG, INTEGER, set_long},
    {MPI_UNSIGNED_LONG, INTEGER, set_ulong},
    {MPI_LONG_LONG, INTEGER, set_long},
    {MPI_INT32_T, INTEGER, set_int},
    {MPI_UINT64_T, INTEGER, set_ulong},
    {MPI_AINT, INTEGER, set_long},
    {MPI_C_BOOL, LOGICAL, set_bool},
    {MPI_BYTE, BYTE, set_uchar},
    {MPI_FLOAT, REAL, set_float},
    {MPI_DOUBLE, REAL, set_double},
    {MPI_LONG_DOUBLE, REAL, set_ldouble},
    {MPI_C_FLOAT_COMPLEX, COMPLEX, set_cfloat},
    {MPI_C_DOUBLE_COMPLEX, COMPLEX, set_cdouble},
    {MPI_SHORT_INT, PAIR, set_short_int},
    {MPI_2INT, PAIR, set_int_int},
    {MPI_LONG_INT, PAIR, set_long_int},
    {MPI_FLOAT_INT, PAIR, set_float_int},
    {MPI_DOUBLE_INT, PAIR, set_double_int},
#ifdef OPEN_MPI
    {MPI_2REAL, PAIR_OF_REALS, set_float_float},
    {MPI_2DOUBLE_PRECISION, PAIR_OF_REALS, set_double_double},
#endif
};

/* ---- Operations --------------------------------------------------------------------------------------------- */

struct operation {
    MPI_Op mpi;
    unsigned kinds; /* mask */
};

static const struct operation operations[] = {
    {MPI_SUM, 1 << INTEGER | 1 << REAL | 1 << COMPLEX},
    {MPI_PROD, 1 << INTEGER | 1 << REAL | 1 << COMPLEX},
    {MPI_MIN, 1 << INTEGER | 1 << REAL},
    {MPI_MAX, 1 << INTEGER | 1 << REAL},
    {MPI_LAND, 1 << INTEGER | 1 << LOGICAL},
    {MPI_LOR, 1 << INTEGER | 1 << LOGICAL},
    {MPI_LXOR, 1 << INTEGER | 1 << LOGICAL},
    {MPI_BAND, 1 << INTEGER | 1 << BYTE},
    {MPI_BOR, 1 << INTEGER | 1 << BYTE},
    {MPI_BXOR, 1 << INTEGER | 1 << BYTE},
    {MPI_MINLOC, 1 << PAIR | 1 << PAIR_OF_REALS},
    {MPI_MAXLOC, 1 << PAIR | 1 << PAIR_OF_REALS},
};

/* Small values, so that reals are exact and products do not overflow. */
static void fill(const struct type *type, char *array, size_t extent, int rank)
{
    for (int i = 0; i < ELEMENTS; i++)
        type->set(array + (size_t)i * extent, (rank * 7 + i) % 3, rank * 1000 + i);
}

static size_t extent_of(MPI_Datatype type)
{
    MPI_Aint lb, extent;

    mt_ok(MPI_Type_get_extent(type, &lb, &extent));
    return (size_t)extent;
}

static void compare(const char *got, const char *want, const struct type *type, size_t extent, MPI_Datatype name,
                    unsigned op)
{
    char text[MPI_MAX_OBJECT_NAME];
    int len, size;

    mt_ok(MPI_Type_get_name(name, text, &len));
    mt_ok(MPI_Type_size(name, &size));
    if (type->mpi == MPI_LONG_DOUBLE)
        size = 10;
    if (type->mpi == MPI_SHORT_INT || type->mpi == MPI_LONG_INT || type->mpi == MPI_DOUBLE_INT)
        size = (int)sizeof(short); /* there is a gap */
    for (size_t i = 0; i < ELEMENTS; i++)
        mt_check(!memcmp(got + i * extent, want + i * extent, (size_t)size), "%s, operation %u: element %zu", text, op,
                 i);
}

/* All ranks accumulate to all ranks, by each operation in a place of its own. */
static void one_type(MPI_Comm comm, MPI_Win win, char *base, const struct type *type)
{
    static char own[ELEMENTS * ELEMENT_MAX], want[ELEMENTS * ELEMENT_MAX];
    int rank = mt_rank(comm), size = mt_size(comm);
    size_t extent = extent_of(type->mpi);

    for (unsigned op = 0; op < MT_COUNT(operations); op++)
        fill(type, base + op * sizeof(own), extent, size);
    fill(type, own, extent, rank);
    mt_ok(MPI_Win_fence(0, win));
    for (unsigned op = 0; op < MT_COUNT(operations); op++)
        for (int to = 0; operations[op].kinds >> type->kind & 1 && to < size; to++)
            mt_ok(MPI_Accumulate(own, ELEMENTS, type->mpi, to, (MPI_Aint)(op * sizeof(own)), ELEMENTS, type->mpi,
                                 operations[op].mpi, win));
    mt_ok(MPI_Win_fence(0, win));
    for (unsigned op = 0; op < MT_COUNT(operations); op++) {
        fill(type, want, extent, size);
        for (int from = 0; operations[op].kinds >> type->kind & 1 && from < size; from++) {
            fill(type, own, extent, from);
            mt_ok(MPI_Reduce_local(own, want, ELEMENTS, type->mpi, operations[op].mpi));
        }
        compare(base + op * sizeof(own), want, type, extent, type->mpi, op);
    }
}

/* Memory of zeros; displacements are bytes. */
static MPI_Win window(MPI_Comm comm, size_t bytes, char **base_p)
{
    MPI_Win win;

    mt_ok(MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, comm, base_p, &win));
    memset(*base_p, 0, bytes);
    return win;
}

static void run_all(MPI_Comm comm)
{
    char *base;
    MPI_Win win = window(comm, MT_COUNT(operations) * ELEMENTS * ELEMENT_MAX, &base);

    for (unsigned t = 0; t < MT_COUNT(types); t++)
        one_type(comm, win, base, &types[t]);
    mt_ok(MPI_Win_free(&win));
}

/* ---- Fetching ----------------------------------------------------------------------------------------------- */

/* What is fetched and replaced: the values go around, as if each rank had been alone. */
static void one_exchange(MPI_Comm comm, MPI_Win win, char *base, const struct type *type)
{
    static char own[ELEMENTS * ELEMENT_MAX], old[ELEMENTS * ELEMENT_MAX], read[ELEMENTS * ELEMENT_MAX];
    int rank = mt_rank(comm), size = mt_size(comm), to = (rank + 1) % size;
    size_t extent = extent_of(type->mpi);

    fill(type, base, extent, rank);
    fill(type, own, extent, rank + size);
    mt_ok(MPI_Barrier(comm));
    mt_ok(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
    mt_ok(MPI_Get_accumulate(own, ELEMENTS, type->mpi, old, ELEMENTS, type->mpi, to, 0, ELEMENTS, type->mpi,
                             MPI_REPLACE, win));
    mt_ok(
        MPI_Get_accumulate(NULL, 0, type->mpi, read, ELEMENTS, type->mpi, to, 0, ELEMENTS, type->mpi, MPI_NO_OP, win));
    mt_ok(MPI_Win_unlock(to, win));
    compare(read, own, type, extent, type->mpi, 100);
    fill(type, own, extent, to);
    compare(old, own, type, extent, type->mpi, 101);
    mt_ok(MPI_Barrier(comm));
}

static void run_exchange(MPI_Comm comm)
{
    char *base;
    MPI_Win win = window(comm, ELEMENTS * ELEMENT_MAX, &base);

    for (unsigned t = 0; t < MT_COUNT(types); t++)
        one_exchange(comm, win, base, &types[t]);
    mt_ok(MPI_Win_free(&win));
}

/* ---- Shapes ------------------------------------------------------------------------------------------------- */

/* Every second element there gets every third one here; what was there goes to elements in reverse pairs. */
static void one_shape(MPI_Comm comm, MPI_Win win, char *base, const struct type *type)
{
    enum { N = 90 };
    static char own[ELEMENTS * ELEMENT_MAX], old[ELEMENTS * ELEMENT_MAX], want[ELEMENT_MAX];
    int rank = mt_rank(comm), size = mt_size(comm), to = (rank + 1) % size, from = (rank + size - 1) % size, bytes;
    size_t extent = extent_of(type->mpi);
    MPI_Datatype second, third;

    mt_ok(MPI_Type_size(type->mpi, &bytes));
    bytes = type->mpi == MPI_LONG_DOUBLE ? 10 : bytes > 2 && type->kind == PAIR ? 2 : bytes;
    mt_ok(MPI_Type_vector(N, 1, 2, type->mpi, &second));
    mt_ok(MPI_Type_vector(N, 1, 3, type->mpi, &third));
    mt_ok(MPI_Type_commit(&second));
    mt_ok(MPI_Type_commit(&third));
    fill(type, base, extent, rank);
    fill(type, own, extent, rank + 1);
    memset(old, 0x55, sizeof(old));
    mt_ok(MPI_Win_fence(0, win));
    mt_ok(MPI_Get_accumulate(own, 1, third, old, 1, third, to, (MPI_Aint)extent, 1, second, MPI_REPLACE, win));
    mt_ok(MPI_Win_fence(0, win));
    for (int i = 0; i < N; i++) {
        memset(want, 0, sizeof(want));
        type->set(want, (to * 7 + 2 * i + 1) % 3, to * 1000 + 2 * i + 1);
        mt_check(!memcmp(old + 3 * (size_t)i * extent, want, (size_t)bytes), "fetched element %d", i);
        memset(want, 0, sizeof(want));
        type->set(want, ((from + 1) * 7 + 3 * i) % 3, (from + 1) * 1000 + 3 * i);
        mt_check(!memcmp(base + (2 * (size_t)i + 1) * extent, want, (size_t)bytes), "element %d", i);
        memset(want, 0, sizeof(want));
        type->set(want, (rank * 7 + 2 * i) % 3, rank * 1000 + 2 * i);
        mt_check(!memcmp(base + 2 * (size_t)i * extent, want, (size_t)bytes), "element %d between", i);
    }
    mt_ok(MPI_Type_free(&second));
    mt_ok(MPI_Type_free(&third));
}

static void run_shapes(MPI_Comm comm)
{
    char *base;
    MPI_Win win = window(comm, ELEMENTS * ELEMENT_MAX, &base);

    for (unsigned t = 0; t < MT_COUNT(types); t++)
        one_shape(comm, win, base, &types[t]);
    mt_ok(MPI_Win_free(&win));
}

/* ---- Order -------------------------------------------------------------------------------------------------- */

/* Accumulates of one origin to one location are done in the order of the calls. */
static void run_order(MPI_Comm comm)
{
    enum { N = 200 };
    int rank = mt_rank(comm), size = mt_size(comm), to = (rank + 1) % size, *base, one = 1;
    int values[N], old[N];
    MPI_Win win;

    mt_ok(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &base, &win));
    *base = -5;
    mt_ok(MPI_Barrier(comm));
    mt_ok(MPI_Win_lock_all(0, win));
    for (int i = 0; i < N; i++) {
        values[i] = 10 * i;
        mt_ok(MPI_Accumulate(values + i, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_REPLACE, win));
        mt_ok(MPI_Fetch_and_op(&one, old + i, MPI_INT, to, 0, MPI_SUM, win));
    }
    mt_ok(MPI_Win_unlock_all(win));
    for (int i = 0; i < N; i++)
        mt_check(old[i] == 10 * i, "fetched %d, not %d", old[i], 10 * i);
    mt_ok(MPI_Barrier(comm));
    mt_check(*base == 10 * (N - 1) + 1, "%d is there", *base);
    mt_ok(MPI_Win_free(&win));
}

static const struct mt_scenario scenarios[] = {
    {"all", 1, run_all}, {"exchange", 1, run_exchange}, {"shapes", 1, run_shapes}, {"order", 1, run_order},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
