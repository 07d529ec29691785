/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Another host: the kernel knows best which of our interfaces leads to an address, so it is asked for each address
 * that the peer told. Its answer is used with care. An address that we have ourselves leads to ourselves: container
 * bridges carry the same 172.17.0.1 everywhere. An interface that was not chosen stays unused.
 *
 * Several pairs in one wire: the best by the sum of both ends' preference, so that both ends choose the same pair.
 * If the sums are equal, as between processes that prefer different cards, one end's preference decides.
 */
#include "wire/way.h"

#include <stdio.h>
#include <string.h>

#include "base/min.h"

#define OWN_MAX 7u /* the preference of one end, in the lowest bits of a score */

unsigned emx_way_mtu(const struct emx_way_site *site, const struct emx_netif *nif)
{
    unsigned mtu = emx_min_u(nif->mtu_bytes, UINT16_MAX);

    return site->mtu_bytes ? emx_min_u(mtu, site->mtu_bytes) : mtu;
}

unsigned emx_way_common_mtu(const struct emx_way_site *site, const struct emx_netif *nif,
                            const struct emx_wire_if *theirs)
{
    unsigned mtu = emx_way_mtu(site, nif);

    return theirs->frame_bytes ? emx_min_u(mtu, theirs->frame_bytes) : mtu;
}

static bool way_is_ours(const struct emx_netifs *n, const struct emx_ip *ip)
{
    for (unsigned i = 0; i < n->count; i++) {
        const struct emx_ip v4 = emx_ip_from_v4(n->nif[i].ip.s_addr);

        if (emx_ip_equal(&v4, ip) || emx_ip_equal(&n->nif[i].ip6, ip))
            return true;
    }
    return false;
}

static bool way_nif_has(const struct emx_netif *nif, bool v6)
{
    return v6 ? !emx_ip_is_none(&nif->ip6) : nif->ip.s_addr != 0;
}

/* Whether our chosen interfaces have addresses, but none of this family. */
static bool way_lacks_family(const struct emx_netifs *n, bool v6)
{
    bool other = false;

    for (unsigned i = 0; i < n->count; i++) {
        const struct emx_netif *nif = &n->nif[i];

        if (nif->chosen && way_nif_has(nif, v6))
            return false;
        other |= nif->chosen && way_nif_has(nif, !v6);
    }
    return other;
}

unsigned emx_way_score(const struct emx_way_search *s, const struct emx_netif *nif, unsigned place)
{
    return (nif->rank + place) * (OWN_MAX + 1) + emx_min_u(s->decides ? nif->rank : place, OWN_MAX);
}

struct emx_way emx_way_start(const struct emx_way_search *s, const struct emx_netif *nif, unsigned frame_bytes,
                             unsigned score)
{
    struct emx_way w = {.score = score,
                        .theirs = (uint8_t)s->theirs_tried,
                        .frame_bytes = (uint16_t)emx_min_u(emx_min_u(frame_bytes, s->frame_bytes), UINT16_MAX)};

    if (nif) {
        snprintf(w.interface, sizeof(w.interface), "%s", nif->name);
        w.card = (uint8_t)(nif - s->site->netifs->nif + 1);
    }
    return w;
}

/* By the sum of both ends' preferences, then longer frames, then one end's preference. */
static bool way_is_better(const struct emx_way *a, const struct emx_way *b)
{
    unsigned a_sum = a->score & ~OWN_MAX, b_sum = b->score & ~OWN_MAX;

    if (a_sum != b_sum)
        return a_sum < b_sum;
    if (a->frame_bytes != b->frame_bytes)
        return a->frame_bytes > b->frame_bytes;
    return a->score < b->score;
}

void emx_way_add(struct emx_way_search *s, const struct emx_way *w)
{
    unsigned at = s->count;

    if (w->frame_bytes < EMX_WAY_FRAME_MIN) {
        s->obstacle = "the frames would be too short";
        return;
    }
    while (at && way_is_better(w, &s->way[at - 1]))
        at--;
    if (at == EMX_WAYS_MAX)
        return;
    if (s->count < EMX_WAYS_MAX)
        s->count++;
    memmove(&s->way[at + 1], &s->way[at], (s->count - at - 1) * sizeof(s->way[0]));
    s->way[at] = *w;
}

const struct emx_netif *emx_way_loopback(struct emx_way_search *s)
{
    const struct emx_netifs *n = s->site->netifs;
    const struct emx_netif *lo = emx_netif_by_index(n, n->loopback_index);

    if (lo && n->loopback_index)
        return lo;
    s->obstacle = "the loopback interface is down (ip link set lo up)";
    return NULL;
}

const struct emx_netif *emx_way_towards(struct emx_way_search *s, const struct emx_ip *ip, bool *on_link_p)
{
    const struct emx_netifs *n = s->site->netifs;
    const struct emx_netif *nif;
    unsigned index;

    *on_link_p = false;
    if (emx_ip_is_loopback(ip) || way_is_ours(n, ip)) {
        s->obstacle = "its address is one of ours too";
        return NULL;
    }
    if (way_lacks_family(n, emx_ip_is_v6(ip))) {
        s->obstacle = emx_ip_is_v6(ip) ? "its address is of IPv6, and the interfaces of this host have IPv4 only"
                                       : "its address is of IPv4, and the interfaces of this host have IPv6 only";
        return NULL;
    }
    index = s->site->lookup(s->site->lookup_arg, ip, on_link_p);
    if (!index) {
        s->obstacle = "the kernel has no route to it";
        return NULL;
    }
    nif = emx_netif_by_index(n, index);
    if (!nif || !nif->chosen) {
        s->obstacle = "the route to it leaves by an interface that is not among ours";
        return NULL;
    }
    if (emx_ip_is_v6(ip) && !way_nif_has(nif, true)) {
        s->obstacle = "the interface towards it has no IPv6 address";
        return NULL;
    }
    return nif;
}

const struct emx_netif *emx_way_next_link(struct emx_way_search *s, const struct emx_ip *ip, unsigned *at_p)
{
    const struct emx_netifs *n = s->site->netifs;

    if (way_is_ours(n, ip)) {
        s->obstacle = "its address is one of ours too";
        return NULL;
    }
    while (*at_p < n->count) {
        const struct emx_netif *nif = &n->nif[(*at_p)++];

        if (nif->chosen && !nif->loopback && way_nif_has(nif, true))
            return nif;
    }
    s->obstacle = "it is known by a link-local address of IPv6, and no interface of this host has IPv6";
    return NULL;
}

void emx_way_each_ip(struct emx_way_search *s, emx_way_try_fn *try, const void *arg)
{
    s->obstacle = "it told no interface";
    for (unsigned i = 0; i < s->if_count; i++) {
        s->theirs_tried = i + 1;
        if (!emx_ip_is_none(&s->ifs[i].ip))
            try(s, i, arg);
    }
    s->theirs_tried = 0;
}

unsigned emx_way_told(const struct emx_way_site *site, const struct emx_netif *nif)
{
    for (unsigned i = 0; i < site->told_count; i++) {
        if (site->told[i] == nif)
            return i;
    }
    return EMX_WIRE_IFS;
}
