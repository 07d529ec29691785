/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The choice of interfaces, on hosts written down as tables.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <string.h>

#include "wire/netif.h"

#define UP .up = true, .has_mac = true, .mtu_bytes = 1500

/* One interface of a host; ip as text. */
struct row {
    const char *ip; /* "10.1.0.3/16" or NULL */
    struct emx_netif nif;
};

#define LO                                                                                                             \
    {                                                                                                                  \
        "127.0.0.1/8",                                                                                                 \
        {                                                                                                              \
            .name = "lo", .index = 1, .up = true, .loopback = true, .has_mac = true, .mtu_bytes = 65536                \
        }                                                                                                              \
    }

/* clang-format off */
static const struct row laptop[] = {
    LO,
    {"192.168.7.20/24", {.name = "wlan0", .index = 2, UP}},
    {NULL, {.name = "enp0s31f6", .index = 3, .has_mac = true, .mtu_bytes = 1500}},
    {"172.17.0.1/16", {.name = "docker0", .kind = "bridge", .index = 4, UP}},
    {NULL, {.name = "veth12ab", .kind = "veth", .index = 5, .master_index = 4, UP}},
    {"192.168.122.1/24", {.name = "virbr0", .kind = "bridge", .index = 6, UP}},
    {NULL, {.name = "vnet0", .kind = "tun", .index = 7, .master_index = 6, UP}},
    {"172.18.0.1/16", {.name = "br-5d1e6d8a4b11", .kind = "bridge", .index = 8, UP}},
    {"10.8.0.2/24", {.name = "tun0", .kind = "tun", .index = 9, .up = true, .mtu_bytes = 1500}},
    {"10.9.0.2/24", {.name = "wg0", .kind = "wireguard", .index = 10, .up = true, .mtu_bytes = 1420}},
    {"192.168.56.1/24", {.name = "vboxnet0", .index = 11, UP}},
    {"10.10.0.1/24", {.name = "dummy0", .kind = "dummy", .index = 12, UP}},
    {NULL, {.index = 0}},
};

static const struct row node[] = { /* of a cluster: management, two fast ones, one of them in a bridge, a bond */
    LO,
    {"10.0.0.5/24", {.name = "eno1", .index = 2, UP}},
    {"10.1.0.5/24", {.name = "eth2", .index = 3, .up = true, .has_mac = true, .mtu_bytes = 9000}},
    {NULL, {.name = "eth3", .index = 4, .master_index = 5, UP}},
    {"10.2.0.5/24", {.name = "br0", .kind = "bridge", .index = 5, UP}},
    {NULL, {.name = "vnet1", .kind = "tun", .index = 6, .master_index = 5, UP}},
    {NULL, {.name = "eth4", .index = 7, .master_index = 9, UP}},
    {NULL, {.name = "eth5", .index = 8, .master_index = 9, UP}},
    {"10.3.0.5/24", {.name = "bond0", .kind = "bond", .index = 9, .up = true, .has_mac = true, .mtu_bytes = 9000}},
    {"10.4.0.5/24", {.name = "eth6", .index = 10, .has_mac = true, .mtu_bytes = 9000}},
    {"169.254.3.1/24", {.name = "usb0", .index = 11, UP}},
    {NULL, {.index = 0}},
};

static const struct row vm_host[] = { /* a bridge over a bond over two cards; members of a vrf */
    LO,
    {NULL, {.name = "eth0", .index = 2, .master_index = 4, UP}},
    {NULL, {.name = "eth1", .index = 3, .master_index = 4, UP}},
    {NULL, {.name = "bond0", .kind = "bond", .index = 4, .master_index = 5, UP}},
    {"10.5.0.1/24", {.name = "vmbr0", .kind = "bridge", .index = 5, UP}},
    {"10.6.0.1/24", {.name = "vrf-red", .kind = "vrf", .index = 6, UP}},
    {"10.7.0.1/24", {.name = "eth2.100", .kind = "vlan", .index = 7, .master_index = 6, UP}},
    {NULL, {.index = 0}},
};

static const struct row container[] = {
    LO,
    {"172.17.0.2/16", {.name = "eth0", .kind = "veth", .index = 2, UP}},
    {NULL, {.index = 0}},
};

