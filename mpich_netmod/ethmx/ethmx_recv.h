/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receives.
 *
 * Any source beside ch4's shared memory: ch4 posts such a receive there first, then here, as two requests that know
 * each other (partners). The one that matches first cancels the other. Our cancel is exact, so that is safe: when
 * shared memory has a message for its half it cancels ours, and if ours has matched already, it keeps the message for
 * the next receive. When ours completes, it completes the half that the program knows.
 */
#ifndef ETHMX_RECV_H_INCLUDED
#define ETHMX_RECV_H_INCLUDED

#include "ethmx_data.h"
#include "ethmx_done.h"
#include "ethmx_impl.h"

/* What ethmx_irecv() or ethmx_imrecv() returned. */
MPL_STATIC_INLINE_PREFIX void MPIDI_ETHMX_recv_started(MPIR_Request *rreq, int status, struct ethmx_result *result)
{
    if (status == ETHMX_INPROGRESS)
        return;
    if (unlikely(status < 0))
        *result = (struct ethmx_result){.status = status};
    MPIDI_ETHMX_recv_over(rreq, result);
#if MPIDI_ETHMX_CH4_ANYSRC_OURS
    MPIDI_ETHMX_recv_end_partner(rreq);
#endif
    MPIDI_ETHMX_complete(rreq);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_irecv(void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag,
                                                MPIR_Comm *comm, int attr, MPIDI_av_entry_t *addr, MPIR_Request **req_p,
                                                MPIR_Request *partner)
{
    const struct MPIDI_ETHMX_want w = MPIDI_ETHMX_want(rank, tag, comm, attr, addr);
    struct ethmx_data data;
    struct ethmx_result result;
    int status;
    MPIR_Request *rreq;

    MPIDI_ETHMX_LOCK();
    rreq = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__RECV, 0, 2);
    rreq->comm = comm;
    MPIR_Comm_add_ref(comm);
    MPIDI_REQUEST_SET_LOCAL(rreq, 0, partner);
    MPIDI_ETHMX_REQ(rreq).posted = NULL;
    status = MPIDI_ETHMX_describe(buf, count, datatype, MPIDI_ETHMX_unpack, &MPIDI_ETHMX_REQ(rreq).strided, &data);
    if (likely(status == ETHMX_OK))
        status = MPIDI_ETHMX_lib.irecv(MPIDI_ETHMX_global.ep, w.peer, w.bits, w.mask, &data, MPIDI_ETHMX_recv_done,
                                       rreq, &MPIDI_ETHMX_REQ(rreq).posted, &result);
    MPIDI_ETHMX_recv_started(rreq, status, &result);
    *req_p = rreq;
    MPIDI_ETHMX_UNLOCK();
    return MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_imrecv(void *buf, MPI_Aint count, MPI_Datatype datatype,
                                                 MPIR_Request *message)
{
    struct ethmx_message *msg = MPIDI_ETHMX_REQ(message).message;
    struct ethmx_data data;
    struct ethmx_result result;
    int status;

    MPIDI_ETHMX_LOCK();
    MPIDI_ETHMX_REQ(message).posted = NULL;
    status = MPIDI_ETHMX_describe(buf, count, datatype, MPIDI_ETHMX_unpack, &MPIDI_ETHMX_REQ(message).strided, &data);
    if (likely(status == ETHMX_OK))
        status = MPIDI_ETHMX_lib.imrecv(MPIDI_ETHMX_global.ep, msg, &data, MPIDI_ETHMX_recv_done, message, &result);
    MPIDI_ETHMX_recv_started(message, status, &result);
    MPIDI_ETHMX_UNLOCK();
    return MPI_SUCCESS;
}

/* The caller holds the lock. The request is marked now and completes in a later progress. */
#if MPIDI_ETHMX_CH4_CANCEL_BLOCKS
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_cancel_recv(MPIR_Request *rreq, bool is_blocking)
#else
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_cancel_recv(MPIR_Request *rreq)
#endif
{
    struct ethmx_req *posted = MPIR_Request_is_complete(rreq) ? NULL : MPIDI_ETHMX_REQ(rreq).posted;

    if (posted && MPIDI_ETHMX_lib.cancel(MPIDI_ETHMX_global.ep, posted) == ETHMX_OK) {
        MPIDI_ETHMX_REQ(rreq).posted = NULL;
        MPIR_STATUS_SET_CANCEL_BIT(rreq->status, TRUE);
        MPIR_STATUS_SET_COUNT(rreq->status, 0);
    } else if (posted) {
        MPIDI_ETHMX_cancel_too_late(rreq);
    }
    return MPI_SUCCESS;
}

#endif
