/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Peer: what is known of another endpoint.
 */
#ifndef EMX_CORE_PEER_H
#define EMX_CORE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "core/engine_impl.h"
#include "core/format/pack.h"

/* A job has many peers without communication, so what only the others need is in the session. */
struct emx_peer {
    struct emx_peer *next_hash;
    struct emx_peer *like; /* its address is packed against this one's; NULL: against the endpoint's own */
    void *user;
    struct emx_session *session;
    struct emx_list ops; /* operations that fail when the peer does */
    uint32_t id, cookie;
    unsigned posted; /* receives from this peer only */
    uint32_t packed_bytes : 10;
    uint32_t has_secret : 1; /* stored behind packed; with ETHMX_AUTH=on there is always room for it */
    uint32_t watched : 1;    /* in engine.watched */
    uint32_t ghost : 1;      /* was removed; stays because others are packed against it */
    uint32_t likes : 19;     /* number of peers packed against it; EMX_LIKES_MAX: that or more */
    uint8_t packed[];        /* its address, see peer.c */
};

#define EMX_LIKES_MAX ((1u << 19) - 1)

static_assert(EMX_PACK_MAX(ETHMX_ADDRESS_MAX) < 1 << 10, "packed_bytes");
struct emx_peer *emx_peer_look_up(struct emx_engine *e, uint32_t id);

static inline struct emx_peer *emx_peer_find(struct emx_engine *e, uint32_t id)
{
    struct emx_peer *p = e->last_peer;

    return p && p->id == id ? p : emx_peer_look_up(e, id);
}

/* Finds or creates the peer of an address, decoded and encoded. */
int emx_peer_make(struct emx_engine *e, const struct emx_address *a, const void *addr, size_t len_bytes,
                  struct emx_peer **peer_p); /* NO_MEMORY, PARAM: another one has its number */
/* Whether it is the endpoint with this address. */
bool emx_peer_is(struct emx_engine *e, const struct emx_peer *p, const struct emx_address *a);
void emx_peer_unlink(struct emx_engine *e, struct emx_peer *p); /* removes it from all tables */
void emx_peer_free(struct emx_engine *e, struct emx_peer *p);   /* frees it after that, if its likes are 0 */
void emx_peer_watch_now(struct emx_engine *e, struct emx_peer *p);

static inline void emx_peer_watch(struct emx_engine *e, struct emx_peer *p) /* an operation depends on it */
{
    if (!p->watched)
        emx_peer_watch_now(e, p);
}

#endif
