/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The choice of interfaces. rtnl.c reads them from the kernel.
 *
 * Without ETHMX_IF an interface is chosen when it reaches other hosts: it is up, has an address, is not a port of a
 * bridge or bond, and leads out of the machine. A bridge leads out if one of its ports does. That rule refuses the
 * bridges of containers and virtual machines whatever their names, and keeps a bridge over the host's own network card.
 * Tunnels and the like are used only when named: the packet wire's frames do not pass them, and a VPN is rarely the
 * right network for a parallel program.
 *
 * Of those that are chosen, the fastest comes first. The launcher's route only decides between equals: it often goes
 * through a slow management network.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/netif.h"

/* Link kinds that lead to no network of their own. As a port of a bridge they do not count as hardware either. */
static const char *const inner_kinds[] = {"bridge", "veth",   "tun",  "dummy",  "ifb",    "wireguard", "vxlan",
                                          "geneve", "sit",    "gre",  "gretap", "ip6gre", "ip6gretap", "erspan",
                                          "ipip",   "ip6tnl", "vti",  "vti6",   "xfrm",   "ppp",       "vrf",
                                          "nlmon",  "can",    "vcan", "netkit", "nlmon",  "ip6erspan", NULL};

/* Name prefixes of host ends and host-only networks, which have the same address on every host. */
static const char *const inner_names[] = {"vmnet", "vboxnet", "cali", "cilium", "lxc", NULL};

#define SEPARATORS ", \t" /* of words in ETHMX_IF */

/* Families of an interface that words of ETHMX_IF name: a prefix its own, a name both. */
#define FAMILY_V4 1
#define FAMILY_V6 2

/* One word of ETHMX_IF. */
struct want {
    char word[EMX_STRING_MAX];
    char scope[IF_NAMESIZE]; /* the interface named behind '%', "": none */
    bool subnet, v6;
    struct emx_ip net;
    unsigned prefix_bits;
};

static bool netif_is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (!strcmp(word, *list))
            return true;
    return false;
}

static bool netif_starts_with_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (!strncmp(word, *list, strlen(*list)))
            return true;
    return false;
}

const struct emx_netif *emx_netif_by_index(const struct emx_netifs *n, unsigned index)
{
    for (unsigned i = 0; i < n->count; i++)
        if (n->nif[i].index == index)
            return &n->nif[i];
    return NULL;
}

static const struct emx_netif *netif_by_name(const struct emx_netifs *n, const char *name)
{
    for (unsigned i = 0; i < n->count; i++)
        if (!strcmp(n->nif[i].name, name))
            return &n->nif[i];
    return NULL;
}

/* What nif is a port of, or NULL. The members of a vrf keep their own addresses and are no ports. */
static const struct emx_netif *port_of(const struct emx_netifs *n, const struct emx_netif *nif)
{
    const struct emx_netif *master = nif->master_index ? emx_netif_by_index(n, nif->master_index) : NULL;

    return master && strcmp(master->kind, "vrf") ? master : NULL;
}

static bool netif_bridge_leads_out(const struct emx_netifs *n, const struct emx_netif *bridge)
{
    for (unsigned i = 0; i < n->count; i++) {
        const struct emx_netif *port = &n->nif[i];

        if (port->master_index == bridge->index && !netif_is_one_of(port->kind, inner_kinds) &&
            !netif_starts_with_one_of(port->name, inner_names))
            return true;
    }
    return false;
}

static bool netif_is_link_local(struct in_addr ip)
{
    return (ntohl(ip.s_addr) & 0xffff0000) == 0xa9fe0000; /* 169.254.0.0/16 */
}

static bool netif_has_ip(const struct emx_netif *nif)
{
    return nif->ip.s_addr || !emx_ip_is_none(&nif->ip6);
}

static const char *netif_missing_ip(const struct emx_netif *nif)
{
    return nif->duplicate6 ? "its IPv6 address is a duplicate: another host of the link has it, too" : "no IP address";
}

/* What both families say of an interface that has an address. */
static bool netif_only_link_local4(const struct emx_netif *nif)
{
    return nif->ip.s_addr && netif_is_link_local(nif->ip) &&
           (emx_ip_is_none(&nif->ip6) || emx_ip_is_link_local6(&nif->ip6));
}

static bool netif_only_link_local6(const struct emx_netif *nif)
{
    return !nif->ip.s_addr && emx_ip_is_link_local6(&nif->ip6);
}

