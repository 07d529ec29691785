/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Speed and NUMA node of interfaces from a made-up /sys, and the choice that follows: speed, nearness, the launcher's
 * route; processes of a host spread over equal cards.
 */
#define _GNU_SOURCE
#include "sysfs.h"

#include <arpa/inet.h>

#include "wire/netif_sys.h"

/* An interface of the tree. Its ifindex is its place in the list + 1. */
static const struct device {
    const char *name, *speed, *node; /* node: of hardware */
    const char *lower[2];
    const char *bond, *active;
    bool bridge;
} devices[] = {
    {.name = "eno1", .speed = "1000", .node = "0"},
    {.name = "eth2", .speed = "100000", .node = "0"},
    {.name = "eth3", .speed = "100000", .node = "1"},
    {.name = "eth4", .speed = "-1", .node = "-1"},
    {.name = "eth5", .node = "0"},
    {.name = "veth0", .speed = "10000"},
    {.name = "vlan0", .speed = "-1", .lower = {"eth3"}},
    {.name = "bond0", .lower = {"eth2", "eth3"}, .bond = "802.3ad 4"},
    {.name = "bond1", .lower = {"eno1", "eth3"}, .bond = "active-backup 1", .active = "eno1"},
    {.name = "bond2", .speed = "50000", .lower = {"eth2", "eno1"}, .bond = "balance-xor 2"},
    {.name = "br0", .speed = "10000", .lower = {"veth0", "eno1"}, .bridge = true},
    {.name = "br1", .lower = {"bond1", "veth0"}, .bridge = true},
    {.name = "vlan1", .lower = {"bond0"}},
    {.name = "ring0", .lower = {"ring1"}},
    {.name = "ring1", .lower = {"ring0"}},
};

#define DEVICES (sizeof(devices) / sizeof(devices[0]))

static void make_device(const struct device *d, unsigned index)
{
    char folder[64], path[128], text[16];

    sysfs_folder("class/net", d->name);
    snprintf(folder, sizeof(folder), "class/net/%s", d->name);
    snprintf(text, sizeof(text), "%u", index);
    sysfs_file(folder, "ifindex", text);
    if (d->speed)
        sysfs_file(folder, "speed", d->speed);
    if (d->node) {
        sysfs_folder(folder, "device");
        sysfs_file(folder, "device/numa_node", d->node);
    }
    for (unsigned i = 0; i < 2 && d->lower[i]; i++) {
        snprintf(path, sizeof(path), "lower_%s", d->lower[i]);
        sysfs_folder(folder, path);
    }
    if (d->bridge)
        sysfs_folder(folder, "bridge");
    if (d->bond) {
        sysfs_folder(folder, "bonding");
        sysfs_file(folder, "bonding/mode", d->bond);
    }
    if (d->active)
        sysfs_file(folder, "bonding/active_slave", d->active);
}

static int setup(void **state)
{
    static const char *const folders[] = {"class",
                                          "class/net",
                                          "devices",
                                          "devices/system",
                                          "devices/system/node",
                                          "devices/system/node/node0",
                                          "devices/system/node/node1"};

    (void)state;
    sysfs_make();
    for (unsigned i = 0; i < ARRAY_LEN(folders); i++)
        sysfs_folder("", folders[i]);
    sysfs_file("devices/system/node/node0", "cpulist", "0-999");
    sysfs_file("devices/system/node/node1", "cpulist", "1000-1010,1020");
    for (unsigned i = 0; i < DEVICES; i++)
        make_device(&devices[i], i + 1);
    return 0;
}

/* Adds an interface of the tree. */
static struct emx_netif *add(struct emx_netifs *n, const char *name)
{
    struct emx_netif *nif = &n->nif[n->count++];

    for (unsigned i = 0; i < DEVICES; i++)
        if (!strcmp(devices[i].name, name))
            nif->index = i + 1;
    assert_true(nif->index);
    snprintf(nif->name, sizeof(nif->name), "%s", name);
    nif->up = nif->has_mac = true;
    nif->mtu_bytes = 1500;
    nif->ip.s_addr = htonl(0x0a000005 + (nif->index << 8));
    return nif;
}

static void add_all(struct emx_netifs *n, const char *names)
{
    char copy[128], *save;

    memset(n, 0, sizeof(*n));
    snprintf(copy, sizeof(copy), "%s", names);
    for (const char *name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save))
        add(n, name);
}

/* The chosen, best first. */
static const char *order(const struct emx_netifs *n)
{
    static char text[128];

    text[0] = 0;
    for (unsigned rank = 0; rank < n->count; rank++)
        for (unsigned i = 0; i < n->count; i++)
            if (n->nif[i].chosen && n->nif[i].rank == rank) {
                size_t at = strlen(text);

                snprintf(text + at, sizeof(text) - at, "%s%s", at ? " " : "", n->nif[i].name);
            }
    return text;
}

static void choose(struct emx_netifs *n, const char *named, unsigned route_index)
{
    struct ethmx_config cfg;
    char err[512];

    emx_config_defaults(&cfg);
    snprintf(cfg.p_if, sizeof(cfg.p_if), "%s", named);
    emx_netif_sys_read(n, sysfs);
    assert_int_equal(emx_netifs_choose(n, &cfg, route_index, err, sizeof(err)), ETHMX_OK);
}

