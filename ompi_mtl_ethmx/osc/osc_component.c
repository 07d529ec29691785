/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Component: selection; creation and end of windows.
 *
 * When are we used? For every window whose messages go by the MTL component of ethmx, whose endpoint we use, except
 * those of MPI_Win_allocate_shared, which osc/sm makes. Never with another MTL or PML. The priority is above that of
 * all components of Open MPI, as theirs would carry such a window within a host only, or by TCP.
 */
#include "osc_ethmx.h"

#include "ompi/mca/coll/coll.h"
#include "ompi/mca/pml/base/base.h"

#include <stdlib.h>
#include <string.h>

#define PRIORITY_DEFAULT 120

static int component_register(void);
static int component_init(bool enable_progress_threads, bool enable_mpi_threads);
static int component_query(struct ompi_win_t *win, void **base, size_t size, osc_ethmx_disp_unit disp_unit,
                           struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor);
static int component_select(struct ompi_win_t *win, void **base, size_t size, osc_ethmx_disp_unit disp_unit,
                            struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor, int *model);
static int component_finalize(void);
static int component_free(struct ompi_win_t *win);

MTL_ETHMX_EXPORT extern ompi_osc_base_component_t mca_osc_ethmx_component;

ompi_osc_base_component_t mca_osc_ethmx_component = {
    .osc_version =
        {
            OSC_ETHMX_BASE_VERSION,
            .mca_component_name = "ethmx",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
            .mca_register_component_params = component_register,
        },
    .osc_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .osc_init = component_init,
    .osc_query = component_query,
    .osc_select = component_select,
    .osc_finalize = component_finalize,
};

static int component_priority;

/* ---- Selection -------------------------------------------------------------------------------------------- */

static int component_register(void)
{
    if (!mtl_ethmx_version_fits("osc")) {
        return OMPI_ERR_NOT_AVAILABLE;
    }
    component_priority = PRIORITY_DEFAULT;
    (void)mca_base_component_var_register(
        &mca_osc_ethmx_component.osc_version, "priority",
        "Priority of ethmx for one-sided communication, where messages go by the MTL component of ethmx. Never used "
        "with another one.",
        MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY, &component_priority);
    return OMPI_SUCCESS;
}

static int component_init(bool enable_progress_threads, bool enable_mpi_threads)
{
    (void)enable_progress_threads, (void)enable_mpi_threads;
    return OMPI_SUCCESS;
}

static int component_finalize(void)
{
    return OMPI_SUCCESS;
}

/* The MTL component's module, if messages go by it. The two were built together if its size is right. */
static struct mtl_ethmx_module *component_mtl(void)
{
    struct mtl_ethmx_module *mtl = (struct mtl_ethmx_module *)ompi_mtl;
    if (0 != strcmp(mca_pml_base_selected_component.pmlm_version.mca_component_name, "cm") || NULL == mtl ||
        NULL == ompi_mtl_base_selected_component ||
        0 != strcmp(ompi_mtl_base_selected_component->mtl_version.mca_component_name, "ethmx") ||
        sizeof(*mtl) != mtl->bytes || NULL == mtl->ep) {
        return NULL;
    }
    return mtl;
}

static int component_query(struct ompi_win_t *win, void **base, size_t size, osc_ethmx_disp_unit disp_unit,
                           struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor)
{
    (void)win, (void)base, (void)size, (void)disp_unit, (void)comm, (void)info;
    return MPI_WIN_FLAVOR_SHARED == flavor || NULL == component_mtl() ? -1 : component_priority;
}

/* ---- Creation --------------------------------------------------------------------------------------------- */

static int window_shared_query(struct ompi_win_t *win, int rank, size_t *size, osc_ethmx_disp_unit *disp_unit,
                               void *base)
{
    (void)win, (void)rank, (void)size, (void)disp_unit, (void)base;
    return OMPI_ERR_RMA_FLAVOR;
}

