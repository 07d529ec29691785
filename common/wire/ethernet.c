/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/ethernet.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/ip.h"
#include "base/min.h"

void emx_ethernet_part_write(const struct emx_ethernet_part *part, uint8_t value[EMX_ETHERNET_PART_BYTES])
{
    emx_wire_value_put_u16(value, part->frame_bytes);
    emx_wire_value_put_u16(value + 2, part->ethertype);
    emx_wire_value_put_u16(value + 4, part->gso_port);
}

static_assert(offsetof(struct emx_offload_to, to_port) + sizeof(uint16_t) <= EMX_ETHERNET_UDP_AT &&
                  EMX_ETHERNET_UDP_AT + sizeof(uint16_t) <= EMX_WIRE_ADDR_BYTES,
              "the port of single frames follows the rest");

void emx_ethernet_set_udp_port(struct emx_wire_addr *a, uint16_t port)
{
    memcpy(a->b + EMX_ETHERNET_UDP_AT, &port, sizeof(port));
}

bool emx_ethernet_part_read(const struct emx_wire_value *value, struct emx_ethernet_part *part_p)
{
    if (!value->len_bytes) {
        *part_p = (struct emx_ethernet_part){.frame_bytes = UINT16_MAX};
        return true;
    }
    if (value->len_bytes < EMX_ETHERNET_PART_BYTES)
        return false;
    *part_p = (struct emx_ethernet_part){.frame_bytes = emx_wire_value_u16(value->b),
                                         .ethertype = emx_wire_value_u16(value->b + 2),
                                         .gso_port = emx_wire_value_u16(value->b + 4)};
    if (value->len_bytes >= EMX_ETHERNET_PART_BYTES + EMX_ETHERNET_UDP_BYTES)
        part_p->udp_port = emx_wire_value_u16(value->b + EMX_ETHERNET_PART_BYTES);
    return true;
}

static struct emx_wire_value ethernet_behind(const struct emx_wire_value *value, unsigned skip_bytes)
{
    return (struct emx_wire_value){.b = value->b + skip_bytes, .len_bytes = value->len_bytes - skip_bytes};
}

bool emx_ethernet_ends(struct emx_way_search *s, unsigned skip_bytes, const char *parameter,
                       struct emx_ethernet_ends *ends_p)
{
    const struct emx_wire_value ours = ethernet_behind(&s->ours, skip_bytes);
    const struct emx_wire_value theirs = ethernet_behind(&s->theirs, skip_bytes);

    ends_p->by_udp = false;
    if (!emx_ethernet_part_read(&ours, &ends_p->ours) || !emx_ethernet_part_read(&theirs, &ends_p->theirs)) {
        s->obstacle = "its address does not say how";
        return false;
    }
    if (!ends_p->theirs.ethertype || ends_p->ours.ethertype == ends_p->theirs.ethertype)
        return true;
    snprintf(s->told, sizeof(s->told), "%s differs between the hosts", parameter);
    s->obstacle = s->told;
    return false;
}

/* GSO packets are UDP packets: both ends must take them and have IP addresses, and each part must fit the path. */
static unsigned ethernet_gso_bytes(const struct emx_ethernet_ends *ends, const struct emx_netif *nif, uint32_t ip,
                                   unsigned mtu_bytes, unsigned frame_bytes)
{
    unsigned limit;

    if (!ends->ours.gso_port || !ends->theirs.gso_port || !ip || !nif->ip.s_addr || mtu_bytes < EMX_IP_UDP_BYTES)
        return 0;
    limit = emx_min_u(mtu_bytes - EMX_IP_UDP_BYTES, frame_bytes);
    return limit < EMX_WAY_FRAME_MIN ? 0 : limit;
}

void emx_ethernet_add(struct emx_way_search *s, const struct emx_ethernet_ends *ends, const struct emx_netif *nif,
                      const uint8_t mac[6], uint32_t ip, unsigned mtu_bytes, unsigned score)
{
    const bool udp = ends->by_udp && ends->theirs.udp_port && ip && nif->ip.s_addr &&
                     mtu_bytes >= EMX_IP_UDP_BYTES + EMX_WAY_FRAME_MIN;
    const unsigned room_bytes = udp ? mtu_bytes - EMX_IP_UDP_BYTES : mtu_bytes;
    struct emx_way w = emx_way_start(s, nif, emx_min_u(room_bytes, ends->theirs.frame_bytes), score);
    struct emx_offload_way gso = {.from = nif->ip, .to.s_addr = ip, .port = ends->theirs.gso_port};

    gso.frame_bytes = (uint16_t)ethernet_gso_bytes(ends, nif, ip, mtu_bytes, w.frame_bytes);
    w.gso_bytes = gso.frame_bytes;
    emx_offload_addr(&w.to, nif->index, mac, gso.frame_bytes || udp ? &gso : NULL);
    if (udp)
        emx_ethernet_set_udp_port(&w.to, ends->theirs.udp_port);
    emx_way_add(s, &w);
}

/* Whether the address is in our network and in the one that the peer tells. */
static bool ethernet_same_subnet(const struct emx_netif *nif, const struct emx_wire_if *theirs)
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
        *same_p = nif && on_link && ethernet_same_subnet(nif, theirs);
        return nif;
    }
    while ((nif = emx_way_next_link(s, &theirs->ip, &at)))
        if (!best || nif->rank < best->rank)
            best = nif;
    *same_p = best != NULL;
    return best;
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
    if (!emx_wire_if_has_mac(theirs)) {
        s->obstacle = "the MAC address of its interface is not known yet";
        return NULL;
    }
    if (!nif->has_mac) {
        s->obstacle = "the interface towards it is not Ethernet";
        return NULL;
    }
    return nif;
}
