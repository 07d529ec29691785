/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Names of endpoints: clients want one length for all. A name is the endpoint's address as launchers carry it. Where
 * this is shorter, the first byte is another one, and the last byte is the address's length.
 */
#include <string.h>

#include "provider.h"

#define MAGIC_FULL  'x' /* as an address begins */
#define MAGIC_SHORT 'X'

bool prov_name_write(const struct ethmx_ep *ep, uint8_t name[PROV_NAME_BYTES])
{
    size_t len_bytes = PROV_NAME_BYTES;

    memset(name, 0, PROV_NAME_BYTES);
    if (ethmx_ep_address(ep, name, &len_bytes))
        return false;
    if (len_bytes < PROV_NAME_BYTES) {
        name[0] = MAGIC_SHORT;
        name[PROV_NAME_BYTES - 1] = (uint8_t)len_bytes;
    }
    return true;
}

bool prov_name_read(const uint8_t name[PROV_NAME_BYTES], uint8_t addr[PROV_NAME_BYTES], size_t *len_bytes_p)
{
    bool is_short = name[0] == MAGIC_SHORT;

    *len_bytes_p = is_short ? name[PROV_NAME_BYTES - 1] : PROV_NAME_BYTES;
    if ((!is_short && name[0] != MAGIC_FULL) || (is_short && *len_bytes_p >= PROV_NAME_BYTES) || !*len_bytes_p)
        return false;
    memcpy(addr, name, PROV_NAME_BYTES);
    addr[0] = MAGIC_FULL;
    return true;
}
