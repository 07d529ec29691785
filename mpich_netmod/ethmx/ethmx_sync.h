/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Synchronization of windows. Fences and post-start-complete-wait are ch4's, over barriers and active messages, and
 * call back here for the completion of the core's operations. Locks of windows of the core (ethmx_window.h) are taken
 * without the target's program. Then ch4 is told to send no messages for them (MPI_MODE_NOCHECK), but keeps its record
 * of epochs.
 */
#ifndef ETHMX_SYNC_H_INCLUDED
#define ETHMX_SYNC_H_INCLUDED

#include "ethmx_window.h"

/* ---- Completion ---- */

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_win_cmpl_hook(MPIR_Win *win)
{
    return MPIDI_ETHMX_WINDOW(win) ? MPIDI_ETHMX_complete_there(MPIDI_ETHMX_ALL_RANKS, win) : MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_win_local_cmpl_hook(MPIR_Win *win)
{
    return MPIDI_ETHMX_WINDOW(win) ? MPIDI_ETHMX_complete_here(MPIDI_ETHMX_ALL_RANKS, win) : MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_target_cmpl_hook(int rank, MPIR_Win *win)
{
    return MPIDI_ETHMX_WINDOW(win) ? MPIDI_ETHMX_complete_there(rank, win) : MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_target_local_cmpl_hook(int rank, MPIR_Win *win)
{
    return MPIDI_ETHMX_WINDOW(win) ? MPIDI_ETHMX_complete_here(rank, win) : MPI_SUCCESS;
}

/* ---- Locks ---- */

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_lock(int lock_type, int rank, int assert, MPIR_Win *win,
                                                   MPIDI_av_entry_t *addr)
{
    int mpi_errno;

    if (!MPIDI_ETHMX_WINDOW(win))
        return MPIDIG_mpi_win_lock(lock_type, rank, assert, win);
    mpi_errno = MPIDIG_mpi_win_lock(lock_type, rank, assert | MPI_MODE_NOCHECK, win);
    if (mpi_errno != MPI_SUCCESS || assert & MPI_MODE_NOCHECK)
        return mpi_errno;
    return MPIDI_ETHMX_lock(lock_type, rank, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_unlock(int rank, MPIR_Win *win, MPIDI_av_entry_t *addr)
{
    int mpi_errno = MPIDIG_mpi_win_unlock(rank, win);
    int released = MPIDI_ETHMX_WINDOW(win) ? MPIDI_ETHMX_unlock(rank, win) : MPI_SUCCESS;

    return mpi_errno != MPI_SUCCESS ? mpi_errno : released;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_lock_all(int assert, MPIR_Win *win)
{
    int mpi_errno;

    if (!MPIDI_ETHMX_WINDOW(win))
        return MPIDIG_mpi_win_lock_all(assert, win);
    mpi_errno = MPIDIG_mpi_win_lock_all(assert | MPI_MODE_NOCHECK, win);
    if (mpi_errno != MPI_SUCCESS || assert & MPI_MODE_NOCHECK)
        return mpi_errno;
    return MPIDI_ETHMX_lock_all(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_unlock_all(MPIR_Win *win)
{
    int mpi_errno = MPIDIG_mpi_win_unlock_all(win);
    int released = MPIDI_ETHMX_WINDOW(win) ? MPIDI_ETHMX_unlock_all(win) : MPI_SUCCESS;

    return mpi_errno != MPI_SUCCESS ? mpi_errno : released;
}

/* ---- ch4's ---- */

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_start(MPIR_Group *group, int assert, MPIR_Win *win)
{
    return MPIDIG_mpi_win_start(group, assert, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_complete(MPIR_Win *win)
{
    return MPIDIG_mpi_win_complete(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_post(MPIR_Group *group, int assert, MPIR_Win *win)
{
    return MPIDIG_mpi_win_post(group, assert, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_wait(MPIR_Win *win)
{
    return MPIDIG_mpi_win_wait(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_test(MPIR_Win *win, int *flag)
{
    return MPIDIG_mpi_win_test(win, flag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_fence(int assert, MPIR_Win *win)
{
    return MPIDIG_mpi_win_fence(assert, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_shared_query(MPIR_Win *win, int rank, MPI_Aint *size, int *disp_unit,
                                                           void *baseptr)
{
    return MPIDIG_mpi_win_shared_query(win, rank, size, disp_unit, baseptr);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_flush(int rank, MPIR_Win *win, MPIDI_av_entry_t *addr)
{
    return MPIDIG_mpi_win_flush(rank, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_flush_local(int rank, MPIR_Win *win, MPIDI_av_entry_t *addr)
{
    return MPIDIG_mpi_win_flush_local(rank, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_flush_all(MPIR_Win *win)
{
    return MPIDIG_mpi_win_flush_all(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_flush_local_all(MPIR_Win *win)
{
    return MPIDIG_mpi_win_flush_local_all(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_sync(MPIR_Win *win)
{
    return MPIDIG_mpi_win_sync(win);
}

#endif
