/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ways of the verbs wire: between interfaces whose RDMA devices use the same network (RoCE, iWARP, InfiniBand), also
 * through routers. On one host, if no other wire connects its processes, they use the device: between interfaces of one
 * subnet.
 */
#include <stddef.h>
#include <string.h>

#include "base/ip.h"
#include "wire/verbs/verbs.h"
#include "wire/way.h"

#define PORT_BYTES 2

void emx_verbs_addr(struct emx_wire_addr *a, const struct emx_verbs_way *way)
{
    /* Destinations are compared byte by byte: clear the padding. */
    memset(a, 0, sizeof(*a));
    memcpy(a, way, offsetof(struct emx_verbs_way, port) + sizeof(way->port));
}

unsigned emx_verbs_address_write(const struct emx_verbs_address *told, uint8_t value[EMX_VERBS_ADDRESS_BYTES])
{
    memset(value, 0, EMX_VERBS_ADDRESS_BYTES);
    emx_wire_value_put_u16(value, told->port);
    for (unsigned i = 0; i < EMX_WIRE_IFS; i++)
        value[PORT_BYTES + i / 2] |= (uint8_t)((told->fabric[i] & 15) << 4 * (i % 2));
    return EMX_VERBS_ADDRESS_BYTES;
}

/* The network of the device of the interface at this place. */
static unsigned verbs_way_fabric(const struct emx_wire_value *value, unsigned place)
{
    unsigned at = PORT_BYTES + place / 2;

    return at < value->len_bytes ? value->b[at] >> 4 * (place % 2) & 15u : 0;
}

static bool verbs_way_same_fabric(struct emx_way_search *s, const struct emx_netif *nif, unsigned place)
{
    unsigned ours = verbs_way_fabric(&s->ours, emx_way_told(s->site, nif));
    unsigned theirs = verbs_way_fabric(&s->theirs, place);

    if (ours && ours == theirs)
        return true;
    s->obstacle = ours && theirs ? "the RDMA devices are of different kinds (RoCE, iWARP, InfiniBand)"
                                 : "the interfaces that lead to it are without RDMA device at one end";
    return false;
}

static void verbs_way_add(struct emx_way_search *s, const struct emx_netif *nif, unsigned place, unsigned score)
{
    const struct emx_verbs_way to = {.id = s->peer_id,
                                     .from = nif->ip,
                                     .to.s_addr = emx_ip_v4(&s->ifs[place].ip),
                                     .port = emx_wire_value_u16(s->theirs.b)};
    struct emx_way w = emx_way_start(s, nif, EMX_VERBS_FRAME_BYTES, score);

    emx_verbs_addr(&w.to, &to);
    emx_way_add(s, &w);
}

/* Connections are made by IPv4. */
static bool verbs_way_has_v4(struct emx_way_search *s, unsigned place)
{
    if (emx_ip_is_v4(&s->ifs[place].ip))
        return true;
    s->obstacle = "it has no IPv4 address";
    return false;
}

static void verbs_way_there(struct emx_way_search *s, unsigned place, const void *arg)
{
    bool on_link;
    const struct emx_netif *nif;

    (void)arg;
    if (!verbs_way_has_v4(s, place))
        return;
    nif = emx_way_towards(s, &s->ifs[place].ip, &on_link);
    if (nif && verbs_way_same_fabric(s, nif, place))
        verbs_way_add(s, nif, place, emx_way_score(s, nif, place) + (on_link ? 0 : EMX_WAY_GATEWAY));
}

static void verbs_way_here(struct emx_way_search *s, unsigned place, const void *arg)
{
    (void)arg;
    if (!verbs_way_has_v4(s, place))
        return;
    for (unsigned i = 0; i < s->site->netifs->count; i++) {
        const struct emx_netif *nif = &s->site->netifs->nif[i];
        const struct emx_ip ours = emx_ip_from_v4(nif->ip.s_addr);

        if (nif->chosen && nif->ip.s_addr && emx_ip_same_network(&ours, &s->ifs[place].ip, nif->prefix_bits) &&
            verbs_way_same_fabric(s, nif, place))
            verbs_way_add(s, nif, place, emx_way_score(s, nif, place));
    }
}

void emx_verbs_ways(struct emx_wire *w, struct emx_way_search *s)
{
    (void)w;
    s->obstacle = "its address tells no port";
    if (s->theirs.len_bytes < PORT_BYTES)
        return;
    emx_way_each_ip(s, s->same_host ? verbs_way_here : verbs_way_there, NULL);
}
