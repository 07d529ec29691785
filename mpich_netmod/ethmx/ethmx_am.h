/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ch4's active messages over ethmx's. All go to one handler of ethmx (ethmx_am.c), with ch4's number of the handler in
 * front of ch4's header. Data of any length goes straight from where it lies to where ch4's handler wants it.
 */
#ifndef ETHMX_AM_H_INCLUDED
#define ETHMX_AM_H_INCLUDED

#include "ethmx_data.h"
#include "ethmx_impl.h"

/* Above this ch4 asks the receiver first, for messages that nobody may be waiting for. */
#define MPIDI_ETHMX_AM_EAGER_MAX (16 * 1024)

MPL_STATIC_INLINE_PREFIX int MPIDI_ETHMX_am_send(int rank, MPIR_Comm *comm, int handler_id, const void *am_hdr,
                                                 MPI_Aint am_hdr_sz, const struct ethmx_data *data, int src_vci,
                                                 int dst_vci, MPIR_Request *sreq)
{
    struct {
        struct MPIDI_ETHMX_am_header own;
        char ch4[MPIDI_ETHMX_AM_HEADER_MAX];
    } header;

    MPIR_Assert(am_hdr_sz <= MPIDI_ETHMX_AM_HEADER_MAX);
    header.own = (struct MPIDI_ETHMX_am_header){.handler_id = handler_id, .src_vci = src_vci, .dst_vci = dst_vci};
    memcpy(header.ch4, am_hdr, am_hdr_sz);
    return MPIDI_ETHMX_lib.am_send(MPIDI_ETHMX_global.ep, MPIDI_ETHMX_PEER(MPIDIU_comm_rank_to_av(comm, rank)),
                                   MPIDI_ETHMX_AM_ID, &header, sizeof(header.own) + am_hdr_sz, data,
                                   sreq ? MPIDI_ETHMX_am_sent : NULL, sreq);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_send_hdr(int rank, MPIR_Comm *comm, int handler_id, const void *am_hdr,
                                                  MPI_Aint am_hdr_sz, int src_vci, int dst_vci)
{
    const struct ethmx_data none = {0};
    int status = MPIDI_ETHMX_am_send(rank, comm, handler_id, am_hdr, am_hdr_sz, &none, src_vci, dst_vci, NULL);

    return likely(status >= 0) ? MPI_SUCCESS : MPIDI_ETHMX_ERROR(status);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_isend(int rank, MPIR_Comm *comm, int handler_id, const void *am_hdr,
                                               MPI_Aint am_hdr_sz, const void *data, MPI_Aint count,
                                               MPI_Datatype datatype, int src_vci, int dst_vci, MPIR_Request *sreq)
{
    MPIDI_ETHMX_am_request_t *am = &MPIDI_ETHMX_AM_REQ(sreq);
    struct ethmx_data described;
    int status = MPIDI_ETHMX_describe(data, count, datatype, MPIDI_ETHMX_pack, &am->strided, &described);

    am->handler_id = handler_id;
    if (likely(status == ETHMX_OK))
        status = MPIDI_ETHMX_am_send(rank, comm, handler_id, am_hdr, am_hdr_sz, &described, src_vci, dst_vci, sreq);
    if (unlikely(status == ETHMX_INPROGRESS))
        return MPI_SUCCESS;
    MPIDI_ETHMX_undescribe(&am->strided);
    return likely(status == ETHMX_OK) ? MPIDIG_global.origin_cbs[handler_id](sreq) : MPIDI_ETHMX_ERROR(status);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_send_hdr_reply(MPIR_Comm *comm, int src_rank, int handler_id,
                                                        const void *am_hdr, MPI_Aint am_hdr_sz, int src_vci,
                                                        int dst_vci)
{
    return MPIDI_NM_am_send_hdr(src_rank, comm, handler_id, am_hdr, am_hdr_sz, src_vci, dst_vci);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_isend_reply(MPIR_Comm *comm, int src_rank, int handler_id, const void *am_hdr,
                                                     MPI_Aint am_hdr_sz, const void *data, MPI_Aint count,
                                                     MPI_Datatype datatype, int src_vci, int dst_vci,
                                                     MPIR_Request *sreq)
{
    return MPIDI_NM_am_isend(src_rank, comm, handler_id, am_hdr, am_hdr_sz, data, count, datatype, src_vci, dst_vci,
                             sreq);
}

MPL_STATIC_INLINE_PREFIX MPI_Aint MPIDI_NM_am_hdr_max_sz(void)
{
    return MPIDI_ETHMX_AM_HEADER_MAX;
}

MPL_STATIC_INLINE_PREFIX MPI_Aint MPIDI_NM_am_eager_limit(void)
{
    return MPIDI_ETHMX_AM_EAGER_MAX;
}

MPL_STATIC_INLINE_PREFIX MPI_Aint MPIDI_NM_am_eager_buf_limit(void)
{
    return MPIDI_ETHMX_AM_EAGER_MAX;
}

MPL_STATIC_INLINE_PREFIX bool MPIDI_NM_am_check_eager(MPI_Aint am_hdr_sz, MPI_Aint data_sz, const void *data,
                                                      MPI_Aint count, MPI_Datatype datatype, MPIR_Request *sreq)
{
    return data_sz <= MPIDI_ETHMX_AM_EAGER_MAX;
}

/* For netmods with a rendezvous of their own inside ch4's; ethmx's is below all this. */
MPL_STATIC_INLINE_PREFIX MPIDIG_recv_data_copy_cb MPIDI_NM_am_get_data_copy_cb(uint32_t attr)
{
    return NULL;
}

MPL_STATIC_INLINE_PREFIX void MPIDI_NM_am_request_init(MPIR_Request *req)
{
    MPIDI_ETHMX_AM_REQ(req).strided.layout = NULL;
}

MPL_STATIC_INLINE_PREFIX void MPIDI_NM_am_request_finalize(MPIR_Request *req)
{
}

#if MPIDI_ETHMX_CH4_AM_TAG

/* Not needed: data of any length goes straight to its place anyway. */
#if MPIDI_ETHMX_CH4_LPID
MPL_STATIC_INLINE_PREFIX bool MPIDI_NM_am_can_do_tag(MPIR_Request *rreq)
#else
MPL_STATIC_INLINE_PREFIX bool MPIDI_NM_am_can_do_tag(void)
#endif
{
    return false;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_tag_send(int rank, MPIR_Comm *comm, int handler_id, int tag, const void *buf,
                                                  MPI_Aint count, MPI_Datatype datatype, int src_vci, int dst_vci,
                                                  MPIR_Request *sreq)
{
    MPIR_Assert(0);
    return MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_tag_recv(int rank, MPIR_Comm *comm, int handler_id, int tag, void *buf,
                                                  MPI_Aint count, MPI_Datatype datatype, int src_vci, int dst_vci,
                                                  MPIR_Request *rreq)
{
    MPIR_Assert(0);
    return MPI_SUCCESS;
}

#endif

#endif
