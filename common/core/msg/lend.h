/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lent data: the frames of an eager message refer to the program's memory until they have left. Then the data is
 * copied, for retransmissions. So the receiver need not wait for that copy.
 */
#ifndef EMX_CORE_LEND_H
#define EMX_CORE_LEND_H

#include "core/engine.h"

/* emx_engine_send() and output may follow, and then emx_engine_settle(). Until then the data of the messages stays
 * valid, and there is no input. */
void emx_engine_lend(struct emx_engine *e);

/* Copies what is lent, whether it has left or not. */
void emx_engine_settle(struct emx_engine *e);

#endif
