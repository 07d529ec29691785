/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Told interfaces: hosts as lists of interfaces, and the order in which peers are told of them.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <string.h>

#include "endpoint/told.h"

/* rank -1: not chosen. */
struct nic {
    const char *name, *ip;
    unsigned prefix_bits;
    int rank;
};

static void make_netifs(const struct nic *nic, unsigned count, struct emx_netifs *n)
{
    memset(n, 0, sizeof(*n));
    for (unsigned i = 0; i < count; i++) {
        struct emx_netif *nif = &n->nif[n->count++];

        snprintf(nif->name, sizeof(nif->name), "%s", nic[i].name);
        nif->ip.s_addr = inet_addr(nic[i].ip);
        nif->prefix_bits = nic[i].prefix_bits;
        nif->loopback = !strcmp(nic[i].name, "lo");
        nif->chosen = nic[i].rank >= 0;
        nif->rank = nic[i].rank >= 0 ? (unsigned)nic[i].rank : 0;
    }
}

static void assert_told(const struct nic *nic, unsigned count, const char *expect)
{
    static struct emx_netifs n;
    struct emx_way_site site = {.netifs = &n};
    char got[128] = "";

    make_netifs(nic, count, &n);
    emx_told_choose(&n, &site);
    for (unsigned i = 0; i < site.told_count; i++) {
        strcat(got, i ? " " : "");
        strcat(got, site.told[i]->name);
    }
    assert_string_equal(got, expect);
}

static void the_preferred_comes_first(void **state)
{
    static const struct nic nic[] = {
        {"lo", "127.0.0.1", 8, 0}, {"a", "10.0.0.1", 24, 2}, {"b", "10.1.0.1", 24, 0}, {"c", "10.2.0.1", 24, 1}};

    (void)state;
    assert_told(nic, ARRAY_LEN(nic), "b c a");
}

static void each_network_comes_before_the_second_interface_of_one(void **state)
{
    static const struct nic nic[] = {{"a", "10.0.0.1", 24, 0}, {"b", "10.0.0.2", 24, 1}, {"c", "10.1.0.1", 24, 2},
                                     {"d", "10.0.0.3", 24, 3}, {"e", "10.2.0.1", 24, 4}, {"f", "10.0.0.4", 16, 5}};

    (void)state;
    assert_told(nic, ARRAY_LEN(nic), "a c e f b d");
}

static void what_is_not_chosen_is_not_told(void **state)
{
    static const struct nic nic[] = {{"a", "10.0.0.1", 24, -1}, {"b", "10.1.0.1", 24, 0}};

    (void)state;
    assert_told(nic, ARRAY_LEN(nic), "b");
}

/* IPv6 comes after all IPv4, of interfaces with both, too; then each network first. */
static void each_family_is_told(void **state)
{
    static struct emx_netifs n;
    struct emx_way_site site = {.netifs = &n};
    static const struct nic nic[] = {{"a", "10.0.0.1", 24, 1}, {"b", "0.0.0.0", 0, 0}, {"c", "0.0.0.0", 0, 2}};
    static const char *const ip6[] = {"2001:db8:1::1", "2001:db8::1", "2001:db8::2"};
    static const struct {
        const char *name;
        bool v6;
    } expect[] = {{"a", false}, {"b", true}, {"a", true}, {"c", true}};

    (void)state;
    make_netifs(nic, ARRAY_LEN(nic), &n);
    for (unsigned i = 0; i < ARRAY_LEN(ip6); i++) {
        assert_true(emx_ip_parse(&n.nif[i].ip6, ip6[i]));
        n.nif[i].prefix6_bits = 64;
    }
    emx_told_choose(&n, &site);
    assert_int_equal(site.told_count, ARRAY_LEN(expect));
    for (unsigned i = 0; i < ARRAY_LEN(expect); i++) {
        const struct emx_wire_if told = emx_told_ip(&site, i);

        assert_string_equal(site.told[i]->name, expect[i].name);
        assert_int_equal(site.told_v6[i], expect[i].v6);
        assert_int_equal(emx_ip_is_v6(&told.ip), expect[i].v6);
        assert_int_equal(told.prefix_bits, expect[i].v6 ? 64 : 24);
    }
}

static void no_more_than_there_is_room_for(void **state)
{
    static const struct nic nic[] = {{"a", "10.0.0.1", 24, 0}, {"b", "10.0.0.2", 24, 1}, {"c", "10.2.0.1", 24, 2},
                                     {"d", "10.3.0.1", 24, 3}, {"e", "10.4.0.1", 24, 4}, {"f", "10.5.0.1", 24, 5},
                                     {"g", "10.6.0.1", 24, 6}, {"h", "10.7.0.1", 24, 7}};

    (void)state;
    assert_told(nic, ARRAY_LEN(nic), "a c d e f g");
}

/* A host of so many networks, with authentication and the udp wire. */
static bool incomplete(unsigned networks, char *text, size_t text_len_bytes)
{
    static struct emx_netifs n;
    struct emx_way_site site = {.netifs = &n};
    struct emx_address a = {.id = 7, .auth = true, .has_secret = true, .by_ip = 1u << 2};
    struct nic nic[EMX_WIRE_IFS] = {{NULL, NULL, 0, 0}};
    char name[EMX_WIRE_IFS][16], ip[EMX_WIRE_IFS][16];

    for (unsigned i = 0; i < networks; i++) {
        snprintf(name[i], sizeof(name[i]), "eth%u", i);
        snprintf(ip[i], sizeof(ip[i]), "10.%u.0.1", i);
        nic[i] = (struct nic){name[i], ip[i], 24, (int)i};
        a.ifs[i] = (struct emx_wire_if){
            .ip = emx_ip_from_v4(inet_addr(ip[i])), .prefix_bits = 24, .mac = {2}, .frame_bytes = 1500};
    }
    a.if_count = (uint8_t)networks;
    a.min_bytes[2] = 2;
    assert_true(emx_address_add_part(&a, 2, "\1\2", 2));
    make_netifs(nic, networks, &n);
    emx_told_choose(&n, &site);
    return emx_told_incomplete(&a, &site, text, text_len_bytes);
}

static void a_sentence_says_what_has_no_room(void **state)
{
    char text[400] = "";

    (void)state;
    for (unsigned networks = 0; networks <= 4; networks++)
        assert_false(incomplete(networks, text, sizeof(text)));
    assert_string_equal(text, "");
    assert_true(incomplete(6, text, sizeof(text)));
    assert_non_null(strstr(text, "no room for eth4 (10.4.0.1/24), eth5 (10.5.0.1/24): "));
    assert_non_null(strstr(text, "ETHMX_IF"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_preferred_comes_first),
        cmocka_unit_test(each_network_comes_before_the_second_interface_of_one),
        cmocka_unit_test(what_is_not_chosen_is_not_told),
        cmocka_unit_test(each_family_is_told),
        cmocka_unit_test(no_more_than_there_is_room_for),
        cmocka_unit_test(a_sentence_says_what_has_no_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