static const struct row modern[] = { /* IPv6 only; both; link-local only; a duplicate */
    LO,
    {"2001:db8:1::5/64", {.name = "eth0", .index = 2, UP}},
    {"10.1.0.5/24", {.name = "eth1", .index = 3, UP, .ip6 = {{0x20, 1, 0xd, 0xb8, 0, 2, [15] = 5}}, .prefix6_bits = 64}},
    {"fe80::5/64", {.name = "eth2", .index = 4, UP}},
    {NULL, {.name = "eth3", .index = 5, UP, .duplicate6 = true}},
    {NULL, {.index = 0}},
};

static const struct row scoped[] = { /* link-local addresses only */
    LO,
    {"fe80::5/64", {.name = "eth0", .index = 2, UP}},
    {"fe80::6/64", {.name = "eth1", .index = 3, UP}},
    {"fe80::7/64", {.name = "virbr0", .kind = "bridge", .index = 4, UP}},
    {NULL, {.index = 0}},
};

static const struct choice {
    const char *what;
    const struct row *host;
    const char *named;    /* ETHMX_IF */
    unsigned route_index;
    const char *chosen;   /* in order of rank; NULL: an error */
    const char *error[3]; /* words the sentence must have */
} choices[] = {
    {"container bridges and tunnels are passed over", laptop, "", 2, "wlan0", {0}},
    {"not even the route makes a tunnel automatic", laptop, "", 10, "wlan0", {0}},
    {"a tunnel by name", laptop, "wg0", 2, "wg0", {0}},
    {"a container bridge by name", laptop, "docker0", 2, "docker0", {0}},
    {"loopback by name", laptop, "lo", 2, "lo", {0}},
    {"no route: longest frames first, then lowest index", node, "", 0, "eth2 bond0 eno1 br0", {0}},
    {"the route first", node, "", 5, "br0 eth2 bond0 eno1", {0}},
    {"by name, in the order given", node, "eno1,eth2", 3, "eno1 eth2", {0}},
    {"spaces and empty words", node, " eth2, ,eno1,", 2, "eth2 eno1", {0}},
    {"only separators are as nothing", node, " , ", 5, "br0 eth2 bond0 eno1", {0}},
    {"by subnet", node, "10.1.0.0/24", 2, "eth2", {0}},
    {"by a wide subnet, the route first; what is down is passed over", node, "10.0.0.0/8", 2, "eno1 eth2 bond0 br0", {0}},
    {"by all there is", container, "0.0.0.0/0", 2, "eth0 lo", {0}},
    {"by its own address", node, "10.3.0.5", 2, "bond0", {0}},
    {"subnet and name", node, "10.3.0.0/24,eno1", 3, "bond0 eno1", {0}},
    {"twice the same", node, "eth2,10.1.0.0/24", 2, "eth2", {0}},
    {"a bridge leads out through a bond; a vlan in a vrf", vm_host, "", 0, "vmbr0 eth2.100", {0}},
    {"a container's veth", container, "", 2, "eth0", {0}},
    {"missing", node, "eth9", 2, NULL, {"no interface eth9", "eth2 (10.1.0.5/24)", "eth6 (10.4.0.5/24, down)"}},
    {"one of two missing", node, "eth2,eth9", 2, NULL, {"no interface eth9", "bond0", "eno1"}},
    {"down", node, "eth6", 2, NULL, {"eth6 is down", "eno1 (10.0.0.5/24)", "eth4 (no address)"}},
    {"all of the subnet down", node, "10.4.0.0/24", 2, NULL, {"eth6 is down", "eno1", "bond0"}},
    {"no such subnet", node, "10.77.0.0/16", 2, NULL, {"no interface has an address in 10.77.0.0/16", "eth2", "lo"}},
    {"without address", laptop, "vnet0", 2, NULL, {"vnet0", "port", "bridge or bond"}},
    {"no subnet: too long", node, "10.1.0.0/33", 2, NULL, {"\"10.1.0.0/33\"", "neither", "subnet"}},
    {"no subnet: no length", node, "10.1.0.0/", 2, NULL, {"\"10.1.0.0/\"", "neither", "subnet"}},
    {"IPv6 is as good; not link-local beside more", modern, "", 3, "eth1 eth0", {0}},
    {"link-local if there is no more", scoped, "", 0, "eth0 eth1", {0}},
    {"by a prefix of IPv6", modern, "2001:db8:2::/64", 0, "eth1", {0}},
    {"by an address of IPv6", modern, "2001:db8:1::5", 0, "eth0", {0}},
    {"by a prefix of both", modern, "2001:db8::/32,10.0.0.0/8", 0, "eth0 eth1", {0}},
    {"by IPv6 at all", modern, "::/0", 0, "eth0 eth1 eth2", {0}},
    {"by link-local", scoped, "fe80::/10", 3, "eth1 eth0 virbr0", {0}},
    {"by link-local and scope", scoped, "fe80::%eth1/10", 2, "eth1", {0}},
    {"a scope that is missing", scoped, "fe80::%eth9/10", 2, NULL, {"no interface eth9", "scope", "eth0 (fe80::5/64)"}},
    {"a scope without such an address", modern, "fe80::%eth0/10", 2, NULL, {"no interface has an address in", "eth0", "eth2"}},
    {"a scope of IPv4", node, "10.1.0.0%eth2/24", 2, NULL, {"neither", "subnet", "2001:db8::/64"}},
    {"a duplicate", modern, "eth3", 2, NULL, {"eth3", "duplicate", "another host"}},
    {"no prefix of IPv6: too long", modern, "2001:db8::/129", 2, NULL, {"\"2001:db8::/129\"", "neither", "subnet"}},
    {"no such prefix of IPv6", modern, "2001:db8:7::/64", 2, NULL, {"no interface has an address in 2001:db8:7::/64", "eth0", "eth1"}},
    {"no subnet: a name before the slash", node, "eth2/24", 2, NULL, {"\"eth2/24\"", "neither", "subnet"}},
};
/* clang-format on */

