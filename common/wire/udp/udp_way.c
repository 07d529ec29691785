/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ways of the udp wire. They may pass routers; direct ways come first. On one host they use the loopback interface.
 */
#include <arpa/inet.h>

#include "base/min.h"
#include "wire/udp/udp.h"
#include "wire/way.h"

static void udp_way_add(struct emx_way_search *s, const struct emx_netif *nif, uint32_t ip, unsigned mtu_bytes,
                        unsigned score)
{
    unsigned frame_bytes =
        mtu_bytes < EMX_IP_UDP_BYTES ? 0 : emx_min_u(mtu_bytes - EMX_IP_UDP_BYTES, EMX_UDP_DATA_BYTES);
    struct emx_way w = emx_way_start(s, nif, frame_bytes, score);

    emx_udp_addr(&w.to, (struct in_addr){.s_addr = ip}, emx_wire_value_u16(s->theirs.b));
    emx_way_add(s, &w);
}

static void udp_way_try(struct emx_way_search *s, unsigned place, const void *arg)
{
    const struct emx_wire_if *theirs = &s->ifs[place];
    bool on_link;
    const struct emx_netif *nif = emx_way_towards(s, theirs->ip, &on_link);

    (void)arg;
    if (nif)
        udp_way_add(s, nif, theirs->ip, emx_way_common_mtu(s->site, nif, theirs),
                    nif->rank + place + (on_link ? 0 : EMX_WAY_GATEWAY));
}

void emx_udp_ways(struct emx_wire *w, struct emx_way_search *s)
{
    const struct emx_netif *lo;

    (void)w;
    s->obstacle = "its address tells no port";
    if (s->theirs.len_bytes < EMX_UDP_PART_BYTES)
        return;
    if (!s->same_host)
        emx_way_each_ip(s, udp_way_try, NULL);
    else if ((lo = emx_way_loopback(s)))
        udp_way_add(s, lo, htonl(INADDR_LOOPBACK), emx_way_mtu(s->site, lo), 0);
}
