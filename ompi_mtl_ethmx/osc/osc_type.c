/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Datatypes and operations of MPI: the segments of their memory, and those that ethmx has.
 */
#include "osc_ethmx.h"

#include "ompi/datatype/ompi_datatype_internal.h"
#include "ompi/runtime/mpiruntime.h"

#include <wchar.h>

/* ---- Segments --------------------------------------------------------------------------------------------- */

/* The convertor gets addresses of the target, and only lists them. */
void osc_ethmx_segments_init(struct osc_ethmx_segments *s, uint64_t address, size_t count, ompi_datatype_t *type)
{
    s->left_bytes = count * type->super.size;
    s->address = address + (uint64_t)type->super.true_lb;
    s->single = opal_datatype_is_contiguous_memory_layout(&type->super, (int32_t)count);
    s->at = s->count = 0;
    if (!s->single && s->left_bytes > 0) {
        OBJ_CONSTRUCT(&s->convertor, opal_convertor_t);
        opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, count,
                                                 (void *)(uintptr_t)address, 0, &s->convertor);
    } else {
        s->single = true;
    }
}

bool osc_ethmx_segments_next(struct osc_ethmx_segments *s, uint64_t *address_p, size_t *len_bytes_p)
{
    if (0 == s->left_bytes) {
        return false;
    }
    if (s->single) {
        *address_p = s->address;
        *len_bytes_p = s->left_bytes;
    } else {
        if (s->at == s->count) {
            size_t bytes = 0;
            s->at = 0;
            s->count = sizeof(s->listed) / sizeof(s->listed[0]);
            opal_convertor_raw(&s->convertor, s->listed, &s->count, &bytes);
            if (0 == s->count) {
                return false;
            }
        }
        *address_p = (uintptr_t)s->listed[s->at].iov_base;
        *len_bytes_p = s->listed[s->at].iov_len;
        s->at++;
    }
    s->left_bytes -= *len_bytes_p;
    return true;
}

void osc_ethmx_segments_fini(struct osc_ethmx_segments *s)
{
    if (!s->single) {
        OBJ_DESTRUCT(&s->convertor);
    }
}

/* ---- Packing ---------------------------------------------------------------------------------------------- */

void osc_ethmx_pack(void *packed, size_t len_bytes, const void *buf, size_t count, ompi_datatype_t *type)
{
    opal_convertor_t convertor;
    struct iovec iov = {.iov_base = packed, .iov_len = len_bytes};
    uint32_t iovs = 1;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, count, buf, 0, &convertor);
    opal_convertor_pack(&convertor, &iov, &iovs, &len_bytes);
    OBJ_DESTRUCT(&convertor);
}

void osc_ethmx_unpack(const void *packed, size_t len_bytes, void *buf, size_t count, ompi_datatype_t *type)
{
    opal_convertor_t convertor;
    struct iovec iov = {.iov_base = (void *)packed, .iov_len = len_bytes};
    uint32_t iovs = 1;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &type->super, count, buf, 0, &convertor);
    opal_convertor_unpack(&convertor, &iov, &iovs, &len_bytes);
    OBJ_DESTRUCT(&convertor);
}

/* ---- What ethmx has --------------------------------------------------------------------------------------- */

ompi_datatype_t *osc_ethmx_primitive(ompi_datatype_t *type)
{
    return ompi_datatype_is_predefined(type) ? type : ompi_datatype_get_single_predefined_type_from_args(type);
}

static int type_integer(size_t len_bytes, bool is_signed)
{
    switch (len_bytes) {
    case 1:
        return is_signed ? ETHMX_RMA_INT8 : ETHMX_RMA_UINT8;
    case 2:
        return is_signed ? ETHMX_RMA_INT16 : ETHMX_RMA_UINT16;
    case 4:
        return is_signed ? ETHMX_RMA_INT32 : ETHMX_RMA_UINT32;
    case 8:
        return is_signed ? ETHMX_RMA_INT64 : ETHMX_RMA_UINT64;
    default:
        return -1;
    }
}

static int type_real(size_t len_bytes)
{
    return len_bytes == sizeof(float)         ? ETHMX_RMA_FLOAT
           : len_bytes == sizeof(double)      ? ETHMX_RMA_DOUBLE
           : len_bytes == sizeof(long double) ? ETHMX_RMA_LONG_DOUBLE
                                              : -1;
}

static int type_complex(size_t len_bytes)
{
    return len_bytes == 2 * sizeof(float)         ? ETHMX_RMA_COMPLEX_FLOAT
           : len_bytes == 2 * sizeof(double)      ? ETHMX_RMA_COMPLEX_DOUBLE
           : len_bytes == 2 * sizeof(long double) ? ETHMX_RMA_COMPLEX_LONG_DOUBLE
                                                  : -1;
}

/* Logical types: operations result in 0 or 1, which is what C and GNU Fortran have for false and true. Real and complex
 * types of 16 bytes a number that may not be long double are left out. */
