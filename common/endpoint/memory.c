/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The part of ethmx.h on registered memory.
 */
#include <string.h>

#include "ethmx.h"

#include "base/log.h"
#include "endpoint/sized.h"
#include "mem/measure.h"
#include "mem/memwatch.h"
#include "mem/regcache.h"
#include "mem/fake_registrar.h"
#include "wire/verbs/verbs.h"

/* Never called: the cache is only looked at. */
static int memory_no_reg(void *arg, void *base, size_t len_bytes, unsigned access, void **mr_p)
{
    (void)arg, (void)base, (void)len_bytes, (void)access, (void)mr_p;
    return ETHMX_ERR_PARAM;
}

static void memory_no_dereg(void *arg, void *mr)
{
    (void)arg, (void)mr;
}

static int memory_query(const struct ethmx_config *cfg, void (*fn)(void *arg, const struct ethmx_memory_info *),
                        void *arg)
{
    const struct emx_regcache_params params = {
        .cfg = cfg, .registrar = {.name = "none", .reg = memory_no_reg, .dereg = memory_no_dereg}};
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
        return memory_query(cfg, fn, arg);
    rc = ethmx_config_create(&own);
    if (rc)
        return rc;
    rc = memory_query(own, fn, arg);
    ethmx_config_destroy(own);
    return rc;
}

/* ---- Measuring ---- */

#define VERBS "verbs"

/* An RDMA device ("verbs", or "verbs:" and its name), or a fake registrar. NULL: the first that works. */
static int memory_open_registrar(const char *name, struct emx_registrar *r_p, bool *device_p, char *why,
                                 size_t why_len_bytes)
{
    size_t n = strlen(VERBS);

    *device_p = true;
    if (!name && !emx_verbs_registrar_open(NULL, r_p, why, why_len_bytes))
        return ETHMX_OK;
    if (name && !strncmp(name, VERBS, n) && (!name[n] || name[n] == ':'))
        return emx_verbs_registrar_open(name[n] ? name + n + 1 : NULL, r_p, why, why_len_bytes);
    *device_p = false;
    return emx_fake_registrar_open(name, r_p, why, why_len_bytes);
}

static int memory_measure(const struct emx_registrar *r, const char *text, const struct ethmx_memory_case *c,
                          struct ethmx_memory_cost *cost_p)
{
    const struct emx_measure_case mc = {.len_bytes = c->len_bytes,
                                        .threads = c->threads,
                                        .rounds = c->rounds,
                                        .resident = c->resident,
                                        .huge = c->huge};
    struct emx_measure m;
    int rc = emx_measure(r, &mc, &m);

    if (rc == ETHMX_ERR_NO_MEMORY)
        emx_error_set("%zu bytes in %u threads cannot be registered (%s): raise RLIMIT_MEMLOCK (ulimit -l unlimited)",
                      c->len_bytes, c->threads, r->name);
    else if (rc)
        emx_error_set("%zu bytes in %u threads cannot be measured (%s)%s", c->len_bytes, c->threads, r->name,
                      c->huge ? ": there are no transparent huge pages here" : "");
    else
        *cost_p = (struct ethmx_memory_cost){.struct_bytes = cost_p->struct_bytes,
                                             .registrar = r->name,
                                             .text = text,
                                             .register_ns = m.reg_ns,
                                             .fault_register_ns = m.fault_reg_ns,
                                             .deregister_ns = m.dereg_ns,
                                             .copy_ns = m.copy_ns};
    return rc;
}

/* As ethmx_memory_measure(), with structures of the library's own size. */
static int memory_measure_by_name(const struct ethmx_memory_case *c, struct ethmx_memory_cost *cost_p)
{
    struct emx_registrar r;
    char why[256];
    bool device;
    int rc = memory_open_registrar(c->registrar, &r, &device, why, sizeof(why));

    if (rc) {
        emx_error_set("%s", why);
        return rc;
    }
    rc = memory_measure(&r, device ? "an RDMA device" : emx_fake_registrar_text(&r), c, cost_p);
    if (device)
        emx_verbs_registrar_close(&r);
    else
        emx_fake_registrar_close(&r);
    return rc;
}

int ethmx_memory_measure(const struct ethmx_memory_case *c, struct ethmx_memory_cost *cost_p)
{
    struct ethmx_memory_case own;
    struct ethmx_memory_cost cost = {.struct_bytes = cost_p->struct_bytes};
    int rc = emx_sized_in(&own, sizeof(own), emx_sized_end(struct ethmx_memory_case, huge), c, c->struct_bytes,
                          "ethmx_memory_case");

    if (!rc)
        rc = emx_sized_check(cost.struct_bytes, emx_sized_end(struct ethmx_memory_cost, copy_ns), "ethmx_memory_cost");
    if (!rc)
        rc = memory_measure_by_name(&own, &cost);
    if (!rc)
        emx_sized_out(cost_p, cost.struct_bytes, &cost, sizeof(cost));
    return rc;
}

/* ---- The host's part ---- */

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
