/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Probes. ch4 makes progress between them.
 */
#ifndef ETHMX_PROBE_H_INCLUDED
#define ETHMX_PROBE_H_INCLUDED

#include "ethmx_impl.h"

/* What a look found: flag, status, MPI error code. */
MPL_STATIC_INLINE_PREFIX int MPIDI_ETHMX_probed(int rc, const struct ethmx_result *result, int *flag,
                                                MPI_Status *status)
{
    *flag = rc == ETHMX_OK;
    if (rc == ETHMX_OK && status != MPI_STATUS_IGNORE) {
        status->MPI_SOURCE = MPIDI_ETHMX_bits_source(result->bits);
        status->MPI_TAG = MPIDI_ETHMX_bits_tag(result->bits);
        MPIR_STATUS_SET_COUNT(*status, result->msg_bytes);
        MPIR_STATUS_SET_CANCEL_BIT(*status, FALSE);
    }
    return rc == ETHMX_OK || rc == ETHMX_ERR_NO_MATCH ? MPI_SUCCESS : MPIDI_ETHMX_ERROR(rc);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_iprobe(int source, int tag, MPIR_Comm *comm, int attr, MPIDI_av_entry_t *addr,
                                                 int *flag, MPI_Status *status)
{
    const struct MPIDI_ETHMX_want w = MPIDI_ETHMX_want(source, tag, comm, attr, addr);
    struct ethmx_result result;
    int rc;

    MPIDI_ETHMX_LOCK();
    rc = MPIDI_ETHMX_lib.iprobe(MPIDI_ETHMX_global.ep, w.peer, w.bits, w.mask, &result);
    MPIDI_ETHMX_UNLOCK();
    return MPIDI_ETHMX_probed(rc, &result, flag, status);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_improbe(int source, int tag, MPIR_Comm *comm, int attr,
                                                  MPIDI_av_entry_t *addr, int *flag, MPIR_Request **message_p,
                                                  MPI_Status *status)
{
    const struct MPIDI_ETHMX_want w = MPIDI_ETHMX_want(source, tag, comm, attr, addr);
    struct ethmx_message *msg;
    struct ethmx_result result;
    int rc;

    *message_p = NULL;
    MPIDI_ETHMX_LOCK();
    rc = MPIDI_ETHMX_lib.improbe(MPIDI_ETHMX_global.ep, w.peer, w.bits, w.mask, &msg, &result);
    if (rc == ETHMX_OK) {
        MPIR_Request *req = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__MPROBE, 0, 2);

        req->comm = comm;
        MPIR_Comm_add_ref(comm);
        MPIDI_REQUEST_SET_LOCAL(req, 0, NULL);
        MPIDI_ETHMX_REQ(req).message = msg;
        *message_p = req;
    }
    MPIDI_ETHMX_UNLOCK();
    return MPIDI_ETHMX_probed(rc, &result, flag, status);
}

#endif
