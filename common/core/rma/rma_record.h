/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Records of one-sided operations: those that are open at a target, in the order of their calls, and their ids.
 */
#ifndef EMX_CORE_RMA_RECORD_H
#define EMX_CORE_RMA_RECORD_H

#include "core/rma/rma.h"

struct emx_rma_engine *emx_rma_engine(struct emx_engine *e); /* makes it if necessary; NULL: no memory */
struct emx_rma_peer *emx_rma_peer(struct emx_session *s);    /* the same */

/* An operation with its record, which is in no list. s may be NULL. NULL: no memory. emx_rma_engine() has succeeded. */
struct emx_op *emx_rma_new(struct emx_engine *e, struct emx_session *s, enum emx_rma_kind kind,
                           const struct emx_op_args *a, emx_time now);
void emx_rma_free(struct emx_engine *e, struct emx_rma *r);

/* A buffer for a frame with such a header and body. Its route may take only shorter frames. NULL: no memory. */
struct emx_txbuf *emx_rma_buffer(struct emx_session *s, enum emx_frame_type type, size_t body_bytes);

/* Separates a record from its operation. */
void emx_rma_part(struct emx_rma *r);

/* Gives it an id. false: as many as can be are open. */
bool emx_rma_take_id(struct emx_rma *r);
struct emx_rma *emx_rma_by_id(const struct emx_session *s, uint32_t id); /* or NULL */

/* The operation is complete at the target, or has failed. Frees the record, which has no operation any more. */
void emx_rma_end(struct emx_rma *r);
/* The same for one that has failed after it was complete here: the next flush reports it. */
void emx_rma_failed_late(struct emx_rma *r, int status);

#endif
