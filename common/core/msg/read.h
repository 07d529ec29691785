/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Large messages that the processor reads from the sender's memory (within one host).
 */
#ifndef EMX_CORE_READ_H
#define EMX_CORE_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "core/engine.h"
#include "core/engine_impl.h"

struct emx_op;
struct emx_rndv;
struct emx_session;

uint64_t emx_read_address(const struct emx_session *s, const struct emx_op *op); /* for the rts; 0: none */
bool emx_read_start(struct emx_session *s, struct emx_rndv *r, uint64_t remote, emx_time now); /* false: pull it */
/* The peer has failed. true: op's memory may still be written to; it completes when progress reports the read's end. */
bool emx_read_late(struct emx_op *op, int status);

/* A message has left the list of reads or writes of the link. */
static inline void emx_read_ended(struct emx_engine *e, unsigned link)
{
    if (emx_list_empty(&e->reads[link]) && emx_list_empty(&e->writes[link]))
        e->ready_flags.reads &= ~(1u << link);
}

#endif
