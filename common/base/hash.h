/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Mixing 64 bits (the finalizer of MurmurHash3, public domain, Austin Appleby) and a small seeded generator
 * (splitmix64, Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014). Equal on all machines.
 */
#ifndef EMX_BASE_HASH_H
#define EMX_BASE_HASH_H

#include <stdint.h>

static inline uint64_t emx_mix64(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    x ^= x >> 33;
    return x;
}

struct emx_rng {
    uint64_t state;
};

static inline uint64_t emx_rng_next(struct emx_rng *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* A number below limit (> 0); the bias is below 2^-32 for the limits used here. */
static inline uint64_t emx_rng_below(struct emx_rng *r, uint64_t limit)
{
    return emx_rng_next(r) % limit;
}

/* True in ppm of a million cases. */
static inline int emx_rng_chance(struct emx_rng *r, unsigned ppm)
{
    return ppm && emx_rng_below(r, 1000000) < ppm;
}

#endif
