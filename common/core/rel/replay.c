/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/rel/replay.h"

static uint64_t *replay_word(struct emx_replay *r, uint64_t number)
{
    return &r->seen[number / 64 % EMX_REPLAY_WORDS];
}

/* Clears the words between the highest number so far and this one. */
static void replay_advance(struct emx_replay *r, uint64_t number)
{
    uint64_t from = r->last / 64, words = number / 64 - from;

    if (words > EMX_REPLAY_WORDS)
        words = EMX_REPLAY_WORDS;
    for (uint64_t i = 1; i <= words; i++)
        r->seen[(from + i) % EMX_REPLAY_WORDS] = 0;
    r->last = number;
}

bool emx_replay_take(struct emx_replay *r, uint64_t number)
{
    uint64_t bit = UINT64_C(1) << number % 64;

    if (!number || (number <= r->last && r->last - number >= EMX_REPLAY_WINDOW))
        return false;
    if (number > r->last)
        replay_advance(r, number);
    if (*replay_word(r, number) & bit)
        return false;
    *replay_word(r, number) |= bit;
    return true;
}
