/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The same seed gives the same history, wherever the engines' memory lies.
 */
#include <stdio.h>
#include <string.h>

#include "scenario.h"

static void repeat(struct sim_case *c)
{
    uint64_t hash[2];

    for (unsigned i = 0; i < 2; i++) {
        c->skew_bytes = i * (4096 + c->seed % 97 * 16);
        memset(c->failure, 0, sizeof(c->failure));
        sim_chaos[c->seed % 4].fn(c);
        hash[i] = c->hash;
        if (c->failure[0])
            return;
    }
    if (hash[0] != hash[1])
        snprintf(c->failure, sizeof(c->failure), "two histories of one seed: trace %016llx and %016llx",
                 (unsigned long long)hash[0], (unsigned long long)hash[1]);
}

const struct sim_scenario sim_repeat[] = {
    {"repeat", "one seed, two plays, one trace", repeat, 40, 0},
    {0},
};
