/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Peer: what is known of another endpoint, found by its incarnation number.
 *
 * A rank of a large job knows all others and talks to few. A peer without a session costs its structure, its address
 * and a share of the hash. The address costs most, so it is stored as its difference from a similar one: that of an
 * earlier peer on the same host, which differs in ports only; or the endpoint's own, which differs in host name, host
 * number and the last bytes of MAC and IP. The earlier peer is found in a small table by host; if it was displaced
 * there, this only costs some bytes. It is never itself packed against another, so reading an address takes at most two
 * steps.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/address.h"
#include "core/format/pack.h"
#include "core/peer.h"
#include "core/session_impl.h"

#define PER_BUCKET    2 /* peers, on average, when the hash is full */
#define WATCHED_LEAST 16

struct emx_peer *emx_peer_look_up(struct emx_engine *e, uint32_t id)
{
    for (struct emx_peer *p = e->peers[emx_mix64(id) & e->peer_mask]; p; p = p->next_hash)
        if (p->id == id) {
            e->last_peer = p;
            return p;
        }
    return NULL;
}

/* Doubles the hash when it is full. Without memory it only becomes slower. */
static void peer_grow(struct emx_engine *e)
{
    unsigned mask = e->peer_mask * 2 + 1;
    struct emx_peer **bigger, *p, *next;

    if (e->peer_count <= (e->peer_mask + 1) * PER_BUCKET)
        return;
    bigger = emx_alloc_get(&e->alloc, (mask + 1) * sizeof(*bigger));
    if (!bigger)
        return;
    memset(bigger, 0, (mask + 1) * sizeof(*bigger));
    for (unsigned i = 0; i <= e->peer_mask; i++)
        for (p = e->peers[i]; p; p = next) {
            next = p->next_hash;
            p->next_hash = bigger[emx_mix64(p->id) & mask];
            bigger[emx_mix64(p->id) & mask] = p;
        }
    emx_alloc_put(&e->alloc, e->peers);
    e->peers = bigger;
    e->peer_mask = mask;
}

/* The base against which the peer's address is packed: with the peer's own id, which is stored elsewhere. */
static size_t peer_packed_against(const struct emx_engine *e, const struct emx_peer *p, uint8_t *base)
{
    size_t base_bytes = e->self_addr_bytes;

    memcpy(base, e->self_addr, e->self_addr_bytes);
    if (p->like)
        base_bytes = emx_unpack(e->self_addr, e->self_addr_bytes, p->like->packed, p->like->packed_bytes, base);
    emx_address_put_id(base, p->id);
    return base_bytes;
}

static const struct emx_address *peer_decode(struct emx_engine *e, const struct emx_peer *peer, bool learned)
{
    uint8_t base[ETHMX_ADDRESS_MAX], addr[ETHMX_ADDRESS_MAX];
    size_t base_bytes = peer_packed_against(e, peer, base);
    size_t len_bytes = emx_unpack(base, base_bytes, peer->packed, peer->packed_bytes, addr);
    char err[64];

    if (learned && peer->session && peer->session->connect && peer->session->connect->told) {
        len_bytes = peer->session->connect->told_bytes;
        memcpy(addr, peer->session->connect->told, len_bytes);
    }
    emx_address_decode(&e->decoded, addr, len_bytes, err, sizeof(err));
    if (peer->has_secret) {
        e->decoded.has_secret = true;
        memcpy(e->decoded.secret, peer->packed + peer->packed_bytes, sizeof(e->decoded.secret));
    }
    return &e->decoded;
}

const struct emx_address *emx_peer_address(struct emx_engine *e, const struct emx_peer *peer)
{
    return peer_decode(e, peer, true);
}

const struct emx_address *emx_peer_given_address(struct emx_engine *e, const struct emx_peer *peer)
{
    return peer_decode(e, peer, false);
}

const char *emx_peer_host(struct emx_engine *e, const struct emx_peer *peer)
{
    const struct emx_address *a = emx_peer_address(e, peer);

    return emx_address_host(a, e->host_text);
}

/* The secret may arrive later than the rest of the address. */
static void peer_keep_secret(struct emx_peer *p, const struct emx_address *a)
{
    if (p->has_secret || !a->has_secret)
        return;
    memcpy(p->packed + p->packed_bytes, a->secret, sizeof(a->secret));
    p->has_secret = true;
}

/* Creates a peer with its address, a and addr without a secret. NULL: out of memory. */
static struct emx_peer *peer_new(struct emx_engine *e, const struct emx_address *a, const void *addr, size_t len_bytes)
{
    size_t secret_bytes = e->self.auth ? sizeof(a->secret) : 0;
    struct emx_peer **of_host = &e->of_host[emx_mix64(a->host_id) % EMX_HOSTS_LATELY];
    struct emx_peer like = {.id = a->id, .like = *of_host}, *p;
    uint8_t base[ETHMX_ADDRESS_MAX], packed[EMX_PACK_MAX(ETHMX_ADDRESS_MAX)];
    size_t base_bytes, packed_bytes;

    if (like.like && emx_peer_address(e, like.like)->host_id != a->host_id)
        like.like = NULL;
    base_bytes = peer_packed_against(e, &like, base);
    packed_bytes = emx_pack(base, base_bytes, addr, len_bytes, packed);
    p = emx_arena_get(&e->peer_memory, sizeof(*p) + packed_bytes + secret_bytes);
    if (!p)
        return NULL;
    *p = like;
    if (p->like && p->like->likes < EMX_LIKES_MAX)
        p->like->likes++;
    p->cookie = a->cookie;
    emx_list_init(&p->ops);
    p->packed_bytes = packed_bytes & 1023;
    memcpy(p->packed, packed, packed_bytes);
    if (!p->like)
        *of_host = p;
    return p;
}

