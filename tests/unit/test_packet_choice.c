/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The format of the packet wire's frames at an interface: by parameter, by the card's queues, by what is below.
 */
#define _GNU_SOURCE
#include "sysfs.h"

#include <arpa/inet.h>

#include "wire/packet/packet_choice.h"

static char why[128];

static void make_interface(const char *name, unsigned queues)
{
    char queue[32];

    sysfs_folder("", name);
    sysfs_file(name, "ifindex", "7");
    sysfs_folder(name, "queues");
    sysfs_folder(name, "queues/tx-0");
    for (unsigned i = 0; i < queues; i++) {
        snprintf(queue, sizeof(queue), "queues/rx-%u", i);
        sysfs_folder(name, queue);
    }
}

static void make_card(const char *name, unsigned queues)
{
    make_interface(name, queues);
    sysfs_folder(name, "device");
}

static void make_upper(const char *name, const char *lower, const char *more_lower)
{
    make_interface(name, 1);
    sysfs_folder(name, lower);
    if (more_lower)
        sysfs_folder(name, more_lower);
}

static void make_bond(const char *name, const char *mode, const char *lower)
{
    make_upper(name, lower, NULL);
    sysfs_folder(name, "bonding");
    sysfs_file(name, "bonding/mode", mode);
}

static int setup(void **state)
{
    (void)state;
    sysfs_make();
    make_card("eth0", 4);
    make_card("eth1", 1);
    make_interface("veth0", 4);
    make_upper("vlan0", "lower_eth0", NULL);
    make_upper("vlan1", "lower_eth1", NULL);
    make_upper("br0", "lower_veth0", "lower_eth1");
    make_upper("br1", "lower_eth1", "lower_vlan0");
    make_bond("bond0", "802.3ad 4", "lower_eth1");
    make_bond("bond1", "balance-xor 2", "lower_eth1");
    make_bond("bond2", "active-backup 1", "lower_eth1");
    make_bond("bond3", "active-backup 1", "lower_eth0");
    make_upper("vlan2", "lower_bond0", NULL);
    make_upper("ring0", "lower_ring1", NULL);
    make_upper("ring1", "lower_ring0", NULL);
    return 0;
}

static struct emx_netif interface(const char *name, const char *kind)
{
    struct emx_netif nif = {.index = 7, .ip.s_addr = htonl(0x0a010001), .chosen = true};

    snprintf(nif.name, sizeof(nif.name), "%s", name);
    snprintf(nif.kind, sizeof(nif.kind), "%s", kind);
    return nif;
}

static bool chooses(enum emx_packet_frames frames, const struct emx_netif *nif)
{
    struct emx_config cfg;

    emx_config_defaults(&cfg);
    assert_int_equal(cfg.p_packet_frames, EMX_FRAMES_AUTO);
    cfg.p_packet_frames = frames;
    return emx_packet_chooses_udp(&cfg, nif, sysfs, why, sizeof(why));
}

/* reason NULL: frames have the EtherType. */
static void assert_auto(const char *name, const char *kind, const char *reason)
{
    const struct emx_netif nif = interface(name, kind);

    assert_int_equal(chooses(EMX_FRAMES_AUTO, &nif), reason != NULL);
    assert_string_equal(why, reason ? reason : "");
}

static void parameter_outranks_the_rest(void **state)
{
    const struct emx_netif one = interface("eth1", ""), several = interface("eth0", "");

    (void)state;
    assert_true(chooses(EMX_FRAMES_UDP, &one));
    assert_string_equal(why, "ETHMX_PACKET_FRAMES");
    assert_false(chooses(EMX_FRAMES_ETHERTYPE, &several));
    assert_string_equal(why, "ETHMX_PACKET_FRAMES");
}

static void several_receive_queues(void **state)
{
    (void)state;
    assert_auto("eth0", "", "eth0 has 4 receive queues");
    assert_auto("eth1", "", NULL);
}

static void devices_below_count(void **state)
{
    (void)state;
    assert_auto("vlan0", "vlan", "eth0 has 4 receive queues");
    assert_auto("vlan1", "vlan", NULL);
    assert_auto("br0", "bridge", NULL);
    assert_auto("br1", "bridge", "eth0 has 4 receive queues");
    assert_auto("ring0", "vlan", NULL);
}

/* A bond that uses one link at a time is as its cards. */
static void bonds_that_give_each_flow_a_link(void **state)
{
    (void)state;
    assert_auto("bond0", "bond", "bond0 is a bond (802.3ad)");
    assert_auto("bond1", "bond", "bond1 is a bond (balance-xor)");
    assert_auto("bond2", "bond", NULL);
    assert_auto("bond3", "bond", "eth0 has 4 receive queues");
    assert_auto("vlan2", "vlan", "bond0 is a bond (802.3ad)");
}

static void other_interfaces_keep_the_ethertype(void **state)
{
    struct emx_netif nif = interface("eth0", "");

    (void)state;
    assert_auto("veth0", "veth", NULL);
    assert_auto("eth9", "", NULL);
    nif.index = 8; /* of another namespace */
    assert_false(chooses(EMX_FRAMES_AUTO, &nif));
    nif = interface("eth0", "");
    nif.ip.s_addr = 0;
    assert_false(chooses(EMX_FRAMES_AUTO, &nif));
    nif = interface("eth0", "");
    nif.chosen = false;
    assert_false(chooses(EMX_FRAMES_AUTO, &nif));
    nif = interface("eth0", "");
    nif.loopback = true;
    assert_false(chooses(EMX_FRAMES_AUTO, &nif));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameter_outranks_the_rest),
        cmocka_unit_test(several_receive_queues),
        cmocka_unit_test(devices_below_count),
        cmocka_unit_test(bonds_that_give_each_flow_a_link),
        cmocka_unit_test(other_interfaces_keep_the_ethertype),
    };

    return cmocka_run_group_tests(tests, setup, sysfs_remove);
}
