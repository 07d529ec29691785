/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <string.h>

#include "base/config.h"

static const char *shown(const struct emx_config *cfg, unsigned i)
{
    static char text[EMX_STRING_MAX + 1];

    emx_config_format(cfg, i, text, sizeof(text));
    return text;
}

/* ---- Defaults ---- */

static void defaults_are_what_the_table_says(void **state)
{
#define DEFAULT(type, name, deflt, min, max, range, help) deflt,
    static const char *const deflt[EMX_P_COUNT] = {EMX_PARAMS(DEFAULT)};
    struct emx_config cfg, zero;
    char err[256];

    (void)state;
    emx_config_defaults(&cfg);
    memset(&zero, 0, sizeof(zero));
    for (unsigned i = 0; i < EMX_P_COUNT; i++) {
        if (emx_config_parse(&zero, i, deflt[i], "table", err, sizeof(err)))
            fail_msg("%s", err);
        assert_string_equal(shown(&cfg, i), deflt[i]);
        assert_string_equal(cfg.source[i], "default");
    }
    assert_int_equal(cfg.p_eager_max, 128 * 1024);
    assert_int_equal(cfg.p_rto_min, 2000000);
    assert_int_equal(cfg.p_ethertype, 0x88b5);
    assert_int_equal(cfg.p_checksum, 1);
    assert_true(cfg.p_qdisc_bypass);
    assert_string_equal(cfg.p_wires, "shm,packet,udp");
}

static void names_are_found(void **state)
{
    (void)state;
    assert_int_equal(emx_config_find("wires"), EMX_P_wires);
    assert_int_equal(emx_config_find("log"), EMX_P_log);
    assert_int_equal(emx_config_find("Log"), -1);
    assert_int_equal(emx_config_find("logs"), -1);
    assert_int_equal(emx_config_find(""), -1);
}

/* ---- Values ---- */

struct value {
    unsigned param;
    const char *text;
    const char *shown;
};

static void good_values_are_read(void **state)
{
    static const struct value good[] = {
        {EMX_P_window, "8", "8"},
        {EMX_P_window, "1024", "1024"},
        {EMX_P_window, "0x10", "16"},
        {EMX_P_window, "0010", "10"},
        {EMX_P_ethertype, "0x88B6", "0x88b6"},
        {EMX_P_ethertype, "2048", "0x800"},
        {EMX_P_eager_max, "0", "0"},
        {EMX_P_eager_max, "1000", "1000"},
        {EMX_P_eager_max, "1m", "1m"},
        {EMX_P_eager_max, "1024K", "1m"},
        {EMX_P_eager_max, "3k", "3k"},
        {EMX_P_unexpected_max, "1t", "1t"},
        {EMX_P_unexpected_max, "2G", "2g"},
        {EMX_P_mtu, "0", "0"},
        {EMX_P_mtu, "576", "576"},
        {EMX_P_mtu, "9000", "9000"},
        {EMX_P_rto_min, "1us", "1us"},
        {EMX_P_rto_min, "1500ns", "1500ns"},
        {EMX_P_rto_min, "1000us", "1ms"},
        {EMX_P_rto_min, "10s", "10s"},
        {EMX_P_rto_min, "7MS", "7ms"},
        {EMX_P_heartbeat, "0", "0"},
        {EMX_P_heartbeat, "0ms", "0"},
        {EMX_P_peer_timeout, "86400s", "86400s"},
        {EMX_P_qdisc_bypass, "no", "no"},
        {EMX_P_qdisc_bypass, "On", "yes"},
        {EMX_P_qdisc_bypass, "FALSE", "no"},
        {EMX_P_qdisc_bypass, "1", "yes"},
        {EMX_P_checksum, "off", "off"},
        {EMX_P_checksum, "Full", "full"},
        {EMX_P_tos, "0", "0"},
        {EMX_P_tos, "cs0", "0"},
        {EMX_P_tos, "32", "cs1"},
        {EMX_P_tos, "CS1", "cs1"},
        {EMX_P_tos, "AF21", "af21"},
        {EMX_P_tos, "0x48", "af21"},
        {EMX_P_tos, "af43", "af43"},
        {EMX_P_tos, "0xb8", "ef"},
        {EMX_P_tos, "4", "le"},
        {EMX_P_tos, "8", "8"},
        {EMX_P_tos, "252", "252"},
        {EMX_P_so_priority, "0", "0"},
        {EMX_P_so_priority, "15", "15"},
        {EMX_P_log, "trace", "trace"},
        {EMX_P_if, "", ""},
        {EMX_P_if, "eth2,10.1.0.0/16", "eth2,10.1.0.0/16"},
    };
    struct emx_config cfg;
    char err[256];

    (void)state;
    emx_config_defaults(&cfg);
    for (unsigned i = 0; i < ARRAY_LEN(good); i++) {
        if (emx_config_parse(&cfg, good[i].param, good[i].text, "test", err, sizeof(err)))
            fail_msg("%s", err);
        assert_string_equal(shown(&cfg, good[i].param), good[i].shown);
        assert_string_equal(cfg.source[good[i].param], "test");
    }
}