/* Whether both are of the same endpoint. A launcher with little room may pass only a part of how the host is reached.
 */
static bool peer_is_same(const struct emx_address *a, const struct emx_address *b)
{
    return a->id == b->id && a->cookie == b->cookie && a->host_id == b->host_id && emx_address_parts_agree(a, b);
}

bool emx_peer_is(struct emx_engine *e, const struct emx_peer *p, const struct emx_address *a)
{
    return peer_is_same(p->id == e->self.id ? &e->self : emx_peer_address(e, p), a);
}

int emx_peer_make(struct emx_engine *e, const struct emx_address *a, const void *addr, size_t len_bytes,
                  struct emx_peer **peer_p)
{
    uint8_t public_addr[ETHMX_ADDRESS_MAX];
    struct emx_peer *p, **bucket;

    if ((p = emx_peer_find(e, a->id))) {
        if (!emx_peer_is(e, p, a))
            return ETHMX_ERR_PARAM;
        peer_keep_secret(p, a);
        *peer_p = p;
        return ETHMX_OK;
    }
    peer_grow(e);
    if (a->has_secret) {
        len_bytes = emx_address_encode_public(a, public_addr);
        addr = public_addr;
    }
    p = peer_new(e, a, addr, len_bytes);
    if (!p)
        return ETHMX_ERR_NO_MEMORY;
    peer_keep_secret(p, a);
    bucket = &e->peers[emx_mix64(p->id) & e->peer_mask];
    p->next_hash = *bucket;
    *bucket = p;
    e->peer_count++;
    e->stats->peers_known++;
    *peer_p = p;
    return ETHMX_OK;
}

/* ---- Removal ---- */

static void peer_unwatch(struct emx_engine *e, struct emx_peer *p)
{
    unsigned i = 0;

    if (!p->watched)
        return;
    while (e->watched[i] != p)
        i++;
    e->watched[i] = e->watched[--e->watched_count];
    p->watched = false;
}

void emx_peer_unlink(struct emx_engine *e, struct emx_peer *p)
{
    struct emx_peer **at = &e->peers[emx_mix64(p->id) & e->peer_mask];

    while (*at != p)
        at = &(*at)->next_hash;
    *at = p->next_hash;
    peer_unwatch(e, p);
    if (e->last_peer == p)
        e->last_peer = NULL;
    for (unsigned i = 0; i < EMX_HOSTS_LATELY; i++)
        if (e->of_host[i] == p)
            e->of_host[i] = NULL;
    e->peer_count--;
    e->stats->peers_known--;
}

void emx_peer_free(struct emx_engine *e, struct emx_peer *p)
{
    size_t secret_bytes = e->self.auth ? EMX_ADDRESS_SECRET : 0;

    emx_arena_put(&e->peer_memory, p, sizeof(*p) + p->packed_bytes + secret_bytes);
}

static bool peer_agrees(const struct emx_engine *e, const struct emx_address *a, char *err, size_t err_len_bytes)
{
    const char *const is[] = {"off", "on"};
    char host[EMX_ADDRESS_HOST];

    if (a->auth == e->self.auth)
        return true;
    snprintf(err, err_len_bytes,
             "authentication is %s on host %s and %s on host %s: set ETHMX_AUTH alike for all processes of the job "
             "(with Open MPI: mpirun -x ETHMX_AUTH=on)",
             is[a->auth], emx_address_host(a, host), is[e->self.auth], e->self.host);
    return false;
}

int emx_engine_peer(struct emx_engine *e, const void *addr, size_t len_bytes, struct emx_peer **peer_p, char *err,
                    size_t err_len_bytes)
{
    char host[EMX_ADDRESS_HOST];
    struct emx_address a;
    int rc;

    if (!emx_address_decode(&a, addr, len_bytes, err, err_len_bytes) || !peer_agrees(e, &a, err, err_len_bytes))
        return ETHMX_ERR_PARAM;
    rc = emx_peer_make(e, &a, addr, len_bytes, peer_p);
    if (rc == ETHMX_ERR_NO_MEMORY)
        snprintf(err, err_len_bytes, "out of memory");
    else if (rc)
        snprintf(err, err_len_bytes,
                 "a process on host %s has the same number (%08x) as another one that is known here: start the job, or "
                 "that which joins it, again",
                 emx_address_host(&a, host), a.id);
    return rc;
}

void *emx_peer_user(const struct emx_peer *peer)
{
    return peer->user;
}

void emx_peer_set_user(struct emx_peer *peer, void *user)
{
    peer->user = user;
}

/* ---- Operations open with a peer ---- */

void emx_peer_watch_now(struct emx_engine *e, struct emx_peer *p)
{
    if (e->watched_count == e->watched_room) {
        unsigned room = e->watched_room ? 2 * e->watched_room : WATCHED_LEAST;
        struct emx_peer **more = emx_alloc_get(&e->alloc, room * sizeof(*more));

        if (!more) {
            e->unwatched = true;
            return;
        }
        if (e->watched_count)
            memcpy(more, e->watched, e->watched_count * sizeof(*more));
        emx_alloc_put(&e->alloc, e->watched);
        e->watched = more;
        e->watched_room = room;
    }
    p->watched = true;
    e->watched[e->watched_count++] = p;
}
