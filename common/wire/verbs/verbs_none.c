/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The verbs wire of a build without libibverbs: open() fails and says why.
 */
#include <stdio.h>

#include "wire/verbs/verbs.h"

int emx_verbs_registrar_open(const char *name, struct emx_registrar *r_p, char *why, size_t why_len_bytes)
{
    (void)name;
    (void)r_p;
    snprintf(why, why_len_bytes, "this ethmx was built without libibverbs");
    return ETHMX_ERR_PARAM;
}

void emx_verbs_registrar_close(struct emx_registrar *r)
{
    (void)r;
}

static int none_open(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    (void)w_p;
    (void)params;
    snprintf(why, why_len_bytes,
             "this ethmx was built without libibverbs and librdmacm: install them (on Debian: apt-get install "
             "libibverbs-dev librdmacm-dev), then configure and build ethmx again");
    return ETHMX_ERR_NO_WIRE;
}

const struct emx_wire_ops emx_wire_verbs = {
    .name = "verbs",
    .part = EMX_VERBS_ADDRESS_PART,
    .by_ip = true,
    .ways = emx_verbs_ways,
    .help = "RDMA devices; not in this build",
    .opt_in = "not in this build: libibverbs or librdmacm was missing",
    .open = none_open,
};