static void speed_and_node_are_read(void **state)
{
    static const struct {
        const char *name;
        unsigned speed_mbit;
        int node;
        bool far;
    } expect[] = {{"eno1", 1000, 0, false},     {"eth2", 100000, 0, false},   {"eth3", 100000, 1, true},
                  {"eth4", 0, -1, false},       {"eth5", 0, 0, false},        {"veth0", 10000, -1, false},
                  {"vlan0", 100000, 1, true},   {"bond0", 200000, -1, false}, {"bond1", 1000, -1, false},
                  {"bond2", 50000, 0, false},   {"br0", 1000, 0, false},      {"br1", 1000, -1, false},
                  {"vlan1", 200000, -1, false}, {"ring0", 0, -1, false}};

    (void)state;
    for (unsigned i = 0; i < sizeof(expect) / sizeof(expect[0]); i++) {
        struct emx_netifs n = {.count = 0};
        const struct emx_netif *nif = add(&n, expect[i].name);

        print_message("  %s\n", expect[i].name);
        emx_netif_sys_read(&n, sysfs);
        assert_int_equal(nif->speed_mbit, expect[i].speed_mbit);
        assert_int_equal(nif->numa_node, expect[i].node);
        assert_int_equal(nif->far, expect[i].far);
    }
}

/* The interface of another network namespace with the same name does not count, nor does one that is down. */
static void foreign_interfaces_are_not_read(void **state)
{
    struct emx_netifs n = {.count = 0};

    (void)state;
    add(&n, "eth2")->index = 77;
    add(&n, "eth3")->up = false;
    emx_netif_sys_read(&n, sysfs);
    for (unsigned i = 0; i < n.count; i++) {
        assert_int_equal(n.nif[i].numa_node, -1);
        assert_false(n.nif[i].far);
    }
    assert_int_equal(n.nif[1].speed_mbit, 0);
}

static void choice_follows_speed(void **state)
{
    static const struct {
        const char *what, *host, *named;
        unsigned route_index; /* 1: eno1 */
        const char *order, *reason;
    } cases[] = {
        {"a slow network that the launcher uses", "eno1 eth2", "", 1, "eth2 eno1", "first: faster"},
        {"a near card of two as fast, though the launcher uses the other", "eth3 eth2 eno1", "", 3, "eth2 eth3 eno1",
         "nearer to the cores"},
        {"an unknown speed is not slow", "eno1 eth4", "", 4, "eth4 eno1", "as fast"},
        {"the launcher decides between known and unknown", "eno1 eth4", "", 1, "eno1 eth4", "as fast"},
        {"unknown speeds: the launcher's first", "eth4 eth5", "", 5, "eth5 eth4", "as fast"},
        {"unknown speeds, no route: as the kernel numbers them", "eth5 eth4", "", 0, "eth4 eth5", "lowest number"},
        {"VLAN and bond", "eno1 vlan0 bond0", "", 1, "bond0 vlan0 eno1", "first: faster"},
        {"a bridge is as fast as its card", "br0 eth2", "", 11, "eth2 br0", "first: faster"},
        {"ETHMX_IF says otherwise", "eno1 eth2", "eno1,eth2", 2, "eno1 eth2", "first in ETHMX_IF"},
        {"several by one word of ETHMX_IF", "eno1 eth2 eth3", "10.0.0.0/8", 1, "eth2 eth3 eno1", "nearer"},
        {"one alone", "eno1", "", 1, "eno1", "route"},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct emx_netifs n;

        print_message("  %s\n", cases[i].what);
        add_all(&n, cases[i].host);
        choose(&n, cases[i].named, cases[i].route_index);
        assert_string_equal(order(&n), cases[i].order);
        for (unsigned k = 0; k < n.count; k++)
            if (n.nif[k].rank == 0 && !strstr(n.nif[k].reason, cases[i].reason))
                fail_msg("\"%s\" does not say \"%s\"", n.nif[k].reason, cases[i].reason);
    }
}

static void processes_spread_over_equal_cards(void **state)
{
    static const struct {
        const char *what, *host, *named;
        unsigned local_rank;
        const char *order;
    } cases[] = {
        {"the first process", "eth2 veth0 bond0 vlan1", "", 0, "bond0 vlan1 eth2 veth0"},
        {"the second", "eth2 veth0 bond0 vlan1", "", 1, "vlan1 bond0 eth2 veth0"},
        {"the third", "eth2 veth0 bond0 vlan1", "", 2, "bond0 vlan1 eth2 veth0"},
        {"slower cards get none", "eno1 eth2", "", 1, "eth2 eno1"},
        {"far cards get none", "eth2 eth3", "", 1, "eth2 eth3"},
        {"unknown speeds may differ", "eth4 eth5", "", 1, "eth4 eth5"},
        {"in the order of ETHMX_IF", "bond0 vlan1", "vlan1,bond0", 1, "vlan1 bond0"},
        {"several by one word of ETHMX_IF", "bond0 vlan1", "10.0.0.0/8", 1, "vlan1 bond0"},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct emx_netifs n;

        print_message("  %s\n", cases[i].what);
        add_all(&n, cases[i].host);
        choose(&n, cases[i].named, 0);
        emx_netifs_spread(&n, cases[i].local_rank);
        assert_string_equal(order(&n), cases[i].order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(speed_and_node_are_read),
        cmocka_unit_test(foreign_interfaces_are_not_read),
        cmocka_unit_test(choice_follows_speed),
        cmocka_unit_test(processes_spread_over_equal_cards),
    };

    return cmocka_run_group_tests(tests, setup, sysfs_remove);
}
