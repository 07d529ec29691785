/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Coalescing: several small messages to one peer in one frame.
 */
#ifndef EMX_CORE_COALESCE_H
#define EMX_CORE_COALESCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/format/frame.h"
#include "core/time.h"

struct ethmx_data;
struct emx_session;

struct emx_coalesce {
    uint16_t parts_bytes; /* parts of the next frame that were handled before memory ran out */
};

bool emx_coalesce_add(struct emx_session *s, const struct ethmx_data *data,
                      uint64_t bits); /* false: send it in its own frame */
enum emx_drop emx_coalesce_input(struct emx_session *s, const uint8_t *data, emx_time now);

#endif
