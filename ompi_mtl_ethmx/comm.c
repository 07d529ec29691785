/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Communicators.
 */
#include "mtl_ethmx.h"

#include "ompi/group/group.h"

/* Match bits have 16 bits for the sender's rank. */
int mtl_ethmx_add_comm(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm)
{
    (void)mtl;
    int size = ompi_comm_size(comm);
    if (OMPI_COMM_IS_INTER(comm) && ompi_comm_remote_size(comm) > size) {
        size = ompi_comm_remote_size(comm);
    }
    if (size > MTL_ETHMX_RANKS_MAX) {
        mtl_ethmx_help("too many ranks", true, size, MTL_ETHMX_RANKS_MAX);
        return OMPI_ERR_NOT_SUPPORTED;
    }
    return mtl_ethmx_cid_begin(comm);
}

/* Context ids are used again: what nobody received must not meet the next communicator's receives. */
int mtl_ethmx_del_comm(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm)
{
    (void)mtl;
    if (NULL == mtl_ethmx.ep) {
        return OMPI_SUCCESS;
    }
    unsigned n = ethmx_flush_unexpected(mtl_ethmx.ep, mtl_ethmx_bits(comm, 0, 0), MTL_ETHMX_CID_MASK);
    if (n > 0) {
        MTL_ETHMX_VERBOSE(20, "%u messages were never received on communicator %s", n, comm->c_name);
    }
    mtl_ethmx_cid_end(comm);
    return OMPI_SUCCESS;
}
