/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Gaps in pulled data: pull_gap.c describes the rule. Part of pull.c's work, only called by it.
 */
#ifndef EMX_CORE_PULL_GAP_H
#define EMX_CORE_PULL_GAP_H

#include "core/msg/rndv.h"
#include "core/time.h"

struct emx_session;

/* A chunk of the block's last request has arrived, over its rail. Returns which blocks are lost: bit i is for block i.
 * Or sets the message's timer. */
uint64_t emx_gap_find(struct emx_rndv *r, const struct emx_block *b, unsigned bit, emx_time now);

/* The message's timer has expired: which blocks were overtaken too long ago. */
uint64_t emx_gap_expire(struct emx_rndv *r, emx_time now);

/* Data of the block has arrived by the request of this round. */
void emx_gap_answered(struct emx_session *s, struct emx_block *b, unsigned round);

#endif