static void fill(struct emx_netifs *n, const struct row *r)
{
    memset(n, 0, sizeof(*n));
    for (; r->nif.index; r++) {
        struct emx_netif *nif = &n->nif[n->count++];
        char text[64];
        struct emx_ip ip;

        *nif = r->nif;
        if (r->ip) {
            unsigned prefix_bits = (unsigned)atoi(strchr(r->ip, '/') + 1);

            snprintf(text, sizeof(text), "%s", r->ip);
            *strchr(text, '/') = 0;
            assert_true(emx_ip_parse(&ip, text));
            nif->ip.s_addr = emx_ip_v4(&ip);
            *(emx_ip_is_v6(&ip) ? &nif->prefix6_bits : &nif->prefix_bits) = prefix_bits;
            if (emx_ip_is_v6(&ip))
                nif->ip6 = ip;
        }
        if (nif->loopback)
            n->loopback_index = nif->index;
    }
}

/* The chosen, in order of rank; checks that ranks are 0, 1, 2, ... */
static void chosen_names(const struct emx_netifs *n, char *text, size_t len_bytes)
{
    unsigned count = 0, found;

    for (unsigned i = 0; i < n->count; i++)
        count += n->nif[i].chosen;
    text[0] = 0;
    for (unsigned rank = 0; rank < count; rank++) {
        found = 0;
        for (unsigned i = 0; i < n->count; i++)
            if (n->nif[i].chosen && n->nif[i].rank == rank) {
                size_t at = strlen(text);

                snprintf(text + at, len_bytes - at, "%s%s", at ? " " : "", n->nif[i].name);
                found++;
            }
        assert_int_equal(found, 1);
    }
}

static void choice_follows_table(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        const struct choice *c = &choices[i];
        struct ethmx_config cfg;
        struct emx_netifs n;
        char err[1024] = "", names[256];
        int ret;

        print_message("  %s\n", c->what);
        emx_config_defaults(&cfg);
        snprintf(cfg.p_if, sizeof(cfg.p_if), "%s", c->named);
        fill(&n, c->host);
        ret = emx_netifs_choose(&n, &cfg, c->route_index, err, sizeof(err));
        if (!c->chosen) {
            assert_int_equal(ret, ETHMX_ERR_PARAM);
            for (unsigned w = 0; w < 3; w++)
                if (!strstr(err, c->error[w]))
                    fail_msg("\"%s\" does not say \"%s\"", err, c->error[w]);
            continue;
        }
        assert_int_equal(ret, ETHMX_OK);
        chosen_names(&n, names, sizeof(names));
        assert_string_equal(names, c->chosen);
        for (unsigned k = 0; k < n.count; k++)
            assert_true(n.nif[k].reason[0]);
    }
}

