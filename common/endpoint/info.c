/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What this host has: its interfaces and its wires, told to ethmx_info and its like.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "endpoint/ep.h"

/* cfg, or for NULL one from the environment that the caller destroys. */
static int info_config_or_own(const struct ethmx_config *cfg, const struct ethmx_config **use_p,
                              struct ethmx_config **own_p)
{
    int rc;

    *own_p = NULL;
    if (!cfg) {
        rc = ethmx_config_create(own_p);
        if (rc)
            return rc;
        cfg = *own_p;
    }
    *use_p = cfg;
    return ETHMX_OK;
}

static int info_read_netifs(const struct ethmx_config *cfg, struct emx_netifs **n_p)
{
    struct emx_netifs *n = calloc(1, sizeof(*n));
    char why[512];
    int rc;

    if (!n) {
        emx_error_set("out of memory");
        return ETHMX_ERR_NO_MEMORY;
    }
    rc = emx_netifs_read(n, cfg, NULL, why, sizeof(why));
    if (rc) {
        emx_error_set("%s", why);
        free(n);
        return rc;
    }
    *n_p = n;
    return ETHMX_OK;
}

/* ---- Interfaces ---- */

static void info_tell_interface(const struct emx_netif *nif, void (*fn)(void *arg, const struct ethmx_interface_info *),
                                void *arg)
{
    char ip[EMX_IP_TEXT], ip_text[EMX_IP_TEXT + 16] = "", ip6_text[EMX_IP_TEXT + 16] = "", mac_text[18] = "";
    const struct ethmx_interface_info info = {
        .name = nif->name,
        .kind = nif->kind,
        .ipv4 = ip_text,
        .ipv6 = ip6_text,
        .mac = mac_text,
        .mtu_bytes = nif->mtu_bytes,
        .up = nif->up,
        .chosen = nif->chosen,
        .reason = nif->reason,
        .speed_mbit = nif->speed_mbit,
        .numa_node = nif->numa_node,
    };

    if (nif->ip.s_addr)
        snprintf(ip_text, sizeof(ip_text), "%s/%u", inet_ntop(AF_INET, &nif->ip, ip, sizeof(ip)), nif->prefix_bits);
    if (!emx_ip_is_none(&nif->ip6))
        snprintf(ip6_text, sizeof(ip6_text), "%s/%u", emx_ip_text(&nif->ip6, ip), nif->prefix6_bits);
    if (nif->has_mac)
        snprintf(mac_text, sizeof(mac_text), "%02x:%02x:%02x:%02x:%02x:%02x", nif->mac[0], nif->mac[1], nif->mac[2],
                 nif->mac[3], nif->mac[4], nif->mac[5]);
    fn(arg, &info);
}

/* The chosen by rank, then the others as the kernel numbers them. */
static int info_by_preference(const void *a, const void *b)
{
    const struct emx_netif *x = a, *y = b;

    if (x->chosen != y->chosen)
        return x->chosen ? -1 : 1;
    if (x->chosen && x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

int ethmx_each_interface(const struct ethmx_config *cfg, void (*fn)(void *arg, const struct ethmx_interface_info *),
                         void *arg)
{
    struct ethmx_config *own;
    struct emx_netifs *n;
    int rc = info_config_or_own(cfg, &cfg, &own);

    if (rc)
        return rc;
    rc = info_read_netifs(cfg, &n);
    if (!rc) {
        qsort(n->nif, n->count, sizeof(n->nif[0]), info_by_preference);
        for (unsigned i = 0; i < n->count; i++)
            info_tell_interface(&n->nif[i], fn, arg);
        free(n);
    }
    ethmx_config_destroy(own);
    return rc;
}

/* ---- Wires ---- */

static void info_tell_wire(const struct emx_wire_ops *ops, const struct emx_wire_params *params, bool listed,
                           void (*fn)(void *arg, const struct ethmx_wire_info *), void *arg)
{
    char why[512] = "", reason[600];
    struct ethmx_wire_info info = {.name = ops->name, .help = ops->help, .reason = reason};
    struct emx_wire_attr attr;
    struct emx_wire *w;

    if (ops->opt_in && !listed)
        snprintf(why, sizeof(why), "%s", ops->opt_in);
    else
        info.usable = !ops->open(&w, params, why, sizeof(why));
    if (info.usable) {
        ops->query(w, &attr);
        info.frame_bytes = attr.frame_bytes;
        ops->close(w);
    }
    snprintf(reason, sizeof(reason), "%s%s", listed ? "" : "not in ETHMX_WIRES; ", why);
    fn(arg, &info);
}

static bool info_is_listed(const struct emx_wire_ops *const *ops, unsigned count, const struct emx_wire_ops *one)
{
    for (unsigned i = 0; i < count; i++) {
        if (ops[i] == one)
            return true;
    }
    return false;
}

/* The listed wires in the user's order, then the others. */
static int info_tell_wires(const struct emx_wire_params *params, void (*fn)(void *arg, const struct ethmx_wire_info *),
                           void *arg)
{
    const struct emx_wire_ops *ops[EMX_ENGINE_LINKS];
    unsigned count;
    int rc = emx_links_parse(params->cfg, ops, &count);

    if (rc)
        return rc;
    for (unsigned i = 0; i < count; i++)
        info_tell_wire(ops[i], params, true, fn, arg);
    for (unsigned i = 0; emx_wires[i]; i++) {
        if (!info_is_listed(ops, count, emx_wires[i]))
            info_tell_wire(emx_wires[i], params, false, fn, arg);
    }
    return ETHMX_OK;
}

int ethmx_each_wire(const struct ethmx_config *cfg, void (*fn)(void *arg, const struct ethmx_wire_info *), void *arg)
{
    struct emx_stats stats = {0};
    struct ethmx_config *own;
    struct emx_netifs *n;
    int rc = info_config_or_own(cfg, &cfg, &own);

    if (rc)
        return rc;
    rc = info_read_netifs(cfg, &n);
    if (!rc) {
        const struct emx_wire_params params = {.cfg = cfg,
                                               .netifs = n,
                                               .endpoint_id = (uint32_t)getpid(),
                                               .job_cookie = (uint32_t)getpid(),
                                               .stats = &stats};

        rc = info_tell_wires(&params, fn, arg);
        free(n);
    }
    ethmx_config_destroy(own);
    return rc;
}
