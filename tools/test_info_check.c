/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The checks of ethmx_info on hosts that are not here: /proc and /sys in a folder, and a card that is a structure.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/ethtool.h>
#include <net/if.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "info_check.h"
#include "info_rails.h"

static const char *const feature_names[] = {
    "tx-checksum-ip-generic",  "rx-checksum",         "rx-gro",
    "tx-generic-segmentation", "tx-udp-segmentation", "tx-tcp-segmentation",
};

#define FEATURES (sizeof(feature_names) / sizeof(feature_names[0]))

static struct card {
    bool silent; /* the driver answers nothing */
    struct ethtool_coalesce coalesce;
    struct ethtool_channels channels;
    uint64_t udp_hash;
    uint32_t available, requested, active; /* features */
} card;

static int card_ask(const char *ifname, void *command)
{
    uint32_t cmd;

    (void)ifname;
    memcpy(&cmd, command, sizeof(cmd));
    if (card.silent)
        return EOPNOTSUPP;
    if (cmd == ETHTOOL_GCOALESCE) {
        *(struct ethtool_coalesce *)command = card.coalesce;
    } else if (cmd == ETHTOOL_GCHANNELS) {
        *(struct ethtool_channels *)command = card.channels;
    } else if (cmd == ETHTOOL_GRXFH) {
        ((struct ethtool_rxnfc *)command)->data = card.udp_hash;
    } else if (cmd == ETHTOOL_GSSET_INFO) {
        ((struct ethtool_sset_info *)command)->data[0] = FEATURES;
    } else if (cmd == ETHTOOL_GSTRINGS) {
        struct ethtool_gstrings *s = command;

        for (unsigned i = 0; i < s->len; i++)
            snprintf((char *)s->data + (size_t)i * ETH_GSTRING_LEN, ETH_GSTRING_LEN, "%s", feature_names[i]);
    } else if (cmd == ETHTOOL_GFEATURES) {
        struct ethtool_get_features_block *b = ((struct ethtool_gfeatures *)command)->features;

        *b = (struct ethtool_get_features_block){
            .available = card.available, .requested = card.requested, .active = card.active};
    } else {
        return EOPNOTSUPP;
    }
    return 0;
}

/* ---- A host ----------------------------------------------------------------------------------------------- */

struct world {
    char root[64];
    struct ethmx_config *cfg;
    struct emx_checked_host host;
    char text[8192];   /* a line for each finding */
    const char *costs; /* what the last one costs that costs anything */
};