int osc_ethmx_type(const ompi_datatype_t *primitive)
{
    size_t bytes = primitive->super.size;
    switch (primitive->id) {
    case OMPI_DATATYPE_MPI_INT8_T:
    case OMPI_DATATYPE_MPI_INT16_T:
    case OMPI_DATATYPE_MPI_INT32_T:
    case OMPI_DATATYPE_MPI_INT64_T:
    case OMPI_DATATYPE_MPI_LONG:
    case OMPI_DATATYPE_MPI_INTEGER:
    case OMPI_DATATYPE_MPI_AINT:
    case OMPI_DATATYPE_MPI_OFFSET:
    case OMPI_DATATYPE_MPI_COUNT:
    case OMPI_DATATYPE_MPI_LOGICAL:
        return type_integer(bytes, true);
    case OMPI_DATATYPE_MPI_WCHAR:
        return type_integer(bytes, WCHAR_MIN < 0);
    case OMPI_DATATYPE_MPI_UINT8_T:
    case OMPI_DATATYPE_MPI_UINT16_T:
    case OMPI_DATATYPE_MPI_UINT32_T:
    case OMPI_DATATYPE_MPI_UINT64_T:
    case OMPI_DATATYPE_MPI_UNSIGNED_LONG:
    case OMPI_DATATYPE_MPI_BOOL:
    case OMPI_DATATYPE_MPI_C_BOOL:
    case OMPI_DATATYPE_MPI_CHARACTER:
    case OMPI_DATATYPE_MPI_PACKED:
        return type_integer(bytes, false);
    case OMPI_DATATYPE_MPI_FLOAT:
    case OMPI_DATATYPE_MPI_DOUBLE:
    case OMPI_DATATYPE_MPI_LONG_DOUBLE:
        return type_real(bytes);
    case OMPI_DATATYPE_MPI_REAL:
    case OMPI_DATATYPE_MPI_DOUBLE_PRECISION:
        return bytes > sizeof(double) ? -1 : type_real(bytes);
    case OMPI_DATATYPE_MPI_C_COMPLEX:
    case OMPI_DATATYPE_MPI_C_FLOAT_COMPLEX:
    case OMPI_DATATYPE_MPI_C_DOUBLE_COMPLEX:
    case OMPI_DATATYPE_MPI_C_LONG_DOUBLE_COMPLEX:
        return type_complex(bytes);
    case OMPI_DATATYPE_MPI_COMPLEX:
    case OMPI_DATATYPE_MPI_DOUBLE_COMPLEX:
    case OMPI_DATATYPE_MPI_COMPLEX8:
    case OMPI_DATATYPE_MPI_COMPLEX16:
        return bytes > 2 * sizeof(double) ? -1 : type_complex(bytes);
    case OMPI_DATATYPE_MPI_2INT:
    case OMPI_DATATYPE_MPI_2INTEGER:
        return bytes == 2 * sizeof(int) ? ETHMX_RMA_INT_INT : -1;
    case OMPI_DATATYPE_MPI_SHORT_INT:
        return ETHMX_RMA_SHORT_INT;
    case OMPI_DATATYPE_MPI_LONG_INT:
        return ETHMX_RMA_LONG_INT;
    case OMPI_DATATYPE_MPI_FLOAT_INT:
        return ETHMX_RMA_FLOAT_INT;
    case OMPI_DATATYPE_MPI_DOUBLE_INT:
        return ETHMX_RMA_DOUBLE_INT;
    case OMPI_DATATYPE_MPI_LONG_DOUBLE_INT:
        return ETHMX_RMA_LONG_DOUBLE_INT;
    default:
        return -1;
    }
}

/* By handle: Open MPI's header of operations includes one that is not installed. */
int osc_ethmx_op_of(MPI_Op op)
{
    static const struct {
        MPI_Op mpi;
        enum ethmx_rma_op rma;
    } ops[] = {
        {MPI_SUM, ETHMX_RMA_SUM},       {MPI_REPLACE, ETHMX_RMA_REPLACE}, {MPI_NO_OP, ETHMX_RMA_NO_OP},
        {MPI_PROD, ETHMX_RMA_PROD},     {MPI_MIN, ETHMX_RMA_MIN},         {MPI_MAX, ETHMX_RMA_MAX},
        {MPI_BAND, ETHMX_RMA_BAND},     {MPI_BOR, ETHMX_RMA_BOR},         {MPI_BXOR, ETHMX_RMA_BXOR},
        {MPI_LAND, ETHMX_RMA_LAND},     {MPI_LOR, ETHMX_RMA_LOR},         {MPI_LXOR, ETHMX_RMA_LXOR},
        {MPI_MINLOC, ETHMX_RMA_MINLOC}, {MPI_MAXLOC, ETHMX_RMA_MAXLOC},
    };
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        if (op == ops[i].mpi) {
            return ops[i].rma;
        }
    }
    return -1;
}
