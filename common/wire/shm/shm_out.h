/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rings that an endpoint writes: creating and joining them, sending, and their backlogs. Used under the endpoint's
 * lock.
 */
#ifndef EMX_WIRE_SHM_OUT_H
#define EMX_WIRE_SHM_OUT_H

#include "wire/shm/shm_wire.h"

/* Creates a ring to id and joins it if that is possible at once; otherwise *err_p (an errno) says why not. NULL: out of
 * memory or descriptors; *err_p. */
struct emx_shm_out *emx_shm_out_new(struct emx_shm_wire *w, uint32_t id, int *err_p);

/* Whether a later attempt may succeed: the peer's queue is full, or this process is short of a resource. */
bool emx_shm_out_may_retry(int err);

/* The peer has ended: drops what waits, and what is sent from now on. */
void emx_shm_out_abandon(struct emx_shm_wire *w, struct emx_shm_out *o);
void emx_shm_out_free(struct emx_shm_wire *w, struct emx_shm_out *o);

/* Removes the ring to id, if there is one, from the table and frees it. */
void emx_shm_out_remove(struct emx_shm_wire *w, uint32_t id);

/* Tries again to hand over rings that are not joined. */
void emx_shm_out_join_all(struct emx_shm_wire *w);

/* Handles its readable socket: wakeups, and the end of the peer. */
void emx_shm_out_drain_socket(struct emx_shm_wire *w, struct emx_shm_out *o);

/* Sends frames of the backlogs that find space. Returns how many. */
unsigned emx_shm_out_flush_all(struct emx_shm_wire *w);

/* Operations of struct emx_wire_ops. */
unsigned emx_shm_out_budget(struct emx_wire *base);
void emx_shm_out_tx(struct emx_wire *base, const struct emx_txframe *f, unsigned n);
void *emx_shm_out_reserve(struct emx_wire *base, const struct emx_wire_addr *to, uint32_t len_bytes);
void emx_shm_out_commit(struct emx_wire *base);
bool emx_shm_out_unsent(const struct emx_wire *base);

#endif
