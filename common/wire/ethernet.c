/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/ethernet.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/ip.h"
#include "base/min.h"
#include "wire/tso.h"

#define AFTER_UDP 400u /* added to the score of a way, if there is one with frames in UDP */

void emx_ethernet_part_offload(struct emx_ethernet_part *part, const struct emx_offload *b)
{
    part->gso_port = b ? emx_offload_port(b) : 0;
    part->tso = b && emx_offload_takes_tso(b);
}

void emx_ethernet_part_write(const struct emx_ethernet_part *part, uint8_t value[EMX_ETHERNET_PART_BYTES])
{
    emx_wire_value_put_u16(value, part->frame_bytes);
    emx_wire_value_put_u16(value + 2, part->ethertype);
    emx_wire_value_put_u16(value + 4, part->gso_port);
    emx_wire_value_put_u16(value + 6, part->udp_port);
    value[8] = part->tso;
}

bool emx_ethernet_part_read(const struct emx_wire_value *value, struct emx_ethernet_part *part_p)
{
    if (!value->len_bytes) {
        *part_p = (struct emx_ethernet_part){.frame_bytes = UINT16_MAX};
        return true;
    }
    if (value->len_bytes < EMX_ETHERNET_PART_LEAST)
        return false;
    *part_p = (struct emx_ethernet_part){.frame_bytes = emx_wire_value_u16(value->b),
                                         .ethertype = emx_wire_value_u16(value->b + 2),
                                         .gso_port = emx_wire_value_u16(value->b + 4)};
    if (value->len_bytes >= 8)
        part_p->udp_port = emx_wire_value_u16(value->b + 6);
    if (value->len_bytes >= 9)
        part_p->tso = value->b[8] & 1;
    return true;
}

static struct emx_wire_value ethernet_behind(const struct emx_wire_value *value, unsigned skip_bytes)
{
    return (struct emx_wire_value){.b = value->b + skip_bytes, .len_bytes = value->len_bytes - skip_bytes};
}

/* Whether the peer's IP packets are of IPv6, by the rule of emx_offload_is_v6(). */
static bool ethernet_peer_is_v6(const struct emx_way_search *s)
{
    for (unsigned i = 0; i < s->if_count; i++)
        if (emx_ip_v4(&s->ifs[i].ip))
            return false;
    return s->if_count > 0;
}

bool emx_ethernet_ends(struct emx_way_search *s, unsigned skip_bytes, const char *parameter,
                       struct emx_ethernet_ends *ends_p)
{
    const struct emx_wire_value ours = ethernet_behind(&s->ours, skip_bytes);
    const struct emx_wire_value theirs = ethernet_behind(&s->theirs, skip_bytes);

    ends_p->by_udp = ends_p->spare = false;
    if (!emx_ethernet_part_read(&ours, &ends_p->ours) || !emx_ethernet_part_read(&theirs, &ends_p->theirs)) {
        s->obstacle = "its address does not say how";
        return false;
    }
    ends_p->v6 = emx_offload_is_v6(s->site->netifs);
    if (!s->same_host && ends_p->v6 != ethernet_peer_is_v6(s))
        ends_p->theirs.gso_port = ends_p->theirs.udp_port = 0;
    ends_p->tso = ends_p->ours.tso && ends_p->theirs.tso && !ends_p->v6;
    if (!ends_p->theirs.ethertype || ends_p->ours.ethertype == ends_p->theirs.ethertype)
        return true;
    snprintf(s->told, sizeof(s->told), "%s differs between the hosts", parameter);
    s->obstacle = s->told;
    return false;
}

/* The interface's address of the family of IP packets. */
static struct emx_ip ethernet_own_ip(const struct emx_ethernet_ends *ends, const struct emx_netif *nif)
{
    return ends->v6 ? nif->ip6 : emx_ip_from_v4(nif->ip.s_addr);
}

/* The longest frame in an IP packet to ip; 0: there are no such packets, or it would be too short. */
static unsigned ethernet_ip_room(const struct emx_ethernet_ends *ends, const struct emx_netif *nif,
                                 const struct emx_ip *ip, unsigned mtu_bytes)
{
    const struct emx_ip own = ethernet_own_ip(ends, nif);
    const unsigned headers_bytes = ends->v6 ? EMX_IP6_UDP_BYTES : EMX_IP_UDP_BYTES;

    if (emx_ip_is_none(ip) || emx_ip_is_v6(ip) != ends->v6 || emx_ip_is_none(&own) ||
        mtu_bytes < headers_bytes + EMX_WAY_FRAME_MIN)
        return 0;
    return mtu_bytes - headers_bytes;
}

