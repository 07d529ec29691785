/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The public face of the parameter and counter tables and of the configuration.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "base/stats.h"
#include "endpoint/ep.h"

#define PARAM_ROW(type, name, deflt, min, max, range, help) {#name, deflt, range, help},
#define COUNTER_ROW(name, unit, level, help)                {#name, unit, help, level},

static const struct ethmx_param_info params[] = {EMX_PARAMS(PARAM_ROW)};
static const struct ethmx_counter_info counters[] = {EMX_COUNTERS(COUNTER_ROW)};

const struct ethmx_param_info *ethmx_param(unsigned i)
{
    return i < EMX_P_COUNT ? &params[i] : NULL;
}

static void param_warn(void *arg, const char *sentence)
{
    (void)arg;
    emx_log(EMX_LOG_WARN, "%s", sentence);
}

int ethmx_config_create(struct ethmx_config **cfg_p)
{
    struct ethmx_config *cfg = malloc(sizeof(*cfg));
    char err[512];
    int rc;

    if (!cfg) {
        emx_error_set("out of memory");
        return ETHMX_ERR_NO_MEMORY;
    }
    emx_config_defaults(cfg);
    rc = emx_config_environ(cfg, environ, param_warn, NULL, err, sizeof(err));
    if (rc) {
        emx_error_set("%s", err);
        free(cfg);
        return rc;
    }
    *cfg_p = cfg;
    return ETHMX_OK;
}

void ethmx_config_destroy(struct ethmx_config *cfg)
{
    free(cfg);
}

int ethmx_config_set(struct ethmx_config *cfg, const char *name, const char *value, const char *source)
{
    int i = emx_config_find(name);
    char err[512];
    int rc;

    if (i < 0) {
        emx_error_set("there is no parameter \"%s\"", name);
        return ETHMX_ERR_PARAM;
    }
    rc = emx_config_parse(cfg, (unsigned)i, value, source, err, sizeof(err));
    if (rc)
        emx_error_set("%s", err);
    return rc;
}

int ethmx_config_get(const struct ethmx_config *cfg, unsigned i, char *text, size_t text_len_bytes,
                     const char **source_p)
{
    if (i >= EMX_P_COUNT) {
        emx_error_set("there is no parameter number %u", i);
        return ETHMX_ERR_PARAM;
    }
    emx_config_format(cfg, i, text, text_len_bytes);
    *source_p = cfg->source[i];
    return ETHMX_OK;
}

const struct ethmx_counter_info *ethmx_counter(unsigned i)
{
    return i < EMX_C_COUNT ? &counters[i] : NULL;
}

/* Counters are written under the lock and read without it: a reader in another thread may not wait for a program that
 * computes inside a callback, and an aligned 64-bit load is whole. */
__attribute__((no_sanitize("thread"))) uint64_t ethmx_counter_read(const struct ethmx_ep *ep, unsigned i)
{
    const volatile uint64_t *value = (const volatile uint64_t *)ep->stats;

    return i < EMX_C_COUNT ? value[i] : 0;
}
