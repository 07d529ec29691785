/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receives.
 */
#include "mtl_ethmx.h"

#include "ompi/message/message.h"

static void irecv_complete(struct mtl_ethmx_request *r, const struct ethmx_result *result)
{
    struct ompi_status_public_t *status = &r->super.ompi_req->req_status;
    mtl_ethmx_undescribe(r->layout);
    if (OPAL_LIKELY(ETHMX_OK == result->status || ETHMX_ERR_TRUNCATED == result->status)) {
        status->MPI_SOURCE = mtl_ethmx_bits_source(result->bits);
        status->MPI_TAG = mtl_ethmx_bits_tag(result->bits);
    }
    status->_ucount = result->len_bytes;
    status->_cancelled = ETHMX_ERR_CANCELED == result->status;
    status->MPI_ERROR = status->_cancelled ? MPI_SUCCESS : mtl_ethmx_mpi_error(result->status);
    r->super.completion_callback(&r->super);
}

/* The lock is for cancel.c: while it is held, a request that is still posted stays valid. */
static void irecv_done(void *arg, const struct ethmx_result *result)
{
    struct mtl_ethmx_request *r = arg;
    OPAL_THREAD_LOCK(&mtl_ethmx.lock);
    r->posted = NULL;
    OPAL_THREAD_UNLOCK(&mtl_ethmx.lock);
    irecv_complete(r, result);
}

/* What ethmx_irecv() or ethmx_imrecv() returned. */
static int irecv_started(struct mtl_ethmx_request *r, const struct ompi_communicator_t *comm, int status,
                         const struct ethmx_result *result)
{
    if (ETHMX_OK == status) {
        irecv_complete(r, result);
        mtl_ethmx_tell_self(comm, mtl_ethmx_bits_source(result->bits));
    } else if (OPAL_UNLIKELY(status < 0)) {
        mtl_ethmx_undescribe(r->layout);
        return mtl_ethmx_ompi_error(status);
    }
    return OMPI_SUCCESS;
}

int mtl_ethmx_irecv(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm, int src, int tag,
                    struct opal_convertor_t *convertor, struct mca_mtl_request_t *mtl_request)
{
    (void)mtl;
    struct mtl_ethmx_request *r = mtl_ethmx_request(mtl_request);
    r->posted = NULL;
    struct mtl_ethmx_want want;
    int rc = mtl_ethmx_want(comm, src, tag, &want);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    struct ethmx_data data;
    rc = mtl_ethmx_describe(convertor, mtl_ethmx_layout_unpack, &data, &r->layout);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    struct ethmx_result result;
    int status = ethmx_irecv(mtl_ethmx.ep, want.peer, want.bits, want.mask, &data, irecv_done, r, &r->posted, &result);
    return irecv_started(r, comm, status, &result);
}

int mtl_ethmx_imrecv(struct mca_mtl_base_module_t *mtl, struct opal_convertor_t *convertor,
                     struct ompi_message_t **message, struct mca_mtl_request_t *mtl_request)
{
    (void)mtl;
    struct mtl_ethmx_request *r = mtl_ethmx_request(mtl_request);
    r->posted = NULL;
    struct ethmx_data data;
    int rc = mtl_ethmx_describe(convertor, mtl_ethmx_layout_unpack, &data, &r->layout);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    struct ethmx_message *msg = (*message)->req_ptr;
    const struct ompi_communicator_t *comm = (*message)->comm;
    ompi_message_return(*message);
    *message = MPI_MESSAGE_NULL;
    struct ethmx_result result;
    int status = ethmx_imrecv(mtl_ethmx.ep, msg, &data, irecv_done, r, &result);
    return irecv_started(r, comm, status, &result);
}
