/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Routes: which ways lead from this endpoint to a peer, by what both have told. Pure: the kernel's routing table comes
 * in as a function. See route.c for the rules.
 */
#ifndef EMX_ENDPOINT_ROUTE_H
#define EMX_ENDPOINT_ROUTE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/format/address.h"
#include "core/engine.h"
#include "wire/netif.h"

/* A wire that we have open; its place in emx_route_view.link is the link's number. Best first. */
struct emx_route_link {
    enum emx_address_wire kind;
    unsigned frame_bytes;                     /* the longest that the wire itself takes */
    uint64_t xdp_netifs;                      /* xdp: bit i: it is on netifs->nif[i] */
    uint64_t verbs_netifs[EMX_VERBS_FABRICS]; /* verbs: the same, by what the devices speak */
    bool reliable, connected, reads;          /* as in struct emx_wire_attr */
    uint64_t lend_min_bytes;                  /* the same */
    const struct emx_costs *lend_costs;       /* the same */
};

/* What we have. */
struct emx_route_view {
    const struct emx_netifs *netifs;
    const struct emx_address *self;
    struct emx_route_link link[EMX_ENGINE_LINKS];
    unsigned link_count;
    unsigned mtu_bytes;                                                /* ETHMX_MTU; 0: no limit */
    unsigned (*lookup)(void *arg, struct in_addr ip, bool *on_link_p); /* as emx_netif_route() */
    void *lookup_arg;
    bool (*reach)(void *arg, unsigned link, const struct emx_wire_addr *to, char *why,
                  size_t why_len_bytes); /* as in struct emx_wire_ops */
    void *reach_arg;
};

/* Writes the routes to peer, best first, and returns how many. why: for each wire passed over, the reason; when there
 * is no route at all, a sentence that names both ends and a remedy. */
unsigned emx_routes_find(const struct emx_route_view *v, const struct emx_address *peer,
                         struct emx_route r[EMX_ROUTES_MAX], char *why, size_t why_len_bytes);

/* The bit in an address of the wire with this name. There must be one: each wire has a row in route.c. */
enum emx_address_wire emx_route_kind(const char *name);

/* What an endpoint tells peers of an interface: the longest Ethernet payload, ETHMX_MTU considered. */
unsigned emx_route_mtu(const struct emx_netif *nif, unsigned mtu_limit_bytes);

#endif
