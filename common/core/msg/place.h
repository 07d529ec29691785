/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Place: the engine's side of base/placement.h.
 */
#ifndef EMX_CORE_PLACE_H
#define EMX_CORE_PLACE_H

#include <stdbool.h>

#include "base/placement.h"

/* As in struct emx_placer; arg is the engine. */
bool emx_place_expects(const void *arg);
bool emx_place_is_early(void *arg, const uint8_t *head, size_t head_bytes);
void emx_place_plan(void *arg, const uint8_t *head, size_t head_bytes, size_t len_bytes, struct emx_placement *p);
unsigned emx_place_settle(void *arg, struct emx_placement *p, const uint8_t *head, size_t stride, unsigned n);

#endif
