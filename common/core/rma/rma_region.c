/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Regions: a hash of chains by key. The low bits of keys, which are random or counted, are the hash.
 */
#include "core/engine_impl.h"
#include "core/rma/rma_record.h"
#include "core/rma/rma_region.h"

#define BUCKETS 16 /* at first; doubled when there are as many regions */

static struct emx_list *rma_region_bucket(const struct emx_rma_engine *all, uint64_t key)
{
    return &all->bucket[key & all->bucket_mask];
}

static struct emx_rma_region *rma_region_find(const struct emx_engine *e, uint64_t key)
{
    if (!key || !e->rma || !e->rma->bucket)
        return NULL;
    emx_list_each(l, rma_region_bucket(e->rma, key))
    {
        struct emx_rma_region *region = emx_list_entry(l, struct emx_rma_region, link);

        if (region->key == key)
            return region;
    }
    return NULL;
}

uint8_t *emx_rma_memory(const struct emx_engine *e, uint64_t key, uint64_t offset, uint64_t len_bytes, unsigned access,
                        struct emx_rma_region **region_p)
{
    struct emx_rma_region *region = rma_region_find(e, key);

    if (!region || access & ~region->access || offset > region->len_bytes || len_bytes > region->len_bytes - offset)
        return NULL;
    if (region_p)
        *region_p = region;
    return region->base + offset;
}

static void rma_region_rehash(struct emx_rma_engine *all, struct emx_list *old, unsigned count)
{
    struct emx_list *l;

    for (unsigned i = 0; i < count; i++)
        while ((l = emx_list_pop(&old[i])))
            emx_list_append(rma_region_bucket(all, emx_list_entry(l, struct emx_rma_region, link)->key), l);
}

/* Makes room for one more. false: no memory; more than one in a bucket does no harm, none at all does. */
static bool rma_region_grow(struct emx_engine *e, struct emx_rma_engine *all)
{
    unsigned before = all->bucket ? all->bucket_mask + 1 : 0, count = before ? 2 * before : BUCKETS;
    struct emx_list *old = all->bucket, *bucket;

    if (all->region_count < before)
        return true;
    bucket = emx_alloc_get(&e->alloc, count * sizeof(*bucket));
    if (!bucket)
        return before;
    for (unsigned i = 0; i < count; i++)
        emx_list_init(&bucket[i]);
    all->bucket = bucket;
    all->bucket_mask = count - 1;
    rma_region_rehash(all, old, before);
    emx_alloc_put(&e->alloc, old);
    return true;
}

/* Of a region that overlaps this memory, if others may map it; or NULL. */
static struct emx_sharing *rma_region_sharing(const struct emx_rma_engine *all, const uint8_t *base, uint64_t len_bytes)
{
    for (unsigned i = 0; all->shared_count && i <= all->bucket_mask; i++) {
        emx_list_each(l, &all->bucket[i])
        {
            const struct emx_rma_region *r = emx_list_entry(l, struct emx_rma_region, link);

            if (r->sharing && base < r->base + r->len_bytes && r->base < base + len_bytes)
                return r->sharing;
        }
    }
    return NULL;
}

void emx_engine_region_share(struct emx_engine *e, struct emx_rma_region *region, struct emx_sharing *sharing)
{
    region->sharing = sharing;
    e->rma->shared_count += sharing != NULL;
}

int emx_engine_expose(struct emx_engine *e, void *base, size_t len_bytes, uint64_t key, unsigned access,
                      struct emx_rma_region **region_p)
{
    struct emx_rma_engine *all = emx_rma_engine(e);
    struct emx_rma_region *region;

    if (e->closing)
        return ETHMX_ERR_CLOSED;
    if (!key || rma_region_find(e, key))
        return ETHMX_ERR_PARAM;
    if (!all || !rma_region_grow(e, all) || !(region = emx_alloc_get(&e->alloc, sizeof(*region))))
        return ETHMX_ERR_NO_MEMORY;
    *region = (struct emx_rma_region){
        .key = key, .base = len_bytes ? base : (void *)region, .len_bytes = len_bytes, .access = access};
    emx_list_init(&region->served);
    emx_list_append(rma_region_bucket(all, key), &region->link);
    if (len_bytes)
        emx_engine_region_share(e, region, rma_region_sharing(all, base, len_bytes));
    all->region_count++;
    e->stats->rma_regions++;
    *region_p = region;
    return ETHMX_OK;
}

void emx_rma_region_hide(struct emx_rma_region *region)
{
    region->key = 0;
}

void emx_rma_region_free(struct emx_engine *e, struct emx_rma_region *region)
{
    emx_list_del(&region->link);
    e->rma->region_count--;
    e->rma->shared_count -= region->sharing != NULL;
    e->stats->rma_regions--;
    emx_alloc_put(&e->alloc, region);
}

void emx_rma_regions_fini(struct emx_engine *e)
{
    struct emx_list *l;

    for (unsigned i = 0; e->rma->bucket && i <= e->rma->bucket_mask; i++)
        while ((l = emx_list_first(&e->rma->bucket[i])))
            emx_rma_region_free(e, emx_list_entry(l, struct emx_rma_region, link));
    emx_alloc_put(&e->alloc, e->rma->bucket);
}
