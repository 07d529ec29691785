/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Query: information about a peer for programs.
 */
#include <stdio.h>
#include <string.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/peer.h"
#include "core/rel/reorder.h"
#include "core/rel/session.h"
#include "core/rel/tag.h"
#include "core/rel/txbuf.h"
#include "core/rma/rma.h"

static const char *query_state(const struct emx_session *s)
{
    static const char *const name[] = {[EMX_S_ROUTES] = "connecting",   [EMX_S_CONNECTING] = "connecting",
                                       [EMX_S_CONNECTED] = "connected", [EMX_S_LEAVING] = "closed",
                                       [EMX_S_DEAD] = "dead",           [EMX_S_CLOSED] = "closed"};

    return s ? name[s->state] : "known";
}

static size_t query_length(const struct emx_list *head)
{
    size_t n = 0;

    emx_list_each(l, head) n++;
    return n;
}

static size_t query_memory_bytes(const struct emx_engine *e, const struct emx_peer *p)
{
    const struct emx_session *s = p->session;
    size_t bytes = sizeof(*p) + p->packed_bytes + (e->self.auth ? EMX_ADDRESS_SECRET : 0);

    if (!s)
        return bytes;
    bytes +=
        sizeof(*s) + (s->connect ? sizeof(*s->connect) + s->connect->told_bytes : 0) + (s->tags ? sizeof(*s->tags) : 0);
    bytes += s->rma ? sizeof(*s->rma) : 0;
    bytes += (query_length(&s->tx.unacked) + query_length(&s->tx.control)) * e->txbufs.pool[EMX_TXBUF_BIG].object_bytes;
    bytes += s->tx.runs * e->txbufs.copies.object_bytes;
    return bytes + s->rx.held_count * (sizeof(struct emx_rxbuf) + s->frame_bytes);
}

/* Splits a name such as "packet eth0". */
static void query_split(const char *route, struct ethmx_peer_info *info_p)
{
    const char *blank = strchr(route, ' ');
    int wire_len = (int)(blank ? (size_t)(blank - route) : strlen(route));

    snprintf(info_p->wire, sizeof(info_p->wire), "%.*s", wire_len, route);
    snprintf(info_p->interface, sizeof(info_p->interface), "%s", blank ? blank + 1 : "");
}

void emx_peer_query(struct emx_engine *e, const struct emx_peer *peer, struct ethmx_peer_info *info_p)
{
    const struct emx_session *s = peer->session;

    memset(info_p, 0, sizeof(*info_p));
    snprintf(info_p->host, sizeof(info_p->host), "%s", emx_peer_host(e, peer));
    info_p->state = query_state(s);
    info_p->memory_bytes = query_memory_bytes(e, peer);
    if (!s || !s->connect || !s->connect->count)
        return;
    query_split(s->connect->route[s->connect->current].name, info_p);
    info_p->frame_bytes = s->frame_bytes;
    info_p->rtt_ns = s->rtt.network_ns;
}
