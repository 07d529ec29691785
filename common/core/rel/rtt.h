/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Round-trip time of the network, and the retransmission time-out, in ns.
 */
#ifndef EMX_CORE_RTT_H
#define EMX_CORE_RTT_H

#include <stdint.h>

#include "base/config.h"
#include "core/time.h"

/* The response time, see rtt.c. */
struct emx_rtt {
    uint32_t network_ns;          /* 0: not measured */
    uint32_t least_ns, before_ns; /* minimum in this window and in the one before; 0: none */
    uint32_t samples;             /* in this window */
    emx_time rto_ns;
};

void emx_rtt_init(struct emx_rtt *r, const struct emx_config *cfg);
void emx_rtt_sample(struct emx_rtt *r, emx_time ns, emx_time ack_delay_ns, const struct emx_config *cfg);
emx_time emx_rtt_backed_off(const struct emx_rtt *r, unsigned backoff, const struct emx_config *cfg);

#endif
