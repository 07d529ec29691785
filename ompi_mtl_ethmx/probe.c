/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Probes. A program may do nothing but probe, so a probe that finds nothing makes progress and looks once more.
 */
#include "mtl_ethmx.h"

#include "ompi/message/message.h"
#include "opal/runtime/opal_progress.h"

static void probe_status_fill(struct ompi_status_public_t *status, const struct ethmx_result *result)
{
    if (MPI_STATUS_IGNORE == status) {
        return;
    }
    status->MPI_SOURCE = mtl_ethmx_bits_source(result->bits);
    status->MPI_TAG = mtl_ethmx_bits_tag(result->bits);
    status->_ucount = result->msg_bytes;
    status->_cancelled = 0;
}

/* What a look found: flag 1, 0, or an OMPI_ERR_*. */
static int probe_probed(int rc, int *flag)
{
    *flag = ETHMX_OK == rc;
    return ETHMX_OK == rc || ETHMX_ERR_NO_MATCH == rc ? OMPI_SUCCESS : mtl_ethmx_ompi_error(rc);
}

int mtl_ethmx_iprobe(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm, int src, int tag, int *flag,
                     struct ompi_status_public_t *status)
{
    (void)mtl;
    struct mtl_ethmx_want want;
    int rc = mtl_ethmx_want(comm, src, tag, &want);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    struct ethmx_result result;
    rc = ethmx_iprobe(mtl_ethmx.ep, want.peer, want.bits, want.mask, &result);
    if (ETHMX_ERR_NO_MATCH == rc) {
        opal_progress();
        rc = ethmx_iprobe(mtl_ethmx.ep, want.peer, want.bits, want.mask, &result);
    }
    if (ETHMX_OK == rc) {
        probe_status_fill(status, &result);
    }
    return probe_probed(rc, flag);
}

int mtl_ethmx_improbe(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm, int src, int tag,
                      int *matched, struct ompi_message_t **message, struct ompi_status_public_t *status)
{
    (void)mtl;
    struct mtl_ethmx_want want;
    int rc = mtl_ethmx_want(comm, src, tag, &want);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    /* First what may fail: a message taken out of matching could not be put back. */
    struct ompi_message_t *m = ompi_message_alloc();
    if (NULL == m) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    struct ethmx_message *msg;
    struct ethmx_result result;
    rc = ethmx_improbe(mtl_ethmx.ep, want.peer, want.bits, want.mask, &msg, &result);
    if (ETHMX_ERR_NO_MATCH == rc) {
        opal_progress();
        rc = ethmx_improbe(mtl_ethmx.ep, want.peer, want.bits, want.mask, &msg, &result);
    }
    if (ETHMX_OK != rc) {
        ompi_message_return(m);
        *message = MPI_MESSAGE_NULL;
        return probe_probed(rc, matched);
    }
    m->comm = comm;
    m->req_ptr = msg;
    m->peer = mtl_ethmx_bits_source(result.bits);
    m->count = result.msg_bytes;
    *message = m;
    probe_status_fill(status, &result);
    return probe_probed(rc, matched);
}
