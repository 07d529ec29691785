/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Learning: the launcher carries only what a first hello needs (emx_address_encode_within()). The peer's hellos and
 * hello_acks have the rest: further interfaces and their MAC addresses, GSO packets, frame lengths, the host's name.
 * New information is stored in the session. If it may change the routes, they are requested again. The handshake
 * continues meanwhile, and restarts only if the best route is another one, or has another length.
 */
#include <string.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/address.h"
#include "core/rel/connect.h"
#include "core/rel/learn.h"
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

/* Index of the current route among the new ones; n: not found. */
static unsigned learn_current(const struct emx_connect *c, const struct emx_route *r, unsigned n)
{
    const struct emx_route *old = &c->route[c->current];
    unsigned i = 0;

    while (i < n && (r[i].link != old->link || r[i].frame_bytes != old->frame_bytes || strcmp(r[i].name, old->name)))
        i++;
    return i;
}

bool emx_learn_routes(struct emx_session *s, const struct emx_route *r, unsigned n)
{
    struct emx_connect *c = s->connect;
    unsigned tag_bytes, current = learn_current(c, r, n);

    c->relearns = false;
    if (!n)
        return true;
    memcpy(c->route, r, n * sizeof(*r));
    c->count = n;
    if (current)
        return false;
    c->current = 0;
    tag_bytes = emx_tag_bytes(s->e, r->link);
    s->to = c->route[0].to;
    s->gso_bytes = c->route[0].gso_bytes ? (uint16_t)(c->route[0].gso_bytes - tag_bytes) : 0;
    return true;
}
