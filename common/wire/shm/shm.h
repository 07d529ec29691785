/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The shm wire: shared memory between processes of one user on one host. shm.c describes the mechanism.
 */
#ifndef EMX_WIRE_SHM_H
#define EMX_WIRE_SHM_H

#include "wire/wire.h"

extern const struct emx_wire_ops emx_wire_shm;

#define EMX_SHM_PART 3 /* its part of an address, without value */

/* Prepares a destination on this host. */
void emx_shm_addr(struct emx_wire_addr *a, uint32_t endpoint_id);

#endif
