/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Passive target synchronisation: locks and flushes. MPI_Win_lock gets its lock in the call. MPI_Win_lock_all only gets
 * that of this process, whose memory the program may access without a call; other targets are locked by the first
 * operation (osc_target.c).
 */
#include "osc_ethmx.h"

/* ---- Lock of one target ----------------------------------------------------------------------------------- */

/* Counts a lock, if there may be one now. */
static int passive_begin(struct osc_ethmx_module *m, const struct osc_ethmx_target *t)
{
    int rc = OMPI_SUCCESS;
    OPAL_THREAD_LOCK(&m->lock);
    if (OSC_ETHMX_START == m->epoch || OSC_ETHMX_LOCK_ALL == m->epoch || OSC_ETHMX_FREE != t->held ||
        (OSC_ETHMX_FENCE == m->epoch && m->fence_used)) {
        rc = OMPI_ERR_RMA_SYNC;
    } else {
        m->epoch = OSC_ETHMX_NONE;
        m->locks++;
    }
    OPAL_THREAD_UNLOCK(&m->lock);
    return rc;
}

static void passive_end(struct osc_ethmx_module *m)
{
    OPAL_THREAD_LOCK(&m->lock);
    m->locks--;
    OPAL_THREAD_UNLOCK(&m->lock);
}

int osc_ethmx_lock(int lock_type, int rank, int assert, struct ompi_win_t *win)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    enum osc_ethmx_held held = assert &MPI_MODE_NOCHECK       ? OSC_ETHMX_NOCHECK
                               : MPI_LOCK_SHARED == lock_type ? OSC_ETHMX_SHARED
                                                              : OSC_ETHMX_ALONE;
    struct osc_ethmx_target *t;
    int rc = osc_ethmx_target(m, rank, &t);
    if (OMPI_SUCCESS != rc || OMPI_SUCCESS != (rc = passive_begin(m, t))) {
        return rc;
    }
    rc = osc_ethmx_error(osc_ethmx_state_lock(t, held));
    if (OMPI_SUCCESS != rc) {
        passive_end(m);
        return rc;
    }
    __atomic_store_n(&t->held, held, __ATOMIC_RELEASE);
    return OMPI_SUCCESS;
}

/* Gives a lock back, after all operations are complete. */
static int passive_release(struct osc_ethmx_target *t)
{
    enum osc_ethmx_held held = t->held;
    __atomic_store_n(&t->held, OSC_ETHMX_FREE, __ATOMIC_RELEASE);
    return osc_ethmx_error(osc_ethmx_state_unlock(t, held));
}

int osc_ethmx_unlock(int rank, struct ompi_win_t *win)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    struct osc_ethmx_target *t = &m->targets[rank];
    if (0 == m->locks || OSC_ETHMX_FREE == t->held) {
        return OMPI_ERR_RMA_SYNC;
    }
    int rc = osc_ethmx_complete(t, false), released = passive_release(t);
    passive_end(m);
    return OMPI_SUCCESS != rc ? rc : released;
}

/* ---- Lock of all targets ---------------------------------------------------------------------------------- */

static int passive_lock_self(struct osc_ethmx_module *m)
{
    struct osc_ethmx_target *self;
    int rc = osc_ethmx_target(m, m->rank, &self);
    if (OMPI_SUCCESS == rc) {
        rc = osc_ethmx_error(osc_ethmx_state_lock(self, OSC_ETHMX_SHARED));
    }
    if (OMPI_SUCCESS == rc) {
        __atomic_store_n(&self->held, OSC_ETHMX_SHARED, __ATOMIC_RELEASE);
    }
    return rc;
}

int osc_ethmx_lock_all(int assert, struct ompi_win_t *win)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    OPAL_THREAD_LOCK(&m->lock);
    bool open = m->locks > 0 || OSC_ETHMX_START == m->epoch || OSC_ETHMX_LOCK_ALL == m->epoch ||
                (OSC_ETHMX_FENCE == m->epoch && m->fence_used);
    if (!open) {
        m->epoch = OSC_ETHMX_LOCK_ALL;
        m->lock_all_nocheck = 0 != (assert &MPI_MODE_NOCHECK);
    }
    OPAL_THREAD_UNLOCK(&m->lock);
    if (open) {
        return OMPI_ERR_RMA_SYNC;
    }
    int rc = m->lock_all_nocheck ? OMPI_SUCCESS : passive_lock_self(m);
    if (OMPI_SUCCESS != rc) {
        m->epoch = OSC_ETHMX_NONE;
    }
    return rc;
}

int osc_ethmx_unlock_all(struct ompi_win_t *win)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    if (OSC_ETHMX_LOCK_ALL != m->epoch) {
        return OMPI_ERR_RMA_SYNC;
    }
    int rc = osc_ethmx_complete_all(m, false);
    for (struct osc_ethmx_target *t = m->used; NULL != t; t = t->next_used) {
        int released = OSC_ETHMX_FREE == t->held ? OMPI_SUCCESS : passive_release(t);
        rc = OMPI_SUCCESS != rc ? rc : released;
    }
    m->epoch = OSC_ETHMX_NONE;
    return rc;
}

/* ---- Flushes ---------------------------------------------------------------------------------------------- */

static bool passive_is_open(const struct osc_ethmx_module *m)
{
    return m->locks > 0 || OSC_ETHMX_LOCK_ALL == m->epoch;
}

static int passive_flush(int rank, struct ompi_win_t *win, bool local)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    struct osc_ethmx_target *t = &m->targets[rank];
    if (OSC_ETHMX_LOCK_ALL != m->epoch && OSC_ETHMX_FREE == t->held) {
        return OMPI_ERR_RMA_SYNC;
    }
    /* Without a peer there was no operation. */
    return NULL == __atomic_load_n(&t->peer, __ATOMIC_ACQUIRE) ? OMPI_SUCCESS : osc_ethmx_complete(t, local);
}

static int passive_flush_all(struct ompi_win_t *win, bool local)
{
    struct osc_ethmx_module *m = osc_ethmx_module(win);
    return passive_is_open(m) ? osc_ethmx_complete_all(m, local) : OMPI_ERR_RMA_SYNC;
}

int osc_ethmx_flush(int rank, struct ompi_win_t *win)
{
    return passive_flush(rank, win, false);
}

int osc_ethmx_flush_local(int rank, struct ompi_win_t *win)
{
    return passive_flush(rank, win, true);
}

int osc_ethmx_flush_all(struct ompi_win_t *win)
{
    return passive_flush_all(win, false);
}

int osc_ethmx_flush_local_all(struct ompi_win_t *win)
{
    return passive_flush_all(win, true);
}

/* What peers have written is in memory already. Programs that wait for it call this in a loop: it moves frames, too. */
int osc_ethmx_sync(struct ompi_win_t *win)
{
    (void)win;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    opal_progress();
    return OMPI_SUCCESS;
}
