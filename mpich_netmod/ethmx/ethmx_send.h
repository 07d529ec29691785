/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sends. Most are complete at once: they give MPICH the one request that stands for all such, and the request that was
 * made for the case that they are not is kept for the next send.
 */
#ifndef ETHMX_SEND_H_INCLUDED
#define ETHMX_SEND_H_INCLUDED

#include "ethmx_data.h"
#include "ethmx_done.h"
#include "ethmx_impl.h"

MPL_STATIC_INLINE_PREFIX MPIR_Request *MPIDI_ETHMX_send_request(void)
{
    MPIR_Request *sreq = MPIDI_ETHMX_global.next_send;

    if (unlikely(!sreq)) {
        sreq = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__SEND, 0, 2);
        MPIDI_REQUEST_SET_LOCAL(sreq, 0, NULL);
    }
    MPIDI_ETHMX_global.next_send = NULL;
    return sreq;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_ETHMX_send(const void *buf, MPI_Aint count, MPI_Datatype datatype, int tag,
                                              MPIR_Comm *comm, int context_offset, MPIDI_av_entry_t *av,
                                              enum ethmx_send_mode mode, MPIR_Request **request)
{
    struct ethmx_data data;
    int status;
    MPIR_Request *sreq;

    MPIDI_ETHMX_LOCK();
    sreq = MPIDI_ETHMX_send_request();
    status = MPIDI_ETHMX_describe(buf, count, datatype, MPIDI_ETHMX_pack, &MPIDI_ETHMX_REQ(sreq).strided, &data);
    if (likely(status == ETHMX_OK))
        status = MPIDI_ETHMX_lib.isend(MPIDI_ETHMX_global.ep, MPIDI_ETHMX_PEER(av),
                                       MPIDI_ETHMX_bits(comm->context_id + context_offset, comm->rank, tag), &data,
                                       mode, MPIDI_ETHMX_send_done, sreq);
    if (likely(status != ETHMX_INPROGRESS)) {
        MPIDI_ETHMX_undescribe(&MPIDI_ETHMX_REQ(sreq).strided);
        MPIDI_ETHMX_global.next_send = sreq;
        *request = likely(status >= 0) ? MPIR_Request_create_complete(MPIR_REQUEST_KIND__SEND) : NULL;
    } else {
        sreq->comm = comm; /* whose error handler is asked */
        MPIR_Comm_add_ref(comm);
        *request = sreq;
    }
    MPIDI_ETHMX_UNLOCK();
    return likely(status >= 0) ? MPI_SUCCESS : MPIDI_ETHMX_ERROR(status);
}

/* A send of a collective tells the receiver, in the tag, of an error that happened before. */
MPL_STATIC_INLINE_PREFIX int MPIDI_ETHMX_flagged_tag(int tag, int errflag)
{
    if (unlikely(errflag == MPIX_ERR_PROC_FAILED)) {
        MPIR_TAG_SET_PROC_FAILURE_BIT(tag);
    } else if (unlikely(errflag != MPI_SUCCESS)) {
        MPIR_TAG_SET_ERROR_BIT(tag);
    }
    return tag;
}

#if MPIDI_ETHMX_CH4_ATTR

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_isend(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank,
                                                int tag, MPIR_Comm *comm, int attr, MPIDI_av_entry_t *addr,
                                                MPIR_Request **req_p)
{
    enum ethmx_send_mode mode = MPIR_PT2PT_ATTR_GET_SYNCFLAG(attr) ? ETHMX_SEND_SYNC : ETHMX_SEND_STANDARD;

    tag = MPIDI_ETHMX_flagged_tag(tag, MPIR_PT2PT_ATTR_GET_ERRFLAG(attr));
    return MPIDI_ETHMX_send(buf, count, datatype, tag, comm, MPIDI_ETHMX_CONTEXT_OFFSET(attr), addr, mode, req_p);
}

#else

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_isend(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank,
                                                int tag, MPIR_Comm *comm, int context_offset, MPIDI_av_entry_t *addr,
                                                MPIR_Request **req_p)
{
    return MPIDI_ETHMX_send(buf, count, datatype, tag, comm, context_offset, addr, ETHMX_SEND_STANDARD, req_p);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_issend(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank,
                                                 int tag, MPIR_Comm *comm, int context_offset, MPIDI_av_entry_t *addr,
                                                 MPIR_Request **req_p)
{
    return MPIDI_ETHMX_send(buf, count, datatype, tag, comm, context_offset, addr, ETHMX_SEND_SYNC, req_p);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_isend_coll(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank,
                                                 int tag, MPIR_Comm *comm, int context_offset, MPIDI_av_entry_t *addr,
                                                 MPIR_Request **req_p, MPIR_Errflag_t *errflag)
{
    tag = MPIDI_ETHMX_flagged_tag(tag, *errflag);
    return MPIDI_ETHMX_send(buf, count, datatype, tag, comm, context_offset, addr, ETHMX_SEND_STANDARD, req_p);
}

#endif

/* Sends are not cancelled: MPI leaves it to us, and MPI 4 deprecates it. */
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_cancel_send(MPIR_Request *sreq)
{
    return MPI_SUCCESS;
}

#endif
