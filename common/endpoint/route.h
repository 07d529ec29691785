/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Routes: which ways lead from this endpoint to a peer, by what both have told. Each wire finds its own ways; here they
 * are put in order.
 */
#ifndef EMX_ENDPOINT_ROUTE_H
#define EMX_ENDPOINT_ROUTE_H

#include <stddef.h>

#include "core/engine.h"
#include "core/format/address.h"
#include "progress/link.h"
#include "wire/way.h"

/* What we have. */
struct emx_route_view {
    const struct emx_way_site *site;
    const struct emx_address *self;
    const struct emx_links *links; /* best first: the order in which the user listed the wires */
};

/* Writes the routes to peer, best first, and returns how many. why: for each wire passed over, the reason; when there
 * is no route at all, a sentence that names both ends and a remedy. */
unsigned emx_routes_find(const struct emx_route_view *v, const struct emx_address *peer,
                         struct emx_route r[EMX_ROUTES_MAX], char *why, size_t why_len_bytes);

#endif
