/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Targets: their peers, the access epochs of this process, completion, and addresses.
 */
#include "osc_ethmx.h"

/* Operations on mapped memory make no progress. A program that waits by them has other things to move, and others to
 * give its core to. */
#define PROGRESS_EVERY 1024 /* completions */

int osc_ethmx_error(int status)
{
    switch (status) {
    case ETHMX_OK:
    case ETHMX_INPROGRESS:
        return OMPI_SUCCESS;
    case ETHMX_ERR_NO_MEMORY:
        return OMPI_ERR_OUT_OF_RESOURCE;
    case ETHMX_ERR_PARAM:
        return OMPI_ERR_BAD_PARAM;
    case ETHMX_ERR_ACCESS:
        return OMPI_ERR_RMA_RANGE;
    default:
        return OMPI_ERROR;
    }
}

/* ---- Peers ------------------------------------------------------------------------------------------------ */

static int target_connect(struct osc_ethmx_module *m, struct osc_ethmx_target *t)
{
    struct ompi_proc_t *proc = ompi_comm_peer_lookup(m->comm, t->rank);
    struct ethmx_peer *peer = proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL];
    if (NULL == peer) {
        int rc = m->mtl->peer_add(proc, &peer);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    t->next_used = m->used;
    m->used = t;
    __atomic_store_n(&t->peer, peer, __ATOMIC_RELEASE);
    return OMPI_SUCCESS;
}

int osc_ethmx_target(struct osc_ethmx_module *m, int rank, struct osc_ethmx_target **t_p)
{
    struct osc_ethmx_target *t = &m->targets[rank];
    int rc = OMPI_SUCCESS;
    if (OPAL_UNLIKELY(NULL == __atomic_load_n(&t->peer, __ATOMIC_ACQUIRE))) {
        OPAL_THREAD_LOCK(&m->lock);
        if (NULL == t->peer) {
            rc = target_connect(m, t);
        }
        OPAL_THREAD_UNLOCK(&m->lock);
    }
    *t_p = t;
    return rc;
}

/* ---- Epochs ----------------------------------------------------------------------------------------------- */

/* MPI_Win_lock_all locks a target when the first operation needs that. Other threads do not do the same meanwhile. */
static int target_lock(struct osc_ethmx_module *m, struct osc_ethmx_target *t)
{
    int status = ETHMX_OK;
    OPAL_THREAD_LOCK(&m->locking);
    if (OSC_ETHMX_FREE == t->held) {
        status = osc_ethmx_state_lock(t, OSC_ETHMX_SHARED);
        if (ETHMX_OK == status) {
            __atomic_store_n(&t->held, OSC_ETHMX_SHARED, __ATOMIC_RELEASE);
        }
    }
    OPAL_THREAD_UNLOCK(&m->locking);
    return osc_ethmx_error(status);
}

int osc_ethmx_access(struct osc_ethmx_module *m, int rank, struct osc_ethmx_target **t_p)
{
    struct osc_ethmx_target *t;
    int rc = osc_ethmx_target(m, rank, &t);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    *t_p = t;
    if (OSC_ETHMX_FREE != __atomic_load_n(&t->held, __ATOMIC_ACQUIRE)) {
        return OMPI_SUCCESS;
    }
    switch (m->epoch) {
    case OSC_ETHMX_FENCE:
        m->fence_used = true;
        return OMPI_SUCCESS;
    case OSC_ETHMX_START:
        return t->started ? OMPI_SUCCESS : OMPI_ERR_RMA_SYNC;
    case OSC_ETHMX_LOCK_ALL:
        return m->lock_all_nocheck ? OMPI_SUCCESS : target_lock(m, t);
    default:
        return OMPI_ERR_RMA_SYNC;
    }
}

/* ---- Completion ------------------------------------------------------------------------------------------- */

/* Of the target: waits for callbacks, and reports the first error. */
static int target_drain(struct osc_ethmx_target *t)
{
    while (0 < __atomic_load_n(&t->open, __ATOMIC_ACQUIRE)) {
        opal_progress();
    }
    return __atomic_exchange_n(&t->status, ETHMX_OK, __ATOMIC_RELAXED);
}

