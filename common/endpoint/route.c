/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Each wire that both ends have open offers its routes, in the order in which the user listed the wires.
 *
 * Same host (same kernel and network namespace): through shared memory (shm), or over the loopback interface. shm asks
 * its wire whether the peer can be joined: it knows of other users and of processes that have gone.
 *
 * Another host: the kernel knows best which of our interfaces leads to an address, so it is asked for each address
 * that the peer told. Its answer is used with care. An address that we have ourselves leads to ourselves: container
 * bridges carry the same 172.17.0.1 everywhere. An interface that was not chosen stays unused.
 *     packet  Ethernet frames pass no router: both interfaces must be in one subnet, without a gateway between.
 *     xdp     the same, between interfaces that the wire is on at both ends. It does not reach the same host.
 *     udp     goes through routers too; direct ways come first.
 *     verbs   the same, between interfaces whose RDMA devices speak the same (RoCE, iWARP, InfiniBand). On one host,
 * where no other wire does it, it goes through the device: between interfaces in one subnet. Interfaces without an IP
 * address cannot be looked up. They are paired in order when the user named them in ETHMX_IF, or when each end has that
 * one interface only; the handshake then shows whether they are connected.
 *
 * Several pairs in one wire: the best by the sum of both ends' preference, so that both ends choose the same pair.
 */
#include "endpoint/route.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/min.h"
#include "endpoint/text.h"
#include "core/format/frame.h"
#include "wire/packet/packet.h"
#include "wire/shm/shm.h"
#include "wire/udp/udp.h"
#include "wire/verbs/verbs.h"
#include "wire/xdp/xdp.h"

#define IP_UDP_HEADER_BYTES 28
#define UDP_PAYLOAD_MAX     65507

struct search;

/* What there is to know of a wire here; the table is at the end. */
struct kind {
    enum emx_address_wire kind;
    const char *name; /* as in ETHMX_WIRES */
    unsigned (*limit)(const struct search *s,
                      unsigned mtu_bytes);           /* longest frame over a path with this Ethernet payload */
    const char *(*mismatch)(const struct search *s); /* why both cannot talk, whatever the way; NULL: they can */
    void (*here)(struct search *s);                  /* adds the ways to a peer on the same host */
    void (*there)(struct search *s);                 /* adds the ways to a peer on another host */
    /* Ethernet only: adds the way from nif to an interface of the peer. */
    void (*add)(struct search *s, const struct emx_netif *nif, const struct emx_address_if *theirs, unsigned mtu_bytes,
                unsigned score);
};

/* The routes of one wire, while they are collected. */
struct way {
    unsigned score; /* lower is better */
    struct emx_route route;
};

struct search {
    const struct emx_route_view *v;
    const struct emx_address *peer;
    const struct emx_route_link *wire;
    const struct kind *kind;
    uint8_t link;
    struct way way[EMX_ROUTES_MAX];
    unsigned count;
    const char *obstacle; /* why the last candidate failed */
    char told[128];       /* for an obstacle that the wire tells */
};

#define SCORE_GATEWAY 1000u

unsigned emx_route_mtu(const struct emx_netif *nif, unsigned mtu_limit_bytes)
{
    unsigned mtu = emx_min_u(nif->mtu_bytes, EMX_FRAME_MAX);

    return mtu_limit_bytes ? emx_min_u(mtu, mtu_limit_bytes) : mtu;
}

static bool same_subnet(uint32_t ip, uint32_t other_ip, unsigned prefix_bits)
{
    uint32_t mask = prefix_bits ? htonl(UINT32_MAX << (32 - emx_min_u(prefix_bits, 32))) : 0;

    return !((ip ^ other_ip) & mask);
}

static bool is_loopback(uint32_t ip)
{
    return ntohl(ip) >> 24 == 127;
}

static bool is_ours(const struct emx_netifs *n, uint32_t ip)
{
    for (unsigned i = 0; i < n->count; i++) {
        if (n->nif[i].ip.s_addr == ip)
            return true;
    }
    return false;
}

/* The longest frame over a path whose Ethernet payload is mtu_bytes. */
static unsigned frame_limit(const struct search *s, unsigned mtu_bytes)
{
    return emx_min_u(emx_min_u(s->kind->limit(s, mtu_bytes), s->wire->frame_bytes), EMX_FRAME_MAX);
}

