/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rings that an endpoint reads: accepting, polling, and sleeping until a frame arrives. Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_SHM_IN_H
#define EMX_WIRE_SHM_IN_H

#include "wire/shm/shm_wire.h"

/* Accepts all peers that have connected. */
void emx_shm_in_accept_all(struct emx_shm_wire *w);
void emx_shm_in_free(struct emx_shm_wire *w, struct emx_shm_in *in);

/* Handles its readable socket: the ring arrives, a wakeup, or the end of the peer. May free the ring. */
void emx_shm_in_drain_socket(struct emx_shm_wire *w, struct emx_shm_in *in);

/* Registers for membarrier(2). Whether it works for this process and those that it shares rings with. */
bool emx_shm_in_register_barriers(void);

/* Operations of struct emx_wire_ops. */
unsigned emx_shm_in_rx(struct emx_wire *base, struct emx_rxframe *f, unsigned max);
void emx_shm_in_rx_return(struct emx_wire *base, const struct emx_rxframe *f, unsigned n);
struct emx_wire_peek emx_shm_in_peek(struct emx_wire *base);
void emx_shm_in_consume(struct emx_wire *base);
bool emx_shm_in_arm(struct emx_wire *base);
void emx_shm_in_sweep(struct emx_wire *base);

#endif
