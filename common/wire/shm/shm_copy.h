/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies of large messages straight from the memory of the sender's process.
 */
#ifndef EMX_WIRE_SHM_COPY_H
#define EMX_WIRE_SHM_COPY_H

#include "wire/shm/shm_wire.h"

/* Finds out whether the memory of the peer can be read: in->readable. */
void emx_shm_copy_probe(const struct emx_shm_wire *w, struct emx_shm_in *in);

/* The peer reads a large message of ours and has asked for help: writes a share of it to the peer's memory. */
void emx_shm_copy_help(struct emx_shm_wire *w, struct emx_shm_in *in);

/* read() of struct emx_wire_ops. */
int emx_shm_copy_read(struct emx_wire *base, const struct emx_wire_read *r);

#endif
