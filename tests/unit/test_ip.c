/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "base/ip.h"

static struct emx_ip ip_of(const char *text)
{
    struct emx_ip ip;

    assert_true(emx_ip_parse(&ip, text));
    return ip;
}

static void both_families_are_read_and_written(void **state)
{
    static const char *const texts[] = {"10.1.0.3", "255.255.255.255", "2001:db8::3", "fe80::1", "::1"};
    static const char *const wrong[] = {"", "10.1.0", "10.1.0.3/16", "2001:db8", "fe80::1%eth0", "eth0", ":::"};
    char text[EMX_IP_TEXT];
    struct emx_ip ip;

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(texts); i++) {
        ip = ip_of(texts[i]);
        assert_string_equal(emx_ip_text(&ip, text), texts[i]);
    }
    for (unsigned i = 0; i < ARRAY_LEN(wrong); i++)
        assert_false(emx_ip_parse(&ip, wrong[i]));
}

static void families_are_told_apart(void **state)
{
    const struct emx_ip v4 = ip_of("10.1.0.3"), v6 = ip_of("2001:db8::3"), none = emx_ip_from_v4(0);
    const struct emx_ip mapped = ip_of("::ffff:10.1.0.3");

    (void)state;
    assert_true(emx_ip_is_v4(&v4) && !emx_ip_is_v6(&v4) && !emx_ip_is_none(&v4));
    assert_true(emx_ip_is_v6(&v6) && !emx_ip_is_v4(&v6) && !emx_ip_is_none(&v6));
    assert_true(emx_ip_is_none(&none) && !emx_ip_is_v4(&none) && !emx_ip_is_v6(&none));
    assert_true(emx_ip_equal(&v4, &mapped));
    assert_memory_equal(&(uint32_t){emx_ip_v4(&v4)}, ((const uint8_t[]){10, 1, 0, 3}), 4);
    assert_int_equal(emx_ip_v4(&v6), 0);
    assert_int_equal(emx_ip_v4(&none), 0);
}

static void networks_are_compared_by_their_prefix(void **state)
{
    static const struct {
        const char *a, *b;
        unsigned bits;
        bool same;
    } cases[] = {
        {"10.1.0.3", "10.1.255.9", 16, true},
        {"10.1.0.3", "10.1.255.9", 17, false},
        {"10.1.0.3", "11.1.0.3", 7, true},
        {"10.1.0.3", "11.1.0.3", 8, false},
        {"10.1.0.3", "200.1.0.3", 0, true},
        {"10.1.0.3", "10.1.0.3", 32, true},
        {"10.1.0.3", "10.1.0.2", 32, false},
        {"10.1.0.3", "10.1.0.3", 40, true},
        {"10.1.0.3", "10.1.0.2", 128, false},
        {"2001:db8::3", "2001:db8::ffff:1", 64, true},
        {"2001:db8::3", "2001:db8:0:1::3", 64, false},
        {"2001:db8::3", "2001:db8:0:1::3", 63, true},
        {"2001:db8::3", "2001:db8::2", 128, false},
        {"2001:db8::3", "2001:db8::2", 127, true},
        {"2001:db8::3", "fe80::1", 0, true},
        {"2001:db8::3", "10.1.0.3", 0, false},
        {"10.1.0.3", "2001:db8::3", 0, false},
        {"2001:db8::3", "2001:db8::3", 200, true},
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        const struct emx_ip a = ip_of(cases[i].a), b = ip_of(cases[i].b);

        assert_int_equal(emx_ip_same_network(&a, &b, cases[i].bits), cases[i].same);
    }
}

static void special_addresses_are_known(void **state)
{
    static const struct {
        const char *ip;
        bool link_local, loopback;
    } cases[] = {
        {"fe80::1", true, false}, {"febf::1", true, false},      {"fec0::1", false, false},
        {"::1", false, true},     {"127.3.2.1", false, true},    {"128.0.0.1", false, false},
        {"::2", false, false},    {"169.254.0.1", false, false},
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        const struct emx_ip ip = ip_of(cases[i].ip);

        assert_int_equal(emx_ip_is_link_local6(&ip), cases[i].link_local);
        assert_int_equal(emx_ip_is_loopback(&ip), cases[i].loopback);
    }
}

/* The example of RFC 4291, appendix A. */
static void interface_identifiers_come_from_macs(void **state)
{
    static const uint8_t mac[6] = {0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde};
    const struct emx_ip want = ip_of("2001:db8::3656:78ff:fe9a:bcde"), other = ip_of("2001:db8::3456:78ff:fe9a:bcde");
    struct emx_ip ip = ip_of("2001:db8::1");

    (void)state;
    assert_false(emx_ip_is_eui64(&ip, mac));
    assert_false(emx_ip_is_eui64(&other, mac));
    emx_ip_put_eui64(&ip, mac);
    assert_true(emx_ip_equal(&ip, &want));
    assert_true(emx_ip_is_eui64(&ip, mac));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_families_are_read_and_written),    cmocka_unit_test(families_are_told_apart),
        cmocka_unit_test(networks_are_compared_by_their_prefix), cmocka_unit_test(special_addresses_are_known),
        cmocka_unit_test(interface_identifiers_come_from_macs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
