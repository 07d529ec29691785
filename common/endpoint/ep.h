/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Endpoint: the struct behind struct ethmx_ep. It joins the engine, the links and progress, and adds the lock, the
 * helper thread, sleeping and callbacks.
 *
 * The members below `lock` are used only under it, except where marked. Callbacks of the program run without the lock.
 */
#ifndef EMX_ENDPOINT_EP_H
#define EMX_ENDPOINT_EP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/config.h"
#include "base/list.h"
#include "base/stats.h"
#include "endpoint/wait_policy.h"
#include "endpoint/links.h"
#include "endpoint/lock.h"
#include "endpoint/published.h"
#include "endpoint/route.h"
#include "ethmx.h"
#include "progress/progress.h"
#include "core/format/address.h"
#include "core/engine.h"
#include "wire/netif.h"
#include "wire/netif_watch.h"

struct emx_helper; /* helper.c */

struct emx_am_slot {
    ethmx_am_fn fn;
    void *arg;
};

struct ethmx_ep {
    /* set at open */
    const volatile uint32_t *alive; /* 0 in a forked child: the endpoint belongs to the parent */
    bool threads;                   /* several threads at once */

    struct emx_lock lock;
    struct emx_progress progress; /* the engine, the links and the clock */
    struct emx_placer placer;     /* of the engine, for the wires */
    struct emx_wait_policy wait_policy;
    uint64_t large_ops; /* of progress.open_ops, the large ones: emx_ep_is_large() */
    struct emx_list failures;
    struct emx_unexpected *am_message; /* handed to the handler that runs, not received yet */
    struct emx_am_slot am[ETHMX_AM_HANDLERS];
    void (*on_error)(void *arg, struct ethmx_peer *peer, int status, const char *text);
    void *on_error_arg;

    _Atomic uint32_t rounds;   /* calls of ethmx_progress(), read by the helper without the lock */
    _Atomic uint32_t sleepers; /* threads in ethmx_wait() */
    _Atomic uint64_t armed;    /* rounds + 1 when ethmx_wait_arm() returned, so the next round ends it; 0: never */
    _Atomic uint32_t regions;  /* exposed to one-sided operations, which the helper serves; read without the lock */
    struct emx_list segments;  /* emx_segment.link: memory of regions that others may map */
    bool shares;               /* others may map memory: a wire can hand it over, and there may be other ranks here */
    struct emx_helper *helper;
    int wait_fd, timer_fd; /* of ethmx_wait_fd(): an epoll descriptor and the timer in it; -1: not made yet */

    pid_t pid;
    struct emx_config cfg;
    struct emx_published published;
    struct emx_stats *stats; /* read by ethmx_counter_read() and other processes without the lock */
    struct emx_address self;
    struct emx_netifs netifs;
    struct emx_netif_watch watch; /* on these */
    struct emx_way_site site;
    struct emx_route_view view;
};

/* Whether the program sleeps, or waits for the endpoint's descriptor, and handles frames when these arrive. */
static inline bool emx_ep_waits(const struct ethmx_ep *ep)
{
    return atomic_load(&ep->sleepers) ||
           atomic_load(&ep->armed) == (uint64_t)atomic_load_explicit(&ep->rounds, memory_order_relaxed) + 1;
}

/* The public types are the engine's. */
static inline struct emx_peer *emx_peer_in(const struct ethmx_peer *p)
{
    return (struct emx_peer *)(uintptr_t)p;
}

static inline struct ethmx_peer *emx_peer_out(const struct emx_peer *p)
{
    return (struct ethmx_peer *)(uintptr_t)p;
}

/* Whether a message of this length is too long to be sent eagerly. */
static inline bool emx_ep_is_large(const struct ethmx_ep *ep, size_t len_bytes)
{
    return len_bytes > ep->cfg.p_eager_max;
}

/* Takes the lock. false: this is a forked child, which must not touch the endpoint. */
static inline bool emx_ep_enter(struct ethmx_ep *ep)
{
    if (__builtin_expect(!*ep->alive, 0))
        return false;
    emx_lock_take(&ep->lock);
    return true;
}

static inline void emx_ep_leave(struct ethmx_ep *ep)
{
    emx_lock_give(&ep->lock);
}

#endif
