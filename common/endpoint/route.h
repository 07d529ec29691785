/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Routes: the wires and destinations by which this endpoint reaches a peer, from both addresses. Each wire finds its
 * own ways; this file sorts them.
 */
#ifndef EMX_ENDPOINT_ROUTE_H
#define EMX_ENDPOINT_ROUTE_H

#include <stddef.h>

#include "core/engine.h"
#include "core/format/address.h"
#include "progress/link.h"
#include "wire/way.h"

/* The local end. All pointers are borrowed and outlive the view. */
struct emx_route_view {
    const struct emx_way_site *site;
    const struct emx_address *self;
    const struct emx_links *links; /* best first: the order in which the user listed the wires */
};

/* Writes the routes to peer, best first, and returns how many. why: the reason for each wire that was passed over;
 * without any route, a sentence that names both ends and a remedy. */
unsigned emx_routes_find(const struct emx_route_view *v, const struct emx_address *peer,
                         struct emx_route r[EMX_ROUTES_MAX], char *why, size_t why_len_bytes);

#endif
