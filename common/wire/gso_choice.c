/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/gso_choice.h"

#include <string.h>

#include "base/min.h"

#define UNIT_BYTES   65536
#define SKIPPED      8    /* packets of a phase that do not count: the kernel's memory is still that of the last one */
#define START        256  /* packets into places before both ways are compared first */
#define RING_STAY    2048 /* packets in the ring before both ways are compared again */
#define GAIN_NUM     3    /* the ring is used if it takes less than 3/4 of the time */
#define GAIN_DENOM   4
#define SLOWER_NUM   3 /* into places has become slow if it takes more than 3/2 of the time */
#define SLOWER_DENOM 2

static unsigned choice_middle(const uint32_t *cost)
{
    uint32_t sorted[EMX_GSO_CHOICE_TIMES];

    memcpy(sorted, cost, sizeof(sorted));
    for (unsigned i = 1; i < EMX_GSO_CHOICE_TIMES; i++) {
        uint32_t value = sorted[i];
        unsigned at = i;

        for (; at && sorted[at - 1] > value; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = value;
    }
    return sorted[EMX_GSO_CHOICE_TIMES / 2];
}

static void choice_enter(struct emx_gso_choice *c, enum emx_gso_phase phase)
{
    c->phase = phase;
    c->packets = 0;
}

/* As many packets as are compared have been sent in this phase. */
static void choice_decide(struct emx_gso_choice *c)
{
    unsigned middle = choice_middle(c->cost);

    switch (c->phase) {
    case EMX_GSO_START:
        if (c->packets >= START)
            choice_enter(c, EMX_GSO_TRY_PLACE);
        break;
    case EMX_GSO_TRY_PLACE:
        c->place_cost = middle;
        choice_enter(c, EMX_GSO_TRY_RING);
        break;
    case EMX_GSO_TRY_RING:
        c->ring = (uint64_t)middle * GAIN_DENOM < (uint64_t)c->place_cost * GAIN_NUM;
        choice_enter(c, EMX_GSO_STAY);
        break;
    case EMX_GSO_STAY:
        if (c->ring ? c->packets >= RING_STAY : (uint64_t)middle * SLOWER_DENOM > (uint64_t)c->place_cost * SLOWER_NUM)
            choice_enter(c, EMX_GSO_TRY_PLACE);
        break;
    }
}

void emx_gso_choice_sent(struct emx_gso_choice *c, uint64_t ns, unsigned len_bytes)
{
    unsigned i = c->packets++;

    if (i < SKIPPED)
        return;
    i = (i - SKIPPED) % EMX_GSO_CHOICE_TIMES;
    c->cost[i] = (uint32_t)emx_min(ns * UNIT_BYTES / len_bytes, UINT32_MAX);
    if (i == EMX_GSO_CHOICE_TIMES - 1)
        choice_decide(c);
}
