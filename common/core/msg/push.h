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

/* Whether pushed data has no receive, and should wait for one: the program may be about to post it. */
bool emx_push_is_early(struct emx_session *s, const struct emx_f_data *f);

void emx_push_unmatched(struct emx_session *s, uint32_t sender_op);       /* announced, and there is no receive */
void emx_push_dropped(struct emx_session *s, const struct emx_f_data *f); /* the data had no receive */

/* An announced message gets its receive: whether what was pushed is still to come. */
bool emx_push_is_coming(const struct emx_session *s, uint32_t sender_op);

/* Whether what was pushed has overtaken its announcement, and was dropped. */
bool emx_push_is_gone(const struct emx_session *s, uint32_t sender_op);

#endif