static void bad_values_are_refused_and_named(void **state)
{
    static const char too_long[EMX_STRING_MAX + 1] = {[0 ... EMX_STRING_MAX - 1] = 'x'};
    static const struct value bad[] = {
        {EMX_P_window, "", "not a number"},
        {EMX_P_window, " 8", "not a number"},
        {EMX_P_window, "-8", "not a number"},
        {EMX_P_window, "+8", "not a number"},
        {EMX_P_window, "eight", "not a number"},
        {EMX_P_window, "0x", "after the number"},
        {EMX_P_window, "0xg", "after the number"},
        {EMX_P_window, "8 ", "after the number"},
        {EMX_P_window, "8k", "after the number"},
        {EMX_P_window, "7", "too small"},
        {EMX_P_window, "1025", "too large"},
        {EMX_P_window, "18446744073709551616", "too large"},
        {EMX_P_window, "0x10000000000000008", "too large"},
        {EMX_P_ethertype, "0x5ff", "too small"},
        {EMX_P_eager_max, "k", "not a number"},
        {EMX_P_eager_max, "1.5k", "unit"},
        {EMX_P_eager_max, "1kb", "unit"},
        {EMX_P_eager_max, "1025k", "too large"},
        {EMX_P_unexpected_max, "16777217t", "too large"},
        {EMX_P_mtu, "575", "too small"},
        {EMX_P_mtu, "64k", "too large"},
        {EMX_P_rto_min, "5", "unit"},
        {EMX_P_rto_min, "5min", "unit"},
        {EMX_P_rto_min, "999ns", "too small"},
        {EMX_P_rto_min, "11s", "too large"},
        {EMX_P_peer_timeout, "18446744073709551615s", "too large"},
        {EMX_P_qdisc_bypass, "", "neither"},
        {EMX_P_qdisc_bypass, "2", "neither"},
        {EMX_P_qdisc_bypass, "yesno", "neither"},
        {EMX_P_checksum, "", "none of its words"},
        {EMX_P_checksum, "head", "none of its words"},
        {EMX_P_checksum, "headers", "none of its words"},
        {EMX_P_checksum, "off|full", "none of its words"},
        {EMX_P_checksum, "1", "none of its words"},
        {EMX_P_tos, "", "neither a number nor the name"},
        {EMX_P_tos, "af", "neither a number nor the name"},
        {EMX_P_tos, "af14", "neither a number nor the name"},
        {EMX_P_tos, "cs8", "neither a number nor the name"},
        {EMX_P_tos, "efx", "neither a number nor the name"},
        {EMX_P_tos, "-4", "neither a number nor the name"},
        {EMX_P_tos, "46", "those of ECN"},
        {EMX_P_tos, "255", "those of ECN"},
        {EMX_P_tos, "256", "too large"},
        {EMX_P_tos, "257", "too large"},
        {EMX_P_tos, "8k", "after the number"},
        {EMX_P_so_priority, "16", "too large"},
        {EMX_P_so_priority, "high", "not a number"},
        {EMX_P_if, too_long, "too long"},
        {EMX_P_if, "eth\n0", "control characters"},
    };
    struct emx_config cfg, before;
    char err[256];

    (void)state;
    emx_config_defaults(&cfg);
    before = cfg;
    for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
        err[0] = 0;
        if (emx_config_parse(&cfg, bad[i].param, bad[i].text, "test", err, sizeof(err)) != ETHMX_ERR_PARAM)
            fail_msg("\"%s\" was taken", bad[i].text);
        if (!strstr(err, bad[i].shown) || !strstr(err, "test") || !strstr(err, "it takes"))
            fail_msg("\"%s\" lacks \"%s\"", err, bad[i].shown);
        assert_memory_equal(&cfg, &before, sizeof(cfg));
    }
    assert_int_equal(emx_config_parse(&cfg, EMX_P_COUNT, "1", "test", err, sizeof(err)), ETHMX_ERR_PARAM);
}

