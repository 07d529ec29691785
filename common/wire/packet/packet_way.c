/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ways of the packet wire: between interfaces in one subnet; on one host over the loopback interface.
 *
 * Of several interfaces in one subnet the kernel's route takes one. The others are spare: if it fails, frames of an
 * EtherType can leave by them without a route.
 */
#include <arpa/inet.h>

#include "wire/ethernet.h"
#include "wire/packet/packet.h"

struct packet_way_ends {
    const struct emx_wire *wire;
    struct emx_ethernet_ends ends;
};

static void packet_way_add_spare(struct emx_way_search *s, unsigned place, struct packet_way_ends *e,
                                 const struct emx_netif *routed)
{
    const struct emx_netifs *n = s->site->netifs;
    const struct emx_wire_if *theirs = &s->ifs[place];

    e->ends.by_udp = false;
    e->ends.spare = true;
    for (unsigned i = 0; i < n->count; i++) {
        const struct emx_netif *nif = &n->nif[i];

        if (nif != routed && nif->chosen && nif->has_mac && !nif->loopback && nif->rank % s->if_count == place &&
            emx_wire_if_has_mac(theirs) && emx_ethernet_same_subnet(nif, theirs))
            emx_ethernet_add(s, &e->ends, nif, theirs->mac, &theirs->ip, emx_way_common_mtu(s->site, nif, theirs),
                             emx_way_score(s, nif, place) + EMX_WAY_SPARE);
    }
}

static void packet_way_try(struct emx_way_search *s, unsigned place, const void *arg)
{
    struct packet_way_ends e = *(const struct packet_way_ends *)arg;
    const struct emx_wire_if *theirs = &s->ifs[place];
    const struct emx_netif *nif = emx_ethernet_towards(s, theirs);

    if (!nif)
        return;
    e.ends.by_udp = emx_packet_prefers_udp(e.wire, nif->index);
    emx_ethernet_add(s, &e.ends, nif, emx_ethernet_mac(s, nif, theirs), &theirs->ip,
                     emx_way_common_mtu(s->site, nif, theirs), emx_way_score(s, nif, place));
    if (!emx_ip_is_link_local6(&theirs->ip))
        packet_way_add_spare(s, place, &e, nif);
}

void emx_packet_ways(struct emx_wire *w, struct emx_way_search *s)
{
    static const uint8_t no_mac[6];
    struct packet_way_ends e = {.wire = w};
    const struct emx_netif *lo;
    struct emx_ip here;

    if (!emx_ethernet_ends(s, 0, "ETHMX_ETHERTYPE", &e.ends))
        return;
    if (!s->same_host)
        emx_way_each_ip(s, packet_way_try, &e);
    else if ((lo = emx_way_loopback(s))) {
        e.ends.by_udp = emx_packet_prefers_udp(w, lo->index);
        here = e.ends.v6 ? lo->ip6 : emx_ip_from_v4(htonl(INADDR_LOOPBACK));
        emx_ethernet_add(s, &e.ends, lo, no_mac, &here, emx_way_mtu(s->site, lo), 0);
    }
}
