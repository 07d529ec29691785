/* SPDX-License-Identifier: BSD-3-Clause */
#include "node_ways.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint/links.h"
#include "world.h"

/* A simulated host has no interfaces of the kernel's. */
static const struct emx_netifs no_netifs;
static const struct emx_way_site site = {.netifs = &no_netifs};

/* ---- Wires ---- */

static void ways_open(struct sim_node *n, unsigned link, uint64_t chance)
{
    const struct sim_wire_params params = {.wire = {.placer = &n->placer,
                                                    .cfg = &n->cfg,
                                                    .netifs = &no_netifs,
                                                    .endpoint_id = n->world->party[n->party].id,
                                                    .job_cookie = n->world->cookie,
                                                    .stats = &n->stats},
                                           .node = n,
                                           .number = n->wires[link],
                                           .link = link,
                                           .chance = chance >> (8 + 2 * n->wires[link])};
    struct emx_wire *wire;
    char why[256];

    if (emx_wire_find("sim")->open(&wire, &params.wire, why, sizeof(why)))
        abort();
    emx_links_add(&n->progress.links, wire->ops, wire);
    n->wire[params.number] = (struct sim_wire *)wire;
}

void sim_node_open_wires(struct sim_node *n, uint64_t chance)
{
    for (unsigned i = 0; i < n->world->wire_count; i++)
        ways_open(n, i, chance);
}

void sim_node_close_wires(struct sim_node *n)
{
    emx_links_close(&n->progress.links);
    memset(n->wire, 0, sizeof(n->wire));
}

/* ---- Addresses ---- */

/* As random as the world allows. */
static void ways_secret(uint32_t id, struct emx_address *a)
{
    for (unsigned i = 0; a->has_secret && i < sizeof(a->secret); i++)
        a->secret[i] = emx_mix64(id + i);
}

void sim_node_make_address(struct sim_node *n)
{
    struct sim_world *w = n->world;
    struct emx_address *a = &n->self, told;
    uint8_t addr[ETHMX_ADDRESS_MAX];
    char err[256] = "";

    *a = (struct emx_address){.cookie = w->cookie, .host_id = n->index + 1, .if_count = 1};
    a->id = w->party[n->party].id;
    a->auth = a->has_secret = w->auth;
    ways_secret(a->id, a);
    a->ifs[0].mac[0] = 2;
    a->ifs[0].mac[4] = n->home;
    a->ifs[0].mac[5] = n->index;
    a->ifs[0].frame_bytes = w->frame_bytes[0];
    snprintf(a->host, sizeof(a->host), "n%u", n->index);
    if (emx_links_tell(&n->progress.links, &site, a))
        sim_fail(w, "n%u: the address has no room for its wires", n->index);
    else if (!emx_address_decode(&told, addr, emx_address_encode(a, addr), err, sizeof(err)))
        sim_fail(w, "n%u: the address it was made with is refused: %s", n->index, err);
}

/* What a first hello needs, as a launcher carries it that has room for nothing more. */
static size_t ways_encode_least(const struct emx_address *a, uint8_t *addr)
{
    size_t len_bytes = 0;

    for (size_t room_bytes = 1; !len_bytes && room_bytes <= ETHMX_ADDRESS_LAUNCHER; room_bytes++)
        len_bytes = emx_address_encode_within(a, room_bytes, addr);
    return len_bytes;
}

size_t sim_node_address(const struct sim_node *n, uint32_t id, uint8_t addr[ETHMX_ADDRESS_MAX])
{
    struct emx_address a = n->self;

    if (!a.id)
        return 0;
    a.id = id;
    ways_secret(id, &a);
    return n->world->brief ? ways_encode_least(&a, addr) : emx_address_encode(&a, addr);
}

/* ---- Routes ---- */

/* What is missing while the peer is known from the launcher's address only: by chance all routes but the last, or their
 * order. Returns how many are left. */
static unsigned ways_spoil(const struct sim_node *n, struct emx_route *r, unsigned count)
{
    uint64_t chance = emx_mix64(n->world->seed + n->index);

    if (chance % 3 == 0 || count < 2)
        return count;
    for (unsigned i = 0; i < count / 2; i++) {
        struct emx_route first = r[i];

        r[i] = r[count - 1 - i];
        r[count - 1 - i] = first;
    }
    return chance % 3 == 1 || n->world->guesses ? count : 1;
}

unsigned sim_node_routes(struct sim_node *n, struct emx_peer *peer, struct emx_route r[EMX_ROUTES_MAX], char *why,
                         size_t why_len_bytes)
{
    const struct emx_route_view view = {.site = &site, .self = &n->self, .links = &n->progress.links};
    struct emx_address a = *emx_peer_address(n->engine, peer);
    unsigned count = emx_routes_find(&view, &a, r, why, why_len_bytes);

    return n->world->brief && !a.host[0] ? ways_spoil(n, r, count) : count;
}
