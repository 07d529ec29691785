/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pulling over rails: what pull.c keeps for each rail, and the choice of one. rel/rail.c explains rails.
 */
#ifndef EMX_CORE_PULL_RAIL_H
#define EMX_CORE_PULL_RAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/cc/pace.h"
#include "core/engine_impl.h"
#include "core/msg/rndv.h"
#include "core/rel/rail.h"
#include "core/session_impl.h"

/* Of rail 0 the engine has the pace, because all peers share it, and the session the times. */
static inline struct emx_pace *emx_pull_pace(struct emx_session *s, unsigned rail)
{
    return rail ? &s->rails->rail[rail].pace : &s->e->pace;
}

static inline emx_time *emx_pull_way(struct emx_session *s, unsigned rail)
{
    return rail ? &s->rails->rail[rail].way_ns : &s->pulling.way_ns;
}

static inline struct emx_rtt *emx_pull_rtt(struct emx_session *s, unsigned rail)
{
    return rail ? &s->rails->rail[rail].block_rtt : &s->pulling.block_rtt;
}

static inline uint64_t emx_pull_asked_bytes(const struct emx_session *s, unsigned rail)
{
    return rail ? s->rails->rail[rail].asked_bytes : s->e->pulling_bytes;
}

/* So many bytes were requested; negative: have arrived, or are not waited for any more. */
static inline void emx_pull_asked(struct emx_session *s, unsigned rail, int64_t bytes)
{
    if (!rail) {
        s->e->pulling_bytes += (uint64_t)bytes;
        return;
    }
    s->rails->rail[rail].asked_bytes += (uint64_t)bytes;
    s->e->rail_bytes += (uint64_t)bytes;
}

/* Makes a pull_rail of a pull. */
static inline void emx_pull_say_rail(struct emx_f_pull *t, uint8_t rail)
{
    t->joined = 0;
    ((struct emx_f_pull_rail *)(void *)t)->rail = rail;
}

/* Whether the session requests over rail 0. */
static inline bool emx_pull_first_rail_works(const struct emx_session *s)
{
    return !s->rails || s->rails->rail[0].failures < EMX_RAIL_FAILURES;
}

/* A rail other than 0 over which a block of so many bytes, of left_bytes that were not requested yet, arrives sooner
 * than over rail 0 behind them; 0: there is none. */
unsigned emx_pull_choose(const struct emx_session *s, uint64_t block_bytes, uint64_t left_bytes);

/* The rail over which missing chunks of a block are requested again. other: not the same, if there is another. */
unsigned emx_pull_choose_again(const struct emx_session *s, unsigned rail, bool other);

/* A block is complete, ns after it was requested for the first and only time. */
void emx_pull_measured(struct emx_session *s, const struct emx_block *b, emx_time ns);

/* When the rail of a requested block has been silent for too long. */
emx_time emx_pull_rail_late_ns(struct emx_session *s, const struct emx_block *b);

/* The longest time-out of the rails of the message's blocks. */
emx_time emx_pull_timeout_ns(struct emx_session *s, const struct emx_rndv *r);

#endif
