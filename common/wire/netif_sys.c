/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel tells the speed of a VLAN (that of the device below) and of a bond (the sum of its links, or the active
 * one). A kernel or driver that does not leaves the devices below, which are read the same way. A bridge has the speed
 * of its fastest port that leads out: what the kernel says of it includes the ports of virtual machines.
 *
 * A virtual interface has the NUMA node of the cards below, if they have the same.
 */
#define _GNU_SOURCE
#include "wire/netif_sys.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATH_BYTES 320
#define LIST_BYTES 4096
#define MASK_WORDS 128 /* most that a kernel's link modes take */

/* ---- Files ---- */

void emx_netif_sys_word(const char *net, const char *name, const char *file, char word[EMX_SYS_WORD_MAX])
{
    char path[PATH_BYTES];
    FILE *f;

    word[0] = 0;
    snprintf(path, sizeof(path), "%s/%s/%s", net, name, file);
    f = fopen(path, "re");
    if (!f)
        return;
    if (fscanf(f, "%31s", word) != 1)
        word[0] = 0;
    fclose(f);
}

DIR *emx_netif_sys_open(const char *net, const char *name, const char *folder)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s/%s/%s", net, name, folder);
    return opendir(path);
}

unsigned emx_netif_sys_rx_queues(const char *net, const char *name)
{
    DIR *d = emx_netif_sys_open(net, name, "queues");
    const struct dirent *e;
    unsigned count = 0;

    if (!d)
        return 0;
    while ((e = readdir(d)))
        count += !strncmp(e->d_name, "rx-", 3);
    closedir(d);
    return count;
}

bool emx_netif_sys_shows(const char *net, const char *name, unsigned index)
{
    char word[EMX_SYS_WORD_MAX];

    emx_netif_sys_word(net, name, "ifindex", word);
    return word[0] && strtoul(word, NULL, 10) == index;
}

static bool sys_has(const char *net, const char *name, const char *file)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s/%s/%s", net, name, file);
    return !access(path, F_OK);
}

bool emx_netif_sys_is_hardware(const char *net, const char *name)
{
    return sys_has(net, name, "device");
}

/* Calls fn for each device below an interface; false: there is none. */
typedef void sys_lower_fn(const char *net, const char *name, unsigned depth, void *arg);

static bool sys_each_lower(const char *net, const char *name, unsigned depth, sys_lower_fn *fn, void *arg)
{
    DIR *d = depth ? emx_netif_sys_open(net, name, "") : NULL;
    const struct dirent *e;
    bool found = false;

    while (d && (e = readdir(d))) {
        if (strncmp(e->d_name, "lower_", 6))
            continue;
        found = true;
        fn(net, e->d_name + 6, depth - 1, arg);
    }
    if (d)
        closedir(d);
    return found;
}

/* ---- Speed ---- */

struct sys_speed {
    unsigned sum_mbit, most_mbit;
    bool bridge; /* of its ports, those of virtual machines and containers do not count */
};

static unsigned sys_speed(const char *net, const char *name, unsigned depth);

static void sys_ignore(const char *net, const char *name, unsigned depth, void *arg)
{
    (void)net;
    (void)name;
    (void)depth;
    (void)arg;
}

/* Whether it is a card, or on top of another interface. */
static bool sys_leads_out(const char *net, const char *name)
{
    return emx_netif_sys_is_hardware(net, name) || sys_each_lower(net, name, 1, sys_ignore, NULL);
}

static void sys_speed_add(const char *net, const char *name, unsigned depth, void *arg)
{
    struct sys_speed *s = arg;
    unsigned mbit;

    if (s->bridge && !sys_leads_out(net, name))
        return;
    mbit = sys_speed(net, name, depth);
    s->sum_mbit += mbit;
    if (mbit > s->most_mbit)
        s->most_mbit = mbit;
}

/* What the interface itself tells; 0: -1, or nothing. */
static unsigned sys_own_speed(const char *net, const char *name)
{
    char word[EMX_SYS_WORD_MAX];
    long mbit;

    emx_netif_sys_word(net, name, "speed", word);
    mbit = strtol(word, NULL, 10);
    return mbit > 0 && mbit < INT32_MAX ? (unsigned)mbit : 0;
}

static unsigned sys_lower_speed(const char *net, const char *name, unsigned depth, bool bridge)
{
    struct sys_speed s = {.bridge = bridge};
    char mode[EMX_SYS_WORD_MAX], active[EMX_SYS_WORD_MAX];

    emx_netif_sys_word(net, name, "bonding/mode", mode);
    emx_netif_sys_word(net, name, "bonding/active_slave", active);
    if (!strcmp(mode, "active-backup") && active[0] && depth)
        return sys_speed(net, active, depth - 1);
    sys_each_lower(net, name, depth, sys_speed_add, &s);
    return mode[0] && strcmp(mode, "active-backup") && strcmp(mode, "broadcast") ? s.sum_mbit : s.most_mbit;
}

