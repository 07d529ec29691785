/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Idle: what a waiting program does between its polls: nothing, give way, or sleep (ETHMX_WAIT). See wait_policy.c.
 */
#ifndef EMX_ENDPOINT_WAIT_POLICY_H
#define EMX_ENDPOINT_WAIT_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"

/* What this thread had come to at some moment of a wait. */
struct emx_wait_policy_mark {
    uint64_t now_ns; /* 0: none was set in this wait */
    uint64_t cpu_ns; /* of the processor's time */
    unsigned rounds; /* calls of ethmx_progress() */
};

struct ethmx_ep;
struct emx_clock;
struct emx_wait;

/* Where idle learns about time and other programs, and by which it makes way. Tests have hosts of their own, on which
 * time passes as they say. */
struct emx_wait_policy_host {
    uint64_t (*now)(struct emx_clock *c);
    uint64_t (*cpu_ns)(void); /* the processor's time that this thread has had */
    long (*switches)(void);   /* how often this thread has lost the processor to others */
    void (*yield)(void);
    void (*prepare)(struct ethmx_ep *ep, uint64_t timeout_ns, struct emx_wait *w); /* as emx_wait_prepare() */
    bool (*sleep)(struct emx_wait *w);                                             /* as emx_wait_sleep() */
};

struct emx_wait_policy {
    enum emx_wait_mode mode;
    unsigned look;     /* idle polls up to the next look; UINT32_MAX: never */
    unsigned limit;    /* idle polls up to the next yield or sleep */
    unsigned polls;    /* idle polls since the last look, or since something happened */
    uint64_t since_ns; /* when the first of these was */
    unsigned yields;   /* in a row, without anything happening; */
    uint64_t first_ns; /* when the first of these was */
    unsigned sleeps;   /* in a row, without anything happening */
    unsigned at_work;  /* looks that found the program at work, since something happened or the last nap */
    bool crowded;      /* others want our core */
    bool settled;      /* crowded does not change: asked for, or there are more ranks than cores */
    bool never_sleeps;
    bool may_tire;      /* long waits are looked at */
    bool probed;        /* since the last look, in vain: the program waits for a message without an operation */
    uint64_t long_ns;   /* when this wait is looked at as a long one; 0: it has not begun */
    unsigned step;      /* idle polls from look to look */
    uint64_t shared_ns; /* until then others are believed to share our core */
    struct emx_wait_policy_mark mark;
    uint64_t seen_ns;    /* when an observed yield last let others run */
    unsigned agreements; /* observations in a row that speak against `crowded` */
    const struct emx_wait_policy_host *host;
};

/* local_ranks: processes of the job on this host, 0: unknown. never_sleeps: yielding must do. */
void emx_wait_policy_init(struct emx_wait_policy *i, enum emx_wait_mode mode, unsigned local_ranks, bool never_sleeps);

/* The slow half of ethmx_progress(): after as many idle polls as idle.limit says, or when the wait has become long. The
 * caller holds the lock, which is given back while this sleeps or yields, and taken again. True: poll again at once. */
bool emx_wait_policy_look(struct ethmx_ep *ep);

/* Something happened. */
static inline void emx_wait_policy_reset(struct emx_wait_policy *i)
{
    i->polls = 0;
    i->look = i->step;
    i->yields = 0;
    i->sleeps = 0;
    i->at_work = 0;
    i->long_ns = 0;
}

/* A probe found nothing. */
static inline void emx_wait_policy_probe(struct emx_wait_policy *i)
{
    i->probed = true;
}

/* A poll found nothing. now: a recent time. True: it is time for emx_wait_policy_look(). */
static inline bool emx_wait_policy_poll(struct emx_wait_policy *i, uint64_t now)
{
    if (!i->polls++)
        i->since_ns = now;
    return __builtin_expect(i->polls >= i->look, 0);
}

#endif
