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

/* Of rail 0 the session has the times. */
static inline struct emx_pace *emx_pull_pace(struct emx_engine *e, unsigned rail)
{
    return rail ? &e->rail[rail].pace : &e->pace;
}

static inline emx_time *emx_pull_way(struct emx_session *s, unsigned rail)
{
    return rail ? &s->rails->rail[rail].way_ns : &s->pulling.way_ns;
}

static inline struct emx_rtt *emx_pull_rtt(struct emx_session *s, unsigned rail)
{
    return rail ? &s->rails->rail[rail].block_rtt : &s->pulling.block_rtt;
}

/* From all peers. */
static inline uint64_t emx_pull_asked_bytes(const struct emx_engine *e, unsigned rail)
{
    return rail ? e->rail[rail].asked_bytes : e->pulling_bytes;
}

static inline uint64_t emx_pull_block_bytes(const struct emx_rndv *r, const struct emx_block *b)
{
    return (uint64_t)__builtin_popcountll(b->missing) * r->chunk_bytes;
}

/* So many bytes were requested; negative: have arrived, or are not waited for any more. */
static inline void emx_pull_asked(struct emx_session *s, unsigned rail, int64_t bytes)
{
    if (!rail) {
        s->e->pulling_bytes += (uint64_t)bytes;
        return;
    }
    s->rails->rail[rail].asked_bytes += (uint64_t)bytes;
    s->e->rail[rail].asked_bytes += (uint64_t)bytes;
    s->e->rail_bytes += (uint64_t)bytes;
}

/* Whether the session requests over rail 0. */
bool emx_pull_first_rail_works(const struct emx_session *s);

/* A rail other than 0 over which a block of so many bytes, of left_bytes that were not requested yet, arrives sooner
 * than over rail 0 behind them; 0: there is none. */
unsigned emx_pull_choose(const struct emx_session *s, uint64_t block_bytes, uint64_t left_bytes);

/* The rail over which missing chunks of a block are requested again. other: not the same, if there is another. */
unsigned emx_pull_choose_again(const struct emx_session *s, unsigned rail, bool other);

/* The block is requested over this rail from now on. */
void emx_pull_change_rail(struct emx_rndv *r, struct emx_block *b, unsigned rail);

/* Nothing of a message has arrived for a time-out: its block is about to be requested again, over another rail. */
void emx_pull_leave_rail(struct emx_rndv *r, struct emx_block *b, emx_time now);

/* Requests over other rails all blocks that this one was to carry. */
void emx_pull_ask_others(struct emx_session *s, unsigned rail);

/* A block has been requested: its rail may fall silent before the message does. */
void emx_pull_await_rail(struct emx_rndv *r, const struct emx_block *b, emx_time now);

/* A block is complete, ns after it was requested for the first and only time. */
void emx_pull_measured(struct emx_session *s, const struct emx_block *b, emx_time ns);

/* Data has arrived over this rail of the peer. */
void emx_pull_heard(struct emx_session *s, unsigned rail, emx_time now);

/* Data has arrived that replies to the last request for the block. */
void emx_pull_replied(struct emx_session *s, struct emx_block *b, emx_time now);

/* Silence of a rail after which its blocks may be late: the time of a block, with the queue that there is. */
emx_time emx_pull_silence_ns(struct emx_session *s, unsigned rail);

/* When the block is requested over another rail, unless its own is heard until then: at now at the latest if it is due.
 * See pull_rail.c. */
emx_time emx_pull_rail_late_ns(struct emx_session *s, const struct emx_block *b, emx_time now);

/* When time begins to count for a message: from_ns, or later. Data of the peer's other messages may have been queued
 * before its own, and the reply to a message that was requested again shows whether the peer responds. */
emx_time emx_pull_rails_from_ns(const struct emx_session *s, const struct emx_rndv *r, emx_time from_ns,
                                emx_time timeout_ns);

/* The longest time-out of the rails of the message's blocks. */
emx_time emx_pull_timeout_ns(struct emx_session *s, const struct emx_rndv *r);

#endif