/* 0: unknown. */
static unsigned sys_speed(const char *net, const char *name, unsigned depth)
{
    bool bridge = sys_has(net, name, "bridge");
    unsigned mbit = bridge ? 0 : sys_own_speed(net, name);

    return mbit || emx_netif_sys_is_hardware(net, name) ? mbit : sys_lower_speed(net, name, depth, bridge);
}

bool emx_netif_sys_ethtool(const char *name, void *command)
{
    struct ifreq ifr = {.ifr_data = command};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool told;

    snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
    told = fd >= 0 && !ioctl(fd, SIOCETHTOOL, &ifr);
    if (fd >= 0)
        close(fd);
    return told;
}

/* By ethtool. 0: unknown. */
static unsigned sys_ethtool_speed(const char *name)
{
    union {
        struct ethtool_link_settings s;
        uint8_t room[sizeof(struct ethtool_link_settings) + 3 * MASK_WORDS * sizeof(uint32_t)];
    } link = {.s.cmd = ETHTOOL_GLINKSETTINGS};
    int8_t words;

    /* The kernel first tells the length of its masks, as a negative number. */
    if (!emx_netif_sys_ethtool(name, &link) || link.s.link_mode_masks_nwords >= 0)
        return 0;
    words = (int8_t)-link.s.link_mode_masks_nwords;
    memset(&link, 0, sizeof(link));
    link.s.cmd = ETHTOOL_GLINKSETTINGS;
    link.s.link_mode_masks_nwords = words;
    if (words <= 0 || !emx_netif_sys_ethtool(name, &link) || link.s.speed >= INT32_MAX)
        return 0;
    return link.s.speed;
}

static bool sys_segments(const char *name)
{
    struct ethtool_value tso = {.cmd = ETHTOOL_GTSO};

    return emx_netif_sys_ethtool(name, &tso) && tso.data;
}

/* ---- NUMA ---- */

#define NODE_UNSEEN -2 /* no card seen yet */

/* arg: the common node of the cards seen. */
static void sys_node_add(const char *net, const char *name, unsigned depth, void *arg)
{
    int *node_p = arg, node;
    char word[EMX_SYS_WORD_MAX];

    if (!emx_netif_sys_is_hardware(net, name)) {
        sys_each_lower(net, name, depth, sys_node_add, arg);
        return;
    }
    emx_netif_sys_word(net, name, "device/numa_node", word);
    node = word[0] ? atoi(word) : -1;
    *node_p = *node_p == NODE_UNSEEN || *node_p == node ? node : -1;
}

/* -1: unknown, or several. */
static int sys_node(const char *net, const char *name)
{
    int node = NODE_UNSEEN;

    sys_node_add(net, name, EMX_SYS_DEPTH_MAX, &node);
    return node < 0 ? -1 : node;
}

/* Whether the process may run on a core of a list such as "0-3,8". */
static bool sys_runs_on(const char *list, const cpu_set_t *cores)
{
    while (*list >= '0' && *list <= '9') {
        char *end;
        unsigned long from = strtoul(list, &end, 10), to = *end == '-' ? strtoul(end + 1, &end, 10) : from;

        for (unsigned long c = from; c <= to && c < CPU_SETSIZE; c++)
            if (CPU_ISSET(c, cores))
                return true;
        list = *end == ',' ? end + 1 : end;
    }
    return false;
}

/* What is not known is near. */
static bool sys_is_near(const char *sysfs, int node, const cpu_set_t *cores)
{
    char path[PATH_BYTES], list[LIST_BYTES];
    bool near = true;
    FILE *f;

    if (node < 0)
        return true;
    snprintf(path, sizeof(path), "%s/devices/system/node/node%d/cpulist", sysfs, node);
    f = fopen(path, "re");
    if (!f)
        return true;
    if (fgets(list, sizeof(list), f))
        near = sys_runs_on(list, cores);
    fclose(f);
    return near;
}

/* ---- All interfaces ---- */

void emx_netif_sys_read(struct emx_netifs *n, const char *sysfs)
{
    char net[PATH_BYTES / 2];
    cpu_set_t cores;
    bool bound = !sched_getaffinity(0, sizeof(cores), &cores);

    snprintf(net, sizeof(net), "%s/class/net", sysfs);
    for (unsigned i = 0; i < n->count; i++) {
        struct emx_netif *nif = &n->nif[i];

        nif->speed_mbit = 0;
        nif->numa_node = -1;
        nif->far = nif->segments = false;
        if (!nif->up || nif->loopback)
            continue;
        nif->segments = sys_segments(nif->name);
        if (!emx_netif_sys_shows(net, nif->name, nif->index)) {
            nif->speed_mbit = sys_ethtool_speed(nif->name);
            continue;
        }
        nif->speed_mbit = sys_speed(net, nif->name, EMX_SYS_DEPTH_MAX);
        nif->numa_node = sys_node(net, nif->name);
        nif->far = bound && !sys_is_near(sysfs, nif->numa_node, &cores);
    }
}