/* Whether nif is chosen without being named, and why (not). scoped: link-local addresses of IPv6 are good enough. */
static bool netif_leads_out(const struct emx_netifs *n, const struct emx_netif *nif, bool scoped, char *why,
                            size_t why_len_bytes)
{
    const struct emx_netif *master = port_of(n, nif);

    if (nif->loopback)
        snprintf(why, why_len_bytes, "loopback: reaches this host only");
    else if (!nif->up)
        snprintf(why, why_len_bytes, "down, or without carrier");
    else if (master)
        snprintf(why, why_len_bytes, "a port of %s", master->name);
    else if (!netif_has_ip(nif))
        snprintf(why, why_len_bytes, "%s", netif_missing_ip(nif));
    else if (!strcmp(nif->kind, "bridge") && !netif_bridge_leads_out(n, nif))
        snprintf(why, why_len_bytes, "a bridge of containers or virtual machines: no hardware port");
    else if (strcmp(nif->kind, "bridge") && strcmp(nif->kind, "veth") && netif_is_one_of(nif->kind, inner_kinds))
        snprintf(why, why_len_bytes, "of kind %s, used only when named in ETHMX_IF", nif->kind);
    else if (netif_starts_with_one_of(nif->name, inner_names))
        snprintf(why, why_len_bytes, "by its name of containers or virtual machines, used only when named in ETHMX_IF");
    else if (netif_only_link_local4(nif))
        snprintf(why, why_len_bytes, "link-local address, used only when named in ETHMX_IF");
    else if (netif_only_link_local6(nif) && !scoped)
        snprintf(why, why_len_bytes, "IPv6 link-local address only, and other interfaces have more");
    else
        return true;
    return false;
}

/* Returns the number of the chosen. */
static unsigned netif_choose_automatic(struct emx_netifs *n, unsigned route_index, bool scoped)
{
    unsigned chosen = 0;

    for (unsigned i = 0; i < n->count; i++) {
        struct emx_netif *nif = &n->nif[i];

        nif->chosen = netif_leads_out(n, nif, scoped, nif->reason, sizeof(nif->reason));
        chosen += nif->chosen;
        if (nif->chosen)
            snprintf(nif->reason, sizeof(nif->reason), "%s",
                     nif->index == route_index ? "the route to other hosts goes through it" : "leads to other hosts");
    }
    return chosen;
}

/* Lists what ETHMX_IF may name: "eth0 (10.1.0.3/16), eth1 (down)". */
static void netif_list_existing(const struct emx_netifs *n, char *text, size_t len_bytes)
{
    size_t at = 0;

    text[0] = 0;
    for (unsigned i = 0; i < n->count && at < len_bytes; i++) {
        const struct emx_netif *nif = &n->nif[i];
        const struct emx_ip first = emx_netif_ip(nif);
        char ip[EMX_IP_TEXT], what[EMX_IP_TEXT + 8] = "no address";

        if (!emx_ip_is_none(&first))
            snprintf(what, sizeof(what), "%s/%u", emx_ip_text(&first, ip),
                     emx_ip_is_v6(&first) ? nif->prefix6_bits : nif->prefix_bits);
        at += (size_t)snprintf(text + at, len_bytes - at, "%s%s (%s%s)", i ? ", " : "", nif->name, what,
                               nif->up ? "" : ", down");
    }
}

/* Writes "ETHMX_IF: <what>; this host has ...". */
static int netif_refuse(const struct emx_netifs *n, const char *what, char *err, size_t err_len_bytes)
{
    char have[1024];

    netif_list_existing(n, have, sizeof(have));
    snprintf(err, err_len_bytes, "ETHMX_IF: %s; this host has: %s", what, n->count ? have : "no interface");
    return ETHMX_ERR_PARAM;
}

/* Cuts "%eth0" out of an IPv6 address, and keeps the name. false: the name is too long. */
static bool netif_want_cut_scope(struct want *w, char *ip)
{
    char *percent = strchr(ip, '%');

    w->scope[0] = 0;
    if (!percent || !strchr(ip, ':'))
        return true;
    *percent = 0;
    if (!percent[1] || strlen(percent + 1) >= sizeof(w->scope))
        return false;
    strcpy(w->scope, percent + 1);
    return true;
}

/* Reads one word: "10.1.0.0/16", "10.1.0.3", "2001:db8::/64", "fe80::%eth0/10" or a name. false: none of these. */
static bool netif_want_parse(struct want *w, const char *word)
{
    char ip[EMX_STRING_MAX], *slash, *end;
    unsigned long bits = 128;

    *w = (struct want){.subnet = false};
    snprintf(w->word, sizeof(w->word), "%s", word);
    snprintf(ip, sizeof(ip), "%s", word);
    slash = strchr(ip, '/');
    if (slash) {
        *slash = 0;
        bits = strtoul(slash + 1, &end, 10);
        if (slash[1] < '0' || slash[1] > '9' || *end || bits > 128)
            return false;
    }
    if (!netif_want_cut_scope(w, ip))
        return false;
    w->subnet = emx_ip_parse(&w->net, ip);
    if (!w->subnet)
        return !slash && !w->scope[0];
    w->v6 = strchr(ip, ':');
    if (slash && !w->v6 && bits > 32)
        return false;
    w->prefix_bits = (unsigned)bits;
    return true;
}

