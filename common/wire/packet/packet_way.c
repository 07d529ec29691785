/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ways of the packet wire: between interfaces in one subnet; on one host over the loopback interface.
 */
#include <arpa/inet.h>

#include "wire/ethernet.h"
#include "wire/packet/packet.h"

static void packet_way_try(struct emx_way_search *s, unsigned place, const void *arg)
{
    const struct emx_wire_if *theirs = &s->ifs[place];
    const struct emx_netif *nif = emx_ethernet_towards(s, theirs);

    if (nif)
        emx_ethernet_add(s, arg, nif, theirs->mac, emx_ip_v4(&theirs->ip), emx_way_common_mtu(s->site, nif, theirs),
                         nif->rank + place);
}

void emx_packet_ways(struct emx_wire *w, struct emx_way_search *s)
{
    static const uint8_t no_mac[6];
    struct emx_ethernet_ends ends;
    const struct emx_netif *lo;

    (void)w;
    if (!emx_ethernet_ends(s, 0, "ETHMX_ETHERTYPE", &ends))
        return;
    if (!s->same_host)
        emx_way_each_ip(s, packet_way_try, &ends);
    else if ((lo = emx_way_loopback(s)))
        emx_ethernet_add(s, &ends, lo, no_mac, htonl(INADDR_LOOPBACK), emx_way_mtu(s->site, lo), 0);
}
