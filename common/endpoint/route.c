/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Each wire that both ends have open offers its ways, in the order in which the user listed the wires. Whether and how
 * a wire reaches a peer only the wire itself knows (emx_wire_ops.ways).
 */
#include "endpoint/route.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "endpoint/text.h"
#include "core/format/frame.h"

static_assert(EMX_NETIF_MAX + 1 + EMX_ROUTES_MAX <= UINT8_MAX, "numbers of interfaces, and of routes without one");
static_assert(EMX_WAY_FRAME_MIN >= EMX_FRAME_MIN, "every way is usable");

static struct emx_route make_route(const struct emx_link *k, unsigned link, const struct emx_way *way)
{
    struct emx_route r = {.link = (uint8_t)link,
                          .frame_bytes = way->frame_bytes,
                          .gso_bytes = way->gso_bytes,
                          .tso = way->tso,
                          .more_bytes = way->more_bytes,
                          .theirs = way->theirs,
                          .by_ip = k->ops->by_ip,
                          .guess = way->guess,
                          .reliable = k->attr.reliable,
                          .connected = k->attr.connected,
                          .reads = k->attr.reads,
                          .export_min_bytes = k->attr.export_min_bytes,
                          .export_costs = k->attr.export_costs,
                          .to = way->to};

    snprintf(r.name, sizeof(r.name), "%s%s%.15s", k->ops->name, way->interface[0] ? " " : "", way->interface);
    return r;
}

/* Whether the interface of a way carries nothing now. */
static bool route_is_down(const struct emx_route_view *v, const struct emx_way *way)
{
    return way->card && way->card <= v->site->netifs->count && !v->site->netifs->nif[way->card - 1].up;
}

/* Routes through interfaces that carry nothing come last. */
static void route_sort(struct emx_route *r, unsigned n)
{
    for (unsigned i = 1; i < n; i++)
        for (unsigned j = i; j && r[j - 1].down && !r[j].down; j--) {
            struct emx_route down = r[j - 1];

            r[j - 1] = r[j];
            r[j] = down;
        }
}

/* Asks the wire of a link for its ways; s has them, or an obstacle. */
static void route_ask_wire(const struct emx_route_view *v, const struct emx_link *k, const struct emx_address *peer,
                           struct emx_way_search *s)
{
    *s = (struct emx_way_search){.site = v->site,
                                 .frame_bytes = k->attr.frame_bytes,
                                 .ours = emx_address_part(v->self, k->ops->part),
                                 .theirs = emx_address_part(peer, k->ops->part),
                                 .peer_id = peer->id,
                                 .same_host = peer->host_id == v->self->host_id,
                                 .decides = v->self->id < peer->id,
                                 .ifs = peer->ifs,
                                 .if_count = peer->if_count,
                                 .obstacle = "there is no way"};
    if (s->theirs.b)
        k->ops->ways(k->wire, s);
    else
        s->obstacle = "not open there";
}

static void route_describe_if(struct emx_text *t, const struct emx_ip *ip, unsigned prefix_bits)
{
    char text[EMX_IP_TEXT];

    if (emx_ip_is_none(ip))
        emx_text_add(t, "no IP");
    else if (prefix_bits)
        emx_text_add(t, "%s/%u", emx_ip_text(ip, text), prefix_bits);
    else
        emx_text_add(t, "%s", emx_ip_text(ip, text));
}

static void route_describe_our_ips(struct emx_text *t, const struct emx_netif *nif)
{
    const struct emx_ip v4 = emx_ip_from_v4(nif->ip.s_addr);

    if (nif->ip.s_addr || emx_ip_is_none(&nif->ip6))
        route_describe_if(t, &v4, nif->prefix_bits);
    if (nif->ip.s_addr && !emx_ip_is_none(&nif->ip6))
        emx_text_add(t, " and ");
    if (!emx_ip_is_none(&nif->ip6))
        route_describe_if(t, &nif->ip6, nif->prefix6_bits);
}

static void route_describe_ours(struct emx_text *t, const struct emx_netifs *n)
{
    const char *comma = "";

    for (unsigned i = 0; i < n->count; i++) {
        if (!n->nif[i].chosen)
            continue;
        emx_text_add(t, "%s%s ", comma, n->nif[i].name);
        route_describe_our_ips(t, &n->nif[i]);
        comma = ", ";
    }
    if (!*comma)
        emx_text_add(t, "no interface");
}

static void route_describe_theirs(struct emx_text *t, const struct emx_address *peer)
{
    for (unsigned i = 0; i < peer->if_count; i++) {
        emx_text_add(t, "%s", i ? ", " : "");
        route_describe_if(t, &peer->ifs[i].ip, peer->ifs[i].prefix_bits);
    }
    if (!peer->if_count)
        emx_text_add(t, "no interface");
}

static void route_describe_failure(const struct emx_route_view *v, const struct emx_address *peer, const char *reasons,
                                   char *why, size_t why_len_bytes)
{
    char host[EMX_ADDRESS_HOST];
    struct emx_text t;

    emx_text_init(&t, why, why_len_bytes);
    emx_text_add(&t, "no way from host %s (", v->self->host);
    route_describe_ours(&t, v->site->netifs);
    emx_text_add(&t, ") to host %s (", emx_address_host(peer, host));
    route_describe_theirs(&t, peer);
    emx_text_add(&t, "): %s. ETHMX_IF names the interfaces to use, ETHMX_WIRES the wires", reasons);
}

unsigned emx_routes_find(const struct emx_route_view *v, const struct emx_address *peer,
                         struct emx_route r[EMX_ROUTES_MAX], char *why, size_t why_len_bytes)
{
    struct emx_text reasons;
    char buf[256];
    unsigned n = 0;

    emx_text_init(&reasons, buf, sizeof(buf));
    for (unsigned link = 0; link < v->links->count; link++) {
        const struct emx_link *k = &v->links->link[link];
        struct emx_way_search s;

        route_ask_wire(v, k, peer, &s);
        for (unsigned i = 0; i < s.count && n < EMX_ROUTES_MAX; i++) {
            r[n] = make_route(k, link, &s.way[i]);
            r[n].card = (uint8_t)(s.way[i].card ? s.way[i].card : EMX_NETIF_MAX + 1 + n);
            r[n].down = route_is_down(v, &s.way[i]);
            n++;
        }
        if (!s.count) {
            emx_text_separate(&reasons, "; ");
            emx_text_add(&reasons, "%s: %s", k->ops->name, s.obstacle);
        }
    }
    route_sort(r, n);
    if (n)
        snprintf(why, why_len_bytes, "%s", buf);
    else
        route_describe_failure(v, peer, buf, why, why_len_bytes);
    return n;
}
