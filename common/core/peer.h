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

/* A job has many peers that are never talked to, so all that only others need is in the session. */
struct emx_peer {
    struct emx_peer *next_hash;
    struct emx_peer *like; /* its address is packed against this one's; NULL: against our own */
    void *user;
    struct emx_session *session;
    struct emx_list ops; /* operations that fail when the peer does */
    uint32_t id, cookie;
    unsigned posted; /* receives from it alone */
    uint32_t packed_bytes : 10;
    uint32_t has_secret : 1; /* which follows packed; with ETHMX_AUTH=on there is always room for it */
    uint32_t watched : 1;    /* in engine.watched */
    uint32_t ghost : 1;      /* was removed, and stays for others' sake */
    uint32_t likes : 19;     /* peers whose like this one is; EMX_LIKES_MAX: that or more */
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

/* Finds or makes the peer of an address that has been looked at: decoded and encoded. */
int emx_peer_make(struct emx_engine *e, const struct emx_address *a, const void *addr, size_t len_bytes,
                  struct emx_peer **peer_p); /* NO_MEMORY, PARAM: another one has its number */
/* Whether it is the endpoint that the address is of. */
bool emx_peer_is(struct emx_engine *e, const struct emx_peer *p, const struct emx_address *a);
void emx_peer_unlink(struct emx_engine *e, struct emx_peer *p); /* nothing finds it any more */
void emx_peer_free(struct emx_engine *e, struct emx_peer *p);   /* its memory, after that; nobody is like it */
void emx_peer_watch_now(struct emx_engine *e, struct emx_peer *p);

static inline void emx_peer_watch(struct emx_engine *e, struct emx_peer *p) /* an operation depends on it */
{
    if (!p->watched)
        emx_peer_watch_now(e, p);
}

#endif
