/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Accumulates by the core. Whether the core does them depends on the predefined datatype alone (ethmx_window.h). The
 * core has all of MPI's operations on its types. Those of C and Fortran that are dense in memory are among them; pairs
 * of a value and an index with padding, Fortran's logical type and others are not.
 */
#include "mpidimpl.h"

#include "ethmx_window.h"

/* ---- Types and operations ---- */

enum atomic_class { ATOMIC_SIGNED, ATOMIC_UNSIGNED, ATOMIC_REAL, ATOMIC_COMPLEX, ATOMIC_PAIR };

static const struct {
    MPI_Datatype datatype; /* MPI_DATATYPE_NULL if this MPICH has it not */
    enum atomic_class class;
} atomic_rows[] = {
    {MPI_CHAR, CHAR_MIN < 0 ? ATOMIC_SIGNED : ATOMIC_UNSIGNED},
    {MPI_SIGNED_CHAR, ATOMIC_SIGNED},
    {MPI_SHORT, ATOMIC_SIGNED},
    {MPI_INT, ATOMIC_SIGNED},
    {MPI_LONG, ATOMIC_SIGNED},
    {MPI_LONG_LONG_INT, ATOMIC_SIGNED},
    {MPI_INT8_T, ATOMIC_SIGNED},
    {MPI_INT16_T, ATOMIC_SIGNED},
    {MPI_INT32_T, ATOMIC_SIGNED},
    {MPI_INT64_T, ATOMIC_SIGNED},
    {MPI_AINT, ATOMIC_SIGNED},
    {MPI_OFFSET, ATOMIC_SIGNED},
    {MPI_COUNT, ATOMIC_SIGNED},
    {MPI_INTEGER, ATOMIC_SIGNED},
    {MPI_INTEGER1, ATOMIC_SIGNED},
    {MPI_INTEGER2, ATOMIC_SIGNED},
    {MPI_INTEGER4, ATOMIC_SIGNED},
    {MPI_INTEGER8, ATOMIC_SIGNED},
    {MPI_UNSIGNED_CHAR, ATOMIC_UNSIGNED},
    {MPI_UNSIGNED_SHORT, ATOMIC_UNSIGNED},
    {MPI_UNSIGNED, ATOMIC_UNSIGNED},
    {MPI_UNSIGNED_LONG, ATOMIC_UNSIGNED},
    {MPI_UNSIGNED_LONG_LONG, ATOMIC_UNSIGNED},
    {MPI_UINT8_T, ATOMIC_UNSIGNED},
    {MPI_UINT16_T, ATOMIC_UNSIGNED},
    {MPI_UINT32_T, ATOMIC_UNSIGNED},
    {MPI_UINT64_T, ATOMIC_UNSIGNED},
    {MPI_BYTE, ATOMIC_UNSIGNED},
    {MPI_C_BOOL, ATOMIC_UNSIGNED},
    {MPI_CXX_BOOL, ATOMIC_UNSIGNED},
    {MPI_CHARACTER, ATOMIC_UNSIGNED},
    {MPI_FLOAT, ATOMIC_REAL},
    {MPI_DOUBLE, ATOMIC_REAL},
    {MPI_LONG_DOUBLE, ATOMIC_REAL},
    {MPI_REAL, ATOMIC_REAL},
    {MPI_DOUBLE_PRECISION, ATOMIC_REAL},
    {MPI_REAL4, ATOMIC_REAL},
    {MPI_REAL8, ATOMIC_REAL},
    {MPI_C_FLOAT_COMPLEX, ATOMIC_COMPLEX},
    {MPI_C_DOUBLE_COMPLEX, ATOMIC_COMPLEX},
    {MPI_C_LONG_DOUBLE_COMPLEX, ATOMIC_COMPLEX},
    {MPI_CXX_FLOAT_COMPLEX, ATOMIC_COMPLEX},
    {MPI_CXX_DOUBLE_COMPLEX, ATOMIC_COMPLEX},
    {MPI_CXX_LONG_DOUBLE_COMPLEX, ATOMIC_COMPLEX},
    {MPI_COMPLEX, ATOMIC_COMPLEX},
    {MPI_DOUBLE_COMPLEX, ATOMIC_COMPLEX},
    {MPI_COMPLEX8, ATOMIC_COMPLEX},
    {MPI_COMPLEX16, ATOMIC_COMPLEX},
    {MPI_2INT, ATOMIC_PAIR},
};