static const ompi_osc_base_module_t window_verbs = {
    .osc_win_shared_query = window_shared_query,
    .osc_win_attach = osc_ethmx_attach,
    .osc_win_detach = osc_ethmx_detach,
    .osc_free = component_free,
    .osc_put = osc_ethmx_put,
    .osc_get = osc_ethmx_get,
    .osc_accumulate = osc_ethmx_accumulate,
    .osc_compare_and_swap = osc_ethmx_compare_and_swap,
    .osc_fetch_and_op = osc_ethmx_fetch_and_op,
    .osc_get_accumulate = osc_ethmx_get_accumulate,
    .osc_rput = osc_ethmx_rput,
    .osc_rget = osc_ethmx_rget,
    .osc_raccumulate = osc_ethmx_raccumulate,
    .osc_rget_accumulate = osc_ethmx_rget_accumulate,
    .osc_fence = osc_ethmx_fence,
    .osc_start = osc_ethmx_start,
    .osc_complete = osc_ethmx_complete_epoch,
    .osc_post = osc_ethmx_post,
    .osc_wait = osc_ethmx_wait,
    .osc_test = osc_ethmx_test,
    .osc_lock = osc_ethmx_lock,
    .osc_unlock = osc_ethmx_unlock,
    .osc_lock_all = osc_ethmx_lock_all,
    .osc_unlock_all = osc_ethmx_unlock_all,
    .osc_sync = osc_ethmx_sync,
    .osc_flush = osc_ethmx_flush,
    .osc_flush_all = osc_ethmx_flush_all,
    .osc_flush_local = osc_ethmx_flush_local,
    .osc_flush_local_all = osc_ethmx_flush_local_all,
};

/* Exposes the window's memory. That of MPI_Win_allocate is ethmx's: processes of the host map it. ETHMX_*. */
static int window_expose_memory(struct osc_ethmx_module *m, void **base, size_t len_bytes, struct osc_ethmx_range *own)
{
    int status;
    if (MPI_WIN_FLAVOR_DYNAMIC == m->flavor) {
        return ETHMX_OK;
    }
    if (MPI_WIN_FLAVOR_ALLOCATE == m->flavor) {
        status = ethmx_rma_allocate(m->ep, len_bytes, base, &m->memory_region, &own->key);
    } else {
        status = ethmx_rma_expose(m->ep, *base, len_bytes, &m->memory_region, &own->key);
    }
    own->base = (uintptr_t)*base;
    own->len_bytes = len_bytes;
    return status;
}

/* Exposes the memory and the state. ETHMX_*. */
static int window_expose(struct osc_ethmx_module *m, void **base, size_t len_bytes, struct osc_ethmx_hello *hello)
{
    size_t state_bytes = sizeof(*m->state) + (size_t)m->size * sizeof(m->state->posted[0]);
    void *state;
    int status = ethmx_rma_allocate(m->ep, state_bytes, &state, &m->state_region, &hello->state_key);
    if (ETHMX_OK == status) {
        m->state = state;
        status = ethmx_rma_expose(m->ep, &m->word, sizeof(m->word), &m->word_region, &hello->word_key);
    }
    if (ETHMX_OK == status) {
        status = window_expose_memory(m, base, len_bytes, &hello->memory);
    }
    if (ETHMX_OK != status) {
        hello->state_key = 0;
    }
    return status;
}

/* Whether all processes of the window have what they need to go on. None waits for one that has not. */
static int window_agree(struct osc_ethmx_module *m, bool ready)
{
    int all = ready;
    int rc = m->comm->c_coll->coll_allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, m->comm,
                                             m->comm->c_coll->coll_allreduce_module);
    return OMPI_SUCCESS == rc && !all ? OMPI_ERR_OUT_OF_RESOURCE : rc;
}

