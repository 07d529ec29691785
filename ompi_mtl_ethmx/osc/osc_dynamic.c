/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Dynamic windows. Each memory that is attached is a region. Origins name addresses, so a process also exposes a table
 * of its regions. A table never changes: attach and detach make a new one, and put its key, with the next generation,
 * into the state, atomically. Before each operation the origin reads these 24 bytes, and the table if it is a new one.
 * Programs may tell each other of a change in any way, so nothing less would do.
 */
#include "osc_ethmx.h"

#include <string.h>

void osc_ethmx_withdraw(struct osc_ethmx_module *m, struct ethmx_region *region)
{
    while (NULL != region && ETHMX_ERR_NO_MEMORY == ethmx_rma_withdraw(m->ep, region)) {
        opal_progress();
    }
}

/* ---- Here ------------------------------------------------------------------------------------------------- */

/* Nobody can read the old ranges any more. */
static void dynamic_forget(struct osc_ethmx_module *m, struct osc_ethmx_range *ranges, struct ethmx_region **regions,
                           struct ethmx_region *table_region)
{
    osc_ethmx_withdraw(m, table_region);
    free(ranges);
    free(regions);
}

/* Exposes count ranges, which were allocated, instead of those before. ETHMX_*; after an error the former ones stay. */
static int dynamic_publish(struct osc_ethmx_module *m, struct osc_ethmx_range *ranges, struct ethmx_region **regions,
                           size_t count)
{
    const struct osc_ethmx_target *self = &m->targets[m->rank];
    struct osc_ethmx_table table = {.generation = m->state->table.generation + 1, .count = count};
    struct ethmx_region *table_region;
    int status = ethmx_rma_expose(m->ep, ranges, count * sizeof(*ranges), &table_region, &table.key);
    if (ETHMX_OK != status) {
        return status;
    }
    /* By ethmx, so that no peer reads a half of it. */
    const struct ethmx_rma_target to = {
        .peer = self->peer, .key = self->hello.state_key, .offset = OSC_ETHMX_STATE(table)};
    const struct ethmx_data data = {.base = &table, .len_bytes = sizeof(table)};
    struct osc_ethmx_waiting w = {.over = false};
    status = osc_ethmx_await(&w, ethmx_rma_put(m->ep, &to, &data, ETHMX_RMA_REMOTE, osc_ethmx_over, &w));
    if (ETHMX_OK != status) {
        osc_ethmx_withdraw(m, table_region);
        return status;
    }
    dynamic_forget(m, m->ranges, m->regions, m->table_region);
    m->ranges = ranges;
    m->regions = regions;
    m->table_region = table_region;
    return ETHMX_OK;
}

/* Copies of the ranges and regions, with room for one more. */
static bool dynamic_copy(const struct osc_ethmx_module *m, struct osc_ethmx_range **ranges_p,
                         struct ethmx_region ***regions_p)
{
    size_t count = m->state->table.count;
    *ranges_p = malloc((count + 1) * sizeof(**ranges_p));
    *regions_p = malloc((count + 1) * sizeof(**regions_p));
    if (NULL == *ranges_p || NULL == *regions_p) {
        free(*ranges_p);
        free(*regions_p);
        return false;
    }
    if (count > 0) {
        memcpy(*ranges_p, m->ranges, count * sizeof(**ranges_p));
        memcpy(*regions_p, m->regions, count * sizeof(**regions_p));
    }
    return true;
}

static bool dynamic_overlaps(const struct osc_ethmx_module *m, uint64_t base, uint64_t len_bytes)
{
    for (size_t i = 0; i < m->state->table.count; i++) {
        const struct osc_ethmx_range *r = &m->ranges[i];
        if (base < r->base + r->len_bytes && r->base < base + len_bytes) {
            return true;
        }
    }
    return false;
}

static int dynamic_attach(struct osc_ethmx_module *m, void *base, size_t len_bytes)
{
    size_t count = m->state->table.count;
    struct osc_ethmx_range *ranges;
    struct ethmx_region **regions;
    if (dynamic_overlaps(m, (uintptr_t)base, len_bytes)) {
        return OMPI_ERR_RMA_ATTACH;
    }
    if (!dynamic_copy(m, &ranges, &regions)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    ranges[count] = (struct osc_ethmx_range){.base = (uintptr_t)base, .len_bytes = len_bytes};
    int status = ethmx_rma_expose(m->ep, base, len_bytes, &regions[count], &ranges[count].key);
    if (ETHMX_OK == status) {
        status = dynamic_publish(m, ranges, regions, count + 1);
        if (ETHMX_OK == status) {
            return OMPI_SUCCESS;
        }
        osc_ethmx_withdraw(m, regions[count]);
    }
    free(ranges);
    free(regions);
    return osc_ethmx_error(status);
}

int osc_ethmx_attach(struct ompi_win_t *win, void *base, size_t len_bytes)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    struct osc_ethmx_target *self;
    if (MPI_WIN_FLAVOR_DYNAMIC != m->flavor) {
        return OMPI_ERR_RMA_FLAVOR;
    }
    int rc = osc_ethmx_target(m, m->rank, &self);
    if (OMPI_SUCCESS == rc) {
        OPAL_THREAD_LOCK(&m->lock);
        rc = dynamic_attach(m, base, len_bytes);
        OPAL_THREAD_UNLOCK(&m->lock);
    }
    return rc;
}