/* Keeps the ways sorted: by score, then longer frames first. */
static void add_way(struct search *s, const struct way *w)
{
    unsigned at = s->count;

    if (w->route.frame_bytes < EMX_FRAME_MIN) {
        s->obstacle = "the frames would be too short";
        return;
    }
    while (at && (s->way[at - 1].score > w->score ||
                  (s->way[at - 1].score == w->score && s->way[at - 1].route.frame_bytes < w->route.frame_bytes)))
        at--;
    if (at == EMX_ROUTES_MAX)
        return;
    if (s->count < EMX_ROUTES_MAX)
        s->count++;
    memmove(&s->way[at + 1], &s->way[at], (s->count - at - 1) * sizeof(s->way[0]));
    s->way[at] = *w;
}

static void start_way(const struct search *s, struct way *w, const char *interface, unsigned mtu_bytes, unsigned score)
{
    *w = (struct way){.score = score, .route = {.link = s->link}};
    w->route.frame_bytes = (uint16_t)frame_limit(s, mtu_bytes);
    w->route.reliable = s->wire->reliable;
    w->route.connected = s->wire->connected;
    w->route.reads = s->wire->reads;
    w->route.lend_min_bytes = s->wire->lend_min_bytes;
    w->route.lend_costs = s->wire->lend_costs;
    snprintf(w->route.name, sizeof(w->route.name), "%s %s", s->kind->name, interface);
}

/* ---- packet and udp: one candidate each ---- */

static unsigned packet_limit(const struct search *s, unsigned mtu_bytes)
{
    return emx_min_u(mtu_bytes, s->peer->packet_bytes);
}

static unsigned udp_limit(const struct search *s, unsigned mtu_bytes)
{
    (void)s;
    return mtu_bytes < IP_UDP_HEADER_BYTES ? 0 : emx_min_u(mtu_bytes - IP_UDP_HEADER_BYTES, UDP_PAYLOAD_MAX);
}

static unsigned xdp_limit(const struct search *s, unsigned mtu_bytes)
{
    return emx_min_u(mtu_bytes, s->peer->xdp_bytes);
}

static const char *xdp_mismatch(const struct search *s)
{
    return s->peer->xdp_ethertype != s->v->self->xdp_ethertype ? "ETHMX_XDP_ETHERTYPE differs between the hosts" : NULL;
}

static const char *packet_mismatch(const struct search *s)
{
    return s->peer->ethertype != s->v->self->ethertype ? "ETHMX_ETHERTYPE differs between the hosts" : NULL;
}

static uint16_t bulk_port(const struct search *s, const struct emx_address *a)
{
    return s->kind->kind == EMX_AW_XDP ? a->xdp_port : a->packet_port;
}

/* Superframes are UDP packets: both ends must take them and have IP addresses, and each part must fit the path. ip: the
 * peer's, 0: none. */
static unsigned bulk_limit(const struct search *s, const struct emx_netif *nif, uint32_t ip, unsigned mtu_bytes)
{
    unsigned limit;

    if (!bulk_port(s, s->peer) || !bulk_port(s, s->v->self) || !ip || !nif->ip.s_addr ||
        mtu_bytes < IP_UDP_HEADER_BYTES)
        return 0;
    limit = emx_min_u(mtu_bytes - IP_UDP_HEADER_BYTES, frame_limit(s, mtu_bytes));
    return limit < EMX_FRAME_MIN ? 0 : limit;
}

/* What superframes over a way to the peer's address ip need. */
static struct emx_offload_way start_bulk(const struct search *s, struct way *w, const struct emx_netif *nif,
                                         uint32_t ip, unsigned mtu_bytes)
{
    w->route.bulk_bytes = (uint16_t)bulk_limit(s, nif, ip, mtu_bytes);
    return (struct emx_offload_way){
        .from = nif->ip, .to.s_addr = ip, .port = bulk_port(s, s->peer), .frame_bytes = w->route.bulk_bytes};
}

static void add_packet(struct search *s, const struct emx_netif *nif, const uint8_t mac[6], uint32_t ip,
                       unsigned mtu_bytes, unsigned score)
{
    struct emx_offload_way bulk;
    struct way w;

    start_way(s, &w, nif->name, mtu_bytes, score);
    bulk = start_bulk(s, &w, nif, ip, mtu_bytes);
    emx_packet_addr(&w.route.to, nif->index, mac, bulk.frame_bytes ? &bulk : NULL);
    add_way(s, &w);
}