static const struct {
    enum atomic_class class;
    size_t bytes;
    enum ethmx_rma_type type;
} atomic_types[] = {
    {ATOMIC_SIGNED, 1, ETHMX_RMA_INT8},
    {ATOMIC_SIGNED, 2, ETHMX_RMA_INT16},
    {ATOMIC_SIGNED, 4, ETHMX_RMA_INT32},
    {ATOMIC_SIGNED, 8, ETHMX_RMA_INT64},
    {ATOMIC_UNSIGNED, 1, ETHMX_RMA_UINT8},
    {ATOMIC_UNSIGNED, 2, ETHMX_RMA_UINT16},
    {ATOMIC_UNSIGNED, 4, ETHMX_RMA_UINT32},
    {ATOMIC_UNSIGNED, 8, ETHMX_RMA_UINT64},
    {ATOMIC_REAL, sizeof(float), ETHMX_RMA_FLOAT},
    {ATOMIC_REAL, sizeof(double), ETHMX_RMA_DOUBLE},
    {ATOMIC_REAL, sizeof(long double), ETHMX_RMA_LONG_DOUBLE},
    {ATOMIC_COMPLEX, 2 * sizeof(float), ETHMX_RMA_COMPLEX_FLOAT},
    {ATOMIC_COMPLEX, 2 * sizeof(double), ETHMX_RMA_COMPLEX_DOUBLE},
    {ATOMIC_COMPLEX, 2 * sizeof(long double), ETHMX_RMA_COMPLEX_LONG_DOUBLE},
    {ATOMIC_PAIR, 2 * sizeof(int), ETHMX_RMA_INT_INT},
};

/* By MPICH's number of a builtin datatype: the core's type + 1; 0: none. */
static uint8_t atomic_type[MPIR_DATATYPE_N_BUILTIN];

static int atomic_index(MPI_Datatype builtin)
{
#if MPIDI_ETHMX_CH4_INTERNAL_TYPES
    return builtin & MPIR_TYPE_INDEX_MASK;
#else
    return MPIR_Datatype_predefined_get_index(builtin);
#endif
}

void MPIDI_ETHMX_atomic_init(void)
{
    for (size_t i = 0; i < sizeof(atomic_rows) / sizeof(atomic_rows[0]); i++) {
        MPI_Datatype d = atomic_rows[i].datatype;

#if MPIDI_ETHMX_CH4_INTERNAL_TYPES
        MPIR_DATATYPE_REPLACE_BUILTIN(d);
#endif
        if (d == MPI_DATATYPE_NULL || HANDLE_GET_KIND(d) != HANDLE_KIND_BUILTIN)
            continue;
        for (size_t k = 0; k < sizeof(atomic_types) / sizeof(atomic_types[0]); k++)
            if (atomic_types[k].class == atomic_rows[i].class &&
                atomic_types[k].bytes == MPIR_Datatype_get_basic_size(d))
                atomic_type[atomic_index(d)] = atomic_types[k].type + 1;
    }
}

int MPIDI_ETHMX_atomic_type(MPI_Datatype datatype)
{
    if (HANDLE_GET_KIND(datatype) != HANDLE_KIND_BUILTIN) {
        MPIR_Datatype *dt;

        MPIR_Datatype_get_ptr(datatype, dt);
        datatype = dt ? dt->basic_type : MPI_DATATYPE_NULL;
    }
    if (datatype == MPI_DATATYPE_NULL || HANDLE_GET_KIND(datatype) != HANDLE_KIND_BUILTIN)
        return -1;
    return atomic_type[atomic_index(datatype)] - 1;
}

/* ETHMX_RMA_OPS: the core has it not. */
static enum ethmx_rma_op atomic_op(MPI_Op op)
{
    switch (op) {
    case MPI_REPLACE:
        return ETHMX_RMA_REPLACE;
    case MPI_NO_OP:
        return ETHMX_RMA_NO_OP;
    case MPI_SUM:
        return ETHMX_RMA_SUM;
    case MPI_PROD:
        return ETHMX_RMA_PROD;
    case MPI_MIN:
        return ETHMX_RMA_MIN;
    case MPI_MAX:
        return ETHMX_RMA_MAX;
    case MPI_LAND:
        return ETHMX_RMA_LAND;
    case MPI_LOR:
        return ETHMX_RMA_LOR;
    case MPI_LXOR:
        return ETHMX_RMA_LXOR;
    case MPI_BAND:
        return ETHMX_RMA_BAND;
    case MPI_BOR:
        return ETHMX_RMA_BOR;
    case MPI_BXOR:
        return ETHMX_RMA_BXOR;
    case MPI_MINLOC:
        return ETHMX_RMA_MINLOC;
    case MPI_MAXLOC:
        return ETHMX_RMA_MAXLOC;
    default:
        return ETHMX_RMA_OPS;
    }
}

