/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Communicators, operations of reductions, partitioned communication; and the ends of sends and receives, which are not
 * in a hurry to be inlined.
 */
#include "mpidimpl.h"

#include "ethmx_done.h"
#include "ethmx_noinline.h"

/* ---- Ends of sends and receives ---- */

void MPIDI_ETHMX_send_done(void *arg, const struct ethmx_result *result)
{
    MPIR_Request *sreq = arg;

    MPIDI_ETHMX_undescribe(&MPIDI_ETHMX_REQ(sreq).strided);
    if (unlikely(result->status != ETHMX_OK))
        sreq->status.MPI_ERROR = MPIDI_ETHMX_ERROR(result->status);
    MPIDI_ETHMX_complete(sreq);
}

void MPIDI_ETHMX_recv_failed(MPIR_Request *rreq, const struct ethmx_result *result)
{
    MPI_Status *status = &rreq->status;

    if (result->status == ETHMX_ERR_TRUNCATED) {
        status->MPI_SOURCE = MPIDI_ETHMX_bits_source(result->bits);
        status->MPI_TAG = MPIDI_ETHMX_bits_tag(result->bits);
        status->MPI_ERROR =
            MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__, MPI_ERR_TRUNCATE, "**truncate",
                                 "**truncate %d %d %d %d", status->MPI_SOURCE, status->MPI_TAG, (int)result->len_bytes,
                                 (int)result->msg_bytes);
    } else {
        status->MPI_ERROR = MPIDI_ETHMX_ERROR(result->status);
    }
    MPIR_STATUS_SET_COUNT(*status, result->len_bytes);
}

void MPIDI_ETHMX_recv_strided(MPIR_Request *rreq, const struct ethmx_result *result)
{
    MPIDI_ETHMX_strided_t *s = &MPIDI_ETHMX_REQ(rreq).strided;

    if (result->status == ETHMX_OK && MPIDI_ETHMX_strided_splits(s, result->len_bytes))
        rreq->status.MPI_ERROR = MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__,
                                                      MPI_ERR_TYPE, "**dtypemismatch", 0);
    MPIDI_ETHMX_strided_end(s);
}

/* A cancelled receive has its status, and its partner is looked after by who cancelled it. */
void MPIDI_ETHMX_recv_done(void *arg, const struct ethmx_result *result)
{
    MPIR_Request *rreq = arg;

    MPIDI_ETHMX_REQ(rreq).posted = NULL;
    if (unlikely(result->status == ETHMX_ERR_CANCELED)) {
        MPIDI_ETHMX_undescribe(&MPIDI_ETHMX_REQ(rreq).strided);
    } else {
        MPIDI_ETHMX_recv_over(rreq, result);
        MPIDI_ETHMX_recv_end_partner(rreq);
    }
    MPIDI_ETHMX_complete(rreq);
}

/* When a program cancels a receive from any source, ch4 cancels our half, frees one reference to it and cancels the
 * half in shared memory, as if ours were always cancelled by that. But the message may be on its way into the buffer.
 * So the other half is taken out of shared memory's hands here and marked, so that ch4 leaves it; ours completes it as
 * any. Shared memory, when it cancels ours because it has a message itself, has taken its half out already: then
 * nothing is to do. */
void MPIDI_ETHMX_cancel_too_late(MPIR_Request *rreq)
{
#ifndef MPIDI_CH4_DIRECT_NETMOD
    MPIR_Request *half = MPIDI_ETHMX_PARTNER(rreq);

    if (!half || !MPIDIG_delete_posted(half, &MPIDI_global.per_vci[0].posted_list))
        return;
    MPIR_Datatype_release_if_not_builtin(MPIDIG_REQUEST(half, datatype));
    MPIR_STATUS_SET_CANCEL_BIT(half->status, TRUE);
#if MPIDI_ETHMX_CH4_ANYSRC_PARTS
    half->dev.anysrc_partner = NULL;
#endif
    MPIR_Request_add_ref(rreq); /* the one that ch4 frees */
#endif
}

/* ---- Communicators ---- */

int MPIDI_ETHMX_mpi_comm_commit_pre_hook(MPIR_Comm *comm)
{
#if MPIDI_ETHMX_CH4_LPID
    if (comm->attr & MPIR_COMM_ATTR__BOOTSTRAP)
        return MPIDI_ETHMX_comm_address_exchange(comm);
#endif
    return MPI_SUCCESS;
}

int MPIDI_ETHMX_mpi_comm_commit_post_hook(MPIR_Comm *comm)
{
    return MPI_SUCCESS;
}

/* Context ids are used again: what nobody received must not meet the next communicator's receives. The lowest bit of a
 * context tells point-to-point from collective.
 *
 * 5.0 also calls this for the communicators of a communicator's nodes. Those of an intercommunicator have context ids
 * of the other side, which here may belong to another communicator: its messages must stay. */
int MPIDI_ETHMX_mpi_comm_free_hook(MPIR_Comm *comm)
{
#if MPIDI_ETHMX_CH4_LPID
    if (comm->attr & MPIR_COMM_ATTR__SUBCOMM)
        return MPI_SUCCESS;
#endif
    if (MPIDI_ETHMX_global.ep)
        MPIDI_ETHMX_lib.flush_unexpected(MPIDI_ETHMX_global.ep, MPIDI_ETHMX_bits(comm->recvcontext_id, 0, 0),
                                         MPIDI_ETHMX_CONTEXT_MASK & ~(1ull << MPIDI_ETHMX_CONTEXT_SHIFT));
    return MPI_SUCCESS;
}

int MPIDI_ETHMX_comm_set_hints(MPIR_Comm *comm_ptr, MPIR_Info *info)
{
    return MPI_SUCCESS;
}

/* ---- Operations of reductions ---- */

int MPIDI_ETHMX_mpi_op_commit_hook(MPIR_Op *op_p)
{
    return MPI_SUCCESS;
}

int MPIDI_ETHMX_mpi_op_free_hook(MPIR_Op *op_p)
{
    return MPI_SUCCESS;
}

/* ---- Partitioned communication ---- */

int MPIDI_ETHMX_mpi_psend_init(const void *buf, int partitions, MPI_Aint count, MPI_Datatype datatype, int rank,
                               int tag, MPIR_Comm *comm, MPIR_Info *info, MPIDI_av_entry_t *av, MPIR_Request **req_p)
{
    return MPIDIG_mpi_psend_init(buf, partitions, count, datatype, rank, tag, comm, info, req_p);
}

int MPIDI_ETHMX_mpi_precv_init(void *buf, int partitions, MPI_Aint count, MPI_Datatype datatype, int rank, int tag,
                               MPIR_Comm *comm, MPIR_Info *info, MPIDI_av_entry_t *av, MPIR_Request **req_p)
{
#if MPIDI_ETHMX_CH4_PRECV_LOCAL
    return MPIDIG_mpi_precv_init(buf, partitions, count, datatype, rank, tag, comm, info, false, req_p);
#else
    return MPIDIG_mpi_precv_init(buf, partitions, count, datatype, rank, tag, comm, info, req_p);
#endif
}
