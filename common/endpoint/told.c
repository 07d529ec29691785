/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A launcher's address has room for few interfaces, and a peer must share the network of one of them. So one interface
 * of each network comes before the second of any.
 */
#include "endpoint/told.h"

#include <arpa/inet.h>

#include "base/ipv4.h"
#include "endpoint/text.h"

static bool told_has_network(const struct emx_way_site *site, const struct emx_netif *nif)
{
    for (unsigned i = 0; i < site->told_count; i++) {
        const struct emx_netif *told = site->told[i];

        if (told->prefix_bits == nif->prefix_bits &&
            emx_ipv4_same_network(told->ip.s_addr, nif->ip.s_addr, nif->prefix_bits))
            return true;
    }
    return false;
}

static void told_add(struct emx_way_site *site, const struct emx_netif *nif, bool new_network)
{
    if (site->told_count == EMX_WIRE_IFS || emx_way_told(site, nif) < EMX_WIRE_IFS)
        return;
    if (!new_network || (nif->ip.s_addr && !told_has_network(site, nif)))
        site->told[site->told_count++] = nif;
}

/* In order of preference. */
static void told_add_all(const struct emx_netifs *n, struct emx_way_site *site, bool new_networks)
{
    for (unsigned rank = 0; rank < n->count; rank++) {
        for (unsigned i = 0; i < n->count; i++) {
            const struct emx_netif *nif = &n->nif[i];

            if (nif->chosen && nif->rank == rank && !nif->loopback)
                told_add(site, nif, new_networks);
        }
    }
}

void emx_told_choose(const struct emx_netifs *n, struct emx_way_site *site)
{
    told_add_all(n, site, true);
    told_add_all(n, site, false);
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
    for (unsigned i = carried.if_count; i < networks; i++)
        emx_text_add(&t, "%s %s (%s/%u)", i > carried.if_count ? "," : "", site->told[i]->name,
                     inet_ntoa(site->told[i]->ip), site->told[i]->prefix_bits);
    emx_text_add(&t, ": a peer that shares no other network cannot connect. ETHMX_IF names the interfaces to use");
    return true;
}
