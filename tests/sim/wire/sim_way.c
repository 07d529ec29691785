/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ways of the simulated wire. Its part of an address names the node, in two bytes, which is enough for a first hello;
 * then how long frames in GSO packets may be, in two more. The way to a node leads to one process of it, which the
 * peer's endpoint number tells.
 */
#include <stdio.h>
#include <string.h>

#include "../world.h"
#include "base/min.h"
#include "sim_place.h"
#include "sim_wire.h"
#include "wire/way.h"

#define LEAST_BYTES 2
#define VALUE_BYTES 4

static const struct sim_wire *way_wire(const struct emx_wire *w)
{
    return (const void *)w;
}

unsigned sim_way_describe(const struct emx_wire *w, const struct emx_way_site *site,
                          uint8_t value[EMX_WIRE_VALUE_BYTES], unsigned *least_p)
{
    const struct sim_node *n = way_wire(w)->node;

    (void)site;
    emx_wire_value_put_u16(value, (uint16_t)n->index);
    emx_wire_value_put_u16(value + LEAST_BYTES, (uint16_t)n->world->gso_bytes);
    *least_p = LEAST_BYTES;
    return VALUE_BYTES;
}

/* Where the peer is. false: an obstacle. */
static bool way_place(const struct sim_wire *x, struct emx_way_search *s, struct sim_place *to_p)
{
    const struct sim_world *w = x->node->world;
    int party = sim_world_party(w, s->peer_id);

    if (x->node->cut_off)
        s->obstacle = "the simulated host has no wire";
    else if (s->theirs.len_bytes < LEAST_BYTES || emx_wire_value_u16(s->theirs.b) >= w->node_count || party < 0)
        s->obstacle = "its address names nobody";
    else {
        *to_p =
            (struct sim_place){.node = emx_wire_value_u16(s->theirs.b), .wire = x->number, .party = (unsigned)party};
        return true;
    }
    return false;
}

/* Adds all guesses. Chance, the same at each call, chooses the one that is right. */
static void way_add_guesses(const struct sim_wire *x, struct emx_way_search *s, struct emx_way *way)
{
    const struct sim_world *w = x->node->world;
    struct sim_place to;

    memcpy(&to, &way->to, sizeof(to));
    way->guess = w->guesses > 1;
    for (unsigned i = 0; i < w->guesses || !i; i++) {
        to.lost = w->guesses ? (emx_mix64(w->seed + x->node->index) % w->guesses + i) % w->guesses : 0;
        memcpy(&way->to, &to, sizeof(to));
        emx_way_add(s, way);
    }
}

void sim_way_find(struct emx_wire *w, struct emx_way_search *s)
{
    const struct sim_wire *x = way_wire(w);
    struct emx_way way = emx_way_start(s, NULL, s->frame_bytes, 0);
    struct sim_place to;

    if (!way_place(x, s, &to))
        return;
    if (!x->number && s->if_count)
        to.home = s->ifs[0].mac[4];
    way.theirs = (uint8_t)(x->number + 1);
    way.more_bytes = x->node->world->more_bytes;
    memcpy(&way.to, &to, sizeof(to));
    snprintf(way.interface, sizeof(way.interface), "w%u", x->number);
    way.card = (uint8_t)(x->number + 1);
    if (s->theirs.len_bytes >= VALUE_BYTES)
        way.gso_bytes = (uint16_t)emx_min_u(x->node->world->gso_bytes, emx_wire_value_u16(s->theirs.b + LEAST_BYTES));
    way.tso = way.gso_bytes && x->node->world->tso;
    way_add_guesses(x, s, &way);
}
