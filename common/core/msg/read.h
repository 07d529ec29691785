/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Large messages that are read from the sender's memory by the processor (within one host).
 */
#ifndef EMX_CORE_READ_H
#define EMX_CORE_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "core/engine.h"

struct emx_op;
struct emx_rndv;
struct emx_session;

struct emx_reading {
    emx_time spoke_ns; /* on: when a frame last went out */
    bool on;           /* large messages are read from the sender's memory */
    bool lapsed;       /* silent for so long that the peer may have given this side up */
};

uint64_t emx_read_address(const struct emx_session *s, const struct emx_op *op); /* to tell in the rts; 0: none */
bool emx_read_start(struct emx_session *s, struct emx_rndv *r, uint64_t remote, emx_time now); /* false: pull it */
void emx_read_ended(struct emx_engine *e, unsigned link); /* one has left the list */
/* The peer has failed. true: op's memory may be being written to: it completes when progress tells the read's end. */
bool emx_read_late(struct emx_op *op, int status);
void emx_read_spoke(struct emx_session *s, emx_time now);                    /* a frame went out */
void emx_read_trust(struct emx_session *s, emx_time asked_ns, emx_time now); /* what was asked then was answered */

#endif
