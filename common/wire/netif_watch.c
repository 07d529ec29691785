/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A notice of the kernel says only that something may have changed: then the state of all interfaces is read again. So
 * it does not matter if notices are lost, which happens when many come at once.
 *
 * An interface whose driver was reloaded has the same name and another index.
 */
#include "wire/netif_watch.h"

#include <assert.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define NOTICE_BYTES 8192
#define NOTICES_MOST 64 /* read in one call */

static_assert(EMX_NETIF_MAX <= 64, "masks");

void emx_netif_watch_open(struct emx_netif_watch *w)
{
    *w = (struct emx_netif_watch){.socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK), .fd = -1};
    if (w->socket &&
        !mnl_socket_bind(w->socket, RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR, MNL_SOCKET_AUTOPID))
        w->fd = mnl_socket_get_fd(w->socket);
    else
        emx_netif_watch_close(w);
}

void emx_netif_watch_start(struct emx_netif_watch *w, struct emx_netifs *netifs, const struct emx_config *cfg)
{
    w->netifs = netifs;
    w->cfg = cfg;
}

void emx_netif_watch_close(struct emx_netif_watch *w)
{
    if (w->socket)
        mnl_socket_close(w->socket);
    w->socket = NULL;
    w->fd = -1;
}

static bool watch_has(const struct emx_netif *nif)
{
    return nif->chosen && !nif->loopback;
}

/* Whether a notice may be about one of the interfaces. A new interface may be one that was removed. */
static bool watch_concerns(const struct emx_netif_watch *w, const struct nlmsghdr *h)
{
    const struct ifinfomsg *link = mnl_nlmsg_get_payload(h);
    const struct ifaddrmsg *address = mnl_nlmsg_get_payload(h);
    bool of_link = h->nlmsg_type == RTM_NEWLINK || h->nlmsg_type == RTM_DELLINK;
    const struct emx_netif *nif;

    if (mnl_nlmsg_get_payload_len(h) < (of_link ? sizeof(*link) : sizeof(*address)))
        return false;
    nif = emx_netif_by_index(w->netifs, of_link ? (unsigned)link->ifi_index : address->ifa_index);
    return nif ? watch_has(nif) : w->silent && of_link;
}

/* Takes one message of notices. false: there is none. */
static bool watch_take(struct emx_netif_watch *w, bool *changed_p)
{
    char notices[NOTICE_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
    ssize_t got = mnl_socket_recvfrom(w->socket, notices, sizeof(notices));
    const struct nlmsghdr *h = (const void *)notices;
    int left = (int)got;

    if (got < 0) {
        bool lost = errno == ENOBUFS || errno == ENOSPC; /* too many of them, or too long */

        *changed_p |= lost;
        return lost || errno == EINTR;
    }
    for (; mnl_nlmsg_ok(h, left); h = mnl_nlmsg_next(h, &left))
        *changed_p |= watch_concerns(w, h);
    return true;
}

static void watch_say(const struct emx_netif *nif, const struct emx_netif_state *now, struct emx_netif_news *news)
{
    const struct emx_ip ip = emx_netif_ip(nif);
    char text[EMX_IP_TEXT];

    if (!now->nif.index)
        snprintf(news->why, sizeof(news->why), "%s was removed", nif->name);
    else if (!now->up)
        snprintf(news->why, sizeof(news->why), "%s is down", nif->name);
    else if (!now->running)
        snprintf(news->why, sizeof(news->why), "%s has no carrier", nif->name);
    else if (!news->has_ip)
        snprintf(news->why, sizeof(news->why), "%s has lost its address %s", nif->name, emx_ip_text(&ip, text));
}

/* Whether an interface may be known by this address in place of the former. One that was chosen by a prefix takes no
 * address outside. */
static bool watch_suits(const struct emx_netif_watch *w, const struct emx_netif *nif, const struct emx_ip *former,
                        const struct emx_ip *ip)
{
    return !emx_ip_is_none(former) && !emx_ip_is_none(ip) &&
           (!emx_netif_is_asked(w->cfg, nif, former) || emx_netif_is_asked(w->cfg, nif, ip));
}

/* Takes the addresses that an interface has now in the place of those that it has lost. true: some are others. */
static bool watch_take_addresses(const struct emx_netif_watch *w, struct emx_netif *nif,
                                 const struct emx_netif_state *now)
{
    const struct emx_ip former = emx_ip_from_v4(nif->ip.s_addr), ip = emx_ip_from_v4(now->nif.ip.s_addr);
    bool moved = now->nif.has_mac && memcmp(nif->mac, now->nif.mac, sizeof(nif->mac)) != 0;

    memcpy(nif->mac, now->nif.mac, sizeof(nif->mac));
    if (!now->has4 && watch_suits(w, nif, &former, &ip)) {
        nif->ip = now->nif.ip;
        nif->prefix_bits = now->nif.prefix_bits;
        moved = true;
    }
    if (!now->has6 && watch_suits(w, nif, &nif->ip6, &now->nif.ip6)) {
        nif->ip6 = now->nif.ip6;
        nif->prefix6_bits = now->nif.prefix6_bits;
        moved = true;
    }
    return moved;
}

/* Whether an interface has the address that it is known by: that of the state, or one that it has taken since. */
static bool watch_has_ip(const struct emx_netif *nif, const struct emx_netif_state *now)
{
    if (nif->ip.s_addr)
        return now->has4 || nif->ip.s_addr == now->nif.ip.s_addr;
    return now->has6 || emx_ip_is_none(&nif->ip6) || emx_ip_equal(&nif->ip6, &now->nif.ip6);
}

/* Compares an interface with its present state. true: it has changed. */
static bool watch_compare(struct emx_netif_watch *w, unsigned i, const struct emx_netif_state *now,
                          struct emx_netif_news *news)
{
    struct emx_netif *nif = &w->netifs->nif[i];
    const uint64_t bit = UINT64_C(1) << i;

    *news = (struct emx_netif_news){
        .nif = nif, .carries = now->nif.index && now->up && now->running, .old_index = nif->index};
    if (now->nif.index) {
        nif->index = now->nif.index;
        nif->mtu_bytes = now->nif.mtu_bytes;
        news->moved = watch_take_addresses(w, nif, now);
    }
    news->has_ip = watch_has_ip(nif, now);
    news->again = (w->silent | w->bare) & bit;
    watch_say(nif, now, news);
    nif->up = news->carries;
    if (news->carries == !(w->silent & bit) && news->has_ip == !(w->bare & bit) && nif->index == news->old_index &&
        !news->moved)
        return false;
    w->silent = news->carries ? w->silent & ~bit : w->silent | bit;
    w->bare = news->has_ip ? w->bare & ~bit : w->bare | bit;
    return true;
}

static void watch_look(struct emx_netif_watch *w, emx_netif_news_fn *fn, void *arg)
{
    struct emx_netif_state now[EMX_NETIF_MAX];
    struct emx_netif_news news;

    if (!emx_netifs_look(w->netifs, w->cfg, now))
        return;
    for (unsigned i = 0; i < w->netifs->count; i++)
        if (watch_has(&w->netifs->nif[i]) && watch_compare(w, i, &now[i], &news))
            fn(arg, &news);
}

void emx_netif_watch_read(struct emx_netif_watch *w, emx_netif_news_fn *fn, void *arg)
{
    bool changed = false;

    if (w->fd < 0)
        return;
    for (unsigned i = 0; i < NOTICES_MOST && watch_take(w, &changed); i++)
        ;
    if (changed)
        watch_look(w, fn, arg);
}