/* Whether the prefix covers this address of the interface. */
static bool netif_want_covers(const struct want *w, const struct emx_netif *nif, const struct emx_ip *ip)
{
    if (!w->subnet || emx_ip_is_none(ip) || w->v6 != emx_ip_is_v6(ip) || (w->scope[0] && strcmp(w->scope, nif->name)))
        return false;
    return !w->prefix_bits || emx_ip_same_network(&w->net, ip, w->prefix_bits);
}

static bool netif_want_matches(const struct want *w, const struct emx_netif *nif)
{
    const struct emx_ip ip = w->v6 ? nif->ip6 : emx_ip_from_v4(nif->ip.s_addr);

    return w->subnet ? netif_want_covers(w, nif, &ip) : !strcmp(nif->name, w->word);
}

bool emx_netif_is_asked(const struct emx_config *cfg, const struct emx_netif *nif, const struct emx_ip *ip)
{
    char copy[EMX_STRING_MAX], *save, *word;
    struct want w;

    snprintf(copy, sizeof(copy), "%s", cfg->p_if);
    for (word = strtok_r(copy, SEPARATORS, &save); word; word = strtok_r(NULL, SEPARATORS, &save)) {
        if (netif_want_parse(&w, word) && netif_want_covers(&w, nif, ip))
            return true;
    }
    return false;
}

/* Why an interface that was asked for cannot be used, or NULL. */
static const char *netif_unfit(const struct emx_netifs *n, const struct emx_netif *nif)
{
    if (!nif->up)
        return "is down, or without carrier";
    if (netif_has_ip(nif))
        return NULL;
    if (nif->duplicate6)
        return "has no IP address but a duplicate: another host of the link has it, too";
    return port_of(n, nif) ? "is a port and has no IP address (name the bridge or bond it belongs to)"
                           : "has no IP address";
}

/* Chooses the interfaces that one word names, and adds to their families. */
static int netif_choose_word(struct emx_netifs *n, const char *word, unsigned place, uint8_t family[EMX_NETIF_MAX],
                             char *err, size_t err_len_bytes)
{
    char what[2 * EMX_STRING_MAX];
    const struct emx_netif *last_unfit = NULL;
    struct want w;
    bool found = false;

    if (!netif_want_parse(&w, word)) {
        snprintf(what, sizeof(what),
                 "\"%s\" is neither an interface name nor a subnet such as 10.1.0.0/16 or 2001:db8::/64", word);
        return netif_refuse(n, what, err, err_len_bytes);
    }
    for (unsigned i = 0; i < n->count; i++) {
        struct emx_netif *nif = &n->nif[i];

        if (!netif_want_matches(&w, nif))
            continue;
        if (netif_unfit(n, nif)) {
            last_unfit = nif;
            continue;
        }
        found = true;
        family[i] |= !w.subnet ? FAMILY_V4 | FAMILY_V6 : w.v6 ? FAMILY_V6 : FAMILY_V4;
        if (nif->chosen)
            continue;
        nif->chosen = true;
        nif->place = place;
        snprintf(nif->reason, sizeof(nif->reason), "named in ETHMX_IF (%.40s)", word);
    }
    if (found)
        return ETHMX_OK;
    if (last_unfit)
        snprintf(what, sizeof(what), "interface %s %s", last_unfit->name, netif_unfit(n, last_unfit));
    else if (w.scope[0] && !netif_by_name(n, w.scope))
        snprintf(what, sizeof(what), "there is no interface %s, the scope of %s", w.scope, word);
    else if (w.subnet)
        snprintf(what, sizeof(what), "no interface has an address in %s", word);
    else
        snprintf(what, sizeof(what), "there is no interface %s", word);
    return netif_refuse(n, what, err, err_len_bytes);
}

/* An interface that was chosen by prefixes of one family is used with that family alone. */
static void netif_drop_families(struct emx_netifs *n, const uint8_t family[EMX_NETIF_MAX])
{
    for (unsigned i = 0; i < n->count; i++) {
        struct emx_netif *nif = &n->nif[i];

        if (family[i] == FAMILY_V4)
            nif->ip6 = (struct emx_ip){{0}};
        else if (family[i] == FAMILY_V6)
            nif->ip.s_addr = 0;
    }
}