/* Whether the type has the operation, in MPI and in the core alike. */
static bool atomic_fits(enum ethmx_rma_op op, enum ethmx_rma_type type)
{
    if (op <= ETHMX_RMA_NO_OP)
        return true;
    if (type == ETHMX_RMA_INT_INT)
        return op == ETHMX_RMA_MINLOC || op == ETHMX_RMA_MAXLOC;
    if (type >= ETHMX_RMA_COMPLEX_FLOAT)
        return op <= ETHMX_RMA_PROD;
    return op <= (type >= ETHMX_RMA_FLOAT ? ETHMX_RMA_MAX : ETHMX_RMA_BXOR);
}

/* For a status of the core. */
static int atomic_error(int status)
{
    int mpi_errno = MPI_SUCCESS;

    if (status != ETHMX_ERR_PARAM)
        return MPIDI_ETHMX_ERROR(status);
    MPIR_ERR_SET(mpi_errno, MPI_ERR_OP, "**opundefined");
    return mpi_errno;
}

/* ---- Accumulate and get-accumulate ---- */

struct atomic_args {
    enum ethmx_rma_type type;
    enum ethmx_rma_op op;
    bool fetch;
};

static int atomic_start(const struct atomic_args *a, struct MPIDI_ETHMX_target *t, const struct ethmx_rma_target *to,
                        char *operand, char *result, size_t n, ethmx_done_fn done, void *arg)
{
    struct ethmx_data data = {.base = a->fetch ? result : operand, .len_bytes = n};
    struct ethmx_ep *ep = MPIDI_ETHMX_global.ep;

    if (a->fetch)
        return MPIDI_ETHMX_lib.rma_fetch(ep, to, a->op, a->type, operand, &data, done, arg);
    t->changes++;
    return MPIDI_ETHMX_lib.rma_accumulate(ep, to, a->op, a->type, &data, ETHMX_RMA_LOCAL, done, arg);
}

/* Bytes of the longest operation that the core does at once. */
static size_t atomic_most(const struct atomic_args *a)
{
    return a->fetch ? ETHMX_RMA_ATOMIC_MAX : SIZE_MAX;
}

static int atomic_parts(const struct atomic_args *a, struct MPIDI_ETHMX_target *t, struct MPIDI_ETHMX_memory *m,
                        const struct MPIDI_ETHMX_buffer *operand, const struct MPIDI_ETHMX_buffer *result,
                        MPIR_Request **req)
{
    struct MPIDI_ETHMX_operation *op = MPIDI_ETHMX_operation_new(t, req);
    char *from = NULL, *to = NULL;
    struct ethmx_rma_target part;
    size_t n;

    if (!op)
        return MPIDI_ETHMX_ERROR(ETHMX_ERR_NO_MEMORY);
    if (a->op != ETHMX_RMA_NO_OP && !(from = MPIDI_ETHMX_operation_operand(op, operand)))
        op->status = ETHMX_ERR_NO_MEMORY;
    if (a->fetch && !(to = MPIDI_ETHMX_operation_result(op, result)))
        op->status = ETHMX_ERR_NO_MEMORY;
    for (size_t offset = 0; offset < m->len_bytes && op->status == ETHMX_OK; offset += n) {
        n = MPIDI_ETHMX_memory_part(m, offset, &part);
        if (n == 0) {
            op->status = ETHMX_ERR_ACCESS;
            break;
        }
        n = n < atomic_most(a) ? n : atomic_most(a);
        MPIDI_ETHMX_operation_part(op, atomic_start(a, t, &part, from ? from + offset : NULL, to ? to + offset : NULL,
                                                    n, MPIDI_ETHMX_operation_done, op));
    }
    return MPIDI_ETHMX_operation_started(op);
}

