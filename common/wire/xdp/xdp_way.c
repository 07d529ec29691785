/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ways of the xdp wire: between interfaces of one subnet that both ends use with this wire. It does not reach the same
 * host.
 */
#include "wire/xdp/xdp.h"

void emx_xdp_addr(struct emx_wire_addr *a, unsigned ifindex, const uint8_t mac[6], const struct emx_offload_way *way)
{
    emx_offload_addr(a, ifindex, mac, way, 0);
}

unsigned emx_xdp_part_write(const struct emx_xdp_part *part, uint8_t value[EMX_XDP_PART_BYTES])
{
    value[0] = part->ifs;
    emx_ethernet_part_write(&part->ethernet, value + EMX_XDP_PART_MIN);
    return EMX_XDP_PART_BYTES;
}

void emx_xdp_part_listen(struct emx_xdp_part *part, const struct emx_way_site *site, const struct emx_netif *nif)
{
    unsigned place = emx_way_told(site, nif);

    if (place < EMX_WIRE_IFS)
        part->ifs |= (uint8_t)(1u << place);
}

/* Whether the wire uses the interface at this place. */
static bool xdp_way_is_on(const struct emx_wire_value *value, unsigned place)
{
    return value->b[0] >> place & 1;
}

static void xdp_way_try(struct emx_way_search *s, unsigned place, const void *arg)
{
    const struct emx_wire_if *theirs = &s->ifs[place];
    const struct emx_netif *nif = emx_ethernet_towards(s, theirs);

    if (!nif)
        return;
    if (!xdp_way_is_on(&s->ours, emx_way_told(s->site, nif)) || !xdp_way_is_on(&s->theirs, place)) {
        s->obstacle = "the interfaces that lead to it are without it at one end";
        return;
    }
    emx_ethernet_add(s, arg, nif, emx_ethernet_mac(s, nif, theirs), &theirs->ip,
                     emx_way_common_mtu(s->site, nif, theirs), emx_way_score(s, nif, place));
}

void emx_xdp_ways(struct emx_wire *w, struct emx_way_search *s)
{
    struct emx_ethernet_ends ends;

    (void)w;
    s->obstacle = "its address does not tell on which interfaces it is";
    if (s->theirs.len_bytes < EMX_XDP_PART_MIN)
        return;
    if (!emx_ethernet_ends(s, EMX_XDP_PART_MIN, "ETHMX_XDP_ETHERTYPE", &ends))
        return;
    if (s->same_host)
        s->obstacle = "it reaches other hosts only; name another wire too, as in ETHMX_WIRES=shm,xdp,packet";
    else
        emx_way_each_ip(s, xdp_way_try, &ends);
}
