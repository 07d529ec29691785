/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages to self.
 */
#ifndef EMX_CORE_SELF_H
#define EMX_CORE_SELF_H

#include "core/engine.h"

struct emx_op;
struct emx_unexpected;

int emx_self_send(struct emx_engine *e, struct emx_peer *p, const struct emx_op_args *a, emx_time now);
void emx_self_receive(struct emx_engine *e, struct emx_unexpected *a, struct emx_op *op);

#endif
