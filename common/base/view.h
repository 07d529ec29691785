/* SPDX-License-Identifier: BSD-3-Clause
 *
 * View: memory of another process that this one has mapped, and uses without frames.
 */
#ifndef EMX_BASE_VIEW_H
#define EMX_BASE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

/* In the key of a region whose memory others can map. So nobody asks in vain for the memory of other regions. */
#define EMX_KEY_MAPPABLE (UINT64_C(1) << 63)

#define EMX_BULK_BYTES 256 /* an atomic operation of more is one in bulk */

/* How the owner's engine changes elements of memory that others can map. Operations in bulk are several times as fast
 * without the processor's atomic instructions: memory that has seen one keeps away from these. */
struct emx_sharing {
    bool words; /* by such instructions, because others do so, too */
    bool bulk;  /* operations in bulk were done without */
};

struct emx_view {
    uint8_t *memory; /* of the region with this key */
    uint64_t len_bytes;
    const _Atomic uint32_t *words; /* not 0: emx_sharing.words is set */
    uint64_t wishes;               /* operations that went as frames for want of it */
};

#endif
