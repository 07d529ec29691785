/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Dynamic windows. Each memory that a process attaches is a region. Origins name addresses, so the process also exposes
 * a table of its ranges. A table never changes: attach and detach make a new one, and put its key, with the next
 * generation, into the state of the window, atomically. Before each operation the origin reads that, and the table if
 * it is a new one: a program may tell another one of a change in any way, so nothing less would do.
 */
#include "mpidimpl.h"

#include "ethmx_window.h"

static struct ethmx_rma_target dynamic_state(const struct MPIDI_ETHMX_target *t)
{
    return (struct ethmx_rma_target){
        .peer = t->peer, .key = t->state_key, .offset = offsetof(struct MPIDI_ETHMX_state, table)};
}

static int dynamic_read(const struct ethmx_rma_target *from, void *to, size_t len_bytes)
{
    const struct ethmx_data data = {.base = to, .len_bytes = len_bytes};
    struct MPIDI_ETHMX_wait w;
    int mpi_errno = MPI_SUCCESS;

    MPIDI_ETHMX_wait_started(&w,
                             MPIDI_ETHMX_lib.rma_get(MPIDI_ETHMX_global.ep, from, &data, MPIDI_ETHMX_wait_over, &w));
    return MPIDI_ETHMX_wait_end(&w, &mpi_errno);
}

/* ---- Here ---- */

static void dynamic_withdraw(struct ethmx_region *region)
{
    int mpi_errno = MPI_SUCCESS;

    while (region && MPIDI_ETHMX_lib.rma_withdraw(MPIDI_ETHMX_global.ep, region) == ETHMX_ERR_NO_MEMORY)
        MPIDI_ETHMX_sync_progress(&mpi_errno);
}

/* Puts the table into the state. By ethmx, so that no process reads a half of it. */
static int dynamic_put_table(const struct MPIDI_ETHMX_target *self, const struct MPIDI_ETHMX_table *table)
{
    const struct ethmx_rma_target to = dynamic_state(self);
    const struct ethmx_data data = {.base = (void *)table, .len_bytes = sizeof(*table)};
    struct MPIDI_ETHMX_wait w;
    int mpi_errno = MPI_SUCCESS;

    MPIDI_ETHMX_wait_started(
        &w, MPIDI_ETHMX_lib.rma_put(MPIDI_ETHMX_global.ep, &to, &data, ETHMX_RMA_REMOTE, MPIDI_ETHMX_wait_over, &w));
    return MPIDI_ETHMX_wait_end(&w, &mpi_errno);
}

/* Exposes these ranges, which were allocated, instead of those before. After an error the former ones stay. */
static int dynamic_publish(MPIR_Win *win, struct MPIDI_ETHMX_range *ranges, struct ethmx_region **regions, size_t count)
{
    struct MPIDI_ETHMX_window *w = MPIDI_ETHMX_WINDOW(win);
    struct MPIDI_ETHMX_table table = {.generation = w->state.table.generation + 1, .count = count};
    struct ethmx_region *table_memory;
    int status =
        MPIDI_ETHMX_lib.rma_expose(MPIDI_ETHMX_global.ep, ranges, count * sizeof(*ranges), &table_memory, &table.key);

    if (status != ETHMX_OK)
        return status;
    status = dynamic_put_table(&w->target[win->comm_ptr->rank], &table);
    if (status != ETHMX_OK) {
        dynamic_withdraw(table_memory);
        return status;
    }
    dynamic_withdraw(w->table_memory);
    MPL_free(w->ranges);
    MPL_free(w->regions);
    w->ranges = ranges;
    w->regions = regions;
    w->table_memory = table_memory;
    return ETHMX_OK;
}

/* Copies of the ranges and regions, with room for one more. */
static bool dynamic_copy(const struct MPIDI_ETHMX_window *w, struct MPIDI_ETHMX_range **ranges_p,
                         struct ethmx_region ***regions_p)
{
    size_t count = w->state.table.count;

    *ranges_p = MPL_malloc((count + 1) * sizeof(**ranges_p), MPL_MEM_RMA);
    *regions_p = MPL_malloc((count + 1) * sizeof(**regions_p), MPL_MEM_RMA);
    if (!*ranges_p || !*regions_p) {
        MPL_free(*ranges_p);
        MPL_free(*regions_p);
        return false;
    }
    if (count > 0) {
        memcpy(*ranges_p, w->ranges, count * sizeof(**ranges_p));
        memcpy(*regions_p, w->regions, count * sizeof(**regions_p));
    }
    return true;
}

