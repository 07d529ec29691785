/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Data: MPI's (buffer, count, datatype) as ethmx_data. What is not contiguous is copied piece by piece between the
 * program's memory and the frames, without a buffer in between (ethmx_data.c).
 */
#ifndef ETHMX_DATA_H_INCLUDED
#define ETHMX_DATA_H_INCLUDED

#include "ethmx_impl.h"

/* ethmx_copy_fn; arg is a MPIDI_ETHMX_strided_t. */
void MPIDI_ETHMX_pack(void *arg, size_t offset, void *buf, size_t len_bytes);
void MPIDI_ETHMX_unpack(void *arg, size_t offset, void *buf, size_t len_bytes);

/* Finds or makes the layout of datatype for the operation that s belongs to. false: out of memory. */
bool MPIDI_ETHMX_strided_begin(MPIDI_ETHMX_strided_t *s, void *buf, MPI_Datatype datatype, MPIR_Datatype *dt);
void MPIDI_ETHMX_strided_end(MPIDI_ETHMX_strided_t *s);

/* Whether so many bytes end inside a basic element: then what was sent is of another type. Told only for datatypes of
 * one basic type. */
bool MPIDI_ETHMX_strided_splits(const MPIDI_ETHMX_strided_t *s, size_t len_bytes);

/* The contiguous bytes from this offset of the packed message on; *at_p is where they begin, from the buffer's address.
 */
size_t MPIDI_ETHMX_strided_piece(MPIDI_ETHMX_strided_t *s, size_t offset, MPI_Aint *at_p);
/* In how many such pieces len_bytes lie, about. */
size_t MPIDI_ETHMX_strided_pieces(const MPIDI_ETHMX_strided_t *s, size_t len_bytes);

/* What MPICH knows of a pointer; asked only where it was built for devices and MPIR_CVAR_ENABLE_GPU is set. Memory that
 * host and device share is the host's, too. */
#ifndef MPIDI_ETHMX_is_device
#define MPIDI_ETHMX_is_device(p) MPIR_GPU_query_pointer_is_dev(p)
#endif

/* Fills *data; s must stay, and MPIDI_ETHMX_undescribe(s) be called, when the operation is over. ETHMX_OK,
 * ETHMX_ERR_NO_MEMORY or MPIDI_ETHMX_ERR_DEVICE. */
MPL_STATIC_INLINE_PREFIX int MPIDI_ETHMX_describe(const void *buf, MPI_Aint count, MPI_Datatype datatype,
                                                  ethmx_copy_fn copy, MPIDI_ETHMX_strided_t *s, struct ethmx_data *data)
{
    int is_contig;
    size_t bytes;
    MPI_Aint true_lb;
    MPIR_Datatype *dt;

    MPIDI_Datatype_get_info(count, datatype, is_contig, bytes, dt, true_lb);
    s->layout = NULL;
    *data = (struct ethmx_data){.len_bytes = bytes};
    if (bytes > 0 && MPIDI_ETHMX_is_device(MPIR_get_contig_ptr(buf, true_lb)))
        return MPIDI_ETHMX_ERR_DEVICE;
    if (likely(is_contig || bytes == 0)) {
        data->base = MPIR_get_contig_ptr(buf, true_lb);
        return ETHMX_OK;
    }
    if (!MPIDI_ETHMX_strided_begin(s, (void *)buf, datatype, dt))
        return ETHMX_ERR_NO_MEMORY;
    data->copy = copy;
    data->copy_arg = s;
    return ETHMX_OK;
}

MPL_STATIC_INLINE_PREFIX void MPIDI_ETHMX_undescribe(MPIDI_ETHMX_strided_t *s)
{
    if (unlikely(s->layout))
        MPIDI_ETHMX_strided_end(s);
}

#endif
