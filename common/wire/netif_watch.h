/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A watch on the chosen interfaces: the kernel tells (rtnetlink) when one is removed, goes down, loses its carrier or
 * its IP address, and when it is back, perhaps with another address. Used under the endpoint's lock; no privilege is
 * needed.
 */
#ifndef EMX_WIRE_NETIF_WATCH_H
#define EMX_WIRE_NETIF_WATCH_H

#include "wire/netif.h"

#define EMX_NETIF_WHY 96

struct mnl_socket;

struct emx_netif_watch {
    struct mnl_socket *socket; /* NULL: the kernel tells nothing */
    int fd;                    /* becomes readable; -1: the same */
    struct emx_netifs *netifs;
    const struct emx_config *cfg;
    uint64_t silent, bare; /* masks: interfaces that carry nothing, that have lost their address */
};

/* What has happened to an interface. */
struct emx_netif_news {
    const struct emx_netif *nif; /* with its present index, MTU and addresses */
    bool carries;                /* it is there, up, and has a carrier */
    bool again;                  /* it lacked something before, too */
    bool has_ip;                 /* it has the address that it is known by */
    bool moved;                  /* that, or its MAC address, is another than before */
    unsigned old_index;
    char why[EMX_NETIF_WHY]; /* what it lacks; "": nothing */
};

typedef void emx_netif_news_fn(void *arg, const struct emx_netif_news *news);

/* Begins before the interfaces are read, so that no change is missed. */
void emx_netif_watch_open(struct emx_netif_watch *w);

/* Watches the chosen interfaces of netifs, which outlive the watch as cfg does, and are kept up to date. */
void emx_netif_watch_start(struct emx_netif_watch *w, struct emx_netifs *netifs, const struct emx_config *cfg);
void emx_netif_watch_close(struct emx_netif_watch *w);

/* Reads what the kernel has told, and calls fn for each interface whose state has changed. One system call if it has
 * told nothing. */
void emx_netif_watch_read(struct emx_netif_watch *w, emx_netif_news_fn *fn, void *arg);

#endif
