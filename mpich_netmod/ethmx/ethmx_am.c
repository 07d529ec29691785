/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Active messages that arrive, and the ends of those that were sent.
 */
#include "mpidimpl.h"

#include "ethmx_data.h"
#include "ethmx_impl.h"

void MPIDI_ETHMX_am_sent(void *arg, const struct ethmx_result *result)
{
    MPIR_Request *sreq = arg;

    MPIDI_ETHMX_undescribe(&MPIDI_ETHMX_AM_REQ(sreq).strided);
    if (unlikely(result->status != ETHMX_OK))
        sreq->status.MPI_ERROR = MPIDI_ETHMX_ERROR(result->status);
    MPIDIG_global.origin_cbs[MPIDI_ETHMX_AM_REQ(sreq).handler_id](sreq);
}

/* ---- Data that ch4 wants in a place of its own ---- */

static void data_received(void *arg, const struct ethmx_result *result)
{
    MPIR_Request *rreq = arg;

    if (unlikely(result->status != ETHMX_OK) && rreq->status.MPI_ERROR == MPI_SUCCESS)
        rreq->status.MPI_ERROR = MPIDI_ETHMX_ERROR(result->status);
    MPIR_STATUS_SET_COUNT(rreq->status, result->len_bytes);
    MPIDIG_REQUEST(rreq, req->target_cmpl_cb)(rreq);
}

/* Receives into the place that ch4's handler has set up in rreq. */
static void receive_data(MPIR_Request *rreq, const struct ethmx_am *am)
{
    struct ethmx_data data = {0};
    struct ethmx_result result;
    int is_contig, is_gpu, status;
    void *place;
    MPI_Aint n;

    MPIDIG_get_recv_data(&is_contig, &is_gpu, &place, &n, rreq);
    if (is_contig) {
        data.base = place;
        data.len_bytes = n;
    } else {
        /* ethmx_iov is iovec by another name */
        data.iov = place;
        data.iov_count = n;
        data.len_bytes = am->data_bytes;
    }
    status = is_gpu ? MPIDI_ETHMX_ERR_DEVICE
                    : MPIDI_ETHMX_lib.imrecv(MPIDI_ETHMX_global.ep, am->msg, &data, data_received, rreq, &result);
    if (status < 0)
        result = (struct ethmx_result){.status = status};
    if (status != ETHMX_INPROGRESS)
        data_received(rreq, &result);
}

/* ---- Arrival ---- */

/* What the sender says of the message's place in ch4 chooses a function here. */
static bool is_known(const struct MPIDI_ETHMX_am_header *h)
{
    return h->handler_id < MPIDI_AM_HANDLERS_MAX && MPIDIG_global.target_msg_cbs[h->handler_id] &&
           h->src_vci < MPIDI_global.n_vcis && h->dst_vci < MPIDI_global.n_vcis;
}

static void complain(const struct MPIDI_ETHMX_am_header *h)
{
    static bool told;

    if (!told)
        MPL_internal_error_printf(
            "ethmx: dropped an active message for handler %u of VCI %u, which this MPICH does not "
            "have; this is said once\n",
            h->handler_id, h->dst_vci);
    told = true;
}

static bool am_arrived(void *arg, const struct ethmx_am *am)
{
    struct {
        struct MPIDI_ETHMX_am_header own;
        char ch4[MPIDI_ETHMX_AM_HEADER_MAX];
    } header;
    uint32_t attr = 0;
    MPIR_Request *rreq = NULL;

    if (am->header_bytes < sizeof(header.own) || am->header_bytes > sizeof(header))
        return false;
    memcpy(&header, am->header, am->header_bytes); /* aligned as ch4 needs it */
    if (unlikely(!is_known(&header.own))) {
        complain(&header.own);
        return false;
    }
    MPIDIG_AM_ATTR_SET_VCIS(attr, header.own.src_vci, header.own.dst_vci);
    if (am->data || am->data_bytes == 0) {
        MPIDIG_global.target_msg_cbs[header.own.handler_id](header.ch4, (void *)am->data, am->data_bytes, attr, NULL);
        return false;
    }
    attr |= MPIDIG_AM_ATTR__IS_ASYNC;
    MPIDIG_global.target_msg_cbs[header.own.handler_id](header.ch4, NULL, am->data_bytes, attr, &rreq);
    if (rreq)
        receive_data(rreq, am);
    return false;
}

int MPIDI_ETHMX_am_init(void)
{
    return MPIDI_ETHMX_ERROR(MPIDI_ETHMX_lib.am_handler(MPIDI_ETHMX_global.ep, MPIDI_ETHMX_AM_ID, am_arrived, NULL));
}
