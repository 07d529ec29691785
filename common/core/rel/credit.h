/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Credit: bounded memory for unexpected messages. Counts are bytes modulo 2^32. credit.c explains the protocol.
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

#define EMX_EAGER_OVERHEAD 128 /* memory for an unexpected message in addition to its data */

struct emx_credit {
    /* sender: what this side may use */
    uint32_t used, limit;
    uint32_t ack; /* if giving: frames that acknowledge less have an older limit */
    bool gave;    /* credit was given back at least once */
    bool giving;  /* the peer has not acknowledged that yet */

    /* receiver: what the peer may use */
    bool recall_due;
    uint32_t charged;        /* total eager bytes received */
    uint32_t released;       /* of these, no longer used */
    uint32_t share;          /* limit of charged - released */
    uint32_t announced;      /* last limit sent */
    uint32_t grown;          /* charged when the share last grew */
    uint32_t seen;           /* charged at the last check */
    emx_time seen_ns;        /* since when charged has had this value; 0: no check yet */
    emx_time recalled_ns;    /* time of the last recall; 0: never */
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

static inline void emx_credit_use(struct emx_credit *c,
                                  uint32_t cost) /* sender: emx_credit_allows() has returned true */
{
    c->used += cost;
}

/* Sender. true: send the message eagerly. */
static inline bool emx_credit_take(struct emx_credit *c, uint32_t cost)
{
    if (!emx_credit_allows(c, cost))
        return false;
    emx_credit_use(c, cost);
    return true;
}

/* Sender: returns credit of a message that was not sent. */
static inline void emx_credit_untake(struct emx_credit *c, uint32_t cost)
{
    c->used -= cost;
}

/* Whether the limit is higher. Compared with what is used, so that an invalid limit cannot wrap around. */
static inline bool emx_credit_is_more(const struct emx_credit *c, uint32_t limit)
{
    return (int32_t)(limit - c->used) > (int32_t)(c->limit - c->used);
}

void emx_credit_heard_again(struct emx_credit *c, uint32_t limit, uint32_t ack, uint32_t tx_next);

/* Sender: a frame has a limit, and acknowledges frames before ack. No frame from tx_next on was sent. */
static inline void emx_credit_heard(struct emx_credit *c, uint32_t limit, uint32_t ack, uint32_t tx_next)
{
    if (__builtin_expect(c->gave, 0))
        emx_credit_heard_again(c, limit, ack, tx_next);
    else if (emx_credit_is_more(c, limit))
        c->limit = limit;
}

/* The same for a short frame, which has no acknowledgement. */
static inline void emx_credit_heard_short(struct emx_credit *c, uint32_t limit)
{
    if (emx_credit_is_more(c, limit) && !c->giving)
        c->limit = limit;
}

/* Receiver. false: the message exceeds the credit. */
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

static inline void emx_credit_announced(struct emx_credit *c, uint32_t limit) /* a frame with this limit leaves */
{
    c->announced = limit;
}

static inline void emx_credit_released(struct emx_credit *c, uint32_t cost)
{
    c->released += cost;
}

/* Releases memory without returning credit to the peer: the peer is gone, and the promise stays until the message is
 * freed. */
static inline void emx_credit_orphan(struct emx_credit *c, uint32_t cost)
{
    c->released += cost;
    c->share -= cost;
}

/* Whether to send the limit now, before the sender's credit is used up. */
static inline bool emx_credit_is_news(const struct emx_credit *c)
{
    return emx_credit_limit(c) - c->announced > c->share / 2;
}

uint64_t emx_credit_floor(const struct emx_engine *e); /* minimum share of a peer */
void emx_credit_open(struct emx_session *s);
void emx_credit_close(struct emx_session *s);
void emx_credit_release(struct emx_session *s, uint32_t cost);
void emx_credit_starved(struct emx_session *s, emx_time now);
/* Receiver: takes a due recall and its limit. false: there is none. */
bool emx_credit_recall(struct emx_session *s, uint32_t *limit_p);
enum emx_drop emx_credit_input_recall(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_credit_input_given(struct emx_session *s, const uint8_t *data, emx_time now);

#endif
