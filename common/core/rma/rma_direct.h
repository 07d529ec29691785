/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames of one-sided operations that leave in the call.
 */
#ifndef EMX_CORE_RMA_DIRECT_H
#define EMX_CORE_RMA_DIRECT_H

#include "core/rma/rma.h"

/* Whether a frame of the session may leave at once. */
bool emx_rma_is_direct(const struct emx_session *s);

/* If so: gives the frame its number; the wire must take f. */
void emx_rma_send_direct(struct emx_session *s, struct emx_txbuf *b, struct emx_txframe *f, emx_time now);

#endif
