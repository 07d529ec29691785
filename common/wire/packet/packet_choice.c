/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames in UDP cost each end more than frames of the EtherType, since the kernel's IP stack gets them, too, and drops
 * them. They gain where IPv4 addresses and UDP ports select the receive queue of a network card, or the link of a bond.
 * Other virtual interfaces (VLAN, bridge, macvlan) do neither: the devices below them count. Frames on a veth pair and
 * on loopback stay in the machine, and no card spreads them.
 */
#include "wire/packet/packet_choice.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_MAX  4 /* of virtual interfaces on top of each other */
#define PATH_BYTES 320

struct choice_look {
    const char *sysfs;
    char *why;
    size_t why_len_bytes;
};

/* Reads the first word of a file of an interface. "": there is no such file. */
static void choice_read(const struct choice_look *l, const char *name, const char *file, char word[32])
{
    char path[PATH_BYTES];
    FILE *f;

    word[0] = 0;
    snprintf(path, sizeof(path), "%s/%s/%s", l->sysfs, name, file);
    f = fopen(path, "re");
    if (!f)
        return;
    if (fscanf(f, "%31s", word) != 1)
        word[0] = 0;
    fclose(f);
}

/* Opens a folder of an interface; "": its own. */
static DIR *choice_open(const struct choice_look *l, const char *name, const char *folder)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s/%s/%s", l->sysfs, name, folder);
    return opendir(path);
}

/* /sys may show the interfaces of another network namespace, which may have the same names. */
static bool choice_is_shown(const struct choice_look *l, const struct emx_netif *nif)
{
    char word[32];

    choice_read(l, nif->name, "ifindex", word);
    return word[0] && strtoul(word, NULL, 10) == nif->index;
}

static bool choice_is_hardware(const struct choice_look *l, const char *name)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s/%s/device", l->sysfs, name);
    return !access(path, F_OK);
}

static bool choice_has_queues(const struct choice_look *l, const char *name)
{
    DIR *d = choice_open(l, name, "queues");
    const struct dirent *e;
    unsigned count = 0;

    if (!d)
        return false;
    while ((e = readdir(d)))
        count += !strncmp(e->d_name, "rx-", 3);
    closedir(d);
    if (count > 1)
        snprintf(l->why, l->why_len_bytes, "%s has %u receive queues", name, count);
    return count > 1;
}

/* Whether it is a bond in a mode that gives each flow a link. */
static bool choice_is_hashing_bond(const struct choice_look *l, const char *name)
{
    char mode[32];

    choice_read(l, name, "bonding/mode", mode);
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

    if (choice_is_hardware(l, name))
        return choice_has_queues(l, name);
    if (choice_is_hashing_bond(l, name))
        return true;
    d = depth ? choice_open(l, name, "") : NULL;
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
        return nif->chosen && nif->ip.s_addr && !nif->loopback && strcmp(nif->kind, "veth") &&
               choice_is_shown(&l, nif) && choice_spreads(&l, nif->name, DEPTH_MAX);
    snprintf(why, why_len_bytes, "ETHMX_PACKET_FRAMES");
    return cfg->p_packet_frames == EMX_FRAMES_UDP;
}
