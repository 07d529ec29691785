/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Minimum and maximum of two unsigned numbers, and shares of a common resource.
 */
#ifndef EMX_BASE_MIN_H
#define EMX_BASE_MIN_H

#include <stdint.h>

static inline uint64_t emx_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t emx_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The share of each of `ranks` processes in `all`: an equal part, but at least min_bytes if there is that much. ranks
 * 0: unknown, counts as 1. */
static inline uint64_t emx_part(uint64_t all, unsigned ranks, uint64_t min_bytes)
{
    uint64_t part = all / (ranks ? ranks : 1);

    return part > min_bytes ? part : emx_min(all, min_bytes);
}

static inline unsigned emx_min_u(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

#endif
