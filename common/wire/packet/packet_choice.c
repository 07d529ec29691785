/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames in UDP cost each end more than frames of the EtherType, since the kernel's IP stack gets them, too, and drops
 * them. They gain where IP addresses and UDP ports select the receive queue of a network card, or the link of a bond.
 * Other virtual interfaces (VLAN, bridge, macvlan) do neither: the devices below them count. Frames on a veth pair and
 * on loopback stay in the machine, and no card spreads them.
 */
#include "wire/packet/packet_choice.h"

#include <stdio.h>
#include <string.h>

#include "wire/netif_sys.h"

struct choice_look {
    const char *sysfs;
    char *why;
    size_t why_len_bytes;
};

static bool choice_has_queues(const struct choice_look *l, const char *name)
{
    unsigned count = emx_netif_sys_rx_queues(l->sysfs, name);

    if (count > 1)
        snprintf(l->why, l->why_len_bytes, "%s has %u receive queues", name, count);
    return count > 1;
}

/* Whether it is a bond in a mode that gives each flow a link. */
static bool choice_is_hashing_bond(const struct choice_look *l, const char *name)
{
    char mode[EMX_SYS_WORD_MAX];

    emx_netif_sys_word(l->sysfs, name, "bonding/mode", mode);
    if (strcmp(mode, "802.3ad") && strcmp(mode, "balance-xor"))
        return false;
    snprintf(l->why, l->why_len_bytes, "%s is a bond (%s)", name, mode);
    return true;
}

/* Whether addresses and ports select a queue or a link of this interface, or of one below it. */
static bool choice_spreads(const struct choice_look *l, const char *name, unsigned depth)
{
    const struct dirent *e;
    bool found = false;
    DIR *d;

    if (emx_netif_sys_is_hardware(l->sysfs, name))
        return choice_has_queues(l, name);
    if (choice_is_hashing_bond(l, name))
        return true;
    d = depth ? emx_netif_sys_open(l->sysfs, name, "") : NULL;
    while (d && !found && (e = readdir(d)))
        found = !strncmp(e->d_name, "lower_", 6) && choice_spreads(l, e->d_name + 6, depth - 1);
    if (d)
        closedir(d);
    return found;
}

bool emx_packet_chooses_udp(const struct emx_config *cfg, const struct emx_netif *nif, const char *sysfs, char *why,
                            size_t why_len_bytes)
{
    const struct choice_look l = {.sysfs = sysfs, .why = why, .why_len_bytes = why_len_bytes};

    why[0] = 0;
    if (cfg->p_packet_frames == EMX_FRAMES_AUTO)
        return nif->chosen && (nif->ip.s_addr || !emx_ip_is_none(&nif->ip6)) && !nif->loopback &&
               strcmp(nif->kind, "veth") && emx_netif_sys_shows(sysfs, nif->name, nif->index) &&
               choice_spreads(&l, nif->name, EMX_SYS_DEPTH_MAX);
    snprintf(why, why_len_bytes, "ETHMX_PACKET_FRAMES");
    return cfg->p_packet_frames == EMX_FRAMES_UDP;
}
