/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations on memory that this process has: its endpoint's own, or a peer's that it has mapped. Nothing is
 * sent.
 */
#ifndef EMX_CORE_RMA_LOCAL_H
#define EMX_CORE_RMA_LOCAL_H

#include "core/rma/rma.h"

/* Whether the arguments are right. */
bool emx_rma_is_valid(const struct emx_rma_args *a);

void emx_rma_count(struct emx_engine *e, const struct emx_rma_args *a);

/* On memory of the endpoint itself. ETHMX_OK or an error. The arguments are right. */
int emx_rma_self(struct emx_engine *e, const struct emx_rma_args *a);

#endif
