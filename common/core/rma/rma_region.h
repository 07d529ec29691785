/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Regions: memory that the program has exposed, by key.
 */
#ifndef EMX_CORE_RMA_REGION_H
#define EMX_CORE_RMA_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/view.h"
#include "core/rma/rma_atomic.h"

struct emx_engine;

struct emx_rma_region {
    struct emx_list link;   /* in a bucket */
    struct emx_list served; /* emx_rma.open: long operations of peers under way */
    uint64_t key;           /* 0: it is being withdrawn */
    uint8_t *base;
    uint64_t len_bytes;
    unsigned access;             /* ETHMX_RMA_MAY_* */
    struct emx_sharing *sharing; /* NULL: others cannot map it */
};

/* Whether the elements from there on are changed by the processor's atomic instructions. They are changed now, and
 * emx_rma_changed() follows. */
static inline bool emx_rma_by_words(const struct emx_rma_region *region, unsigned type, const void *at,
                                    uint64_t len_bytes)
{
    const struct emx_sharing *sharing = region->sharing;

    if (!sharing || !sharing->words || !emx_rma_is_word(type, at))
        return false;
    return len_bytes <= EMX_BULK_BYTES || !emx_gate_close(sharing->gate);
}

static inline void emx_rma_changed(const struct emx_rma_region *region)
{
    if (region->sharing)
        emx_gate_open(region->sharing->gate);
}

/* The memory of this range of the region with this key; NULL: there is no such region, it is not within it, or the
 * region does not permit all of access. region_p may be NULL. */
uint8_t *emx_rma_memory(const struct emx_engine *e, uint64_t key, uint64_t offset, uint64_t len_bytes, unsigned access,
                        struct emx_rma_region **region_p);
void emx_rma_region_hide(struct emx_rma_region *region); /* it is not found any more */
void emx_rma_region_free(struct emx_engine *e, struct emx_rma_region *region);
void emx_rma_regions_fini(struct emx_engine *e);

#endif
