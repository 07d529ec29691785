/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Learning: the launcher carries only what a first hello needs (emx_address_encode_within()). The peer's hellos and
 * hello_acks have the rest: further interfaces and their MAC addresses, GSO packets, frame lengths, the host's name.
 * New information is stored in the session. If it may change the routes, they are requested again. The handshake
 * continues meanwhile, and restarts only if a route that was not tried yet comes before the current one, or if that has
 * another length.
 */
#include <string.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/address.h"
#include "core/rel/connect.h"
#include "core/rel/learn.h"
#include "core/rel/rail.h"
#include "core/rel/session.h"
#include "core/rel/tag.h"

static bool learn_changes_routes(const struct emx_address *a, const struct emx_address *known)
{
    return a->if_count != known->if_count || a->part_bytes != known->part_bytes ||
           memcmp(a->part, known->part, a->part_bytes) || memcmp(a->ifs, known->ifs, sizeof(a->ifs));
}

void emx_learn_address(struct emx_session *s, const struct emx_address *a, const void *addr, size_t len_bytes)
{
    struct emx_engine *e = s->e;
    struct emx_connect *c = s->connect;
    const struct emx_address *known;
    bool changes;

    if (c->told)
        return;
    known = emx_peer_address(e, s->peer);
    changes = learn_changes_routes(a, known);
    if (!changes && !strcmp(a->host, known->host))
        return;
    c->told = emx_alloc_get(&e->alloc, len_bytes);
    if (!c->told)
        return; /* the address will arrive again */
    memcpy(c->told, addr, len_bytes);
    c->told_bytes = (uint16_t)len_bytes;
    if (!changes || s->state != EMX_S_CONNECTING)
        return;
    c->relearns = true;
    emx_session_ask_routes(s);
}

void emx_learn_anew(struct emx_session *s)
{
    if (emx_list_linked(&s->routing))
        return;
    s->connect->renews = true;
    emx_session_ask_routes(s);
}

bool emx_learn_moved(struct emx_session *s, const void *addr, size_t len_bytes, uint32_t moves)
{
    struct emx_connect *c = s->connect;
    uint8_t *told;

    told = emx_alloc_get(&s->e->alloc, len_bytes);
    if (!told)
        return false;
    memcpy(told, addr, len_bytes);
    emx_alloc_put(&s->e->alloc, c->told);
    c->told = told;
    c->told_bytes = (uint16_t)len_bytes;
    c->moves = moves;
    emx_learn_anew(s);
    return true;
}

static bool learn_same_place(const struct emx_route *a, const struct emx_route *b)
{
    return a->link == b->link && a->frame_bytes == b->frame_bytes && !memcmp(&a->to, &b->to, sizeof(a->to));
}

/* The same interface, and perhaps more is known of the place. Routes that are guesses may differ by the place alone. */
static bool learn_same_interface(const struct emx_route *a, const struct emx_route *b)
{
    return a->link == b->link && a->frame_bytes == b->frame_bytes && !strcmp(a->name, b->name) && !a->guess;
}

/* Index of the first of the n routes that is the same as this one; n: there is none. */
static unsigned learn_find(const struct emx_route *route, const struct emx_route *r, unsigned n,
                           bool (*same)(const struct emx_route *a, const struct emx_route *b))
{
    unsigned i = 0;

    while (i < n && !same(&r[i], route))
        i++;
    return i;
}

/* Index of the current route among the new ones; n: not found. */
static unsigned learn_current(const struct emx_connect *c, const struct emx_route *r, unsigned n)
{
    unsigned i = learn_find(&c->route[c->current], r, n, learn_same_place);

    return i < n ? i : learn_find(&c->route[c->current], r, n, learn_same_interface);
}

/* Whether the n routes have failed, all of them before the current one. */
static bool learn_failed(const struct emx_connect *c, const struct emx_route *r, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (learn_find(&r[i], c->route, c->current, learn_same_place) == c->current)
            return false;
    return true;
}

bool emx_learn_routes(struct emx_session *s, const struct emx_route *r, unsigned n)
{
    struct emx_connect *c = s->connect;
    unsigned tag_bytes, current = learn_current(c, r, n);
    bool goes_on = current < n && learn_failed(c, r, current);

    c->relearns = false;
    if (!n)
        return true;
    memcpy(c->route, r, n * sizeof(*r));
    c->count = n;
    if (!goes_on)
        return false;
    c->current = current;
    tag_bytes = emx_tag_bytes(s->e, r[current].link);
    s->to = r[current].to;
    s->gso_bytes = r[current].gso_bytes ? (uint16_t)(r[current].gso_bytes - tag_bytes) : 0;
    return true;
}

/* How many of the n routes before this one go the same way: by the same wire and interfaces. */
static unsigned learn_same_before(const struct emx_route *route, const struct emx_route *r, unsigned n)
{
    unsigned same = 0;

    for (unsigned i = 0; i < n; i++)
        same += r[i].link == route->link && r[i].theirs == route->theirs && !strcmp(r[i].name, route->name);
    return same;
}

/* The one of the n routes that this one has become; NULL: none. before: routes of the session before it that go the
 * same way. */
static const struct emx_route *learn_become(const struct emx_route *route, const struct emx_route *r, unsigned n,
                                            unsigned before)
{
    for (unsigned j = 0; j < n; j++)
        if (learn_same_before(route, &r[j], 1) && learn_same_before(route, r, j) == before)
            return &r[j];
    return NULL;
}

void emx_learn_places(struct emx_session *s, const struct emx_route *r, unsigned n)
{
    struct emx_connect *c = s->connect;

    c->renews = false;
    for (unsigned i = 0; i < c->count; i++) {
        struct emx_route *route = &c->route[i];
        const struct emx_route *now = learn_become(route, r, n, learn_same_before(route, c->route, i));

        if (now)
            route->to = now->to;
        emx_rails_renew(s, route);
    }
    s->to = emx_connect_route(s)->to;
}
