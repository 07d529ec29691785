/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Minimum and maximum of two unsigned numbers.
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

/* What each of several ranks of a host has of something that they share: its part, but at least `least`, if there is so
 * much. ranks 0: unknown, taken as one. */
static inline uint64_t emx_part(uint64_t all, unsigned ranks, uint64_t least)
{
    uint64_t part = all / (ranks ? ranks : 1);

    return part > least ? part : emx_min(all, least);
}

static inline unsigned emx_min_u(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

#endif
