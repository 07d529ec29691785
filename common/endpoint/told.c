/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A launcher's address has room for few interfaces, and a peer must share the network of one of them. So one interface
 * of each network comes before the second of any. IPv6 follows IPv4: an interface with both is told twice, because a
 * peer may have one of them only.
 */
#include "endpoint/told.h"

#include "base/ip.h"
#include "endpoint/text.h"

/* The address and prefix of nif in one family. */
static struct emx_wire_if told_ip(const struct emx_netif *nif, bool v6)
{
    if (v6)
        return (struct emx_wire_if){.ip = nif->ip6, .prefix_bits = (uint8_t)nif->prefix6_bits};
    return (struct emx_wire_if){.ip = emx_ip_from_v4(nif->ip.s_addr), .prefix_bits = (uint8_t)nif->prefix_bits};
}

struct emx_wire_if emx_told_ip(const struct emx_way_site *site, unsigned i)
{
    return told_ip(site->told[i], site->told_v6[i]);
}

static bool told_has_network(const struct emx_way_site *site, const struct emx_wire_if *ip)
{
    for (unsigned i = 0; i < site->told_count; i++) {
        const struct emx_wire_if told = emx_told_ip(site, i);

        if (told.prefix_bits == ip->prefix_bits && emx_ip_same_network(&told.ip, &ip->ip, ip->prefix_bits))
            return true;
    }
    return false;
}

static bool told_has(const struct emx_way_site *site, const struct emx_netif *nif, bool v6)
{
    for (unsigned i = 0; i < site->told_count; i++) {
        if (site->told[i] == nif && site->told_v6[i] == v6)
            return true;
    }
    return false;
}

static void told_add(struct emx_way_site *site, const struct emx_netif *nif, bool v6, bool new_network)
{
    const struct emx_wire_if ip = told_ip(nif, v6);

    if (site->told_count == EMX_WIRE_IFS || told_has(site, nif, v6) || emx_ip_is_none(&ip.ip))
        return;
    if (new_network && told_has_network(site, &ip))
        return;
    site->told_v6[site->told_count] = v6;
    site->told[site->told_count++] = nif;
}

/* In order of preference. */
static void told_add_all(const struct emx_netifs *n, struct emx_way_site *site, bool v6, bool new_networks)
{
    for (unsigned rank = 0; rank < n->count; rank++) {
        for (unsigned i = 0; i < n->count; i++) {
            const struct emx_netif *nif = &n->nif[i];

            if (nif->chosen && nif->rank == rank && !nif->loopback)
                told_add(site, nif, v6, new_networks);
        }
    }
}

void emx_told_choose(const struct emx_netifs *n, struct emx_way_site *site)
{
    told_add_all(n, site, false, true);
    told_add_all(n, site, false, false);
    told_add_all(n, site, true, true);
    told_add_all(n, site, true, false);
}

bool emx_told_incomplete(const struct emx_address *self, const struct emx_way_site *site, char *text,
                         size_t text_len_bytes)
{
    uint8_t buf[ETHMX_ADDRESS_MAX];
    struct emx_address carried = {.if_count = 0};
    unsigned networks = emx_address_networks(self);
    char why[128];
    struct emx_text t;
    size_t len_bytes = emx_address_encode_within(self, ETHMX_ADDRESS_LAUNCHER, buf);

    if (!emx_address_decode(&carried, buf, len_bytes, why, sizeof(why)) || carried.if_count >= networks)
        return false;
    emx_text_init(&t, text, text_len_bytes);
    emx_text_add(&t, "the launcher carries %d bytes of an address, in which there is no room for",
                 ETHMX_ADDRESS_LAUNCHER);
    for (unsigned i = carried.if_count; i < networks; i++) {
        const struct emx_wire_if told = emx_told_ip(site, i);
        char ip[EMX_IP_TEXT];

        emx_text_add(&t, "%s %s (%s/%u)", i > carried.if_count ? "," : "", site->told[i]->name,
                     emx_ip_text(&told.ip, ip), told.prefix_bits);
    }
    emx_text_add(&t, ": a peer that shares no other network cannot connect. ETHMX_IF names the interfaces to use");
    return true;
}
