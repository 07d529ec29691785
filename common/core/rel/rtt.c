/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Round-trip time of the network, and the time-out that follows from it.
 *
 * A peer whose program computes leaves frames in its socket, and reads and acknowledges them when it comes back. Such a
 * sample is the network's time plus the program's. The peer cannot tell how long a frame has waited, for it does not
 * know when the frame came. So the estimate is the least of the last EMX_RTT_SAMPLES to twice that many samples: one
 * frame among these that met a peer at work is enough, and a queue that lasts, which all samples meet, still counts (a
 * windowed minimum filter, as BBR keeps for its path; Nichols and Jacobson, ACM Queue 2012, on why a minimum tells a
 * standing queue). It costs no field in the frames.
 *
 * The time-out is three times that, what RFC 6298 takes after its first sample, and the time for which the peer may
 * keep an acknowledgement back; within rto_min and rto_max. It may be too short for a peer that computes. Then one
 * frame is sent twice, no more (send_window.c). Only answers to frames sent once are measured (Karn's rule), which the
 * callers see to.
 */
#include "core/rel/rtt.h"

#define EMX_RTT_SAMPLES    16
#define EMX_RTT_TIMES      3        /* of the round trip: the time-out */
#define EMX_RTO_UNMEASURED 20000000 /* ns; a cluster's round trip is far below */

static emx_time rtt_clamp(emx_time ns, emx_time low, emx_time high)
{
    return ns < low ? low : ns > high ? high : ns;
}

void emx_rtt_init(struct emx_rtt *r, const struct emx_config *cfg)
{
    *r = (struct emx_rtt){.rto_ns = rtt_clamp(EMX_RTO_UNMEASURED, cfg->p_rto_min, cfg->p_rto_max)};
}

void emx_rtt_sample(struct emx_rtt *r, emx_time ns, emx_time ack_delay_ns, const struct emx_config *cfg)
{
    uint32_t sample_ns = (uint32_t)rtt_clamp(ns, 1, UINT32_MAX);

    if (!r->samples || sample_ns < r->least_ns)
        r->least_ns = sample_ns;
    r->network_ns = r->before_ns && r->before_ns < r->least_ns ? r->before_ns : r->least_ns;
    r->rto_ns = rtt_clamp((emx_time)EMX_RTT_TIMES * r->network_ns + ack_delay_ns, cfg->p_rto_min, cfg->p_rto_max);
    if (++r->samples < EMX_RTT_SAMPLES)
        return;
    r->before_ns = r->least_ns;
    r->samples = 0;
}

emx_time emx_rtt_backed_off(const struct emx_rtt *r, unsigned backoff, const struct emx_config *cfg)
{
    emx_time ns = r->rto_ns << (backoff < 20 ? backoff : 20);

    return ns > cfg->p_rto_max ? cfg->p_rto_max : ns;
}
