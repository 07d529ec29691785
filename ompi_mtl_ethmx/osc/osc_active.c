/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Active target synchronisation. Fence is completion and a barrier. Post adds to a counter of each origin, for which
 * start waits; complete adds to a counter of each target, for which wait waits. All of them wait by osc_watch.c: they
 * end with an error if a process dies that they wait for.
 */
#include "osc_ethmx.h"

/* Locks are held, or an access epoch of another kind is open. */
static bool active_is_open(const struct osc_ethmx_module *m)
{
    return m->locks > 0 || OSC_ETHMX_START == m->epoch || OSC_ETHMX_LOCK_ALL == m->epoch;
}

/* ---- Fence ------------------------------------------------------------------------------------------------ */

int osc_ethmx_fence(int assert, struct ompi_win_t *win)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    int rc = OMPI_SUCCESS;
    if (active_is_open(m) || m->posted) {
        return OMPI_ERR_RMA_SYNC;
    }
    if (0 == (assert &MPI_MODE_NOPRECEDE)) {
        rc = osc_ethmx_complete_all(m, false);
    }
    m->epoch = assert &MPI_MODE_NOSUCCEED ? OSC_ETHMX_NONE : OSC_ETHMX_FENCE;
    m->fence_used = false;
    int barrier = osc_ethmx_error(osc_ethmx_state_barrier(m));
    return OMPI_SUCCESS != rc ? rc : barrier;
}

/* ---- Start, complete -------------------------------------------------------------------------------------- */

/* The ranks of a group in the window; to be freed. */
static int *active_ranks(const struct osc_ethmx_module *m, ompi_group_t *group)
{
    int count = ompi_group_size(group);
    int *ranks = malloc(((size_t)count + 1) * sizeof(*ranks)), *own = calloc((size_t)count + 1, sizeof(*own));
    bool ok = NULL != ranks && NULL != own;
    for (int i = 0; ok && i < count; i++) {
        own[i] = i;
    }
    ok = ok && OMPI_SUCCESS == ompi_group_translate_ranks(group, count, own, m->comm->c_local_group, ranks);
    for (int i = 0; ok && i < count; i++) {
        ok = ranks[i] >= 0;
    }
    free(own);
    if (!ok) {
        free(ranks);
        return NULL;
    }
    return ranks;
}

/* Waits until the target has posted. */
static int active_await_post(struct osc_ethmx_module *m, const struct osc_ethmx_target *t)
{
    struct osc_ethmx_watch w = {.module = m, .ranks = &t->rank, .count = 1};
    int status = ETHMX_OK;
    while (ETHMX_OK == status && __atomic_load_n(&m->state->posted[t->rank], __ATOMIC_ACQUIRE) == t->posts_taken) {
        status = osc_ethmx_watch(&w);
    }
    osc_ethmx_watch_end(&w);
    return osc_ethmx_error(status);
}

static int active_start(struct osc_ethmx_module *m, bool nocheck)
{
    for (int i = 0; i < m->start_count; i++) {
        struct osc_ethmx_target *t;
        int rc = osc_ethmx_target(m, m->started[i], &t);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
        if (!nocheck && OMPI_SUCCESS != (rc = active_await_post(m, t))) {
            return rc;
        }
        t->posts_taken += !nocheck;
        t->started = true;
    }
    return OMPI_SUCCESS;
}

static void active_end_access(struct osc_ethmx_module *m)
{
    for (int i = 0; i < m->start_count; i++) {
        m->targets[m->started[i]].started = false;
    }
    free(m->started);
    m->started = NULL;
    m->start_count = 0;
    m->epoch = OSC_ETHMX_NONE;
}

