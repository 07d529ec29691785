/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Views: segments of peers that this process has mapped.
 */
#ifndef EMX_WIRE_SHM_VIEW_H
#define EMX_WIRE_SHM_VIEW_H

#include "wire/shm/shm_join.h"
#include "wire/shm/shm_wire.h"

/* As emx_wire_ops.view. */
struct emx_view *emx_shm_view_find(struct emx_wire *base, const struct emx_wire_addr *to, uint64_t key);

void emx_shm_view_init(struct emx_shm_out *o);
void emx_shm_view_drop_all(struct emx_shm_out *o);
/* Gives up one that has ended, or whose peer has not answered for long. */
void emx_shm_view_sweep(struct emx_shm_wire *w);

/* emx_shm_note_fn; arg is the wire. A peer wants a segment; port is emx_shm_in. */
void emx_shm_view_wanted(void *arg, void *port, const struct emx_shm_note *note, int segment_fd);
/* A peer has answered; port is emx_shm_out. */
void emx_shm_view_answered(void *arg, void *port, const struct emx_shm_note *note, int segment_fd);

#endif
