/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory: the allocator a simulated node gives its engine. It counts, fails when told to, and fills what it hands out
 * and what comes back, so that reading either shows. The skew moves every address: a run must not depend on it.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

struct sim_memory {
    struct emx_alloc alloc; /* hand this to the engine */
    size_t live_bytes, peak_bytes;
    uint64_t live_blocks;
    uint64_t calls;                /* of get, so far */
    uint64_t fail_first, fail_end; /* calls number fail_first (from 1) to fail_end - 1 fail; 0, 0: none */
    uint64_t failures;
    size_t skew_bytes;
};

void sim_memory_init(struct sim_memory *m, size_t skew_bytes);

#endif
