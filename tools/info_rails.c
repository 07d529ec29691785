/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The rules of core/rel/rail.c, for a host alone: a table, of which the first row that fits says why an interface is no
 * rail.
 */
#include "info_rails.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RAILS_MOST 4 /* ETHMX_RAILS=auto */
#define SHORT_PART 2 /* no rail has frames that are shorter than the first's by this factor */

static unsigned rails_most(const struct ethmx_config *cfg)
{
    const struct ethmx_param_info *p;
    const char *source;
    char value[64];

    for (unsigned i = 0; (p = ethmx_param(i)); i++)
        if (!strcmp(p->name, "rails") && !ethmx_config_get(cfg, i, value, sizeof(value), &source) &&
            strcmp(value, "auto") != 0)
            return (unsigned)strtoul(value, NULL, 10);
    return RAILS_MOST;
}

static bool rails_is_local(const struct emx_info_rails *r, const struct ethmx_interface_info *i)
{
    (void)r;
    return !strncmp(i->ipv4, "127.", 4) || (!*i->ipv4 && !strcmp(i->name, "lo"));
}

static bool rails_has_no_ip(const struct emx_info_rails *r, const struct ethmx_interface_info *i)
{
    (void)r;
    return !*i->ipv4 && !*i->ipv6;
}

static bool rails_is_short(const struct emx_info_rails *r, const struct ethmx_interface_info *i)
{
    return r->count && i->mtu_bytes < r->first_mtu_bytes / SHORT_PART;
}

static bool rails_is_limited(const struct emx_info_rails *r, const struct ethmx_interface_info *i)
{
    (void)i;
    return r->count >= rails_most(r->cfg) && r->count < RAILS_MOST;
}

static bool rails_are_many(const struct emx_info_rails *r, const struct ethmx_interface_info *i)
{
    (void)i;
    return r->count >= RAILS_MOST;
}

static const struct {
    bool (*fits)(const struct emx_info_rails *r, const struct ethmx_interface_info *i);
    const char *is;
    const char *before, *after; /* the command that changes it, before and behind the interface's name; NULL: none;
                                   after NULL: without it */
    bool mtu;                   /* the command ends with the first's MTU */
} rules[] = {
    {rails_is_local, "it reaches this host only", NULL, NULL, false},
    {rails_has_no_ip, "it has no IP address", "ip addr add ADDRESS/PREFIX dev ", "", false},
    {rails_is_short, "its frames are shorter than half of the first's", "ip link set ", " mtu ", true},
    {rails_is_limited, "ETHMX_RAILS allows no more", "unset ETHMX_RAILS", NULL, false},
    {rails_are_many, "there are 4 others", NULL, NULL, false},
};

static void rails_describe(struct emx_info_rails *r, const struct ethmx_interface_info *i)
{
    int len = snprintf(r->is, sizeof(r->is), "rail %u, %s", r->count,
                       r->count == 1 ? "and all other messages" : "for large messages");

    if (i->speed_mbit)
        len += snprintf(r->is + len, sizeof(r->is) - (size_t)len, ", %u Mbit/s", i->speed_mbit);
    if (i->numa_node >= 0)
        snprintf(r->is + len, sizeof(r->is) - (size_t)len, ", NUMA node %d", i->numa_node);
}

static void rails_command(struct emx_info_rails *r, const struct ethmx_interface_info *i, const char *before,
                          const char *after, bool mtu)
{
    char number[16] = "";

    if (mtu)
        snprintf(number, sizeof(number), "%u", r->first_mtu_bytes);
    snprintf(r->command, sizeof(r->command), "%s%s%s%s", before, after ? i->name : "", after ? after : "", number);
}

unsigned emx_info_rails_look(struct emx_info_rails *r, const struct ethmx_interface_info *i)
{
    r->command[0] = 0;
    for (size_t k = 0; k < sizeof(rules) / sizeof(rules[0]); k++) {
        if (!rules[k].fits(r, i))
            continue;
        snprintf(r->is, sizeof(r->is), "no rail: %s", rules[k].is);
        if (rules[k].before)
            rails_command(r, i, rules[k].before, rules[k].after, rules[k].mtu);
        return 0;
    }
    if (!r->count++)
        r->first_mtu_bytes = i->mtu_bytes;
    rails_describe(r, i);
    return r->count;
}
