/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Push: the first data of a large message leaves with its announcement, before a receiver has asked for it. push.c
 * decides for which messages, rndv_send.c sends it, pull.c receives it.
 */
#ifndef EMX_CORE_PUSH_H
#define EMX_CORE_PUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/format/frame.h"

struct emx_op;
struct emx_session;

/* How many first chunks of a message follow its announcement, if that is sent now; 0: none. */
unsigned emx_push_chunks(struct emx_session *s, const struct emx_op *op);

void emx_push_begin(struct emx_session *s, const struct emx_op *op); /* they follow */

/* The peer requests data of a message: maybe what was pushed. */
void emx_push_answered(struct emx_session *s, struct emx_op *op, const struct emx_f_pull *f);

#endif