int osc_ethmx_start(ompi_group_t *group, int assert, struct ompi_win_t *win)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    OPAL_THREAD_LOCK(&m->lock);
    bool open = active_is_open(m) || (OSC_ETHMX_FENCE == m->epoch && m->fence_used);
    if (!open) {
        m->epoch = OSC_ETHMX_START;
    }
    OPAL_THREAD_UNLOCK(&m->lock);
    if (open) {
        return OMPI_ERR_RMA_SYNC;
    }
    m->start_count = ompi_group_size(group);
    m->started = active_ranks(m, group);
    if (NULL == m->started) {
        m->epoch = OSC_ETHMX_NONE;
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    int rc = active_start(m, 0 != (assert &MPI_MODE_NOCHECK));
    if (OMPI_SUCCESS != rc) {
        active_end_access(m);
    }
    return rc;
}

int osc_ethmx_complete_epoch(struct ompi_win_t *win)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    if (OSC_ETHMX_START != m->epoch) {
        return OMPI_ERR_RMA_SYNC;
    }
    int rc = osc_ethmx_complete_all(m, false);
    for (int i = 0; i < m->start_count; i++) {
        struct osc_ethmx_target *t = &m->targets[m->started[i]];
        int told = osc_ethmx_error(osc_ethmx_state_add(t, OSC_ETHMX_STATE(completed), 1));
        rc = OMPI_SUCCESS != rc ? rc : told;
    }
    active_end_access(m);
    return rc;
}

/* ---- Post, wait ------------------------------------------------------------------------------------------- */

static int active_post(struct osc_ethmx_module *m, const int *ranks, int count)
{
    for (int i = 0; i < count; i++) {
        struct osc_ethmx_target *t;
        int rc = osc_ethmx_target(m, ranks[i], &t);
        if (OMPI_SUCCESS == rc) {
            rc = osc_ethmx_error(
                osc_ethmx_state_add(t, OSC_ETHMX_STATE(posted) + (size_t)m->rank * sizeof(uint64_t), 1));
        }
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    return OMPI_SUCCESS;
}

int osc_ethmx_post(ompi_group_t *group, int assert, struct ompi_win_t *win)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    OPAL_THREAD_LOCK(&m->lock);
    bool posted = m->posted;
    m->posted = true;
    OPAL_THREAD_UNLOCK(&m->lock);
    if (posted) {
        return OMPI_ERR_RMA_SYNC;
    }
    int *ranks = active_ranks(m, group);
    if (NULL == ranks) {
        m->posted = false;
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    m->post_count = ompi_group_size(group);
    m->posted_to = ranks;
    m->waiting = (struct osc_ethmx_watch){.module = m, .ranks = ranks, .count = m->post_count};
    return assert &MPI_MODE_NOCHECK ? OMPI_SUCCESS : active_post(m, ranks, m->post_count);
}

static bool active_is_complete(const struct osc_ethmx_module *m)
{
    return __atomic_load_n(&m->state->completed, __ATOMIC_ACQUIRE) - m->completes_taken >= (uint64_t)m->post_count;
}

static void active_end(struct osc_ethmx_module *m)
{
    m->completes_taken += (uint64_t)m->post_count;
    osc_ethmx_watch_end(&m->waiting);
    free(m->posted_to);
    m->posted_to = NULL;
    m->post_count = 0;
    m->posted = false;
}

int osc_ethmx_wait(struct ompi_win_t *win)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    if (!m->posted) {
        return OMPI_ERR_RMA_SYNC;
    }
    int status = ETHMX_OK;
    while (ETHMX_OK == status && !active_is_complete(m)) {
        status = osc_ethmx_watch(&m->waiting);
    }
    active_end(m);
    return osc_ethmx_error(status);
}

int osc_ethmx_test(struct ompi_win_t *win, int *flag)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    if (!m->posted) {
        return OMPI_ERR_RMA_SYNC;
    }
    int status = osc_ethmx_watch(&m->waiting);
    *flag = active_is_complete(m);
    if (*flag || ETHMX_OK != status) {
        active_end(m);
    }
    return *flag ? OMPI_SUCCESS : osc_ethmx_error(status);
}
