/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ways of the udp wire. They may pass routers. IPv4 comes before IPv6, whose header is longer, and of each the direct
 * ways come first. On one host they use the loopback interface.
 */
#include <arpa/inet.h>

#include "base/min.h"
#include "wire/udp/udp.h"
#include "wire/way.h"

/* scope: the ifindex for a link-local address of IPv6, otherwise 0. */
static void udp_way_add(struct emx_way_search *s, const struct emx_netif *nif, const struct emx_ip *ip, unsigned scope,
                        unsigned mtu_bytes, unsigned score)
{
    unsigned headers_bytes = emx_ip_is_v6(ip) ? EMX_IP6_UDP_BYTES : EMX_IP_UDP_BYTES;
    unsigned frame_bytes = mtu_bytes < headers_bytes ? 0 : emx_min_u(mtu_bytes - headers_bytes, EMX_UDP_DATA_BYTES);
    struct emx_way w = emx_way_start(s, nif, frame_bytes, score);

    w.more_bytes = (uint8_t)(headers_bytes - EMX_IP_UDP_BYTES);
    w.guess = scope != 0;
    emx_udp_addr(&w.to, ip, scope, emx_wire_value_u16(s->theirs.b));
    emx_way_add(s, &w);
}

/* Each link that it may be on. */
static void udp_way_try_links(struct emx_way_search *s, unsigned place)
{
    const struct emx_wire_if *theirs = &s->ifs[place];
    const struct emx_netif *nif;
    unsigned at = 0;

    while ((nif = emx_way_next_link(s, &theirs->ip, &at)))
        udp_way_add(s, nif, &theirs->ip, nif->index, emx_way_common_mtu(s->site, nif, theirs),
                    emx_way_score(s, nif, place) + EMX_WAY_SCOPED);
}

static void udp_way_try(struct emx_way_search *s, unsigned place, const void *arg)
{
    const struct emx_wire_if *theirs = &s->ifs[place];
    bool on_link;
    const struct emx_netif *nif;

    (void)arg;
    if (emx_ip_is_link_local6(&theirs->ip)) {
        udp_way_try_links(s, place);
        return;
    }
    nif = emx_way_towards(s, &theirs->ip, &on_link);
    if (nif)
        udp_way_add(s, nif, &theirs->ip, 0, emx_way_common_mtu(s->site, nif, theirs),
                    emx_way_score(s, nif, place) + (on_link ? 0 : EMX_WAY_GATEWAY) +
                        (emx_ip_is_v6(&theirs->ip) ? EMX_WAY_V6 : 0));
}

void emx_udp_ways(struct emx_wire *w, struct emx_way_search *s)
{
    struct emx_ip here = emx_ip_from_v4(htonl(INADDR_LOOPBACK));
    const struct emx_netif *lo;

    (void)w;
    s->obstacle = "its address tells no port";
    if (s->theirs.len_bytes < EMX_UDP_PART_BYTES)
        return;
    if (!s->same_host) {
        emx_way_each_ip(s, udp_way_try, NULL);
        return;
    }
    lo = emx_way_loopback(s);
    if (!lo)
        return;
    if (!lo->ip.s_addr && !emx_ip_is_none(&lo->ip6))
        here = lo->ip6;
    udp_way_add(s, lo, &here, 0, emx_way_mtu(s->site, lo), 0);
}