static void add_packet_to(struct search *s, const struct emx_netif *nif, const struct emx_address_if *theirs,
                          unsigned mtu_bytes, unsigned score)
{
    add_packet(s, nif, theirs->mac, theirs->ip, mtu_bytes, score);
}

static void add_xdp_to(struct search *s, const struct emx_netif *nif, const struct emx_address_if *theirs,
                       unsigned mtu_bytes, unsigned score)
{
    struct emx_offload_way bulk;
    struct way w;

    if (!(s->wire->xdp_netifs >> (nif - s->v->netifs->nif) & 1) || !(s->peer->xdp_ifs >> (theirs - s->peer->ifs) & 1)) {
        s->obstacle = "the interfaces that lead to it are without it at one end";
        return;
    }
    start_way(s, &w, nif->name, mtu_bytes, score);
    bulk = start_bulk(s, &w, nif, theirs->ip, mtu_bytes);
    emx_xdp_addr(&w.route.to, nif->index, theirs->mac, bulk.frame_bytes ? &bulk : NULL);
    add_way(s, &w);
}

static void add_udp(struct search *s, const struct emx_netif *nif, uint32_t ip, unsigned mtu_bytes, unsigned score)
{
    struct way w;

    start_way(s, &w, nif->name, mtu_bytes, score);
    emx_udp_addr(&w.route.to, (struct in_addr){.s_addr = ip}, s->peer->udp_port);
    add_way(s, &w);
}

/* ---- The same host ---- */

/* Our loopback interface, or NULL. */
static const struct emx_netif *loopback(struct search *s)
{
    const struct emx_netif *lo = emx_netif_by_index(s->v->netifs, s->v->netifs->loopback_index);

    if (lo && s->v->netifs->loopback_index)
        return lo;
    s->obstacle = "the loopback interface is down (ip link set lo up)";
    return NULL;
}

static void packet_here(struct search *s)
{
    static const uint8_t no_mac[6];
    const struct emx_netif *lo = loopback(s);

    if (lo)
        add_packet(s, lo, no_mac, htonl(INADDR_LOOPBACK), emx_route_mtu(lo, s->v->mtu_bytes), 0);
}

static void xdp_here(struct search *s)
{
    s->obstacle = "it reaches other hosts only; name another wire too, as in ETHMX_WIRES=shm,xdp,packet";
}

static void udp_here(struct search *s)
{
    const struct emx_netif *lo = loopback(s);

    if (lo)
        add_udp(s, lo, htonl(INADDR_LOOPBACK), emx_route_mtu(lo, s->v->mtu_bytes), 0);
}

static unsigned shm_limit(const struct search *s, unsigned mtu_bytes)
{
    (void)s;
    return mtu_bytes;
}

static void shm_here(struct search *s)
{
    struct way w;

    start_way(s, &w, "", EMX_FRAME_MAX, 0);
    snprintf(w.route.name, sizeof(w.route.name), "%s", s->kind->name);
    emx_shm_addr(&w.route.to, s->peer->id);
    s->obstacle = s->told;
    if (s->v->reach(s->v->reach_arg, s->link, &w.route.to, s->told, sizeof(s->told)))
        add_way(s, &w);
}

static void shm_there(struct search *s)
{
    s->obstacle = "another host";
}

/* ---- Another host, interfaces with IP addresses ---- */

/* Our chosen interface towards an address of the peer, or NULL. */
static const struct emx_netif *towards(struct search *s, uint32_t ip, bool *on_link_p)
{
    const struct emx_netif *nif;
    unsigned index;

    *on_link_p = false;
    if (is_loopback(ip) || is_ours(s->v->netifs, ip)) {
        s->obstacle = "its address is one of ours too";
        return NULL;
    }
    index = s->v->lookup(s->v->lookup_arg, (struct in_addr){.s_addr = ip}, on_link_p);
    if (!index) {
        s->obstacle = "the kernel has no route to it";
        return NULL;
    }
    nif = emx_netif_by_index(s->v->netifs, index);
    if (!nif || !nif->chosen) {
        s->obstacle = "the route to it leaves by an interface that is not among ours";
        return NULL;
    }
    return nif;
}

