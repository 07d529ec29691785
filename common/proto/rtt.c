/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Round-trip estimate and resend time-out after RFC 6298: smoothed mean and deviation, with the limits rto_min and
 * rto_max. Only answers to frames sent once are measured (Karn's rule), which the callers see to.
 */
#include "proto/impl.h"

#define EMX_RTO_UNMEASURED 20000000 /* ns; a cluster's round trip is far below */

static emx_time clamp(emx_time ns, emx_time low, emx_time high)
{
    return ns < low ? low : ns > high ? high : ns;
}

void emx_rtt_init(struct emx_rtt *r, const struct emx_config *cfg)
{
    *r = (struct emx_rtt){.rto_ns = clamp(EMX_RTO_UNMEASURED, cfg->p_rto_min, cfg->p_rto_max)};
}

void emx_rtt_sample(struct emx_rtt *r, emx_time ns, emx_time ack_delay_ns, const struct emx_config *cfg)
{
    emx_time off;

    if (!r->smooth_ns) {
        r->smooth_ns = ns ? ns : 1;
        r->var_ns = ns / 2;
    } else {
        off = ns > r->smooth_ns ? ns - r->smooth_ns : r->smooth_ns - ns;
        r->var_ns = (3 * r->var_ns + off) / 4;
        r->smooth_ns = (7 * r->smooth_ns + ns) / 8;
    }
    r->rto_ns = clamp(r->smooth_ns + 4 * r->var_ns + ack_delay_ns, cfg->p_rto_min, cfg->p_rto_max);
}

emx_time emx_rtt_backed_off(const struct emx_rtt *r, unsigned backoff, const struct emx_config *cfg)
{
    emx_time ns = r->rto_ns << (backoff < 20 ? backoff : 20);

    return ns > cfg->p_rto_max ? cfg->p_rto_max : ns;
}
