/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Cancelling. Receives that have matched nothing can be; sends cannot (MPI leaves it to us, and MPI 4 deprecates it).
 */
#include "mtl_ethmx.h"

/* The request completes, cancelled or not, in a later progress. */
int mtl_ethmx_cancel(struct mca_mtl_base_module_t *mtl, mca_mtl_request_t *mtl_request, int flag)
{
    (void)mtl, (void)flag;
    struct mtl_ethmx_request *r = mtl_ethmx_request(mtl_request);
    OPAL_THREAD_LOCK(&mtl_ethmx.lock);
    if (NULL != r->posted) {
        (void)ethmx_cancel(mtl_ethmx.ep, r->posted);
        r->posted = NULL;
    }
    OPAL_THREAD_UNLOCK(&mtl_ethmx.lock);
    return OMPI_SUCCESS;
}
