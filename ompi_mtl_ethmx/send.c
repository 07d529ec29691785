/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sends. Open MPI's buffered sends come with a packed copy and are complete for the program already; here they are
 * like standard ones.
 */
#include "mtl_ethmx.h"

#include "opal/runtime/opal_progress.h"

static inline enum ethmx_send_mode send_mode(mca_pml_base_send_mode_t mode)
{
    return MCA_PML_BASE_SEND_SYNCHRONOUS == mode ? ETHMX_SEND_SYNC : ETHMX_SEND_STANDARD;
}

/* A blocking send's wait. */
struct waiting {
    int status;
    bool over; /* last to be written, perhaps by another thread: the struct is gone after that */
};

static void send_over(void *arg, const struct ethmx_result *result)
{
    struct waiting *w = arg;
    w->status = result->status;
    __atomic_store_n(&w->over, true, __ATOMIC_RELEASE);
}

int mtl_ethmx_send(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm, int dest, int tag,
                   struct opal_convertor_t *convertor, mca_pml_base_send_mode_t mode)
{
    (void)mtl;
    struct ethmx_peer *peer;
    int rc = mtl_ethmx_peer(comm, dest, &peer);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    struct ethmx_data data;
    struct mtl_ethmx_layout *layout;
    rc = mtl_ethmx_describe(convertor, mtl_ethmx_layout_pack, &data, &layout);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    struct waiting w = {.over = false};
    int status =
        ethmx_isend(mtl_ethmx.ep, peer, mtl_ethmx_bits_to(comm, dest, tag), &data, send_mode(mode), send_over, &w);
    if (ETHMX_INPROGRESS == status) {
        while (!__atomic_load_n(&w.over, __ATOMIC_ACQUIRE)) {
            opal_progress();
        }
        status = w.status;
    } else {
        mtl_ethmx_tell_self(comm, dest);
    }
    mtl_ethmx_undescribe(layout);
    return OPAL_LIKELY(ETHMX_OK == status) ? OMPI_SUCCESS : mtl_ethmx_ompi_error(status);
}

static void isend_complete(struct mtl_ethmx_request *r, int status)
{
    mtl_ethmx_undescribe(r->layout);
    r->super.ompi_req->req_status.MPI_ERROR = mtl_ethmx_mpi_error(status);
    r->super.completion_callback(&r->super);
}

static void isend_done(void *arg, const struct ethmx_result *result)
{
    isend_complete(arg, result->status);
}

int mtl_ethmx_isend(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm, int dest, int tag,
                    struct opal_convertor_t *convertor, mca_pml_base_send_mode_t mode, bool blocking,
                    mca_mtl_request_t *mtl_request)
{
    (void)mtl, (void)blocking;
    struct mtl_ethmx_request *r = mtl_ethmx_request(mtl_request);
    r->posted = NULL;
    struct ethmx_peer *peer;
    int rc = mtl_ethmx_peer(comm, dest, &peer);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    struct ethmx_data data;
    rc = mtl_ethmx_describe(convertor, mtl_ethmx_layout_pack, &data, &r->layout);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    int status =
        ethmx_isend(mtl_ethmx.ep, peer, mtl_ethmx_bits_to(comm, dest, tag), &data, send_mode(mode), isend_done, r);
    if (OPAL_LIKELY(ETHMX_OK == status)) {
        isend_complete(r, ETHMX_OK);
        mtl_ethmx_tell_self(comm, dest);
    } else if (OPAL_UNLIKELY(status < 0)) {
        mtl_ethmx_undescribe(r->layout);
        return mtl_ethmx_ompi_error(status);
    }
    return OMPI_SUCCESS;
}
