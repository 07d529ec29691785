/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Round-trip time of the network, and the retransmission time-out.
 *
 * A peer whose program computes reads and acknowledges frames only later. Such a sample is the time of the network plus
 * that of the program. The peer cannot report how long a frame has waited, because it does not know when the frame
 * arrived. So the estimate is the minimum of the last EMX_RTT_SAMPLES to twice that many samples. One frame among these
 * whose peer made progress is enough, and a standing queue, which all samples include, still counts (a windowed minimum
 * filter, as in BBR; Nichols and Jacobson, ACM Queue 2012, explain why a minimum shows a standing queue). It needs no
 * field in frames.
 *
 * The time-out is a multiple of that (EMX_RTT_TIMES), as in RFC 6298 after the first sample, plus the longest delay of
 * the peer's acknowledgements; within rto_min and rto_max. It may be too short for a peer that computes. Then only one
 * frame is retransmitted (send_window.c). The callers pass only replies to frames that were sent once (Karn's rule).
 */
#include "core/rel/rtt.h"

#define EMX_RTT_SAMPLES    16
#define EMX_RTT_TIMES      3        /* time-out / round trip */
#define EMX_RTO_UNMEASURED 20000000 /* ns; far above the round trip of a cluster */

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
