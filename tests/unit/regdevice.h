/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A device that is none: it knows what is registered with it, checks how it is called, can have enough, and notes for
 * each registration in which generation its pages were. Tests count a page's generation up when its content is replaced
 * behind the device's back, and so see whether a registration is stale.
 */
#ifndef EMX_TESTS_REGDEVICE_H
#define EMX_TESTS_REGDEVICE_H

#include <stdatomic.h>

#include "ethmx.h"
#include "mem/regcache.h"

#define REGDEVICE_PAGES 64 /* of one registration, that generations are noted of */

struct regdevice_mr {
    uintptr_t base;
    size_t len_bytes;
    unsigned access;
    uint32_t generation[REGDEVICE_PAGES];
};

struct regdevice {
    size_t page_bytes;
    _Atomic uint64_t bytes, most_bytes;
    _Atomic unsigned live, made;
    _Atomic unsigned faults;                         /* of whoever called it */
    uint64_t limit_bytes;                            /* 0: none */
    unsigned allowed_access;                         /* of memory; 0: all */
    uint64_t allowed_to_len;                         /* longest that works; 0: any */
    _Atomic uint32_t *(*generation)(uintptr_t page); /* NULL: not noted */
};

static inline int regdevice_reg(void *arg, void *base, size_t len_bytes, unsigned access, void **mr_p)
{
    struct regdevice *d = arg;
    struct regdevice_mr *mr;
    uint64_t now;

    if ((uintptr_t)base % d->page_bytes || len_bytes % d->page_bytes || !len_bytes || !access)
        atomic_fetch_add(&d->faults, 1);
    if (d->allowed_access && access & ~d->allowed_access)
        return ETHMX_ERR_PARAM;
    if (d->allowed_to_len && len_bytes > d->allowed_to_len)
        return ETHMX_ERR_PARAM;
    now = atomic_fetch_add(&d->bytes, len_bytes) + len_bytes;
    if (d->limit_bytes && now > d->limit_bytes) {
        atomic_fetch_sub(&d->bytes, len_bytes);
        return ETHMX_ERR_NO_MEMORY;
    }
    for (uint64_t most = atomic_load(&d->most_bytes); most < now;)
        if (atomic_compare_exchange_weak(&d->most_bytes, &most, now))
            break;
    mr = malloc(sizeof(*mr));
    if (!mr)
        abort();
    mr->base = (uintptr_t)base;
    mr->len_bytes = len_bytes;
    mr->access = access;
    for (size_t i = 0; d->generation && i < len_bytes / d->page_bytes && i < REGDEVICE_PAGES; i++)
        mr->generation[i] = atomic_load(d->generation(mr->base + i * d->page_bytes));
    atomic_fetch_add(&d->live, 1);
    atomic_fetch_add(&d->made, 1);
    *mr_p = mr;
    return ETHMX_OK;
}

static inline void regdevice_dereg(void *arg, void *p)
{
    struct regdevice *d = arg;
    struct regdevice_mr *mr = p;

    atomic_fetch_sub(&d->bytes, mr->len_bytes);
    atomic_fetch_sub(&d->live, 1);
    free(mr);
}

static inline struct emx_registrar regdevice_registrar(struct regdevice *d)
{
    return (struct emx_registrar){.name = "test", .reg = regdevice_reg, .dereg = regdevice_dereg, .arg = d};
}

/* Whether the region covers the buffer, and the device knows the same of it. */
static inline bool regdevice_covers(const struct emx_region *r, const void *buf, size_t len_bytes, unsigned access)
{
    const struct regdevice_mr *mr = r->mr;

    return r->base <= (uintptr_t)buf && r->base + r->len_bytes >= (uintptr_t)buf + len_bytes &&
           (r->access & access) == access && mr->base == r->base && mr->len_bytes == r->len_bytes &&
           mr->access == r->access;
}

/* Whether the buffer's pages are still those that were registered. The caller owns the buffer. */
static inline bool regdevice_fresh(const struct regdevice *d, const struct emx_region *r, const void *buf,
                                   size_t len_bytes)
{
    const struct regdevice_mr *mr = r->mr;
    uintptr_t end = (uintptr_t)buf + len_bytes;

    for (uintptr_t p = (uintptr_t)buf & ~(d->page_bytes - 1); p < end; p += d->page_bytes) {
        size_t i = (p - mr->base) / d->page_bytes;

        if (i < REGDEVICE_PAGES && mr->generation[i] != atomic_load(d->generation(p)))
            return false;
    }
    return true;
}

#endif
