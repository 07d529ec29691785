/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <string.h>

#include "base/config.h"
#include "base/stats.h"
#include "ethmx.h"

static void tables_end(void **state)
{
    unsigned n = 0;

    (void)state;
    while (ethmx_param(n)) {
        assert_true(*ethmx_param(n)->name && *ethmx_param(n)->range && *ethmx_param(n)->help);
        n++;
    }
    assert_int_equal(n, EMX_P_COUNT);
    assert_string_equal(ethmx_param(EMX_P_eager_max)->name, "eager_max");
    assert_string_equal(ethmx_param(EMX_P_eager_max)->deflt, "128k");
    for (n = 0; ethmx_counter(n); n++)
        assert_true(*ethmx_counter(n)->name && *ethmx_counter(n)->unit && *ethmx_counter(n)->help);
    assert_int_equal(n, EMX_C_COUNT);
    assert_true(ethmx_counter(EMX_C_posted_now)->level);
    assert_false(ethmx_counter(EMX_C_msgs_sent)->level);
    assert_null(ethmx_param(UINT32_MAX));
    assert_null(ethmx_counter(UINT32_MAX));
}

static void check_value(const struct ethmx_config *cfg, const char *name, const char *value, const char *source)
{
    const char *said_by;
    char text[EMX_STRING_MAX];

    assert_int_equal(ethmx_config_get(cfg, (unsigned)emx_config_find(name), text, sizeof(text), &said_by), ETHMX_OK);
    assert_string_equal(text, value);
    assert_string_equal(said_by, source);
}

static void environment_is_read(void **state)
{
    struct ethmx_config *cfg;

    (void)state;
    setenv("ETHMX_WINDOW", "64", 1);
    assert_int_equal(ethmx_config_create(&cfg), ETHMX_OK);
    check_value(cfg, "window", "64", "environment");
    check_value(cfg, "eager_max", "128k", "default");
    ethmx_config_destroy(cfg);
    unsetenv("ETHMX_WINDOW");
}

static void bad_environment_is_named(void **state)
{
    struct ethmx_config *cfg = NULL;

    (void)state;
    setenv("ETHMX_WINDOW", "many", 1);
    assert_int_equal(ethmx_config_create(&cfg), ETHMX_ERR_PARAM);
    assert_null(cfg);
    assert_non_null(strstr(ethmx_error_text(), "ETHMX_WINDOW"));
    assert_non_null(strstr(ethmx_error_text(), "many"));
    unsetenv("ETHMX_WINDOW");
}

static void values_are_set(void **state)
{
    struct ethmx_config *cfg;

    (void)state;
    assert_int_equal(ethmx_config_create(&cfg), ETHMX_OK);
    assert_int_equal(ethmx_config_set(cfg, "eager_max", "8k", "MCA"), ETHMX_OK);
    check_value(cfg, "eager_max", "8k", "MCA");
    assert_int_equal(ethmx_config_set(cfg, "eager_max", "2g", "MCA"), ETHMX_ERR_PARAM);
    check_value(cfg, "eager_max", "8k", "MCA");
    assert_int_equal(ethmx_config_set(cfg, "eager", "8k", "MCA"), ETHMX_ERR_PARAM);
    assert_non_null(strstr(ethmx_error_text(), "\"eager\""));
    ethmx_config_destroy(cfg);
}

static void get_refuses_unknown(void **state)
{
    struct ethmx_config *cfg;
    const char *source;
    char text[8];

    (void)state;
    assert_int_equal(ethmx_config_create(&cfg), ETHMX_OK);
    assert_int_equal(ethmx_config_get(cfg, EMX_P_COUNT, text, sizeof(text), &source), ETHMX_ERR_PARAM);
    ethmx_config_destroy(cfg);
}

static void every_status_has_a_text(void **state)
{
    (void)state;
    for (int status = ETHMX_ERR_ACCESS; status <= ETHMX_INPROGRESS; status++) {
        assert_string_not_equal(ethmx_strerror(status), "unknown status");
        for (int other = ETHMX_ERR_ACCESS; other < status; other++)
            assert_string_not_equal(ethmx_strerror(status), ethmx_strerror(other));
    }
    assert_string_equal(ethmx_strerror(ETHMX_ERR_ACCESS - 1), "unknown status");
    assert_string_equal(ethmx_strerror(2), "unknown status");
    assert_string_equal(ethmx_strerror(INT32_MIN), "unknown status");
    assert_true(*ethmx_version());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_end),
        cmocka_unit_test(environment_is_read),
        cmocka_unit_test(bad_environment_is_named),
        cmocka_unit_test(values_are_set),
        cmocka_unit_test(get_refuses_unknown),
        cmocka_unit_test(every_status_has_a_text),
    };

    return cmocka_run_group_tests_name("param", tests, NULL, NULL);
}
