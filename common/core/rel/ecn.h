/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Explicit congestion notification of sequenced frames.
 */
#ifndef EMX_CORE_ECN_H
#define EMX_CORE_ECN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/time.h"

struct emx_session;

struct emx_ecn {
    uint32_t ce_rx;   /* sequenced frames that arrived with a mark, mod 2^32 */
    uint32_t ce_told; /* marks on frames sent by this side, as last reported */
    bool due;         /* ce_rx has changed since the last report */
};

static inline void emx_ecn_sent(struct emx_ecn *ecn) /* an acknowledgement has left, with all marks */
{
    ecn->due = false;
}

/* An acknowledgement has a new count of marks. */
void emx_ecn_told(struct emx_session *s, uint32_t ack, uint32_t marked, emx_time now);

#endif
