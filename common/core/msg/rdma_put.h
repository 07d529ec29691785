/* SPDX-License-Identifier: BSD-3-Clause
 *
 * RDMA put rendezvous: large messages that the sender's device writes.
 */
#ifndef EMX_CORE_RDMA_PUT_H
#define EMX_CORE_RDMA_PUT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/engine.h"
#include "core/format/frame.h"

struct emx_exported;
struct emx_op;
struct emx_rndv;
struct emx_session;

bool emx_put_start(struct emx_session *s, struct emx_rndv *r); /* false: no memory */
void emx_put_exposed(struct emx_exported *l, const struct emx_export *m, int status);
void emx_put_taken_back(struct emx_exported *l, emx_time now);
void emx_put_moved(struct emx_op *op);
bool emx_put_sever(struct emx_op *op, int status); /* as emx_get_sever(), for a receive */
enum emx_drop emx_put_input(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_put_input_done(struct emx_session *s, const uint8_t *data, emx_time now);
bool emx_put_next(struct emx_engine *e, unsigned link, struct emx_read *w); /* false: nothing is to be written */
void emx_put_write_started(struct emx_op *op, int status);
void emx_put_write_ended(struct emx_op *op, uint64_t remote, uint64_t len_bytes, int status);

#endif
