/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Wait policy: what a waiting program does between its polls: spin, yield, or sleep (ETHMX_WAIT). wait_policy.c
 * describes how it decides. Used under the endpoint's lock.
 */
#ifndef EMX_ENDPOINT_WAIT_POLICY_H
#define EMX_ENDPOINT_WAIT_POLICY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"

/* State of this thread at a moment of a wait. */
struct emx_wait_policy_mark {
    uint64_t now_ns; /* 0: none was set in this wait */
    uint64_t cpu_ns; /* of the processor's time */
    unsigned rounds; /* calls of ethmx_progress() */
};

/* How often a thread has slept. */
struct emx_wait_policy_pauses {
    bool set;
    pthread_t thread;
    unsigned rounds; /* calls of ethmx_progress() so far, by all threads, */
    long count;      /* and sleeps of this one */
};

struct ethmx_ep;
struct emx_clock;
struct emx_wait;

/* The functions of the host that the policy uses. Tests replace them by ones with a time of their own. */
struct emx_wait_policy_host {
    uint64_t (*now)(struct emx_clock *c);
    uint64_t (*cpu_ns)(void); /* processor time of this thread */
    long (*switches)(void);   /* involuntary context switches of this thread, */
    long (*pauses)(void);     /* and voluntary ones */
    void (*yield)(void);
    void (*prepare)(struct ethmx_ep *ep, uint64_t timeout_ns, struct emx_wait *w); /* as emx_wait_prepare() */
    bool (*sleep)(struct emx_wait *w);                                             /* as emx_wait_sleep() */
};

struct emx_wait_policy {
    enum emx_wait_mode mode;
    unsigned next_check; /* idle polls up to the next check; UINT32_MAX: never */
    unsigned limit;      /* idle polls up to the next yield or sleep */
    unsigned polls;      /* idle polls since the last check, or since a poll succeeded */
    uint64_t since_ns;   /* when the first of these was */
    unsigned yields;     /* in a row, without a successful poll; */
    uint64_t first_ns;   /* when the first of these was */
    unsigned sleeps;     /* in a row, without a successful poll */
    unsigned at_work;    /* checks that found the program at work, since a poll succeeded or the last short sleep */
    bool oversubscribed; /* other processes want this core */
    bool settled;        /* oversubscribed does not change: configured, or there are more ranks than cores */
    bool never_sleeps;
    bool checks_long_waits;
    bool in_guest;      /* in a virtual machine */
    bool probed;        /* probed without success since the last check: the program waits without an operation */
    uint64_t long_ns;   /* when this long wait is checked next; 0: it has not begun */
    unsigned step;      /* idle polls from check to check */
    uint64_t shared_ns; /* until then others are assumed to share this core */
    struct emx_wait_policy_mark mark;
    uint64_t seen_ns;                     /* when an observed yield last let others run */
    unsigned agreements;                  /* observations in a row that contradict `oversubscribed` */
    unsigned kept;                        /* yields in a row after which others kept the core for a slice of time; */
    uint64_t kept_until_ns;               /* until then another yield is assumed to take as long */
    unsigned lazy_sleeps;                 /* in a row, where the MPI library slept between polls; */
    uint64_t lazy_ns;                     /* when the last of these ended */
    struct emx_wait_policy_pauses pauses; /* when the library was last examined */
    const struct emx_wait_policy_host *host;
};

/* local_ranks: processes of the job on this host, 0: unknown. never_sleeps: the program only yields. */
void emx_wait_policy_init(struct emx_wait_policy *i, enum emx_wait_mode mode, unsigned local_ranks, bool never_sleeps);

/* The slow path of ethmx_progress(): called after `limit` idle polls, or when the wait has become long. The caller
 * holds the lock, which is released while this function sleeps or yields. true: poll again at once. */
bool emx_wait_policy_check(struct ethmx_ep *ep);

/* A poll succeeded. */
static inline void emx_wait_policy_reset(struct emx_wait_policy *i)
{
    i->polls = 0;
    i->next_check = i->step;
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

/* A poll found nothing. now: a recent time. True: it is time for emx_wait_policy_check(). */
static inline bool emx_wait_policy_poll(struct emx_wait_policy *i, uint64_t now)
{
    if (!i->polls++)
        i->since_ns = now;
    return __builtin_expect(i->polls >= i->next_check, 0);
}

#endif
