/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The xdp wire of a build without libxdp: open() fails and says why.
 */
#include <stdio.h>

#include "wire/xdp/xdp.h"

static int xdp_none_open(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    (void)w_p;
    (void)params;
    snprintf(why, why_len_bytes,
             "this ethmx was built without libxdp: install it (on Debian: apt-get install libxdp-dev libbpf-dev), then "
             "configure and build ethmx again");
    return ETHMX_ERR_NO_WIRE;
}

const struct emx_wire_ops emx_wire_xdp = {
    .name = "xdp",
    .part = EMX_XDP_PART,
    .ways = emx_xdp_ways,
    .help = "AF_XDP sockets; not in this build",
    .opt_in = "not in this build: libxdp was missing",
    .open = xdp_none_open,
};