static void search_ethernet_ip(struct search *s, const struct emx_address_if *theirs, unsigned rank)
{
    bool on_link;
    const struct emx_netif *nif = towards(s, theirs->ip, &on_link);

    if (!nif)
        return;
    if (!on_link || !same_subnet(nif->ip.s_addr, theirs->ip, nif->prefix_bits) ||
        !same_subnet(nif->ip.s_addr, theirs->ip, theirs->prefix_bits)) {
        s->obstacle = "it is in another subnet, and Ethernet frames pass no router";
        return;
    }
    if (!nif->has_mac) {
        s->obstacle = "the interface towards it is not Ethernet";
        return;
    }
    s->kind->add(s, nif, theirs, emx_min_u(emx_route_mtu(nif, s->v->mtu_bytes), theirs->frame_bytes), nif->rank + rank);
}

static void search_udp_ip(struct search *s, const struct emx_address_if *theirs, unsigned rank)
{
    bool on_link;
    const struct emx_netif *nif = towards(s, theirs->ip, &on_link);

    if (nif)
        add_udp(s, nif, theirs->ip, emx_min_u(emx_route_mtu(nif, s->v->mtu_bytes), theirs->frame_bytes),
                nif->rank + rank + (on_link ? 0 : SCORE_GATEWAY));
}

/* ---- Another host, all interfaces ---- */

/* Tries each of the peer's IP addresses. */
static void search_ips(struct search *s,
                       void (*try)(struct search *s, const struct emx_address_if *theirs, unsigned rank))
{
    s->obstacle = "it told no interface";
    for (unsigned i = 0; i < s->peer->if_count; i++) {
        if (s->peer->ifs[i].ip)
            try(s, &s->peer->ifs[i], i);
    }
}

static void ethernet_there(struct search *s)
{
    search_ips(s, search_ethernet_ip);
}

static void udp_there(struct search *s)
{
    search_ips(s, search_udp_ip);
}

/* ---- RDMA devices ---- */

static unsigned verbs_limit(const struct search *s, unsigned mtu_bytes)
{
    (void)s;
    return mtu_bytes;
}

static void add_verbs(struct search *s, const struct emx_netif *nif, const struct emx_address_if *theirs,
                      unsigned score)
{
    const struct emx_verbs_way way = {
        .id = s->peer->id, .from = nif->ip, .to.s_addr = theirs->ip, .port = s->peer->verbs_port};
    struct way w;

    start_way(s, &w, nif->name, EMX_VERBS_FRAME_BYTES, score);
    emx_verbs_addr(&w.route.to, &way);
    add_way(s, &w);
}

/* Whether both have a device that speaks the same. */
static bool same_fabric(struct search *s, const struct emx_netif *nif, const struct emx_address_if *theirs)
{
    uint64_t bit = UINT64_C(1) << (nif - s->v->netifs->nif);
    uint64_t ours = 0;

    for (unsigned fabric = 0; fabric < EMX_VERBS_FABRICS; fabric++)
        ours |= s->wire->verbs_netifs[fabric];
    if (theirs->verbs && theirs->verbs <= EMX_VERBS_FABRICS && s->wire->verbs_netifs[theirs->verbs - 1] & bit)
        return true;
    s->obstacle = theirs->verbs && ours & bit ? "the RDMA devices are of different kinds (RoCE, iWARP, InfiniBand)"
                                              : "the interfaces that lead to it are without RDMA device at one end";
    return false;
}

static void search_verbs_ip(struct search *s, const struct emx_address_if *theirs, unsigned rank)
{
    bool on_link;
    const struct emx_netif *nif = towards(s, theirs->ip, &on_link);

    if (nif && same_fabric(s, nif, theirs))
        add_verbs(s, nif, theirs, nif->rank + rank + (on_link ? 0 : SCORE_GATEWAY));
}

static void verbs_there(struct search *s)
{
    search_ips(s, search_verbs_ip);
}

static void search_verbs_here(struct search *s, const struct emx_address_if *theirs, unsigned rank)
{
    for (unsigned i = 0; i < s->v->netifs->count; i++) {
        const struct emx_netif *nif = &s->v->netifs->nif[i];

        if (nif->chosen && nif->ip.s_addr && same_subnet(nif->ip.s_addr, theirs->ip, nif->prefix_bits) &&
            same_fabric(s, nif, theirs))
            add_verbs(s, nif, theirs, nif->rank + rank);
    }
}