static void reasons_are_plain(void **state)
{
    static const struct {
        unsigned index;
        const char *reason;
    } expect[] = {{1, "loopback"},          {2, "route"},      {3, "down"},     {4, "containers"},
                  {5, "a port of docker0"}, {6, "containers"}, {9, "kind tun"}, {10, "kind wireguard"},
                  {11, "virtual machines"}};
    struct ethmx_config cfg;
    struct emx_netifs n;
    char err[256];

    (void)state;
    emx_config_defaults(&cfg);
    fill(&n, laptop);
    assert_int_equal(emx_netifs_choose(&n, &cfg, 2, err, sizeof(err)), ETHMX_OK);
    for (unsigned i = 0; i < sizeof(expect) / sizeof(expect[0]); i++) {
        const char *reason = emx_netif_by_index(&n, expect[i].index)->reason;

        if (!strstr(reason, expect[i].reason))
            fail_msg("\"%s\" does not say \"%s\"", reason, expect[i].reason);
    }
    assert_null(emx_netif_by_index(&n, 99));
}

/* Choosing again forgets the first choice. */
static void choice_can_be_made_again(void **state)
{
    struct ethmx_config cfg;
    struct emx_netifs n;
    char err[256], names[256];

    (void)state;
    emx_config_defaults(&cfg);
    fill(&n, node);
    assert_int_equal(emx_netifs_choose(&n, &cfg, 0, err, sizeof(err)), ETHMX_OK);
    snprintf(cfg.p_if, sizeof(cfg.p_if), "eno1");
    assert_int_equal(emx_netifs_choose(&n, &cfg, 0, err, sizeof(err)), ETHMX_OK);
    chosen_names(&n, names, sizeof(names));
    assert_string_equal(names, "eno1");
}

/* An interface that prefixes name is used by their families; one that is named, by all that it has. */
static void prefixes_choose_the_family(void **state)
{
    static const struct {
        const char *named;
        bool v4, v6;
    } cases[] = {{"eth1", true, true},
                 {"10.1.0.0/24", true, false},
                 {"2001:db8:2::/64", false, true},
                 {"2001:db8:2::/64,10.1.0.0/24", true, true},
                 {"2001:db8:2::/64,eth1", true, true}};

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct emx_netif *nif;
        struct ethmx_config cfg;
        struct emx_netifs n;
        char err[256];

        emx_config_defaults(&cfg);
        snprintf(cfg.p_if, sizeof(cfg.p_if), "%s", cases[i].named);
        fill(&n, modern);
        assert_int_equal(emx_netifs_choose(&n, &cfg, 0, err, sizeof(err)), ETHMX_OK);
        nif = emx_netif_by_index(&n, 3);
        assert_true(nif->chosen);
        assert_true(cases[i].v4 == (nif->ip.s_addr != 0) && cases[i].v6 == !emx_ip_is_none(&nif->ip6));
    }
}

/* Of the addresses of an interface those count first for which ETHMX_IF has a prefix. */
static void prefixes_ask_for_addresses(void **state)
{
    static const struct {
        const char *named, *ip;
        bool asked;
    } cases[] = {{"", "2001:db8:2::5", false},
                 {"eth0", "2001:db8:2::5", false},
                 {"eth9, 2001:db8:2::/64", "2001:db8:2::5", true},
                 {"2001:db8:2::/64", "2001:db8:3::5", false},
                 {"2001:db8:2::/64", "10.1.0.5", false},
                 {"::/0", "2001:db8:3::5", true},
                 {"::/0", "10.1.0.5", false},
                 {"0.0.0.0/0", "10.1.0.5", true},
                 {"0.0.0.0/0", "2001:db8:3::5", false},
                 {"fe80::%eth0/10", "fe80::5", true},
                 {"fe80::%eth1/10", "fe80::5", false},
                 {"2001:db8::/129", "2001:db8::5", false}};
    const struct emx_netif nif = {.name = "eth0"};

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ethmx_config cfg;
        struct emx_ip ip;

        emx_config_defaults(&cfg);
        snprintf(cfg.p_if, sizeof(cfg.p_if), "%s", cases[i].named);
        assert_true(emx_ip_parse(&ip, cases[i].ip));
        if (emx_netif_is_asked(&cfg, &nif, &ip) != cases[i].asked)
            fail_msg("\"%s\" and %s", cases[i].named, cases[i].ip);
    }
}

static void host_id_is_stable(void **state)
{
    (void)state;
    assert_true(emx_host_id() != 0);
    assert_true(emx_host_id() == emx_host_id());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choice_follows_table),       cmocka_unit_test(reasons_are_plain),
        cmocka_unit_test(choice_can_be_made_again),   cmocka_unit_test(prefixes_choose_the_family),
        cmocka_unit_test(prefixes_ask_for_addresses), cmocka_unit_test(host_id_is_stable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
