/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/threshold.h"

/* By how many thousandths a exceeds b, at most 1000 (a factor of two). */
static uint64_t crossing_regret(uint64_t a, uint64_t b)
{
    if (a <= b)
        return 0;
    return a >= 2 * b ? 1000 : (a - b) * 1000 / b;
}

uint64_t emx_threshold(const uint64_t *reg_ns, const uint64_t *copy_ns, unsigned n)
{
    uint64_t min = UINT64_MAX, from = EMX_THRESHOLD_NEVER;

    for (unsigned k = n + 1; k--;) {
        uint64_t sum = 0;

        for (unsigned i = 0; i < n; i++)
            sum += i < k ? crossing_regret(copy_ns[i], reg_ns[i]) : crossing_regret(reg_ns[i], copy_ns[i]);
        if (sum >= min)
            continue;
        min = sum;
        from = k < n ? (uint64_t)EMX_THRESHOLD_FIRST << k : EMX_THRESHOLD_NEVER;
    }
    return from;
}

uint64_t emx_threshold_eager(const struct emx_costs *c, uint64_t round_trip_ns, bool kept)
{
    uint64_t read_ns[EMX_THRESHOLD_SIZES];

    for (unsigned i = 0; i < c->count; i++)
        read_ns[i] = kept ? round_trip_ns : c->reg_ns[i] + 3 * round_trip_ns;
    return emx_threshold(read_ns, c->copy_ns, c->count);
}