/* Each DSCP that RFCs name: csX is X times 8, afXY is X times 8 and Y times 2. */
static void the_names_of_dscps_are_their_numbers(void **state)
{
    struct emx_config cfg;
    char name[8], err[256];

    (void)state;
    emx_config_defaults(&cfg);
    for (unsigned class = 0; class < 8; class ++)
        for (unsigned drop = 0; drop < 4; drop++) {
            if (drop && (class < 1 || class > 4))
                continue;
            snprintf(name, sizeof(name), "%s%u", drop ? "af" : "cs", drop ? 10 * class + drop : class);
            assert_int_equal(emx_config_parse(&cfg, EMX_P_tos, name, "test", err, sizeof(err)), ETHMX_OK);
            assert_int_equal(cfg.p_tos, (class * 8 + drop * 2) * 4);
        }
    assert_int_equal(emx_config_parse(&cfg, EMX_P_tos, "va", "test", err, sizeof(err)), ETHMX_OK);
    assert_int_equal(cfg.p_tos, 44 * 4);
    assert_int_equal(emx_config_parse(&cfg, EMX_P_tos, "ef", "test", err, sizeof(err)), ETHMX_OK);
    assert_int_equal(cfg.p_tos, 46 * 4);
    assert_int_equal(emx_config_parse(&cfg, EMX_P_tos, "le", "test", err, sizeof(err)), ETHMX_OK);
    assert_int_equal(cfg.p_tos, 4);
}

static void the_longest_string_fits(void **state)
{
    static const char longest[EMX_STRING_MAX] = {[0 ... EMX_STRING_MAX - 2] = 'x'};
    struct emx_config cfg;
    char err[256];

    (void)state;
    emx_config_defaults(&cfg);
    assert_int_equal(emx_config_parse(&cfg, EMX_P_if, longest, "test", err, sizeof(err)), ETHMX_OK);
    assert_string_equal(cfg.p_if, longest);
}

static void a_short_buffer_is_not_overrun(void **state)
{
    struct emx_config cfg;
    char text[8];

    (void)state;
    emx_config_defaults(&cfg);
    memset(text, 'z', sizeof(text));
    assert_int_equal(emx_config_parse(&cfg, EMX_P_window, "x", "test", text, 6), ETHMX_ERR_PARAM);
    assert_int_equal(text[5], 0);
    assert_int_equal(text[6], 'z');
    emx_config_format(&cfg, EMX_P_wires, text, 6);
    assert_string_equal(text, "shm,p");
    assert_int_equal(text[6], 'z');
}

/* What is written can be read back to the same value. */
static bool write_and_read(uint64_t seed)
{
#define TYPE(type, name, deflt, min, max, range, help) {EMX_PARAM_##type, min, max},
    static const struct {
        enum emx_param_type type;
        uint64_t min, max;
    } rows[EMX_P_COUNT] = {EMX_PARAMS(TYPE)};
    struct emx_rng rng = {seed};
    struct emx_config a, b;
    char text[EMX_STRING_MAX + 32], err[256], again[EMX_STRING_MAX];

    emx_config_defaults(&a);
    b = a;
    for (unsigned i = 0; i < EMX_P_COUNT; i++) {
        static const char *const units[] = {"", "k", "m", "g"}, *const times[] = {"ns", "us", "ms", "s"};
        unsigned u = (unsigned)emx_rng_below(&rng, 4);
        uint64_t n = emx_rng_next(&rng) >> emx_rng_below(&rng, 64);

        if (rows[i].type == EMX_PARAM_UINT || rows[i].type == EMX_PARAM_TOS)
            snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
        else if (rows[i].type == EMX_PARAM_SIZE)
            snprintf(text, sizeof(text), "%llu%s", (unsigned long long)n, units[u]);
        else if (rows[i].type == EMX_PARAM_TIME)
            snprintf(text, sizeof(text), "%llu%s", (unsigned long long)n, times[u]);
        else
            continue;
        if (emx_config_parse(&a, i, text, "test", err, sizeof(err)))
            continue;
        emx_config_format(&a, i, text, sizeof(text));
        CHECK(!emx_config_parse(&b, i, text, "test", err, sizeof(err)));
        emx_config_format(&b, i, again, sizeof(again));
        CHECK(!strcmp(text, again));
    }
    CHECK(!memcmp(&a, &b, sizeof(a)));
    return true;
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    each_seed(2000, write_and_read);
}

/* ---- Environment ---- */

struct warnings {
    unsigned count;
    char last[256];
};

static void note(void *arg, const char *sentence)
{
    struct warnings *w = arg;

    w->count++;
    snprintf(w->last, sizeof(w->last), "%s", sentence);
}

