/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rings that an endpoint writes: making and joining them, sending, and the backlog of each.
 */
#ifndef EMX_WIRE_SHM_OUT_H
#define EMX_WIRE_SHM_OUT_H

#include "wire/shm/shm_wire.h"

/* Makes a ring to id and joins it if that can be done at once; otherwise *err_p (errno) says why not. NULL: out of
 * memory or descriptors; *err_p. */
struct emx_shm_out *emx_shm_out_new(struct emx_shm_wire *w, uint32_t id, int *err_p);

/* Whether a later attempt may succeed: the peer's queue is full, or this process is short of a resource. */
bool emx_shm_out_may_retry(int err);

/* The peer has gone: what is sent to it from now on is lost. */
void emx_shm_out_abandon(struct emx_shm_wire *w, struct emx_shm_out *o);
void emx_shm_out_free(struct emx_shm_wire *w, struct emx_shm_out *o);

/* Takes the ring to id, if there is one, out of the table and frees it. */
void emx_shm_out_remove(struct emx_shm_wire *w, uint32_t id);

/* Tries again to hand over rings that are not joined. */
void emx_shm_out_join_all(struct emx_shm_wire *w);

/* Its socket is readable. */
void emx_shm_out_drain_socket(struct emx_shm_wire *w, struct emx_shm_out *o);

/* Sends what waits and finds space. Returns the number of frames. */
unsigned emx_shm_out_flush_all(struct emx_shm_wire *w);

/* Operations of struct emx_wire_ops. */
unsigned emx_shm_out_budget(struct emx_wire *base);
void emx_shm_out_tx(struct emx_wire *base, const struct emx_txframe *f, unsigned n);
void *emx_shm_out_reserve(struct emx_wire *base, const struct emx_wire_addr *to, uint32_t len_bytes);
void emx_shm_out_commit(struct emx_wire *base);
bool emx_shm_out_unsent(const struct emx_wire *base);

#endif
