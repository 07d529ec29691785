/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Errors of ethmx in the words of MPI and of Open MPI.
 */
#include "mtl_ethmx.h"

int mtl_ethmx_mpi_error(int status)
{
    switch (status) {
    case ETHMX_OK:
        return MPI_SUCCESS;
    case ETHMX_ERR_TRUNCATED:
        return MPI_ERR_TRUNCATE;
    case ETHMX_ERR_NO_MEMORY:
        return MPI_ERR_NO_MEM;
    case ETHMX_ERR_PARAM:
        return MPI_ERR_ARG;
    default: /* a peer is gone or out of reach: MPI 3 has no class for that */
        return MPI_ERR_OTHER;
    }
}

int mtl_ethmx_refuse_device(void)
{
    mtl_ethmx_help("device memory", true, ompi_process_info.nodename);
    return OMPI_ERR_NOT_SUPPORTED;
}

int mtl_ethmx_ompi_error(int status)
{
    switch (status) {
    case ETHMX_OK:
        return OMPI_SUCCESS;
    case ETHMX_ERR_NO_MEMORY:
        return OMPI_ERR_OUT_OF_RESOURCE;
    case ETHMX_ERR_PARAM:
        return OMPI_ERR_BAD_PARAM;
    default: /* becomes MPI_ERR_OTHER, as in mtl_ethmx_mpi_error() */
        return OMPI_ERROR;
    }
}