/* Starts the operation on memory with data, which has begun. */
static int atomic_begin(const struct atomic_args *a, struct MPIDI_ETHMX_target *t, struct MPIDI_ETHMX_memory *m,
                        const struct MPIDI_ETHMX_buffer *operand, const struct MPIDI_ETHMX_buffer *result,
                        MPIR_Request **req)
{
    char *from = NULL, *to = NULL;
    size_t bytes;

    if (a->op != ETHMX_RMA_NO_OP) {
        bytes = MPIDI_ETHMX_buffer_bytes(operand, &from);
        m->len_bytes = bytes < m->len_bytes ? bytes : m->len_bytes;
    }
    if (a->fetch) {
        bytes = MPIDI_ETHMX_buffer_bytes(result, &to);
        m->len_bytes = bytes < m->len_bytes ? bytes : m->len_bytes;
    }
    if (m->len_bytes == 0 || (a->op == ETHMX_RMA_NO_OP && !a->fetch))
        return MPIDI_ETHMX_nothing(req);
    if (req || !MPIDI_ETHMX_memory_is_whole(m) || m->len_bytes > atomic_most(a) || (a->fetch && !to) ||
        (a->op != ETHMX_RMA_NO_OP && !from))
        return atomic_parts(a, t, m, operand, result, req);
    if ((from && MPIDI_ETHMX_is_device(from)) || (to && MPIDI_ETHMX_is_device(to)))
        return MPIDI_ETHMX_ERROR(MPIDI_ETHMX_ERR_DEVICE);
    return MPIDI_ETHMX_target_started(t,
                                      atomic_start(a, t, &m->to, from, to, m->len_bytes, MPIDI_ETHMX_target_done, t));
}

int MPIDI_ETHMX_accumulate(const struct MPIDI_ETHMX_buffer *operand, const struct MPIDI_ETHMX_buffer *result,
                           const struct MPIDI_ETHMX_place *to, int type, MPI_Op op, MPIR_Win *win, MPIR_Request **req)
{
    const struct atomic_args a = {.type = type, .op = atomic_op(op), .fetch = result};
    struct MPIDI_ETHMX_target *t = &MPIDI_ETHMX_WINDOW(win)->target[to->rank];
    int mpi_errno = MPI_SUCCESS, status;
    struct MPIDI_ETHMX_memory m;

    MPIDIG_RMA_OP_CHECK_SYNC(to->rank, win);
    if (!atomic_fits(a.op, type))
        return atomic_error(ETHMX_ERR_PARAM);
    MPIDI_ETHMX_LOCK();
    status = MPIDI_ETHMX_memory(&m, t, to);
    mpi_errno = likely(status == ETHMX_OK) ? atomic_begin(&a, t, &m, operand, result, req) : MPIDI_ETHMX_ERROR(status);
    MPIDI_ETHMX_undescribe(&m.strided);
    MPIDI_ETHMX_UNLOCK();

fn_fail:
    return mpi_errno;
}

/* ---- Compare and swap ---- */

int MPIDI_ETHMX_compare_and_swap(const void *set, const void *compare, void *result, MPI_Datatype datatype, int rank,
                                 MPI_Aint disp, MPIR_Win *win)
{
    struct MPIDI_ETHMX_target *t = &MPIDI_ETHMX_WINDOW(win)->target[rank];
    const struct MPIDI_ETHMX_place place = {rank, disp, 1, datatype};
    int type = MPIDI_ETHMX_atomic_type(datatype), mpi_errno = MPI_SUCCESS, status;
    struct MPIDI_ETHMX_memory m;

    MPIDIG_RMA_OP_CHECK_SYNC(rank, win);
    if (MPIDI_ETHMX_is_device(set) || MPIDI_ETHMX_is_device(compare) || MPIDI_ETHMX_is_device(result))
        return MPIDI_ETHMX_ERROR(MPIDI_ETHMX_ERR_DEVICE);
    MPIDI_ETHMX_LOCK();
    status = MPIDI_ETHMX_memory(&m, t, &place);
    if (status == ETHMX_OK && !MPIDI_ETHMX_memory_is_whole(&m))
        status = ETHMX_ERR_ACCESS;
    if (likely(status == ETHMX_OK))
        status = MPIDI_ETHMX_lib.rma_compare_and_swap(MPIDI_ETHMX_global.ep, &m.to, type, compare, set, result,
                                                      MPIDI_ETHMX_target_done, t);
    mpi_errno = MPIDI_ETHMX_target_started(t, status);
    MPIDI_ETHMX_UNLOCK();
    if (unlikely(status == ETHMX_ERR_PARAM))
        mpi_errno = atomic_error(status);

fn_fail:
    return mpi_errno;
}
