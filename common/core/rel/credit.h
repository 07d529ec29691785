/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Credit: bounded memory for unexpected messages. Counts are bytes modulo 2^32; credit.c tells how they move.
 */
#ifndef EMX_CORE_CREDIT_H
#define EMX_CORE_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/format/frame.h"
#include "core/time.h"

struct emx_engine;
struct emx_session;

#define EMX_EAGER_OVERHEAD 128 /* what an unexpected message costs beside its data */

struct emx_credit {
    /* sender: ours to spend */
    uint32_t used, limit;
    uint32_t ack; /* giving: frames that acknowledge less tell an older limit */
    bool gave;    /* some of ours was given back, ever; */
    bool giving;  /* the peer has not heard of it yet */

    /* receiver: the peer's */
    bool recall_due;
    uint32_t charged;        /* eager bytes received in all */
    uint32_t released;       /* of these, no longer held */
    uint32_t share;          /* the peer may have this much unreleased */
    uint32_t announced;      /* limit last told */
    uint32_t grown;          /* charged when the share last grew */
    uint32_t seen;           /* charged at the last look, */
    emx_time seen_ns;        /* and since when it has been that; 0: no look yet */
    emx_time recalled_ns;    /* the share was last asked for; 0: never */
    struct emx_list sharing; /* in engine.sharing while the share may be more than a floor */
};

static inline uint32_t emx_eager_cost(uint64_t total_bytes)
{
    return (uint32_t)total_bytes + EMX_EAGER_OVERHEAD;
}

static inline bool emx_credit_allows(const struct emx_credit *c, uint32_t cost)
{
    return (int32_t)(c->limit - c->used - cost) >= 0;
}

static inline void emx_credit_use(struct emx_credit *c, uint32_t cost) /* sender: it is allowed */
{
    c->used += cost;
}

/* Sender. true: the message goes eagerly. */
static inline bool emx_credit_take(struct emx_credit *c, uint32_t cost)
{
    if (!emx_credit_allows(c, cost))
        return false;
    emx_credit_use(c, cost);
    return true;
}

/* Sender: what was taken was not sent. */
static inline void emx_credit_untake(struct emx_credit *c, uint32_t cost)
{
    c->used -= cost;
}

/* Whether the peer allows more. Counted from what is used, or a peer that tells nonsense could take the limit round. */
static inline bool emx_credit_is_more(const struct emx_credit *c, uint32_t limit)
{
    return (int32_t)(limit - c->used) > (int32_t)(c->limit - c->used);
}

void emx_credit_heard_again(struct emx_credit *c, uint32_t limit, uint32_t ack, uint32_t tx_next);

/* Sender: a frame has told a limit, and acknowledged what precedes ack. Nothing beyond tx_next was sent. */
static inline void emx_credit_heard(struct emx_credit *c, uint32_t limit, uint32_t ack, uint32_t tx_next)
{
    if (__builtin_expect(c->gave, 0))
        emx_credit_heard_again(c, limit, ack, tx_next);
    else if (emx_credit_is_more(c, limit))
        c->limit = limit;
}

/* The same of a short frame, which acknowledges nothing. */
static inline void emx_credit_heard_short(struct emx_credit *c, uint32_t limit)
{
    if (emx_credit_is_more(c, limit) && !c->giving)
        c->limit = limit;
}

/* Receiver. false: overdrawn. */
static inline bool emx_credit_covers(const struct emx_credit *c, uint64_t total_bytes)
{
    return total_bytes <= c->share && c->charged - c->released + emx_eager_cost(total_bytes) <= c->share;
}

static inline void emx_credit_charge(struct emx_credit *c, uint32_t cost)
{
    c->charged += cost;
}

static inline uint32_t emx_credit_limit(const struct emx_credit *c)
{
    return c->released + c->share;
}

static inline void emx_credit_announced(struct emx_credit *c, uint32_t limit) /* a frame that tells it leaves */
{
    c->announced = limit;
}

static inline void emx_credit_released(struct emx_credit *c, uint32_t cost)
{
    c->released += cost;
}

/* Releases what the peer is not given back: it is gone, and the promise stays until the message is freed. */
static inline void emx_credit_orphan(struct emx_credit *c, uint32_t cost)
{
    c->released += cost;
    c->share -= cost;
}

/* Whether the sender is to be told of its limit before it runs dry. */
static inline bool emx_credit_is_news(const struct emx_credit *c)
{
    return emx_credit_limit(c) - c->announced > c->share / 2;
}

uint64_t emx_credit_floor(const struct emx_engine *e); /* the least share that a peer has */
void emx_credit_open(struct emx_session *s);
void emx_credit_close(struct emx_session *s);
void emx_credit_release(struct emx_session *s, uint32_t cost);
void emx_credit_starved(struct emx_session *s, emx_time now);
/* Receiver: takes a recall that is due, and its limit; false: there is none. */
bool emx_credit_recall(struct emx_session *s, uint32_t *limit_p);
enum emx_drop emx_credit_input_recall(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_credit_input_given(struct emx_session *s, const uint8_t *data, emx_time now);

#endif
