/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies large messages directly from the memory of the sender's process. Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_SHM_COPY_H
#define EMX_WIRE_SHM_COPY_H

#include "wire/shm/shm_wire.h"

/* Checks whether the peer's memory can be read, and sets in->readable. */
void emx_shm_copy_probe(const struct emx_shm_wire *w, struct emx_shm_in *in);

/* The peer reads a large message of this process and requests help: writes a share of it to the peer's memory. */
void emx_shm_copy_help(struct emx_shm_wire *w, struct emx_shm_in *in);

/* read() of struct emx_wire_ops. */
int emx_shm_copy_read(struct emx_wire *base, const struct emx_wire_read *r);

#endif