int MPIDI_ETHMX_dynamic_attach(MPIR_Win *win, void *base, size_t len_bytes)
{
    struct MPIDI_ETHMX_window *w = MPIDI_ETHMX_WINDOW(win);
    size_t count = w->state.table.count;
    struct MPIDI_ETHMX_range *ranges;
    struct ethmx_region **regions;
    int status;

    if (!dynamic_copy(w, &ranges, &regions))
        return ETHMX_ERR_NO_MEMORY;
    ranges[count] = (struct MPIDI_ETHMX_range){.base = (uintptr_t)base, .len_bytes = len_bytes};
    status = MPIDI_ETHMX_lib.rma_expose(MPIDI_ETHMX_global.ep, base, len_bytes, &regions[count], &ranges[count].key);
    if (status == ETHMX_OK) {
        status = dynamic_publish(win, ranges, regions, count + 1);
        if (status == ETHMX_OK)
            return ETHMX_OK;
        dynamic_withdraw(regions[count]);
    }
    MPL_free(ranges);
    MPL_free(regions);
    return status;
}

/* Memory without length was not noted. */
int MPIDI_ETHMX_dynamic_detach(MPIR_Win *win, const void *base)
{
    struct MPIDI_ETHMX_window *w = MPIDI_ETHMX_WINDOW(win);
    size_t count = w->state.table.count, i = 0;
    struct MPIDI_ETHMX_range *ranges;
    struct ethmx_region **regions, *region;
    int status;

    while (i < count && w->ranges[i].base != (uintptr_t)base)
        i++;
    if (i == count)
        return ETHMX_OK;
    if (!dynamic_copy(w, &ranges, &regions))
        return ETHMX_ERR_NO_MEMORY;
    region = regions[i];
    ranges[i] = ranges[count - 1];
    regions[i] = regions[count - 1];
    status = dynamic_publish(win, ranges, regions, count - 1);
    if (status == ETHMX_OK) {
        dynamic_withdraw(region);
    } else {
        MPL_free(ranges);
        MPL_free(regions);
    }
    return status;
}

void MPIDI_ETHMX_dynamic_end(struct MPIDI_ETHMX_window *w, int targets)
{
    if (!w->is_dynamic)
        return;
    for (size_t i = 0; i < w->state.table.count; i++)
        dynamic_withdraw(w->regions[i]);
    dynamic_withdraw(w->table_memory);
    MPL_free(w->ranges);
    MPL_free(w->regions);
    for (int i = 0; i < targets; i++)
        MPL_free(w->target[i].ranges);
}

/* ---- There ---- */

/* Reads the ranges of a table. ETHMX_ERR_ACCESS: there is a newer one already. Another thread may do the same. */
static int dynamic_read_ranges(struct MPIDI_ETHMX_target *t, const struct MPIDI_ETHMX_table *table)
{
    const struct ethmx_rma_target from = {.peer = t->peer, .key = table->key};
    size_t len_bytes = table->count * sizeof(*t->ranges);
    struct MPIDI_ETHMX_range *ranges = MPL_malloc(len_bytes + 1, MPL_MEM_RMA), *old = ranges;
    int status;

    if (!ranges)
        return ETHMX_ERR_NO_MEMORY;
    status = len_bytes > 0 ? dynamic_read(&from, ranges, len_bytes) : ETHMX_OK;
    if (status == ETHMX_OK && table->generation > t->table.generation) {
        old = t->ranges;
        t->ranges = ranges;
        t->table = *table;
    }
    MPL_free(old);
    return status;
}

int MPIDI_ETHMX_dynamic_refresh(struct MPIDI_ETHMX_target *t)
{
    const struct ethmx_rma_target state = dynamic_state(t);
    struct MPIDI_ETHMX_table table;
    int status;

    do {
        status = dynamic_read(&state, &table, sizeof(table));
        if (status != ETHMX_OK || table.generation <= t->table.generation)
            return status;
        status = dynamic_read_ranges(t, &table);
    } while (status == ETHMX_ERR_ACCESS);
    return status;
}

size_t MPIDI_ETHMX_dynamic_locate(const struct MPIDI_ETHMX_target *t, uint64_t address, size_t len_bytes,
                                  struct ethmx_rma_target *to)
{
    for (size_t i = 0; i < t->table.count; i++) {
        const struct MPIDI_ETHMX_range *r = &t->ranges[i];

        if (address >= r->base && address - r->base < r->len_bytes) {
            uint64_t rest_bytes = r->len_bytes - (address - r->base);

            *to = (struct ethmx_rma_target){.peer = t->peer, .key = r->key, .offset = address - r->base};
            return len_bytes < rest_bytes ? len_bytes : (size_t)rest_bytes;
        }
    }
    return 0;
}
