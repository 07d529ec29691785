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

static inline unsigned emx_min_u(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

#endif