__attribute__((format(printf, 3, 4))) static void file(struct world *w, const char *path, const char *fmt, ...)
{
    char full[256];
    va_list args;
    FILE *f;

    snprintf(full, sizeof(full), "%s%s", w->root, path);
    for (char *slash = strchr(full + strlen(w->root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0777);
        *slash = '/';
    }
    f = fopen(full, "w");
    assert_non_null(f);
    va_start(args, fmt);
    vfprintf(f, fmt, args);
    va_end(args);
    fclose(f);
}

/* A card of 4 queues, of which the interrupts go to cores 0 to 3, in a host of 4 cores: nothing is wrong. */
static int make_world(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    *state = w;
    snprintf(w->root, sizeof(w->root), "/tmp/ethmx-check-XXXXXX");
    assert_non_null(mkdtemp(w->root));
    assert_int_equal(ethmx_config_create(&w->cfg), 0);
    w->host = (struct emx_checked_host){.root = w->root, .ask = card_ask, .cfg = w->cfg};
    card = (struct card){
        .channels = {.max_combined = 8, .combined_count = 4},
        .udp_hash = RXH_IP_SRC | RXH_IP_DST | RXH_L4_B_0_1 | RXH_L4_B_2_3,
        .available = (1u << FEATURES) - 1,
        .active = (1u << FEATURES) - 1,
    };
    file(w, "/sys/class/net/eth2/address", "02:00:00:00:00:01\n");
    file(w, "/sys/class/net/eth2/napi_defer_hard_irqs", "0\n");
    file(w, "/sys/class/net/eth2/gro_flush_timeout", "0\n");
    for (int i = 0; i < 4; i++) {
        char path[128];

        CPU_SET(i, &w->host.cores);
        snprintf(path, sizeof(path), "/sys/class/net/eth2/device/msi_irqs/%d", 40 + i);
        file(w, path, "msix\n");
        snprintf(path, sizeof(path), "/proc/irq/%d/effective_affinity_list", 40 + i);
        file(w, path, "%d\n", i);
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", i);
        file(w, path, "performance\n");
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cpuidle/state1/name", i);
        file(w, path, "C1\n");
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cpuidle/state1/latency", i);
        file(w, path, "2\n");
    }
    file(w, "/proc/sys/net/core/rmem_max", "4194304\n");
    file(w, "/proc/sys/net/core/wmem_max", "4194304\n");
    return 0;
}

static int end_world(void **state)
{
    struct world *w = *state;
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", w->root);
    assert_int_equal(system(command), 0);
    ethmx_config_destroy(w->cfg);
    free(w);
    return 0;
}

static void keep(void *arg, const struct emx_finding *f)
{
    static const char *const verdict[] = {"fine", "costs", "not seen"};
    struct world *w = arg;
    size_t at = strlen(w->text);

    /* The limits of the process that tests are none of the host that is tested. */
    if (strcmp(f->name, "cap_net_raw") && strcmp(f->name, "locked memory") &&
        (strcmp(f->where, "host") || strcmp(f->name, "busy polling") || f->verdict != EMX_COSTS))
        snprintf(w->text + at, sizeof(w->text) - at, "%s %s: %s: %s [%s]\n", f->where, f->name, verdict[f->verdict],
                 f->is, f->command);
    assert_int_equal(f->verdict == EMX_COSTS, *f->cost != 0);
    if (*f->cost && !strcmp(f->where, "eth2"))
        w->costs = f->cost;
}

static void check_kind(struct world *w, const char *name, const char *kind)
{
    struct emx_checked_link link = {.name = name, .kind = kind, .mac = "02:00:00:00:00:01", .mtu_bytes = 9000};

    w->text[0] = 0;
    emx_check_link(&w->host, &link, keep, w);
    emx_check_host(&w->host, keep, w);
}

static void assert_line(struct world *w, const char *line)
{
    if (!strstr(w->text, line))
        fail_msg("no \"%s\" in:\n%s", line, w->text);
}

/* Checks eth2: the line is there, and no other costs anything. */
static void assert_only(struct world *w, const char *line)
{
    const char *costs;

    check_kind(w, "eth2", "");
    assert_line(w, line);
    costs = strstr(w->text, ": costs: ");
    if (!strstr(line, ": costs: "))
        assert_null(costs);
    else if (!costs || strstr(costs + 1, ": costs: "))
        fail_msg("not only \"%s\":\n%s", line, w->text);
}

/* ---- Tests ------------------------------------------------------------------------------------------------ */

static void test_fine(void **state)
{
    struct world *w = *state;

    assert_only(w, "eth2 interrupts: fine: on cores 0-3 []");
    assert_line(w, "eth2 moderation: fine: off []");
    assert_line(w, "eth2 queues: fine: 4 of 8, for 4 cores []");
    assert_line(w, "host idle states: fine: the deepest is C1");
    assert_null(strstr(w->text, "not seen"));
}

static void test_moderation(void **state)
{
    card.coalesce.rx_coalesce_usecs = 50;
    assert_only(*state, "eth2 moderation: costs: 50 us [ethtool -C eth2 rx-usecs 0]");
    card.coalesce.use_adaptive_rx_coalesce = 1;
    assert_only(*state, "eth2 moderation: costs: adaptive, now 50 us [ethtool -C eth2 adaptive-rx off rx-usecs 0]");
    card.coalesce = (struct ethtool_coalesce){.rx_max_coalesced_frames = 16};
    assert_only(*state, "eth2 moderation: costs: 16 frames [ethtool -C eth2 rx-frames 1]");
}

static void test_deferral(void **state)
{
    file(*state, "/sys/class/net/eth2/gro_flush_timeout", "20000\n");
    assert_only(*state, "eth2 deferral: fine: off []");
    file(*state, "/sys/class/net/eth2/napi_defer_hard_irqs", "2\n");
    assert_only(*state, "eth2 deferral: costs: 2 times 20000 ns [echo 0 >/sys/class/net/eth2/napi_defer_hard_irqs]");
}

static void test_busy_polling(void **state)
{
    struct world *w = *state;

    check_kind(w, "eth2", "");
    assert_line(w, "eth2 busy polling: fine: not wanted");
    assert_line(w, "host busy polling: fine: not wanted");
    assert_int_equal(ethmx_config_set(w->cfg, "busy_poll", "64", "test"), 0);
    assert_only(w, "eth2 busy polling: costs: interrupts are not deferred [echo 2 >/sys/class/net/eth2/");
    file(w, "/sys/class/net/eth2/gro_flush_timeout", "20000\n");
    file(w, "/sys/class/net/eth2/napi_defer_hard_irqs", "2\n");
    assert_only(w, "eth2 busy polling: fine: interrupts are deferred []");
    assert_line(w, "eth2 deferral: fine: 2 times 20000 ns []");
    assert_int_equal(ethmx_config_set(w->cfg, "wires", "shm,packet", "test"), 0);
    check_kind(w, "eth2", "");
    assert_line(w, "eth2 deferral: costs: 2 times 20000 ns");
    assert_line(w, "host busy polling: fine: not wanted");
}

static void test_queues(void **state)
{
    card.channels.combined_count = 2;
    assert_only(*state, "eth2 queues: costs: 2 of 8, for 4 cores [ethtool -L eth2 combined 4]");
    card.channels = (struct ethtool_channels){.max_rx = 3, .rx_count = 1};
    assert_only(*state, "eth2 queues: costs: 1 of 3, for 4 cores [ethtool -L eth2 rx 3]");
}

/* A driver that does not tell: /sys does. */
static void test_queues_of_sysfs(void **state)
{
    card.channels = (struct ethtool_channels){0};
    card.udp_hash = 0;
    file(*state, "/sys/class/net/eth2/queues/rx-0/rps_cpus", "0\n");
    assert_only(*state, "eth2 queues: fine: 1 of 1, for 4 cores []");
    assert_only(*state, "eth2 udp hash: fine: one queue");
}

static void test_udp_hash(void **state)
{
    card.udp_hash = RXH_IP_SRC | RXH_IP_DST;
    assert_only(*state, "eth2 udp hash: costs: addresses only [ethtool -N eth2 rx-flow-hash udp4 sdfn]");
    card.channels = (struct ethtool_channels){.max_combined = 1, .combined_count = 1};
    assert_only(*state, "eth2 udp hash: fine: one queue");
}

static void test_interrupts(void **state)
{
    struct world *w = *state;

    file(w, "/proc/irq/42/effective_affinity_list", "0-1\n");
    file(w, "/proc/irq/43/effective_affinity_list", "1\n");
    assert_only(w, "eth2 shared cores: costs: 0-1 [echo CORES >/proc/irq/");
    CPU_CLR(0, &w->host.cores);
    CPU_CLR(1, &w->host.cores);
    assert_only(w, "eth2 shared cores: fine: none []");
    for (int irq = 40; irq < 44; irq++) {
        char path[64];

        snprintf(path, sizeof(path), "/proc/irq/%d/effective_affinity_list", irq);
        file(w, path, "1\n");
    }
    assert_only(w, "eth2 interrupts: costs: all 4 on core 1 [echo CORES >/proc/irq/");
}

static void test_features(void **state)
{
    const struct world *w = *state;

    card.active &= ~4u;
    assert_only(*state, "eth2 gro: costs: off [ethtool -K eth2 gro on]");
    card.active = card.available & ~16u;
    card.requested = card.available;
    assert_only(*state, "eth2 udp segmentation: costs: off although requested: it comes back");
    card.available = card.active;
    assert_only(*state, "eth2 udp segmentation: costs: off, and the driver has no such function []");
    card.available = (1u << FEATURES) - 1;
    card.active = card.available & ~32u;
    card.requested = 0;
    assert_only(*state, "eth2 tso: costs: off [ethtool -K eth2 tso on]");
    assert_non_null(strstr(w->costs, "large messages"));
    card.active = card.available & ~8u;
    assert_only(*state, "eth2 gso: costs: off [ethtool -K eth2 gso on]");
    assert_non_null(strstr(w->costs, "only TCP"));
}

static void test_cores(void **state)
{
    file(*state, "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave\n");
    assert_only(*state, "host governor: costs: powersave on 1 of 4 cores [cpupower frequency-set -g performance]");
    file(*state, "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance\n");
    file(*state, "/sys/devices/system/cpu/cpu2/cpuidle/state3/name", "C6\n");
    file(*state, "/sys/devices/system/cpu/cpu2/cpuidle/state3/latency", "133\n");
    assert_only(*state, "host idle states: costs: the deepest is C6, left in 133 us");
    file(*state, "/sys/devices/system/cpu/cpu2/cpuidle/state3/disable", "1\n");
    assert_only(*state, "host idle states: fine: the deepest is C1");
}

static void test_buffers(void **state)
{
    struct world *w = *state;

    file(w, "/proc/sys/net/core/rmem_max", "212992\n");
    assert_only(w,
                "host rmem_max: costs: 212992, less than ETHMX_RING (4194304) [sysctl -w net.core.rmem_max=4194304]");
    assert_int_equal(ethmx_config_set(w->cfg, "ring", "128k", "test"), 0);
    assert_only(w, "host rmem_max: fine: 212992 []");
    assert_int_equal(ethmx_config_set(w->cfg, "ring", "1g", "test"), 0);
    assert_int_equal(ethmx_config_set(w->cfg, "wires", "shm,packet", "test"), 0);
    assert_only(w, "host rmem_max: fine: 212992; ETHMX_WIRES has no udp []");
}

/* A driver that answers nothing, and a kernel that shows nothing. */
static void test_not_seen(void **state)
{
    struct world *w = *state;

    card.silent = true;
    w->host.root = "/nowhere";
    check_kind(w, "eth2", "");
    assert_line(w, "eth2 moderation: not seen: ");
    assert_line(w, "eth2 queues: not seen: ");
    assert_line(w, "eth2 udp hash: not seen: ");
    assert_line(w, "eth2 interrupts: not seen: ");
    assert_line(w, "eth2 gso: not seen: ");
    assert_line(w, "host governor: not seen: ");
    assert_line(w, "host rmem_max: not seen: ");
    assert_null(strstr(w->text, ": costs: "));
}

/* A VLAN over a bond over a card: the card is looked at. */
static void test_below(void **state)
{
    struct world *w = *state;

    file(w, "/sys/class/net/bond0.5/address", "02:00:00:00:00:01\n");
    file(w, "/sys/class/net/bond0.5/lower_bond0/name", "\n");
    file(w, "/sys/class/net/bond0/lower_eth2/name", "\n");
    card.coalesce.rx_coalesce_usecs = 8;
    check_kind(w, "bond0.5", "vlan");
    assert_line(w, "bond0.5 gso: fine: on");
    assert_line(w, "eth2 moderation: costs: 8 us [ethtool -C eth2 rx-usecs 0]");
    assert_line(w, "eth2 interrupts: fine: on cores 0-3");
    assert_null(strstr(w->text, "bond0.5 moderation"));
    assert_null(strstr(w->text, "bond0.5 receive checksum"));
}

/* /sys of another network namespace, which has an interface of this name too. */
static void test_other_namespace(void **state)
{
    struct world *w = *state;

    file(w, "/sys/class/net/eth2/address", "02:00:00:00:00:99\n");
    check_kind(w, "eth2", "");
    assert_line(w, "eth2 interrupts: not seen: ");
    assert_line(w, "eth2 deferral: not seen: ");
    check_kind(w, "eth2", "veth");
    assert_line(w, "eth2 card: not seen: virtual (veth), and /sys does not show what is below it");
}

/* Interfaces in order of preference: what each carries of large messages, and the command for one that is left out. */
static void test_rails(void **state)
{
    static const struct {
        struct ethmx_interface_info i;
        unsigned rail;
        const char *is, *command;
    } row[] = {
        {{.name = "e0", .ipv4 = "10.0.0.1/24", .mtu_bytes = 9000, .speed_mbit = 100000, .numa_node = 1},
         1,
         "rail 1, and all other messages, 100000 Mbit/s, NUMA node 1",
         ""},
        {{.name = "lo", .ipv4 = "127.0.0.1/8", .mtu_bytes = 65536, .numa_node = -1}, 0, "this host only", ""},
        {{.name = "e1", .ipv4 = "", .mtu_bytes = 9000, .numa_node = -1},
         0,
         "no IP",
         "ip addr add ADDRESS/PREFIX dev e1"},
        {{.name = "e2", .ipv4 = "10.2.0.1/24", .mtu_bytes = 1500, .numa_node = -1},
         0,
         "half",
         "ip link set e2 mtu 9000"},
        {{.name = "e3", .ipv4 = "10.3.0.1/24", .mtu_bytes = 4500, .numa_node = -1},
         2,
         "rail 2, for large messages",
         ""},
        {{.name = "e4", .ipv4 = "", .ipv6 = "fd00::1/64", .mtu_bytes = 9000, .numa_node = -1}, 3, "rail 3", ""},
        {{.name = "e5", .ipv4 = "10.5.0.1/24", .mtu_bytes = 9000, .numa_node = -1},
         0,
         "ETHMX_RAILS allows no more",
         "unset ETHMX_RAILS"},
    };
    struct world *w = *state;
    struct emx_info_rails r = {.cfg = w->cfg};

    assert_int_equal(ethmx_config_set(w->cfg, "rails", "3", "test"), 0);
    for (size_t k = 0; k < sizeof(row) / sizeof(row[0]); k++) {
        struct ethmx_interface_info i = row[k].i;

        i.ipv6 = i.ipv6 ? i.ipv6 : "";
        assert_int_equal(emx_info_rails_look(&r, &i), row[k].rail);
        if (!strstr(r.is, row[k].is))
            fail_msg("%s: %s", i.name, r.is);
        assert_string_equal(r.command, row[k].command);
    }
    assert_int_equal(ethmx_config_set(w->cfg, "rails", "auto", "test"), 0);
    assert_int_equal(emx_info_rails_look(&r, &row[0].i), 4);
    assert_int_equal(emx_info_rails_look(&r, &row[0].i), 0);
    assert_non_null(strstr(r.is, "there are 4 others"));
    assert_string_equal(r.command, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_world, end_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_fine),     TEST(test_moderation),      TEST(test_deferral), TEST(test_busy_polling),
        TEST(test_queues),   TEST(test_queues_of_sysfs), TEST(test_udp_hash), TEST(test_interrupts),
        TEST(test_features), TEST(test_cores),           TEST(test_buffers),  TEST(test_not_seen),
        TEST(test_below),    TEST(test_other_namespace), TEST(test_rails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