/* One way; udp_port: of single frames, 0: they have the EtherType. */
static void ethernet_add_one(struct emx_way_search *s, const struct emx_ethernet_ends *ends, struct emx_way *w,
                             const uint8_t mac[6], const struct emx_offload_way *ip, uint16_t udp_port,
                             unsigned ifindex)
{
    struct emx_offload_way gso = *ip;

    w->guess = ends->spare;
    if (ends->tso && gso.frame_bytes > EMX_TSO_MORE_BYTES)
        gso.frame_bytes -= EMX_TSO_MORE_BYTES;
    gso.frame_bytes = (uint16_t)emx_min_u(gso.frame_bytes, w->frame_bytes);
    if (!ends->ours.gso_port || !gso.port || gso.frame_bytes < EMX_WAY_FRAME_MIN)
        gso.frame_bytes = 0;
    w->gso_bytes = gso.frame_bytes;
    w->tso = gso.frame_bytes && ends->tso;
    emx_offload_addr(&w->to, ifindex, mac, gso.frame_bytes || udp_port ? &gso : NULL, udp_port);
    emx_way_add(s, w);
}

/* A network may drop UDP between these addresses. So a way with frames in UDP is followed by one without. */
void emx_ethernet_add(struct emx_way_search *s, const struct emx_ethernet_ends *ends, const struct emx_netif *nif,
                      const uint8_t mac[6], const struct emx_ip *ip, unsigned mtu_bytes, unsigned score)
{
    const unsigned room_bytes = ethernet_ip_room(ends, nif, ip, mtu_bytes), most_bytes = ends->theirs.frame_bytes;
    const struct emx_offload_way way = {.from = ethernet_own_ip(ends, nif),
                                        .to = *ip,
                                        .port = ends->theirs.gso_port,
                                        .tso = ends->tso,
                                        .segments = nif->segments,
                                        .frame_bytes = (uint16_t)emx_min_u(room_bytes, UINT16_MAX)};
    const bool udp = ends->by_udp && ends->theirs.udp_port && room_bytes;
    struct emx_way w;

    if (udp) {
        w = emx_way_start(s, nif, emx_min_u(room_bytes, most_bytes), score);
        w.more_bytes = ends->v6 ? EMX_IP6_UDP_BYTES - EMX_IP_UDP_BYTES : 0;
        ethernet_add_one(s, ends, &w, mac, &way, ends->theirs.udp_port, nif->index);
    }
    w = emx_way_start(s, nif, emx_min_u(mtu_bytes, most_bytes), udp ? score + AFTER_UDP : score);
    ethernet_add_one(s, ends, &w, mac, &way, 0, nif->index);
}

bool emx_ethernet_same_subnet(const struct emx_netif *nif, const struct emx_wire_if *theirs)
{
    bool v6 = emx_ip_is_v6(&theirs->ip);
    const struct emx_ip ours = v6 ? nif->ip6 : emx_ip_from_v4(nif->ip.s_addr);
    unsigned prefix_bits = v6 ? nif->prefix6_bits : nif->prefix_bits;

    return emx_ip_same_network(&ours, &theirs->ip, prefix_bits) &&
           emx_ip_same_network(&ours, &theirs->ip, theirs->prefix_bits);
}

/* The interface towards an address of the peer. A link-local address of IPv6 may be on the link of any of ours; the
 * best of them is tried. */
static const struct emx_netif *ethernet_route(struct emx_way_search *s, const struct emx_wire_if *theirs, bool *same_p)
{
    const struct emx_netif *nif, *best = NULL;
    bool on_link;
    unsigned at = 0;

    if (!emx_ip_is_link_local6(&theirs->ip)) {
        nif = emx_way_towards(s, &theirs->ip, &on_link);
        *same_p = nif && on_link && emx_ethernet_same_subnet(nif, theirs);
        return nif;
    }
    while ((nif = emx_way_next_link(s, &theirs->ip, &at)))
        if (!best || nif->rank < best->rank)
            best = nif;
    *same_p = best != NULL;
    return best;
}

const uint8_t *emx_ethernet_mac(const struct emx_way_search *s, const struct emx_netif *nif,
                                const struct emx_wire_if *theirs)
{
    const uint8_t *only = NULL;

    if (emx_wire_if_has_mac(theirs))
        return theirs->mac;
    for (unsigned i = 0; i < s->if_count; i++) {
        if (!emx_wire_if_has_mac(&s->ifs[i]))
            continue;
        if (only && memcmp(only, s->ifs[i].mac, sizeof(s->ifs[i].mac)) != 0)
            return NULL;
        only = s->ifs[i].mac;
    }
    return emx_ip_is_v6(&theirs->ip) && !nif->ip.s_addr ? only : NULL;
}

const struct emx_netif *emx_ethernet_towards(struct emx_way_search *s, const struct emx_wire_if *theirs)
{
    bool same_subnet;
    const struct emx_netif *nif = ethernet_route(s, theirs, &same_subnet);

    if (!nif)
        return NULL;
    if (!same_subnet) {
        s->obstacle = "it is in another subnet, and Ethernet frames pass no router";
        return NULL;
    }
    if (!emx_ethernet_mac(s, nif, theirs)) {
        s->obstacle = "the MAC address of its interface is not known yet";
        return NULL;
    }
    if (!nif->has_mac) {
        s->obstacle = "the interface towards it is not Ethernet";
        return NULL;
    }
    return nif;
}
