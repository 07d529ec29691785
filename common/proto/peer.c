/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Peer: what is known of another endpoint, found by its incarnation number. A silent one costs this structure, its
 * encoded address and a pointer in the hash.
 */
#include <stdarg.h>
#include <stdio.h>

#include "proto/impl.h"

struct emx_peer *emx_peer_find(struct emx_engine *e, uint32_t id)
{
    struct emx_peer *p = e->last_peer;

    if (p && p->id == id)
        return p;
    for (p = e->peers[emx_mix64(id) & e->peer_mask]; p; p = p->next_hash)
        if (p->id == id) {
            e->last_peer = p;
            return p;
        }
    return NULL;
}

/* Doubles the hash when it is full; without memory it only gets slower. */
static void grow(struct emx_engine *e)
{
    unsigned mask = e->peer_mask * 2 + 1;
    struct emx_peer **bigger, *p, *next;

    if (e->peer_count <= e->peer_mask)
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

int emx_engine_peer(struct emx_engine *e, const void *addr, size_t len_bytes, struct emx_peer **peer_p, char *err,
                    size_t err_len_bytes)
{
    struct emx_address a;
    struct emx_peer *p, **bucket;

    if (!emx_address_decode(&a, addr, len_bytes, err, err_len_bytes))
        return ETHMX_ERR_PARAM;
    if ((p = emx_peer_find(e, a.id))) {
        *peer_p = p;
        return ETHMX_OK;
    }
    grow(e);
    p = emx_alloc_get(&e->alloc, sizeof(*p) + len_bytes);
    if (!p) {
        snprintf(err, err_len_bytes, "out of memory");
        return ETHMX_ERR_NO_MEMORY;
    }
    memset(p, 0, sizeof(*p));
    p->id = a.id;
    p->cookie = a.cookie;
    p->e = e;
    emx_list_init(&p->ops);
    emx_list_init(&p->event);
    p->addr_bytes = (uint16_t)len_bytes;
    memcpy(p->addr, addr, len_bytes);
    bucket = &e->peers[emx_mix64(p->id) & e->peer_mask];
    p->next_hash = *bucket;
    *bucket = p;
    e->peer_count++;
    e->stats->peers_known++;
    *peer_p = p;
    return ETHMX_OK;
}

const struct emx_address *emx_peer_address(const struct emx_peer *peer)
{
    char err[64];

    emx_address_decode(&peer->e->decoded, peer->addr, peer->addr_bytes, err, sizeof(err));
    return &peer->e->decoded;
}

void *emx_peer_user(const struct emx_peer *peer)
{
    return peer->user;
}

void emx_peer_set_user(struct emx_peer *peer, void *user)
{
    peer->user = user;
}

static const char *state_name(const struct emx_session *s)
{
    static const char *const name[] = {[EMX_S_ROUTES] = "connecting",
                                       [EMX_S_CONNECTING] = "connecting",
                                       [EMX_S_CONNECTED] = "connected",
                                       [EMX_S_DEAD] = "dead",
                                       [EMX_S_CLOSED] = "closed"};

    return s ? name[s->state] : "known";
}

static size_t list_length(const struct emx_list *head)
{
    size_t n = 0;

    emx_list_each(l, head) n++;
    return n;
}

static size_t memory_bytes(const struct emx_peer *p)
{
    const struct emx_session *s = p->session;
    size_t bytes = sizeof(*p) + p->addr_bytes;

    if (!s)
        return bytes;
    bytes += sizeof(*s) + (s->connect ? sizeof(*s->connect) : 0);
    bytes += (list_length(&s->unacked) + list_length(&s->control)) * p->e->big_txbufs.object_bytes;
    return bytes + s->held_count * (sizeof(struct emx_rxbuf) + s->frame_bytes);
}

/* "packet eth0" */
static void split(const char *route, struct ethmx_peer_info *info_p)
{
    const char *blank = strchr(route, ' ');
    int wire_len = (int)(blank ? (size_t)(blank - route) : strlen(route));

    snprintf(info_p->wire, sizeof(info_p->wire), "%.*s", wire_len, route);
    snprintf(info_p->interface, sizeof(info_p->interface), "%s", blank ? blank + 1 : "");
}

void emx_peer_query(const struct emx_peer *peer, struct ethmx_peer_info *info_p)
{
    const struct emx_session *s = peer->session;

    memset(info_p, 0, sizeof(*info_p));
    snprintf(info_p->host, sizeof(info_p->host), "%s", emx_peer_address(peer)->host);
    info_p->state = state_name(s);
    info_p->memory_bytes = memory_bytes(peer);
    if (!s || !s->connect || !s->connect->count)
        return;
    split(s->connect->route[s->connect->current].name, info_p);
    info_p->frame_bytes = s->frame_bytes;
    info_p->rtt_ns = s->rtt.smooth_ns;
}

/* Takes an operation out of wherever it waits. */
static void pull_out(struct emx_engine *e, struct emx_op *op)
{
    struct emx_session *s = op->peer ? op->peer->session : NULL;

    switch (op->where) {
    case EMX_OP_BACKLOG:
        emx_list_del(&op->link);
        break;
    case EMX_OP_ANNOUNCED:
        emx_rndv_forget_jobs(s, op);
        break;
    case EMX_OP_POSTED:
        emx_match_unpost(&e->match, &op->match);
        break;
    case EMX_OP_PULLING:
        emx_rndv_drop(e, op);
        break;
    default:
        break;
    }
}

void emx_peer_fail(struct emx_peer *p, int status)
{
    struct emx_list *l;

    while ((l = emx_list_first(&p->ops))) {
        struct emx_op *op = emx_list_entry(l, struct emx_op, peer_link);

        pull_out(p->e, op);
        emx_op_complete(p->e, op, status);
    }
}

void emx_event_post(struct emx_engine *e, enum emx_event_type type, struct emx_peer *p, int status, const char *fmt,
                    ...)
{
    struct emx_event_node *n = emx_alloc_get(&e->alloc, sizeof(*n));
    va_list ap;

    if (!n)
        return; /* the operations still tell */
    n->event = (struct emx_event){.type = type, .peer = p, .status = status};
    va_start(ap, fmt);
    vsnprintf(n->event.text, sizeof(n->event.text), fmt, ap);
    va_end(ap);
    emx_list_append(&e->events, &n->link);
}

bool emx_engine_event(struct emx_engine *e, struct emx_event *ev_p)
{
    struct emx_list *l = emx_list_pop(&e->want_routes);
    struct emx_event_node *n;

    if (l) {
        *ev_p = (struct emx_event){.type = EMX_EVENT_ROUTES, .peer = emx_list_entry(l, struct emx_peer, event)};
        return true;
    }
    if (!(l = emx_list_pop(&e->events)))
        return false;
    n = emx_list_entry(l, struct emx_event_node, link);
    *ev_p = n->event;
    emx_alloc_put(&e->alloc, n);
    return true;
}