/* Tells all processes of the window about this one, also if something has failed here (state_key 0). */
static int window_meet(struct osc_ethmx_module *m, const struct osc_ethmx_hello *own)
{
    struct osc_ethmx_hello *all = malloc((size_t)m->size * sizeof(*all));
    int rc = window_agree(m, NULL != all && NULL != m->targets);
    if (OMPI_SUCCESS != rc) {
        free(all);
        return rc;
    }
    rc = m->comm->c_coll->coll_allgather(own, sizeof(*own), MPI_BYTE, all, sizeof(*own), MPI_BYTE, m->comm,
                                         m->comm->c_coll->coll_allgather_module);
    for (int i = 0; OMPI_SUCCESS == rc && i < m->size; i++) {
        m->targets[i].module = m;
        m->targets[i].rank = i;
        m->targets[i].hello = all[i];
        rc = 0 == all[i].state_key ? OMPI_ERR_OUT_OF_RESOURCE : OMPI_SUCCESS;
    }
    free(all);
    return rc;
}

static int window_setup(struct osc_ethmx_module *m, void **base, size_t len_bytes, int64_t disp_unit)
{
    struct osc_ethmx_hello own = {.disp_unit = disp_unit};
    m->size = ompi_comm_size(m->comm);
    m->rank = ompi_comm_rank(m->comm);
    m->targets = calloc((size_t)m->size, sizeof(*m->targets));
    int status = NULL == m->targets ? ETHMX_ERR_NO_MEMORY : window_expose(m, base, len_bytes, &own);
    int rc = window_meet(m, &own);
    return ETHMX_OK != status ? osc_ethmx_error(status) : rc;
}

static void window_destroy(struct osc_ethmx_module *m)
{
    osc_ethmx_dynamic_end(m);
    osc_ethmx_withdraw(m, m->memory_region);
    osc_ethmx_withdraw(m, m->word_region);
    osc_ethmx_withdraw(m, m->state_region);
    if (NULL != m->comm) {
        ompi_comm_free(&m->comm);
    }
    for (int i = 0; NULL != m->targets && i < m->size; i++) {
        free(m->targets[i].ranges);
    }
    free(m->targets);
    free(m->started);
    osc_ethmx_watch_end(&m->waiting);
    free(m->posted_to);
    OBJ_DESTRUCT(&m->lock);
    OBJ_DESTRUCT(&m->locking);
    free(m);
}

static int component_select(struct ompi_win_t *win, void **base, size_t size, osc_ethmx_disp_unit disp_unit,
                            struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor, int *model)
{
    (void)info;
    struct osc_ethmx_module *m = calloc(1, sizeof(*m));
    if (NULL == m) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    m->super = window_verbs;
    m->mtl = component_mtl();
    m->ep = m->mtl->ep;
    m->flavor = flavor;
    OBJ_CONSTRUCT(&m->lock, opal_mutex_t);
    OBJ_CONSTRUCT(&m->locking, opal_mutex_t);
    int rc = ompi_comm_dup(comm, &m->comm);
    if (OMPI_SUCCESS == rc) {
        rc = window_setup(m, base, size, disp_unit);
    }
    if (OMPI_SUCCESS != rc) {
        window_destroy(m);
        return rc;
    }
    *model = MPI_WIN_UNIFIED;
    win->w_osc_module = &m->super;
    return OMPI_SUCCESS;
}

/* ---- The end ---------------------------------------------------------------------------------------------- */

/* All that this process has started, also the release of locks, arrives before anybody withdraws a region. If a process
 * has died, nobody waits for it: the window ends here, and with an error. */
static int component_free(struct ompi_win_t *win)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    if (m->locks > 0 || OSC_ETHMX_START == m->epoch || OSC_ETHMX_LOCK_ALL == m->epoch || m->posted) {
        return OMPI_ERR_RMA_SYNC;
    }
    int rc = osc_ethmx_complete_all(m, false);
    int barrier = osc_ethmx_error(osc_ethmx_state_barrier(m));
    window_destroy(m);
    win->w_osc_module = NULL;
    return OMPI_SUCCESS != barrier ? barrier : rc;
}