/* Whether a flush has to ask the target. Operations that return data are complete there when they are here. */
static bool target_is_dirty(const struct osc_ethmx_target *t)
{
    return __atomic_load_n(&t->sent, __ATOMIC_RELAXED) != __atomic_load_n(&t->flushed, __ATOMIC_RELAXED);
}

/* sent: before the flush. Flushes of several threads may end in any order: the count does not go back. */
static void target_flushed(struct osc_ethmx_target *t, uint32_t sent)
{
    uint32_t before = __atomic_load_n(&t->flushed, __ATOMIC_RELAXED);
    while ((int32_t)(sent - before) > 0 &&
           !__atomic_compare_exchange_n(&t->flushed, &before, sent, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        ;
    }
}

int osc_ethmx_complete(struct osc_ethmx_target *t, bool local)
{
    struct osc_ethmx_waiting w = {.over = false};
    int status = ETHMX_OK;
    if (!local && target_is_dirty(t)) {
        uint32_t sent = __atomic_load_n(&t->sent, __ATOMIC_RELAXED);
        status = osc_ethmx_await(&w, ethmx_rma_flush(t->module->ep, t->peer, osc_ethmx_over, &w));
        target_flushed(t, sent);
    }
    int drained = target_drain(t);
    if (0 == __atomic_add_fetch(&t->module->completions, 1, __ATOMIC_RELAXED) % PROGRESS_EVERY) {
        opal_progress();
    }
    return osc_ethmx_error(ETHMX_OK != drained ? drained : status);
}

int osc_ethmx_complete_all(struct osc_ethmx_module *m, bool local)
{
    struct osc_ethmx_waiting w = {.over = false};
    int status = ETHMX_OK;
    if (!local) {
        status = osc_ethmx_await(&w, ethmx_rma_flush(m->ep, NULL, osc_ethmx_over, &w));
    }
    OPAL_THREAD_LOCK(&m->lock);
    struct osc_ethmx_target *used = m->used;
    OPAL_THREAD_UNLOCK(&m->lock);
    for (struct osc_ethmx_target *t = used; NULL != t; t = t->next_used) {
        int drained = target_drain(t);
        if (ETHMX_OK != drained) {
            status = drained;
        }
    }
    return osc_ethmx_error(status);
}

/* ---- Addresses -------------------------------------------------------------------------------------------- */

int osc_ethmx_address(struct osc_ethmx_target *t, ptrdiff_t disp, uint64_t *address_p)
{
    if (MPI_WIN_FLAVOR_DYNAMIC == t->module->flavor) {
        *address_p = (uint64_t)disp;
        return osc_ethmx_dynamic_refresh(t);
    }
    *address_p = t->hello.memory.base + (uint64_t)(disp * (ptrdiff_t)t->hello.disp_unit);
    return OMPI_SUCCESS;
}

int osc_ethmx_locate(const struct osc_ethmx_target *t, uint64_t address, size_t *len_bytes_p,
                     struct ethmx_rma_target *to)
{
    const struct osc_ethmx_range *memory = &t->hello.memory;
    if (MPI_WIN_FLAVOR_DYNAMIC == t->module->flavor) {
        return osc_ethmx_dynamic_locate(t, address, len_bytes_p, to);
    }
    if (address < memory->base || address - memory->base > memory->len_bytes ||
        *len_bytes_p > memory->len_bytes - (address - memory->base)) {
        return OMPI_ERR_RMA_RANGE;
    }
    *to = (struct ethmx_rma_target){.peer = t->peer, .key = memory->key, .offset = address - memory->base};
    return OMPI_SUCCESS;
}

int osc_ethmx_locate_all(const struct osc_ethmx_target *t, uint64_t address, size_t len_bytes,
                         struct ethmx_rma_target *to)
{
    size_t found_bytes = len_bytes;
    int rc = osc_ethmx_locate(t, address, &found_bytes, to);
    return OMPI_SUCCESS == rc && found_bytes < len_bytes ? OMPI_ERR_RMA_RANGE : rc;
}