static int dynamic_detach(struct osc_ethmx_module *m, uint64_t base)
{
    size_t count = m->state->table.count, i = 0;
    struct osc_ethmx_range *ranges;
    struct ethmx_region **regions;
    while (i < count && m->ranges[i].base != base) {
        i++;
    }
    if (i == count) {
        return OMPI_ERR_RMA_ATTACH;
    }
    if (!dynamic_copy(m, &ranges, &regions)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    struct ethmx_region *region = regions[i];
    ranges[i] = ranges[count - 1];
    regions[i] = regions[count - 1];
    int status = dynamic_publish(m, ranges, regions, count - 1);
    if (ETHMX_OK != status) {
        free(ranges);
        free(regions);
        return osc_ethmx_error(status);
    }
    osc_ethmx_withdraw(m, region);
    return OMPI_SUCCESS;
}

int osc_ethmx_detach(struct ompi_win_t *win, const void *base)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    if (MPI_WIN_FLAVOR_DYNAMIC != m->flavor) {
        return OMPI_ERR_RMA_FLAVOR;
    }
    OPAL_THREAD_LOCK(&m->lock);
    int rc = dynamic_detach(m, (uintptr_t)base);
    OPAL_THREAD_UNLOCK(&m->lock);
    return rc;
}

void osc_ethmx_dynamic_end(struct osc_ethmx_module *m)
{
    size_t count = NULL == m->state ? 0 : m->state->table.count;
    for (size_t i = 0; i < count; i++) {
        osc_ethmx_withdraw(m, m->regions[i]);
    }
    dynamic_forget(m, m->ranges, m->regions, m->table_region);
}

/* ---- There ------------------------------------------------------------------------------------------------ */

/* Reads the table. ETHMX_ERR_ACCESS: there is a newer one already. */
static int dynamic_read(struct osc_ethmx_target *t, const struct osc_ethmx_table *table)
{
    struct osc_ethmx_range *ranges = malloc((table->count + 1) * sizeof(*ranges));
    if (NULL == ranges) {
        return ETHMX_ERR_NO_MEMORY;
    }
    int status =
        table->count ? osc_ethmx_state_read(t, table->key, 0, ranges, table->count * sizeof(*ranges)) : ETHMX_OK;
    if (ETHMX_OK != status) {
        free(ranges);
        return status;
    }
    free(t->ranges);
    t->ranges = ranges;
    t->table = *table;
    return ETHMX_OK;
}

static int dynamic_refresh(struct osc_ethmx_target *t)
{
    struct osc_ethmx_table table;
    int status;
    do {
        status = osc_ethmx_state_read(t, t->hello.state_key, OSC_ETHMX_STATE(table), &table, sizeof(table));
        if (ETHMX_OK == status && table.generation != t->table.generation) {
            status = dynamic_read(t, &table);
        } else if (ETHMX_OK != status) {
            return osc_ethmx_error(status);
        }
    } while (ETHMX_ERR_ACCESS == status);
    return osc_ethmx_error(status);
}

int osc_ethmx_dynamic_refresh(struct osc_ethmx_target *t)
{
    OPAL_THREAD_LOCK(&t->module->lock);
    int rc = dynamic_refresh(t);
    OPAL_THREAD_UNLOCK(&t->module->lock);
    return rc;
}

int osc_ethmx_dynamic_locate(const struct osc_ethmx_target *t, uint64_t address, size_t *len_bytes_p,
                             struct ethmx_rma_target *to)
{
    int rc = OMPI_ERR_RMA_RANGE;
    OPAL_THREAD_LOCK(&t->module->lock);
    for (size_t i = 0; OMPI_SUCCESS != rc && i < t->table.count; i++) {
        const struct osc_ethmx_range *r = &t->ranges[i];
        if (address >= r->base && address - r->base < r->len_bytes) {
            size_t rest_bytes = r->len_bytes - (address - r->base);
            *len_bytes_p = *len_bytes_p < rest_bytes ? *len_bytes_p : rest_bytes;
            *to = (struct ethmx_rma_target){.peer = t->peer, .key = r->key, .offset = address - r->base};
            rc = OMPI_SUCCESS;
        }
    }
    OPAL_THREAD_UNLOCK(&t->module->lock);
    return rc;
}