static void the_environment_is_read(void **state)
{
    char *env[] = {"PATH=/bin",       "ETHMX_WINDOW=16", "ETHMX_IF=eth0",       "ETHMX", "XETHMX_WINDOW=99",
                   "ETHMX_WIRES=a=b", "EMX_SEED=7",      "ETHMX_CHECKSUM=full", NULL};
    struct warnings w = {0};
    struct emx_config cfg;
    char err[256] = "";

    (void)state;
    emx_config_defaults(&cfg);
    assert_int_equal(emx_config_environ(&cfg, env, note, &w, err, sizeof(err)), ETHMX_OK);
    assert_int_equal(w.count, 0);
    assert_int_equal(cfg.p_window, 16);
    assert_int_equal(cfg.p_checksum, 2);
    assert_string_equal(cfg.p_if, "eth0");
    assert_string_equal(cfg.p_wires, "a=b");
    assert_string_equal(cfg.source[EMX_P_window], "environment");
    assert_string_equal(cfg.source[EMX_P_mtu], "default");
}

static void unknown_names_are_told_with_the_nearest(void **state)
{
    static const struct {
        char *entry;
        const char *name, *nearest;
    } unknown[] = {
        {"ETHMX_WINDOWS=1", "ETHMX_WINDOWS ", "ETHMX_WINDOW"},
        {"ETHMX_EAGERMAX=1", "ETHMX_EAGERMAX ", "ETHMX_EAGER_MAX"},
        {"ETHMX_WIRE=udp", "ETHMX_WIRE ", "ETHMX_WIRES"},
        {"ETHMX_PEER_TIMOUT=1s", "ETHMX_PEER_TIMOUT ", "ETHMX_PEER_TIMEOUT"},
        {"ETHMX_window=1", "ETHMX_window ", "ETHMX_WINDOW"},
        {"ETHMX_BULK_RING=1", "ETHMX_BULK_RING ", "ETHMX_GSO_BUFFER"}, /* it was renamed */
        {"ETHMX_=1", "ETHMX_ ", "ETHMX_"},
        {"ETHMX_IFACE", "ETHMX_IFACE ", "ETHMX_"},
    };
    char longest[400];
    char *env[] = {longest, NULL};
    struct warnings w = {0};
    struct emx_config cfg, before;
    char err[256] = "";

    (void)state;
    emx_config_defaults(&cfg);
    before = cfg;
    for (unsigned i = 0; i < ARRAY_LEN(unknown); i++) {
        char *one[] = {unknown[i].entry, NULL};

        w.count = 0;
        assert_int_equal(emx_config_environ(&cfg, one, note, &w, err, sizeof(err)), ETHMX_OK);
        assert_int_equal(w.count, 1);
        assert_int_equal(strncmp(w.last, unknown[i].name, strlen(unknown[i].name)), 0);
        assert_non_null(strstr(w.last + strlen(unknown[i].name), unknown[i].nearest));
    }
    memset(longest, 'Q', sizeof(longest));
    memcpy(longest, "ETHMX_", 6);
    longest[sizeof(longest) - 1] = 0;
    w.count = 0;
    assert_int_equal(emx_config_environ(&cfg, env, note, &w, err, sizeof(err)), ETHMX_OK);
    assert_int_equal(w.count, 1);
    assert_non_null(strstr(w.last, "the nearest is ETHMX_"));
    assert_memory_equal(&cfg, &before, sizeof(cfg));
}

static void the_first_malformed_value_stops_it(void **state)
{
    char *env[] = {"ETHMX_MTU=9000", "ETHMX_RTO_MIN=soon", "ETHMX_WINDOW=0", NULL};
    struct warnings w = {0};
    struct emx_config cfg;
    char err[256] = "";

    (void)state;
    emx_config_defaults(&cfg);
    assert_int_equal(emx_config_environ(&cfg, env, note, &w, err, sizeof(err)), ETHMX_ERR_PARAM);
    assert_non_null(strstr(err, "ETHMX_RTO_MIN"));
    assert_non_null(strstr(err, "\"soon\""));
    assert_non_null(strstr(err, "1us to 10s"));
    assert_int_equal(cfg.p_rto_min, 2000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_what_the_table_says),
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(good_values_are_read),
        cmocka_unit_test(bad_values_are_refused_and_named),
        cmocka_unit_test(the_names_of_dscps_are_their_numbers),
        cmocka_unit_test(the_longest_string_fits),
        cmocka_unit_test(a_short_buffer_is_not_overrun),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(the_environment_is_read),
        cmocka_unit_test(unknown_names_are_told_with_the_nearest),
        cmocka_unit_test(the_first_malformed_value_stops_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
