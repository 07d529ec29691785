/* SPDX-License-Identifier: BSD-3-Clause
 *
 * View: memory of another process that this one has mapped, and uses without frames.
 */
#ifndef EMX_BASE_VIEW_H
#define EMX_BASE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/gate.h"

/* In the key of a region whose memory others can map. So nobody asks in vain for the memory of other regions. */
#define EMX_KEY_MAPPABLE (UINT64_C(1) << 63)

/* An atomic operation of more is one in bulk: the owner's engine does it, behind a closed gate. It is several times as
 * fast without the processor's atomic instructions. */
#define EMX_BULK_BYTES 256

/* How the owner's engine changes elements of memory that others can map. */
struct emx_sharing {
    bool words; /* by the processor's atomic instructions, because others do so, too */
    struct emx_gate *gate;
};

struct emx_view {
    uint8_t *memory; /* of the region with this key */
    uint64_t len_bytes;
    const _Atomic uint32_t *words; /* not 0: emx_sharing.words is set */
    uint64_t wishes;               /* operations that went as frames for want of it */
    struct emx_gate *gate;         /* around each change of words */
    unsigned slot;                 /* of this process there */
};

#endif
