/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The ends of sends and receives: what the calls that end at once share with the callbacks (ethmx_comm.c).
 *
 * No MPIDI_NM_ function is here, nor in ethmx_impl.h: an MPICH with several netmods has its own of these names, and our
 * .c files must not define them again.
 */
#ifndef ETHMX_DONE_H_INCLUDED
#define ETHMX_DONE_H_INCLUDED

#include "ethmx_data.h"
#include "ethmx_impl.h"

/* ethmx_done_fn; arg is the request. */
void MPIDI_ETHMX_send_done(void *arg, const struct ethmx_result *result);
void MPIDI_ETHMX_recv_done(void *arg, const struct ethmx_result *result);

/* Of a receive that has matched, and whose data is still coming, when somebody cancels it. */
void MPIDI_ETHMX_cancel_too_late(MPIR_Request *rreq);

/* The end of a receive of data that is not contiguous. */
void MPIDI_ETHMX_recv_strided(MPIR_Request *rreq, const struct ethmx_result *result);

/* The other half of a receive from any source has ended with ours. */
MPL_STATIC_INLINE_PREFIX void MPIDI_ETHMX_recv_end_partner(MPIR_Request *rreq)
{
#ifndef MPIDI_CH4_DIRECT_NETMOD
    int is_cancelled;

    MPIDI_anysrc_try_cancel_partner(rreq, &is_cancelled);
    MPIDI_anysrc_free_partner(rreq);
#endif
}

/* The status of a receive that was not done. */
void MPIDI_ETHMX_recv_failed(MPIR_Request *rreq, const struct ethmx_result *result);

MPL_STATIC_INLINE_PREFIX void MPIDI_ETHMX_recv_status(MPIR_Request *rreq, const struct ethmx_result *result)
{
    if (unlikely(result->status != ETHMX_OK)) {
        MPIDI_ETHMX_recv_failed(rreq, result);
        return;
    }
    rreq->status.MPI_SOURCE = MPIDI_ETHMX_bits_source(result->bits);
    rreq->status.MPI_TAG = MPIDI_ETHMX_bits_tag(result->bits);
    rreq->status.MPI_ERROR = MPI_SUCCESS;
    MPIR_STATUS_SET_COUNT(rreq->status, result->len_bytes);
}

/* All but the completion. */
MPL_STATIC_INLINE_PREFIX void MPIDI_ETHMX_recv_over(MPIR_Request *rreq, const struct ethmx_result *result)
{
    MPIDI_ETHMX_recv_status(rreq, result);
    if (unlikely(MPIDI_ETHMX_REQ(rreq).strided.layout))
        MPIDI_ETHMX_recv_strided(rreq, result);
}

#endif
