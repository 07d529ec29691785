/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Statuses of ethmx in libfabric's terms.
 */
#include "provider.h"

int prov_error(int status)
{
    switch (status) {
    case ETHMX_ERR_TRUNCATED:
        return FI_ETRUNC;
    case ETHMX_ERR_CANCELED:
        return FI_ECANCELED;
    case ETHMX_ERR_PEER_DEAD:
        return FI_ECONNRESET;
    case ETHMX_ERR_UNREACHABLE:
        return FI_EHOSTUNREACH;
    case ETHMX_ERR_NO_WIRE:
        return FI_ENODEV;
    case ETHMX_ERR_NO_MEMORY:
        return FI_ENOMEM;
    case ETHMX_ERR_PARAM:
        return FI_EINVAL;
    case ETHMX_ERR_NO_MATCH:
        return FI_ENOMSG;
    case ETHMX_ERR_CLOSED:
        return FI_ESHUTDOWN;
    case ETHMX_ERR_BUSY:
        return FI_EBUSY;
    case ETHMX_ERR_ACCESS:
        return FI_EACCES;
    default:
        return FI_EOTHER;
    }
}
