/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The part of ethmx.h on registered memory.
 */
#include "ethmx.h"

#include "base/log.h"
#include "mem/memwatch.h"
#include "mem/regcache.h"

/* Never called: the cache is only looked at. */
static int no_reg(void *arg, void *base, size_t len_bytes, unsigned access, void **mr_p)
{
    (void)arg, (void)base, (void)len_bytes, (void)access, (void)mr_p;
    return ETHMX_ERR_PARAM;
}

static void no_dereg(void *arg, void *mr)
{
    (void)arg, (void)mr;
}

static int query(const struct ethmx_config *cfg, void (*fn)(void *arg, const struct ethmx_memory_info *), void *arg)
{
    const struct emx_regcache_params params = {.cfg = cfg,
                                               .registrar = {.name = "none", .reg = no_reg, .dereg = no_dereg}};
    struct emx_regcache_info info;
    struct emx_regcache *c;
    char why[512];
    int rc = emx_regcache_open(&c, &params, why, sizeof(why));

    if (rc) {
        emx_error_set("%s", why);
        return rc;
    }
    emx_regcache_query(c, &info);
    fn(arg, &(struct ethmx_memory_info){
                .keeps = info.keeps, .watch = info.watch, .reason = info.reason, .limit_bytes = info.limit_bytes});
    emx_regcache_close(c);
    return ETHMX_OK;
}

int ethmx_memory_query(const struct ethmx_config *cfg, void (*fn)(void *arg, const struct ethmx_memory_info *),
                       void *arg)
{
    struct ethmx_config *own;
    int rc;

    if (cfg)
        return query(cfg, fn, arg);
    rc = ethmx_config_create(&own);
    if (rc)
        return rc;
    rc = query(own, fn, arg);
    ethmx_config_destroy(own);
    return rc;
}

void ethmx_memory_host(const struct ethmx_memory_host *host)
{
    emx_memwatch_host(host);
}

void ethmx_memory_gone(const void *base, size_t len_bytes)
{
    uintptr_t end;

    if (__builtin_add_overflow((uintptr_t)base, len_bytes, &end))
        end = UINTPTR_MAX;
    emx_memwatch_gone((uintptr_t)base, end);
}
