/* SPDX-License-Identifier: BSD-3-Clause
 *
 * RDMA get rendezvous: large messages that the receiver's device reads.
 */
#ifndef EMX_CORE_RDMA_GET_H
#define EMX_CORE_RDMA_GET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/engine.h"
#include "core/format/frame.h"

struct emx_op;
struct emx_rndv;
struct emx_session;

bool emx_get_start(struct emx_session *s, struct emx_rndv *r, const struct emx_f_lent *lent); /* false: pull it */
enum emx_drop emx_get_input_rkey_reply(struct emx_session *s, const uint8_t *data, emx_time now);
void emx_get_next(const struct emx_rndv *r, struct emx_read *rd);
void emx_get_moved(struct emx_session *s, emx_time now); /* it is about to leave its link: the rest is pulled */
/* Keeps a failing operation until no device accesses its memory any more. false: none does. */
bool emx_get_sever(struct emx_engine *e, struct emx_op *op, int status);

#endif
