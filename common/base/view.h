/* SPDX-License-Identifier: BSD-3-Clause
 *
 * View: memory of another process that this one has mapped, and uses without frames.
 */
#ifndef EMX_BASE_VIEW_H
#define EMX_BASE_VIEW_H

#include <stdint.h>

/* In the key of a region whose memory others can map. So nobody asks in vain for the memory of other regions. */
#define EMX_KEY_MAPPABLE (UINT64_C(1) << 63)

struct emx_view {
    uint8_t *memory; /* of the region with this key */
    uint64_t len_bytes;
};

#endif