static int netif_choose_named(struct emx_netifs *n, const char *list, char *err, size_t err_len_bytes)
{
    char copy[EMX_STRING_MAX], *save, *word;
    uint8_t family[EMX_NETIF_MAX] = {0};
    unsigned place = 0;

    for (unsigned i = 0; i < n->count; i++)
        snprintf(n->nif[i].reason, sizeof(n->nif[i].reason), "not named in ETHMX_IF");
    snprintf(copy, sizeof(copy), "%s", list);
    for (word = strtok_r(copy, SEPARATORS, &save); word; word = strtok_r(NULL, SEPARATORS, &save)) {
        int ret = netif_choose_word(n, word, place++, family, err, err_len_bytes);

        if (ret)
            return ret;
    }
    netif_drop_families(n, family);
    return ETHMX_OK;
}

/* The speed that counts: a speed that is unknown may be any, and is not held against an interface. */
static unsigned netif_speed(const struct emx_netifs *n, const struct emx_netif *nif)
{
    unsigned most_mbit = 0;

    if (nif->speed_mbit)
        return nif->speed_mbit;
    for (unsigned i = 0; i < n->count; i++)
        if (n->nif[i].chosen && n->nif[i].speed_mbit > most_mbit)
            most_mbit = n->nif[i].speed_mbit;
    return most_mbit;
}

/* Why a is preferred to b, NULL: it is not. By their places in ETHMX_IF, then the speed, the cores, the route, the
 * longer frames, the lower index. */
static const char *netif_better(const struct emx_netifs *n, const struct emx_netif *a, const struct emx_netif *b,
                                unsigned route_index)
{
    unsigned a_mbit = netif_speed(n, a), b_mbit = netif_speed(n, b);

    if (a->place != b->place)
        return a->place < b->place ? "first in ETHMX_IF" : NULL;
    if (a_mbit != b_mbit)
        return a_mbit > b_mbit ? "first: faster" : NULL;
    if (a->far != b->far)
        return b->far ? "first: nearer to the cores of this process" : NULL;
    if ((a->index == route_index) != (b->index == route_index))
        return a->index == route_index ? "first: others are as fast" : NULL;
    if (a->mtu_bytes != b->mtu_bytes)
        return a->mtu_bytes > b->mtu_bytes ? "first: has longer frames" : NULL;
    return a->index < b->index ? "first: has the lowest number" : NULL;
}

static struct emx_netif *netif_of_rank(struct emx_netifs *n, unsigned rank)
{
    for (unsigned i = 0; i < n->count; i++)
        if (n->nif[i].chosen && n->nif[i].rank == rank)
            return &n->nif[i];
    return NULL;
}

static void netif_give_ranks(struct emx_netifs *n, unsigned route_index)
{
    const struct emx_netif *second;
    struct emx_netif *first;

    for (unsigned i = 0; i < n->count; i++)
        for (unsigned j = 0; n->nif[i].chosen && j < n->count; j++)
            if (j != i && n->nif[j].chosen && netif_better(n, &n->nif[j], &n->nif[i], route_index))
                n->nif[i].rank++;
    first = netif_of_rank(n, 0);
    second = netif_of_rank(n, 1);
    if (first && second) {
        size_t len = strlen(first->reason);

        snprintf(first->reason + len, sizeof(first->reason) - len, "; %s", netif_better(n, first, second, route_index));
    }
}

static bool netif_is_as_good(const struct emx_netif *a, const struct emx_netif *b)
{
    return a->chosen && b->chosen && a->place == b->place && a->speed_mbit && a->speed_mbit == b->speed_mbit &&
           a->far == b->far && a->mtu_bytes == b->mtu_bytes;
}

void emx_netifs_spread(struct emx_netifs *n, unsigned local_rank)
{
    const struct emx_netif *first = netif_of_rank(n, 0), *next;
    unsigned equal = 1;

    while (first && (next = netif_of_rank(n, equal)) && netif_is_as_good(first, next))
        equal++;
    for (unsigned i = 0; i < n->count; i++) {
        struct emx_netif *nif = &n->nif[i];

        if (nif->chosen && nif->rank < equal)
            nif->rank = (nif->rank + equal - local_rank % equal) % equal;
    }
}

int emx_netifs_choose(struct emx_netifs *n, const struct emx_config *cfg, unsigned route_index, char *err,
                      size_t err_len_bytes)
{
    for (unsigned i = 0; i < n->count; i++) {
        n->nif[i].chosen = false;
        n->nif[i].rank = n->nif[i].place = 0;
    }
    if (cfg->p_if[strspn(cfg->p_if, SEPARATORS)]) {
        int ret = netif_choose_named(n, cfg->p_if, err, err_len_bytes);

        if (ret)
            return ret;
    } else {
        if (!netif_choose_automatic(n, route_index, false))
            netif_choose_automatic(n, route_index, true);
    }
    netif_give_ranks(n, route_index);
    return ETHMX_OK;
}