static void verbs_here(struct search *s)
{
    search_ips(s, search_verbs_here);
}

/* ---- All wires ---- */

static const struct kind kinds[] = {
    {EMX_AW_SHM, "shm", shm_limit, NULL, shm_here, shm_there, NULL},
    {EMX_AW_VERBS, "verbs", verbs_limit, NULL, verbs_here, verbs_there, NULL},
    {EMX_AW_XDP, "xdp", xdp_limit, xdp_mismatch, xdp_here, ethernet_there, add_xdp_to},
    {EMX_AW_PACKET, "packet", packet_limit, packet_mismatch, packet_here, ethernet_there, add_packet_to},
    {EMX_AW_UDP, "udp", udp_limit, NULL, udp_here, udp_there, NULL},
};

enum emx_address_wire emx_route_kind(const char *name)
{
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!strcmp(kinds[i].name, name))
            return kinds[i].kind;
    }
    return 0;
}

static const struct kind *find_kind(enum emx_address_wire kind)
{
    const struct kind *k = kinds;

    while (k->kind != kind)
        k++;
    return k;
}

static void search_wire(struct search *s)
{
    if (!(s->peer->wires & s->wire->kind))
        s->obstacle = "not open there";
    else if (s->kind->mismatch && s->kind->mismatch(s))
        s->obstacle = s->kind->mismatch(s);
    else if (s->peer->host_id == s->v->self->host_id)
        s->kind->here(s);
    else
        s->kind->there(s);
}

static void describe_if(struct emx_text *t, uint32_t ip, unsigned prefix_bits)
{
    char text[INET_ADDRSTRLEN];

    if (ip)
        emx_text_add(t, "%s/%u", inet_ntop(AF_INET, &ip, text, sizeof(text)), prefix_bits);
    else
        emx_text_add(t, "no IP");
}

static void describe_ours(struct emx_text *t, const struct emx_netifs *n)
{
    const char *comma = "";

    for (unsigned i = 0; i < n->count; i++) {
        if (!n->nif[i].chosen)
            continue;
        emx_text_add(t, "%s%s ", comma, n->nif[i].name);
        describe_if(t, n->nif[i].ip.s_addr, n->nif[i].prefix_bits);
        comma = ", ";
    }
    if (!*comma)
        emx_text_add(t, "no interface");
}

static void describe_theirs(struct emx_text *t, const struct emx_address *peer)
{
    for (unsigned i = 0; i < peer->if_count; i++) {
        emx_text_add(t, "%s", i ? ", " : "");
        describe_if(t, peer->ifs[i].ip, peer->ifs[i].prefix_bits);
    }
    if (!peer->if_count)
        emx_text_add(t, "no interface");
}

static void describe_failure(const struct emx_route_view *v, const struct emx_address *peer, const char *reasons,
                             char *why, size_t why_len_bytes)
{
    struct emx_text t;

    emx_text_init(&t, why, why_len_bytes);
    emx_text_add(&t, "no way from host %s (", v->self->host);
    describe_ours(&t, v->netifs);
    emx_text_add(&t, ") to host %s (", peer->host);
    describe_theirs(&t, peer);
    emx_text_add(&t, "): %s. ETHMX_IF names the interfaces to use, ETHMX_WIRES the wires", reasons);
}

unsigned emx_routes_find(const struct emx_route_view *v, const struct emx_address *peer,
                         struct emx_route r[EMX_ROUTES_MAX], char *why, size_t why_len_bytes)
{
    struct emx_text reasons;
    char buf[256];
    unsigned n = 0;

    emx_text_init(&reasons, buf, sizeof(buf));
    for (unsigned link = 0; link < v->link_count; link++) {
        struct search s = {.v = v, .peer = peer, .wire = &v->link[link], .link = (uint8_t)link};

        s.kind = find_kind(s.wire->kind);
        search_wire(&s);
        for (unsigned i = 0; i < s.count && n < EMX_ROUTES_MAX; i++)
            r[n++] = s.way[i].route;
        if (!s.count) {
            emx_text_separate(&reasons, "; ");
            emx_text_add(&reasons, "%s: %s", s.kind->name, s.obstacle);
        }
    }
    if (n)
        snprintf(why, why_len_bytes, "%s", buf);
    else
        describe_failure(v, peer, buf, why, why_len_bytes);
    return n;
}
